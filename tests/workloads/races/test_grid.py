"""The grid as a workload: its cells, and their races on a cluster that is perfect."""

from __future__ import annotations

from typing import Any

import pytest
from crew_at_work import FEATURES, carry_out
from perfect_races import perfect_run
from racing_context import racing_context

from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.errors import NotApplicable, PlanError
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.model.traits import workload_traits
from schemaquake.results.judging.judge import judge
from schemaquake.workloads.races.grid import Grid, cells_with_lookups
from schemaquake.workloads.statements.meetings import meetings

NODES = ("n1", "n2", "n3")


def context(**options: str) -> Context:
    given: dict[str, Any] = {name.replace("_", "-"): text for name, text in options.items()}
    return racing_context(seed=7, nodes=NODES, features=FEATURES, races=1, options=given)


def test_parts_make_the_whole_grid_and_share_nothing() -> None:
    parts = [[race.variant for race in Grid().races(context(batch=f"{n}/7"))] for n in range(1, 8)]
    every = [race.variant for race in Grid().races(context())]
    assert sorted(name for part in parts for name in part) == sorted(every)
    assert len(every) == len(set(every)) > 500
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_race_has_one_number_whatever_is_raced_beside_it() -> None:
    numbers = {race.variant: race.number for race in Grid().races(context())}
    few = Grid().races(context(cells="drop-type/*,*/create-index/same-*"))
    assert few
    assert all(numbers[race.variant] == race.number for race in few)
    assert {race.variant.split("/")[0] for race in few} > {"drop-type"}


def test_cells_are_raced_in_the_order_of_their_names() -> None:
    names = [
        "drop-table/create-view/names-table",
        "create-type/create-type/same-type",
        "drop-table/drop-table/same-table",
    ]
    assert [race.variant for race in Grid().races(context(cells=",".join(names)))] == names


def test_more_races_of_a_cell_have_numbers_of_their_own() -> None:
    name = "drop-table/create-view/names-table"
    races = Grid().races(racing_context(seed=7, nodes=NODES, features=FEATURES, races=4, options={"cells": name}))
    assert [race.variant for race in races] == [name] * 4
    assert len({race.keyspace for race in races}) == len({race.number for race in races}) == 4


def test_turns_of_different_cells_never_have_one_number() -> None:
    both = Grid().races(racing_context(seed=7, nodes=NODES, features=FEATURES, races=2))
    assert len({race.keyspace for race in both}) == len(both)


def test_rows_are_looked_up_through_the_index_and_the_view_of_a_cell() -> None:
    given = racing_context(
        seed=7,
        nodes=NODES,
        features=FEATURES | {"cql"},
        races=1,
        options={"cells": "create-view/create-index/siblings-column"},
    )
    (race,) = Grid().races(given)
    read = {(one.table, one.column, one.index, one.base) for one in race.lookups}
    assert read == {("w0", "c0", None, "t0"), ("t0", "c0", "i0", None)}
    asked = [one.step for one in carry_out(Grid(), "final", given, label="settled")]
    lookups = [step.value for step in asked if isinstance(step, Invoke) and {"index", "base"} & step.value.keys()]
    assert {(value["table"], value["consistency"]) for value in lookups} == {("w0", "ALL"), ("t0", "ALL")}


def test_cells_whose_rows_are_looked_up_are_known_by_name() -> None:
    features = FEATURES | {"cql"}
    found = cells_with_lookups(features)
    races = Grid().races(racing_context(seed=7, nodes=NODES, features=features, races=1))
    assert [*found] == [race.variant for race in races if race.lookups]
    assert cells_with_lookups(FEATURES - {"cql"}) == ()


@pytest.mark.parametrize("options", [{"cells": "no-such/*"}, {"batch": "0/3"}, {"batch": "4/3"}, {"batch": "3"}])
def test_what_names_no_cell_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(PlanError):
        Grid().races(context(**options))


def test_a_system_is_raced_by_what_it_has() -> None:
    with pytest.raises(NotApplicable):
        Grid().crew(
            racing_context(seed=7, nodes=NODES, features={"keyspaces", "tables"}, options={"cells": "drop-type/*"})
        )
    old = Grid().races(racing_context(seed=7, nodes=NODES, features={"keyspaces", "tables", "columns"}, races=1))
    assert {change.f for race in old for side in race.sides for change in side if isinstance(change, Invoke)} <= {
        *("create-keyspace", "alter-keyspace", "drop-keyspace", "create-table", "drop-table", "add-column"),
        *("insert", "delete-row", "read-rows"),
    }


def test_both_sides_of_every_cell_are_carried_out_by_different_coordinators() -> None:
    done = carry_out(Grid(), "main", context(batch="2/40"))
    raced: dict[str, set[str | None]] = {}
    for one in done:
        if isinstance(one.step, Invoke) and one.step.f in SCHEMA_CHANGES:
            raced.setdefault(str(one.step.value["keyspace"]), set()).add(one.worker.node)
    changes = {
        race.keyspace: [side for side in race.sides if isinstance(side[0], Invoke) and side[0].f in SCHEMA_CHANGES]
        for race in Grid().races(context(batch="2/40"))
    }
    assert {keyspace: len(nodes) for keyspace, nodes in raced.items()} == {
        k: len(sides) for k, sides in changes.items()
    }


def _judged(batch: str, version: str, line: str, mode: str) -> None:
    features = recipe_for(parse_system(f"cassandra:{version}")).features
    given = racing_context(
        seed=7, nodes=NODES, mode=mode, races=1, features=features, options={"batch": batch, "patience": "0"}
    )
    verdict = judge(perfect_run(Grid(), given, line=line), engine="local", limit_s=300)
    assert not verdict.anomalies, verdict.anomalies[0].explanation
    assert verdict.valid is True, verdict.reason


@pytest.mark.parametrize(("version", "line"), [("1.1.12", "1.1"), ("5.0.9", "5.0")])
def test_no_cell_breaks_a_perfect_cluster(version: str, line: str) -> None:
    _judged("5/60", version, line, "barrier")


@pytest.mark.long
@pytest.mark.parametrize("mode", ["barrier", "single"])
@pytest.mark.parametrize(("version", "line"), [("1.1.12", "1.1"), ("2.0.17", "2.0"), ("5.0.9", "5.0")])
def test_no_cell_at_all_breaks_a_perfect_cluster(version: str, line: str, mode: str) -> None:
    for part in range(1, 9):
        _judged(f"{part}/8", version, line, mode)


def test_every_cell_of_a_newest_system_is_raced() -> None:
    features = recipe_for(parse_system("cassandra:5.0.9")).features
    able = [cell.name for cell in meetings() if cell.features <= features]
    assert [
        race.variant for race in Grid().races(racing_context(seed=7, nodes=NODES, features=features, races=1))
    ] == able


def test_the_setup_needs_no_node_but_the_first() -> None:
    """The others are not even started while it goes on (`WorkloadTraits.sets_up_first`)."""
    grid, racing = Grid(), context(cells="drop-type/*,create-view/*", lanes="3")
    assert workload_traits(grid).sets_up_first
    crew = grid.crew(racing)
    by_node = {node: [] for node in racing.nodes}
    for worker in crew:
        by_node[worker.node] += list(grid.steps("setup", worker, racing, phase_label=""))
    first, *others = racing.nodes
    assert any(isinstance(step, Invoke) for step in by_node[first])
    assert not any(by_node[node] for node in others)
