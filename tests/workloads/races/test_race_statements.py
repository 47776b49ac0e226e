"""Each racing workload states exactly the pair of statements that its ticket is about, in the damaging order."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from crew_at_work import FEATURES
from racing_context import racing_context

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.model.steps import Invoke, Wait
from schemaquake.workloads.races.engine import NEVER, POISONS, WHILE_RACING, Race, RacingWorkload
from schemaquake.workloads.races.racing_ddl import RACING

NODES = ("n1", "n2", "n3")
CONTEXT = racing_context(seed=1, nodes=NODES, features=FEATURES, races=20, keyspace_prefix="p")

KINDS = {workload.name: workload for workload in RACING}

# workload and variant → what is made before, what each side states; `ks` stands for the race's keyspace.
CATALOGUE = {
    ("create-table", "same"): (
        ["CREATE TABLE ks.bystander (k int, v text, PRIMARY KEY (k))"],
        [["CREATE TABLE ks.t (k int, v text, PRIMARY KEY (k))"]] * 3,
    ),
    ("create-table", "definitions"): (
        ["CREATE TABLE ks.bystander (k int, v text, PRIMARY KEY (k))"],
        [
            ["CREATE TABLE ks.t (a int, x int, PRIMARY KEY (a))"],
            ["CREATE TABLE ks.t (b int, y int, PRIMARY KEY (b))"],
            ["CREATE TABLE ks.t (c int, z int, PRIMARY KEY (c))"],
        ],
    ),
    ("create-table", "names"): (
        ["CREATE TABLE ks.bystander (k int, v text, PRIMARY KEY (k))"],
        [
            ["CREATE TABLE ks.t0 (k int, v text, PRIMARY KEY (k))"],
            ["CREATE TABLE ks.t1 (k int, v text, PRIMARY KEY (k))"],
            ["CREATE TABLE ks.t2 (k int, v text, PRIMARY KEY (k))"],
        ],
    ),
    ("drop-type", "table"): (
        ["CREATE TYPE ks.u (a int, b text)", "CREATE TABLE ks.t (k int, v text, PRIMARY KEY (k))"],
        [["DROP TYPE ks.u"], ["CREATE TABLE ks.x (k int, c frozen<u>, PRIMARY KEY (k))"]],
    ),
    ("drop-type", "column"): (
        ["CREATE TYPE ks.u (a int, b text)", "CREATE TABLE ks.t (k int, v text, PRIMARY KEY (k))"],
        [["DROP TYPE ks.u"], ["ALTER TABLE ks.t ADD c frozen<u>"]],
    ),
    ("drop-type", "nested"): (
        ["CREATE TYPE ks.u (a int, b text)", "CREATE TABLE ks.t (k int, v text, PRIMARY KEY (k))"],
        [["DROP TYPE ks.u"], ["CREATE TYPE ks.w (b frozen<u>)"]],
    ),
    ("drop-function", "aggregate"): (
        [
            "CREATE TABLE ks.t (k int, v text, PRIMARY KEY (k))",
            (
                "CREATE FUNCTION ks.f (state int, value int) CALLED ON NULL INPUT RETURNS int LANGUAGE java "
                "AS $$return (state == null ? 0 : state) + (value == null ? 0 : value);$$"
            ),
        ],
        [["DROP FUNCTION ks.f"], ["CREATE AGGREGATE ks.g (int) SFUNC f STYPE int"]],
    ),
    ("drop-table-view", "view"): (
        [
            "CREATE TABLE ks.bystander (k int, v text, PRIMARY KEY (k))",
            "CREATE TABLE ks.t (k int, w int, PRIMARY KEY (k))",
        ],
        [
            ["DROP TABLE ks.t"],
            [
                (
                    "CREATE MATERIALIZED VIEW ks.m AS SELECT * FROM ks.t WHERE w IS NOT NULL AND k IS NOT NULL "
                    "PRIMARY KEY (w, k)"
                )
            ],
        ],
    ),
    ("drop-alter", "comment"): (
        [
            "CREATE TABLE ks.bystander (k int, v text, PRIMARY KEY (k))",
            "CREATE TABLE ks.t (k int, v text, PRIMARY KEY (k))",
        ],
        [["DROP TABLE ks.t"], ["ALTER TABLE ks.t WITH comment = 'race 0'"]],
    ),
    ("drop-alter", "column"): (
        [
            "CREATE TABLE ks.bystander (k int, v text, PRIMARY KEY (k))",
            "CREATE TABLE ks.t (k int, v text, PRIMARY KEY (k))",
        ],
        [["DROP TABLE ks.t"], ["ALTER TABLE ks.t ADD w int"]],
    ),
    ("drop-keyspace", "table"): (
        ["CREATE TABLE ks.t (k int, v text, PRIMARY KEY (k))"],
        [["DROP KEYSPACE ks"], ["CREATE TABLE ks.t1 (k int, v text, PRIMARY KEY (k))"]],
    ),
    ("drop-keyspace", "type"): (
        ["CREATE TABLE ks.t (k int, v text, PRIMARY KEY (k))"],
        [["DROP KEYSPACE ks"], ["CREATE TYPE ks.u1 (a int)"]],
    ),
    ("alter-options", "options"): (
        ["CREATE TABLE ks.t (k int, v text, PRIMARY KEY (k))"],
        [["ALTER TABLE ks.t WITH comment = 'race 0'"], ["ALTER TABLE ks.t WITH gc_grace_seconds = 3600"]],
    ),
    ("alter-options", "column"): (
        ["CREATE TABLE ks.t (k int, v text, PRIMARY KEY (k))"],
        [["ALTER TABLE ks.t WITH comment = 'race 1'"], ["ALTER TABLE ks.t ADD c int"]],
    ),
    ("add-columns", "columns"): (
        ["CREATE TABLE ks.t (k int, v text, d0 int, d1 int, d2 int, PRIMARY KEY (k))"],
        [
            [
                f"ALTER TABLE ks.t ADD c{side}_0 int",
                f"ALTER TABLE ks.t DROP d{side}",
                f"ALTER TABLE ks.t ADD c{side}_1 int",
                f"ALTER TABLE ks.t ADD c{side}_2 int",
            ]
            for side in range(3)
        ],
    ),
    ("add-columns", "collections"): (
        ["CREATE TABLE ks.t (k int, v text, PRIMARY KEY (k))"],
        [[f"ALTER TABLE ks.t ADD c{side}_{n} list<int>" for n in range(3)] for side in range(3)],
    ),
    ("alter-type", "field"): (
        ["CREATE TYPE ks.u (a int)", "CREATE TABLE ks.t (k int, c frozen<u>, PRIMARY KEY (k))"],
        [["ALTER TYPE ks.u ADD f1 int"], ["ALTER TYPE ks.u ADD f2 int"]],
    ),
    ("create-index", "name"): (
        ["CREATE TABLE ks.t (k int, a int, b int, PRIMARY KEY (k))"],
        [["CREATE INDEX i ON ks.t (a)"], ["CREATE INDEX i ON ks.t (b)"]],
    ),
    ("create-index", "column"): (
        ["CREATE TABLE ks.t (k int, a int, c int, PRIMARY KEY (k))"],
        [["ALTER TABLE ks.t DROP c"], ["CREATE INDEX i ON ks.t (c)"]],
    ),
    ("drop-recreate", "elsewhere"): (
        [
            "CREATE TABLE ks.bystander (k int, v text, PRIMARY KEY (k))",
            "CREATE TABLE ks.t (k int, v text, c int, PRIMARY KEY (k))",
        ],
        [["DROP TABLE ks.t"], ["CREATE TABLE ks.t (k int, v text, c int, PRIMARY KEY (k))"] * 3],
    ),
    ("drop-recreate", "both"): (
        [
            "CREATE TABLE ks.bystander (k int, v text, PRIMARY KEY (k))",
            "CREATE TABLE ks.t (k int, v text, c int, PRIMARY KEY (k))",
        ],
        [["DROP TABLE ks.t", "CREATE TABLE ks.t (k int, v text, c int, PRIMARY KEY (k))"]] * 2,
    ),
    ("drop-recreate", "column"): (
        [
            "CREATE TABLE ks.bystander (k int, v text, PRIMARY KEY (k))",
            "CREATE TABLE ks.t (k int, v text, c int, PRIMARY KEY (k))",
        ],
        [["ALTER TABLE ks.t DROP c", "ALTER TABLE ks.t ADD c int"]] * 2,
    ),
    ("drop-recreate", "instant-database"): (
        [
            "CREATE TABLE ks.bystander (k int, v text, PRIMARY KEY (k))",
            "CREATE TABLE ks.t (k int, v text, c int, PRIMARY KEY (k))",
        ],
        [["DROP TABLE ks.t", "CREATE TABLE ks.t (k int, v text, c int, PRIMARY KEY (k))"], []],
    ),
}


def first_race(workload: RacingWorkload, variant: str) -> Race:
    return next(race for race in workload.races(CONTEXT) if race.variant == variant)


def texts(race: Race, side: Iterable[Invoke | Wait]) -> list[str]:
    return [statement(change.f, change.value).replace(race.keyspace, "ks") for change in changes_of(side)]


def changes_of(side: Iterable[Invoke | Wait]) -> list[Invoke]:
    return [step for step in side if isinstance(step, Invoke)]


@pytest.mark.parametrize(("name", "variant"), CATALOGUE, ids=[" ".join(key) for key in CATALOGUE])
def test_statements_are_those_of_the_catalogue(name: str, variant: str) -> None:
    race = first_race(KINDS[name], variant)
    setup, sides = CATALOGUE[name, variant]
    assert texts(race, race.setup) == setup
    assert [texts(race, side) for side in race.sides] == sides


def test_the_catalogue_is_complete() -> None:
    found = {(workload.name, race.variant) for workload in RACING for race in workload.races(CONTEXT)}
    assert found == set(CATALOGUE)


def test_every_node_creates_the_table_on_any_size_of_cluster_up_to_eight() -> None:
    for size in (2, 5, 8, 12):
        nodes = tuple(f"n{n}" for n in range(size))
        context = racing_context(seed=1, nodes=nodes, features=FEATURES, races=5)
        assert {len(race.sides) for race in KINDS["create-table"].races(context)} == {min(size, 8)}
        assert {len(race.sides) for race in KINDS["add-columns"].races(context)} == {min(size, 8)}


def test_types_are_left_out_of_drop_keyspace_where_there_are_none() -> None:
    context = racing_context(seed=1, nodes=NODES, features=frozenset({"keyspaces", "tables"}), races=4)
    assert {race.variant for race in KINDS["drop-keyspace"].races(context)} == {"table"}


@pytest.mark.parametrize("name", KINDS)
def test_rows_after_the_race_go_only_to_columns_that_no_side_adds_or_drops(name: str) -> None:
    for race in KINDS[name].races(CONTEXT):
        moved = {
            (change.value["name"], column)
            for side in race.sides
            for change in changes_of(side)
            if change.f in {"add-column", "drop-column"}
            for column in [change.value["column"][0] if change.f == "add-column" else change.value["column"]]
        }
        for probe in race.tables:
            if "settled" in probe.phases:
                assert not {(probe.table, column) for column in probe.columns} & moved


@pytest.mark.parametrize("name", KINDS)
def test_every_column_that_a_race_adds_is_written_and_read_by_itself(name: str) -> None:
    for race in KINDS[name].races(CONTEXT):
        for number, side in enumerate(race.sides):
            for change in changes_of(side):
                if change.f == "add-column" and race.workload != "drop-recreate":
                    (probe,) = [p for p in race.tables if p.columns == ("k", change.value["column"][0])]
                    assert probe.phases == WHILE_RACING
                    assert probe.side == number


def test_a_view_is_read_and_never_written() -> None:
    (view,) = [probe for probe in first_race(KINDS["drop-table-view"], "view").tables if probe.table == "m"]
    assert view.phases == NEVER


def test_fields_raced_for_are_told_apart_by_their_values() -> None:
    race = first_race(KINDS["alter-type"], "field")
    values = {probe.side: dict(probe.row)["c"] for probe in race.tables}
    assert values == {None: {"a": 1}, 0: {"a": 1, "f1": 11}, 1: {"a": 1, "f2": 22}}


def test_poison_is_what_keeps_nodes_from_starting() -> None:
    assert {name for name, workload in KINDS.items() if workload.races(CONTEXT)[0].disturbance == POISONS} == {
        "drop-type",
        "drop-function",
        "drop-alter",
        "create-index",
    }
