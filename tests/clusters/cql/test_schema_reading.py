"""Schema reading: what a node's own tables and memory hold, told as it is, halves and all."""

from __future__ import annotations

import time
from uuid import UUID

import orjson
import pytest

from schemaquake.clusters.cql.last_look import digest
from schemaquake.clusters.cql.schema import read_schema
from schemaquake.clusters.systems.cassandra.metadata_log import MetadataLog
from schemaquake.clusters.systems.cassandra.system_schema import SystemSchema
from schemaquake.harness.model.observation import KINDS, Observation

TABLE_ID = UUID("5a1c395e-4d04-11ef-b4c5-c1b2e1a1f0aa")
VIEW_ID = UUID("6b2d406f-4d04-11ef-b4c5-c1b2e1a1f0bb")
VERSION = UUID("9f7a1d34-1111-3333-8888-0123456789ab")


def column(table, name, cql_type="int", kind="regular", position=-1, keyspace="ks"):
    return {
        "keyspace_name": keyspace,
        "table_name": table,
        "column_name": name,
        "type": cql_type,
        "kind": kind,
        "position": position,
        "clustering_order": "none",
    }


def table(name, identity=TABLE_ID, keyspace="ks", **options):
    return {"keyspace_name": keyspace, "table_name": name, "id": identity, **options}


SYSTEM_SCHEMA = SystemSchema()


class FakeNode:
    """Answers the reader's statements from the rows of a node; a table it was not given is empty."""

    def __init__(self, version=VERSION, describe=(), **tables):
        self.version = version
        self.describe = describe
        self.tables = tables
        self.asked = []

    def __call__(self, text):
        self.asked.append(text)
        if text == "SELECT schema_version FROM system.local WHERE key = 'local'":
            return [] if self.version is None else [{"schema_version": self.version}]
        if text == "DESCRIBE SCHEMA":
            return list(self.describe)
        head, _, name = text.partition(" FROM system_schema.")
        assert name, f"not a statement this node knows: {text}"
        assert head == "SELECT *" or name == "dropped_columns"
        return list(self.tables.get(name, ()))


def reading(node, schema=SYSTEM_SCHEMA):
    return list(read_schema(node, schema, phase="settled", node="n1", sample=7))


def of_kind(kind, node, schema=SYSTEM_SCHEMA):
    return {(o.keyspace, o.name): o for o in reading(node, schema) if o.kind == kind}


# ── version and epoch ────────────────────────────────────────────────────────────────────────────────────────────────


def test_before_6_0_a_version_is_a_digest_and_there_is_no_epoch():
    assert SYSTEM_SCHEMA.read_version(FakeNode()) == (str(VERSION), None)


@pytest.mark.parametrize("epoch", [0, 1, 31, 2**40])
def test_on_6_0_the_version_is_the_epoch(epoch):
    node = FakeNode(version=UUID(int=epoch))
    assert MetadataLog().read_version(node) == (str(UUID(int=epoch)), epoch)


def test_a_node_that_has_no_version_yet_has_an_empty_one():
    assert SYSTEM_SCHEMA.read_version(FakeNode(version=None)) == ("", None)


def test_a_reading_begins_with_the_version():
    first = reading(FakeNode(version=UUID(int=12)), schema=MetadataLog())[0]
    assert (first.kind, first.id, first.definition) == (
        "version",
        str(UUID(int=12)),
        {"epoch": 12, "memory": "statements"},
    )
    assert (first.phase, first.node, first.sample, first.keyspace) == ("settled", "n1", 7, None)


# ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_table_is_its_id_its_columns_and_its_options():
    node = FakeNode(
        tables=[table("t", comment="x", gc_grace_seconds=10, flags=frozenset({"compound"}), extensions={}, cdc=None)],
        columns=[column("t", "k", kind="partition_key", position=0), column("t", "v", "text")],
        dropped_columns=[
            {"keyspace_name": "ks", "table_name": "t", "column_name": "old", "type": "int", "dropped_ms": 1700000000000}
        ],
        indexes=[
            {
                "keyspace_name": "ks",
                "table_name": "t",
                "index_name": "t_v",
                "kind": "COMPOSITES",
                "options": {"target": "v"},
            }
        ],
    )
    observed = of_kind("table", node)["ks", "t"]
    assert observed.id == TABLE_ID.hex
    assert observed.definition == {
        "columns": {
            "k": {"type": "int", "kind": "partition_key", "position": 0},
            "v": {"type": "text", "kind": "regular", "position": -1},
        },
        "dropped_columns": {"old": {"type": "int", "dropped_time": 1700000000000}},
        "options": {"comment": "x", "gc_grace_seconds": 10, "flags": ["compound"], "extensions": {}},
        "indexes": {"t_v": {"kind": "COMPOSITES", "target": "v"}},
    }


def test_columns_without_a_table_are_a_table_without_an_id():
    observed = of_kind("table", FakeNode(columns=[column("t", "c")]))["ks", "t"]
    assert observed.id is None
    assert observed.definition["columns"] == {"c": {"type": "int", "kind": "regular", "position": -1}}
    assert observed.definition["options"] == {}


def test_a_table_without_columns_is_a_table_without_columns():
    observed = of_kind("table", FakeNode(tables=[table("t", comment="x")]))["ks", "t"]
    assert observed.id == TABLE_ID.hex
    assert observed.definition["columns"] == {}
    assert observed.definition["options"] == {"comment": "x"}


def test_an_index_without_its_table_is_seen():
    orphan = {
        "keyspace_name": "ks",
        "table_name": "t",
        "index_name": "i",
        "kind": "COMPOSITES",
        "options": {"target": "c"},
    }
    observed = of_kind("table", FakeNode(indexes=[orphan]))["ks", "t"]
    assert observed.id is None
    assert list(observed.definition["indexes"]) == ["i"]


def test_two_partition_keys_at_one_position_are_both_told():
    """The mark of two merged definitions."""
    node = FakeNode(
        tables=[table("t")],
        columns=[column("t", name, kind="partition_key", position=0) for name in ("a", "b")],
    )
    columns = of_kind("table", node)["ks", "t"].definition["columns"]
    assert {name: entry["position"] for name, entry in columns.items()} == {"a": 0, "b": 0}


def test_a_view_is_a_table_that_names_its_base():
    node = FakeNode(
        views=[
            {
                "keyspace_name": "ks",
                "view_name": "w",
                "id": VIEW_ID,
                "base_table_id": TABLE_ID,
                "base_table_name": "t",
                "where_clause": "v IS NOT NULL",
            }
        ],
        columns=[column("w", "v", kind="partition_key", position=0)],
    )
    assert of_kind("table", node) == {}
    observed = of_kind("view", node)["ks", "w"]
    assert observed.id == VIEW_ID.hex
    assert observed.definition["base_table_id"] == TABLE_ID.hex
    assert observed.definition["base_table_name"] == "t"
    assert observed.definition["options"] == {"where_clause": "v IS NOT NULL"}
    assert list(observed.definition["columns"]) == ["v"]


