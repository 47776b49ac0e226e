"""Readiness is an answer: not an open port, not a half of a frame, and not some other server."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import contextmanager

import pytest

from schemaquake.clusters.cql.protocol import answers_cql
from schemaquake.harness.wait import pause_for

OPTIONS = bytes([0x04, 0, 0, 0, 0x05, 0, 0, 0, 0])
SUPPORTED = struct.pack(">BBhBi", 0x84, 0, 0, 0x06, 2) + b"\0\0"
ERROR = struct.pack(">BBhBi", 0x84, 0, 0, 0x00, 0)
READY = struct.pack(">BBhBi", 0x84, 0, 0, 0x02, 0)


@contextmanager
def server(*pieces, pause_s=0.0, hang=False):
    """A server on the loopback that reads one request, then sends the pieces; `asked` holds what it was sent."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked = []
    done = threading.Event()

    def serve():
        connection, _ = listener.accept()
        with connection:
            asked.append(connection.recv(64))
            for piece in pieces:
                connection.sendall(piece)
                pause_for(pause_s)
            if hang:
                done.wait(10)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], asked
    finally:
        done.set()
        thread.join(5)
        listener.close()


def test_a_node_that_lists_its_options_serves():
    with server(SUPPORTED) as (port, asked):
        assert answers_cql("127.0.0.1", port)
    assert asked == [OPTIONS]


def test_the_version_asked_for_is_the_one_in_the_frame():
    with server(SUPPORTED) as (port, asked):
        assert answers_cql("127.0.0.1", port, version=3)
    assert asked[0][0] == 3


def test_an_answer_in_pieces_is_an_answer():
    with server(*(bytes([octet]) for octet in SUPPORTED[:9]), pause_s=0.01) as (port, _):
        assert answers_cql("127.0.0.1", port)


def test_refusing_the_protocol_version_is_an_answer():
    with server(ERROR) as (port, _):
        assert answers_cql("127.0.0.1", port)


@pytest.mark.parametrize(
    "pieces",
    [(), (SUPPORTED[:5],), (READY,), (b"HTTP/1.1 400 Bad Request\r\n\r\n",)],
    ids=["nothing", "half", "ready", "http"],
)
def test_anything_else_is_none(pieces):
    with server(*pieces) as (port, _):
        assert not answers_cql("127.0.0.1", port)


def test_a_node_that_accepts_but_never_answers_does_not_serve():
    with server(hang=True) as (port, _):
        began = time.monotonic()
        assert not answers_cql("127.0.0.1", port, timeout_s=0.2)
        assert time.monotonic() - began < 5


def test_a_closed_port_does_not_serve():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not answers_cql("127.0.0.1", port)
