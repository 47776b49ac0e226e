"""Descriptors: partition keys, clusterings, values and write times as pure functions of a seed and a position.

The idea and the names are Harry's (A. Petrov, "Harry, an Open Source Fuzz Testing and Verification Tool for Apache
Cassandra", 2020): a *pd* describes a partition, a *cd* a row of it, a *vd* a value, and an *lts* is a logical time
stamp, by which writes of one partition are ordered. Nothing of a row has to be remembered: which partition and row it
is follows from its keys, which write it came from from its write time, and its value from both.

All are signed 64-bit integers. Clusterings ascend with the row's number, so that a range of rows is a range of clusterings.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["ROWS_MOST", "Longs", "cds", "pd", "rows_of", "vds"]

Longs: TypeAlias = npt.NDArray[np.int64]

_SPREAD_BITS: Final = 20
"""The low bits of a clustering, which are drawn; the ones above are the row's number."""
ROWS_MOST: Final = 1 << 40
"""The rows that a partition may have."""
_PARTITION, _ROW, _VALUE = (np.uint64(each) for each in (0x5051, 0x5152, 0x5253))


def pd(seed: int, partition: int) -> int:
    """Return the key of a partition, by its number."""
    return int(_mix(_mix(_u64(seed)) ^ _mix(_u64(partition) ^ _PARTITION)).astype(np.int64)[0])


def cds(seed: int, partition: int, first: int, count: int) -> Longs:
    """Return the clusterings of `count` rows of a partition, from number `first` on, ascending."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    return (numbers << _SPREAD_BITS) | _spread(seed, partition, numbers)


def rows_of(seed: int, partition: int, clusterings: Longs) -> Longs:
    """Return the numbers of the rows that have these clusterings, −1 for what is no row's."""
    numbers = clusterings >> _SPREAD_BITS
    known = (numbers << _SPREAD_BITS) | _spread(seed, partition, numbers)
    return np.where((known == clusterings) & (numbers >= 0), numbers, -1)


def vds(seed: int, partition: int, rows: Longs, lts: Longs | int) -> Longs:
    """Return the values that the writes of these times (µs) gave these rows."""
    stamped = _mix(np.broadcast_to(np.asarray(lts, np.int64), rows.shape).astype(np.uint64) ^ _VALUE)
    return _mix(_of_rows(seed, partition, rows) ^ stamped).astype(np.int64)


def _spread(seed: int, partition: int, rows: Longs) -> Longs:
    low = np.uint64((1 << _SPREAD_BITS) - 1)
    return (_mix(_of_rows(seed, partition, rows) ^ _ROW) & low).astype(np.int64)


def _of_rows(seed: int, partition: int, rows: Longs) -> npt.NDArray[np.uint64]:
    return _mix(rows.astype(np.uint64) ^ _u64(pd(seed, partition)))


def _u64(number: int) -> npt.NDArray[np.uint64]:
    return np.asarray([number & (2**64 - 1)], np.uint64)


def _mix(integers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scramble integers one to one (the finalizer of splitmix64: Steele, Lea and Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        mixed = integers + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))
