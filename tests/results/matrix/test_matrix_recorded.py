"""Runs of a matrix in one file: what another matrix begins with, and what it does not take for its own."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from virtual_executor import shows

from schemaquake.harness.errors import HistoryError
from schemaquake.results.findings.tracking import JudgedRun
from schemaquake.results.matrix.assembly import matrix_of
from schemaquake.results.matrix.facts import Finding
from schemaquake.results.matrix.matrix_folder import Done
from schemaquake.results.matrix.matrix_plan import Condition, MatrixPlan, Unit
from schemaquake.results.matrix.recorded import RUNS, fitting, read_runs, write_runs
from schemaquake.results.matrix.schedule import CellKey, Schedule
from schemaquake.results.matrix.summary import extent_of
from schemaquake.results.matrix.tally import Matrix
from schemaquake.results.summary.cell import Evidence

SYSTEM = "cassandra:5.0.9"
PLAN = MatrixPlan(systems=(SYSTEM,), workloads=("drop-type", "set"), conditions=(Condition("barrier"),), controls=False)
EVIDENCE = Evidence(run="runs/a", keyspace="sq_a", title="lost rows", explanation="…", report="runs/a/report.html")


def done(workload="drop-type", turn=0, plan=PLAN):
    unit = Unit(
        system=SYSTEM,
        workloads=(workload,),
        condition=plan.conditions[0],
        first_race=4 * turn,
        races=4,
        turn=turn,
    )
    facts = replace(shows(unit, broken=lambda *_: ["lost-rows"]), findings=(Finding(workload, "lost-rows", EVIDENCE),))
    return Done(unit, facts)


def kept(path, *runs, plan=PLAN):
    write_runs(path, [(one, plan.run_plan(one.unit)) for one in runs])
    return read_runs(path)


def test_runs_are_read_back_without_the_folders_in_which_they_were(tmp_path):
    runs = [done(), done(turn=1), done("set")]
    read = [one for one, _ in kept(tmp_path / "runs.parquet", *runs)]
    assert [one.unit for one in read] == [one.unit for one in runs]
    assert [one.facts.races for one in read] == [one.facts.races for one in runs]
    assert {one.facts.run for one in read} == {None}
    assert {found.evidence.report for one in read for found in one.facts.findings} == {None}
    assert pq.read_schema(tmp_path / "runs.parquet").names == RUNS.names


def test_a_matrix_that_begins_with_runs_knows_what_they_show_and_goes_on_after_them(tmp_path):
    earlier = fitting(PLAN, kept(tmp_path / "runs.parquet", done(), done(turn=1)))
    schedule = Schedule(PLAN, {SYSTEM: None})
    for one in earlier:
        schedule.done(one.unit, one.facts)
    cell = schedule.cell(CellKey(SYSTEM, "drop-type", "barrier"))
    assert (cell.broken, cell.tried) == (8, 8)
    demands = [demand.unit for demand in schedule.candidates()]
    assert [(unit.first_race, unit.turn) for unit in demands if unit.workloads == ("drop-type",)] == [(8, 2)]


def test_a_matrix_counts_the_runs_it_began_with_once_each(tmp_path):
    def judged(one, run):
        of_the_run = JudgedRun(
            system=SYSTEM, run=run, valid=False, workloads=("drop-type", "set"), nemeses=(), findings=(), races=()
        )
        return Done(one.unit, replace(one.facts, judged=of_the_run))

    shared = replace(done().unit, workloads=("drop-type", "set"))
    both = Done(shared, shows(shared, broken=lambda *_: ["lost-rows"]))
    earlier = fitting(PLAN, kept(tmp_path / "runs.parquet", judged(both, "runs/a"), judged(done(turn=1), "runs/b")))
    schedule = Schedule(PLAN, {SYSTEM: None})
    for one in (*earlier, judged(done(turn=2), "runs/c")):
        schedule.done(one.unit, one.facts)
    matrix = matrix_of(schedule, started="", finished=None, seconds=0, machine={})
    assert matrix.earlier_runs == 2
    assert extent_of(matrix).runs == 3
    assert Matrix.from_json(matrix.to_json()).earlier_runs == 2


@pytest.mark.parametrize(
    "other",
    [
        {"nodes": 5},
        {"time_limit_s": 31.0},
        {"restart": "rolling"},
        {"options": {"variant": "same"}},
        {"systems": ("cassandra:4.1.10",)},
        {"workloads": ("set",)},
        {"conditions": (Condition("partition"),), "workloads": ("drop-type",)},
        {"conditions": (Condition("barrier", ("kill",)),)},
    ],
)
def test_runs_with_other_settings_are_not_taken(tmp_path, other):
    recorded = kept(tmp_path / "runs.parquet", done())
    assert len(fitting(PLAN, recorded)) == 1
    assert fitting(replace(PLAN, **other), recorded) == []


def test_other_goals_another_seed_and_further_cells_take_the_runs(tmp_path):
    recorded = kept(tmp_path / "runs.parquet", done(), done("set"))
    wider = replace(
        PLAN, confidence=0.1, tries_max=20, seed=9, systems=(SYSTEM, "cassandra:4.1.10"), workloads=("set", "drop-type")
    )
    assert len(fitting(wider, recorded)) == 2


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not a table at all"])
def test_a_file_without_runs_is_refused(tmp_path, content):
    path = tmp_path / "runs.parquet"
    path.write_bytes(content)
    with pytest.raises(HistoryError, match=r"runs\.parquet"):
        read_runs(path)


@pytest.mark.parametrize("column", ["unit", "plan", "facts"])
@pytest.mark.parametrize("text", ["{", "{}", "[]", '"a"', "7"])
def test_a_damaged_row_is_refused(tmp_path, column, text):
    path = tmp_path / "runs.parquet"
    kept(path, done())
    table = pq.read_table(path)
    place = table.schema.get_field_index(column)
    pq.write_table(table.set_column(place, column, [[text]]), path)
    with pytest.raises(HistoryError, match="has no runs of a matrix"):
        read_runs(path)


def test_a_missing_file_and_a_table_of_something_else_are_refused(tmp_path):
    with pytest.raises(HistoryError, match=r"runs\.parquet cannot be read: it is not there"):
        read_runs(tmp_path / "runs.parquet")
    pq.write_table(pq.read_table(_races(tmp_path)), tmp_path / "races.parquet")
    with pytest.raises(HistoryError, match=r"races\.parquet"):
        read_runs(tmp_path / "races.parquet")


def _races(tmp_path):
    path = tmp_path / "some.parquet"
    kept(path, done())
    pq.write_table(pq.read_table(path).select(["system"]).rename_columns(["nothing"]), path)
    return path
