"""Readiness of a Thrift server is an answer: not an open port, not half of a frame, and not some other server."""

from __future__ import annotations

import socket
import struct
import time

import pytest
from one_request_server import one_request_server
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.transport import TMemoryBuffer

from schemaquake.clusters.thrift.protocol import answers_thrift

CALL, REPLY, EXCEPTION = 1, 2, 3


def message(kind, version=0x8001):
    body = struct.pack(">HHi", version, kind, 16) + b"describe_version" + struct.pack(">i", 0) + b"\0"
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("kind", [REPLY, EXCEPTION])
def test_any_answer_to_the_call_is_an_answer(kind):
    with one_request_server(message(kind)) as (port, _):
        assert answers_thrift("127.0.0.1", port)


def test_what_is_asked_is_a_framed_call_that_others_can_read():
    with one_request_server(message(REPLY)) as (port, asked):
        answers_thrift("127.0.0.1", port)
    (frame,) = asked
    assert struct.unpack(">i", frame[:4]) == (len(frame) - 4,)
    protocol = TBinaryProtocolFactory(strict_read=True).get_protocol(TMemoryBuffer(frame[4:]))
    assert protocol.read_message_begin() == ("describe_version", CALL, 0)
    assert frame[-1:] == b"\0", "a structure of no arguments"


def test_an_answer_in_pieces_is_an_answer():
    with one_request_server(*(bytes([octet]) for octet in message(REPLY)[:8]), pause_s=0.01) as (port, _):
        assert answers_thrift("127.0.0.1", port)


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (message(REPLY)[:5],),
        (message(CALL),),
        (message(REPLY, version=0x8002),),
        (b"HTTP/1.1 400 Bad Request\r\n",),
    ],
    ids=["nothing", "half", "a call", "another protocol", "http"],
)
def test_anything_else_is_none(pieces):
    with one_request_server(*pieces) as (port, _):
        assert not answers_thrift("127.0.0.1", port)


def test_a_node_that_accepts_but_never_answers_does_not_serve():
    with one_request_server(hang=True) as (port, _):
        began = time.monotonic()
        assert not answers_thrift("127.0.0.1", port, timeout_s=0.2)
        assert time.monotonic() - began < 5


def test_a_closed_port_does_not_serve():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not answers_thrift("127.0.0.1", port)
