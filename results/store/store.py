"""Store: a run's folder as an object. Every file of it has its name, its reader and its writer here.

Files are written whole or not at all (`schemaquake.results.store.atomic`), tables as Parquet with zstd that any tool reads. What is
missing, damaged or incomplete raises a HistoryError or PlanError that says whether `schemaquake recover RUN` helps.
"""

from __future__ import annotations

import errno
import json
import logging
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.faults.ledger import FILE_NAME as LEDGER
from schemaquake.harness.history.gather import gather
from schemaquake.harness.history.journal import EVENT_JOURNALS, OBSERVATION_JOURNALS, STARTED, read_clock
from schemaquake.harness.history.merge import merge_history, merge_observations, torn_lines
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.plan import CLUSTER_FILE, Plan
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS, Records
from schemaquake.harness.model.verdict import Verdict
from schemaquake.harness.run_process import still_running
from schemaquake.results.store.atomic import replacing, write_bytes
from schemaquake.results.store.node_logs import read_logs
from schemaquake.results.store.parquet_footer import not_whole
from schemaquake.results.store.parquet_options import parquet_options

__all__ = ["FILES", "Recovered", "Store", "increases", "read_table", "write_table"]

log = logging.getLogger(__name__)

FILES: Final[Mapping[str, str]] = {
    "plan.json": "everything needed to repeat the run",
    CLUSTER_FILE: "of a deployed cluster: how it is reached and what may be done to it, as its owner wrote it",
    "history.parquet": "one row an event: what was asked of which coordinator, and what is known of the outcome",
    "observations.parquet": "what each node itself said of its schema, and what its data directories hold",
    "journals": "the events and observations as they were written ahead, one file a worker",
    LEDGER: "every fault: what was broken, where, and how it was healed",
    "nodes": "each node's logs, configuration and crash output",
    "verdict.json": "what the checkers say of the history",
    "summary.json": "the run in short, for pages of many runs: what it was, its races, what broke, what is not decided",
    "analysis": "tables made from the history: operations, rates, latencies, races, schema timeline",
    "outcome.json": "whether the run was completed, and if not, why",
    "harness.jsonl": "the harness' own log",
    "process.json": "which process carries the run out, while it does",
    "report.html": "the report for a person",
    "report.md": "the same in Markdown",
    "junit.xml": "the same for a build server",
    "reproduce.sh": "the command that repeats the run",
}
"""What each file of a run's folder is for."""

_ROW_GROUP: Final = 1 << 17  # rows
_THREADS_FROM: Final = 1 << 26  # bytes; below, time is not worth the memory that every thread keeps
_LATEST: Final = "latest"
_EVENT_TYPES: Final = frozenset({"invoke", "ok", "fail", "info"})


@dataclass(frozen=True, slots=True)
class Recovered:
    """What `Store.recover` found. `torn` journals ended in a line, or a reading, that was cut short and left out."""

    events: int
    observations: int
    torn: int


