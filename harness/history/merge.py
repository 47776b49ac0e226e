"""Merging journals: from one append-only file a process to one table a run.

A harness that was killed may leave one torn line at the end of a journal; it is left out, counted and logged. What was
torn had not been acknowledged to its writer, so no request had left and no outcome was known. Anything else that is
wrong with a journal is damage: it is named by file, line and reason, and nothing is guessed. A merge either raises, or
keeps every line before and after it, and the table names the places (`damage_of`): what it tells is then unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from schemaquake.harness.errors import DamagedFile, HistoryError
from schemaquake.harness.history.gather import gather
from schemaquake.harness.history.running_checksum import damaged_lines, has_checksums, is_undamaged, whole_at_end
from schemaquake.harness.model.observation import KINDS
from schemaquake.harness.model.operation import JSON, OperationType
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS

__all__ = ["damage_of", "merge_history", "merge_observations", "torn_lines", "with_damage"]

log = logging.getLogger(__name__)

_Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_TORN_LINES: Final = b"torn_lines"
_DAMAGE: Final = b"damage"
_PLACES_MOST: Final = 20
_BLOCK: Final = 4 << 20  # bytes Arrow parses at a time; also its limit for one line


def merge_history(paths: Iterable[Path], started_ns: int, *, keep_going: bool = False) -> pa.Table:
    """Merge every event of `paths` into one `HISTORY`, times counted from `started_ns`.

    Ordered by time; at equal times invocations come before completions (the clock cannot order them, and an
    operation that overlaps another must not look as if it had followed it) unless that would reorder one process'
    own events; then by file, in the order given, and line. `torn_lines` is the number of journals that ended in a torn line.
    Raises DamagedFile for any other damage, or with `keep_going` leaves out the damaged lines.
    """
    journals = [_read(path, _EVENTS, started_ns, keep_going=keep_going) for path in paths]
    events = _concatenated(journals, _EVENTS)
    times = events["time"].to_numpy()
    ranks = np.concatenate([np.zeros(0, np.int64), *(_ranks(journal.table) for journal in journals)])
    order = np.lexsort((ranks, times))  # stable, so then by file and line
    merged = gather(events, order).add_column(0, "index", pa.array(np.arange(len(order))))
    return _finished(merged, started_ns, journals, HISTORY)


def merge_observations(paths: Iterable[Path], started_ns: int, *, keep_going: bool = False) -> pa.Table:
    """Merge every observation of `paths` into one `OBSERVATIONS`, ordered by time and node, then by file and line.

    A last reading that was cut short is left out whole, since absence of a row in a reading means absence of the
    object; it counts as one torn line. The same holds for a reading with a damaged line. Raises DamagedFile as
    `merge_history` does.
    """
    read = (_read(path, _OBSERVATIONS, started_ns, keep_going=keep_going) for path in paths)
    journals = [_without_half_a_reading(journal) for journal in read]
    observations = _concatenated(journals, _OBSERVATIONS).drop_columns("left")
    nodes = pc.rank(observations["node"].cast(pa.string()).combine_chunks(), tiebreaker="dense").to_numpy()
    order = np.lexsort((nodes, observations["time"].to_numpy()))
    return _finished(gather(observations, order), started_ns, journals, OBSERVATIONS)


def torn_lines(table: pa.Table) -> int:
    """Return the number of journals of a merged table whose last line or reading was cut short and left out.

    Kept in the table's metadata, and so in the Parquet file made of it.
    """
    return int((table.schema.metadata or {}).get(_TORN_LINES, b"0"))


def damage_of(table: pa.Table) -> tuple[str, ...]:
    """Return the places of damage that a merge with `keep_going` left out of this table; kept as `torn_lines` is."""
    return tuple(orjson.loads((table.schema.metadata or {}).get(_DAMAGE, b"[]")))


def with_damage(table: pa.Table, places: Sequence[str]) -> pa.Table:
    """Return the table with further places of damage."""
    if not places:
        return table
    found = [*damage_of(table), *places]
    if len(found) > _PLACES_MOST + 1:
        found = [*found[:_PLACES_MOST], f"and {len(found) - _PLACES_MOST} more places"]
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _DAMAGE: orjson.dumps(found)})


# ── the format of a line ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Format:
    """The columns that a journal's line may have, and those that it must."""

    noun: str  # of a line, for errors: "an event"
    schema: pa.Schema  # as JSON has it: plain strings
    dictionaries: tuple[str, ...]
    required: tuple[str, ...]
    closed: tuple[str, frozenset[str]]  # a column, and the only values it may have
    sequence: str | None = None  # within one value of this column, time does not go back


