"""Tables: the raw results of a matrix as Parquet, for analysis with other tools.

`cells.parquet` has one row per cell, `races.parquet` one row per race of all runs, with its outcome. The races are read from
the runs' folders. The engine distributes the paths of the runs, so Spark and this process read the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from schemaquake.harness.model.plan import Plan
from schemaquake.results.engines.engine import choose, shares
from schemaquake.results.matrix.tally import Matrix
from schemaquake.results.store.store import Store, read_table, write_table
from schemaquake.results.summary.cell import Cell
from schemaquake.results.tables.races import RACES

__all__ = ["ALL_RACES", "CELLS", "cells_table", "races_of_runs", "write_tables"]

CELLS: Final = pa.schema(
    [
        ("system", pa.string()),
        ("workload", pa.string()),
        ("mode", pa.string()),
        ("nemeses", pa.list_(pa.string())),
        ("anomaly", pa.string()),  # null: any anomaly
        ("control", pa.bool_()),
        ("state", pa.string()),
        ("broken", pa.int64()),
        ("tried", pa.int64()),
        ("low", pa.float64()),  # bounds of the rate, 95 %
        ("high", pa.float64()),
        ("unit", pa.string()),  # what `tried` counts: race, run
        ("reason", pa.string()),
        ("runs", pa.list_(pa.string())),
        ("command", pa.string()),  # of the evidence; null if nothing was found
    ]
)

ALL_RACES: Final = pa.schema(
    [
        ("system", pa.string()),
        ("run", pa.string()),  # its folder, relative to the matrix'
        ("seed", pa.int64()),
        ("nemeses", pa.list_(pa.string())),
        *((field.name, field.type) for field in RACES),
    ]
)


def write_tables(matrix: Matrix, folder: Path, *, engine: str = "auto", master: str | None = None) -> None:
    """Write both tables into the matrix' folder. Raises HistoryError, and EnvironmentLacks if Spark is requested but unavailable."""
    write_table(folder / "cells.parquet", cells_table(matrix))
    write_table(folder / "races.parquet", races_of_runs(folder / "runs", engine=engine, master=master))


def cells_table(matrix: Matrix) -> pa.Table:
    """Build the table `CELLS`, in the order of the page."""
    rows = [_row(cell, control=False) for cell in matrix.cells] + [_row(cell, control=True) for cell in matrix.controls]
    return pa.Table.from_pylist(rows, schema=CELLS)


def _row(cell: Cell, *, control: bool) -> dict[str, Any]:
    document = cell.to_json()
    evidence = document.pop("evidence")
    return {**document, "control": control, "command": evidence["command"] if evidence else None}


def races_of_runs(runs: Path, *, engine: str = "auto", master: str | None = None) -> pa.Table:
    """Build the table `ALL_RACES` of every judged run in the folder, ordered by run and race."""
    weights = {
        path.parent.parent.name: max(1, pq.read_metadata(path).num_rows) for path in runs.glob("*/analysis/races.parquet")
        if not path.parent.parent.is_symlink()
    }  # fmt: skip
    with choose(engine, events=sum(weights.values()), master=master) as carrier:
        parts = shares(weights, carrier.width)
        groups = pa.table({"unit": pa.array(range(len(parts)), pa.int32()), "runs": pa.array(parts, _NAMES)})
        table = carrier.carry(_Reading(runs.resolve()), groups, _PLACED)
    ordered = table.sort_by([("run", "ascending"), ("place", "ascending")])
    return ordered.select(ALL_RACES.names).cast(ALL_RACES)


_NAMES: Final = pa.list_(pa.string())
_PLACED: Final = ALL_RACES.append(pa.field("place", pa.int64()))
"""`ALL_RACES` with each race's place in its run, to restore the order after distributed tasks."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A task that reads the races of a group of runs."""

    folder: Path

    def __call__(self, group: pa.Table) -> pa.Table:
        (share,) = group.to_pylist()
        return pa.concat_tables([_PLACED.empty_table(), *(_read_run(self.folder / name) for name in share["runs"])])


def _read_run(run: Path) -> pa.Table:
    plan = Plan.read(run)
    races = read_table(Store(run).path("analysis") / "races.parquet", RACES)
    run_columns = {"system": plan.system, "run": f"{run.parent.name}/{run.name}", "seed": plan.seed}
    columns: dict[str, Any] = {name: pa.array([value] * len(races)) for name, value in run_columns.items()}
    columns["nemeses"] = pa.array([list(plan.nemeses)] * len(races), _NAMES)
    columns |= {name: races[name] for name in RACES.names}
    columns["place"] = pa.array(range(len(races)), pa.int64())
    return pa.table(columns).select(_PLACED.names).cast(_PLACED)
