"""One-request server: a server on the loopback that answers a single request with given bytes, whole or in pieces."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from schemaquake.harness.wait import pause_for

__all__ = ["one_request_server"]

_REQUEST_MOST = 128


@contextmanager
def one_request_server(*pieces: bytes, pause_s: float = 0.0, hang: bool = False) -> Iterator[tuple[int, list[bytes]]]:
    """Serve one request with the pieces; yield the port, and a list that will hold the request. `hang`: never close."""
    listener = socket.create_server(("127.0.0.1", 0))
    requests: list[bytes] = []
    done = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            requests.append(connection.recv(_REQUEST_MOST))
            for piece in pieces:
                connection.sendall(piece)
                pause_for(pause_s)
            if hang:
                done.wait(10)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], requests
    finally:
        done.set()
        thread.join(5)
        listener.close()
