"""Readiness is an answer: not an open port, not a half of a frame, and not some other server."""

from __future__ import annotations

import socket
import struct
import time

import pytest
from one_request_server import one_request_server

from schemaquake.clusters.cql.protocol import answers_cql

OPTIONS = bytes([0x04, 0, 0, 0, 0x05, 0, 0, 0, 0])
SUPPORTED = struct.pack(">BBhBi", 0x84, 0, 0, 0x06, 2) + b"\0\0"
ERROR = struct.pack(">BBhBi", 0x84, 0, 0, 0x00, 0)
READY = struct.pack(">BBhBi", 0x84, 0, 0, 0x02, 0)


def test_a_node_that_lists_its_options_serves():
    with one_request_server(SUPPORTED) as (port, asked):
        assert answers_cql("127.0.0.1", port)
    assert asked == [OPTIONS]


def test_the_version_asked_for_is_the_one_in_the_frame():
    with one_request_server(SUPPORTED) as (port, asked):
        assert answers_cql("127.0.0.1", port, version=3)
    assert asked[0][0] == 3


def test_an_answer_in_pieces_is_an_answer():
    with one_request_server(*(bytes([octet]) for octet in SUPPORTED[:9]), pause_s=0.01) as (port, _):
        assert answers_cql("127.0.0.1", port)


def test_refusing_the_protocol_version_is_an_answer():
    with one_request_server(ERROR) as (port, _):
        assert answers_cql("127.0.0.1", port)


@pytest.mark.parametrize(
    "pieces",
    [(), (SUPPORTED[:5],), (READY,), (b"HTTP/1.1 400 Bad Request\r\n\r\n",)],
    ids=["nothing", "half", "ready", "http"],
)
def test_anything_else_is_none(pieces):
    with one_request_server(*pieces) as (port, _):
        assert not answers_cql("127.0.0.1", port)


def test_a_node_that_accepts_but_never_answers_does_not_serve():
    with one_request_server(hang=True) as (port, _):
        began = time.monotonic()
        assert not answers_cql("127.0.0.1", port, timeout_s=0.2)
        assert time.monotonic() - began < 5


def test_a_closed_port_does_not_serve():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not answers_cql("127.0.0.1", port)
