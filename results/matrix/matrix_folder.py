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

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.results.matrix.facts import RunFacts
from schemaquake.results.matrix.matrix_plan import Condition, MatrixPlan, Unit
from schemaquake.results.store.atomic import write_bytes

__all__ = ["Done", "MatrixFolder"]

_PLAN: Final = "matrix.json"
_PROGRESS: Final = "progress.jsonl"
_LATEST: Final = "latest-matrix"


@dataclass(frozen=True, slots=True)
class Done:
    """A finished unit and its facts."""

    unit: Unit
    facts: RunFacts


@dataclass(frozen=True, slots=True)
class MatrixFolder:
    """The folder of one matrix. `MatrixFolder(path)` touches nothing; `MatrixFolder.create` makes a new one."""

    path: Path

    @classmethod
    def create(cls, runs: Path, plan: MatrixPlan, machine: Mapping[str, str]) -> MatrixFolder:
        """Create a folder in `runs`; `runs/latest-matrix` points to it. Raises PlanError if that fails."""
        now = datetime.now(UTC)
        stem = f"{now.strftime('%Y%m%dT%H%M%SZ')}-matrix"
        try:
            runs.mkdir(parents=True, exist_ok=True)
            path = _new(runs, stem)
            (path / "runs").mkdir()
            (path / "logs").mkdir()
        except OSError as error:
            raise PlanError(f"cannot make a folder for the matrix in {runs}: {error.strerror or error}") from error
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

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the matrix against other processes. Raises PlanError if another process works on it."""
        # The plan is the only file that is never rewritten, so the lock stays on it.
        with (self.path / _PLAN).open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise PlanError(f"another process is working on {self.path}") from error
            yield

    def _append(self, line: Mapping[str, Any]) -> None:
        path = self.path / _PROGRESS
        with path.open("rb+") as file:
            # A line truncated by the end of an earlier process must not swallow the new one.
            whole = file.read()
            file.truncate(whole.rfind(b"\n") + 1)
            file.seek(0, os.SEEK_END)
            file.write(orjson.dumps(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _lines(self) -> list[dict[str, Any]]:
        path = self.path / _PROGRESS
        try:
            whole = path.read_bytes()
        except FileNotFoundError as error:
            raise HistoryError(f"{self.path} is not a matrix' folder: it has no {_PROGRESS}") from error
        found = []
        for number, line in enumerate(whole[: whole.rfind(b"\n") + 1].splitlines(), 1):
            try:
                found.append(orjson.loads(line))
            except orjson.JSONDecodeError as error:
                raise HistoryError(f"{path} is damaged in line {number}: {error}") from error
        return found

    def _head(self) -> Mapping[str, Any]:
        path = self.path / _PLAN
        try:
            document = orjson.loads(path.read_bytes())
        except FileNotFoundError as error:
            raise HistoryError(f"{self.path} is not a matrix' folder: it has no {_PLAN}") from error
        except orjson.JSONDecodeError as error:
            raise HistoryError(f"{path} is damaged: {error}") from error
        if not isinstance(document, dict) or not {"plan", "started", "machine"} <= document.keys():
            raise HistoryError(f"{path} is damaged: expected a plan, a start time and the machine")
        return document


def _new(runs: Path, stem: str) -> Path:
    """Create a folder of that name, with a number appended if the name is taken."""
    for number in range(1, 1000):
        path = runs / (stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise PlanError(f"{runs} has a thousand folders named {stem}")


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
