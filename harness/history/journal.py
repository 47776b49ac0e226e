"""The journal: a history written ahead, so that a dead harness loses nothing.

Every worker process appends to a file of its own, `journals/events-*.jsonl`: one `write(2)` a line, before a request
leaves and when its outcome is known. A line is a JSON object with the columns of `schemaquake.harness.model.records.HISTORY` except
`index`; nulls are left out, `value` is JSON within JSON, and `time` is in ns on the machine's monotonic clock.
A schema observer appends its readings to `journals/observations-*.jsonl` in the same way.

Each line ends in `crc`, the CRC-32 of the objects of the file up to that field, without the checksums between them: the
last one verifies a whole file, and a line that was damaged, lost or repeated is located
(`schemaquake.harness.history.running_checksum`). Files of 0.1 have none.
A journal is synced to disk about once a second (`sync_regularly`) and at the end of each phase: SIGKILL loses nothing,
a power cut what the last second wrote.

`journals/started.json` says when the run's clock read zero: `{"started_ns": …, "started_utc": "…", "crc": …}`. The files are
merged by `schemaquake.harness.history.merge`, at the end of a run or by `schemaquake recover RUN`.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, Self, get_args
from zlib import crc32

import orjson

from schemaquake.harness.checked_lines import checked_line, without_checksum
from schemaquake.harness.errors import DamagedFile, HistoryError, JournalError
from schemaquake.harness.history.running_checksum import checksum_of
from schemaquake.harness.machine_time import MachineClock
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import JSON, MicroOp, Operation, OperationType
from schemaquake.harness.model.runtime import Clock
from schemaquake.harness.wait import pause_for

__all__ = [
    "EVENT_JOURNALS",
    "OBSERVATION_JOURNALS",
    "STARTED",
    "VIRTUAL_EPOCH",
    "Journal",
    "ObservationJournal",
    "Synced",
    "read_clock",
    "read_started",
    "start_clock",
    "sync_regularly",
]

EVENT_JOURNALS: Final = "events-*.jsonl"
OBSERVATION_JOURNALS: Final = "observations-*.jsonl"
STARTED: Final = "started.json"
VIRTUAL_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""The moment at which simulated clocks begin: a run that began then has no date."""

_TYPES: Final = frozenset(get_args(OperationType))
_HELD_MOST: Final = 1 << 16
"""Bytes of lines that a journal of a repeatable run holds back."""
_MACHINE: Final = MachineClock()


def start_clock(folder: Path, clock: Clock = _MACHINE, *, durable: bool = True) -> int:
    """Begin the run's time: write `started.json` into `folder` (made if need be) and return `started_ns`; `durable` as for `Journal`.

    Raises JournalError if a run's clock was started there before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    started_ns = clock.stamp_ns()
    document = {"started_ns": started_ns, "started_utc": clock.utc().isoformat(timespec="milliseconds")}
    path = folder / STARTED
    try:
        with path.open("xb") as file:
            file.write(checked_line(orjson.dumps(document)))
            file.flush()
            if durable:
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
        started_ns = _read_started(path)["started_ns"]
    except FileNotFoundError as error:
        raise HistoryError(f"{path} is missing: without it the journals' times cannot be counted from zero.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f'{path} is damaged: it should hold {{"started_ns": …}} ({error}).', path) from error
    if type(started_ns) is not int:
        raise DamagedFile(f"{path} is damaged: started_ns is {started_ns!r}, not a number of ns.", path)
    return started_ns


def read_started(folder: Path) -> datetime | None:
    """Return when the run began by the harness' wall clock; None if it went on in virtual time.

    Raises HistoryError if its journals do not say.
    """
    path = folder / STARTED
    try:
        started = datetime.fromisoformat(_read_started(path)["started_utc"])
    except FileNotFoundError as error:
        raise HistoryError(f"{path} is missing, and with it the time when the run began.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{path} is damaged ({error}), and does not say when the run began.", path) from error
    return None if started == VIRTUAL_EPOCH else started


def _read_started(path: Path) -> dict[str, Any]:
    """Return the document of `started.json`. Raises ValueError for a damaged one, FileNotFoundError."""
    line = path.read_bytes()
    document = orjson.loads(line)
    if not isinstance(document, dict):
        raise TypeError("not an object")
    # Files of 0.1 have these two fields and no checksum.
    if not document.keys() <= {"started_ns", "started_utc"} and checked_line(without_checksum(line)) != line:
        raise ValueError("its checksum is another one")
    return document


class _JournalFile:
    """The file of a journal, whatever its lines are. Threads may share it."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self._file = _CheckedFile(path, durable=durable)
        self._lock = threading.Lock()

    def sync(self) -> None:
        """Have everything recorded so far on disk. Raises JournalError, then and on every later record."""
        self._file.sync()

    def close(self) -> None:
        """Sync to disk and close; may be called twice."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Journal(_JournalFile):
    """One worker's events, in the order in which they happened to it. Threads may share it.

    Times are those of the call by the run's clock, and strictly increase along the file. Raises JournalError if the file cannot be
    opened or continued, or if the run's clock is ahead of this machine's (another machine, or a reboot).
    """

    def __init__(self, path: Path, started_ns: int, *, clock: Clock = _MACHINE, durable: bool = True) -> None:
        """`durable`: False for a run that can be repeated from its seed, whose journals are written late and never synced."""
        super().__init__(path, durable=durable)
        self._stamp_ns = clock.stamp_ns
        if started_ns > clock.now_ns():
            raise JournalError(
                f"{path}: the run started at {started_ns} ns of a clock that reads less here. Journals are written on "
                "the machine, and within the boot, in which the run was started."
            )
        self._last = started_ns - 1

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
        if type not in _TYPES:
            raise ValueError(f"{type!r} is not an event's type: {', '.join(sorted(_TYPES))}")
        # The clock is read before the encoding, which takes milliseconds for a read of many rows: a completion is
        # recorded no later than needed, and an invocation is early by that much, which only widens its interval.
        now = self._stamp_ns()
        with self._lock:
            if now <= self._last:
                now = self._last + 1
            # A dictionary that is encoded whole is faster than parts that are joined.
            row: dict[str, Any] = {"time": now, "process": process, "type": type, "f": f}
            if node is not None:
                row["node"] = node
            if key is not None:
                row["key"] = key
            if value is not None:
                row["value"] = orjson.dumps(value).decode()
            if error is not None:
                row["error"] = _text(error)
            if mops is not None:
                row["mops"] = [{"f": m[0], "k": m[1], "v": m[2], "vs": m[3]} for m in mops]
            self._file.append(orjson.dumps(row))
            self._last = now
        return now


class ObservationJournal(_JournalFile):
    """The journal of nodes' accounts of their schema, a reading at a time. Threads may share it. Raises JournalError as `Journal` does."""

    def __init__(self, path: Path, started_ns: int, *, durable: bool = True) -> None:
        """`durable` as for `Journal`."""
        super().__init__(path, durable=durable)
        self._started_ns = started_ns

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
            lines.append(orjson.dumps(_row(observation) | {"left": last - position}))
        if lines:
            with self._lock:
                self._file.append_all(lines)


