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
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from schemaquake.harness.errors import HistoryError
from schemaquake.results.grid.facts import BatchFacts
from schemaquake.results.grid.plan import Batch, GridPlan
from schemaquake.results.store.atomic import write_bytes
from schemaquake.results.store.progress import Finished, append_line, make_folder, read_head, read_lines, working_alone

__all__ = ["DoneBatch", "GridFolder"]

_PLAN: Final = "grid.json"
_PROGRESS: Final = "progress.jsonl"
_TITLE: Final = "the folder of a grid"


DoneBatch: TypeAlias = Finished[Batch, BatchFacts]
"""A finished batch and its facts."""


@dataclass(frozen=True, slots=True)
class GridFolder:
    """The folder of one grid. `GridFolder(path)` touches nothing; `GridFolder.create` makes a new one."""

    path: Path

    @classmethod
    def create(cls, runs: Path, plan: GridPlan, machine: Mapping[str, str]) -> GridFolder:
        """Create a folder in `runs`. Raises PlanError if that fails."""
        now = datetime.now(UTC)
        path = make_folder(runs, f"{now.strftime('%Y%m%dT%H%M%SZ')}-grid", "the grid")
        document = {"plan": plan.to_json(), "started": now.isoformat(timespec="seconds"), "machine": dict(machine)}
        write_bytes(path / _PLAN, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
        (path / _PROGRESS).touch()
        return cls(path)

    @property
    def runs(self) -> Path:
        """Folder of the runs' folders."""
        return self.path / "runs"

    @property
    def logs(self) -> Path:
        """Folder of the runs' output."""
        return self.path / "logs"

    def plan(self) -> GridPlan:
        """Read the plan. Raises HistoryError for a folder that is not a grid's."""
        return GridPlan.from_json(self._head()["plan"])

    def started(self) -> str:
        """Read the start time: UTC, ISO 8601."""
        return str(self._head()["started"])

    def machine(self) -> Mapping[str, str]:
        """Read the properties of the machine for the page."""
        machine: Mapping[str, str] = self._head()["machine"]
        return machine

    def done(self) -> Sequence[DoneBatch]:
        """Read all finished batches, in order. A truncated last line is ignored. Raises HistoryError for any other damage."""
        found = []
        for number, line in enumerate(read_lines(self.path / _PROGRESS, _TITLE), start=1):
            try:
                found.append(DoneBatch(Batch.from_json(line["batch"]), BatchFacts.from_json(line["facts"])))
            except (KeyError, TypeError) as error:
                raise HistoryError(f"{self.path / _PROGRESS} is damaged in line {number}: {error}") from error
        return found

    def append(self, done: DoneBatch) -> None:
        """Record a finished batch. It is on disk when this returns."""
        append_line(self.path / _PROGRESS, {"batch": done.unit.to_json(), "facts": done.facts.to_json()})

    def replace(self, done: Sequence[DoneBatch]) -> None:
        """Replace the finished batches. They are on disk when this returns."""
        lines = [{"batch": one.unit.to_json(), "facts": one.facts.to_json()} for one in done]
        write_bytes(self.path / _PROGRESS, b"".join(orjson.dumps(line) + b"\n" for line in lines))

    def alone(self) -> AbstractContextManager[None]:
        """Lock the grid against other processes. Raises PlanError if another process works on it."""
        return working_alone(self.path / _PLAN)

    def _head(self) -> Mapping[str, Any]:
        return read_head(self.path / _PLAN, _TITLE)