def _format(
    noun: str, table: pa.Schema, *, without: str | None = None, extra: Sequence[pa.Field] = (), **rest: Any
) -> _Format:
    fields = [field for field in table if field.name != without]
    dictionaries = tuple(field.name for field in fields if pa.types.is_dictionary(field.type))
    plain = [pa.field(f.name, pa.string() if f.name in dictionaries else f.type) for f in fields]
    required = tuple(field.name for field in fields if not field.nullable)
    return _Format(noun, pa.schema([*plain, *extra]), dictionaries, required, **rest)


_EVENTS: Final = _format(
    "an event", HISTORY, without="index", closed=("type", frozenset(get_args(OperationType))), sequence="process"
)
_CHECKSUM: Final = pa.field("crc", pa.uint32())
_OBSERVATIONS: Final = _format(
    "an observation", OBSERVATIONS, extra=[pa.field("left", pa.int64())], closed=("kind", frozenset(KINDS))
)


# ── one journal ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Journal:
    path: Path
    table: pa.Table
    torn: bool
    damage: tuple[str, ...] = ()


def _read(path: Path, form: _Format, started_ns: int, *, keep_going: bool) -> _Journal:
    """Read one journal in the order of its lines.

    Arrow parses it. A journal whose checksum is wrong, that Arrow refuses, or that is unsound once parsed, is read again
    line by line, which either locates the damage or finds none (a line was longer than Arrow's block).
    """
    try:
        # Mapped, not read: a journal may be larger than its Arrow table.
        text = pa.memory_map(str(path)).read_buffer() if path.stat().st_size else pa.py_buffer(b"")
    except OSError as error:
        raise HistoryError(f"cannot read {path}: {error.strerror or error}") from error
    end, lines, are_objects = _whole_lines(text)
    whole = text.slice(0, end)
    tail = text.slice(end).to_pybytes()
    checked = is_undamaged(whole)
    damaged = whole_at_end(tail) or (not checked and has_checksums(whole))
    torn = bool(tail) and not damaged
    if torn:
        log.warning("a journal ends in a torn line, which is left out", extra={"file": str(path), "bytes": len(tail)})
    # Arrow (26 and earlier) ends the process at a block of which the first line is null (apache/arrow#47409).
    table = _parsed(whole, form, checked=checked) if are_objects and not damaged else None
    places: list[str] = []
    if table is None or len(table) != lines or not _sound(table, form, started_ns):
        rows, places = _parsed_line_by_line(text if damaged else whole, form, started_ns, checked=checked or damaged)
        if places and not keep_going:
            raise DamagedFile(
                f"{path}, {places[0]}. Only the end of a journal can be torn by a crash, so this file was damaged after "
                "it was written.",
                path,
            )
        table = pa.Table.from_pylist(rows, schema=form.schema)
    for name in form.dictionaries:  # as early as possible: they are half of the table
        table = table.set_column(table.schema.get_field_index(name), name, table[name].dictionary_encode())
    return _Journal(path, table, torn, tuple(f"{path.name}, {place}" for place in places))


