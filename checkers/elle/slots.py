"""Slots: a number for every value of every key, so that who wrote it is one look into an array.

Values are written once (appended, for lists): only then is it known whose write a read shows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from schemaquake.checkers.elle.arrays import Ints, Longs, Mask
from schemaquake.checkers.elle.transactions import APPEND, MOST, Ops, Transactions
from schemaquake.harness.compiled import compiled
from schemaquake.harness.errors import HistoryError

__all__ = ["Slots", "Writers", "slot_of", "slots_and_writers", "writers_of"]


_DENSE: Final = 4  # a table over the range of each key's values may be this many times as long as there are values


class Slots(NamedTuple):
    """Places of the values of each key: those of key k are `base[k]:base[k] + size[k]`.

    Dense: the slot of value v is `base[k] + v - low[k]`. Else `sorted` has the values of each key in order, and the slot
    is where the value stands.
    """

    dense: bool
    base: Longs
    size: Longs
    low: Longs
    sorted: Longs


class Writers(NamedTuple):
    """The writer of every slot (−1: none), its micro-operation, and a flag for its last write of the key."""

    writer: Ints
    final: Mask
    at: Ints


def slots_and_writers(transactions: Transactions, written: int) -> tuple[Slots, Writers]:
    """Assign a slot to every value, and find its writer, in micro-operations of the sort `written` (APPEND or WRITE).

    Values that registers were only read to have get a slot, too. Raises HistoryError if a value is written twice.
    """
    slots, count = _slots(transactions, written)
    if count > MOST:
        raise HistoryError(
            f"{count:,} values are too many to be judged at once: they are judged in pieces with --memory"
        )
    writers, one, other = _writers_of(transactions.ops, slots, count, written)
    if other >= 0:
        _, key, value = transactions.micro_operation(other)
        indices = sorted(int(transactions.index[transactions.transaction(at)]) for at in (one, other))
        what = f"element {value} is appended to" if written == APPEND else f"value {value} is written to"
        raise HistoryError(
            f"{what} key {key} twice, by the transactions invoked at index {indices[0]} and {indices[1]}: values must be "
            "unique, or nobody can tell whose write a read shows"
        )
    return slots, writers


def _slots(transactions: Transactions, written: int) -> tuple[Slots, int]:
    """Assign a place to every value: (the slots, the number of places)."""
    reads = written != APPEND
    low, high, count = _ranges(transactions.ops, written, reads, len(transactions.keys))
    total = int(count.sum())
    # In floating point, since values may be 2⁶³ apart.
    if np.where(count > 0, high.astype(float) - low, 0).sum() < _DENSE * total + 1024:
        size = np.where(count > 0, high - low + 1, 0)
        return Slots(True, _starts(size), size, low, np.zeros(0, np.int64)), int(size.sum())
    chosen = (transactions.f == written) | (transactions.given & reads)
    key, value = transactions.key[chosen], transactions.value[chosen].astype(np.int64, copy=False)
    order = np.lexsort((value, key))
    key, value = key[order], value[order]
    new = np.ones(len(key), np.bool_)
    new[1:] = (key[1:] != key[:-1]) | (value[1:] != value[:-1])
    size = np.bincount(key[new], minlength=len(transactions.keys))
    return Slots(False, _starts(size), size, low, value[new]), int(size.sum())


def _starts(size: Longs) -> Longs:
    starts: Longs = np.cumsum(size) - size
    return starts


@compiled
def _ranges(ops: Ops, written: int, reads: bool, keys: int) -> tuple[Longs, Longs, Longs]:
    """Find for every key the least and the greatest value written (or read, if `reads`), and their number."""
    low = np.full(keys, (1 << 63) - 1, np.int64)
    high = np.full(keys, -(1 << 63), np.int64)
    count = np.zeros(keys, np.int64)
    for at in range(len(ops.f)):
        if ops.f[at] == written or (reads and ops.given[at]):
            k = ops.key[at]
            low[k] = min(low[k], ops.value[at])
            high[k] = max(high[k], ops.value[at])
            count[k] += 1
    return low, high, count


@compiled
def slot_of(dense: bool, base: int, size: int, low: int, in_order: Longs, value: int) -> int:
    """Find the slot of a value of a key that has `base`, `size` and `low` (as in `Slots`), or −1 if it has none."""
    if dense:
        return base + value - low if low <= value <= low + size - 1 else -1
    left, right = base, base + size
    while left < right:
        middle = (left + right) // 2
        if in_order[middle] < value:
            left = middle + 1
        else:
            right = middle
    return left if left < base + size and in_order[left] == value else -1


@compiled
def writers_of(slots: Slots, writers: Writers, key: int, values: Longs) -> Ints:
    """Find the writers of the values of one key, given by its dense number; −1: none."""
    found = np.full(len(values), -1, np.int32)
    for n in range(len(values)):
        slot = slot_of(slots.dense, slots.base[key], slots.size[key], slots.low[key], slots.sorted, values[n])
        if slot >= 0:
            found[n] = writers.writer[slot]
    return found


@compiled
def _writers_of(ops: Ops, slots: Slots, count: int, written: int) -> tuple[Writers, int, int]:
    """Find the writer of each of `count` slots; and two micro-operations that wrote the same, or −1 and −1."""
    writer = np.full(count, -1, np.int32)
    final = np.ones(count, np.bool_)
    by = np.full(count, -1, np.int32)
    touched = np.full(len(slots.base), -1, np.int32)  # the transaction that wrote the key last
    previous = np.full(len(slots.base), -1, np.int64)  # and what slot
    for t in range(len(ops.status)):
        for at in range(ops.first[t], ops.first[t + 1]):
            if ops.f[at] != written:
                continue
            k = ops.key[at]
            slot = slot_of(slots.dense, slots.base[k], slots.size[k], slots.low[k], slots.sorted, ops.value[at])
            if writer[slot] >= 0:
                return Writers(writer, final, by), by[slot], at
            writer[slot] = t
            by[slot] = at
            if touched[k] == t:
                final[previous[k]] = False
            touched[k] = t
            previous[k] = slot
    return Writers(writer, final, by), -1, -1
