"""Meetings of statements: each can succeed in some order, and what is known to break is among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import get_args

import pytest
from perfect_cluster import PerfectCluster

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES, create_keyspace
from schemaquake.workloads.statements.description import DATA, SCHEMA
from schemaquake.workloads.statements.meetings import Meeting, Relation, meetings


@cache
def by_name() -> Mapping[str, Meeting]:
    """Every meeting: they take a second to make, which is none of collecting tests."""
    return {cell.name: cell for cell in meetings()}


def cluster_before(cell: Meeting) -> PerfectCluster:
    """Build the cluster in which the cell's race begins; every statement of its setup must succeed."""
    cluster = PerfectCluster()
    if cell.keyspace_exists:
        assert cluster.apply(create_keyspace("ks", replication_factor=3))
    for change in cell.setup("ks"):
        assert cluster.apply(change), statement(change.f, change.value)
    return cluster


def outcomes(cell: Meeting, order: tuple[int, int]) -> list[bool]:
    cluster = cluster_before(cell)
    changes = [cell.statements[side].write(cell.names("ks", side)) for side in order]
    return [cluster.apply(change) for change in changes if change.f in SCHEMA_CHANGES]


@pytest.mark.parametrize("relation", get_args(Relation))
def test_each_side_of_a_cell_succeeds_in_some_order(relation: str) -> None:
    related = [cell for cell in meetings() if cell.relation == relation]
    assert related
    for cell in related:
        forth, back = outcomes(cell, (0, 1)), outcomes(cell, (1, 0))
        if len(forth) == 2:
            assert forth[0] or back[1], cell.name
            assert forth[1] or back[0], cell.name
        else:
            assert forth == [True], cell.name


def test_a_cell_s_statements_can_be_told_apart_and_read_back() -> None:
    assert len(by_name()) == len(meetings())
    assert all(cell.name.count("/") == 2 for cell in meetings())


def pairs_of(cells: Iterable[Meeting]) -> set[frozenset[str]]:
    return {frozenset(statement.name for statement in cell.statements) for cell in cells}


def test_every_schema_change_meets_every_other_at_least_in_a_keyspace() -> None:
    pairs = pairs_of(meetings())
    lonely = {(a.name, b.name) for a in SCHEMA for b in SCHEMA if frozenset({a.name, b.name}) not in pairs}
    # A statement that needs an object cannot be raced against the one that makes the keyspace around it.
    assert {first for pair in lonely for first in pair if "create-keyspace" in pair} >= {"create-keyspace"}
    assert all({"create-keyspace", "create-keyspace-if-not-exists"} & set(pair) for pair in lonely), lonely


def test_reads_and_writes_meet_every_change_of_what_they_are_in() -> None:
    pairs = pairs_of(meetings())
    for change in ("add-column", "alter-comment", "alter-compaction", "drop-keyspace", "alter-keyspace"):
        assert all(frozenset({change, one.name}) in pairs for one in DATA), change
    data = [cell for cell in meetings() if cell.statements[1] in DATA]
    assert {cell.relation for cell in data if cell.statements[0].subject.kind != "keyspace"} == {
        "same",
        "names",
        "siblings",
    }


def test_a_variant_meets_each_other_statement_in_the_closest_relation_alone() -> None:
    plain = {statement.name for statement in (*SCHEMA, *DATA) if statement.variant_of is None}
    assert {statement.variant_of for statement in (*SCHEMA, *DATA)} - {None} <= plain
    relations: dict[frozenset[str], set[str]] = {}
    for cell in meetings():
        if any(statement.variant_of for statement in cell.statements):
            relations.setdefault(frozenset(s.name for s in cell.statements), set()).add(cell.relation)
    assert relations
    assert all(len(some) == 1 for some in relations.values())


