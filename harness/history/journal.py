"""The journal: a history written ahead, so that a dead harness loses nothing.

Every worker process appends to a file of its own, `journals/events-*.jsonl`: one `write(2)` a line, before a request
leaves and when its outcome is known. A line is a JSON object with the columns of `schemaquake.harness.model.records.HISTORY` except
`index`; nulls are left out, `value` is JSON within JSON, and `time` is in ns on the machine's monotonic clock.
A schema observer appends its readings to `journals/observations-*.jsonl` in the same way.

`journals/started.json` says when the run's clock read zero: `{"started_ns": …, "started_utc": "…"}`. The files are
merged by `schemaquake.harness.history.merge`, at the end of a run or by `schemaquake recover RUN`.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self, get_args

import orjson

from schemaquake.harness.errors import HistoryError, JournalError
from schemaquake.harness.history.merge import merge_history, merge_observations
from schemaquake.harness.machine_time import MachineClock
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import JSON, MicroOp, Operation, OperationType
from schemaquake.harness.model.runtime import Clock

__all__ = [
    "EVENT_JOURNALS",
    "OBSERVATION_JOURNALS",
    "STARTED",
    "Journal",
    "ObservationJournal",
    "merge_history",
    "merge_observations",
    "read_clock",
    "start_clock",
]

EVENT_JOURNALS: Final = "events-*.jsonl"
OBSERVATION_JOURNALS: Final = "observations-*.jsonl"
STARTED: Final = "started.json"

_TYPES: Final = frozenset(get_args(OperationType))
_MACHINE: Final = MachineClock()


def start_clock(folder: Path, clock: Clock = _MACHINE) -> int:
    """Begin the run's time: write `started.json` into `folder` (made if need be) and return `started_ns`.

    Raises JournalError if a run's clock was started there before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    started_ns = clock.stamp_ns()
    document = {"started_ns": started_ns, "started_utc": clock.utc().isoformat(timespec="milliseconds")}
    path = folder / STARTED
    try:
        with path.open("xb") as file:
            file.write(orjson.dumps(document) + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError as error:
        raise JournalError(f"{path} exists: another run was started in this folder. Give each run its own.") from error
    except OSError as error:
        raise _unwritable(path, error) from error
    return started_ns


def read_clock(folder: Path) -> int:
    """Return `started_ns` of the run whose journals are in `folder`. Raises HistoryError if it cannot be read."""
    path = folder / STARTED
    try:
        started_ns = orjson.loads(path.read_bytes())["started_ns"]
    except FileNotFoundError as error:
        raise HistoryError(f"{path} is missing: without it the journals' times cannot be counted from zero.") from error
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise HistoryError(f'{path} is damaged: it should hold {{"started_ns": …}} ({error}).') from error
    if type(started_ns) is not int:
        raise HistoryError(f"{path} is damaged: started_ns is {started_ns!r}, not a number of ns.")
    return started_ns


class Journal:
    """One worker's events, in the order in which they happened to it. Threads may share it.

    Times are those of the call by the run's clock, and strictly increase along the file. Raises JournalError if the file cannot be
    opened or continued, or if the run's clock is ahead of this machine's (another machine, or a reboot).
    """

    def __init__(self, path: Path, started_ns: int, *, clock: Clock = _MACHINE) -> None:
        self._file = _AppendOnly(path)
        self._stamp_ns = clock.stamp_ns
        if started_ns > clock.now_ns():
            raise JournalError(
                f"{path}: the run started at {started_ns} ns of a clock that reads less here. Journals are written on "
                "the machine, and within the boot, in which the run was started."
            )
        self._last = started_ns - 1
        self._lock = threading.Lock()
        self._heads: dict[tuple[str, str, str | None], bytes] = {}

    def append(self, operation: Operation) -> int:
        """Record one event now, whatever `operation.time` says; returns its time as `event` does."""
        return self.event(
            operation.process,
            operation.type,
            operation.f,
            operation.node,
            operation.key,
            operation.value,
            operation.error,
            operation.mops,
        )

    def event(
        self,
        process: int,
        type: str,  # noqa: A002 - the column's name
        f: str,
        node: str | None = None,
        key: str | None = None,
        value: JSON = None,
        error: str | None = None,
        mops: Sequence[MicroOp] | None = None,
    ) -> int:
        """Record one event and return its time, ns on the run's clock.

        Raises JournalError when the line could not be written whole: the request must then not be sent. Every later
        call raises it too, so a torn line can only be the last.
        """
        # The clock is read before the encoding, which takes milliseconds for a read of many rows: a completion is
        # recorded no later than needed, and an invocation is early by that much, which only widens its interval.
        now = self._stamp_ns()
        dumps = orjson.dumps
        tail = self._heads.get((type, f, node)) or self._head(type, f, node)
        if key is not None:
            tail += b',"key":' + dumps(key)
        if value is not None:
            tail += b',"value":' + dumps(dumps(value).decode())
        if error is not None:
            tail += b',"error":' + _text(error)
        if mops is not None:
            tail += b',"mops":' + dumps([{"f": m[0], "k": m[1], "v": m[2], "vs": m[3]} for m in mops])
        with self._lock:
            if now <= self._last:
                now = self._last + 1
            self._last = now
            self._file.write(b'{"time":%d,"process":%d,%b}\n' % (now, process, tail))
        return now

    def close(self) -> None:
        """Sync to disk and close; may be called twice."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _head(self, type_: str, f: str, node: str | None) -> bytes:
        """Encode and check the fields of few distinct values, once for each combination."""
        if type_ not in _TYPES:
            raise ValueError(f"{type_!r} is not an event's type: {', '.join(sorted(_TYPES))}")
        head = b'"type":' + orjson.dumps(type_) + b',"f":' + orjson.dumps(f)
        if node is not None:
            head += b',"node":' + orjson.dumps(node)
        self._heads[type_, f, node] = head
        return head


class ObservationJournal:
    """The journal of nodes' accounts of their schema, a reading at a time. Threads may share it. Raises JournalError as `Journal` does."""

    def __init__(self, path: Path, started_ns: int) -> None:
        self._file = _AppendOnly(path)
        self._started_ns = started_ns
        self._lock = threading.Lock()

    def append(self, reading: Sequence[Observation]) -> None:
        """Record one reading of one node, whole or not at all.

        A final reading is complete, so an object without a row counts as absent: half a reading, kept, would accuse a
        cluster of having lost the other half. So each line says in `left` how many lines of its reading follow, and
        `merge_observations` drops a last reading that was cut short.
        """
        last = len(reading) - 1
        lines = []
        for position, observation in enumerate(reading):
            if observation.time < self._started_ns:
                raise ValueError(
                    f"an observation of {observation.node} has time {observation.time}, before the run started "
                    f"({self._started_ns}): times are those of the run's clock"
                )
            lines.append(orjson.dumps(_row(observation) | {"left": last - position}, option=orjson.OPT_APPEND_NEWLINE))
        with self._lock:
            self._file.write(b"".join(lines))

    def close(self) -> None:
        """Sync to disk and close; may be called twice."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _AppendOnly:
    """An append-only file of whole writes; after a failed one it accepts no more."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed: OSError | None = None
        try:
            self._descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR | os.O_CLOEXEC, 0o644)
            size = os.fstat(self._descriptor).st_size
            torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"
        except OSError as error:
            raise _unwritable(path, error) from error
        if torn:
            os.close(self._descriptor)
            raise JournalError(
                f"{path} ends in a torn line, so it cannot be continued: its process died while writing. "
                "Give the new process a journal of its own; both will be merged."
            )

    def write(self, data: bytes) -> None:
        """Append all of `data` in one `write(2)`. Raises JournalError, then and on every later call."""
        if self._failed is not None:
            raise _unwritable(self._path, self._failed) from self._failed
        if self._descriptor < 0:
            raise ValueError(f"{self._path} is closed")
        try:
            written = os.write(self._descriptor, data)
            # A full disk shows as a short write; a second write raises its error.
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError as error:
            self._failed = error
            raise _unwritable(self._path, error) from error

    def close(self) -> None:
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise _unwritable(self._path, error) from error
        finally:
            os.close(descriptor)


