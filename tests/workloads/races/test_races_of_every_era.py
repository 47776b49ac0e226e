"""What races in each line from 0.7 to 6.0: nothing that it cannot express, and everything that it can."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from crew_at_work import carry_out, whole_run
from racing_context import racing_context

from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke, Require, Wait
from schemaquake.workloads.races.engine import HARMLESS, POISONS, Race, RacingWorkload
from schemaquake.workloads.races.options import Mode
from schemaquake.workloads.races.racing_ddl import RACING, RacingDdl

NODES = ("n1", "n2", "n3")
LINES = ("0.7.10", "0.8.10", "1.0.12", "1.1.12", "1.2.19", "2.0.17", "2.1.22", "2.2.19", "3.0.22", "3.11.19", "5.0.9")
THRIFT = LINES[:4]

each_line = pytest.mark.parametrize("line", LINES)
KINDS = {workload.name: workload for workload in RACING}


def context(line: str, *, mode: Mode = "barrier", **more: Any) -> Context:
    features = recipe_for(parse_system(f"cassandra:{line}")).features
    isolated = ("n2",) if mode == "partition" else ()
    return racing_context(seed=3, nodes=NODES, features=features, mode=mode, isolated=isolated, **{"races": 14} | more)


def able(line: str) -> Iterator[RacingWorkload]:
    return (workload for workload in RACING if workload.requires <= context(line).features)


def variants(line: str, name: str) -> set[str]:
    return {race.variant for race in KINDS[name].races(context(line))}


def races(line: str) -> Iterator[Race]:
    for workload in able(line):
        yield from workload.races(context(line))


def test_what_an_era_lacks_is_not_applicable_to_it() -> None:
    everywhere = {"create-table", "drop-keyspace", "drop-recreate", "alter-options", "add-columns", "drop-alter"}
    expected = dict.fromkeys(LINES[:6], everywhere | {"create-index"})
    expected["2.1.22"] = expected["2.0.17"] | {"drop-type", "alter-type"}
    expected["2.2.19"] = expected["2.1.22"] | {"drop-function"}
    expected |= dict.fromkeys(LINES[8:], expected["2.2.19"] | {"drop-table-view"})
    assert {line: {workload.name for workload in able(line)} for line in LINES} == expected


@pytest.mark.parametrize(
    ("name", "variant", "since"),
    [
        ("create-table", "names", "0.7.10"),
        ("create-table", "same", "0.7.10"),
        ("create-table", "definitions", "0.7.10"),
        ("add-columns", "columns", "0.7.10"),
        ("add-columns", "collections", "1.2.19"),
        ("create-index", "name", "0.7.10"),
        ("create-index", "column", "2.0.17"),
        ("drop-recreate", "instant-database", "0.7.10"),
        ("drop-recreate", "column", "2.0.17"),
        ("drop-keyspace", "type", "2.1.22"),
    ],
)
def test_a_variant_is_left_out_where_it_cannot_be_expressed(name: str, variant: str, since: str) -> None:
    assert [line for line in LINES if variant in variants(line, name)] == list(LINES[LINES.index(since) :])


@each_line
def test_columns_are_dropped_only_where_their_cells_go_too(line: str) -> None:
    dropped = [step for race in races(line) for side in race.sides for step in side if f_of(step) == "drop-column"]
    assert bool(dropped) == (LINES.index(line) >= LINES.index("2.0.17"))


def f_of(step: Invoke | Wait) -> str:
    return step.f if isinstance(step, Invoke) else "wait"


@each_line
def test_a_line_is_asked_for_types_that_it_has(line: str) -> None:
    kinds = {"int", "text"}
    kinds |= {"list<int>"} if LINES.index(line) >= LINES.index("1.2.19") else set()
    kinds |= {"frozen<u>"} if LINES.index(line) >= LINES.index("2.1.22") else set()
    assert {kind for operation in asked(line) for kind in types_of(operation)} == kinds
    cells = {
        type(cell) for operation in asked(line) if operation.f == "insert" for cell in operation.value["row"].values()
    }
    assert cells <= {int, str, *([list] if "list<int>" in kinds else []), *([dict] if "frozen<u>" in kinds else [])}


def asked(line: str) -> list[Invoke]:
    return whole_run(RacingDdl(), context(line, races=4))


def types_of(operation: Invoke) -> Iterator[str]:
    if operation.f == "create-table":
        yield from (cql_type for _, cql_type, _ in operation.value["columns"])
    if operation.f == "add-column":
        yield operation.value["column"][1]


def test_a_different_table_from_every_node_comes_first_where_it_is_the_worst() -> None:
    assert {line: KINDS["create-table"].races(context(line))[0].variant for line in LINES} == {
        line: "names" if line in THRIFT else "same" for line in LINES
    }


# ── one change at a time ─────────────────────────────────────────────────────────────────────────────────────────────


@each_line
def test_what_is_set_up_is_required_where_a_change_may_be_refused_for_another_s_sake(line: str) -> None:
    where = context(line, races=2, until_poisoned=True)
    (worker, *_) = RacingDdl().crew(where)
    steps = list(RacingDdl().steps("setup", worker, where, phase_label=""))
    assert {type(step) for step in steps} == ({Require, Wait} if line in THRIFT else {Invoke})
    waited = sum(step.seconds for step in steps if isinstance(step, Wait))
    assert waited <= 0.05 * sum(isinstance(step, Require) for step in steps)


@each_line
def test_no_statement_of_a_race_is_asked_for_again(line: str) -> None:
    for mode in ("barrier", "single"):
        where = context(line, mode=mode, races=3, until_poisoned=True)  # type: ignore[arg-type]
        for worker in RacingDdl().crew(where):
            for step in RacingDdl().steps("main", worker, where, phase_label=""):
                if isinstance(step, Require):
                    assert step.invoke.value["keyspace"] == "sq_canary"
                    assert step.invoke.f in {"create-table", "know-table", "insert"}


@pytest.mark.parametrize("line", THRIFT)
def test_the_control_leaves_every_change_time_to_arrive(line: str) -> None:
    for workload in able(line):
        done = carry_out(workload, "main", context(line, mode="single", races=6))
        stated = [one for one in done if isinstance(one.step, Invoke) and one.step.f in SCHEMA_CHANGES]
        own = [one for one in stated if one.step.value["keyspace"] != "sq_canary"]  # type: ignore[union-attr]
        for before, after in pairwise(own):
            assert after.begun - before.ended > 0.39


@pytest.mark.parametrize("line", ["0.7.10", "2.0.17", "5.0.9"])
def test_under_faults_a_node_may_be_killed_between_drop_and_create(line: str) -> None:
    options = {"variant": "instant-database"}
    where = context(line, races=4, under_faults=True, time_limit_s=40, options=options)
    done = carry_out(KINDS["drop-recreate"], "main", where)
    for race in KINDS["drop-recreate"].races(where):
        drop, create = (
            one
            for one in done
            if isinstance(one.step, Invoke) and one.step.key == f"{race.keyspace}.t" and one.step.f in SCHEMA_CHANGES
        )
        assert create.begun - drop.ended >= 4
        assert drop.worker == create.worker


# ── what a lost race does to later ones ──────────────────────────────────────────────────────────────────────────────


def test_collections_poison_while_they_share_a_cell_of_their_table() -> None:
    how = {
        line: {race.disturbance for race in KINDS["add-columns"].races(context(line)) if race.variant == "collections"}
        for line in LINES[4:]
    }
    assert how == {line: {POISONS if line < "3" else HARMLESS} for line in LINES[4:]}


@pytest.mark.parametrize("line", LINES[:6])
def test_no_kind_of_race_is_put_before_the_others_where_each_spoils_all(line: str) -> None:
    where = context(line, races=4)
    setup = carry_out(RacingDdl(), "setup", where)
    made = [one.step.value["keyspace"] for one in setup if isinstance(one.step, Invoke)]
    keyspaces = list(dict.fromkeys(made))
    numbers = [int(keyspace[-3:]) for keyspace in keyspaces]
    assert numbers == sorted(numbers)
    assert len(keyspaces) == 4 * len(list(able(line)))
