"""The Thrift client against a node in this process, in every interface from 0.7 to 1.1."""

from __future__ import annotations

import pickle
import socket
import threading

import pytest
from thrift_node import OWN, ThriftNode, served

from schemaquake.clusters.thrift import client as thrift_client
from schemaquake.clusters.thrift.client import ThriftConnector
from schemaquake.clusters.thrift.dialects import DIALECTS
from schemaquake.harness.ddl import rows
from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.model.steps import Invoke

BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
TABLE = ddl.create_table("ks", "t", columns=[("k", "int", "partition_key"), ("v", "text", "regular")])


@pytest.fixture(params=list(BY_NAME))
def node(request):
    return ThriftNode(BY_NAME[request.param])


@pytest.fixture
def port(node):
    with served(node) as port:
        yield port


@pytest.fixture
def client(port):
    client = ThriftConnector(addresses={"n1": OWN}, port=port, authority="memory").connect("n1", request_timeout_s=5)
    yield client
    client.close()


@pytest.fixture
def table(client, node):
    """A keyspace with a table t (k int, v text); what was called so far is forgotten."""
    assert client.invoke(ddl.create_keyspace("ks", replication_factor=3)).type == "ok"
    assert client.invoke(TABLE).type == "ok"
    node.calls.clear()
    return lambda: node.table("ks", "t")


def only(name):
    """The tests of one interface."""
    return pytest.mark.parametrize("node", [name], indirect=True)


# ── connections ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_server_says_which_interface_it_speaks(client, node):
    assert client._connection.dialect is node.dialect
    assert node.names() == ["describe_version"]


@pytest.mark.parametrize(("interface", "dialect"), [("19.10.0", "0.8"), ("19.30.0", "1.1"), ("19.18.0", "1.0")])
def test_an_early_release_of_a_line_speaks_that_line_s_interface(interface, dialect):
    with served(ThriftNode(BY_NAME[dialect], interface=interface)) as port:
        client = ThriftConnector(addresses={"n1": OWN}, port=port, authority="memory").connect(
            "n1", request_timeout_s=5
        )
        assert client._connection.dialect.name == dialect
        client.close()


@pytest.mark.parametrize("interface", ["19.36.0", "20.1.0", "one"])
def test_a_server_of_another_interface_is_not_spoken_to(interface):
    with served(ThriftNode(DIALECTS[0], interface=interface)) as port, pytest.raises(ClusterError, match="Thrift"):
        ThriftConnector(addresses={"n1": OWN}, port=port, authority="memory").connect("n1", request_timeout_s=5)


def test_a_connector_goes_to_other_processes():
    connector = ThriftConnector(addresses={"n1": "10.77.0.1"}, authority="memory")
    assert pickle.loads(pickle.dumps(connector)) == connector  # noqa: S301 - our own
    assert connector.port == 9160


def test_a_node_that_accepts_no_connection_is_unreachable(monkeypatch):
    monkeypatch.setattr(thrift_client, "_SECONDS_TO_CONNECT", 0.3)
    with pytest.raises(NodeUnreachable, match=r"node n1 did not accept a connection at 127\.0\.0\.1:1 within"):
        ThriftConnector(addresses={"n1": OWN}, port=1, authority="memory").connect("n1", request_timeout_s=1)


@only("1.0")
def test_a_connection_that_the_server_closed_is_opened_for_the_next_operation(client, node, table):
    client._connection._socket.sock.shutdown(socket.SHUT_RDWR)
    assert client.invoke(ddl.drop_table("ks", "t")).type == "ok"
    assert node.names() == ["set_keyspace", "system_drop_column_family"]


@only("1.0")
def test_a_request_on_which_the_connection_breaks_is_not_sent_again(client, node, table):
    node.answers["system_drop_column_family"] = RuntimeError("the handler dies, and its connection with it")
    done = client.invoke(ddl.drop_table("ks", "t"))
    assert done.type == "info"
    assert done.error == "TTransportException: system_drop_column_family: TSocket read 0 bytes"
    assert node.names().count("system_drop_column_family") == 1
    node.answers.clear()
    assert client.invoke(ddl.drop_table("ks", "t")).type == "ok"


