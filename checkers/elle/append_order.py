"""Append order: of each key's elements in lists that are appended to, and what contradicts it.

A read returns the whole list, so the longest committed read of a key orders its elements; whatever else is read must be
a beginning of it. Source: Kingsbury and Alvaro, Elle (VLDB 2020), section 3 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from schemaquake.checkers.elle import append_scans as scans
from schemaquake.checkers.elle.append_scans import Orders
from schemaquake.checkers.elle.arrays import Flags, Ints, Longs
from schemaquake.checkers.elle.graphs import Graph, graph_of_stretches
from schemaquake.checkers.elle.slots import Slots, Writers, slots_and_writers
from schemaquake.checkers.elle.transactions import APPEND, FAIL, Transactions
from schemaquake.harness.compiled import abreast

__all__ = ["Appends", "analyse", "graph_of", "junction_keys"]


_FLAGS: Final[Mapping[str, int]] = {
    "internal": scans.INTERNAL,
    "future-read": scans.FUTURE,
    "garbage-read": scans.GARBAGE,
    "duplicate-elements": scans.REPEATED,
    "incompatible-order": scans.INCOMPATIBLE,
    "G1a": scans.ABORTED,
    "G1b": scans.INTERMEDIATE,
    "lost-update": scans.LOST,
}


@dataclass(frozen=True, slots=True)
class Appends:
    """Results of the scans of list-append transactions.

    `found`: anomaly → micro-operations in which it shows (of dirty-update: positions in `orders`). `longest[k]` is the
    micro-operation that orders key k, −1 if it was never read; `partner` the other update of the same version.
    """

    slots: Slots
    writers: Writers
    orders: Orders
    longest: Longs
    version: Ints
    partner: Longs
    found: Mapping[str, Longs]


def analyse(transactions: Transactions) -> Appends:
    """Orders and everything that one key alone shows. Raises HistoryError if an element was appended twice."""
    ops = transactions.ops
    flags = np.zeros(len(transactions.f), np.int16)

    def reads() -> tuple[Longs, Longs]:
        # Most transactions do not append to what they have read: two scans pass them by.
        updaters = np.flatnonzero(scans.inspect_own(ops, len(transactions.keys), flags))
        return scans.longest_reads(ops, len(transactions.keys)), updaters

    (longest, updaters), (slots, writers) = abreast(
        len(transactions.f), reads, lambda: slots_and_writers(transactions, APPEND)
    )
    orders = scans.orders_of(ops, slots, writers, longest)
    version = scans.inspect_reads(ops, slots, writers, orders, longest, flags)
    scans.inspect_future(ops, slots, writers, orders, updaters, flags)
    partner = scans.lost_updates(ops, orders, version, updaters, flags)
    return Appends(slots, writers, orders, longest, version, partner, _found(flags, orders))


def graph_of(transactions: Transactions, appends: Appends) -> Graph:
    """Build the graph of dependencies between the transactions: ww, wr and rw."""
    count, edges = scans.dependencies(transactions.ops, appends.slots, appends.writers, appends.orders, appends.version)
    return graph_of_stretches(transactions.count, count, edges)


def junction_keys(transactions: Transactions, appends: Appends) -> Longs:
    """Find the key of each junction of `graph_of`, by its dense number: of those with several appends that no read shows."""
    writer = appends.writers.writer
    unseen = np.flatnonzero((writer >= 0) & (appends.orders.position < 0))
    unseen = unseen[transactions.status[writer[unseen]] != FAIL]
    keys: Longs = np.searchsorted(appends.slots.base, unseen, side="right") - 1
    return np.flatnonzero(np.bincount(keys, minlength=len(transactions.keys)) > 1)


def _found(flags: Flags, orders: Orders) -> Mapping[str, Longs]:
    found = {name: np.flatnonzero(flags & flag) for name, flag in _FLAGS.items()} if flags.any() else {}
    found["dirty-update"] = np.flatnonzero(orders.dirty)
    return {name: places for name, places in found.items() if len(places)}
