"""Schema changes are values: what they say can be read back, and nothing is said that was not meant."""

from __future__ import annotations

import inspect

import orjson
import pytest

from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.ddl.schema_changes import ALTERS, CREATES, DROPS, SCHEMA_CHANGES

CHANGES = [
    ddl.create_keyspace("ks", replication_factor=3),
    ddl.alter_keyspace("ks", replication_factor=2),
    ddl.drop_keyspace("ks"),
    ddl.create_table("ks", "t", columns=[("k", "int", "partition_key")]),
    ddl.drop_table("ks", "t"),
    ddl.add_column("ks", "t", "c", "int"),
    ddl.drop_column("ks", "t", "c"),
    ddl.rename_column("ks", "t", "k", "l"),
    ddl.alter_options("ks", "t", {"comment": "x"}),
    ddl.create_type("ks", "u", fields=[("a", "int")]),
    ddl.add_field("ks", "u", "b", "int"),
    ddl.rename_field("ks", "u", "b", "c"),
    ddl.drop_type("ks", "u"),
    ddl.create_function("ks", "f", arguments=[("a", "int")], returns="int", body="return a;"),
    ddl.drop_function("ks", "f"),
    ddl.create_aggregate("ks", "g", arguments=["int"], state_function="f", state_type="int"),
    ddl.drop_aggregate("ks", "g"),
    ddl.create_view("ks", "v", base="t", primary_key=["c", "k"]),
    ddl.alter_view("ks", "v", {"comment": "x"}),
    ddl.drop_view("ks", "v"),
    ddl.create_index("ks", "i", table="t", column="c"),
    ddl.drop_index("ks", "i"),
]


def test_every_kind_of_change_has_a_function():
    assert {change.f for change in CHANGES} == SCHEMA_CHANGES
    assert len(CHANGES) == len(SCHEMA_CHANGES)


def test_a_change_creates_or_drops_or_alters():
    assert SCHEMA_CHANGES == CREATES | DROPS | ALTERS
    assert not CREATES & DROPS
    assert not ALTERS & (CREATES | DROPS)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.f)
def test_key_is_the_object_that_the_value_names(change):
    value = change.value
    named = f"{value['keyspace']}.{value['name']}" if "name" in value else value["keyspace"]
    assert change.key == named
    assert ("name" not in value) == change.f.endswith("keyspace")


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.f)
def test_value_is_json_and_reads_back_unchanged(change):
    assert orjson.loads(orjson.dumps(change.value)) == change.value


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.f)
def test_what_was_not_asked_for_is_not_in_the_value(change):
    assert not {"if_exists", "if_not_exists", "timestamp", "final_function"} & set(change.value)
    assert None not in change.value.values()


@pytest.mark.parametrize(
    ("change", "definition"),
    [
        (ddl.drop_column("ks", "t", "c", timestamp=0), {"column": "c", "timestamp": 0}),
        (ddl.drop_table("ks", "t", if_exists=True), {"if_exists": True}),
        (ddl.create_index("ks", "t", table="t", column="c", if_not_exists=True), {"if_not_exists": True}),
        (ddl.alter_options("ks", "t", {"cdc": False}), {"options": {"cdc": False}}),
        (
            ddl.create_table("ks", "t", columns=[("k", "int", "partition_key")], options={"gc_grace_seconds": 0}),
            {"columns": [["k", "int", "partition_key"]], "options": {"gc_grace_seconds": 0}},
        ),
    ],
    ids=["a timestamp of 0 is one", "if exists", "if not exists", "an option may be false", "an option may be 0"],
)
def test_what_was_asked_for_is_in_the_value(change, definition):
    assert {name: change.value.get(name) for name in definition} == definition


def test_a_value_does_not_change_with_what_it_was_made_of():
    columns = [["k", "int", "partition_key"]]
    options = {"comment": "before"}
    created = ddl.create_table("ks", "t", columns=columns, options=options)
    altered = ddl.alter_options("ks", "t", options)
    columns[0][0] = "after"
    columns.append(["v", "int", "regular"])
    options["comment"] = "after"
    assert created.value["columns"] == [["k", "int", "partition_key"]]
    assert created.value["options"] == altered.value["options"] == {"comment": "before"}


def test_module_lists_every_change_in_its_table():
    table = inspect.getdoc(ddl)
    assert table is not None
    for f in SCHEMA_CHANGES | {"cql"}:
        assert f in table, f"{f} is not described"