class Synced(Protocol):
    """A journal as far as `sync_regularly` needs it."""

    def sync(self) -> None:
        """Have everything recorded so far on disk. Raises JournalError."""
        ...


def sync_regularly(journals: Iterable[Synced], *, every_s: float = 1.0) -> None:
    """Sync journals about once a second from now on, in a thread that ends with the process.

    A sync of several milliseconds would otherwise delay the operation that happens to need it. A journal that cannot be
    synced says so at its next event.
    """
    kept = list(journals)

    def sync_each() -> None:
        while True:
            pause_for(every_s)
            for journal in kept:
                with suppress(JournalError):
                    journal.sync()

    threading.Thread(target=sync_each, name="sync", daemon=True).start()


class _CheckedFile:
    """An append-only file of lines with a running checksum; after a failed write it accepts no more."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self._path = path
        self._durable = durable
        self._held: list[bytes] = []
        """Objects that are not written yet: of a file that is not durable."""
        self._held_bytes = 0
        self._failed: OSError | None = None
        self._syncing = threading.Lock()
        try:
            flags = os.O_CREAT | os.O_APPEND | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, 0o644)
            there = path.read_bytes() if os.fstat(self._descriptor).st_size else b""
        except OSError as error:
            raise _unwritable(path, error) from error
        self._crc = self._synced = checksum_of(there)
        if there and not there.endswith(b"\n"):
            os.close(self._descriptor)
            raise JournalError(
                f"{path} ends in a torn line, so it cannot be continued: its process died while writing. "
                "Give the new process a journal of its own; both will be merged."
            )

    def append(self, document: bytes) -> None:
        """Append a JSON object as one line, in one `write(2)`. Raises JournalError, then and on every later call."""
        if not self._durable:
            self._hold((document,), len(document))
            return
        covered = document[:-1]
        crc = crc32(covered, self._crc)
        line = b'%b,"crc":%d}\n' % (covered, crc)
        try:
            written = os.write(self._descriptor, line)
        except OSError as error:
            self._fail(error)
        if written < len(line):
            self._write(line[written:])
        self._crc = crc

    def append_all(self, documents: Sequence[bytes]) -> None:
        """Append JSON objects, a line each, in one `write(2)`. Raises as `append` does."""
        if self._durable:
            self._write_all(documents)
        else:
            self._hold(documents, sum(map(len, documents)))

    def _hold(self, documents: Sequence[bytes], size: int) -> None:
        """Keep objects until there are enough for one `write(2)`: what repeats a run is its seed, not its journal."""
        self._held += documents
        self._held_bytes += size
        if self._held_bytes >= _HELD_MOST or self._descriptor < 0:
            self._write_held()

    def _write_held(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        self._write_all(held)

    def _write_all(self, documents: Iterable[bytes]) -> None:
        crc = self._crc
        lines = []
        for document in documents:
            covered = document[:-1]
            crc = crc32(covered, crc)
            lines.append(b'%b,"crc":%d}\n' % (covered, crc))
        self._write(b"".join(lines))
        self._crc = crc

    def _write(self, data: bytes) -> None:
        try:
            # A full disk shows as a short write; a second write raises its error.
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> NoReturn:
        """Accept no more lines, so that a torn one is the last. A closed file has no descriptor to write to either."""
        if self._failed is None:
            if self._descriptor < 0:
                raise ValueError(f"{self._path} is closed") from error
            self._failed = error
            self._descriptor = -1  # not closed: it may be being synced
        raise _unwritable(self._path, self._failed) from error

    def sync(self) -> None:
        with self._syncing:
            if self._descriptor < 0:
                return
            if not self._durable:
                self._write_held()
                return
            crc = self._crc
            if crc == self._synced:
                return
            try:
                os.fdatasync(self._descriptor)
            except OSError as error:
                self._fail(error)
            self._synced = crc

    def close(self) -> None:
        with self._syncing:
            if self._descriptor < 0:
                return
            self._write_held()
            descriptor, self._descriptor = self._descriptor, -1
            try:
                if self._durable:
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


def _text(text: str) -> str:
    """Return a server's error message, which need not be valid Unicode, as one that is."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


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
