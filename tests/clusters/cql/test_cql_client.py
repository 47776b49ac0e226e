"""The CQL client on a session that plays a node: what it sends, what it makes of answers, and which changes it sees."""

from __future__ import annotations

import pickle
from collections import namedtuple
from types import SimpleNamespace
from uuid import UUID

import pytest
from cassandra import AlreadyExists, ConsistencyLevel, InvalidRequest, OperationTimedOut
from cassandra.cluster import EXEC_PROFILE_DEFAULT, NoHostAvailable
from cassandra.cqltypes import Int32Type
from cassandra.policies import FallthroughRetryPolicy
from cassandra.protocol import SyntaxException

from schemaquake.clusters.cql import client as cql_client
from schemaquake.clusters.cql.client import CqlConnector
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.ddl import rows
from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.errors import NodeUnreachable
from schemaquake.harness.model.steps import Invoke

V1, V2 = UUID(int=1), UUID(int=2)


class Node:
    """A session with a node whose schema is `tables`; `answers` are what the next operations get."""

    def __init__(self):
        self.version = V1
        self.release = "5.0.9"
        self.tables = {}
        self.answers = []
        self.sent = []
        self.connections = 1
        self.before_tables = []
        self.refuses = None
        self.describes = True
        self.served = []

    # what the client asks of a session
    def get_pool_state(self):
        return {"10.77.0.1": {"open_count": self.connections}}

    def execute_async(self, statement, timeout):
        self.sent.append((statement.query_string, ConsistencyLevel.value_to_name[statement.consistency_level], timeout))
        answer = self.answers.pop(0) if self.answers else []

        def result():
            if isinstance(answer, Exception):
                raise answer
            return answer if isinstance(answer, list) else []

        return SimpleNamespace(result=result, custom_payload=answer if isinstance(answer, dict) else None)

    def execute(self, statement, timeout):
        if " IN ()" in statement.query_string:
            columns = self.served.pop(0) if len(self.served) > 1 else self.served[0]
            return SimpleNamespace(column_names=columns, column_types=[Int32Type] * len(columns))
        return SimpleNamespace(all=lambda: self._rows(statement.query_string))

    def _rows(self, text):
        if self.refuses is not None:
            raise self.refuses
        if text == "DESCRIBE SCHEMA" and not self.describes:
            raise SyntaxException(0x2000, "no viable alternative at input 'DESCRIBE'", {})
        if text == "SELECT * FROM system_schema.columns":
            return [
                {
                    "keyspace_name": "ks",
                    "table_name": name,
                    "column_name": column,
                    "type": "int",
                    "kind": kind,
                    "position": 0,
                }
                for name in self.tables
                for column, kind in (("k", "partition_key"), ("v", "regular"))
                if self.served
            ]
        if "system.local" in text:
            return [{"schema_version": self.version, "release_version": self.release}]
        if "system_schema.tables" in text:
            if self.before_tables:
                self.before_tables.pop(0)()
            return [{"keyspace_name": "ks", "table_name": name, "id": id_} for name, id_ in self.tables.items()]
        return []


@pytest.fixture
def node():
    return Node()


@pytest.fixture
def client(node, monkeypatch):
    class Driver(cql_client.Cluster):
        def connect(self):
            return node

    monkeypatch.setattr(cql_client, "Cluster", Driver)
    connector = CqlConnector(addresses={"n1": "10.77.0.1"}, port=9042, dialect=parse_system("cassandra:5.0.9").cql)
    client = connector.connect("n1", request_timeout_s=7)
    yield client
    client.close()


# ── a driver that does not help ──────────────────────────────────────────────────────────────────────────────────────


def test_the_driver_s_kindness_is_off(client):
    cluster = client._cluster
    profile = cluster.profile_manager.profiles[EXEC_PROFILE_DEFAULT]
    assert isinstance(profile.retry_policy, FallthroughRetryPolicy)
    assert profile.request_timeout == 7
    assert profile.speculative_execution_policy.new_plan(None, None).next_execution(None) == -1
    assert cluster.max_schema_agreement_wait == 0
    assert cluster.protocol_version == 4
    assert not cluster.control_connection._schema_meta_enabled
    assert list(cluster.contact_points) == ["10.77.0.1"]


