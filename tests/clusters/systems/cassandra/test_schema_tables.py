"""Schema tables: rows of real nodes of 1.2.19, 2.0.17, 2.1.22 and 2.2.19, told in the words of later lines.

`schema_rows/VERSION.json` holds what each answered after the same statements: `k.t (k int PRIMARY KEY, a int)` with a
column added, columns dropped where the line can, options set and an index dropped where it can; a table with a key of
four columns and collections; a compact table `k.co (k, c1, v)`; and from 2.1 on a type `k.u` and a table that uses it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from uuid import UUID

import pytest

from schemaquake.clusters.systems.cassandra.schema_tables import read_schema_tables

VERSIONS = ("1.2.19", "2.0.17", "2.1.22", "2.2.19")
RECORDED = Path(__file__).with_name("schema_rows")


@cache
def recorded(version):
    tables = json.loads((RECORDED / f"{version}.json").read_text(encoding="utf-8"))
    for row in tables["system.schema_columnfamilies"]:
        if row.get("cf_id"):
            row["cf_id"] = UUID(row["cf_id"])
    return tables


class Node:
    """Answers from rows; a table that its line does not have must not be asked for."""

    def __init__(self, tables):
        self.tables = tables

    def __call__(self, text):
        head, _, table = text.partition(" FROM ")
        assert head == "SELECT *"
        return self.tables[table]


def told(tables):
    return {
        (kind, keyspace, name): (identity, definition)
        for kind, keyspace, name, identity, definition in read_schema_tables(Node(tables))
        if keyspace != "system"
    }


def column(cql_type, kind="regular", position=-1):
    return {"type": cql_type, "kind": kind, "position": position}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_keyspace_has_its_replication(version):
    found = told(recorded(version))
    assert found["keyspace", "k", None] == (
        None,
        {
            "replication": {"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "2"},
            "durable_writes": True,
        },
    )
    assert found["keyspace", "ks3", None][1]["durable_writes"] is False


@pytest.mark.parametrize(
    ("version", "table", "renamed"), [("1.2.19", "c2", "c1"), *((v, "c", "c1") for v in VERSIONS[1:])]
)
def test_a_key_of_four_columns_is_told_with_kinds_and_positions(version, table, renamed):
    columns = told(recorded(version))["table", "k", table][1]["columns"]
    assert {name: columns.pop(name) for name in ("k", "k2", renamed, "c2")} == {
        "k": column("int", "partition_key", 0),
        "k2": column("text", "partition_key", 1),
        renamed: column("int", "clustering", 0),
        "c2": column("text", "clustering", 1),
    }
    static = columns.pop("s", None)  # there are none before 2.0
    assert static == (None if version == "1.2.19" else column("int", "static"))
    assert columns == {
        "v": column("int"),
        "l": column("list<int>"),
        "st": column("set<text>"),
        "m": column("map<text, int>"),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_a_compact_table_has_its_value(version):
    assert told(recorded(version))["table", "k", "co"][1]["columns"] == {
        "k": column("int", "partition_key", 0),
        "c1": column("int", "clustering", 0),
        "v": column("int"),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_options_have_the_names_that_statements_use(version):
    options = told(recorded(version))["table", "k", "t"][1]["options"]
    assert options["comment"] == "y"
    assert options["gc_grace_seconds"] == 10
    assert options["dclocal_read_repair_chance"] == 0.5
    assert options["compaction"] == {
        "class": "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy",
        "max_threshold": "16",
    }
    assert options["compression"] == {}
    assert options["caching"] == (
        "KEYS_ONLY" if version in {"1.2.19", "2.0.17"} else {"keys": "ALL", "rows_per_partition": "NONE"}
    )
    assert "ColumnToCollectionType(6c:" in options["comparator"]
    assert not {"cf_id", "id", "key_aliases", "column_aliases", "keyspace_name", "columnfamily_name"} & options.keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_an_id_is_told_from_2_1_on(version):
    identity = told(recorded(version))["table", "k", "t"][0]
    assert (identity is None) == (version in {"1.2.19", "2.0.17"})
    assert identity is None or UUID(identity).version == 1


def test_an_index_is_told_by_the_column_it_is_on():
    assert told(recorded("1.2.19"))["table", "k", "t"][1]["indexes"] == {"i": {"kind": "COMPOSITES", "target": "a"}}
    assert told(recorded("2.2.19"))["table", "k", "t"][1]["indexes"] == {}


@pytest.mark.parametrize(
    ("options", "target"),
    [("{}", "m"), ("null", "m"), ('{"index_keys": ""}', "keys(m)"), ('{"index_values": ""}', "values(m)")],
)
def test_an_index_on_a_part_of_a_collection_says_which(options, target):
    row = {
        "keyspace_name": "k", "columnfamily_name": "t", "column_name": "m", "component_index": 0, "type": "regular",
        "validator": "org.apache.cassandra.db.marshal.MapType(org.apache.cassandra.db.marshal.UTF8Type,"
        "org.apache.cassandra.db.marshal.UTF8Type)",
        "index_name": "i", "index_type": "COMPOSITES", "index_options": options,
    }  # fmt: skip
    tables = recorded("2.1.22") | {"system.schema_columns": [row]}
    assert told(tables)["table", "k", "t"][1]["indexes"] == {"i": {"kind": "COMPOSITES", "target": target}}


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_dropped_columns_are_told_with_the_time_in_milliseconds(version):
    dropped = told(recorded(version))["table", "k", "t"][1]["dropped_columns"]
    assert set(dropped) == {"a", "l"}
    assert all(entry["type"] is None and 1.7e12 < entry["dropped_time"] < 2e12 for entry in dropped.values())


@pytest.mark.parametrize("version", VERSIONS[2:])
def test_types_are_told_in_the_words_of_cql(version):
    found = told(recorded(version))
    assert found["type", "k", "u"] == (None, {"fields": [["x", "int"], ["y", "text"], ["zz", "int"]]})
    columns = found["table", "k", "tu"][1]["columns"]
    assert {name: entry["type"] for name, entry in columns.items()} == {
        "k": "int",
        "u": "frozen<u>",
        "lu": "list<frozen<u>>",
        "fl": "frozen<list<int>>",
        "tp": "frozen<tuple<int, text>>",
    }


def test_functions_and_aggregates_are_told_in_the_words_of_cql():
    int_, text = "org.apache.cassandra.db.marshal.Int32Type", "org.apache.cassandra.db.marshal.UTF8Type"
    function = {
        "keyspace_name": "k", "function_name": "f", "argument_names": ["a", "b"], "argument_types": [int_, text],
        "return_type": int_, "body": "return a;",
    }  # fmt: skip
    aggregate = {
        "keyspace_name": "k", "aggregate_name": "g", "argument_types": [text], "state_func": "f", "state_type": int_,
        "final_func": None,
    }  # fmt: skip
    found = told(recorded("2.2.19") | {"system.schema_functions": [function], "system.schema_aggregates": [aggregate]})
    assert found["function", "k", "f"][1] == {
        "arguments": [["a", "int"], ["b", "text"]],
        "returns": "int",
        "body": "return a;",
    }
    assert found["aggregate", "k", "g"][1] == {
        "arguments": ["text"],
        "state_function": "f",
        "state_type": "int",
        "final_function": None,
    }


# ── halves ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def without(version, table, name):
    tables = recorded(version)
    return tables | {table: [row for row in tables[table] if row["columnfamily_name"] != name]}


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_without_a_table_have_neither_id_nor_options(version):
    identity, definition = told(without(version, "system.schema_columnfamilies", "t"))["table", "k", "t"]
    assert (identity, definition["options"]) == (None, {})
    assert "b" in definition["columns"]


@pytest.mark.parametrize("version", VERSIONS[:3])
def test_up_to_2_1_the_columns_of_the_key_come_with_the_table(version):
    """A server of 2.0 or 2.1 serves them so, and writes their rows anew when it starts."""
    definition = told(without(version, "system.schema_columns", "t"))["table", "k", "t"][1]
    assert definition["columns"] == {"k": column("int", "partition_key", 0)}


def test_on_2_2_a_table_without_rows_of_columns_has_none():
    definition = told(without("2.2.19", "system.schema_columns", "t"))["table", "k", "t"][1]
    assert definition["columns"] == {}
    assert definition["options"]["comment"] == "y"


def test_a_row_of_which_only_a_part_is_left_is_told_as_far_as_it_goes():
    head = {
        "keyspace_name": "k",
        "columnfamily_name": "half",
        "comment": "x",
        "key_aliases": None,
        "key_validator": None,
    }
    tables = recorded("1.2.19")
    tables = tables | {"system.schema_columnfamilies": [*tables["system.schema_columnfamilies"], head]}
    identity, definition = told(tables)["table", "k", "half"]
    assert (identity, definition["columns"], definition["options"]) == (None, {}, {"comment": "x"})
