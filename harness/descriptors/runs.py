"""Runs: the rows of one partition as they were read, in short: stretches of neighbouring rows that one write wrote.

A run is `first, count, lts`: rows `first` to `first + count - 1` have the value that the write of time `lts` gave them.
Rows that no write can have made (a clustering or a value that no descriptor gives) are named one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from schemaquake.harness.descriptors.functions import Longs, rows_of, vds

__all__ = ["STRANGE_MOST", "Found", "fold_rows", "spread_runs"]

STRANGE_MOST: Final = 5
"""The rows that no write can have made of which a reading of one partition names each."""


class Found(NamedTuple):
    """The rows of one partition in one reading."""

    rows: int
    """How many rows there are, strange ones among them."""
    runs: Sequence[int]
    """`first, count, lts` of each run, one run after the other, ascending."""
    strange: Sequence[tuple[int, int, int]]
    """(clustering, value, write time) of rows that no write can have made, five at most."""


def fold_rows(seed: int, partition: int, clusterings: Longs, values: Longs, times: Longs) -> Found:
    """Fold the rows of a partition, in the order of their clusterings, into runs. Times in µs."""
    if not len(clusterings):
        return Found(0, (), ())
    rows = rows_of(seed, partition, clusterings)
    whole = (rows >= 0) & (vds(seed, partition, rows, times) == values)
    whole[1:] &= rows[1:] > rows[:-1]
    strange = tuple(
        (int(clusterings[at]), int(values[at]), int(times[at])) for at in np.flatnonzero(~whole)[:STRANGE_MOST]
    )
    rows, times = rows[whole], times[whole]
    if not len(rows):
        return Found(len(clusterings), (), strange)
    begins = np.flatnonzero(np.concatenate(([True], (np.diff(rows) != 1) | (np.diff(times) != 0))))
    counts = np.diff(np.append(begins, len(rows)))
    runs = np.column_stack((rows[begins], counts, times[begins])).ravel()
    return Found(len(clusterings), tuple(runs.tolist()), strange)


def spread_runs(runs: Sequence[int], rows: int) -> Longs:
    """Return the write time of each row, 0 for one that is absent; runs beyond `rows` are cut off."""
    times = np.zeros(rows, np.int64)
    for first, count, lts in zip(runs[::3], runs[1::3], runs[2::3], strict=True):
        times[first : first + count] = lts
    return times
