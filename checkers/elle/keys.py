"""Keys: what transactions show key by key, of all keys at once or of a share of them.

What one key shows (its order of versions, anomalies in single operations, dependencies between the transactions that touch
it) does not depend on any other key. So the check of a whole history and the check of one share of its keys ask the same
question here; the whole history is one share.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from schemaquake.checkers.elle import append_order, version_order
from schemaquake.checkers.elle.append_evidence import AppendEvidence
from schemaquake.checkers.elle.append_order import Appends
from schemaquake.checkers.elle.arrays import Longs
from schemaquake.checkers.elle.explain import Evidence
from schemaquake.checkers.elle.graphs import Graph
from schemaquake.checkers.elle.register_evidence import RegisterEvidence
from schemaquake.checkers.elle.transactions import Kind, Transactions
from schemaquake.checkers.elle.version_order import TAKEN, Registers

__all__ = ["SHOWN_MOST", "KeyRanks", "Keys", "analyse_keys"]

SHOWN_MOST: Final = 8
"""Findings of one type that are shown; the others are counted."""
_DIRTY: Final = "dirty-update"
_CYCLIC: Final = "cyclic-versions"


class KeyRanks(Protocol):
    """The order in which micro-operations and keys stand in the history as a whole."""

    def of_operation(self, at: int) -> tuple[int, ...]:
        """Rank a micro-operation."""
        ...

    def of_key(self, key: int) -> tuple[int, ...]:
        """Rank a key, by its dense number."""
        ...


class Keys(Protocol):
    """The findings of some keys. `places` has, by anomaly, the first places where it shows: at most `SHOWN_MOST`."""

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of findings by anomaly."""
        ...

    @property
    def places(self) -> Mapping[str, Sequence[int]]:
        """Places by anomaly, as `Evidence.contradiction` takes them."""
        ...

    @property
    def evidence(self) -> Evidence:
        """Justifies findings and dependencies from the raw operations."""
        ...

    @property
    def broken(self) -> Sequence[str]:
        """The promises that some of these keys break."""
        ...

    @property
    def unordered(self) -> int:
        """The number of keys whose order of versions may be incomplete."""
        ...

    def graph(self) -> Graph:
        """Derive the dependencies between the transactions."""
        ...

    def junctions(self) -> tuple[Longs, Longs]:
        """Find the key of each junction of the graph, by its dense number, and the junction's sort."""
        ...

    def rank(self, name: str, place: int, ranks: KeyRanks) -> tuple[int, ...]:
        """Rank a place among those of the same anomaly in all keys of the history."""
        ...


def analyse_keys(
    transactions: Transactions, kind: Kind, promises: Collection[str] = (), doubted: Collection[str] = ()
) -> Keys:
    """Analyse every key that the transactions touch. Raises HistoryError for a value that is written to a key twice.

    `promises` of single keys' registers are relied on, but for those that are `doubted`: some other key breaks them.
    """
    if kind == "list-append":
        return _ListKeys(transactions, append_order.analyse(transactions))
    return _RegisterKeys(transactions, version_order.analyse(transactions, promises, doubted))


@dataclass(frozen=True, slots=True)
class _ListKeys:
    """Keys that hold lists."""

    transactions: Transactions
    appends: Appends

    @property
    def counts(self) -> Mapping[str, int]:
        """See `Keys`."""
        return {name: len(found) for name, found in self.appends.found.items()}

    @property
    def places(self) -> Mapping[str, Sequence[int]]:
        """Micro-operations; of dirty-update, positions in the orders of keys."""
        return {name: found[:SHOWN_MOST].tolist() for name, found in self.appends.found.items()}

    @property
    def evidence(self) -> Evidence:
        """See `Keys`."""
        return AppendEvidence(self.transactions, self.appends)

    @property
    def broken(self) -> Sequence[str]:
        """None: the longest read of a list orders it, and no promise is relied on."""
        return ()

    @property
    def unordered(self) -> int:
        """None: as above."""
        return 0

    def graph(self) -> Graph:
        """See `Keys`."""
        return append_order.graph_of(self.transactions, self.appends)

    def junctions(self) -> tuple[Longs, Longs]:
        """See `Keys`; all are of one sort."""
        keys = append_order.junction_keys(self.transactions, self.appends)
        return keys, np.zeros(len(keys), np.int64)

    def rank(self, name: str, place: int, ranks: KeyRanks) -> tuple[int, ...]:
        """See `Keys`."""
        if name != _DIRTY:
            return ranks.of_operation(place)
        start = self.appends.orders.start
        key = int(np.searchsorted(start, place, side="right")) - 1
        return *ranks.of_key(key), place - int(start[key])


@dataclass(frozen=True, slots=True)
class _RegisterKeys:
    """Keys that hold registers."""

    transactions: Transactions
    registers: Registers

    @property
    def counts(self) -> Mapping[str, int]:
        """See `Keys`."""
        circles = sum(len(broken.versions) for broken in self.registers.broken)
        found = {name: len(places) for name, places in self.registers.found.items()}
        return {**found, _CYCLIC: circles} if circles else found

    @property
    def places(self) -> Mapping[str, Sequence[int]]:
        """Micro-operations; of cyclic-versions, numbers of circles, the first ones of each promise."""
        places: dict[str, Sequence[int]] = {
            name: found[:SHOWN_MOST].tolist() for name, found in self.registers.found.items()
        }
        first = 0
        for broken in self.registers.broken:
            circles = range(first, first + min(len(broken.versions), SHOWN_MOST))
            places[_CYCLIC] = [*places.get(_CYCLIC, ()), *circles]
            first += len(broken.versions)
        return places

    @property
    def evidence(self) -> Evidence:
        """See `Keys`."""
        return RegisterEvidence(self.transactions, self.registers)

    @property
    def broken(self) -> Sequence[str]:
        """See `Keys`."""
        return [broken.promise for broken in self.registers.broken]

    @property
    def unordered(self) -> int:
        """See `Keys`."""
        return version_order.unordered_keys(self.transactions, self.registers)

    def graph(self) -> Graph:
        """See `Keys`."""
        return version_order.graph_of(self.transactions, self.registers)

    def junctions(self) -> tuple[Longs, Longs]:
        """See `Keys`."""
        return version_order.junction_keys(self.transactions, self.registers)

    def rank(self, name: str, place: int, ranks: KeyRanks) -> tuple[int, ...]:
        """See `Keys`."""
        if name != _CYCLIC:
            return ranks.of_operation(place)
        promise, versions = self._circle(place)
        return TAKEN.index(promise), *ranks.of_key(self._key(versions)), place

    def _circle(self, number: int) -> tuple[version_order.Promise, Longs]:
        circles = [(broken.promise, versions) for broken in self.registers.broken for versions in broken.versions]
        return circles[number]

    def _key(self, versions: Longs) -> int:
        """Find the key of a circle: its versions are of one key, the initial state last."""
        last, initial = int(versions[-1]), self.registers.initial
        if last >= initial:
            return last - initial
        return int(np.searchsorted(self.registers.slots.base, int(versions[0]), side="right")) - 1
