"""Ranges: a history's rows in stretches of whole row groups, each read by one task.

A row's number in the whole history is its place in time; a task knows its own from the file's metadata alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from schemaquake.harness.model.records import HISTORY
from schemaquake.results.engines.steps import Document
from schemaquake.results.store.parquet_footer import row_groups
from schemaquake.results.store.store import read_table, write_table

__all__ = ["JUNCTION", "Ranges", "owner", "read_range"]

JUNCTION: Final = 1 << 62
"""From here on ids are of junctions: 14 bits for the range they are put into, 16 for the share of the keys, a number."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges of one file: range r is the rows `first[r]:first[r + 1]`, in the row groups `groups[r]`."""

    file: Path
    groups: tuple[tuple[int, ...], ...]
    first: tuple[int, ...]

    @classmethod
    def of(cls, file: Path, most: int, scratch: Path) -> Ranges:
        """At most so many ranges that take about as much memory. A file not in the order of its index is written anew in `scratch`.

        Raises HistoryError for a file that no history can be in.
        """
        written = row_groups(file)
        if not _in_order(pq.read_metadata(file)):
            ordered = read_table(file, HISTORY, order="index")
            file = scratch / "history.parquet"
            write_table(file, ordered)
            written = row_groups(file)
        ends = np.cumsum([0, *(group.rows for group in written)])
        # In floating point: a footer may claim anything.
        before = np.cumsum([0.0, *(group.size for group in written)])
        share = np.minimum(before[:-1] * most // max(before[-1], 1), most - 1).astype(int)
        groups = tuple(tuple(np.flatnonzero(share == number).tolist()) for number in np.unique(share))
        first = (*(int(ends[group[0]]) for group in groups), int(ends[-1]))
        return cls(file, groups, first)

    @property
    def rows(self) -> int:
        """How many events the history has."""
        return self.first[-1]

    def __len__(self) -> int:
        return len(self.groups)

    def documents(self, **more: object) -> list[Document]:
        """For each range a document that says what `read_range` is to read; and `range`, its number."""
        return [
            {"file": str(self.file), "groups": list(groups), "first": self.first[number], "range": number, **more}
            for number, groups in enumerate(self.groups)
        ]


def owner(ids: npt.NDArray[np.int64], first: Sequence[int]) -> npt.NDArray[np.int64]:
    """The range of each id, by the first rows of all ranges and the number of rows.

    An id is a row; one beyond all rows is of the last range, and a junction's says itself of which it is.
    """
    found = np.searchsorted(np.array(first[1:-1], np.int64), ids, side="right")
    return np.where(ids >= JUNCTION, (ids >> 48) & 0x3FFF, found)


def _in_order(metadata: pq.FileMetaData) -> bool:
    """Whether each row group is known to come after the one before it."""
    last: int | None = None
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = (group.column(at) for at in range(group.num_columns))
        statistics = next((column.statistics for column in columns if column.path_in_schema == "index"), None)
        if statistics is None or not statistics.has_min_max:
            return False
        if last is not None and statistics.min <= last:
            return False
        last = statistics.max
    return True


def read_range(document: Mapping[str, Any]) -> pa.Table:
    """The events of a range, as `HISTORY` in order of their index. Raises HistoryError."""
    return read_table(Path(document["file"]), HISTORY, order="index", groups=document["groups"])