@pytest.mark.parametrize("kind", ["read_timeout", "write_timeout", "unavailable", "request_error"])
def test_nothing_is_ever_sent_twice(client, kind):
    policy = client._cluster.profile_manager.profiles[EXEC_PROFILE_DEFAULT].retry_policy
    decision, _ = getattr(policy, f"on_{kind}")(None, None, None, None, None, 0)
    assert decision == policy.RETHROW


def test_a_connector_goes_to_other_processes(client):
    connector = CqlConnector(addresses={"n1": "10.77.0.1"}, port=9042, dialect=parse_system("cassandra:6.0-alpha2").cql)
    assert pickle.loads(pickle.dumps(connector)) == connector  # noqa: S301 - our own


def test_a_node_that_accepts_no_session_is_unreachable(monkeypatch):
    monkeypatch.setattr(cql_client, "_SECONDS_TO_CONNECT", 0.5)  # time for a second attempt
    connector = CqlConnector(addresses={"n1": "127.0.0.1"}, port=1, dialect=parse_system("cassandra:6.0-alpha2").cql)
    with pytest.raises(NodeUnreachable, match=r"node n1 did not accept a session at 127\.0\.0\.1:1 within"):
        connector.connect("n1", request_timeout_s=1)


def test_a_node_that_refuses_at_first_is_tried_again_with_a_driver_of_its_own(monkeypatch, node):
    """One whose first connection failed has shut itself down, and would say so instead of connecting."""
    drivers = []

    class Driver(cql_client.Cluster):
        def connect(self):
            drivers.append(self)
            if len(drivers) == 1:
                raise NoHostAvailable("Unable to connect to any servers", {"10.77.0.1": "refused"})
            return node

    monkeypatch.setattr(cql_client, "Cluster", Driver)
    connector = CqlConnector(addresses={"n1": "10.77.0.1"}, port=9042, dialect=parse_system("cassandra:6.0-alpha2").cql)
    client = connector.connect("n1", request_timeout_s=1)
    assert [driver.is_shutdown for driver in drivers] == [True, False]
    assert client.invoke(ddl.drop_table("ks", "t")).type == "ok"
    client.close()
    client.close()
    assert drivers[1].is_shutdown


# ── operations ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_operation_is_sent_as_its_statement_at_its_consistency(client, node):
    client.invoke(ddl.drop_table("ks", "t"))
    client.invoke(rows.insert("ks", "t", {"k": 1}, consistency="QUORUM"))
    assert node.sent == [("DROP TABLE ks.t", "ONE", 7), ("INSERT INTO ks.t (k) VALUES (1)", "QUORUM", 7)]


def test_rows_come_back_as_json(client, node):
    point = namedtuple("point", "x y")  # noqa: PYI024 - as the driver makes them
    node.answers = [
        [{"k": 1, "v": None, "u": point(1, "a"), "s": {3, 1}, "b": b"\x01\xff", "i": V1, "l": [point(2, "b")]}]
    ]
    done = client.invoke(rows.read_rows("ks", "t", consistency="ALL", phase="settled"))
    assert done.type == "ok"
    assert done.value["phase"] == "settled"
    assert done.value["rows"] == [
        {"k": 1, "v": None, "u": {"x": 1, "y": "a"}, "s": [1, 3], "b": "01ff", "i": str(V1), "l": [{"x": 2, "y": "b"}]}
    ]


@pytest.mark.parametrize(("answer", "applied"), [({"schema_change": b"1"}, True), (None, False)])
def test_a_guarded_change_says_whether_it_changed_anything(client, node, answer, applied):
    node.answers = [answer, answer]
    created = client.invoke(ddl.create_table("ks", "t", columns=[("k", "int", "partition_key")], if_not_exists=True))
    dropped = client.invoke(ddl.drop_table("ks", "t", if_exists=True))
    assert (created.type, created.value["applied"]) == (dropped.type, dropped.value["applied"]) == ("ok", applied)


def test_an_unguarded_change_happened_when_it_is_acknowledged(client):
    done = client.invoke(ddl.drop_table("ks", "t"))
    assert done.type == "ok"
    assert done.value == {"keyspace": "ks", "name": "t"}


