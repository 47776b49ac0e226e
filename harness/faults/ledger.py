"""The fault ledger: faults that must be undone, written and synced before they are injected.

`ledger.jsonl` in the run's folder, one JSON object a line, only ever appended:

    {"id": 4, "at": "2026-01-01T12:00:00+00:00", "kind": "fault", "state": "planned", "nemesis": "partition",
     "fault": {"id": 3, "begins_s": 5.1, "ends_s": 12.0, "nodes": ["n1"], "parameters": {…}}, "effect": null}

States: `planned → injected → healing → healed`, with `failed` (an injection or a healing that raised; still to be
undone) and `skipped` (never injected; nothing to undo). An operation on the topology is an entry of kind `operation`:
`planned → begun → ok | fail | info`; it is closed by its outcome, and never undone. Every line is complete by itself: the last one of an id is
its state. Resources that a run created (processes, namespaces) are entries of kind `resource`; one of kind
`run`, with nothing to undo, says by what name the nodes of a deployed cluster know the run.
SIGKILL of the harness at any instant leaves either no fault or a fault that `open_faults` lists.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import orjson

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.machine_time import MachineClock
from schemaquake.harness.model.membership import ChangeOutcome
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Fault
from schemaquake.harness.model.runtime import Clock

__all__ = ["FILE_NAME", "Entry", "Ledger", "State", "read_ledger"]

FILE_NAME: Final = "ledger.jsonl"

State: TypeAlias = Literal[
    "planned", "injected", "healing", "healed", "failed", "skipped", "begun", "ok", "fail", "info"
]
_STATES: Final[Mapping[str, State]] = {state: state for state in get_args(State)}
_CLOSED: Final = frozenset({"healed", "skipped", "ok", "fail", "info"})
_FAULTS: Final = frozenset({"fault", "operation"})
"""Kinds of entries that have a `fault`."""
_MACHINE: Final = MachineClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The state of one fault or resource. `effect` is the last state read back from the system, or the error's text."""

    id: int
    at: str
    kind: str
    state: State
    fault: Fault | None = None
    what: Mapping[str, JSON] | None = None
    """The description of a resource; a fault has `fault` instead."""
    effect: JSON = None

    @property
    def is_open(self) -> bool:
        """True if something may still have to be undone."""
        return self.state not in _CLOSED