@only("1.0")
def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one_s(port, node):
    client = ThriftConnector(addresses={"n1": OWN}, port=port, authority="memory").connect("n1", request_timeout_s=0.3)
    client.invoke(ddl.create_keyspace("ks", replication_factor=3))
    release = threading.Event()
    node.system_add_column_family = lambda _definition: release.wait(5) and "late"
    done = client.invoke(TABLE)
    assert (done.type, done.error.split(":")[0]) == ("info", "TimeoutError")
    release.set()
    seen = client.observe(phase="settled", sample=1, complete=True)
    assert [o.kind for o in seen] == ["version", "keyspace"]
    client.close()


@only("1.0")
def test_without_a_connection_nothing_is_sent_and_that_is_certain(client, monkeypatch):
    monkeypatch.setattr(thrift_client, "_SECONDS_TO_RECONNECT", 0.2)
    client._connection._port = 1
    client._connection.close()
    done = client.invoke(TABLE)
    assert done.type == "fail"
    assert done.error.startswith("NotConnected: no connection to 127.0.0.1:1: Could not connect")


# ── schema changes ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_keyspace_is_replicated_in_the_words_of_the_era(client, node):
    client.invoke(ddl.create_keyspace("ks", replication_factor=3))
    made = node.keyspaces["ks"]
    assert made.strategy_class == "org.apache.cassandra.locator.SimpleStrategy"
    if node.dialect.name == "0.7":
        assert (made.replication_factor, made.strategy_options) == (3, {})
    else:
        assert (made.replication_factor, made.strategy_options) == (None, {"replication_factor": "3"})
        assert made.durable_writes is True


def test_a_keyspace_is_altered_as_a_whole_without_its_tables(client, node, table):
    client.invoke(ddl.alter_keyspace("ks", replication_factor=2))
    assert node.names() == ["describe_keyspace", "system_update_keyspace"]
    assert node.calls[-1][1].cf_defs == []
    assert table() is not None
    replication = {**node.keyspaces["ks"].strategy_options, "f": node.keyspaces["ks"].replication_factor}
    assert 2 in (replication["f"], int(replication.get("replication_factor", 0)))


def test_a_table_names_its_key_where_the_era_can(client, node, table):
    made = table()
    columns = {c.name: c.validation_class.rsplit(".", 1)[-1] for c in made.column_metadata}
    integer = "Int32Type" if node.dialect.name in {"1.0", "1.1"} else "IntegerType"
    assert (made.comparator_type, made.column_type) == ("UTF8Type", "Standard")
    if node.dialect.name == "0.7":
        assert columns == {b"k": integer, b"v": "UTF8Type"}
    else:
        assert columns == {b"v": "UTF8Type"}
        assert (made.key_alias, made.key_validation_class) == (b"k", integer)


def test_an_alteration_reads_the_definition_changes_it_and_sends_all_of_it_back(client, node, table):
    before = table()
    assert client.invoke(ddl.add_column("ks", "t", "c", "int")).type == "ok"
    assert node.names() == ["describe_keyspace", "set_keyspace", "system_update_column_family"]
    after = table()
    assert after.id == before.id
    assert after.gc_grace_seconds == 864000
    assert [c.name for c in after.column_metadata] == [*(c.name for c in before.column_metadata), b"c"]


def test_a_column_that_is_dropped_leaves_the_definition(client, node, table):
    assert client.invoke(ddl.drop_column("ks", "t", "v")).type == "ok"
    assert b"v" not in [c.name for c in table().column_metadata]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"comment": "race 1"}, "race 1"),
        ({"gc_grace_seconds": 3600}, 3600),
        ({"read_repair_chance": 0}, 0.0),
        ({"min_compaction_threshold": 2}, 2),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_option_is_set_in_the_type_of_its_field(client, table, options, wanted):
    assert client.invoke(ddl.alter_options("ks", "t", options)).type == "ok"
    found = getattr(table(), next(iter(options)))
    assert (found, type(found)) == (wanted, type(wanted))


