"""Regrouping: a history file whose row groups are too large to be read one at a time, written anew with smaller ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from schemaquake.harness.errors import HistoryError
from schemaquake.results.store.parquet_footer import not_whole, row_groups

__all__ = ["regroup", "stretches"]

_ROWS: Final = 64  # rows read at once: a row may be a thousand times as long as those before it
_ROWS_OF_SMALL: Final = (
    4096  # of row groups of which a batch can have no more than is allowed, whatever its rows are like
)
_SMALL: Final = 2  # such a group is at most so many times the limit: the pieces take several times that in the end
_BUFFER: Final = 1 << 20  # bytes of each column that are read at once
_OF_A_PIECE: Final = (
    4  # row groups in a piece; with larger groups, a piece would have only one of two that just do not fit together
)


def regroup(file: Path, to: Path, limit_bytes: int) -> Path:
    """Return a file with the same rows in the same order and no row group above `limit_bytes`: `file` itself, or `to`.

    Raises HistoryError for a damaged file, and for a single operation above the limit.
    """
    groups = row_groups(file)
    if all(group.size <= limit_bytes for group in groups):
        return file
    for group in groups:
        if group.size > limit_bytes * group.rows:
            raise _too_long_error(file, group.size // max(group.rows, 1), limit_bytes)
    try:
        with pq.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER) as source:
            small = all(group.size <= _SMALL * limit_bytes for group in groups)
            batches = source.iter_batches(batch_size=_ROWS_OF_SMALL if small else _ROWS, use_threads=False)
            with pq.ParquetWriter(to, source.schema_arrow, compression="lz4") as writer:
                for part in stretches(batches, limit_bytes // _OF_A_PIECE):
                    if len(part) == 1 and part.nbytes > limit_bytes:
                        raise _too_long_error(file, part.nbytes, limit_bytes)
                    writer.write_table(part, row_group_size=len(part))
                    pa.default_memory_pool().release_unused()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise not_whole(file, error) from error
    return to


def _too_long_error(file: Path, size: int, limit_bytes: int) -> HistoryError:
    return HistoryError(
        f"{file} has an operation of {size >> 20} MiB, and the available memory allows pieces of "
        f"{limit_bytes >> 20} MiB. Allow more with --memory if the machine has it."
    )


def stretches(batches: Iterator[pa.RecordBatch], limit_bytes: int, *, rows: int = 1 << 17) -> Iterator[pa.Table]:
    """Yield the rows of all batches in tables of at most `rows` rows and `limit_bytes` bytes, but of at least one row."""
    waiting: list[pa.RecordBatch] = []
    size = count = 0
    for batch in batches:
        whole = batch.nbytes  # which of nested lists takes time
        # Row by row only if the batch is too large.
        parts = [(batch, whole)] if whole <= limit_bytes else _rows_of(batch)
        for part, length in parts:
            if waiting and (size + length > limit_bytes or count + len(part) > rows):
                yield pa.Table.from_batches(waiting)
                waiting, size, count = [], 0, 0
            waiting.append(part)
            size, count = size + length, count + len(part)
    if waiting:
        yield pa.Table.from_batches(waiting)


def _rows_of(batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield each row as a batch, and its size in bytes."""
    for number in range(len(batch)):
        row = batch.slice(number, 1)
        yield row, row.nbytes
