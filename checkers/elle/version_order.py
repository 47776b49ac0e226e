"""Version order: what is known of it, key by key, where registers are read and written, and what contradicts it.

A read returns one value, so only parts of the order are known: the initial state comes first, and, where the store is
said to keep such promises, a version comes after those that the same transaction (`wfr_keys`), the same process
(`sequential_keys`) or anybody in real time (`linearizable_keys`) saw before it. A promise that leads some key's versions
in a circle is broken: that is reported, and nothing is concluded from it. Source: Kingsbury and Alvaro, Elle (VLDB 2020).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from schemaquake.checkers.elle import register_scans as scans
from schemaquake.checkers.elle.arrays import Ints, Longs
from schemaquake.checkers.elle.graphs import WW, Graph, bit, components, graph
from schemaquake.checkers.elle.register_scans import Touches, Zones
from schemaquake.checkers.elle.slots import Slots, Writers, slots_and_writers
from schemaquake.checkers.elle.transactions import WRITE, Transactions

__all__ = [
    "PROMISES",
    "TAKEN",
    "Broken",
    "Promise",
    "Registers",
    "analyse",
    "graph_of",
    "junction_keys",
    "unordered_keys",
]

Promise: TypeAlias = Literal["wfr", "sequential", "linearizable"]

PROMISES: Final[tuple[Promise, ...]] = ("wfr", "sequential", "linearizable")
"""All that may be relied on; the last one includes the one before it."""

TAKEN: Final[tuple[Promise, ...]] = ("wfr", "linearizable", "sequential")
"""The order in which they are taken into account: what a stronger one implies costs nothing."""

_FLAGS: Final[Mapping[str, int]] = {
    "internal": scans.INTERNAL,
    "future-read": scans.FUTURE,
    "garbage-read": scans.GARBAGE,
    "G1a": scans.ABORTED,
    "G1b": scans.INTERMEDIATE,
    "lost-update": scans.LOST,
}
_TABLE: Final = 16  # a table of processes × keys may be this many times as long as there are touches


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that is not kept: the versions of some keys that come before themselves, grouped by circle."""

    promise: Promise
    versions: Sequence[Longs]


@dataclass(frozen=True, slots=True)
class Registers:
    """Results of the scans of rw-register transactions.

    `found`: anomaly → micro-operations in which it shows. `one` → `other` are the steps of the version order by the
    promises that were kept: between versions (below `versions`) and moments (the rest of `nodes`).
    """

    slots: Slots
    writers: Writers
    touches: Touches
    version: Longs
    partner: Longs
    found: Mapping[str, Longs]
    kept: tuple[Promise, ...]
    broken: tuple[Broken, ...]
    initial: int
    versions: int
    nodes: int
    one: Longs
    other: Longs
    zones: Zones | None


def analyse(transactions: Transactions, promises: Collection[str], doubted: Collection[str] = ()) -> Registers:
    """Find everything that one key alone shows. Raises HistoryError if a value was written twice.

    `doubted` promises are known to be broken, by keys that are not among these: nothing is concluded from them.
    """
    slots, writers = slots_and_writers(transactions, WRITE)
    initial, keys = len(writers.writer), len(transactions.keys)
    ops = transactions.ops
    touches, version = scans.touches_of(ops, slots, initial, keys)
    flags = np.zeros(len(transactions.f), np.int16)
    partner = scans.inspect(ops, writers, version, initial, keys, flags)
    found = {name: np.flatnonzero(flags & flag) for name, flag in _FLAGS.items()} if flags.any() else {}
    order = _VersionOrder(transactions, touches, initial)
    kept: list[Promise] = []
    broken: list[Broken] = []
    for promise in TAKEN:
        if promise in promises:
            circles = order.add(promise, known_broken=promise in doubted)
            if circles:
                broken.append(Broken(promise, circles))
            elif promise not in doubted:
                kept.append(promise)
    nodes, one, other = order.steps()
    return Registers(
        slots=slots,
        writers=writers,
        touches=touches,
        version=version,
        partner=partner,
        found={name: places for name, places in found.items() if len(places)},
        kept=tuple(kept),
        broken=tuple(broken),
        initial=initial,
        versions=initial + keys,
        nodes=nodes,
        one=one,
        other=other,
        zones=order.zones,
    )


def unordered_keys(transactions: Transactions, registers: Registers) -> int:
    """Count the keys whose order of versions is not known to be complete: there, a cycle may go unseen.

    What processes and transactions saw orders some versions; that it orders all of them is not looked into.
    """
    touches, keys = registers.touches, len(transactions.keys)
    key_of = np.full(registers.initial, -1, np.int32)
    for column in (touches.read, touches.write):
        there = (column >= 0) & (column < registers.initial)
        key_of[column[there]] = touches.key[there]
    several = np.bincount(key_of[key_of >= 0], minlength=keys) > 1
    if registers.zones is not None:
        several &= ~scans.ordered_keys(registers.zones)
    return int(several.sum())


def graph_of(transactions: Transactions, registers: Registers) -> Graph:
    """Build the graph of dependencies between the transactions, as far as versions are ordered: ww, wr and rw."""
    count, source, target, kind = scans.dependencies(
        transactions.ops,
        registers.slots,
        registers.writers,
        registers.touches,
        registers.versions,
        registers.nodes,
        registers.one,
        registers.other,
    )
    return graph(transactions.count, count, source, target, kind)


