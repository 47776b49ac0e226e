"""Thrift protocol: the one call that shows that a node answers Thrift.

Readiness is an answer, not a log line and not an open port: `describe_version` needs no keyspace and no login, and is
answered from the moment the Thrift server runs. The message is written by hand, framed and in the binary protocol, so
it needs no interface definition. Source: the Thrift binary protocol encoding, strict messages.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

__all__ = ["answers_thrift"]

_VERSION: Final = 0x8001
_CALL: Final = 1
_REPLY: Final = 2
_EXCEPTION: Final = 3
_METHOD: Final = b"describe_version"
_HEAD: Final = struct.Struct(">iHH")  # length of the frame, version of the protocol, type of the message


def answers_thrift(address: str, port: int, *, timeout_s: float = 1.0) -> bool:
    """Return True if the node replies to `describe_version`. An exception of Thrift's own is an answer, too."""
    # The call's name, its sequence number, and an empty structure of arguments, which is an end marker alone.
    body = struct.pack(">i", len(_METHOD)) + _METHOD + struct.pack(">iB", 0, 0)
    try:
        with socket.create_connection((address, port), timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(_HEAD.pack(len(body) + 4, _VERSION, _CALL) + body)
            head = b""
            while len(head) < _HEAD.size:
                received = connection.recv(_HEAD.size - len(head))
                if not received:
                    return False
                head += received
    except OSError:
        return False
    _, version, kind = _HEAD.unpack(head)
    return version == _VERSION and kind in {_REPLY, _EXCEPTION}
