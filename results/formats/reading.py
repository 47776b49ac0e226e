"""Reading: a history file of any format as one table, a stretch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.model.records import HISTORY
from schemaquake.results.formats import edn, elle_json
from schemaquake.results.formats.op_maps import RAW, Malformed, Names, Rows
from schemaquake.results.formats.sequence import sequenced
from schemaquake.results.store.atomic import replacing
from schemaquake.results.store.parquet_options import parquet_options
from schemaquake.results.store.regrouping import stretches
from schemaquake.results.store.store import increases, read_table, write_table

__all__ = ["FORMATS", "format_of", "read_history", "spill_history"]

FORMATS: Final = ("edn", "json", "parquet")
_BY_SUFFIX: Final = {".edn": "edn", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}
_NOTATIONS: Final = {"edn": edn, "json": elle_json}
_WHO_DID_WHAT_WHEN: Final = frozenset({"line", "index", "time", "process", "type", "f"})
_SPILLED_ROWS: Final = 1 << 17
_SPILLED_BYTES: Final = 1 << 25
_SCANNED_FROM: Final = 1 << 20  # bytes; from there on the scanner has paid for the second it may take to load


def format_of(path: Path, asked: str | None) -> str:
    """The format asked for, or the one that the file's name tells. Raises PlanError."""
    if asked is not None and asked not in FORMATS:
        raise PlanError(f'format "{asked}" cannot be read; known are {", ".join(FORMATS)}')
    found = asked or _BY_SUFFIX.get(path.suffix)
    if found is None:
        raise PlanError(f"{path}: its name does not tell its format; say --format {', '.join(FORMATS)}")
    return found


def read_history(path: Path, *, file_format: str | None = None, independent: bool = False) -> pa.Table:
    """The history of a file (`schemaquake.harness.model.records.HISTORY`), its text never in memory as a whole.

    `independent`: every value is `[key value]`, and the key goes to the column `key`. Raises HistoryError, with line and
    reason, for what no history is, and PlanError for what cannot be read at all.
    """
    chosen = _format_of_file(path, file_format)
    if chosen == "parquet":
        if independent:
            raise PlanError("--independent is for files in which a value is [key value]; our Parquet has a column key")
        return read_table(path, HISTORY, order="index")
    names = Names()
    batches = list(_batches(path, chosen, independent=independent, names=names))
    table = pa.Table.from_batches(batches, schema=RAW).replace_schema_metadata(names.metadata())
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
    names = Names()
    raw = to.with_name(f"{to.name}.raw")
    try:
        nothing = {field.name: pa.nulls(0, field.type) for field in RAW if field.name not in _WHO_DID_WHAT_WHEN}
        narrow: list[pa.RecordBatch] = []
        with pq.ParquetWriter(raw, RAW, compression="lz4") as writer:
            for batch in _batches(path, chosen, independent=independent, names=names):
                writer.write_batch(batch)
                narrow.append(_narrow(batch, nothing))
        events = pa.Table.from_batches(narrow, schema=RAW)
        if events["process"].null_count or not increases(events["index"]):
            whole = pq.read_table(raw).cast(RAW).replace_schema_metadata(names.metadata())
            write_table(to, sequenced(whole, str(path)))
        else:
            _write_sequenced(raw, sequenced(events, str(path)), names, to)
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


def _write_sequenced(raw: Path, sequenced_events: pa.Table, names: Names, to: Path) -> None:
    """A history from its events as they stood in the file, a row group at a time, and from who did what when."""
    schema = HISTORY.with_metadata(names.metadata() or None)
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


def _batches(path: Path, file_format: str, *, independent: bool, names: Names) -> Iterator[pa.RecordBatch]:
    """The file's events (`RAW`) as they stand there."""
    rows = Rows(independent=independent, names=names)
    notation = _NOTATIONS[file_format]
    with path.open("rb") as file:
        if path.stat().st_size >= _SCANNED_FROM:
            from schemaquake.results.formats.fast_reading import batches  # noqa: PLC0415 - half a second to load

            yield from batches(file, str(path), notation, rows, json=notation is elle_json)
            return
        for line, op in notation.forms(file, str(path)):
            _add(rows, op, line, path)
            if rows.full:
                yield rows.take()
    yield rows.take()


def _add(rows: Rows, op: Any, line: int, path: Path) -> None:
    try:
        rows.add(op, line)
    except Malformed as error:
        raise HistoryError(f"{path}, line {line}: {error}.") from None
