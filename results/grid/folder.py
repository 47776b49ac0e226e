"""The folder of a grid: its plan, the finished batches and the paths of all files.

runs/<UTC time>-grid/
  grid.json         the plan, the start time and the machine
  progress.jsonl    one line per finished batch, appended and synced; `--resume` continues from it
  runs/             the folders of the runs
  logs/             the output of each run
  grid.html, grid.md, cells.parquet
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from schemaquake.harness.errors import HistoryError
from schemaquake.results.grid.facts import BatchFacts
from schemaquake.results.grid.plan import Batch, GridPlan
from schemaquake.results.store.progress import Finished, ProgressFolder

__all__ = ["DoneBatch", "GridFolder"]


DoneBatch: TypeAlias = Finished[Batch, BatchFacts]
"""A finished batch and its facts."""


class GridFolder(ProgressFolder):
    """The folder of one grid."""

    PLAN = "grid.json"
    TITLE = "the folder of a grid"
    WORK = "grid"

    def plan(self) -> GridPlan:
        """Read the plan. Raises HistoryError for a folder that is not a grid's."""
        return GridPlan.from_json(self.head()["plan"])

    def done(self) -> Sequence[DoneBatch]:
        """Read all finished batches, in order. Raises HistoryError for damage."""
        found = []
        for number, line in enumerate(self.lines(), start=1):
            try:
                found.append(DoneBatch(Batch.from_json(line["batch"]), BatchFacts.from_json(line["facts"])))
            except (KeyError, TypeError) as error:
                raise HistoryError(f"{self.progress} is damaged in line {number}: {error}") from error
        return found

    def append(self, done: DoneBatch) -> None:
        """Record a finished batch. It is on disk when this returns."""
        self.append_line(_line(done))

    def replace(self, done: Sequence[DoneBatch]) -> None:
        """Replace the finished batches. They are on disk when this returns."""
        self.replace_lines(map(_line, done))


def _line(done: DoneBatch) -> Mapping[str, Any]:
    return {"batch": done.unit.to_json(), "facts": done.facts.to_json()}