def test_options_may_be_given_at_once(client, node, table):
    columns = [("k", "int", "partition_key"), ("v", "int", "regular")]
    client.invoke(ddl.create_table("ks", "u", columns=columns, options={"comment": "x"}))
    assert node.table("ks", "u").comment == "x"


def test_an_index_comes_and_goes_with_its_column_s_definition(client, node, table):
    assert client.invoke(ddl.create_index("ks", "i", table="t", column="v")).type == "ok"
    (indexed,) = [c for c in table().column_metadata if c.index_name == "i"]
    assert (indexed.name, indexed.index_type) == (b"v", node.idl.IndexType.KEYS)
    assert client.invoke(ddl.drop_index("ks", "i")).type == "ok"
    assert [(c.index_name, c.index_type) for c in table().column_metadata if c.name == b"v"] == [(None, None)]


def test_tables_and_keyspaces_are_dropped(client, node, table):
    assert client.invoke(ddl.drop_table("ks", "t")).type == "ok"
    assert client.invoke(ddl.drop_keyspace("ks")).type == "ok"
    assert node.keyspaces == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (ddl.create_type("ks", "u", fields=[("a", "int")]), "has no create-type"),
        (ddl.rename_column("ks", "t", "k", "kk"), "has no rename-column"),
        (ddl.create_view("ks", "m", base="t", primary_key=["v", "k"]), "has no create-view"),
        (ddl.add_column("ks", "t", "c", "list<int>"), "has no type list<int>"),
        (ddl.alter_options("ks", "t", {"default_time_to_live": 1}), "has no option default_time_to_live"),
        (ddl.drop_column("ks", "t", "v", timestamp=1), "without a timestamp"),
        (
            ddl.create_table(
                "ks", "x", columns=[("a", "int", "partition_key"), ("b", "int", "clustering"), ("v", "int", "regular")]
            ),
            "no clustering",
        ),
        (Invoke("dance", "ks", {"keyspace": "ks"}), 'no operation "dance"'),
    ],
    ids=lambda value: getattr(value, "f", ""),
)
def test_what_the_era_cannot_say_fails_before_anything_is_sent(client, node, table, change, said):
    done = client.invoke(change)
    assert done.type == "fail"
    assert done.error.startswith("NotInThisEra: ")
    assert said in done.error
    assert not [name for name in node.names() if name.startswith("system_")]


@pytest.mark.parametrize(
    "change",
    [
        ddl.add_column("ks", "t", "v", "text"),
        ddl.drop_column("ks", "t", "c"),
        ddl.add_column("ks", "x", "c", "int"),
        ddl.create_index("ks", "i", table="t", column="c"),
        ddl.drop_index("ks", "i"),
        ddl.alter_options("ks", "x", {"comment": ""}),
    ],
    ids=lambda value: f"{value.f} {value.key}",
)
def test_what_the_described_definition_does_not_allow_is_not_asked_for(client, node, table, change):
    done = client.invoke(change)
    assert (done.type, done.error.split(":")[0]) == ("fail", "RefusedHere")
    assert node.names() == ["describe_keyspace"]


def test_a_second_index_on_a_column_is_refused(client, node, table):
    client.invoke(ddl.create_index("ks", "i", table="t", column="v"))
    assert client.invoke(ddl.create_index("ks", "j", table="t", column="v")).type == "fail"


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (None, ddl.create_keyspace("ks", replication_factor=3, if_not_exists=True)),
        (None, ddl.create_table("ks", "t", columns=TABLE.value["columns"], if_not_exists=True)),
        (ddl.drop_table("ks", "t"), ddl.drop_table("ks", "t", if_exists=True)),
        (None, ddl.drop_index("ks", "i", if_exists=True)),
        (ddl.drop_keyspace("ks"), ddl.drop_keyspace("ks", if_exists=True)),
    ],
    ids=lambda value: getattr(value, "f", ""),
)
def test_a_guard_that_the_coordinator_s_schema_answers_changes_nothing(client, node, table, first, again):
    if first is not None:
        client.invoke(first)
        node.calls.clear()
    done = client.invoke(again)
    assert (done.type, done.value["applied"]) == ("ok", False)
    assert node.names() == ["describe_keyspaces"]


