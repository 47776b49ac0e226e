"""Reading: a history file of any format as one table, read in stretches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from schemaquake.harness.atomic import replacing
from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.history.lean_mops import narrow, widen
from schemaquake.harness.model.protocols import HistoryFormat
from schemaquake.harness.model.records import HISTORY, LEAN_MOPS
from schemaquake.harness.registry import load, names
from schemaquake.results.formats.compression import is_compressed, open_content, plain_name
from schemaquake.results.formats.notations import ELLE_JSON, Notation
from schemaquake.results.formats.op_maps import LEAN_RAW, RAW, Malformed, Names, Rows
from schemaquake.results.formats.sequence import sequenced
from schemaquake.results.store.examination import examine
from schemaquake.results.store.parquet_options import parquet_options
from schemaquake.results.store.regrouping import stretches
from schemaquake.results.store.seal import refuse_damage
from schemaquake.results.store.store import increases, read_table, write_table
from schemaquake.results.wording import joined

__all__ = ["format_of", "known_formats", "read_history", "spill_history"]

_PARQUET: Final = "parquet"
"""Format of a Parquet table with the columns of `HISTORY`. Every other format is a `HistoryFormat`, found by entry point."""
_WHO_DID_WHAT_WHEN: Final = frozenset({"line", "index", "time", "process", "type", "f"})
_SPILLED_ROWS: Final = 1 << 17
_SPILLED_BYTES: Final = 1 << 25
_SCANNED_FROM: Final = 1 << 20  # bytes; for larger files the scanner is worth the second that it may take to load


def known_formats() -> list[str]:
    """List the names of the formats that can be read here."""
    return sorted([*names("formats"), _PARQUET])


def format_of(path: Path, requested: str | None) -> str:
    """Return the requested format, or the format of the file name's suffix. Raises PlanError."""
    known = known_formats()
    if requested is not None and requested not in known:
        raise PlanError(f'format "{requested}" cannot be read; known are {", ".join(known)}')
    found = requested or _format_by_suffix(plain_name(path).suffix)
    if found == _PARQUET and is_compressed(path):
        raise PlanError(f"{path}: Parquet is compressed inside; decompress the file first")
    if found is None:
        raise PlanError(f"{path}: the format is not clear from the file name; give --format {joined(known, last='or')}")
    return found


def _format_by_suffix(suffix: str) -> str | None:
    """Return the format of a suffix. The format with the same name is tried first, so that others stay unloaded."""
    if suffix == f".{_PARQUET}":
        return _PARQUET
    for name in sorted(names("formats"), key=lambda name: f".{name}" != suffix):
        file_format: HistoryFormat = load("formats", name)
        if suffix in file_format.suffixes:
            return name
    return None


def read_history(
    path: Path, *, file_format: str | None = None, independent: bool = False, lean: bool = False
) -> pa.Table:
    """Read the history in a file (`schemaquake.harness.model.records.HISTORY`). The text is never in memory as a whole.

    With `independent` every value is `[key value]`, and the key goes to the column `key`. With `lean` the column `mops` of a long
    history may be of the type `LEAN_MOPS`. Raises HistoryError, with line and
    reason, for an invalid history, and PlanError for a file that cannot be read at all.
    """
    chosen = _format_of_file(path, file_format)
    if chosen == _PARQUET:
        if independent:
            raise PlanError(
                "--independent is for files in which a value is [key value]; Schemaquake's Parquet has a column key"
            )
        if not refuse_damage(path):
            examine(path, hand_over=True)
        return read_table(path, HISTORY, order="index", lean=lean)
    numbered = Names()
    batches = _batches(path, chosen, independent=independent, numbered=numbered, lean=lean)
    table = _of_one_type(batches).replace_schema_metadata(numbered.metadata())
    return sequenced(table, str(path))


