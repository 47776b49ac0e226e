"""Ownership: what nodetool says of the ranges, as 5.0 and 6.0 print it."""

from __future__ import annotations

from types import SimpleNamespace

from schemaquake.clusters.nodes.ownership import parse_ranges, read_ownership
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.errors import NodeUnreachable
from schemaquake.harness.model.protocols import Executed

DESCRIBED = """Schema Version:54e17321-3f2e-37ca-9b08-d91ba7bdd369
TokenRange: 
\tTokenRange(start_token:-9223372036854775808, end_token:-3074457345618258603, endpoints:[10.0.0.1, 10.0.0.2:7000], \
rpc_endpoints:[10.0.0.1], endpoint_details:[EndpointDetails(host:10.0.0.1, datacenter:0, rack:0)])
\tTokenRange(start_token:3074457345618258602, end_token:-9223372036854775808, endpoints:[10.0.0.2], rpc_endpoints:[], endpoint_details:[])
"""  # noqa: W291 - as it is printed
RANGES = [
    ["-9223372036854775808", "-3074457345618258603", ["10.0.0.1", "10.0.0.2"]],
    ["3074457345618258602", "-9223372036854775808", ["10.0.0.2"]],
]
SIMPLE = {"class": "SimpleStrategy", "replication_factor": "3"}
KEYSPACES = [
    {"keyspace_name": "sq_b", "replication": SIMPLE},
    {"keyspace_name": "sq_a", "replication": SIMPLE},
    {"keyspace_name": "sq_c", "replication": {**SIMPLE, "replication_factor": "1"}},
    {"keyspace_name": "sq_d", "replication": {**SIMPLE, "replication_factor": "2"}},
    {"keyspace_name": "system", "replication": {}},
]


def node(name, answer):
    def nodetool(*arguments, timeout_s):
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(
        name=name, manage=lambda command, *, timeout_s: nodetool(*command.arguments, timeout_s=timeout_s)
    )


def connector(rows):
    def read(text):
        if isinstance(rows, Exception):
            raise rows
        return rows

    return SimpleNamespace(connect=lambda *_, **__: SimpleNamespace(read=read, close=lambda: None))


def owned(*nodes, rows=KEYSPACES):
    return read_ownership(nodes, connector(rows), parse_system("cassandra:5.0.9"), prefix="sq")


def test_ranges_are_read_without_ports():
    assert [list(each) for each in parse_ranges(DESCRIBED)] == RANGES
    assert parse_ranges("error: no such keyspace") == []


def test_one_keyspace_of_each_way_of_replication_is_asked_for_and_two_at_most():
    assert owned(node("n1", Executed(0, DESCRIBED, ""))) == {
        "n1": {"sq_a": {"ranges": RANGES}, "sq_c": {"ranges": RANGES}}
    }


def test_a_node_without_an_answer_has_an_error():
    answers = owned(node("n1", Executed(1, "", "nodetool: refused")), node("n2", NodeUnreachable("n2 is gone")))
    assert answers == {
        "n1": {"sq_a": {"error": "nodetool: refused"}, "sq_c": {"error": "nodetool: refused"}},
        "n2": {"sq_a": {"error": "n2 is gone"}, "sq_c": {"error": "n2 is gone"}},
    }


def test_nothing_is_asked_where_there_is_nothing_of_the_run_or_no_answer():
    whole = node("n1", Executed(0, DESCRIBED, ""))
    assert owned(whole, rows=KEYSPACES[-1:]) == {}
    assert owned(whole, rows=NodeUnreachable("n1 is gone")) == {}
    assert owned() == {}