def test_a_guarded_change_that_changes_something_says_so(client, node, table):
    assert client.invoke(ddl.drop_table("ks", "t", if_exists=True)).value["applied"] is True
    columns = TABLE.value["columns"]
    assert client.invoke(ddl.create_table("ks", "t", columns=columns, if_not_exists=True)).value["applied"] is True


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_the_coordinator_refuses_did_not_happen(client, table):
    done = client.invoke(TABLE)
    assert done.type == "fail"
    assert done.error == "InvalidRequestException: system_add_column_family: CF is already defined in that keyspace."


def test_a_server_that_fails_may_have_done_it(client, node, table):
    node.internal_error("system_drop_column_family")
    done = client.invoke(ddl.drop_table("ks", "t"))
    assert done.type == "info"
    assert "Internal error processing system_drop_column_family" in done.error
    assert client.invoke(ddl.drop_keyspace("ks")).type == "ok", "the connection is as good as before"


def test_a_server_that_fails_while_it_is_only_asked_changed_nothing(client, node, table):
    node.internal_error("describe_keyspace")
    assert client.invoke(ddl.add_column("ks", "t", "c", "int")).type == "fail"


def test_a_disagreement_is_told_before_anything_is_applied(client, node, table):
    if node.dialect.name == "0.7":
        node.answers["system_drop_column_family"] = node.idl.InvalidRequestException(
            why="Cluster schema does not yet agree"
        )
        said = "InvalidRequestException: system_drop_column_family: Cluster schema does not yet agree"
    else:
        node.answers["system_drop_column_family"] = node.idl.SchemaDisagreementException()
        said = "SchemaDisagreementException: system_drop_column_family"
    done = client.invoke(ddl.drop_table("ks", "t"))
    assert (done.type, done.error) == ("fail", said)


def test_cql_asks_twice_and_tells_both_alike(client, node, table):
    statement = ddl.cql("ks.t", "ALTER COLUMNFAMILY t ADD c int")
    if node.dialect.name == "0.7":
        assert client.invoke(statement).error == "NotInThisEra: Cassandra 0.7 has no CQL"
        return
    assert client.invoke(statement).type == "ok"
    assert node.calls[-1][1] == b"ALTER COLUMNFAMILY t ADD c int"
    node.answers["execute_cql_query"] = node.idl.SchemaDisagreementException()
    assert client.invoke(statement).type == "info"


def test_an_unknown_keyspace_is_a_certain_failure(client, node):
    assert client.invoke(ddl.add_column("no", "t", "c", "int")).error == "NotFoundException: describe_keyspace"
    assert client.invoke(TABLE).error == "InvalidRequestException: set_keyspace: Keyspace ks does not exist"


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def insert(row, consistency="QUORUM"):
    return rows.insert("ks", "t", row, consistency=consistency, phase="racing")


def read(client, columns=("k", "v"), where=None):
    operation = rows.read_rows("ks", "t", consistency="ONE", phase="settled", columns=columns, where=where)
    done = client.invoke(operation)
    assert done.type == "ok", done.error
    return done.value["rows"]


def test_rows_go_in_and_come_out(client, node, table):
    assert client.invoke(insert({"k": 1, "v": "eins"})).value["row"] == {"k": 1, "v": "eins"}
    assert client.invoke(insert({"k": -2_000_000_000, "v": "ä 'zwei'"})).type == "ok"
    assert sorted(read(client), key=lambda row: row["k"]) == [
        {"k": -2_000_000_000, "v": "ä 'zwei'"},
        {"k": 1, "v": "eins"},
    ]
    assert read(client, where={"k": 1}) == [{"k": 1, "v": "eins"}]
    assert read(client, where={"k": 7}) == []


def test_whether_a_table_is_known_is_asked_of_the_coordinator_s_memory_alone(client, node, table):
    before = len(node.calls)
    assert client.invoke(rows.know_table("ks", "t")).type == "ok"
    assert (
        client.invoke(rows.know_table("ks", "u")).error == "RefusedHere: this coordinator knows no column family ks.u"
    )
    assert client.invoke(rows.know_table("no", "t")).type == "fail"
    assert {call[0] for call in node.calls[before:]} == {"describe_keyspace"}


