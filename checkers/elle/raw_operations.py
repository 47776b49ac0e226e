"""Raw operations: single transactions looked up as the history has them, for evidence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

import numpy as np

from schemaquake.checkers.elle.arrays import Ints, Longs
from schemaquake.checkers.elle.slots import Slots, Writers, slot_of, writers_of
from schemaquake.checkers.elle.transactions import OK, READ, Transactions

__all__ = ["RawOperations"]

_STRETCH: Final = 1 << 16  # elements that are looked up at once


class RawOperations:
    """Transactions by number, micro-operations by place, keys as they are called."""

    def __init__(self, transactions: Transactions, slots: Slots, writers: Writers) -> None:
        self.of = transactions
        self._slots = slots
        self._writers = writers

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return {key: number for number, key in enumerate(self.of.keys.tolist())}

    def number(self, key: int) -> int:
        """Look up the dense number of a key."""
        return self._numbers[key]

    def key(self, at: int) -> int:
        """Find the key of a micro-operation."""
        return int(self.of.keys[self.of.key[at]])

    def transaction(self, at: int) -> int:
        """Find the transaction of a micro-operation."""
        return self.of.transaction(at)

    def committed(self, at: int) -> int | None:
        """Find the committed transaction that read there, if one did."""
        transaction = self.transaction(at)
        return transaction if self.of.status[transaction] == OK and self.of.f[at] == READ else None

    def places(self, transaction: int) -> range:
        """List the micro-operations of a transaction."""
        return range(int(self.of.first[transaction]), int(self.of.first[transaction + 1]))

    def written(self, transaction: int) -> dict[tuple[int, int], int]:
        """Map (key, value) to the micro-operation, for everything the transaction wrote or appended."""
        of = self.of
        return {(self.key(at), int(of.value[at])): at for at in self.places(transaction) if of.f[at] != READ}

    def writes_later(self, transaction: int, at: int) -> bool:
        """Tell whether the transaction wrote the key of that micro-operation after it."""
        later = range(at + 1, int(self.of.first[transaction + 1]))
        return any(self.of.f[place] != READ and self.of.key[place] == self.of.key[at] for place in later)

    def writer(self, at: int, value: int) -> int:
        """Find the transaction that wrote the value to the key of that micro-operation; −1 if none did."""
        number = int(self.of.key[at])
        slot = self.slot(number, value)
        if slot < 0 or self._writers.writer[slot] < 0:
            return -1
        by = int(self._writers.at[slot])
        assert int(self.of.value[by]) == value
        assert self.of.key[by] == number
        return int(self._writers.writer[slot])

    def slot(self, number: int, value: int) -> int:
        """Find the slot of a value of a key, given by its dense number; −1: it has none."""
        slots = self._slots
        base, size, low = (int(column[number]) for column in (slots.base, slots.size, slots.low))
        return int(slot_of(slots.dense, base, size, low, slots.sorted, value))

    def key_of_slot(self, slot: int) -> int:
        """Find the key of which a slot holds a value."""
        return int(self.of.keys[self._number_of(slot)])

    def value(self, slot: int) -> int:
        """Find the value of a slot."""
        if not self._slots.dense:
            return int(self._slots.sorted[slot])
        number = self._number_of(slot)
        return int(self._slots.low[number] + slot - self._slots.base[number])

    def _number_of(self, slot: int) -> int:
        # Keys without values have no place between two others: the last that begins here or before has it.
        return int(np.searchsorted(self._slots.base, slot, side="right")) - 1

    def register(self, at: int) -> int | None:
        """Find the value that was read or written there; None: the initial state."""
        return int(self.of.value[at]) if self.of.given[at] else None

    def read(self, at: int) -> Longs:
        """Get the list that was read there, where it lies in memory."""
        return self.of.read(at)

    def last(self, at: int) -> int | None:
        """Find the last element of the list that was read there."""
        return int(self.of.elements[self.of.end[at] - 1]) if self.of.begin[at] < self.of.end[at] else None

    def writers(self, at: int) -> Iterator[tuple[int, Ints]]:
        """Find the writers of the elements of a list that was read, stretch by stretch: (place of the first, writers; −1 for none)."""
        elements, number = self.read(at), int(self.of.key[at])
        for begin in range(0, len(elements), _STRETCH):
            yield begin, writers_of(self._slots, self._writers, number, elements[begin : begin + _STRETCH])
