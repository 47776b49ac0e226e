"""Reading: a history file of any format as one table, a stretch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.model.protocols import HistoryFormat
from schemaquake.harness.model.records import HISTORY
from schemaquake.harness.registry import load, names
from schemaquake.results.formats.notations import ELLE_JSON, Notation
from schemaquake.results.formats.op_maps import RAW, Malformed, Names, Rows
from schemaquake.results.formats.sequence import sequenced
from schemaquake.results.store.atomic import replacing
from schemaquake.results.store.parquet_options import parquet_options
from schemaquake.results.store.regrouping import stretches
from schemaquake.results.store.store import increases, read_table, write_table

__all__ = ["format_of", "known_formats", "read_history", "spill_history"]

_PARQUET: Final = "parquet"
"""The format of a table that has our columns already; every other one is a `HistoryFormat`, found through entry points."""
_WHO_DID_WHAT_WHEN: Final = frozenset({"line", "index", "time", "process", "type", "f"})
_SPILLED_ROWS: Final = 1 << 17
_SPILLED_BYTES: Final = 1 << 25
_SCANNED_FROM: Final = 1 << 20  # bytes; from there on the scanner has paid for the second it may take to load


def known_formats() -> list[str]:
    """Name the formats that can be read here."""
    return sorted([*names("formats"), _PARQUET])


def format_of(path: Path, asked: str | None) -> str:
    """Name the format asked for, or the one that the file's name tells. Raises PlanError."""
    known = known_formats()
    if asked is not None and asked not in known:
        raise PlanError(f'format "{asked}" cannot be read; known are {", ".join(known)}')
    found = asked or _format_by_suffix(path.suffix)
    if found is None:
        raise PlanError(f"{path}: its name does not tell its format; say --format {', '.join(known)}")
    return found


def _format_by_suffix(suffix: str) -> str | None:
    """Find the format that claims this end of a file's name, first the one that has its name, so that others stay unloaded."""
    if suffix == f".{_PARQUET}":
        return _PARQUET
    for name in sorted(names("formats"), key=lambda name: f".{name}" != suffix):
        file_format: HistoryFormat = load("formats", name)
        if suffix in file_format.suffixes:
            return name
    return None


def read_history(path: Path, *, file_format: str | None = None, independent: bool = False) -> pa.Table:
    """The history of a file (`schemaquake.harness.model.records.HISTORY`), its text never in memory as a whole.

    `independent`: every value is `[key value]`, and the key goes to the column `key`. Raises HistoryError, with line and
    reason, for what no history is, and PlanError for what cannot be read at all.
    """
    chosen = _format_of_file(path, file_format)
    if chosen == _PARQUET:
        if independent:
            raise PlanError("--independent is for files in which a value is [key value]; our Parquet has a column key")
        return read_table(path, HISTORY, order="index")
    numbered = Names()
    batches = list(_batches(path, chosen, independent=independent, numbered=numbered))
    table = pa.Table.from_batches(batches, schema=RAW).replace_schema_metadata(numbered.metadata())
    return sequenced(table, str(path))


def _format_of_file(path: Path, asked: str | None) -> str:
    if not path.is_file():
        raise PlanError(f"{path} does not exist" if not path.exists() else f"{path} is no file")
    return format_of(path, asked)


def spill_history(path: Path, to: Path, *, file_format: str | None = None, independent: bool = False) -> None:
    """The same from EDN or JSON into a Parquet file, for a history that does not fit into memory.

    Only who did what when is in memory, some 100 bytes an event; the rest passes by, twice. A file whose events stand in
    another order than that of their indices, or do not all name a process, is read as a whole.
    """
    chosen = _format_of_file(path, file_format)
    numbered = Names()
    raw = to.with_name(f"{to.name}.raw")
    try:
        nothing = {field.name: pa.nulls(0, field.type) for field in RAW if field.name not in _WHO_DID_WHAT_WHEN}
        narrow: list[pa.RecordBatch] = []
        with pq.ParquetWriter(raw, RAW, compression="lz4") as writer:
            for batch in _batches(path, chosen, independent=independent, numbered=numbered):
                writer.write_batch(batch)
                narrow.append(_narrow(batch, nothing))
        events = pa.Table.from_batches(narrow, schema=RAW)
        if events["process"].null_count or not increases(events["index"]):
            whole = pq.read_table(raw).cast(RAW).replace_schema_metadata(numbered.metadata())
            write_table(to, sequenced(whole, str(path)))
        else:
            _write_sequenced(raw, sequenced(events, str(path)), numbered, to)
    finally:
        raw.unlink(missing_ok=True)


def _narrow(batch: pa.RecordBatch, nothing: dict[str, pa.Array]) -> pa.RecordBatch:
    """A batch of `RAW` without what was asked and answered, of which `nothing` has nulls for all batches."""
    columns = []
    for field in RAW:
        if field.name in nothing:
            if len(nothing[field.name]) < len(batch):
                nothing[field.name] = pa.nulls(len(batch), field.type)
            columns.append(nothing[field.name][: len(batch)])
        else:
            columns.append(batch.column(field.name))
    return pa.RecordBatch.from_arrays(columns, schema=RAW)


def _write_sequenced(raw: Path, sequenced_events: pa.Table, numbered: Names, to: Path) -> None:
    """A history from its events as they stood in the file, a row group at a time, and from who did what when."""
    schema = HISTORY.with_metadata(numbered.metadata() or None)
    begin = 0
    with (
        replacing(to) as draft,
        pq.ParquetFile(raw) as file,
        pq.ParquetWriter(draft, schema, **parquet_options(schema)) as writer,
    ):
        # As they were written, which was a stretch of the file at a time: however much a row holds, these are not large.
        written = (batch for group in range(file.num_row_groups) for batch in file.read_row_group(group).to_batches())
        for part in stretches(written, _SPILLED_BYTES, rows=_SPILLED_ROWS):
            found = part.select(HISTORY.names)
            for name in ("index", "time", "process"):
                known = sequenced_events[name].slice(begin, len(part))
                found = found.set_column(found.schema.get_field_index(name), HISTORY.field(name), known)
            writer.write_table(found.cast(schema), row_group_size=len(part))
            begin += len(part)
    assert begin == len(sequenced_events)


def _batches(path: Path, file_format: str, *, independent: bool, numbered: Names) -> Iterator[pa.RecordBatch]:
    """The file's events (`RAW`) as they stand there."""
    rows = Rows(independent=independent, names=numbered)
    chosen: HistoryFormat = load("formats", file_format)
    with path.open("rb") as file:
        if isinstance(chosen, Notation) and path.stat().st_size >= _SCANNED_FROM:
            from schemaquake.results.formats.fast_reading import batches  # noqa: PLC0415 - half a second to load

            yield from batches(file, str(path), chosen.module, rows, json=chosen is ELLE_JSON)
            return
        for line, op in chosen.events(file, str(path)):
            _add(rows, op, line, path)
            if rows.full:
                yield rows.take()
    yield rows.take()


def _add(rows: Rows, op: Any, line: int, path: Path) -> None:
    try:
        rows.add(op, line)
    except Malformed as error:
        raise HistoryError(f"{path}, line {line}: {error}.") from None