def test_a_row_is_one_batch_at_its_level_with_the_client_s_clock(client, node, table):
    client.invoke(insert({"k": 1, "v": "x"}, consistency="ALL"))
    (call,) = [call for call in node.calls if call[0] == "batch_mutate"]
    ((key, tables),) = call[1].items()
    column = tables["t"][0].column_or_supercolumn.column
    assert (key, column.name, column.value) == (b"\x00\x00\x00\x01", b"v", b"x")
    assert 1_600_000_000_000_000 < column.timestamp < 10_000_000_000_000_000, "microseconds"
    assert call[2] == node.idl.ConsistencyLevel.ALL


def test_a_null_removes_what_stands_there(client, table):
    client.invoke(insert({"k": 1, "v": "x"}))
    client.invoke(insert({"k": 1, "w": 5}))
    client.invoke(insert({"k": 1, "v": None}))
    assert read(client, columns=("k", "v", "w")) == [{"k": 1, "v": None, "w": 5}]


def test_a_row_without_any_of_the_named_columns_is_a_row(client, table):
    client.invoke(insert({"k": 1, "v": "x"}))
    assert read(client, columns=("k", "c")) == [{"k": 1, "c": None}]


def test_a_row_that_was_deleted_is_none(client, table):
    client.invoke(insert({"k": 1, "v": "x"}))
    assert client.invoke(rows.delete_row("ks", "t", {"k": 1}, consistency="ONE")).type == "ok"
    assert read(client) == []
    assert read(client, where={"k": 1}) == []


def test_more_rows_than_fit_a_page_are_read_page_by_page(client, table, monkeypatch):
    monkeypatch.setattr("schemaquake.clusters.thrift.rows._KEYS_A_PAGE", 3)
    for key in range(8):
        client.invoke(insert({"k": key, "v": f"{key}"}))
    assert sorted(row["k"] for row in read(client)) == list(range(8))


def test_a_column_that_nobody_declared_is_written_and_read_as_what_it_can_be(client, table):
    client.invoke(insert({"k": 1, "n": 7, "s": "text", "v": "x"}))
    assert read(client, columns=("k", "n", "s")) == [{"k": 1, "n": 7, "s": "text"}]


def test_a_column_whose_declaration_is_lost_still_has_its_cells(client, table):
    client.invoke(insert({"k": 1, "v": "x"}))
    client.invoke(ddl.drop_column("ks", "t", "v"))
    assert read(client) == [{"k": 1, "v": "x"}]


def test_the_first_column_is_the_key_where_no_alias_says_otherwise(client, node, table):
    client.invoke(insert({"a": 5, "x": 1}))
    assert read(client, columns=("a", "x"), where={"a": 5}) == [{"a": 5, "x": 1}]


def test_without_named_columns_everything_is_read(client, node, table):
    client.invoke(insert({"k": 1, "v": "x"}))
    name = "key" if node.dialect.name == "0.7" else "k"
    assert read(client, columns=None) == [{name: 1, "v": "x"}]


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (insert({"k": 1, "v": 5}), "ValueError: 5 is no value of UTF8Type"),
        (insert({"k": 1}), "NotInThisEra: a row without columns cannot be stored"),
        (insert({"k": 1, "v": "x"}, consistency="SERIAL"), "NotInThisEra: Cassandra "),
        (
            rows.insert("ks", "u", {"k": 1, "v": "x"}, consistency="ONE"),
            "InvalidRequestException: batch_mutate: unconf",
        ),
        (rows.insert("no", "t", {"k": 1, "v": "x"}, consistency="ONE"), "NotFoundException: describe_keyspace"),
    ],
    ids=["wrong type", "nothing to store", "no such level", "no such table", "no such keyspace"],
)
def test_a_write_that_cannot_have_happened_fails(client, table, operation, error):
    done = client.invoke(operation)
    assert done.type == "fail"
    assert done.error.startswith(error)