class Ledger:
    """The ledger of one run, for the process that injects faults and for the one that heals them after a crash.

    Safe to use from several threads of one process. Every line is synced before the method returns.
    """

    def __init__(self, path: Path, *, clock: Clock = _MACHINE) -> None:
        """Open or create the ledger at `path` (`FILE_NAME` in a run's folder); raises HistoryError if it is damaged."""
        self.path = path
        self._clock = clock
        self._lock = threading.Lock()
        is_new = not path.exists()
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        if is_new:
            # The name must survive a power cut as well as the lines do.
            directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            os.fsync(directory)
            os.close(directory)
        else:
            self._drop_torn_line()
        self._entries = {entry.id: entry for entry in read_ledger(path)}

    def close(self) -> None:
        """Close the file; what is open in the ledger stays open there."""
        os.close(self._file)

    def plan(self, fault: Fault) -> int:
        """Record that this fault is about to be injected; returns the entry's id. On disk before this returns."""
        return self._add("fault", fault=fault)

    def plan_operation(self, operation: Fault) -> int:
        """Say that this operation on the topology is about to begin; returns the entry's id. On disk before this returns."""
        return self._add("operation", fault=operation)

    def begun(self, entry: int) -> None:
        """Say that the operation is asked of the cluster now."""
        self._move(entry, "begun", None)

    def concluded(self, entry: int, outcome: ChangeOutcome, effect: JSON = None) -> None:
        """Close an operation by its outcome; `effect` is what it brought back, or the error in words."""
        self._move(entry, outcome, effect)

    def record(self, kind: str, what: Mapping[str, JSON]) -> int:
        """Record a resource that is about to be created and that a crash would leave behind; returns the entry's id.

        For example `record("resource", {"process": 4711, "start_time": "88123"})`; then as for a fault.
        """
        return self._add(kind, what=what)

    def injected(self, entry: int, effect: JSON) -> None:
        """Record the injection, with the effect read back."""
        self._move(entry, "injected", effect)

    def healing(self, entry: int) -> None:
        """Record that healing begins."""
        self._move(entry, "healing", None)

    def healed(self, entry: int, effect: JSON = None) -> None:
        """Record the healing, with the state read back."""
        self._move(entry, "healed", effect)

    def failed(self, entry: int, error: str) -> None:
        """Record an error of injecting or healing; the entry stays open until a healing succeeds."""
        self._move(entry, "failed", {"error": error})

    def skipped(self, entry: int, reason: str) -> None:
        """Record that the fault was not injected."""
        self._move(entry, "skipped", {"reason": reason})

    def open_faults(self) -> Sequence[Entry]:
        """Return the faults that may still be in place, oldest first, from a fresh read of the file."""
        return [entry for entry in self._open() if entry.kind == "fault"]

    def open_operations(self) -> Sequence[Entry]:
        """Operations on the topology without an outcome, oldest first, from a fresh read of the file."""
        return [entry for entry in self._open() if entry.kind == "operation"]

    def open_resources(self) -> Sequence[Entry]:
        """Return the other resources that may still exist, oldest first, from a fresh read of the file."""
        return [entry for entry in self._open() if entry.fault is None]

    def _open(self) -> Sequence[Entry]:
        latest = {entry.id: entry for entry in read_ledger(self.path)}
        return [entry for _, entry in sorted(latest.items()) if entry.is_open]

    def _add(self, kind: str, *, fault: Fault | None = None, what: Mapping[str, JSON] | None = None) -> int:
        with self._lock:
            number = max(self._entries, default=-1) + 1
            self._append(Entry(id=number, at=self._now(), kind=kind, state="planned", fault=fault, what=what))
            return number

    def _move(self, entry: int, state: State, effect: JSON) -> None:
        with self._lock:
            self._append(replace(self._entries[entry], at=self._now(), state=state, effect=effect))

    def _now(self) -> str:
        return self._clock.utc().isoformat(timespec="milliseconds")

    def _append(self, entry: Entry) -> None:
        line = orjson.dumps(_document(entry)) + b"\n"
        written = os.write(self._file, line)
        if written != len(line):
            raise OSError(f"{self.path}: only {written} of {len(line)} bytes could be written")
        os.fsync(self._file)
        self._entries[entry.id] = entry

    def _drop_torn_line(self) -> None:
        """Cut off a torn last line: it was never synced, so its fault was never injected."""
        text = self.path.read_bytes()
        if text and not text.endswith(b"\n"):
            os.ftruncate(self._file, text.rfind(b"\n") + 1)
            os.fsync(self._file)


def read_ledger(path: Path) -> Sequence[Entry]:
    """Read every line of a ledger, oldest first. A last line without its newline is torn, and left out.

    Raises HistoryError naming the line number for anything else that is not an entry.
    """
    lines = path.read_bytes().split(b"\n")
    return [_entry(path, number, line) for number, line in enumerate(lines[:-1], 1)]


def _document(entry: Entry) -> dict[str, Any]:
    document: dict[str, Any] = {"id": entry.id, "at": entry.at, "kind": entry.kind, "state": entry.state}
    if entry.fault is not None:
        fault = asdict(entry.fault)
        document |= {"nemesis": fault.pop("nemesis"), "fault": fault}
    else:
        document["what"] = entry.what
    return document | {"effect": entry.effect}


def _entry(path: Path, number: int, line: bytes) -> Entry:
    try:
        document = orjson.loads(line)
        fault = None
        if document["kind"] in _FAULTS:
            fields = document["fault"]
            fault = Fault(**(fields | {"nemesis": document["nemesis"], "nodes": tuple(fields["nodes"])}))
        return Entry(
            id=int(document["id"]),
            at=str(document["at"]),
            kind=str(document["kind"]),
            state=_STATES[document["state"]],
            fault=fault,
            what=document.get("what"),
            effect=document["effect"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise HistoryError(
            f"{path}, line {number}: not an entry of a fault ledger ({type(error).__name__}: {error}). "
            "Faults may still be in place: heal by hand what the other lines name, then repair or remove this line."
        ) from error
