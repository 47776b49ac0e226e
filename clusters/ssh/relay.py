"""Relay: a port of this machine's loopback whose connections end at a host behind a jump host, for programs that know no jumps.

It stands for a moment, while `ssh-keyscan` asks a host for its certificates. Whoever else connects meanwhile reaches that
host's sshd and nothing more.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import paramiko

__all__ = ["relayed"]

_CHUNK: Final = 1 << 15
_CONNECTIONS_MOST: Final = 16


@contextmanager
def relayed(open_channel: Callable[[], paramiko.Channel]) -> Iterator[int]:
    """Yield a port of 127.0.0.1, each connection to which goes through a channel of its own; a few at most.

    `open_channel` may raise whatever it likes: that connection is then closed.
    """
    ending = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        open_ends: list[socket.socket | paramiko.Channel] = []
        accepting = threading.Thread(
            target=_accept, args=(listener, open_channel, open_ends, ending), name="relay", daemon=True
        )
        accepting.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ending.set()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # ends a waiting accept
            accepting.join()
            for end in open_ends:
                end.close()


def _accept(
    listener: socket.socket,
    open_channel: Callable[[], paramiko.Channel],
    open_ends: list[socket.socket | paramiko.Channel],
    ending: threading.Event,
) -> None:
    for _ in range(_CONNECTIONS_MOST):
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        if ending.is_set():
            connection.close()
            return
        try:
            channel = open_channel()
        except Exception:  # noqa: BLE001 - who connected sees a host that hangs up
            connection.close()
            continue
        open_ends += [connection, channel]
        for source, sink in ((connection, channel), (channel, connection)):
            threading.Thread(target=_pump, args=(source, sink), name="relay", daemon=True).start()


def _pump(source: socket.socket | paramiko.Channel, sink: socket.socket | paramiko.Channel) -> None:
    """Carry bytes until one of the two ends, then end both."""
    with suppress(OSError, EOFError):
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
    for end in (source, sink):
        with suppress(OSError, EOFError):
            end.shutdown(socket.SHUT_RDWR)