def test_every_other_object_is_told_in_the_words_of_the_vocabulary():
    node = FakeNode(
        keyspaces=[
            {
                "keyspace_name": "ks",
                "replication": {"class": "Simple", "replication_factor": "3"},
                "durable_writes": True,
            }
        ],
        types=[{"keyspace_name": "ks", "type_name": "u", "field_names": ["a", "b"], "field_types": ["int", "text"]}],
        functions=[
            {
                "keyspace_name": "ks",
                "function_name": "f",
                "argument_names": ["x"],
                "argument_types": ["int"],
                "return_type": "int",
                "body": "return x;",
            }
        ],
        aggregates=[
            {
                "keyspace_name": "ks",
                "aggregate_name": "g",
                "argument_types": ["int"],
                "state_func": "f",
                "state_type": "int",
                "final_func": None,
            }
        ],
        describe=[
            {"keyspace_name": "ks", "type": "keyspace", "name": "ks", "create_statement": "CREATE KEYSPACE ks …"},
            {"keyspace_name": "ks", "type": "table", "name": "t", "create_statement": "CREATE TABLE ks.t …"},
        ],
    )
    told = [(o.kind, o.keyspace, o.name, o.definition) for o in reading(node)][1:]
    assert told == [
        (
            "keyspace",
            "ks",
            None,
            {"replication": {"class": "Simple", "replication_factor": "3"}, "durable_writes": True},
        ),
        ("type", "ks", "u", {"fields": [["a", "int"], ["b", "text"]]}),
        ("function", "ks", "f", {"arguments": [["x", "int"]], "returns": "int", "body": "return x;"}),
        (
            "aggregate",
            "ks",
            "g",
            {"arguments": ["int"], "state_function": "f", "state_type": "int", "final_function": None},
        ),
        ("live", "ks", None, {"kind": "keyspace", "statement": "CREATE KEYSPACE ks …"}),
        ("live", "ks", "t", {"kind": "table", "statement": "CREATE TABLE ks.t …"}),
    ]


def test_what_the_memory_holds_is_told_beside_what_the_disk_holds():
    """4.0 to 5.0 may differ in the two while every schema version is the same."""
    node = FakeNode(
        describe=[{"keyspace_name": "ks", "type": "table", "name": "t", "create_statement": "CREATE TABLE ks.t …"}]
    )
    assert of_kind("table", node) == {}
    assert list(of_kind("live", node)) == [("ks", "t")]


def test_the_server_s_own_keyspaces_are_left_out():
    node = FakeNode(
        keyspaces=[{"keyspace_name": "system_auth", "replication": {}, "durable_writes": True}],
        tables=[table("local", keyspace="system"), table("t")],
        columns=[column("local", "key", keyspace="system")],
        describe=[{"keyspace_name": "system_views", "type": "table", "name": "caches", "create_statement": "CREATE …"}],
    )
    assert [(o.kind, o.keyspace, o.name) for o in reading(node)[1:]] == [("table", "ks", "t")]


def test_every_kind_is_in_the_vocabulary_and_every_time_is_now():
    node = FakeNode(
        tables=[table("t")], types=[{"keyspace_name": "ks", "type_name": "u", "field_names": [], "field_types": []}]
    )
    began = time.monotonic_ns()
    for observation in reading(node):
        assert observation.kind in KINDS
        assert began <= observation.time <= time.monotonic_ns()
        assert orjson.loads(orjson.dumps(observation.definition)) == observation.definition


def test_columns_of_one_name_in_two_keyspaces_are_kept_apart():
    node = FakeNode(
        tables=[table("t", keyspace="a"), table("t", keyspace="b")],
        columns=[column("t", "x", keyspace="a"), column("t", "y", keyspace="b")],
    )
    observed = of_kind("table", node)
    assert list(observed["a", "t"].definition["columns"]) == ["x"]
    assert list(observed["b", "t"].definition["columns"]) == ["y"]


# ── what counts as a change ──────────────────────────────────────────────────────────────────────────────────────────


def an_observation(**changes):
    base = {"time": 1, "phase": "running", "node": "n1", "sample": 1, "kind": "table", "keyspace": "ks", "name": "t"}
    return Observation(**(base | {"id": TABLE_ID.hex, "definition": {"a": 1, "b": 2}} | changes))


@pytest.mark.parametrize(
    "changes",
    [{"time": 2}, {"sample": 2}, {"phase": "settled"}, {"node": "n2"}, {"definition": {"b": 2, "a": 1}}],
    ids=["when", "how often", "in which phase", "by whom", "in which order"],
)
def test_an_object_is_the_same_whenever_it_was_seen(changes):
    assert digest(an_observation()) == digest(an_observation(**changes))


@pytest.mark.parametrize(
    "changes", [{"id": VIEW_ID.hex}, {"id": None}, {"definition": {"a": 1}}, {"definition": None}], ids=str
)
def test_another_id_or_definition_is_another_object(changes):
    assert digest(an_observation()) != digest(an_observation(**changes))