def _of_one_type(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Join batches of `RAW` and `LEAN_RAW` to a table of `LEAN_RAW` if any is lean and all can be, else of `RAW`."""
    found: list[pa.RecordBatch] = []
    is_lean: bool | None = None  # as long as none is
    for batch in batches:
        one: pa.RecordBatch | None = batch
        if batch.schema == LEAN_RAW and is_lean is None:
            short = [_with_mops(wide, narrow) for wide in found]
            is_lean = None not in short
            found = short if is_lean else found
        if batch.schema == LEAN_RAW:
            one = batch if is_lean else _with_mops(batch, widen)
        elif is_lean:
            one = _with_mops(batch, narrow)
            if one is None:
                one, is_lean = batch, False
                for number, lean in enumerate(found):  # one at a time, for memory
                    found[number] = _with_mops(lean, widen)
        found.append(one)
    return pa.Table.from_batches(found, schema=LEAN_RAW if is_lean else RAW)


def _with_mops(
    batch: pa.RecordBatch, convert: Callable[[pa.ChunkedArray], pa.ChunkedArray | None]
) -> pa.RecordBatch | None:
    """Convert the micro-operations of a batch; None if they cannot be converted."""
    mops = convert(pa.chunked_array([batch.column("mops")]))
    if mops is None:
        return None
    schema = LEAN_RAW if mops.type == LEAN_MOPS else RAW
    columns = [mops.chunk(0) if name == "mops" else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _format_of_file(path: Path, requested: str | None) -> str:
    if not path.is_file():
        raise PlanError(f"{path} does not exist" if not path.exists() else f"{path} is not a file")
    return format_of(path, requested)


def spill_history(path: Path, to: Path, *, file_format: str | None = None, independent: bool = False) -> None:
    """Convert an EDN or JSON history that does not fit into memory to a Parquet file.

    Only process, type, f and time of each event are in memory, some 100 bytes per event; the rest is streamed twice. A file
    whose events are not in the order of their indices, or do not all name a process, is read as a whole.
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
    """Replace the values and micro-operations of a batch of `RAW` by the null columns in `nothing`, which all batches share."""
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
    """Write a history from its raw events, one row group at a time, and from their sequence."""
    schema = HISTORY.with_metadata(numbered.metadata() or None)
    begin = 0
    with (
        replacing(to) as draft,
        pq.ParquetFile(raw) as file,
        pq.ParquetWriter(draft, schema, **parquet_options(schema)) as writer,
    ):
        # Batches as written, one per stretch of the file: they are small, however large single rows are.
        written = (batch for group in range(file.num_row_groups) for batch in file.read_row_group(group).to_batches())
        for part in stretches(written, _SPILLED_BYTES, rows=_SPILLED_ROWS):
            found = part.select(HISTORY.names)
            for name in ("index", "time", "process"):
                known = sequenced_events[name].slice(begin, len(part))
                found = found.set_column(found.schema.get_field_index(name), HISTORY.field(name), known)
            writer.write_table(found.cast(schema), row_group_size=len(part))
            begin += len(part)
    assert begin == len(sequenced_events)


def _batches(
    path: Path, file_format: str, *, independent: bool, numbered: Names, lean: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the file's events (`RAW`; with `lean` possibly `LEAN_RAW`) in file order."""
    rows = Rows(independent=independent, names=numbered)
    chosen: HistoryFormat = load("formats", file_format)
    scanned_from = _SCANNED_FROM // 16 if is_compressed(path) else _SCANNED_FROM
    with open_content(path) as file:
        if isinstance(chosen, Notation) and path.stat().st_size >= scanned_from:
            from schemaquake.results.formats.fast_reading import batches  # noqa: PLC0415 - half a second to load

            try:
                yield from batches(file, str(path), chosen.module, rows, json=chosen is ELLE_JSON, lean=lean)
            except UnicodeEncodeError as error:
                raise _not_unicode(path, error) from None
            return
        for line, op in chosen.events(file, str(path)):
            _add(rows, op, line, path)
            if rows.full:
                yield _taken(rows, path)
    yield _taken(rows, path)


def _taken(rows: Rows, path: Path) -> pa.RecordBatch:
    try:
        return rows.take()
    except UnicodeEncodeError as error:
        raise _not_unicode(path, error) from None


def _not_unicode(path: Path, error: UnicodeEncodeError) -> HistoryError:
    return HistoryError(f"{path} has a text that is not valid Unicode ({error.reason}).")


def _add(rows: Rows, op: Any, line: int, path: Path) -> None:
    try:
        rows.add(op, line)
    except Malformed as error:
        raise HistoryError(f"{path}, line {line}: {error}.") from None