@pytest.mark.parametrize(
    ("error", "operation", "type_"),
    [
        (AlreadyExists("ks", "t"), ddl.create_table("ks", "t", columns=[("k", "int", "partition_key")]), "fail"),
        (OperationTimedOut(), ddl.drop_table("ks", "t"), "info"),
        (OperationTimedOut(), rows.read_rows("ks", "t", consistency="ONE", phase="racing"), "fail"),
        (
            InvalidRequest("Could not perform commit after 3 attempts. Time remaining: 0ms"),
            ddl.drop_type("ks", "u"),
            "info",
        ),
        (InvalidRequest("Could not perform commit"), ddl.cql("ks", "DROP TYPE ks.u"), "info"),
        (InvalidRequest("unconfigured table t"), rows.insert("ks", "t", {"k": 1}, consistency="ONE"), "fail"),
        (OperationTimedOut(), rows.know_table("ks", "t"), "fail"),
        (NoHostAvailable("Unable to complete the operation against any hosts", {}), ddl.drop_type("ks", "u"), "fail"),
        (ValueError("unpack requires a buffer"), rows.insert("ks", "t", {"k": 1}, consistency="ONE"), "info"),
    ],
    ids=lambda value: getattr(value, "f", type(value).__name__),
)
def test_an_error_becomes_a_completion_in_the_server_s_words(client, node, error, operation, type_):
    node.answers = [error]
    done = client.invoke(operation)
    assert (done.type, done.value) == (type_, None)
    assert done.error.startswith(f"{type(error).__name__}: ")
    assert "\n" not in done.error


def test_what_has_no_statement_is_not_taken_for_a_change_that_did_not_happen(client):
    assert client.invoke(Invoke("dance", "ks", {})).type == "info"


def test_a_broken_connection_is_given_a_moment_before_anything_is_sent(client, node, monkeypatch):
    monkeypatch.setattr(cql_client, "_SECONDS_TO_RECONNECT", 0.3)
    node.connections = 0
    node.answers = [NoHostAvailable("Unable to complete the operation against any hosts", {})]
    assert client.invoke(ddl.drop_table("ks", "t")).type == "fail"
    assert len(node.sent) == 1, "it is sent, once, and the driver says that nobody is there"


# ── observations ─────────────────────────────────────────────────────────────────────────────────────────────────────


def seen(client, *, complete=False, sample=1):
    observed = client.observe(phase="running", sample=sample, complete=complete)
    return [(o.kind, o.name, o.id, o.definition is not None) for o in observed]


def test_the_first_look_tells_everything(client, node):
    node.tables = {"t": V1}
    assert seen(client) == [("version", None, str(V1), True), ("table", "t", V1.hex, True)]


def test_a_node_that_did_not_change_shows_its_version_only(client, node):
    node.tables = {"t": V1}
    seen(client)
    assert seen(client) == [("version", None, str(V1), True)]


def test_later_looks_tell_what_is_new_what_is_different_and_what_is_gone(client, node):
    node.tables = {"same": V1, "other": V1, "gone": V1}
    seen(client)
    node.tables = {"same": V1, "other": V2, "new": V1}
    node.version = V2
    assert sorted(seen(client), key=str) == sorted(
        [
            ("version", None, str(V2), True),
            ("table", "other", V2.hex, True),
            ("table", "new", V1.hex, True),
            ("table", "gone", None, False),
        ],
        key=str,
    )
    assert seen(client) == [("version", None, str(V2), True)]


def test_a_complete_reading_tells_everything_again_and_forgets_nothing(client, node):
    node.tables = {"t": V1}
    seen(client)
    observed = [one for one in seen(client, complete=True) if one[0] != "ring"]
    assert observed == [("version", None, str(V1), True), ("table", "t", V1.hex, True)]
    assert seen(client) == [("version", None, str(V1), True)]
    node.tables, node.version = {}, V2
    assert ("table", "t", None, False) in seen(client)


def test_a_reading_across_a_change_is_made_again(client, node):
    """Tables are read one after another: a change in between would look like a table without columns."""

    def changes():
        node.version = V2
        node.tables = {"after": V2}

    node.tables = {"before": V1}
    node.before_tables = [changes]
    observed = [one for one in seen(client, complete=True) if one[0] != "ring"]
    assert observed == [("version", None, str(V2), True), ("table", "after", V2.hex, True)]