def junction_keys(transactions: Transactions, registers: Registers) -> tuple[Longs, Longs]:
    """Find the key of each junction of `graph_of`, by its dense number; and 0 for a value's, 1 for an initial state's, 2 for a moment's."""
    junction, _ = scans.junctions(
        transactions.count, registers.initial, registers.versions, registers.nodes, registers.touches, registers.one
    )
    nodes = np.flatnonzero(junction >= 0)
    sort = np.searchsorted([registers.initial, registers.versions], nodes, side="right")
    moments = np.zeros(1, np.int64) if registers.zones is None else registers.zones.start
    of_sort = (
        np.searchsorted(registers.slots.base, nodes, side="right") - 1,
        nodes - registers.initial,
        np.searchsorted(moments, nodes - registers.versions, side="right") - 1,
    )
    return np.choose(sort, of_sort), sort


class _VersionOrder:
    """The steps of the version order, one promise after another."""

    def __init__(self, transactions: Transactions, touches: Touches, initial: int) -> None:
        self._transactions = transactions
        self._touches = touches
        self._versions = initial + len(transactions.keys)
        self._initial = initial
        self._steps: list[tuple[Longs, Longs]] = []
        self.zones: Zones | None = None

    def add(self, promise: Promise, *, known_broken: bool) -> Sequence[Longs]:
        """Take the promise into account; or if that leads in circles, return them and do not, as if it is known broken."""
        if promise == "linearizable":
            return self._add_real_time(known_broken=known_broken)
        if promise == "sequential" and self.zones is not None:
            return ()  # what a process saw before, everybody did
        new = self._within_transactions() if promise == "wfr" else self._within_processes()
        circles = self._circles(new)
        if not circles and not known_broken:
            self._steps.append(new)
        return circles

    def steps(self) -> tuple[int, Longs, Longs]:
        """Build the number of versions and moments, and the steps between them."""
        if self.zones is None:
            return self._versions, *_joined(self._steps)
        timed = scans.real_time_steps(self.zones, True)
        return self._versions + len(self.zones.version), *_joined([*self._steps, timed])

    def _within_transactions(self) -> tuple[Longs, Longs]:
        read, write = self._touches.read, self._touches.write
        chosen = (read >= 0) & (write >= 0) & (read != write)
        return read[chosen], write[chosen]

    def _within_processes(self) -> tuple[Longs, Longs]:
        """Link what a process left of a key to what it found there next."""
        rows, keys = self._touches, len(self._transactions.keys)
        processes = int(self._transactions.process.max(initial=0)) + 1
        if processes * keys < _TABLE * len(rows.key) + 1024:
            return scans.process_steps(rows, self._transactions.process, processes, keys)
        process = self._transactions.process[rows.transaction]
        order = np.lexsort((rows.transaction, rows.key, process))
        found = np.where(rows.read >= 0, rows.read, rows.write)[order]
        left = np.where(rows.write >= 0, rows.write, rows.read)[order]
        process, key = process[order], rows.key[order]
        chosen = (process[1:] == process[:-1]) & (key[1:] == key[:-1]) & (left[:-1] != found[1:])
        return left[:-1][chosen], found[1:][chosen]

    def _add_real_time(self, *, known_broken: bool) -> Sequence[Longs]:
        of = self._transactions
        by_invocation = np.argsort(of.invoked, kind="stable")
        zones = scans.zones_of(self._touches, of.invoked, of.completed, by_invocation, self._initial, len(of.keys))
        if self._steps:
            circles = self._circles(scans.real_time_steps(zones, False))
        else:
            # As in all circles: the initial state, if it is one of them, comes last.
            circles = list(np.sort(np.stack(scans.zone_circles(zones, self._initial), axis=1), axis=1))
        if not circles and not known_broken:
            self.zones = zones
        return circles

    def _circles(self, new: tuple[Longs, Longs]) -> Sequence[Longs]:
        """Find the versions that come before themselves by what was known, the initial states and the new steps."""
        one, other = _joined([*self._steps, new])
        nodes = max(self._versions, int(one.max(initial=0)) + 1, int(other.max(initial=0)) + 1)
        starts = other[(other >= self._initial) & (other < self._versions)] - self._initial
        if len(starts):
            # Only where something comes before an initial state does it matter that this comes before all others.
            read, write, key = self._touches.read, self._touches.write, self._touches.key
            chosen = np.isin(key, starts)
            seen, left = chosen & (read >= 0) & (read < self._initial), chosen & (write >= 0)
            one = np.concatenate([one, self._initial + key[seen], self._initial + key[left]])
            other = np.concatenate([other, read[seen], write[left]])
        steps = graph(
            self._versions, nodes, one.astype(np.int32), other.astype(np.int32), np.full(len(one), WW, np.int8)
        )
        return list(_groups(components(steps, bit(WW))[: self._versions]))


def _joined(steps: Sequence[tuple[Longs, Longs]]) -> tuple[Longs, Longs]:
    """Concatenate lists of steps."""
    if len(steps) == 1:
        return steps[0]
    empty = np.zeros(0, np.int64)
    return np.concatenate([empty, *(one for one, _ in steps)]), np.concatenate([empty, *(other for _, other in steps)])


def _groups(numbers: Ints) -> Iterator[Longs]:
    """List the members of each group that has a number of 0 or more."""
    members = np.flatnonzero(numbers >= 0)
    members = members[np.argsort(numbers[members], kind="stable")]
    yield from np.split(members, np.flatnonzero(np.diff(numbers[members])) + 1) if len(members) else ()
