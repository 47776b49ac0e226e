"""Progress of work in many runs: a folder with a plan, and one line for each part that is finished.

The plan is written once. Lines are appended and synced, so that the work goes on where it ended, whatever ended it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

import orjson

from schemaquake.harness.atomic import write_bytes
from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.named_folders import why_no_folder, why_not_made

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "Finished",
    "Planned",
    "ProgressFolder",
    "append_line",
    "make_folder",
    "plan_differences",
    "plan_values",
    "read_head",
    "read_lines",
    "working_alone",
]

_PROGRESS: Final = "progress.jsonl"

Unit = TypeVar("Unit")
Facts = TypeVar("Facts")


class Planned(Protocol):
    """A plan that can be stored."""

    def to_json(self) -> Mapping[str, Any]:
        """Return the plan as JSON."""
        ...


# Without slots: in Python 3.11 the alias of a generic class cannot make a value that is frozen and has slots.
@dataclass(frozen=True)
class Finished(Generic[Unit, Facts]):
    """A finished part of the work, and its facts."""

    unit: Unit
    facts: Facts


@dataclass(frozen=True)
class ProgressFolder:
    """A folder of many runs: its plan with the start time and the machine, a line for each finished part, and the paths of all files.

    `ProgressFolder(path)` touches nothing; `create` makes a new one. Users name the plan's file, what the folder is, and the work.
    """

    PLAN: ClassVar[str]
    """File with the plan, such as `grid.json`."""
    TITLE: ClassVar[str]
    """What the folder is, in errors: "the folder of a grid"."""
    WORK: ClassVar[str]
    """The work, in names and errors: "grid"."""

    path: Path

    @classmethod
    def create(cls, runs: Path, plan: Planned, machine: Mapping[str, str]) -> Self:
        """Create a folder in `runs`. Raises PlanError if that fails."""
        now = datetime.now(UTC)
        path = make_folder(runs, f"{now.strftime('%Y%m%dT%H%M%SZ')}-{cls.WORK}", f"the {cls.WORK}")
        document = {"plan": plan.to_json(), "started": now.isoformat(timespec="seconds"), "machine": dict(machine)}
        write_bytes(path / cls.PLAN, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
        (path / _PROGRESS).touch()
        return cls(path)

    @property
    def progress(self) -> Path:
        """File with a line for each finished part."""
        return self.path / _PROGRESS

    @property
    def runs(self) -> Path:
        """Folder of the runs' folders."""
        return self.path / "runs"

    @property
    def logs(self) -> Path:
        """Folder of the runs' output."""
        return self.path / "logs"

    def started(self) -> str:
        """Read the start time: UTC, ISO 8601."""
        return str(self.head()["started"])

    def machine(self) -> Mapping[str, str]:
        """Read the properties of the machine for the page."""
        machine: Mapping[str, str] = self.head()["machine"]
        return machine

    def alone(self) -> AbstractContextManager[None]:
        """Lock the work against other processes. Raises PlanError if another process works on it."""
        return working_alone(self.path / self.PLAN)

    def head(self) -> Mapping[str, Any]:
        """Read plan, start time and machine. Raises HistoryError for a folder of another kind."""
        return read_head(self.path / self.PLAN, self.TITLE)

    def lines(self) -> list[dict[str, Any]]:
        """Read the lines of progress. A truncated last line is ignored; any other damage is an error. Raises HistoryError."""
        return read_lines(self.progress, self.TITLE)

    def append_line(self, line: Mapping[str, Any]) -> None:
        """Append a line of progress. It is on disk when this returns."""
        append_line(self.progress, line)

    def replace_lines(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Replace all lines of progress. They are on disk when this returns."""
        write_bytes(self.progress, b"".join(orjson.dumps(line) + b"\n" for line in lines))


def make_folder(runs: Path, stem: str, title: str) -> Path:
    """Make a folder of that name in `runs`, numbered if the name is taken, with room for runs and logs.

    Raises PlanError, which names `title`, such as "the matrix".
    """
    try:
        runs.mkdir(parents=True, exist_ok=True)
        path = _new(runs, stem)
        (path / "runs").mkdir()
        (path / "logs").mkdir()
    except OSError as error:
        raise PlanError(f"cannot make a folder for {title} in {runs}: {why_not_made(runs, error)}") from error
    return path


def read_head(path: Path, title: str) -> Mapping[str, Any]:
    """Read the document with plan, start time and machine. Raises HistoryError if the folder is not `title`, or damaged."""
    try:
        document = orjson.loads(path.read_bytes())
    except OSError as error:
        why = why_no_folder(path.parent)
        if why is None and not isinstance(error, FileNotFoundError):
            raise
        raise HistoryError(f"{path.parent} is not {title}: {why or f'it has no {path.name}'}") from error
    except orjson.JSONDecodeError as error:
        raise HistoryError(f"{path} is damaged: {error}") from error
    kinds = {"plan": dict, "started": str, "machine": dict}
    if not isinstance(document, dict) or not all(isinstance(document.get(name), kind) for name, kind in kinds.items()):
        raise HistoryError(f"{path} is damaged: expected a plan, a start time and the machine")
    return document


def plan_values(plan: type[DataclassInstance], document: Mapping[str, Any], title: str) -> dict[str, Any]:
    """Return the values of a stored plan by field; lists are tuples.

    Raises HistoryError, which names `title`, such as "the matrix", for a document that has other fields, or not all that it needs.
    """
    known = {one.name for one in fields(plan)}
    needed = {one.name for one in fields(plan) if one.default is MISSING and one.default_factory is MISSING}
    if not needed <= document.keys() <= known:
        odd = sorted((document.keys() - known) | (needed - document.keys()))
        raise HistoryError(f"{title} was planned by another version of Schemaquake; it differs in {', '.join(odd)}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}


def plan_differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields in which two stored plans differ, except `command`."""
    return sorted(name for name in one if name != "command" and one[name] != other[name])


def read_lines(path: Path, title: str) -> list[dict[str, Any]]:
    """Read all lines. A truncated last line is ignored; any other damage is an error. Raises HistoryError."""
    try:
        whole = path.read_bytes()
    except FileNotFoundError as error:
        raise HistoryError(f"{path.parent} is not {title}: it has no {path.name}") from error
    found = []
    for number, line in enumerate(whole[: whole.rfind(b"\n") + 1].splitlines(), 1):
        try:
            found.append(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            raise HistoryError(f"{path} is damaged in line {number}: {error}") from error
    return found


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Append a line. It is on disk when this returns."""
    with path.open("rb+") as file:
        # A line truncated by the end of an earlier process must not swallow the new one.
        whole = file.read()
        file.truncate(whole.rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)
        file.write(orjson.dumps(line) + b"\n")
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def working_alone(plan: Path) -> Iterator[None]:
    """Lock the folder of this plan against other processes. Raises PlanError if another process works on it."""
    # The plan is the only file that is never rewritten, so the lock stays on it.
    with plan.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PlanError(f"another process is working on {plan.parent}") from error
        yield


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
