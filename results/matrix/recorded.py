"""Recorded runs: all finished runs of a matrix as one Parquet file without their folders, from which another matrix can go on.

One row a run: its plan, its unit, and its facts as JSON text. The folders of runs stay where they were made, so evidence has no link to a report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.model.plan import Plan
from schemaquake.results.matrix.facts import RunFacts
from schemaquake.results.matrix.matrix_folder import Done, parse_unit, unit_document
from schemaquake.results.matrix.matrix_plan import MatrixPlan
from schemaquake.results.store.named_tables import read_named_table
from schemaquake.results.store.store import write_table

__all__ = ["RUNS", "fitting", "read_runs", "write_runs"]

RUNS: Final = pa.schema(
    [
        ("system", pa.string()),
        ("run", pa.string()),  # the name of its folder when it was made; null if it was refused
        ("unit", pa.string()),  # as in progress.jsonl
        ("plan", pa.string()),  # of the run, as in its plan.json
        ("facts", pa.string()),  # as in progress.jsonl
    ]
)
"""The table of recorded runs. The last three columns are JSON."""

_NEEDED: Final = ("unit", "plan", "facts")
_FREE: Final = ("seed", "schemaquake_version")
"""Fields in which the plan of an earlier run may differ from that of the run it stands for."""


def write_runs(path: Path, recorded: Iterable[tuple[Done, Plan]]) -> None:
    """Write one row a run (`RUNS`)."""
    write_table(path, pa.Table.from_pylist([_row(done, plan) for done, plan in recorded], schema=RUNS))


def read_runs(path: Path) -> list[tuple[Done, Plan]]:
    """Read what `write_runs` wrote. Raises HistoryError for a file that is missing, or has no runs of a matrix."""
    rows = read_named_table(
        path, RUNS, rows="runs of a matrix", usual="the runs.parquet of a matrix", needed=_NEEDED
    ).to_pylist()
    try:
        return [_recorded(row) for row in rows]
    except (AttributeError, KeyError, TypeError, ValueError, PlanError) as error:
        raise HistoryError(f"{path} has no runs of a matrix: {error}") from error


def fitting(plan: MatrixPlan, recorded: Iterable[tuple[Done, Plan]]) -> list[Done]:
    """Choose the runs that this matrix might have made: of its cells, and with its settings but for the seed."""
    conditions = set(plan.all_conditions)
    found = []
    for done, made in recorded:
        unit = done.unit
        is_ours = unit.system in plan.systems and set(unit.workloads) <= set(plan.workloads)
        if is_ours and unit.condition in conditions and _settings(plan.run_plan(unit)) == _settings(made):
            found.append(done)
    return found


def _settings(plan: Plan) -> Mapping[str, Any]:
    return {name: value for name, value in plan.to_json().items() if name not in _FREE}


def _row(done: Done, plan: Plan) -> dict[str, Any]:
    run = done.facts.run or (None if done.facts.judged is None else done.facts.judged.run)
    documents = {
        "unit": unit_document(done.unit),
        "plan": plan.to_json(),
        "facts": _without_folder(done.facts).to_json(),
    }
    texts = {name: orjson.dumps(document).decode() for name, document in documents.items()}
    return {"system": done.unit.system, "run": run, **texts}


def _without_folder(facts: RunFacts) -> RunFacts:
    findings = tuple(replace(one, evidence=replace(one.evidence, report=None)) for one in facts.findings)
    return replace(facts, run=None, findings=findings)


def _recorded(row: Mapping[str, str]) -> tuple[Done, Plan]:
    return Done(parse_unit(orjson.loads(row["unit"])), RunFacts.from_json(orjson.loads(row["facts"]))), Plan.from_json(
        orjson.loads(row["plan"])
    )