def test_an_account_of_the_ring_that_cannot_be_had_spoils_nothing_else(client, node):
    node.tables = {"t": V1}
    observed = client.observe(phase="settled", sample=1, complete=True)
    (ring,) = [one for one in observed if one.kind == "ring"]
    assert (ring.definition, bool(ring.error)) == (None, True)
    assert [one.kind for one in observed if one.error is None] == ["version", "table"]
    assert "ring" not in {one.kind for one in client.observe(phase="running", sample=2, complete=False)}


def test_a_schema_that_never_stands_still_is_told_as_it_was_seen(client, node):
    def changes():
        node.version = UUID(int=node.version.int + 1)

    node.before_tables = [changes] * 50
    assert seen(client, complete=True)[0][0] == "version"
    assert 50 - len(node.before_tables) == 4, "it is tried a few times, not for ever"


def test_a_node_that_cannot_be_read_is_one_version_with_the_error(client, node):
    node.refuses = OperationTimedOut(errors={"10.77.0.1": "timed out"})
    (observed,) = client.observe(phase="settled", sample=9, complete=True)
    assert (observed.kind, observed.id, observed.definition) == ("version", None, None)
    assert observed.error.startswith("OperationTimedOut: ")
    assert (observed.node, observed.phase, observed.sample) == ("n1", "settled", 9)


def test_after_an_error_nothing_is_taken_for_gone(client, node):
    node.tables = {"t": V1}
    seen(client)
    node.refuses = OperationTimedOut()
    seen(client)
    node.refuses = None
    assert seen(client) == [("version", None, str(V1), True)]


# ── memory, where it is asked table by table ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
def without_describe(node):
    node.describes = False
    node.tables = {"t": V1}
    node.served = [["k", "v"]]
    return node


def served(client, *, complete=True):
    observed = client.observe(phase="settled", sample=1, complete=complete)
    return [o.definition for o in observed if o.kind == "live"]


@pytest.mark.usefixtures("without_describe")
def test_a_complete_reading_asks_what_the_node_serves(client):
    assert served(client) == [{"kind": "table", "columns": {"k": "int", "v": "int"}}]


@pytest.mark.usefixtures("without_describe")
def test_while_the_run_goes_on_nothing_is_asked_table_by_table(client):
    assert served(client, complete=False) == []


def test_a_merge_under_way_is_waited_for(client, without_describe):
    """A server writes its disk before its memory."""
    without_describe.served = [["k"], ["k", "v"]]
    assert served(client) == [{"kind": "table", "columns": {"k": "int", "v": "int"}}]


def test_a_difference_that_lasts_is_told(client, without_describe, monkeypatch):
    monkeypatch.setattr(cql_client, "_SECONDS_FOR_A_MERGE", 0.05)
    without_describe.served = [["k"]]
    assert served(client) == [{"kind": "table", "columns": {"k": "int"}}]


# ── nodes that become another release ────────────────────────────────────────────────────────────────────────────────


def test_a_reading_is_that_of_the_release_that_the_server_is_now(node, monkeypatch):
    class Driver(cql_client.Cluster):
        def connect(self):
            return node

    monkeypatch.setattr(cql_client, "Cluster", Driver)
    old, new = parse_system("cassandra:5.0.9").cql, parse_system("cassandra:6.0-alpha2").cql
    releases = {"5.0.9": old, "6.0-alpha2": new}
    connector = CqlConnector(addresses={"n1": "10.77.0.1"}, port=9042, dialect=old, releases=releases)
    assert pickle.loads(pickle.dumps(connector)) == connector  # noqa: S301 - our own
    client = connector.connect("n1", request_timeout_s=7)
    version = UUID("0f9865dd-ac9e-3323-9cce-050ae1dfd7a2")
    told = [("5.0.9", version), ("6.0-alpha2", UUID(int=2**63 + 1)), ("6.0-alpha2", UUID(int=7)), ("7.0", UUID(int=8))]
    shown = []
    for release, node.version in told:
        node.release = release
        definition = client.observe(phase="running", sample=0, complete=False)[0].definition
        shown.append((definition["release"], definition["epoch"], definition.get("authority")))
    assert shown == [
        ("5.0.9", None, None),
        ("6.0-alpha2", None, "disk"),  # until its log is begun it goes by its own rows
        ("6.0-alpha2", 7, "log"),
        ("7.0", 8, "log"),
    ]
    client.close()


def test_in_a_run_of_one_release_nobody_is_asked_for_it(client, node):
    assert "release" not in client.observe(phase="running", sample=0, complete=False)[0].definition
