"""The folder of a matrix: its plan, the finished units and the paths of all files.

runs/<UTC time>-matrix/
  matrix.json       the plan, the start time and the machine
  progress.jsonl    one line per finished unit, appended and synced; `--resume` continues from it
  runs/             the folders of the runs
  logs/             the output of each run
  tally.json        the current matrix (`schemaquake.results.matrix.tally.Matrix`)
  matrix.html, matrix.md
  cells.parquet, races.parquet
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from schemaquake.results.matrix.facts import RunFacts
from schemaquake.results.matrix.matrix_plan import Condition, MatrixPlan, Unit
from schemaquake.results.store.atomic import write_bytes
from schemaquake.results.store.progress import Finished, append_line, make_folder, read_head, read_lines, working_alone

__all__ = ["Done", "MatrixFolder"]

_PLAN: Final = "matrix.json"
_PROGRESS: Final = "progress.jsonl"
_LATEST: Final = "latest-matrix"
_TITLE: Final = "a matrix' folder"


Done: TypeAlias = Finished[Unit, RunFacts]
"""A finished unit and its facts."""


@dataclass(frozen=True, slots=True)
class MatrixFolder:
    """The folder of one matrix. `MatrixFolder(path)` touches nothing; `MatrixFolder.create` makes a new one."""

    path: Path

    @classmethod
    def create(cls, runs: Path, plan: MatrixPlan, machine: Mapping[str, str]) -> MatrixFolder:
        """Create a folder in `runs`; `runs/latest-matrix` points to it. Raises PlanError if that fails."""
        now = datetime.now(UTC)
        stem = f"{now.strftime('%Y%m%dT%H%M%SZ')}-matrix"
        path = make_folder(runs, stem, "the matrix")
        document = {
            "plan": plan.to_json(),
            "started": now.isoformat(timespec="seconds"),
            "machine": dict(machine),
        }
        write_bytes(path / _PLAN, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
        (path / _PROGRESS).touch()
        link = runs / f".{path.name}.link"
        link.symlink_to(path.name)
        link.replace(runs / _LATEST)
        return cls(path)

    @property
    def runs(self) -> Path:
        """Folder of the runs' folders."""
        return self.path / "runs"

    @property
    def logs(self) -> Path:
        """Folder of the runs' output."""
        return self.path / "logs"

    def plan(self) -> MatrixPlan:
        """Read the plan. Raises HistoryError for a folder that is not a matrix' folder."""
        return MatrixPlan.from_json(self._head()["plan"])

    def started(self) -> str:
        """Read the start time: UTC, ISO 8601."""
        return str(self._head()["started"])

    def machine(self) -> Mapping[str, str]:
        """Read the properties of the machine for the page."""
        machine: Mapping[str, str] = self._head()["machine"]
        return machine

    def done(self) -> Sequence[Done]:
        """Read all finished units, in order. A truncated last line is ignored; any other damage is an error.

        Raises HistoryError.
        """
        return [
            Done(_unit(line["unit"]), RunFacts.from_json(line["facts"])) for line in self._lines() if "facts" in line
        ]

    def seconds(self) -> float:
        """Return the working time over all sessions, s."""
        return sum(float(line["seconds"]) for line in self._lines() if "seconds" in line)

    def append(self, done: Done) -> None:
        """Record a finished unit. It is on disk when this returns."""
        self._append({"unit": _unit_document(done.unit), "facts": done.facts.to_json()})

    def replace(self, done: Sequence[Done]) -> None:
        """Replace the finished units and keep the working time. They are on disk when this returns."""
        lines: list[Mapping[str, Any]] = [
            {"unit": _unit_document(one.unit), "facts": one.facts.to_json()} for one in done
        ]
        lines += [line for line in self._lines() if "seconds" in line]
        write_bytes(self.path / _PROGRESS, b"".join(orjson.dumps(line) + b"\n" for line in lines))

    def append_session(self, seconds: float) -> None:
        """Record the length of this session."""
        self._append({"seconds": round(seconds, 1)})

    def alone(self) -> AbstractContextManager[None]:
        """Lock the matrix against other processes. Raises PlanError if another process works on it."""
        return working_alone(self.path / _PLAN)

    def _append(self, line: Mapping[str, Any]) -> None:
        append_line(self.path / _PROGRESS, line)

    def _lines(self) -> list[dict[str, Any]]:
        return read_lines(self.path / _PROGRESS, _TITLE)

    def _head(self) -> Mapping[str, Any]:
        return read_head(self.path / _PLAN, _TITLE)


def _unit_document(unit: Unit) -> dict[str, Any]:
    return {
        "system": unit.system,
        "workloads": list(unit.workloads),
        "condition": [unit.condition.mode, list(unit.condition.nemeses)],
        "first_race": unit.first_race,
        "races": unit.races,
        "turn": unit.turn,
    }


def _unit(document: Mapping[str, Any]) -> Unit:
    mode, nemeses = document["condition"]
    return Unit(
        **{
            **document,
            "workloads": tuple(document["workloads"]),
            "condition": Condition(mode, tuple(nemeses)),
        }
    )
