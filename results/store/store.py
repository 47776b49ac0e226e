"""Store: a run's folder as an object. Every file of it has its name, its reader and its writer here.

Files are written whole or not at all (`schemaquake.harness.atomic`), tables as Parquet with zstd that any tool reads. A missing,
damaged or incomplete file raises a HistoryError or PlanError that says if `schemaquake recover RUN` helps.
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
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemaquake.harness.atomic import replacing, write_bytes
from schemaquake.harness.errors import DamagedFile, HistoryError, PlanError
from schemaquake.harness.faults.ledger import FILE_NAME as LEDGER
from schemaquake.harness.history.gather import gather
from schemaquake.harness.history.journal import EVENT_JOURNALS, OBSERVATION_JOURNALS, STARTED, read_clock, read_started
from schemaquake.harness.history.lean_mops import narrow, widen
from schemaquake.harness.history.merge import damage_of, merge_history, merge_observations, torn_lines, with_damage
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.plan import CLUSTER_FILE, Plan
from schemaquake.harness.model.records import HISTORY, LEAN_MOPS, OBSERVATIONS, Records
from schemaquake.harness.model.verdict import Verdict
from schemaquake.harness.named_folders import why_no_folder, why_not_made
from schemaquake.harness.run_folder import MARK, refuse_links
from schemaquake.harness.run_process import still_running
from schemaquake.harness.sealed_json import dump_sealed, load_sealed_object, seal_text
from schemaquake.results.store.examination import examine, read_lent, take_examined
from schemaquake.results.store.groups import read_stretches
from schemaquake.results.store.judged_by import judged_by
from schemaquake.results.store.node_logs import read_logs
from schemaquake.results.store.parquet_footer import not_whole
from schemaquake.results.store.parquet_options import parquet_options
from schemaquake.results.store.seal import refuse_damage, seal

__all__ = ["FILES", "Recovered", "Store", "increases", "read_table", "write_table"]

log = logging.getLogger(__name__)

FILES: Final[Mapping[str, str]] = {
    "plan.json": "everything needed to repeat the run",
    CLUSTER_FILE: "the owner's description of a deployed cluster: the access to it, and the faults it allows",
    "history.parquet": "one row an event: each operation with its coordinator, and its outcome as far as it is known",
    "observations.parquet": "each node's own account of its schema, and the content of its data directories",
    "journals": "the events and observations as they were written ahead, one file a worker",
    LEDGER: "every fault: what was broken, where, and how it was healed",
    "nodes": "each node's logs, configuration and crash output",
    "verdict.json": "the checkers' verdict on the history",
    "summary.json": "the run in short, for pages of many runs: its plan, its races, its anomalies and its open questions",
    "analysis": "tables made from the history: operations, rates, latencies, races, schema timeline",
    "outcome.json": "whether the run was completed, and if not, why",
    "harness.jsonl": "the harness' own log",
    MARK: "the mark of a folder that a run made; `schemaquake heal` ends and deletes nothing without it",
    "provisional.json": "conflicts that were visible while the run went on, before anything was judged",
    "process.json": "the process that carries out the run, while it runs",
    "report.html": "the report",
    "report.md": "the same in Markdown",
    "junit.xml": "the same for a build server",
    "reproduce.sh": "the command that repeats the run",
}
"""The content of each file of a run's folder."""

