"""Assembly: the current state of the matrix, built from the plan and the facts of all runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from schemaquake.results.findings.tracking import TrackedFinding, track_findings
from schemaquake.results.matrix.cells import any_cell, cell_of, rows_of
from schemaquake.results.matrix.facts import RunFacts
from schemaquake.results.matrix.matrix_plan import Condition, MatrixPlan, is_racing
from schemaquake.results.matrix.schedule import CellKey, Schedule
from schemaquake.results.matrix.tally import Matrix, Row
from schemaquake.results.matrix.without_race import anomalies_of, known_without_race, noisy
from schemaquake.results.summary.cell import Cell
from schemaquake.results.summary.run_summary import CONTROL
from schemaquake.results.wording import counted, joined, short_name, system_name

__all__ = ["matrix_of"]


def matrix_of(
    schedule: Schedule,
    *,
    started: str,
    finished: str | None,
    seconds: float,
    machine: Mapping[str, str],
    notes: Sequence[str] = (),
) -> Matrix:
    """Build the matrix from everything known now. `finished` is None while the matrix is incomplete."""
    plan = schedule.plan
    rows, cells = _laid_out(plan, plan.conditions, schedule.runs)
    has_controls = len(plan.all_conditions) > len(plan.conditions)
    control_rows, controls = _laid_out(plan, [Condition(CONTROL)] if has_controls else [], schedule.runs)
    return Matrix(
        systems=plan.systems,
        rows=rows,
        cells=cells,
        control_rows=control_rows,
        controls=controls,
        started=started,
        finished=finished,
        seconds=round(seconds, 1),
        command=plan.command,
        machine=machine,
        earlier_runs=_earlier_runs(schedule),
        findings=_findings(schedule),
        notes=(*_loud(controls), *notes, *_wide(schedule)),
    )


def _earlier_runs(schedule: Schedule) -> int:
    """Count the runs without a folder here that were judged. A run shared by several rows counts once."""
    every = (run for runs in schedule.runs.values() for run in runs)
    return len({run.judged.run for run in every if run.run is None and run.judged is not None})


def _findings(schedule: Schedule) -> tuple[TrackedFinding, ...]:
    """Track the findings of all runs but the controls, whose statements never met. A run shared by several rows counts once."""
    judged = {
        run.judged.run: run.judged
        for key, runs in schedule.runs.items()
        if key.condition != CONTROL
        for run in runs
        if run.judged is not None
    }
    return track_findings(judged.values(), schedule.plan.systems)


def _laid_out(
    plan: MatrixPlan, conditions: Sequence[Condition], runs: Mapping[CellKey, Sequence[RunFacts]]
) -> tuple[tuple[Row, ...], tuple[Cell, ...]]:
    rows: list[Row] = []
    cells: list[Cell] = []
    for workload in plan.workloads:
        racing = is_racing(workload)
        for condition in conditions:
            if condition.mode == CONTROL and not racing:
                continue
            of_all = {system: runs.get(CellKey(system, workload, condition.name), ()) for system in plan.systems}
            own = rows_of(workload, condition, [run for of_one in of_all.values() for run in of_one])
            rows += own
            for row in own:
                for system, of_one in of_all.items():
                    cells.append(
                        any_cell(system, workload, condition, of_one, racing=racing)
                        if row.anomaly is None
                        else cell_of(system, workload, condition, row.anomaly, of_one, racing=racing)
                    )
    return tuple(rows), tuple(cells)


def _loud(controls: Sequence[Cell]) -> list[str]:
    return [_loudness(cell, anomalies_of(controls, cell)) for cell in noisy(controls)]


def _loudness(cell: Cell, anomalies: frozenset[str]) -> str:
    found = (
        f"{cell.workload} through one coordinator of {system_name(cell.system)} broke in "
        f"{cell.broken} of {counted(cell.tried, cell.unit)}"
    )
    known = known_without_race(cell, anomalies)
    if known is None:
        return f"A CONTROL IS LOUD: {found}."
    return f"Needs no race: {found}. This is {known.ticket}: {known.says.rstrip('.')}."


def _wide(schedule: Schedule) -> list[str]:
    """Describe the cells that were tried but whose rate is less certain than requested."""
    wide = [
        key
        for key, runs in schedule.runs.items()
        if key.condition != CONTROL
        and runs
        and schedule.cell(key).tried
        and schedule.doubt(key) > schedule.plan.confidence
    ]
    if not wide:
        return []
    systems = Counter(key.system for key in wide)
    named = (
        f"{systems[system]} on {short_name(system, schedule.plan.systems)}"
        for system in schedule.plan.systems
        if systems[system]
    )
    note = (
        f"{counted(len(wide), 'cell is', 'cells are')} less certain than ±{schedule.plan.confidence:g}, by races or by "
        f"whole runs ({joined(named)}); each cell states its interval."
    )
    return [note]