def _whole_lines(text: pa.Buffer) -> tuple[int, int, bool]:
    """Return the end of the last whole line of `text`, the number of whole lines, and whether each line begins as an object does."""
    octets = np.frombuffer(text, dtype=np.uint8)
    end, lines, are_objects = 0, 0, not len(octets) or bool(octets[0] == ord("{"))
    for begin in range(0, len(octets), _BLOCK):
        breaks = begin + np.flatnonzero(octets[begin : begin + _BLOCK] == ord("\n"))
        if len(breaks):
            end = int(breaks[-1]) + 1
            lines += len(breaks)
            first = breaks + 1
            are_objects &= bool(np.all(octets[first[first < len(octets)]] == ord("{")))
    return end, lines, are_objects


def _parsed(text: pa.Buffer, form: _Format, *, checked: bool) -> pa.Table | None:
    """Parse the lines with Arrow; None if Arrow refuses them."""
    if not text.size:
        return form.schema.empty_table()
    schema = form.schema.append(_CHECKSUM) if checked else form.schema
    try:
        table = arrow_json.read_json(
            pa.BufferReader(text),
            read_options=arrow_json.ReadOptions(block_size=_BLOCK, use_threads=text.size > _BLOCK),
            parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        )
        table.validate(full=True)  # finds invalid UTF-8
    except pa.ArrowInvalid:
        return None
    return table.select(form.schema.names)


def _sound(table: pa.Table, form: _Format, started_ns: int) -> bool:
    """Return True if every line has its required columns and time does not go back."""
    column, values = form.closed
    if any(table[name].null_count for name in form.required):
        return False
    if not set(pc.unique(table[column]).to_pylist()) <= values:
        return False
    times = table["time"].to_numpy()
    if len(times) and times.min() < started_ns:
        return False
    if form.sequence is None or np.all(np.diff(times) >= 0):
        return True
    owners = table[form.sequence].to_numpy()
    by_owner = np.argsort(owners, kind="stable")
    goes_back = (np.diff(owners[by_owner]) == 0) & (np.diff(times[by_owner]) < 0)
    return not np.any(goes_back)


