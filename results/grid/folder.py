"""The folder of a grid: its plan, the finished batches and the paths of all files.

runs/<UTC time>-grid/
  grid.json         the plan, the start time and the machine
  progress.jsonl    one line per finished batch, appended and synced; `--resume` continues from it
  runs/             the folders of the runs
  logs/             the output of each run
  grid.html, grid.md, cells.parquet
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.results.grid.facts import BatchFacts
from schemaquake.results.grid.plan import Batch, GridPlan
from schemaquake.results.store.atomic import write_bytes

__all__ = ["DoneBatch", "GridFolder"]

_PLAN: Final = "grid.json"
_PROGRESS: Final = "progress.jsonl"


@dataclass(frozen=True, slots=True)
class DoneBatch:
    """A finished batch and its facts."""

    unit: Batch
    facts: BatchFacts


@dataclass(frozen=True, slots=True)
class GridFolder:
    """The folder of one grid. `GridFolder(path)` touches nothing; `GridFolder.create` makes a new one."""

    path: Path

    @classmethod
    def create(cls, runs: Path, plan: GridPlan, machine: Mapping[str, str]) -> GridFolder:
        """Create a folder in `runs`. Raises PlanError if that fails."""
        now = datetime.now(UTC)
        path = runs / f"{now.strftime('%Y%m%dT%H%M%SZ')}-grid"
        try:
            (path / "runs").mkdir(parents=True)
            (path / "logs").mkdir()
        except OSError as error:
            raise PlanError(f"cannot make a folder for the grid in {runs}: {error.strerror or error}") from error
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
        lines = (self.path / _PROGRESS).read_bytes().split(b"\n")
        found = []
        for number, line in enumerate(lines[:-1], start=1):
            try:
                document = orjson.loads(line)
                found.append(DoneBatch(Batch.from_json(document["batch"]), BatchFacts.from_json(document["facts"])))
            except (orjson.JSONDecodeError, KeyError, TypeError) as error:
                raise HistoryError(f"{self.path / _PROGRESS}, line {number}, is damaged: {error}") from error
        return found

    def append(self, done: DoneBatch) -> None:
        """Append a finished batch and sync it to disk, after cutting off a line that was not finished."""
        line = orjson.dumps({"batch": done.unit.to_json(), "facts": done.facts.to_json()}) + b"\n"
        with (self.path / _PROGRESS).open("r+b") as file:
            whole = file.read().rfind(b"\n") + 1
            file.seek(whole)
            file.truncate()
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def _head(self) -> Any:
        try:
            return orjson.loads((self.path / _PLAN).read_bytes())
        except FileNotFoundError:
            raise HistoryError(f"{self.path} is not the folder of a grid: it has no {_PLAN}") from None
        except orjson.JSONDecodeError as error:
            raise HistoryError(f"{self.path / _PLAN} is damaged: {error}") from error
