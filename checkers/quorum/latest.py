"""Latest: the greatest item of a key that had ended before a given time, for millions of times at once."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from schemaquake.harness.history.distinct import distinct

__all__ = ["Latest"]

Longs: TypeAlias = npt.NDArray[np.int64]


class Latest:
    """An index of items with a key, an end and a weight; finds the heaviest item of a key in O(n log n) altogether."""

    def __init__(self, key: Longs, ends: Longs, weight: Longs) -> None:
        self._order = np.lexsort((ends, key))
        self._key, self._ends = key[self._order], ends[self._order]
        self._by_weight = np.argsort(weight, kind="stable")
        ranks = np.empty(len(weight), np.int64)
        ranks[self._by_weight] = np.arange(len(weight))
        # Every key begins above all weights of the key before it, so that one running maximum serves them all.
        self._above = len(weight)
        self._greatest = np.maximum.accumulate(self._dense(self._key) * self._above + ranks[self._order])

    def before(self, key: Longs, time: Longs) -> Longs:
        """Find the position of the heaviest item of each key that ended before each time, −1 where none did.

        A clock cannot distinguish equal times: an item that ended at the given time had not ended before it.
        """
        if not len(self._order):
            return np.full(len(key), -1, np.int64)
        last = self._last(key, time)  # −1, where none is before, takes the very last one: it does not count
        is_same_key = (last >= 0) & (self._key[last] == key)
        found = self._by_weight[self._greatest[last] % self._above]
        return np.where(is_same_key, found, -1)

    def _last(self, key: Longs, time: Longs) -> Longs:
        """Find the last item, in order of key and end, before each (key, time)."""
        times = distinct(np.concatenate([self._ends, time]))
        keys = distinct(np.concatenate([self._key, key]))
        items = np.searchsorted(keys, self._key) * len(times) + np.searchsorted(times, self._ends)
        targets = np.searchsorted(keys, key) * len(times) + np.searchsorted(times, time)
        return np.searchsorted(items, targets, side="left") - 1

    @staticmethod
    def _dense(key: Longs) -> Longs:
        return np.cumsum(np.diff(key, prepend=key[:1]) != 0)