def _parsed_line_by_line(
    text: pa.Buffer, form: _Format, started_ns: int, *, checked: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """Parse the lines one by one, slowly. Returns the rows of those that a harness can have written, and the places of the others."""
    content = text.to_pybytes()
    if checked:
        found = damaged_lines(content if content.endswith(b"\n") or not whole_at_end(content) else content + b"\n")
    else:
        found = ((number, line, True) for number, line in enumerate(content.split(b"\n")[:-1], start=1))
    stretches: list[list[dict[str, Any]]] = [[]]
    places = []
    latest: dict[Any, int] = {}
    for number, line, is_whole in found:
        row, fault = _row(line, form, checked=checked) if is_whole else ({}, "it is not what was written there")
        if fault is None:
            fault = _fault_in_time(row, form, started_ns, latest)
        if fault is None:
            stretches[-1].append(row)
        else:
            places.append(f"line {number}: {fault}. It begins {line[:60].decode(errors='replace')!r}")
            stretches.append([])
    rows = stretches[0] if len(stretches) == 1 else [row for part in _whole_readings(stretches) for row in part]
    return rows, places


def _whole_readings(stretches: Sequence[list[dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    """Leave out readings of which lines are damaged, at the ends of stretches of whole lines (`ObservationJournal.append`).

    Events stand alone. The end of the last stretch is that of the journal.
    """
    for number, rows in enumerate(stretches):
        ends = [at + 1 for at, row in enumerate(rows) if not row.get("left")]
        begin = 0 if number == 0 or not any("left" in row for row in rows) else ends[0] if ends else len(rows)
        end = len(rows) if number == len(stretches) - 1 else ends[-1] if ends else 0
        yield rows[begin : max(begin, end)]


def _row(line: bytes, form: _Format, *, checked: bool) -> tuple[dict[str, Any], str | None]:
    """Return one line's columns, and the mistake in them."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return {}, f"it is not JSON ({error})"
    if not isinstance(row, dict):
        return {}, f"{form.noun} is a JSON object, and this is not"
    if checked:
        row.pop(_CHECKSUM.name, None)
    return row, next(_faults(row, form), None)


def _faults(row: dict[str, Any], form: _Format) -> Iterator[str]:
    column, values = form.closed
    yield from (f"{form.noun} has no {name!r}" for name in row if name not in form.schema.names)
    yield from (f"{form.noun} must have a {name!r}" for name in form.required if row.get(name) is None)
    for field in form.schema:
        if not _fits(row.get(field.name), field.type):
            yield f"its {field.name!r} should be {field.type}, and is {row[field.name]!r}"
    if row[column] not in values:
        yield f"its {column!r} is {row[column]!r}, not one of {', '.join(sorted(values))}"


def _fits(value: JSON, type_: pa.DataType) -> bool:
    if value is not None and pa.types.is_integer(type_) and type(value) is not int:
        return False  # Arrow would cut 0.5 down to 0
    try:
        pa.array([value], type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return False
    return True


def _fault_in_time(row: dict[str, Any], form: _Format, started_ns: int, latest: dict[Any, int]) -> str | None:
    if row["time"] < started_ns:
        return f"its time {row['time']} lies before the start of the run, {started_ns}"
    if form.sequence is not None:
        owner = row[form.sequence]
        before = latest.get(owner, row["time"])
        if row["time"] < before:
            return f"the time of {form.sequence} {owner} goes back from {before} to {row['time']}"
        latest[owner] = row["time"]
    return None


def _without_half_a_reading(journal: _Journal) -> _Journal:
    """Return the journal without a last reading of which lines are missing (see `ObservationJournal.append`)."""
    if not len(journal.table):
        return journal
    left = pc.fill_null(journal.table["left"], 0).to_numpy()
    complete = np.flatnonzero(left == 0)
    kept = int(complete[-1]) + 1 if len(complete) else 0
    if kept == len(left):
        return journal
    log.warning(
        "the last reading of a journal was cut short and is left out",
        extra={"file": str(journal.path), "observations": len(left) - kept},
    )
    return _Journal(journal.path, journal.table.slice(0, kept), torn=True, damage=journal.damage)


# ── all journals ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _ranks(events: pa.Table) -> _Numbers:
    """Rank an invocation 0 and any other event 1, but no event below an earlier one of its own process and time."""
    ranks: _Numbers = pc.not_equal(events["type"], "invoke").to_numpy(zero_copy_only=False).astype(np.int64)
    times = events["time"].to_numpy()
    if np.all(np.diff(times) > 0):  # what `Journal` writes
        return ranks
    processes = events["process"].to_numpy()
    order = np.lexsort((times, processes))
    new_instant = (np.diff(processes[order], prepend=processes[order[:1]]) != 0) | (
        np.diff(times[order], prepend=times[order[:1]]) != 0
    )
    instants = 2 * np.cumsum(new_instant)  # two apart: ranks stay below the next instant's
    ranks[order] = np.maximum.accumulate(instants + ranks[order]) - instants
    return ranks


def _concatenated(journals: Sequence[_Journal], form: _Format) -> pa.Table:
    fields = [
        field.with_type(pa.dictionary(pa.int32(), pa.string())) if field.name in form.dictionaries else field
        for field in form.schema
    ]
    return pa.concat_tables([pa.schema(fields).empty_table(), *(journal.table for journal in journals)])


def _finished(merged: pa.Table, started_ns: int, journals: Sequence[_Journal], schema: pa.Schema) -> pa.Table:
    times = pa.array(merged["time"].to_numpy() - started_ns)
    merged = merged.set_column(merged.schema.get_field_index("time"), "time", times)
    torn = sum(journal.torn for journal in journals)
    merged = merged.cast(schema.with_metadata({_TORN_LINES: str(torn)}) if torn else schema)
    return with_damage(merged, [place for journal in journals for place in journal.damage])