@pytest.mark.parametrize(
    "name",
    [
        "create-table/create-table/same-table",
        "create-table/create-table-if-not-exists/same-table",
        "create-table-of-type/drop-type/names-type",
        "add-column-of-type/drop-type/names-type",
        "create-type-of-type/drop-type/names-type",
        "drop-function/create-aggregate/names-function",
        "drop-table/create-view/names-table",
        "drop-table/alter-comment/same-table",
        "drop-table/add-column/names-table",
        "drop-keyspace/create-table/keyspace",
        "drop-keyspace/create-type/keyspace",
        "alter-comment/alter-comment/same-table",
        "alter-comment/alter-compaction/same-table",
        "add-column/add-column/same-column",
        "add-column/add-text-column/same-column",
        "add-column/add-column/siblings-table",
        "add-column/drop-column/same-column-that-exists",
        "add-field/add-field/same-field",
        "add-field/add-field/siblings-type",
        "create-index/create-index/name-table",
        "drop-column/create-index/names-column",
        "create-table/drop-table/same-table-that-exists",
        "drop-column/insert-at-quorum/names-column",
        "drop-index/read-by-index/same-index",
        "drop-view/read-view/same-view",
        "alter-view/drop-view/same-view",
        "create-index/create-sai-index/name-table",
        "add-static-column/drop-static-column/same-column",
        "drop-table/truncate-table/same-table",
        "drop-column/update-at-one/names-column",
        "drop-column/batch-at-quorum/names-column",
        "alter-keyspace/insert-if-not-exists/keyspace",
    ],
)
def test_the_races_of_the_catalogue_are_cells(name: str) -> None:
    assert name in by_name()


@pytest.mark.parametrize(
    "name",
    [
        "create-index/create-index/name",
        "create-table/create-view/name",
        "drop-column/rename-column/siblings-table",
        "create-view/create-index/siblings-column",
        "rename-field/add-field/same-field",
        "alter-keyspace/drop-keyspace/same-keyspace",
        "create-keyspace/create-keyspace/same-keyspace",
        "drop-column/create-view/names-column",
        "add-field-of-type/add-field-of-type/crossed-type",
        "add-field-of-type/drop-type/names-inner-type",
        "drop-type/create-function-of-type/names-type",
        "replace-function/create-aggregate/names-function",
        "replace-function/drop-function/same-function",
        "rename-column/create-index-on-clustering/names-clustering",
        "drop-map-column/create-sai-index-on-keys/names-column",
        "drop-aggregate-if-exists/drop-aggregate-if-exists/same-aggregate",
        "drop-table/truncate-table/same-table",
        "drop-table/drop-view/names-table",
        "create-table/create-clustered-table/same-table",
        "add-field/insert-of-type/siblings-type",
        "rename-field/insert-of-type/siblings-type",
        "drop-column/delete-column/names-column",
        "add-map-column/create-index-on-entries/names-column",
        "drop-column/drop-sai-index/names-column",
        "drop-sai-index/read-by-sai-index/same-index",
        "create-index/drop-sai-index/same-index-that-exists",
        "create-view/read-by-sai-index/siblings-column",
    ],
)
def test_what_is_in_no_catalogue_is_a_cell_too(name: str) -> None:
    first, second, relation = name.split("/")
    assert name in by_name() or f"{second}/{first}/{relation}" in by_name()


def test_an_index_has_the_class_that_its_statements_ask_for() -> None:
    def before_and_made(name: str) -> list[str | None]:
        cell = by_name()[name]
        made = [cell.statements[side].write(cell.names("ks", side)) for side in (0, 1)]
        return [one.value.get("using") for one in (*cell.setup("ks"), *made) if one.f == "create-index"]

    assert before_and_made("drop-index/read-by-index/same-index") == [None]
    assert before_and_made("drop-sai-index/read-by-sai-index/same-index") == ["sai"]
    assert before_and_made("drop-index/read-by-sai-index/same-index") == ["sai"]
    assert before_and_made("create-index/drop-sai-index/same-index-that-exists") == ["sai", None]
    assert before_and_made("create-sai-index/drop-index/same-index-that-exists") == [None, "sai"]
    # Without an index before, DROP is that of any class, and a lookup by an index of another class is none by this one.
    assert "create-index/drop-sai-index/same-index" not in by_name()
    assert "create-index/read-by-sai-index/same-index" not in by_name()


