"""Summary: one sentence about all of it, that is never better than the cells."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrices import SYSTEMS, matrix

from schemaquake.results.matrix.page import facts_of
from schemaquake.results.matrix.summary import (
    control_of,
    controls_in_words,
    effects_of,
    extent_of,
    headline,
    standing_of,
)
from schemaquake.results.matrix.tally import Matrix, Row
from schemaquake.results.summary.cell import Cell, CellState

STATES: list[CellState] = ["broke", "held", "unknown", "not applicable", "not run"]


def cell(system: str, state: CellState, *, workload: str = "w", mode: str = "barrier") -> Cell:
    counts = {"broke": (1, 2), "held": (0, 2)}.get(state, (0, 0))
    return Cell(system=system, workload=workload, mode=mode, state=state, broken=counts[0], tried=counts[1])


def of(*states: CellState, finished: str | None = "2026-11-21T11:00:00+00:00") -> Matrix:
    """A system for each state, of one workload."""
    systems = tuple(f"cassandra:{number}.0" for number in range(1, len(states) + 1))
    return Matrix(
        systems=systems,
        rows=(Row(workload="w", mode="barrier"),),
        cells=tuple(cell(system, state) for system, state in zip(systems, states, strict=True)),
        started="2026-11-21T10:00:00+00:00",
        finished=finished,
        command="schemaquake matrix",
    )


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        (["broke", "broke", "held"], "only 3.0 came through every race it was put to without an anomaly (0 of 2 races); 2 broke."),
        (["broke", "held", "held"], "2 came through every race they were put to without an anomaly (2.0 and 3.0: 0 of 4 races); 1 broke."),
        (["broke", "held", "unknown"], "2.0 came through every race it was put to without an anomaly (0 of 2 races); 1 broke; 1 is not decided (3.0)."),
        (["broke", "unknown", "not run"], "1 broke; 1 is not decided (2.0); 1 was not run (3.0)."),
        (["broke", "not run", "not run"], "1 broke; 2 were not run (2.0 and 3.0)."),
        (["unknown", "held", "not applicable"], "2.0 came through every race it was put to without an anomaly (0 of 2 races); 1 is not decided (1.0); 1 was not run (3.0)."),
    ],
)  # fmt: skip
def test_the_headline_tells_three_versions_apart(states: list[CellState], sentence: str):
    assert headline(of(*states)) == f"Of 3 versions of Cassandra, {sentence}"


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        (["broke", "broke"], "Both versions of Cassandra broke."),
        (["broke", "broke", "broke"], "All 3 versions of Cassandra broke."),
        (["held", "held"], "No anomaly was found on 2 versions of Cassandra (0 of 4 races)."),
        (["held"], "No anomaly was found on Cassandra 1.0 (0 of 2 races)."),
        (["broke"], "Cassandra 1.0 broke."),
        (["unknown"], "Nothing is decided on 1 version of Cassandra."),
        (["unknown", "not run"], "Nothing is decided on 2 versions of Cassandra; 1 is not decided (1.0); 1 was not run (2.0)."),
    ],
)  # fmt: skip
def test_the_headline_says_what_the_cells_say(states: list[CellState], sentence: str):
    assert headline(of(*states)) == sentence


def test_what_held_is_told_where_no_version_is_decided_as_a_whole():
    made = of("held", finished=None)
    made = replace(made, cells=(*made.cells, *of("not run").cells))
    assert headline(made) == (
        "Not finished. No anomaly was found in 1 decided cell, but not every cell is decided on 1 version of Cassandra."
    )


def test_an_unfinished_matrix_says_so_first():
    assert headline(of("broke", "held", finished=None)).startswith("Not finished. ")


def test_products_are_named_where_there_are_several():
    made = replace(of("broke", "held"), systems=("cassandra:5.0", "scylladb:6.0"))
    made = replace(made, cells=(cell("cassandra:5.0", "broke"), cell("scylladb:6.0", "held")))
    assert headline(made).startswith("Of 2 systems, only ScyllaDB 6.0 came through")


@given(st.lists(st.lists(st.sampled_from(STATES), min_size=1, max_size=4), min_size=1, max_size=4))
def test_no_system_comes_through_unless_all_of_it_was_decided_and_clean(states: list[list[CellState]]):
    systems = tuple(f"cassandra:{number}.0" for number in range(1, len(states) + 1))
    cells = tuple(
        cell(system, state, workload=f"w{number}")
        for system, own in zip(systems, states, strict=True)
        for number, state in enumerate(own)
    )
    made = replace(of("held"), systems=systems, cells=cells)
    for system, own in zip(systems, states, strict=True):
        standing = standing_of(made, system)
        assert (standing == "broke") == ("broke" in own)
        assert (standing == "held") == ("held" in own and set(own) <= {"held", "not applicable"})


def test_a_single_anomaly_that_nobody_could_judge_leaves_its_version_undecided():
    made = of("held")
    doubt = replace(cell("cassandra:1.0", "unknown"), anomaly="lost-rows")
    assert standing_of(replace(made, cells=(*made.cells, doubt)), "cassandra:1.0") == "unknown"


def test_lost_nodes_and_lost_rows_come_before_what_is_more_common():
    kinds = [effect.anomaly for effect in effects_of(matrix())]
    assert kinds[:4] == ["node-will-not-start", "lost-rows", "lost-rows-after-restart", "schema-disagreement"]
    assert effects_of(matrix())[1].systems == ("cassandra:4.0.19", "cassandra:4.1.10", "cassandra:5.0.9")


def test_controls_are_quiet_only_if_all_of_them_are():
    made = matrix()
    assert control_of(made, "cassandra:5.0.9").state == "held"
    assert control_of(made, "cassandra:4.1.10").state == "unknown"
    assert "drop-alter: the cluster never agreed" in control_of(made, "cassandra:4.1.10").reason
    assert controls_in_words(made) == "No control was loud (0 of 190 tries), but not all are decided: 1.1.0 and 4.1.10."


def test_one_loud_control_is_loud():
    made = matrix()
    loud = replace(made.controls[0], state="broke", broken=1)
    made = replace(made, controls=(loud, *made.controls[1:]))
    assert controls_in_words(made) == "The controls were not quiet: anomalies were found on 0.7.10."


def controls(system: str, *anomalies: str) -> Matrix:
    loud = [cell(system, "broke", workload="drop-recreate", mode="single")]
    loud += [replace(loud[0], anomaly=anomaly) for anomaly in anomalies]
    return replace(of("broke"), systems=(system,), controls=tuple(loud))


def test_a_defect_that_takes_no_race_is_told_by_its_ticket():
    said = controls_in_words(controls("cassandra:1.2.19", "resurrected-rows"))
    assert said == "The controls found only known defects that need no race: on 1.2.19, CASSANDRA-5202."


@pytest.mark.parametrize(
    ("system", "anomalies"),
    [
        ("cassandra:1.2.19", ["resurrected-rows", "lost-rows"]),  # the defect does not explain all of it
        ("cassandra:2.1.22", ["resurrected-rows"]),  # nor is it in other lines
    ],
)
def test_a_known_defect_excuses_nothing_else(system: str, anomalies: list[str]):
    assert controls_in_words(controls(system, *anomalies)).startswith("The controls were not quiet")


def test_no_controls_are_not_quiet_controls():
    made = replace(matrix(), controls=(), control_rows=())
    assert controls_in_words(made) == "No controls were run."
    assert control_of(made, SYSTEMS[0]).state == "not run"


def test_races_and_runs_are_counted_once():
    made = of("broke", "held")
    shared = tuple(replace(one, runs=("runs/a", "runs/b")) for one in made.cells)
    kind = replace(shared[0], anomaly="lost-rows")
    extent = extent_of(replace(made, cells=(*shared, kind)))
    assert (extent.races, extent.runs) == (4, 2)


def test_runs_of_earlier_matrices_are_counted_and_told_apart():
    made = replace(matrix(), earlier_runs=3)
    extent, alone = extent_of(made), extent_of(matrix())
    assert (extent.runs, extent.earlier_runs, alone.earlier_runs) == (alone.runs + 3, 3, 0)
    assert dict(facts_of(made))["Runs"] == f"{extent.runs:,}, 3 of them of earlier matrices"
    assert dict(facts_of(matrix()))["Runs"] == f"{alone.runs:,}"
