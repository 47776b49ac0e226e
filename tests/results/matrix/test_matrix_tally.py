"""Cells and their intervals."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.results.matrix.display import describe_undecided
from schemaquake.results.matrix.tally import Matrix, Row
from schemaquake.results.summary.cell import Cell, Evidence, wilson

COUNTS = st.integers(0, 300).flatmap(lambda tried: st.tuples(st.integers(0, tried), st.just(tried)))


@pytest.mark.parametrize(
    ("broken", "tried", "low", "high"),
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3: the score interval without continuity correction.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_published_intervals_are_met(broken, tried, low, high):
    assert wilson(broken, tried) == pytest.approx((low, high), abs=5e-5)


def test_nothing_tried_is_nothing_known():
    assert wilson(0, 0) == (0.0, 1.0)


@given(COUNTS)
def test_an_interval_holds_the_rate_that_was_seen_and_stays_between_0_and_1(counts):
    low, high = wilson(*counts)
    assert 0 <= low <= high <= 1
    if counts[1]:
        assert low <= counts[0] / counts[1] <= high


@given(COUNTS)
def test_what_broke_and_what_held_are_mirrored(counts):
    broken, tried = counts
    low, high = wilson(broken, tried)
    assert wilson(tried - broken, tried) == pytest.approx((1 - high, 1 - low))


@given(COUNTS, st.integers(2, 5))
def test_more_tries_of_the_same_rate_narrow_it(counts, times):
    broken, tried = counts
    low, high = wilson(broken, tried)
    narrower = wilson(broken * times, tried * times)
    assert narrower[1] - narrower[0] < high - low or not tried


def test_no_break_at_all_leaves_0_possible_and_nothing_but_breaks_leaves_1():
    assert wilson(0, 7)[0] == 0.0
    assert wilson(7, 7)[1] == 1.0


EVIDENCE = Evidence(
    run="runs/one",
    keyspace="sq_drop_type_000",
    title="a node does not start",
    explanation="Let … Then … But …",
    statements=(("DROP TYPE k.u",), ("CREATE TABLE k.x (…)",)),
    log_lines=("n1: Unknown type k.u",),
    command="schemaquake run --system cassandra:5.0.9",
    report="runs/one/report.html",
)
CELL = Cell(
    system="cassandra:5.0.9",
    workload="drop-type",
    mode="barrier",
    anomaly="node-will-not-start",
    state="broke",
    broken=2,
    tried=3,
    low=0.2,
    high=0.9,
    unit="run",
    runs=("runs/one", "runs/two"),
    evidence=EVIDENCE,
)
MATRIX = Matrix(
    systems=("cassandra:5.0.9",),
    rows=(
        Row(workload="drop-type", mode="barrier"),
        Row(workload="drop-type", mode="barrier", anomaly="node-will-not-start", title="a node does not start"),
    ),
    cells=(CELL,),
    started="2026-01-01T00:00:00+00:00",
    command="schemaquake matrix --quick",
    machine={"machine": "2 cores"},
    notes=("a control was not quiet",),
)


def test_a_matrix_is_read_back_from_its_json_as_it_was():
    assert Matrix.from_json(orjson.loads(orjson.dumps(MATRIX.to_json()))) == MATRIX


def test_a_cell_is_found_by_its_row_and_system_and_one_that_is_not_there_was_not_run():
    assert MATRIX.cell(MATRIX.rows[1], "cassandra:5.0.9") is CELL
    absent = MATRIX.cell(MATRIX.rows[0], "cassandra:5.0.9")
    assert (absent.state, absent.tried, absent.half_width) == ("not run", 0, 0.5)


def test_a_cell_of_0_1_named_its_nemeses_in_its_mode():
    cell = Cell(system="s", workload="w", mode="barrier", nemeses=("kill", "pause"), state="held", tried=3)
    document = {**cell.to_json(), "mode": "barrier, kill and pause"}
    del document["nemeses"]
    assert Cell.from_json(document) == cell
    assert Cell.from_json(cell.to_json()) == cell
    row = Row(workload="w", mode="barrier", nemeses=("kill",))
    assert Row.from_json({"workload": "w", "mode": "barrier, kill", "anomaly": None, "title": ""}) == row
    assert Row.from_json(row.to_json()) == row


def test_cells_without_a_rate_say_why_each_reason_once():
    rows = tuple(Row(workload="w", mode="barrier", nemeses=(name,)) for name in ("move", "kill", "pause"))
    why = 'workload "w" is not applicable to simulated:cassandra-6.0: it has no conditional-writes'
    cells = tuple(
        Cell(system="s:6.0", workload="w", mode="barrier", nemeses=row.nemeses, state=state, reason=reason, tried=tried)
        for row, state, reason, tried in zip(
            rows, ("not applicable", "not applicable", "held"), (why, why, ""), (0, 0, 3), strict=True
        )
    )
    matrix = Matrix(systems=("s:6.0",), rows=rows, cells=cells, started="", command="")
    (line,) = describe_undecided(matrix)
    assert line.endswith(f"2 cells not applicable: {why}")
    assert line.startswith(cells[0].mark)
