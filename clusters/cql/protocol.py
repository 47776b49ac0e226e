"""Native protocol: the two frames that show that a node answers CQL.

Readiness is an answer, not a log line and not an open port: OPTIONS needs no authentication and no session, and a node
replies with SUPPORTED only once its native transport runs. Source: the native protocol specification, version 4, §2.
"""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Final

__all__ = ["answers_cql"]

_HEADER: Final = struct.Struct(">BBhBi")
_OPTIONS: Final = 0x05
_ERROR: Final = 0x00
_SUPPORTED: Final = 0x06


def answers_cql(
    address: str, port: int, *, version: int = 4, timeout_s: float = 1.0, tls: ssl.SSLContext | None = None
) -> bool:
    """Return True if the node replies to OPTIONS. An ERROR frame (another protocol version) is an answer, too.

    With `tls` the request is encrypted; a node whose certificate that context does not accept has not answered.
    """
    try:
        with _connection(address, port, timeout_s, tls) as connection:
            connection.sendall(_HEADER.pack(version, 0, 0, _OPTIONS, 0))
            header = b""
            while len(header) < _HEADER.size:
                received = connection.recv(_HEADER.size - len(header))
                if not received:
                    return False
                header += received
    except OSError:
        return False
    return _HEADER.unpack(header)[3] in {_SUPPORTED, _ERROR}


def _connection(address: str, port: int, timeout_s: float, tls: ssl.SSLContext | None) -> socket.socket:
    """Open a connection, encrypted if a TLS context is given. Raises OSError."""
    plain = socket.create_connection((address, port), timeout=timeout_s)
    if tls is None:
        return plain
    try:
        return tls.wrap_socket(plain, server_hostname=address)
    except OSError:
        plain.close()
        raise