def _unwritable(path: Path, error: OSError) -> JournalError:
    folder = path.parent if path.parent.is_dir() else Path(path.anchor or ".")
    free = shutil.disk_usage(folder).free
    return JournalError(
        f"cannot write {path}: {error.strerror or error} ({free / 2**20:,.0f} MiB free on its file system). "
        "No operation is sent that was not recorded first, so the run ends here. What was recorded before is whole: make "
        f'room, or choose another --runs folder, and keep the events with "schemaquake recover {path.parent.parent}".'
    )


def _text(text: str) -> bytes:
    """Encode a server's error message, which need not be valid Unicode, as a JSON string."""
    return orjson.dumps(text.encode("utf-8", "backslashreplace").decode())


def _row(observation: Observation) -> dict[str, Any]:
    """Return the columns of `schemaquake.harness.model.records.OBSERVATIONS` that are not null."""
    row: dict[str, Any] = {
        "time": observation.time,
        "phase": observation.phase,
        "node": observation.node,
        "sample": observation.sample,
        "kind": observation.kind,
        "keyspace": observation.keyspace,
        "name": observation.name,
        "id": observation.id,
        "definition": None if observation.definition is None else orjson.dumps(observation.definition).decode(),
        "error": observation.error,
    }
    return {name: entry for name, entry in row.items() if entry is not None}