def test_relations_are_what_they_say() -> None:
    cell = by_name()["create-index/create-index/name"]
    one, other = (cell.statements[side].write(cell.names("ks", side)).value for side in (0, 1))
    assert one["name"] == other["name"]
    assert one["table"] != other["table"]
    assert by_name()["create-table/drop-table/same-table"].setup("ks") == []
    assert len(by_name()["create-table/drop-table/same-table-that-exists"].setup("ks")) == 1
    cell = by_name()["add-column/drop-column/same-column-that-exists"]
    (table,) = cell.setup("ks")
    assert ["c0", "int", "regular"] in table.value["columns"]
    assert Counter(change.f for change in by_name()["drop-index/drop-index/siblings-table"].setup("ks")) == {
        "create-table": 1,
        "create-index": 2,
    }


def test_two_types_that_would_contain_each_other_are_both_there_before() -> None:
    cell = by_name()["add-field-of-type/add-field-of-type/crossed-type"]
    assert {change.value["name"] for change in cell.setup("ks")} == {"u0", "u1"}
    fields = {
        one.value["name"]: one.value["field"][1]
        for one in (cell.statements[side].write(cell.names("ks", side)) for side in (0, 1))
    }
    assert fields == {"u0": "frozen<u1>", "u1": "frozen<u0>"}


def test_what_would_be_refused_in_every_order_is_no_cell() -> None:
    together = [name for name in by_name() if {"create-function-of-type", "create-aggregate"} <= set(name.split("/"))]
    assert together == ["create-function-of-type/create-aggregate/keyspace"], "its result is no integer"
    refused = "a column that was dropped comes back with its type alone"
    assert "add-text-column/drop-column/same-column-that-exists" not in by_name(), refused
    assert "add-text-column/drop-column/same-column" in by_name()
    assert "add-frozen-list-column/drop-list-column/same-column-that-exists" in by_name(), (
        "of one type, and a table breaks"
    )
    assert "drop-index/drop-index/siblings-column" not in by_name(), "two indexes on one column are alike"
    on_keys = [name for name in by_name() if name.endswith("/create-sai-index-on-keys/names-column")]
    assert on_keys == [f"{verb}-map-column/create-sai-index-on-keys/names-column" for verb in ("add", "drop")]


def test_a_race_that_makes_its_keyspace_begins_without_it() -> None:
    cell = by_name()["create-keyspace/create-keyspace/same-keyspace"]
    assert not cell.keyspace_exists
    assert by_name()["create-keyspace/drop-keyspace/same-keyspace-that-exists"].keyspace_exists


@pytest.mark.parametrize(
    ("name", "risk"),
    [
        ("create-table-of-type/drop-type/names-type", 1),
        ("drop-table/create-view/names-table", 1),
        ("drop-keyspace/create-table/keyspace", 1),
        ("create-table/create-table/same-table", 1),
        ("add-column/add-text-column/same-column", 1),
        ("drop-table/drop-table/same-table", 0),
        ("alter-comment/alter-time-to-live/same-table", 0),
        ("create-type/create-function/keyspace", 0),
        ("alter-comment/drop-view/keyspace", 0.5),
    ],
)
def test_what_takes_away_or_makes_otherwise_what_the_other_rests_on_is_risky(name: str, risk: float) -> None:
    assert by_name()[name].risk == risk


def test_risky_cells_are_some_and_not_most() -> None:
    risky = sum(cell.risk == 1 for cell in meetings())
    assert 0.1 < risky / len(meetings()) < 0.5
