"""Latest: of all that had ended before something began, which one is the greatest? For millions at once, key by key."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Latest"]

Longs: TypeAlias = npt.NDArray[np.int64]


class Latest:
    """Of items with a key, an end and a weight: the heaviest of a key that ended before a given time; O(n log n)."""

    def __init__(self, key: Longs, ends: Longs, weight: Longs) -> None:
        self._order = np.lexsort((ends, key))
        self._key, self._ends = key[self._order], ends[self._order]
        self._by_weight = np.argsort(weight, kind="stable")
        place = np.empty(len(weight), np.int64)
        place[self._by_weight] = np.arange(len(weight))
        # Every key begins above all weights of the key before it, so that one running maximum serves them all.
        self._above = len(weight) + 1
        self._greatest = np.maximum.accumulate(self._dense(self._key) * self._above + place[self._order])

    def before(self, key: Longs, time: Longs) -> Longs:
        """Position of the heaviest item of each key that ended before each time, −1 where none did.

        Ends and times that are equal cannot be told apart by a clock: such an item had not ended before.
        """
        if not len(self._order):
            return np.full(len(key), -1, np.int64)
        last = self._last(key, time)
        there = (last >= 0) & (self._key[np.maximum(last, 0)] == key)
        found = self._by_weight[self._greatest[np.maximum(last, 0)] % self._above]
        return np.where(there, found, -1)

    def _last(self, key: Longs, time: Longs) -> Longs:
        """The last item, in order of key and end, that is before (key, time)."""
        times = np.unique(np.concatenate([self._ends, time]))
        keys = np.unique(np.concatenate([self._key, key]))
        items = np.searchsorted(keys, self._key) * len(times) + np.searchsorted(times, self._ends)
        asked = np.searchsorted(keys, key) * len(times) + np.searchsorted(times, time)
        return np.searchsorted(items, asked, side="left") - 1

    @staticmethod
    def _dense(key: Longs) -> Longs:
        return np.cumsum(np.diff(key, prepend=key[:1]) != 0)