_ROW_GROUP: Final = 1 << 17  # rows
_LATEST: Final = "latest"
_EVENT_TYPES: Final = frozenset({"invoke", "ok", "fail", "info"})


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of `Store.recover`.

    `torn` counts journals whose last line, or reading, was cut short and left out; `damage` names the places elsewhere.
    """

    events: int
    observations: int
    torn: int
    damage: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Store:
    """The folder of one run. `Store(folder)` touches nothing; `Store.create` makes a new one."""

    folder: Path

    @classmethod
    def create(cls, runs: Path, workload: str, system: str) -> Store:
        """Make a new folder `<UTC time>-<workload>-<system>` in `runs`, unique even if another run starts in the same second.

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
            raise PlanError(f"cannot make a folder for the run in {runs}: {why_not_made(runs, error)}") from error
        return store

    def discard(self) -> None:
        """Remove the folder of a run that could not be started, with its content. `latest` points to the run before again."""
        shutil.rmtree(self.folder)
        latest = self.folder.with_name(_LATEST)
        if latest.is_symlink() and latest.readlink().name == self.folder.name:
            remaining = sorted(
                path for path in self.folder.parent.iterdir() if (path / "plan.json").exists() and path != latest
            )
            if remaining:
                _point(latest, remaining[-1])
            else:
                latest.unlink()

    def path(self, name: str) -> Path:
        """Return the path of a file of `FILES`, or of a file below one of its folders."""
        return self.folder / name

    # ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def read_plan(self, *, keep_going: bool = False) -> Plan:
        """Read the plan. Raises HistoryError if the folder has none, PlanError if this version cannot run it.

        A plan that is not what was written raises DamagedFile; with `keep_going` what it says is returned.
        """
        return Plan.read(self.folder, keep_going=keep_going)

    def write_plan(self, plan: Plan) -> None:
        """Write plan.json."""
        write_bytes(self.path("plan.json"), dump_sealed(plan.to_json()))

    def started(self) -> datetime | None:
        """Return when the run began, by the harness' wall clock; None for virtual time. Raises HistoryError if its journals do not say."""
        return read_started(self.path("journals"))

    # ── what the run left behind ─────────────────────────────────────────────────────────────────────────────────────

    def read_history(self) -> pa.Table:
        """Read the history, by index. Raises HistoryError."""
        return self._read("history.parquet", HISTORY, "index")

    def event_count(self) -> int:
        """Count the events of the history without reading them. Raises HistoryError."""
        try:
            return int(pq.read_metadata(self.path("history.parquet")).num_rows)
        except (pa.ArrowInvalid, OSError):
            return len(self.read_history())  # it names the problem

    def write_history(self, history: pa.Table) -> None:
        """Write history.parquet. Raises ValueError for a table that is not a `HISTORY`."""
        write_table(self.path("history.parquet"), history.cast(HISTORY.with_metadata(history.schema.metadata)))

    def read_observations(self) -> pa.Table:
        """Read the observations, by time and node. Raises HistoryError."""
        return self._read("observations.parquet", OBSERVATIONS, None)

    def write_observations(self, observations: pa.Table) -> None:
        """Write observations.parquet. Raises ValueError for a table that is not `OBSERVATIONS`."""
        table = observations.cast(OBSERVATIONS.with_metadata(observations.schema.metadata))
        write_table(self.path("observations.parquet"), table)

    def read_logs(self, *, noted: Sequence[str | re.Pattern[str]] = (), firsts: bool = False) -> pa.Table:
        """Read the warnings and errors of the nodes' logs (`schemaquake.results.store.node_logs.read_logs`)."""
        return read_logs(self.path("nodes"), noted=noted, firsts=firsts)

    def records(self, *, noted: Sequence[str | re.Pattern[str]] = ()) -> Records:
        """Read the three tables that a checker judges. Raises HistoryError."""
        return Records(self.read_history(), self.read_observations(), self.read_logs(noted=noted, firsts=True))

    def merge(self, *, noted: Sequence[str | re.Pattern[str]] = ()) -> Records:
        """Merge the journals of a run that has ended into the three tables that a checker judges, and write nothing.

        Raises HistoryError if there is nothing to merge.
        """
        journals = self.path("journals")
        if not journals.is_dir():
            raise HistoryError(f"{self.folder} has no journals: its run ended before it began.")
        return Records(*self._merged(journals), self.read_logs(noted=noted, firsts=True))

    def damage(self) -> tuple[str, ...]:
        """Return the damaged places of the records: of the plan, the two tables, and the journals they were merged from.

        Raises HistoryError if there are no tables.
        """
        try:
            Plan.read(self.folder)
        except DamagedFile as error:
            return (f"{error}", *self._damage_of_tables())
        except (HistoryError, PlanError):
            pass  # a folder without a plan, or with another version's: who needs it says so
        return self._damage_of_tables()

    def _damage_of_tables(self) -> tuple[str, ...]:
        places: list[str] = []
        for name, schema, order in (
            ("history.parquet", HISTORY, "index"),
            ("observations.parquet", OBSERVATIONS, None),
        ):
            try:
                if not refuse_damage(self.path(name)):
                    examine(self.path(name))
                    self._read(name, schema, order)  # nothing less shows damage without a seal
                places += damage_of(pq.read_schema(self.path(name)).empty_table())
            except FileNotFoundError:
                self._read(name, schema, order)  # it says how it can be had
            except HistoryError as error:
                places.append(f"{error}")
        return tuple(places)

    def recover(self) -> Recovered:
        """Merge the journals into history.parquet and observations.parquet. May be repeated.

        A folder that has both tables and no journals (an unpacked bundle has its clock alone) stays as it is. Everything before and after a damage is kept; tables
        that were merged before a journal was damaged are kept whole. Raises PlanError while the run is going on, and
        HistoryError if there is nothing to merge.
        """
        pid = still_running(self.folder)
        if pid is not None:
            raise PlanError(f"{self.folder} is still being written (process {pid}). Recover it when the run has ended.")
        refuse_links(self.folder.resolve() if self.folder.name == _LATEST else self.folder)
        journals = self.path("journals")
        is_journaled = (journals / STARTED).exists() and any(journals.glob(EVENT_JOURNALS))
        if not is_journaled and self.path("history.parquet").exists():
            if places := self._damage_of_tables():
                return Recovered(0, 0, 0, places)
            return self._recovered(self.read_history(), self.read_observations())
        if not journals.is_dir():
            raise HistoryError(f"{self.folder} has neither a history nor journals: its run ended before it began.")
        history, observations = self._merged(journals)
        places = damage_of(history) + damage_of(observations)
        if places and self._has_whole_tables():
            log.warning("journals are damaged; the tables made of them before are whole", extra={"places": places})
            return self._recovered(self.read_history(), self.read_observations())
        self.write_observations(observations)
        self.write_history(history)
        return self._recovered(history, observations)

    def _merged(self, journals: Path) -> tuple[pa.Table, pa.Table]:
        """Merge what can be read of the journals. Without a readable clock the first event is the start."""
        places: list[str] = []
        try:
            started_ns = read_clock(journals)
        except DamagedFile as error:
            started_ns, places = 0, [str(error)]
        history = merge_history(sorted(journals.glob(EVENT_JOURNALS)), started_ns, keep_going=True)
        observations = merge_observations(sorted(journals.glob(OBSERVATION_JOURNALS)), started_ns, keep_going=True)
        if places and len(history):
            first = pc.min(history["time"])
            history, observations = (
                table.set_column(
                    table.schema.get_field_index("time"), table.schema.field("time"), pc.subtract(table["time"], first)
                )
                for table in (history, observations)
            )
        return with_damage(history, places), observations

    def _has_whole_tables(self) -> bool:
        """Return whether both tables are sealed, and were made of journals without damage."""
        try:
            sealed = [refuse_damage(self.path(name)) for name in ("history.parquet", "observations.parquet")]
            return all(sealed) and not self._damage_of_tables()
        except (FileNotFoundError, HistoryError):
            return False

    def _recovered(self, history: pa.Table, observations: pa.Table) -> Recovered:
        torn = torn_lines(history) + torn_lines(observations)
        return Recovered(len(history), len(observations), torn, damage_of(history) + damage_of(observations))

    # ── what was made of it ──────────────────────────────────────────────────────────────────────────────────────────

    def read_verdict(self) -> Verdict:
        """Read the verdict. Raises HistoryError if the run has not been judged, DamagedFile if it is not what was written."""
        path = self.path("verdict.json")
        why = why_no_folder(self.folder)
        if why is not None:
            raise HistoryError(f"{self.folder} is not a run's folder: {why}")
        try:
            return Verdict.from_json(load_sealed_object(path.read_bytes()))
        except FileNotFoundError as error:
            if not self.path("plan.json").exists():
                raise HistoryError(f"{self.folder} is not a run's folder: it has no plan.json") from error
            raise HistoryError(
                f'{self.folder} has no verdict yet: "schemaquake check {self.folder}" judges it.'
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DamagedFile(
                f'{path} is damaged ({error}). "schemaquake check {self.folder}" writes it anew.', path
            ) from error

    def write_verdict(self, verdict: Verdict, findings: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Write verdict.json, with the findings first; None: they are not known yet. Equal verdicts of one judge give equal bytes."""
        sorted_text = json.dumps(verdict.to_json(), sort_keys=True, ensure_ascii=False, allow_nan=False)
        document = ({} if findings is None else {"findings": list(findings)}) | json.loads(sorted_text)
        document["judged_by"] = judged_by()
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
        write_bytes(self.path("verdict.json"), seal_text(text.encode()))

    def read_analysis(self, name: str) -> pa.Table:
        """Read the table `analysis/<name>.parquet`. Raises HistoryError if it does not exist."""
        path = self.path("analysis") / f"{name}.parquet"
        try:
            refuse_damage(path)
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
        except DamagedFile as error:
            raise DamagedFile(f"{error} {self._advice()}", path) from error
        except HistoryError as error:
            raise HistoryError(f"{error} {self._advice()}") from error

    def _advice(self) -> str:
        """Describe how the missing file can be had, if at all."""
        if still_running(self.folder) is not None:
            return "The run is still going on."
        if (self.path("journals") / STARTED).exists():
            return f'Its journals are there: "schemaquake recover {self.folder}" makes it anew.'
        if not self.path("plan.json").exists():
            return "Is it a run's folder? It has no plan.json either."
        return "There are no journals to recover it from."


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def write_table(path: Path, table: pa.Table) -> None:
    """Write one Parquet file, whole or not at all, and sealed."""
    with replacing(path) as draft:
        options = parquet_options(table.schema)
        pq.write_table(table, draft, row_group_size=_ROW_GROUP, write_page_checksum=True, **options)
        seal(draft)


def read_table(
    path: Path,
    schema: pa.Schema,
    *,
    order: str | None = None,
    keep: Callable[[pa.Table], pa.Table] | None = None,
    groups: Sequence[int] | None = None,
    lean: bool = False,
    lent: Path | None = None,
) -> pa.Table:
    """Read a Parquet file as a table of `schema`, sorted by the column `order`, whose values must be unique.

    Row groups (all, or those of `groups`) are read one after another, and `keep` selects the rows that stay in memory. The
    file may come from another tool: columns in any order, texts large or small, null columns left out. With `lean` the column
    `mops` may be of the type `LEAN_MOPS`. `lent` is the place where another process lends what it decoded of this file.
    Raises FileNotFoundError, DamagedFile, and HistoryError for a file without such a table.
    """
    refuse_damage(path)
    examined = None
    if groups is None and keep is None:
        examined = take_examined(path) if lent is None else read_lent(lent)
    if examined is not None:
        table = _conform_examined(path, examined, schema, lean=lean)
    else:
        table = _read_groups(path, schema, keep=keep, groups=groups, lean=lean)
    return table if order is None else _ordered(path, table, order)


def _conform_examined(path: Path, examined: pa.Table, schema: pa.Schema, *, lean: bool) -> pa.Table:
    """Return a file that was read to examine it, as `read_table` does."""
    names = [name for name in schema.names if name in examined.column_names]
    examined = examined.select(names)
    if "mops" in names and examined["mops"].type == LEAN_MOPS:
        if lean:
            schema = schema.set(schema.get_field_index("mops"), schema.field("mops").with_type(LEAN_MOPS))
        else:
            examined = _with_mops(examined, widen(examined["mops"]))
    return _Conformed(path, schema)(examined).replace_schema_metadata(_own_metadata(examined.schema))


def _read_groups(
    path: Path,
    schema: pa.Schema,
    *,
    keep: Callable[[pa.Table], pa.Table] | None,
    groups: Sequence[int] | None,
    lean: bool,
) -> pa.Table:
    """Read the row groups of a file as `read_table` does, in their order."""
    try:
        # Without `pre_buffer`, which would hold the whole file in memory beside the table.
        options: dict[str, Any] = {"pre_buffer": False, "page_checksum_verification": True}
        with pq.ParquetFile(path, **options) as file:
            metadata = _own_metadata(file.schema_arrow)
            names = [name for name in schema.names if name in file.schema_arrow.names]
            conformed = _Conformed(path, schema)
            empty = conformed(file.schema_arrow.empty_table().select(names))
            chosen = range(file.num_row_groups) if groups is None else groups
            kept: list[pa.Table] = []
            shortens = lean and groups is None and keep is None and "mops" in names
            for found in read_stretches(path, file, list(_stretches(file, chosen)), names, **options):
                part = conformed(found)
                if shortens:
                    mops = narrow(part["mops"])
                    shortens = mops is not None
                    part = _with_mops(part, mops) if shortens else part
                    kept = kept if shortens else _widened(kept)
                kept.append(part if keep is None else keep(part))
                pa.default_memory_pool().release_unused()  # the memory that decompression took
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise not_whole(path, error) from error
    return pa.concat_tables(kept or [empty]).replace_schema_metadata(metadata)


def _with_mops(table: pa.Table, mops: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index("mops"), "mops", mops)


def _widened(tables: list[pa.Table]) -> list[pa.Table]:
    """Return tables with `LEAN_MOPS` as such with `MOPS`. They are taken out of the list one at a time, for memory."""
    wide = []
    while tables:
        table = tables.pop(0)
        wide.append(_with_mops(table, widen(table["mops"])))
    return wide


def _stretches(file: pq.ParquetFile, groups: Sequence[int]) -> Iterator[list[int]]:
    """Yield row groups in order, small ones together: a table of thousands of chunks would be slow."""
    numbers: list[int] = []
    rows = 0
    for number in groups:
        numbers.append(number)
        rows += file.metadata.row_group(number).num_rows
        if rows >= _ROW_GROUP or number == groups[-1]:
            yield numbers
            numbers, rows = [], 0


class _Conformed:
    """A function that converts tables of one file to tables of `schema`. Columns of nulls alone share their memory."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._nulls: dict[str, pa.Array] = {}

    def __call__(self, found: pa.Table) -> pa.Table:
        return pa.Table.from_arrays([self._column(found, field) for field in self._schema], schema=self._schema)

    def _column(self, found: pa.Table, field: pa.Field) -> pa.ChunkedArray:
        if field.name not in found.schema.names and field.nullable:
            return self._null_column(len(found), field)
        column = _column(self._path, found, field)
        return column if column.null_count < len(column) or not len(column) else self._null_column(len(column), field)

    def _null_column(self, rows: int, field: pa.Field) -> pa.ChunkedArray:
        nulls = self._nulls.get(field.name)
        if nulls is None or len(nulls) < min(rows, _ROW_GROUP):
            nulls = self._nulls[field.name] = pa.nulls(min(rows, _ROW_GROUP), field.type)
        chunks = [nulls[: min(_ROW_GROUP, rows - begin)] for begin in range(0, rows, _ROW_GROUP)]
        return pa.chunked_array(chunks, type=field.type)


def _column(path: Path, found: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    if field.name not in found.schema.names:
        raise HistoryError(f"{path} lacks the required column {field.name!r}.")
    column = found[field.name]
    if column.null_count and not field.nullable:
        raise HistoryError(f"{path} has nulls in column {field.name!r}, which allows none.")
    try:
        if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(column.type):
            column = column.cast(field.type.value_type).dictionary_encode()
        if column.type != field.type:  # even a cast to itself copies a dictionary's places
            column = column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise HistoryError(
            f"{path} has a column {field.name!r} of {column.type}, not {field.type} ({error})."
        ) from error
    _refuse_foreign(path, column, field)
    return column


def _refuse_foreign(path: Path, column: pa.ChunkedArray, field: pa.Field) -> None:
    """Raise HistoryError for events of an unknown type or process, and ArrowInvalid for a malformed text."""
    if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type):
        column.validate(full=True)  # UTF-8, and indexes within the dictionary
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
    """Return the metadata of the merge or of a reader of other formats, without that which pandas and others add."""
    kept = {key: value for key, value in (schema.metadata or {}).items() if key in {b"torn_lines", b"names", b"damage"}}
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
    """Return True if each number is greater than the one before it; a null is not."""
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
    """Make a folder that did not exist; two runs of one second get different ones."""
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
    """Point `link` to `folder`, in one step."""
    if link.exists() and not link.is_symlink():
        log.warning("not a link, left as it is", extra={"file": str(link)})
        return
    draft = link.with_name(f".{link.name}.{secrets.token_hex(6)}")
    try:
        draft.symlink_to(folder.name, target_is_directory=True)
        draft.replace(link)
    except OSError as error:
        # A link is a convenience, and some file systems have none.
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}:
            raise
        log.warning("this file system has no links", extra={"file": str(link)})
