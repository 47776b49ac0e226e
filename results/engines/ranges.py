"""Ranges: stretches of a history's row groups, each read by one task.

A row's number in the whole history is its place in time. A task derives the numbers of its rows from the file's metadata.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from schemaquake.harness.model.records import HISTORY
from schemaquake.results.store.parquet_footer import row_groups
from schemaquake.results.store.store import read_table, write_table

__all__ = ["Ranges"]


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges of one file: range r is the rows `first[r]:first[r + 1]`, in the row groups `groups[r]`."""

    file: Path
    groups: tuple[tuple[int, ...], ...]
    first: tuple[int, ...]

    @classmethod
    def of(cls, file: Path, most: int, scratch: Path) -> Ranges:
        """Split a file into at most `most` ranges that take about the same memory.

        A file that is not in the order of its index is rewritten in `scratch`. Raises HistoryError for a file that cannot be a
        history.
        """
        written = row_groups(file)
        if not _in_order(pq.read_metadata(file)):
            ordered = read_table(file, HISTORY, order="index")
            file = scratch / "history.parquet"
            write_table(file, ordered)
            written = row_groups(file)
        ends = np.cumsum([0, *(group.rows for group in written)])
        # Floating point, because a footer may contain any numbers.
        before = np.cumsum([0.0, *(group.size for group in written)])
        share = np.minimum(before[:-1] * most // max(before[-1], 1), most - 1).astype(int)
        groups = tuple(tuple(np.flatnonzero(share == number).tolist()) for number in np.unique(share))
        first = (*(int(ends[group[0]]) for group in groups), int(ends[-1]))
        return cls(file, groups, first)

    def read(self, number: int) -> pa.Table:
        """Read the events of a range, as `HISTORY` in order of their index. Raises HistoryError."""
        return read_table(self.file, HISTORY, order="index", groups=list(self.groups[number]))

    def keyed(self) -> bool:
        """Return True if any event may have a key; False if the file's metadata rules it out."""
        metadata = pq.read_metadata(self.file)
        if "key" not in pq.read_schema(self.file).names:
            return False
        for number in range(metadata.num_row_groups):
            statistics = _statistics(metadata.row_group(number), "key")
            if statistics is None or not statistics.has_null_count:
                return True
            if statistics.null_count < metadata.row_group(number).num_rows:
                return True
        return False


def _in_order(metadata: pq.FileMetaData) -> bool:
    """Return True if each row group is known to come after the one before it."""
    last: int | None = None
    for number in range(metadata.num_row_groups):
        statistics = _statistics(metadata.row_group(number), "index")
        if statistics is None or not statistics.has_min_max:
            return False
        if last is not None and statistics.min <= last:
            return False
        last = statistics.max
    return True


def _statistics(group: pq.RowGroupMetaData, name: str) -> pq.Statistics | None:
    """Return the statistics of a column, or None if the row group has none."""
    columns = (group.column(at) for at in range(group.num_columns))
    return next((column.statistics for column in columns if column.path_in_schema == name), None)
