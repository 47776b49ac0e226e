"""The prefix guard: nothing of ours is held back, and nothing leaves that touches what is somebody else's."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from itertools import islice

import pytest

from schemaquake.clusters.cql.prefix_guard import PrefixGuard, objection
from schemaquake.harness.ddl import rows
from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import Connector, Context
from schemaquake.harness.model.queries import Query
from schemaquake.harness.model.steps import Invoke, Require
from schemaquake.harness.registry import load, names

EVERYTHING = frozenset(
    ["keyspaces", "tables", "columns", "types", "functions", "aggregates", "views", "indexes", "options", "accord"]
)


class Client:
    def __init__(self):
        self.sent = []
        self.closed = False

    def invoke(self, operation):
        self.sent.append(operation)
        return Completion(type="ok", value=operation.value)

    def observe(self, **asked):
        return [asked]

    def close(self):
        self.closed = True


@dataclass(frozen=True)
class Wrapped:
    client: Client

    def connect(self, node, *, request_timeout_s):
        assert (node, request_timeout_s) == ("n1", 7)
        return self.client


@dataclass(frozen=True)
class Plain:
    port: int

    def connect(self, node, *, request_timeout_s):
        raise NotImplementedError


@pytest.fixture
def inner():
    return Client()


@pytest.fixture
def client(inner):
    return PrefixGuard(Wrapped(inner), "sq").connect("n1", request_timeout_s=7)


def test_it_is_a_connector_that_goes_to_other_processes():
    guard: Connector = PrefixGuard(Plain(9042), "sq")
    assert pickle.loads(pickle.dumps(guard)) == guard  # noqa: S301 - our own


def test_what_is_ours_goes_through_as_it_is(client, inner):
    operation = ddl.create_keyspace("sq_a", replication_factor=3)
    assert client.invoke(operation) == Completion(type="ok", value=operation.value)
    assert inner.sent == [operation]
    assert client.observe(phase="running", sample=1, complete=True) == [
        {"phase": "running", "sample": 1, "complete": True}
    ]
    client.close()
    assert inner.closed


@pytest.mark.parametrize(
    ("operation", "because"),
    [
        (ddl.drop_keyspace("production"), "keyspace production is outside sq_: DROP KEYSPACE production"),
        (ddl.create_keyspace("sq", replication_factor=1), "keyspace sq is outside sq_"),
        (ddl.create_keyspace("sqa_1", replication_factor=1), "keyspace sqa_1 is outside sq_"),
        (ddl.drop_keyspace('"SQ_a"'), "keyspace SQ_a is outside sq_"),
        (ddl.drop_table("system_auth", "roles"), "keyspace system_auth is outside sq_"),
        (ddl.drop_table("sq_a.t; DROP TABLE production", "t"), "is no name"),
        (ddl.cql("sq_a", "DROP KEYSPACE sq_a; DROP KEYSPACE production"), "there are several statements"),
        (ddl.drop_keyspace("exists-- sq_x\rproduction"), "is no name"),
        (ddl.cql("sq_a", "DROP KEYSPACE -- sq_x\rproduction"), "keyspace production is outside sq_"),
        (ddl.cql("sq_a", "SELECT salted_hash FROM system_auth.roles"), "keyspace system_auth is outside sq_"),
        (rows.insert("production", "t", {"k": 1}, consistency="ONE"), "keyspace production is outside sq_"),
        (ddl.cql("sq_a", "DROP KEYSPACE production"), "keyspace production is outside sq_"),
        (ddl.cql("sq_a", "CREATE ROLE bob"), "CREATE ROLE is no statement about rows or keyspaces"),
        (Invoke("put", "sq_a.q/1", 1, query=Query(text="UPDATE production.q SET v = 1 WHERE k = 1")), "production"),
        (Invoke("put", "sq_a.q/1", 1, query=Query(text="UPDATE q SET v = 1 WHERE k = 1")), "without its keyspace"),
        (Invoke("get", "sq_a.q/1", 1, query=Query(text="SELECT v FROM production.q WHERE k = 1")), "production"),
        (Invoke("get", "x", 1, query=Query(text="INSERT INTO system.local (key) VALUES ('x')")), "keyspace system"),
        (Invoke("conjure", "sq_a", {"keyspace": "sq_a"}), 'the keyspaces of "conjure" are not known'),
        (Invoke("drop-table", "sq_a.t", None), "are not known"),
    ],
)  # fmt: skip
def test_what_is_not_ours_is_never_sent_and_certainly_did_not_happen(client, inner, operation, because):
    completion = client.invoke(operation)
    assert completion.type == "fail"
    assert completion.error.startswith("PrefixGuard: not sent: ")
    assert because in completion.error
    assert inner.sent == []


def test_what_the_server_keeps_of_itself_may_be_read(client, inner):
    assert client.invoke(ddl.cql("system", "SELECT * FROM system_schema.tables")).type == "ok"
    assert len(inner.sent) == 1


FEW_RACES = {"grid": {"races": "1", "batch": "1/40"}}
"""Options of a workload that has far more races than are looked at: every fortieth cell."""


@pytest.mark.parametrize("prefix", ["sq", "mine_too"])
@pytest.mark.parametrize("name", [name for name in names("workloads") if name != "scenario"])
def test_no_operation_of_any_workload_is_held_back(name, prefix):
    workload = load("workloads", name)
    context = Context(
        seed=3,
        nodes=("n1", "n2", "n3"),
        options=FEW_RACES.get(name, {"races": "4"}),
        keyspace_prefix=prefix,
        features=EVERYTHING | workload.requires,
    )
    seen = 0
    for worker in workload.crew(context):
        for phase in ("setup", "prepare", "main", "probe", "final"):
            for step in islice(workload.steps(phase, worker, context, phase_label="settled"), 200):
                operation = step.invoke if isinstance(step, Require) else step
                if isinstance(operation, Invoke):
                    assert objection(operation, prefix) is None
                    assert "outside" in str(objection(operation, "other"))
                    seen += 1
    assert seen > 20
