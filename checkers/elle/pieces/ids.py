"""Ids: the numbers of transactions and junctions in a history that is judged in pieces, and the ranges they belong to.

A transaction's id is the row of its last event; of one that never completed, the number of rows and the row of its first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from schemaquake.checkers.elle.arrays import Longs

__all__ = ["JUNCTION", "range_of"]

JUNCTION: Final = 1 << 62
"""The first id of a junction: 14 bits for the range it is put into, 16 for the share of the keys, and a number."""


def range_of(ids: Longs, first: Sequence[int]) -> Longs:
    """Find the range of each id, by the first rows of all ranges and the number of rows.

    An id beyond all rows is of the last range; a junction's names its range itself.
    """
    found = np.searchsorted(np.array(first[1:-1], np.int64), ids, side="right")
    ranges: Longs = np.where(ids >= JUNCTION, (ids >> 48) & 0x3FFF, found)
    return ranges