@pytest.mark.parametrize(
    ("exception", "type_"), [("TimedOutException", "info"), ("UnavailableException", "fail")], ids=["late", "too few"]
)
def test_a_write_that_some_replicas_may_have_is_open(client, node, table, exception, type_):
    node.answers["batch_mutate"] = getattr(node.idl, exception)()
    done = client.invoke(insert({"k": 1, "v": "x"}))
    assert (done.type, done.error) == (type_, f"{exception}: batch_mutate")


# ── observations ─────────────────────────────────────────────────────────────────────────────────────────────────────


def seen(client, *, complete=False, sample=1):
    return [(o.kind, o.name, o.id) for o in client.observe(phase="running", sample=sample, complete=complete)]


def test_a_node_s_version_is_the_one_that_lists_it(client, node):
    node.versions = {"v7": ["10.77.0.2"], "v8": [OWN, "10.77.0.3"], "UNREACHABLE": ["10.77.0.4"]}
    (version,) = client.observe(phase="settled", sample=1, complete=True)
    assert version.id == "v8"
    assert version.definition == {
        "epoch": None,
        "told_from": "memory",
        "versions": {"UNREACHABLE": ["10.77.0.4"], "v7": ["10.77.0.2"], "v8": ["10.77.0.3", OWN]},
    }


def test_a_node_that_does_not_answer_itself_was_not_read(client, node):
    node.versions = {"UNREACHABLE": [OWN], "v1": ["10.77.0.2"]}
    (version,) = client.observe(phase="settled", sample=1, complete=True)
    assert (version.id, version.definition) == (None, None)
    assert version.error.startswith("NoVersion: 127.0.0.1 is not among the nodes that reported their versions")


def test_later_looks_tell_what_changed(client, node, table):
    assert seen(client) == [("version", None, "v1"), ("keyspace", None, None), ("table", "t", f"{1000:032x}")]
    assert seen(client) == [("version", None, "v1")]
    client.invoke(ddl.drop_table("ks", "t"))
    client.invoke(ddl.create_table("ks", "u", columns=TABLE.value["columns"]))
    node.versions = {"v2": [OWN]}
    assert seen(client) == [("version", None, "v2"), ("table", "u", f"{1001:032x}"), ("table", "t", None)]
    assert len(seen(client, complete=True)) == 3


def test_a_reading_across_a_change_is_made_again(client, node):
    def describe():
        node.versions = {"v2": [OWN]}
        return []

    node.describe_keyspaces = describe
    (version,) = client.observe(phase="settled", sample=1, complete=True)
    assert version.id == "v2"


def test_a_node_that_cannot_be_read_is_one_version_with_the_error(client, node):
    node.internal_error("describe_keyspaces")
    (version,) = client.observe(phase="settled", sample=3, complete=True)
    assert (version.kind, version.node, version.sample, version.definition) == ("version", "n1", 3, None)
    assert version.error == "TApplicationException: describe_keyspaces: Internal error processing describe_keyspaces"


def test_a_table_is_told_in_the_words_of_later_lines(client, node, table):
    client.invoke(ddl.create_index("ks", "i", table="t", column="v"))
    client.invoke(ddl.alter_options("ks", "t", {"gc_grace_seconds": 60}))
    _, keyspace, told = client.observe(phase="settled", sample=1, complete=True)
    assert keyspace.definition == {
        "replication": {"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "3"},
        "durable_writes": True,
    }
    columns = told.definition["columns"]
    if node.dialect.name == "0.7":
        assert columns == {
            "k": {"type": "int", "kind": "untold", "position": -1},
            "v": {"type": "text", "kind": "untold", "position": -1},
        }
    else:
        assert columns == {
            "k": {"type": "int", "kind": "partition_key", "position": 0},
            "v": {"type": "text", "kind": "regular", "position": -1},
        }
    assert told.definition["indexes"] == {"i": {"kind": "KEYS", "target": "v"}}
    assert told.definition["options"]["gc_grace_seconds"] == 60
    assert not {"id", "name", "keyspace", "key_alias", "column_metadata"} & told.definition["options"].keys()
