"""The read barrier: what is asked for, and what is told where there is none; and how readings of the CQL client have one."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace

import pytest
from scylla_node import GROUP, Rest, ScyllaNode, serving, state_id

from schemaquake.clusters.cql import client as cql_client
from schemaquake.clusters.cql.client import CqlConnector
from schemaquake.clusters.systems.scylladb.read_barrier import Group0Barrier
from schemaquake.clusters.systems.scylladb.rest import read_barrier
from schemaquake.clusters.systems.system import parse_system


def test_a_barrier_is_asked_for_once_and_in_time_for_the_servers_own_words():
    rest = Rest()
    with serving(rest) as (address, port):
        barrier = read_barrier(address, port=port, timeout_s=8)
    assert barrier.passed
    assert set(barrier.to_json()) == {"passed", "seconds"}
    assert rest.asked == [("POST", "/raft/read_barrier?timeout=7")]


def test_without_a_majority_there_is_none_and_the_server_says_why():
    with serving(Rest(quorum=False)) as (address, port):
        told = read_barrier(address, port=port, timeout_s=8).to_json()
    assert told["passed"] is False
    assert "there is no raft quorum" in str(told["why"])
    assert ": 500 " in str(told["why"])


def test_an_interface_that_cannot_be_reached_is_no_error():
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        told = read_barrier("127.0.0.1", port=taken.getsockname()[1], timeout_s=2).to_json()
    assert told["passed"] is False
    assert "ConnectionRefusedError" in str(told["why"])


def test_an_interface_that_does_not_answer_is_waited_for_no_longer_than_said():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        barrier = read_barrier("127.0.0.1", port=silent.getsockname()[1], timeout_s=0.3)
    assert not barrier.passed
    assert 0.25 < barrier.seconds < 5


def test_what_is_no_http_is_no_barrier():
    with serving(Rest()) as (address, port):
        assert read_barrier(address, port=port, timeout_s=2).passed
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(5)

        def speak():
            connection, _ = other.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = threading.Thread(target=speak)
        thread.start()
        told = read_barrier("127.0.0.1", port=other.getsockname()[1], timeout_s=2).to_json()
        thread.join()
    assert "BadStatusLine" in str(told["why"])


# ── readings of the client ───────────────────────────────────────────────────────────────────────────────────────────


class Session:
    """A driver's session with a node of `scylla_node`."""

    def __init__(self, node):
        self.node = node
        self.client_protocol_handler = None

    def get_pool_state(self):
        return {"n1": {"open_count": 1}}

    def execute(self, statement, timeout):
        rows = self.node(statement.query_string)
        return type("Answer", (), {"all": lambda _self: rows})()


@pytest.fixture
def client(monkeypatch):
    """A client of that node, whose REST interface is at that port."""

    def connect(node, port, system="scylladb:6.2"):
        class Driver(cql_client.Cluster):
            def connect(self):
                return Session(node)

        monkeypatch.setattr(cql_client, "Cluster", Driver)
        dialect = parse_system(system).cql
        if dialect.barrier is not None:
            dialect = replace(dialect, barrier=Group0Barrier(port))
        connector = CqlConnector({"n1": "127.0.0.1"}, 9042, dialect)
        return connector.connect("n1", request_timeout_s=4)

    return connect


def test_a_reading_that_judges_is_taken_after_a_barrier(client):
    rest = Rest()
    with serving(rest) as (_, port):
        reader = client(ScyllaNode(history=[(1, "x")]), port)
        reader.observe(phase="running", sample=1, complete=False)
        assert rest.asked == []
        observed = reader.observe(phase="settled", sample=2, complete=True)
        reader.close()
    assert len(rest.asked) == 1
    assert observed[0].definition["barrier"]["passed"] is True
    assert observed[0].definition["group0"]["id"] == GROUP
    assert [one.kind for one in observed] == ["version", "log"]


def test_a_reading_without_a_barrier_is_taken_all_the_same_and_says_so(client):
    with serving(Rest(quorum=False)) as (_, port):
        reader = client(ScyllaNode(history=[(1, "x")]), port)
        observed = reader.observe(phase="settled", sample=1, complete=True)
        reader.close()
    assert observed[0].error is None
    assert observed[0].definition["barrier"]["passed"] is False
    assert observed[0].definition["epoch"] == state_id(1).time
    assert observed[1].definition["changes"]


def test_a_node_of_cassandra_is_never_asked_for_a_barrier(client):
    rest = Rest()
    with serving(rest) as (_, port):
        reader = client(ScyllaNode(), port, system="cassandra:3.11.19")
        observed = reader.observe(phase="settled", sample=1, complete=True)
        reader.close()
    assert rest.asked == []
    assert observed[0].definition == {"epoch": None, "memory": "statements"}
