"""Schema rows merge in any order to one state, and are loaded back as what was written."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.changes import Making, carry_out
from schemaquake.clusters.simulated.schema.definitions import DEFAULT_OPTIONS, Keyspace
from schemaquake.clusters.simulated.schema.describing import describe
from schemaquake.clusters.simulated.schema.loading import load_keyspaces
from schemaquake.clusters.simulated.schema.mutations import Writing, difference
from schemaquake.clusters.simulated.schema.rows import RowChange, SchemaRows
from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.model.steps import Invoke

CHANGES = (
    ddl.create_keyspace("ks", replication_factor=3),
    ddl.create_type("ks", "u", fields=[("a", "int"), ("b", "text")]),
    ddl.create_table(
        "ks", "t", columns=[("k", "int", "partition_key"), ("c", "int", "clustering"), ("v", "frozen<u>", "regular")]
    ),
    ddl.add_column("ks", "t", "w", "list<int>"),
    ddl.create_index("ks", "i", table="t", column="w"),
    ddl.alter_options("ks", "t", {"comment": "x"}),
    ddl.create_function("ks", "f", arguments=[("s", "int"), ("x", "int")], returns="int", body="return s;"),
    ddl.create_aggregate("ks", "g", arguments=["int"], state_function="f", state_type="int"),
    ddl.create_table("ks", "b", columns=[("k", "int", "partition_key"), ("v", "int", "regular")]),
    ddl.create_view("ks", "m", base="b", primary_key=["v", "k"]),
    ddl.add_field("ks", "u", "c", "int"),
    ddl.drop_index("ks", "i"),
    ddl.drop_column("ks", "t", "w"),
    ddl.rename_column("ks", "t", "k", "kk"),
    ddl.drop_view("ks", "m"),
    ddl.drop_table("ks", "b"),
    ddl.drop_aggregate("ks", "g"),
)


def written():
    """Every change in turn: the schema in memory, and the rows of each."""
    schema, rows = {}, []
    for number, change in enumerate(CHANGES, start=1):
        making = Making(lambda _ks, name, n=number: f"{n:032x}", number * 1000)
        after = carry_out(schema, change.f, change.value, making)
        rows += difference(schema, after, number * 1000, Writing())
        schema = after
        yield schema, rows


def loaded(rows):
    return load_keyspaces(rows, sorted(rows.keyspaces), {}, lambda _text: None)


def test_a_disk_is_loaded_as_what_the_coordinator_computed():
    for schema, changes in written():
        disk = SchemaRows()
        disk.merge(changes)
        assert list(describe(loaded(disk))) == list(describe(schema))
        assert loaded(disk) == schema


@given(st.data())
def test_rows_merge_in_any_order_and_any_number_to_one_version(data):
    *_, (_, changes) = written()
    one, other = SchemaRows(), SchemaRows()
    one.merge(changes)
    again = data.draw(st.lists(st.sampled_from(changes), max_size=5))
    other.merge(data.draw(st.permutations(changes)) + again)
    assert one.version() == other.version()
    assert loaded(one) == loaded(other)


def test_a_pull_carries_everything():
    *_, (_, changes) = written()
    one, other = SchemaRows(), SchemaRows()
    one.merge(changes)
    other.merge(one.changes())
    assert one.version() == other.version()


def test_of_a_cell_and_a_deletion_of_one_moment_the_deletion_wins():
    rows = SchemaRows()
    rows.merge([RowChange("ks", ("types", "u"), {"": (5, True)}), RowChange("ks", ("types",), {}, 5)])
    assert rows.table("types") == []
    rows.merge([RowChange("ks", ("types", "u"), {"": (6, True)})])
    assert [row["type_name"] for row in rows.table("types")] == ["u"]


def made(*changes: Invoke) -> Mapping[str, Keyspace]:
    schema: Mapping[str, Keyspace] = {}
    for number, change in enumerate(changes):
        making = Making(lambda _ks, name, n=number: f"{n:032x}", number * 1000)
        schema = carry_out(schema, change.f, change.value, making)
    return schema


BASE = (
    ddl.create_keyspace("k", replication_factor=1),
    ddl.create_table(
        "k", "t", columns=[("a", "int", "partition_key"), ("c", "int", "regular")], options={"comment": "x"}
    ),
)


def test_a_view_has_the_defaults_and_none_of_its_bases_options() -> None:
    keyspace = made(*BASE, ddl.create_view("k", "m", base="t", primary_key=["c", "a"]))["k"]
    assert keyspace.tables["t"].options["comment"] == "x"
    assert keyspace.views["m"].options == DEFAULT_OPTIONS


def test_a_view_by_a_column_that_its_base_lacks_is_refused() -> None:
    with pytest.raises(ServerSaid, match="Unknown column 'gone'"):
        made(*BASE, ddl.create_view("k", "m", base="t", primary_key=["gone", "a"]))


def test_a_column_has_one_index():
    schema = {}
    for change in CHANGES[:5]:
        schema = carry_out(schema, change.f, change.value, Making(lambda *_: "1" * 32, 1))
    second = ddl.create_index("ks", "j", table="t", column="w")
    with pytest.raises(ServerSaid, match="duplicate of existing index i"):
        carry_out(schema, second.f, second.value, Making(lambda *_: "1" * 32, 2))
    twice = {**second.value, "if_not_exists": True}
    assert carry_out(schema, second.f, twice, Making(lambda *_: "1" * 32, 2)) is schema
