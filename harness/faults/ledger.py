"""The fault ledger: faults that must be undone, written and synced before they are injected.

`ledger.jsonl` in the run's folder, one JSON object a line, only ever appended:

    {"id": 4, "at": "2026-01-01T12:00:00+00:00", "kind": "fault", "state": "planned", "nemesis": "partition",
     "fault": {"id": 3, "begins_s": 5.1, "ends_s": 12.0, "nodes": ["n1"], "parameters": {…}}, "effect": null, "crc": 1}

States: `planned → injected → healing → healed`, with `failed` (an injection or a healing that raised; still to be
undone) and `skipped` (never injected; nothing to undo). An operation on the topology is an entry of kind `operation`:
`planned → begun → ok | fail | info`; it is closed by its outcome, and never undone. Every line is complete by itself: the last one of an id is
its state. One entry of kind `run`, with nothing to undo, says by what name the nodes of a deployed cluster know the run.
SIGKILL of the harness at any instant leaves either no fault or a fault that `open_faults` lists.

Nothing is injected that could not be written here first, but undoing depends on no writing: what cannot be written
then is kept, written later if that is possible, and the fault stays open in the file, where a second healing does no
harm. Space for that is set aside before a fault is injected. Each line has a checksum (`schemaquake.harness.checked_lines`); a damaged line
costs what only that line said.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import orjson

from schemaquake.harness.checked_lines import CHECKSUM, checked_line, line_pieces, without_checksum
from schemaquake.harness.errors import HistoryError, JournalError
from schemaquake.harness.machine_time import MachineClock
from schemaquake.harness.model.membership import ChangeOutcome
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Fault
from schemaquake.harness.model.runtime import Clock

__all__ = [
    "FILE_NAME",
    "Damage",
    "Entry",
    "Ledger",
    "LedgerText",
    "State",
    "examine_ledger",
    "parse_ledger",
    "read_ledger",
]

log = logging.getLogger(__name__)

FILE_NAME: Final = "ledger.jsonl"

State: TypeAlias = Literal[
    "planned", "injected", "healing", "healed", "failed", "skipped", "begun", "ok", "fail", "info"
]
_STATES: Final[Mapping[str, State]] = {state: state for state in get_args(State)}
_CLOSED: Final = frozenset({"healed", "skipped", "ok", "fail", "info"})
_FAULTS: Final = frozenset({"fault", "operation"})
"""Kinds of entries that have a `fault`."""
_RUN: Final = "run"
_OPENING: Final = b'{"id":'
_MACHINE: Final = MachineClock()
_SPACE: Final = 1 << 16
"""Bytes set aside: some hundred lines."""
_KEEP_SIZE: Final = 1
"""FALLOC_FL_KEEP_SIZE of Linux: blocks behind the end of a file belong to it, and its length stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The state of one fault or operation, or the run's name. `effect` is the last state read back, or the error's text."""

    id: int
    at: str
    kind: str
    state: State
    fault: Fault | None = None
    run_name: str | None = None
    """The name of the run on the nodes of a deployed cluster; for kind `run` alone, which has no fault."""
    effect: JSON = None

    @property
    def is_open(self) -> bool:
        """True if something may still have to be undone."""
        return self.state not in _CLOSED


@dataclass(frozen=True, slots=True)
class Damage:
    """A part of a ledger that cannot be read. `line` counts from 1; None for an entry without any line."""

    line: int | None
    reason: str

    def __str__(self) -> str:
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"


class LedgerText(NamedTuple):
    """Everything that can be read of a ledger, oldest first, and what cannot."""

    entries: Sequence[Entry]
    damage: Sequence[Damage]
    torn_at: int | None
    """The begin of a torn last line in bytes; it was never synced, so its fault was never injected."""
    ends_whole: bool
    """False if something else stands in place of the last newline."""


class Ledger:
    """The ledger of one run, for the process that injects faults and for the one that heals them after a crash.

    Safe to use from several threads of one process. A line of something that is about to be done is synced before the
    method returns, or JournalError is raised; a line of something done is kept if it cannot be written.
    """

    def __init__(self, path: Path, *, clock: Clock = _MACHINE, durable: bool = True) -> None:
        """Open or create the ledger at `path` (`FILE_NAME` in a run's folder). A damaged one can be opened: see `damage`.

        `durable`: False for simulated faults, which end with their process; such a ledger is never synced.
        Raises HistoryError for a link, which is never followed, and OSError.
        """
        self.path = path
        self._clock = clock
        self._durable = durable
        self._lock = threading.Lock()
        is_new = not path.exists()
        try:
            self._file = _opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError:
            if is_new:
                raise
            self._file = _opened(path, os.O_RDONLY)  # what can be read can be healed
        if is_new and durable:
            # The name must survive a power cut as well as the lines do.
            directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            os.fsync(directory)
            os.close(directory)
        text = examine_ledger(path)
        self.damage: Sequence[Damage] = text.damage
        """What could not be read when the ledger was opened."""
        self._entries = {entry.id: entry for entry in text.entries}
        self._unwritten: list[Entry] = []
        self._torn_at = text.torn_at
        self._ends_whole = text.ends_whole
        self._reserved_to = 0

    def close(self) -> None:
        """Close the file; what is open in the ledger stays open there. Raises JournalError if a line could not be written."""
        with self._lock:
            if self._file < 0:
                return
            try:
                self._write(self._unwritten)
                with suppress(OSError):
                    os.ftruncate(self._file, os.fstat(self._file).st_size)  # gives back what was set aside
            except OSError as error:
                raise JournalError(
                    f"{self.path} could not be written ({error.strerror or error}), so it still lists faults that are "
                    f"undone: entries {', '.join(map(str, sorted({entry.id for entry in self._unwritten})))}. Nothing of them is "
                    "left; healing again, when there is room, does no harm."
                ) from error
            finally:
                os.close(self._file)
                self._file = -1

    def plan(self, fault: Fault) -> int:
        """Record that this fault is about to be injected; returns the entry's id. On disk before this returns.

        Raises JournalError if it cannot be written, or if there is no room to write down later that it was undone.
        """
        return self._add("fault", fault=fault)

    def plan_operation(self, operation: Fault) -> int:
        """Say that this operation on the topology is about to begin; returns the entry's id. As `plan`."""
        return self._add("operation", fault=operation)

    def name_run(self, name: str) -> None:
        """Record the name by which nodes that outlive the run know it. As `plan`."""
        self._add(_RUN, run_name=name)

    def begun(self, entry: int) -> None:
        """Say that the operation is asked of the cluster now. As `plan`."""
        self._move(entry, "begun", None, first=True)

    def concluded(self, entry: int, outcome: ChangeOutcome, effect: JSON = None) -> None:
        """Close an operation by its outcome; `effect` is what it brought back, or the error in words."""
        self._move(entry, outcome, effect)

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

    @property
    def fault_ids(self) -> frozenset[int]:
        """The numbers of all faults that the ledger names."""
        with self._lock:
            return frozenset(entry.fault.id for entry in self._entries.values() if entry.fault is not None)

    def open_faults(self) -> Sequence[Entry]:
        """Return the faults that may still be in place, oldest first, from a fresh read of the file."""
        return [entry for entry in self._open() if entry.kind == "fault"]

    def open_operations(self) -> Sequence[Entry]:
        """Operations on the topology without an outcome, oldest first, from a fresh read of the file."""
        return [entry for entry in self._open() if entry.kind == "operation"]

    def _open(self) -> Sequence[Entry]:
        with self._lock:
            latest = {entry.id: entry for entry in (*examine_ledger(self.path).entries, *self._unwritten)}
        return [entry for _, entry in sorted(latest.items()) if entry.is_open]

    def _add(self, kind: str, *, fault: Fault | None = None, run_name: str | None = None) -> int:
        with self._lock:
            number = max(self._entries, default=-1) + 1
            state: State = "planned" if run_name is None else "skipped"
            entry = Entry(id=number, at=self._now(), kind=kind, state=state, fault=fault, run_name=run_name)
            self._write_first(entry)
            return number

    def _move(self, entry: int, state: State, effect: JSON, *, first: bool = False) -> None:
        with self._lock:
            moved = replace(self._entries[entry], at=self._now(), state=state, effect=effect)
            if first:
                self._write_first(moved)
                return
            self._entries[entry] = moved
            self._unwritten.append(moved)
            try:
                self._write(self._unwritten)
            except OSError as error:
                log.warning(
                    "the ledger could not be written", extra={"entry": entry, "state": state, "error": str(error)}
                )

    def _now(self) -> str:
        return self._clock.utc().isoformat(timespec="milliseconds")

    def _write_first(self, entry: Entry) -> None:
        """Write what is about to be done. Raises JournalError."""
        try:
            self._set_space_aside()
            self._write([*self._unwritten, entry])
        except OSError as error:
            raise JournalError(
                f"cannot write {self.path}: {error.strerror or error}. Nothing is done to the cluster that was not "
                "recorded there first: make room, or choose another --runs folder."
            ) from error
        self._entries[entry.id] = entry

    def _write(self, entries: Sequence[Entry]) -> None:
        """Append the lines of all entries, or of none, and sync them. Raises OSError."""
        if not entries:
            return
        lines = b"".join(checked_line(orjson.dumps(_document(entry))) for entry in entries)
        if not self._ends_whole:
            lines = b"\n" + lines
        self._cut_back()
        self._torn_at = os.fstat(self._file).st_size
        try:
            written = 0
            while written < len(lines):
                written += os.write(self._file, lines[written:])
            self._sync()
        except OSError:
            with suppress(OSError):
                self._cut_back()
            raise
        self._torn_at = None
        self._ends_whole = True
        self._unwritten.clear()

    def _cut_back(self) -> None:
        """Cut off what is left of a line that could not be written whole."""
        if self._torn_at is not None:
            os.ftruncate(self._file, self._torn_at)
            self._sync()
            self._torn_at = None

    def _sync(self) -> None:
        if self._durable:
            os.fsync(self._file)

    def _set_space_aside(self) -> None:
        """Set disk space aside behind the end of the file, where the file system can. Raises OSError if there is none."""
        size = os.fstat(self._file).st_size
        if size + _SPACE // 2 <= self._reserved_to:
            return
        try:
            _allocate(self._file, size, _SPACE)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise
        self._reserved_to = size + _SPACE


def read_ledger(path: Path) -> Sequence[Entry]:
    """Read every line of a ledger, oldest first. A last line without its newline is torn, and left out.

    Raises HistoryError naming the line number for anything else that is not an entry.
    """
    text = examine_ledger(path)
    if text.damage:
        raise HistoryError(
            f"{path}, {'; '.join(map(str, text.damage))}. Faults may still be in place: heal what the other lines name, "
            "look after the rest by hand, then repair or remove what is damaged."
        )
    return text.entries


def examine_ledger(path: Path) -> LedgerText:
    """Read what can be read of a ledger, and locate the rest. Raises HistoryError for a link, and OSError."""
    with open(_opened(path, os.O_RDONLY), "rb") as source:
        return parse_ledger(source.read())


def parse_ledger(text: bytes) -> LedgerText:
    """Parse what can be read of a ledger's text, and locate the rest."""
    *lines, last = text.split(b"\n")
    entries: list[Entry] = []
    damage: list[Damage] = []
    for number, line in enumerate(lines, 1):
        _read_line(number, line, entries, damage)
    torn_at = None
    ends_whole = True
    if last:
        # A torn line is the begin of one; after a whole one, something stands in place of its newline.
        if any(piece.is_whole for piece in list(line_pieces(last, opening=_OPENING))[:-1]):
            _read_line(len(lines) + 1, last, entries, damage)
            ends_whole = False
        else:
            torn_at = sum(len(line) + 1 for line in lines)
    damage += _missing({entry.id for entry in entries})
    return LedgerText(entries, damage, torn_at, ends_whole)


def _read_line(number: int, line: bytes, entries: list[Entry], damage: list[Damage]) -> None:
    """Add what a line says to `entries`, and what cannot be read of it to `damage`."""
    if CHECKSUM not in line:  # as 0.1 wrote them
        _read_entry(number, line, entries, damage)
        return
    for piece in line_pieces(line, opening=_OPENING):
        if piece.is_whole:
            _read_entry(number, without_checksum(piece.text), entries, damage)
        else:
            damage.append(Damage(number, f"{len(piece.text)} bytes do not match their checksum"))


def _read_entry(number: int, text: bytes, entries: list[Entry], damage: list[Damage]) -> None:
    try:
        entries.append(_entry(text))
    except (ValueError, KeyError, TypeError) as error:
        damage.append(Damage(number, f"not an entry of a fault ledger ({type(error).__name__}: {error})"))


def _missing(known: Collection[int]) -> Iterator[Damage]:
    """Yield the numbers between 0 and the last of which there is no line."""
    before = -1
    for number in sorted(known):
        if number > before + 1:
            which = f"entry {before + 1} is" if number == before + 2 else f"entries {before + 1} to {number - 1} are"
            yield Damage(None, f"{which} missing")
        before = number


def _opened(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise HistoryError(f"{path} is a link, and a ledger is not read through links.") from error
        raise


def _allocate(file: int, begin: int, length: int) -> None:
    """Allocate blocks of a file, also behind its end, which stays where it is. Raises OSError."""
    try:
        allocate = ctypes.CDLL(None, use_errno=True).fallocate
    except AttributeError as error:  # another system than Linux
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP)) from error
    if allocate(file, _KEEP_SIZE, ctypes.c_int64(begin), ctypes.c_int64(length)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _document(entry: Entry) -> dict[str, Any]:
    document: dict[str, Any] = {"id": entry.id, "at": entry.at, "kind": entry.kind, "state": entry.state}
    if entry.fault is not None:
        fault = asdict(entry.fault)
        document |= {"nemesis": fault.pop("nemesis"), "fault": fault}
    else:
        document["what"] = {"name": entry.run_name}
    return document | {"effect": entry.effect}


# ── reading an entry ─────────────────────────────────────────────────────────────────────────────────────────────────

_KNOWN: Final = frozenset({"id", "at", "kind", "state", "nemesis", "fault", "what", "effect"})
"""An unknown field of a line without a checksum may be a damaged `crc`."""


def _entry(line: bytes) -> Entry:
    """Read one line. Raises ValueError, KeyError and TypeError for anything that is not an entry."""
    document = _of_type(dict, orjson.loads(line), "the line")
    if unknown := document.keys() - _KNOWN:
        raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}")
    kind = _of_type(str, document["kind"], "kind")
    if kind not in {*_FAULTS, _RUN}:
        raise ValueError(f"unknown kind {kind!r}")
    return Entry(
        id=_of_type(int, document["id"], "id"),
        at=_of_type(str, document["at"], "at"),
        kind=kind,
        state=_STATES[_of_type(str, document["state"], "state")],
        fault=_fault(document) if kind in _FAULTS else None,
        run_name=_of_type(str, document["what"]["name"], "name") if kind == _RUN else None,
        effect=document["effect"],
    )


def _fault(document: Mapping[str, Any]) -> Fault:
    fields = _of_type(dict, document["fault"], "fault")
    nodes = _of_type(list, fields["nodes"], "nodes")
    for name in ("begins_s", "ends_s"):
        if type(fields[name]) not in {int, float}:
            raise TypeError(f"{name} is {fields[name]!r}")
    return Fault(
        **fields
        | {
            "id": _of_type(int, fields["id"], "id"),
            "nemesis": _of_type(str, document["nemesis"], "nemesis"),
            "nodes": tuple(_of_type(str, node, "node") for node in nodes),
            "parameters": _of_type(dict, fields.get("parameters", {}), "parameters"),
        }
    )


def _of_type(wanted: type, value: Any, name: str) -> Any:
    """Return the value if it is of that type (a truth is no number). Raises TypeError."""
    if type(value) is not wanted:
        raise TypeError(f"{name} is {value!r}")
    return value