@dataclass(frozen=True, slots=True)
class Store:
    """The folder of one run. `Store(folder)` touches nothing; `Store.create` makes a new one."""

    folder: Path

    @classmethod
    def create(cls, runs: Path, workload: str, system: str) -> Store:
        """A new folder `<UTC time>-<workload>-<system>` in `runs`, its own even if another run starts this second.

        `runs/latest` points to it afterwards. Raises PlanError if it cannot be made.
        """
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        name = "-".join(
            [moment, *(re.sub(r"[^A-Za-z0-9._]+", "-", part)[:60].strip("-") for part in (workload, system))]
        )
        try:
            runs.mkdir(parents=True, exist_ok=True)
            store = cls(_new_folder(runs, name))
            _point(runs / _LATEST, store.folder)
        except OSError as error:
            raise PlanError(f"cannot make a folder for the run in {runs}: {error.strerror or error}") from error
        return store

    def discard(self) -> None:
        """Remove the folder and all that is in it: of a run that could not be started. `latest` goes back to the one before."""
        shutil.rmtree(self.folder)
        latest = self.folder.with_name(_LATEST)
        if latest.is_symlink() and latest.readlink().name == self.folder.name:
            others = sorted(
                path for path in self.folder.parent.iterdir() if (path / "plan.json").exists() and path != latest
            )
            if others:
                _point(latest, others[-1])
            else:
                latest.unlink()

    def path(self, name: str) -> Path:
        """Where a file of `FILES` is, or a file below one of its folders."""
        return self.folder / name

    # ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def read_plan(self) -> Plan:
        """The plan. Raises HistoryError if the folder has none, PlanError if this version cannot run it."""
        return Plan.read(self.folder)

    def write_plan(self, plan: Plan) -> None:
        """Write plan.json."""
        write_bytes(self.path("plan.json"), orjson.dumps(plan.to_json(), option=orjson.OPT_INDENT_2) + b"\n")

    def started(self) -> datetime:
        """When the run began, by the harness' wall clock. Raises HistoryError if its journals do not say."""
        path = self.path("journals") / STARTED
        try:
            return datetime.fromisoformat(orjson.loads(path.read_bytes())["started_utc"])
        except FileNotFoundError as error:
            raise HistoryError(f"{path} is missing: when the run began is not known.") from error
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise HistoryError(f"{path} is damaged ({error}): when the run began is not known.") from error

    # ── what the run left behind ─────────────────────────────────────────────────────────────────────────────────────

    def read_history(self) -> pa.Table:
        """The history, by index. Raises HistoryError."""
        return self._read("history.parquet", HISTORY, "index")

    def event_count(self) -> int:
        """How many events the history has, without reading them. Raises HistoryError."""
        try:
            return int(pq.read_metadata(self.path("history.parquet")).num_rows)
        except (pa.ArrowInvalid, OSError):
            return len(self.read_history())  # which says what is wrong

    def write_history(self, history: pa.Table) -> None:
        """Write history.parquet; raises ValueError for anything but a `HISTORY`."""
        write_table(self.path("history.parquet"), history.cast(HISTORY.with_metadata(history.schema.metadata)))

    def read_observations(self) -> pa.Table:
        """The observations, by time and node. Raises HistoryError."""
        return self._read("observations.parquet", OBSERVATIONS, None)

    def write_observations(self, observations: pa.Table) -> None:
        """Write observations.parquet; raises ValueError for anything but `OBSERVATIONS`."""
        table = observations.cast(OBSERVATIONS.with_metadata(observations.schema.metadata))
        write_table(self.path("observations.parquet"), table)

    def read_logs(self, *, noted: Sequence[str | re.Pattern[str]] = ()) -> pa.Table:
        """The warnings and errors of the nodes' logs (`schemaquake.results.store.node_logs.read_logs`)."""
        return read_logs(self.path("nodes"), noted=noted)

    def records(self, *, noted: Sequence[str | re.Pattern[str]] = ()) -> Records:
        """The three tables a checker judges. Raises HistoryError."""
        return Records(self.read_history(), self.read_observations(), self.read_logs(noted=noted))

    def recover(self) -> Recovered:
        """Merge the journals into history.parquet and observations.parquet; as often as one likes.

        A folder that has both tables and no journals is left as it is. Raises PlanError while the run is going on, and
        HistoryError if there is nothing to merge or a journal is damaged elsewhere than at its end.
        """
        pid = still_running(self.folder)
        if pid is not None:
            raise PlanError(f"{self.folder} is still being written (process {pid}). Recover it when the run has ended.")
        journals = self.path("journals")
        if not (journals / STARTED).exists() and self.path("history.parquet").exists():
            history, observations = self.read_history(), self.read_observations()
        else:
            if not journals.is_dir():
                raise HistoryError(f"{self.folder} has neither a history nor journals: its run ended before it began.")
            started_ns = read_clock(journals)
            history = merge_history(sorted(journals.glob(EVENT_JOURNALS)), started_ns)
            observations = merge_observations(sorted(journals.glob(OBSERVATION_JOURNALS)), started_ns)
            self.write_observations(observations)
            self.write_history(history)
        return Recovered(len(history), len(observations), torn_lines(history) + torn_lines(observations))

    # ── what was made of it ──────────────────────────────────────────────────────────────────────────────────────────

    def read_verdict(self) -> Verdict:
        """The verdict. Raises HistoryError if the run has not been judged, or the file is damaged."""
        path = self.path("verdict.json")
        try:
            return Verdict.from_json(orjson.loads(path.read_bytes()))
        except FileNotFoundError as error:
            raise HistoryError(
                f'{self.folder} has no verdict yet: "schemaquake check {self.folder}" judges it.'
            ) from error
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise HistoryError(
                f'{path} is damaged ({error}). "schemaquake check {self.folder}" writes it anew.'
            ) from error

    def write_verdict(self, verdict: Verdict) -> None:
        """Write verdict.json, the same bytes for the same verdict."""
        text = json.dumps(verdict.to_json(), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
        write_bytes(self.path("verdict.json"), text.encode() + b"\n")

    def read_analysis(self, name: str) -> pa.Table:
        """The table `analysis/<name>.parquet`. Raises HistoryError if it has not been made."""
        path = self.path("analysis") / f"{name}.parquet"
        try:
            return pq.read_table(path)
        except FileNotFoundError as error:
            raise HistoryError(f'{path} is missing: "schemaquake check {self.folder}" makes it.') from error
        except (pa.ArrowInvalid, OSError) as error:
            raise HistoryError(
                f'{path} is damaged ({error}). "schemaquake check {self.folder}" makes it anew.'
            ) from error

    def write_analysis(self, name: str, table: pa.Table) -> None:
        """Write `analysis/<name>.parquet`."""
        self.path("analysis").mkdir(exist_ok=True)
        write_table(self.path("analysis") / f"{name}.parquet", table)

    def write_text(self, name: str, text: str) -> None:
        """Write one of the text files of `FILES` (a report, a script)."""
        write_bytes(self.path(name), text.encode())

    def _read(self, name: str, schema: pa.Schema, order: str | None) -> pa.Table:
        path = self.path(name)
        try:
            return read_table(path, schema, order=order)
        except FileNotFoundError as error:
            raise HistoryError(f"{self.folder} has no {name}. {self._advice()}") from error
        except HistoryError as error:
            raise HistoryError(f"{error} {self._advice()}") from error

    def _advice(self) -> str:
        """Whether recovery helps."""
        if still_running(self.folder) is not None:
            return "The run is still going on."
        if (self.path("journals") / STARTED).exists():
            return f'Its journals are there: "schemaquake recover {self.folder}" makes it anew.'
        if not self.path("plan.json").exists():
            return "Is it a run's folder? It has no plan.json either."
        return "There are no journals to recover it from."


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def write_table(path: Path, table: pa.Table) -> None:
    """One Parquet file, whole or not at all."""
    with replacing(path) as draft:
        pq.write_table(table, draft, row_group_size=_ROW_GROUP, **parquet_options(table.schema))


def read_table(
    path: Path,
    schema: pa.Schema,
    *,
    order: str | None = None,
    keep: Callable[[pa.Table], pa.Table] | None = None,
    groups: Sequence[int] | None = None,
) -> pa.Table:
    """A Parquet file as a table of `schema`, sorted by the column `order`, in which no value may come twice.

    Row groups (all, or those of `groups`) are read one after another, and with `keep` only what it returns is kept in
    memory. The file may be the work of another tool: columns in any order, texts large or small, null columns left out.
    Raises FileNotFoundError, and HistoryError for a file that cannot hold such a table.
    """
    try:
        # Without `pre_buffer`, which would hold the whole file in memory beside what is made of it.
        with pq.ParquetFile(path, pre_buffer=False) as file:
            metadata = _own_metadata(file.schema_arrow)
            names = [name for name in schema.names if name in file.schema_arrow.names]
            conformed = _Conformed(path, schema)
            empty = conformed(file.schema_arrow.empty_table().select(names))
            chosen = range(file.num_row_groups) if groups is None else groups
            threads = _size(file, chosen) >= _THREADS_FROM
            kept: list[pa.Table] = []
            for numbers in _stretches(file, chosen):
                part = conformed(file.read_row_groups(numbers, names, use_threads=threads))
                kept.append(part if keep is None else keep(part))
                pa.default_memory_pool().release_unused()  # what was needed to decompress
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise not_whole(path, error) from error
    table = pa.concat_tables(kept or [empty]).replace_schema_metadata(metadata)
    return table if order is None else _ordered(path, table, order)


def _size(file: pq.ParquetFile, groups: Sequence[int]) -> int:
    """Bytes of some row groups, uncompressed but encoded."""
    return sum(file.metadata.row_group(number).total_byte_size for number in groups)


def _stretches(file: pq.ParquetFile, groups: Sequence[int]) -> Iterator[list[int]]:
    """Row groups in order, small ones together: a table of thousands of chunks would be slow."""
    numbers: list[int] = []
    rows = 0
    for number in groups:
        numbers.append(number)
        rows += file.metadata.row_group(number).num_rows
        if rows >= _ROW_GROUP or number == groups[-1]:
            yield numbers
            numbers, rows = [], 0


class _Conformed:
    """Tables of one file as tables of `schema`. Columns of nothing but nulls share their memory."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._nulls: dict[str, pa.Array] = {}

    def __call__(self, found: pa.Table) -> pa.Table:
        return pa.Table.from_arrays([self._column(found, field) for field in self._schema], schema=self._schema)

    def _column(self, found: pa.Table, field: pa.Field) -> pa.ChunkedArray:
        column = _column(self._path, found, field)
        if column.null_count < len(column) or not len(column):
            return column
        nulls = self._nulls.get(field.name)
        if nulls is None or len(nulls) < len(column):
            nulls = self._nulls[field.name] = pa.nulls(len(column), field.type)
        return pa.chunked_array([nulls[: len(column)]], type=field.type)


def _column(path: Path, found: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    if field.name not in found.schema.names:
        if not field.nullable:
            raise HistoryError(f"{path} has no column {field.name!r}, which it cannot do without.")
        return pa.chunked_array([pa.nulls(len(found), field.type)])
    column = found[field.name]
    if column.null_count and not field.nullable:
        raise HistoryError(f"{path} has nulls in column {field.name!r}, which can have none.")
    try:
        if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(column.type):
            column = column.cast(field.type.value_type).dictionary_encode()
        column = column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise HistoryError(
            f"{path} has a column {field.name!r} of {column.type}, not {field.type} ({error})."
        ) from error
    _refuse_foreign(path, column, field)
    return column


def _refuse_foreign(path: Path, column: pa.ChunkedArray, field: pa.Field) -> None:
    """Raise HistoryError for events that nobody can have written, and ArrowInvalid for a text that is none."""
    if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type):
        column.validate(full=True)  # is it UTF-8, and in the dictionary?
    if field == HISTORY.field("type"):
        names = {name for chunk in column.chunks for name in chunk.dictionary.to_pylist()}
        if names - _EVENT_TYPES:
            used = set(pc.unique(column.cast(pa.string())).to_pylist()) - _EVENT_TYPES
            if used:
                raise HistoryError(
                    f"{path} has an event of type {min(used)!r}; known are {', '.join(sorted(_EVENT_TYPES))}."
                )
    elif field == HISTORY.field("process") and len(column) and pc.min(column).as_py() < NEMESIS:
        raise HistoryError(
            f"{path} has a process {pc.min(column).as_py()}; clients count from 0, and the nemesis is −1."
        )


def _own_metadata(schema: pa.Schema) -> dict[bytes, bytes] | None:
    """What the merge or a reader of other formats noted; not what pandas and others add for themselves."""
    kept = {key: value for key, value in (schema.metadata or {}).items() if key in {b"torn_lines", b"names"}}
    return kept or None


def _ordered(path: Path, table: pa.Table, by: str) -> pa.Table:
    if increases(table[by]):
        return table
    values = table[by].to_numpy()
    order = np.argsort(values, kind="stable")
    twice = np.flatnonzero(np.diff(values[order]) == 0)
    if len(twice):
        raise HistoryError(f"{path} has {by} {values[order][twice[0]]} more than once.")
    return gather(table, order)


def increases(column: pa.ChunkedArray) -> bool:
    """Whether each number is greater than the one before it; null is not."""
    if column.null_count:
        return False
    last: int | None = None
    for chunk in column.chunks:
        values = chunk.to_numpy()
        if not np.all(values[1:] > values[:-1]) or (last is not None and len(values) and values[0] <= last):
            return False
        last = values[-1] if len(values) else last
    return True


# ── folders ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _new_folder(runs: Path, name: str) -> Path:
    """A folder that was not there; two runs of one second get different ones."""
    number = 1
    while True:
        folder = runs / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder


def _point(link: Path, folder: Path) -> None:
    """Make `link` a link to `folder`, in one step."""
    if link.exists() and not link.is_symlink():
        log.warning("not a link, left as it is", extra={"file": str(link)})
        return
    draft = link.with_name(f".{link.name}.{secrets.token_hex(6)}")
    try:
        draft.symlink_to(folder.name, target_is_directory=True)
        draft.replace(link)
    except OSError as error:
        # A link is a convenience, and some file systems know none.
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}:
            raise
        log.warning("this file system has no links", extra={"file": str(link)})
