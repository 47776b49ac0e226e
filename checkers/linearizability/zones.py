"""Zones: registers in which no value is written twice, decided in O(n log n), all keys at once.

After Gibbons and Korach (Testing shared memories, SIAM J. Comput. 1997). A *cluster* is a write and the reads that
return its value. Its *zone* lies between the earliest completion f and the latest invocation s of its calls: *forward*
if f < s, then the register must hold the value from f to s; otherwise *backward*, then one moment in [s, f] is enough.
A register is linearizable iff no read ends before its write begins, no two forward zones of a key overlap, and no
backward zone lies inside a forward one.

A swap from a to b writes b, and follows the cluster of a directly, so clusters that are tied by swaps are one block in
a fixed order: no call of the block may end before one of an earlier cluster begins, and the block has one zone.
The initial value is a write before all time; a write of unknown outcome is left out unless a call saw it.
Intervals are closed: what shares an instant may be ordered either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from schemaquake.checkers.linearizability.register_calls import CAS, NEVER, READ, WRITE, Calls, counted
from schemaquake.harness.history.distinct import distinct

__all__ = ["Refutation", "refuted", "with_unique_writes"]

_Numbers: TypeAlias = npt.NDArray[np.int64]
_Positions: TypeAlias = npt.NDArray[np.signedinteger[Any]]
"""Of calls or clusters, in four bytes where there are many of them."""
_Mask: TypeAlias = npt.NDArray[np.bool_]

_ALWAYS: Final = -NEVER
_DENSE: Final = 4  # a table with so many times as many cells as there are writes is no waste


@dataclass(frozen=True, slots=True)
class Refutation:
    """Why one key has no order. `calls` are positions in the calls that were asked about.

    unwritten: (reader or swap,) · early: (write, read that ended before it began) · twice: (swap, swap from one version)
    · circle: (swap, …) · backwards: (later call of the block, which ended before; earlier call began) · overlap: (f and
    s of one zone, f and s of the other) · inside: (f and s of the forward zone, s and f of the backward one)
    """

    key: int
    kind: Literal["unwritten", "early", "twice", "circle", "backwards", "overlap", "inside"]
    calls: tuple[int, ...]


def with_unique_writes(calls: Calls, initial: int) -> _Mask:
    """Tell for each key whether no value is written twice, nor the initial one at all, and no failed swap counts."""
    unique = np.ones(len(calls.keys), bool)
    writes = (calls.kind == WRITE) | (calls.kind == CAS)
    unique[calls.key[writes & (calls.value == initial)]] = False
    unique[calls.key[calls.kind > CAS]] = False
    at = np.flatnonzero(writes)
    key, value = calls.key[at], calls.value[at]
    cells = _Cells.of(key, value, len(calls.keys))
    if cells is not None:
        if not cells.shared:
            cell, _ = cells.at(key, value)
            unique[key[np.bincount(cell, minlength=1)[cell] > 1]] = False
        return unique
    order = np.lexsort((value, key))
    same = (np.diff(key[order]) == 0) & (np.diff(value[order]) == 0)
    unique[key[order][1:][same]] = False
    return unique


@dataclass(frozen=True, slots=True)
class _Cells:
    """A cell of a table for every value written to a key. Shared: no value is written twice, whatever the key."""

    shared: bool
    base: _Numbers  # the first cell of each key
    low: _Numbers  # the value that it is for
    size: _Numbers

    @classmethod
    def of(cls, key: npt.NDArray[np.int32], value: _Numbers, keys: int) -> _Cells | None:
        """Build the table; None if values lie so far apart that it would be a waste."""
        most = _DENSE * len(value) + (1 << 16)
        low, high = int(value.min(initial=NEVER)), int(value.max(initial=-NEVER))
        if high - low < most and (len(value) == 0 or np.bincount(value - low).max() == 1):
            one = np.zeros(1, np.int64)
            return cls(True, one, one + low, one + max(high - low + 1, 0))
        lows, highs = np.full(keys, NEVER), np.full(keys, -NEVER)
        np.minimum.at(lows, key, value)
        np.maximum.at(highs, key, value)
        # In floating point, since values may be 2⁶⁴ apart.
        if np.maximum(highs.astype(float) - lows + 1, 0).sum() >= most:
            return None
        size = np.where(lows <= highs, highs - lows + 1, 0)
        return cls(False, np.cumsum(size) - size, lows, size)

    @property
    def count(self) -> int:
        """The number of cells."""
        return int(self.base[-1] + self.size[-1])

    def at(self, key: npt.NDArray[np.int32], value: _Numbers) -> tuple[_Numbers, _Mask]:
        """Find the cell of each value: (the cell, True where it has one)."""
        base, low, size = ((of_key[0] if self.shared else of_key[key]) for of_key in (self.base, self.low, self.size))
        # Not by a difference first: null is as far below all numbers as there is.
        known = (value >= low) & (value <= low + (size - 1))
        return np.where(known, value - low + base, 0), known


class _Clusters:
    """Every version of every key: the initial one of key k is cluster k, then one for each write or swap."""

    def __init__(self, calls: Calls, initial: int) -> None:
        writes = np.flatnonzero((calls.kind == WRITE) | (calls.kind == CAS))
        self._initial = initial
        self._keys = len(calls.keys)
        always = np.full(self._keys, _ALWAYS)
        self.writer = np.concatenate([np.full(self._keys, -1), writes]).astype(np.int32)  # position of the call
        self.key = np.concatenate([np.arange(self._keys, dtype=np.int32), calls.key[writes]])
        self.begins = np.concatenate([always, calls.begins[writes]])
        self.ends = np.concatenate([always, calls.ends[writes]])
        self.written = np.concatenate([np.ones(self._keys, bool), calls.required[writes]])
        key, value = calls.key[writes], calls.value[writes]
        self._cells = _Cells.of(key, value, self._keys)
        if self._cells is not None:
            self._table = np.full(max(self._cells.count, 1), -1, np.int32)
            self._table[self._cells.at(key, value)[0]] = np.arange(self._keys, len(self.key))
            return
        self._distinct = distinct(value)
        places = key * np.int64(len(self._distinct)) + np.searchsorted(self._distinct, value)
        self._order = np.argsort(places)
        self._places = places[self._order]

    def of(self, key: npt.NDArray[np.int32], value: _Numbers) -> _Positions:
        """Find the cluster of each (key, value); −1: not written. By a table where there is one, else by a sorted list."""
        if self._cells is not None:
            cell, known = self._cells.at(key, value)
            found: _Positions = self._table[cell]
            known &= self.key[found] == key  # the last one, where there is none: it is not known anyway
            known &= found >= 0
        else:
            among = np.minimum(np.searchsorted(self._distinct, value), len(self._distinct) - 1)
            place = key * np.int64(len(self._distinct)) + among
            at = np.minimum(np.searchsorted(self._places, place), len(self._places) - 1)
            known = (self._distinct[among] == value) & (self._places[at] == place)
            found = self._order[at] + self._keys
        return np.where(value == self._initial, key, np.where(known, found, -1)).astype(np.int32)


def refuted(calls: Calls, initial: int) -> list[Refutation]:
    """Why keys have no order, one reason a key at most; none for a key that has one.

    Every key must be `with_unique_writes`.
    """
    if not len(calls):
        return []
    reads = np.flatnonzero(calls.kind == READ)
    swaps = np.flatnonzero(calls.kind == CAS)
    clusters = _Clusters(calls, initial)
    keys = len(calls.keys)
    target = np.full(len(calls), -1, np.int32)
    target[clusters.writer[keys:]] = np.arange(keys, len(clusters.writer))
    seen = clusters.of(calls.key[reads], calls.value[reads])
    source = clusters.of(calls.key[swaps], calls.old[swaps])
    refutations = _Refutations(calls)
    for read in reads[seen < 0]:
        refutations.add("unwritten", int(read))
    reads, seen = reads[seen >= 0], seen[seen >= 0]
    included = _included(clusters, seen, swaps, source, target)
    taken = included[target[swaps]]
    for swap in swaps[taken & (source < 0)]:
        refutations.add("unwritten", int(swap))
    taken &= source >= 0
    swaps, source = swaps[taken], source[taken]
    early = calls.ends[reads] < clusters.begins[seen]
    for read in reads[early]:
        refutations.add(
            "early", int(clusters.writer[clusters.of(calls.key[[read]], calls.value[[read]])[0]]), int(read)
        )
    _refute_two_swaps(refutations, swaps, source)

    latest, last = _extreme(clusters.begins, clusters.writer, seen, calls.begins, reads, np.maximum)
    earliest, first = _extreme(clusters.ends, clusters.writer, seen, calls.ends, reads, np.minimum)
    if len(swaps):
        block = _blocks(refutations, clusters, source, target[swaps], (latest, last), (earliest, first))
        latest, last = _extreme_of_blocks(block, latest, last, np.maximum)
        earliest, first = _extreme_of_blocks(block, earliest, first, np.minimum)
        included &= block == np.arange(len(block))
    _refute_zones(refutations, clusters, np.flatnonzero(included), latest, last, earliest, first)
    return refutations.found


class _Refutations:
    """Refutations, the first one found of each key."""

    def __init__(self, calls: Calls) -> None:
        self._key = calls.key
        self._keys: set[int] = set()
        self.found: list[Refutation] = []

    def add(self, kind: str, *at: int) -> None:
        key = int(self._key[next(call for call in at if call >= 0)])
        if key not in self._keys:
            self._keys.add(key)
            self.found.append(Refutation(key, kind, at))  # type: ignore[arg-type]  # our own words


def _included(
    clusters: _Clusters, seen: _Positions, swaps: _Positions, source: _Positions, target: _Positions
) -> _Mask:
    """Tell which versions there certainly were: written for certain, or seen, or swapped away by a swap that was."""
    included = clusters.written.copy()
    included[seen] = True
    while True:
        needed = source[included[target[swaps]] & (source >= 0)]
        if included[needed].all():
            return included
        included[needed] = True


def _refute_two_swaps(refutations: _Refutations, swaps: _Positions, source: _Positions) -> None:
    if len(swaps) < 2:
        return
    order = np.argsort(source, kind="stable")
    twice = np.flatnonzero(np.diff(source[order]) == 0)
    for at in twice:
        refutations.add("twice", int(swaps[order[at]]), int(swaps[order[at + 1]]))


def _extreme(
    of_writer: _Numbers, writer: _Positions, seen: _Positions, of_call: _Numbers, reads: _Positions, better: np.ufunc
) -> tuple[_Numbers, _Positions]:
    """Find the latest beginning (or earliest end) of each cluster, and the call that has it (−1: the initial write)."""
    extreme = of_writer.copy()
    better.at(extreme, seen, of_call[reads])
    who = writer.copy()
    from_read = of_call[reads] == extreme[seen]
    # Where the write has it as well, the read is as good a witness.
    who[seen[from_read]] = reads[from_read]
    return extreme, who


def _blocks(
    refutations: _Refutations,
    clusters: _Clusters,
    source: _Positions,
    target: _Positions,
    latest: tuple[_Numbers, _Positions],
    earliest: tuple[_Numbers, _Positions],
) -> _Positions:
    """Find for each cluster the first one of its block. Refutes keys whose blocks are circular or against real time.

    By pointer jumping: `before` leads ever farther back, with the latest beginning on the way there.
    """
    before = np.arange(len(clusters.key), dtype=np.int32)
    before[target] = source
    begun, who = latest[0].copy(), latest[1].copy()
    inner = np.zeros(len(before), bool)
    inner[target] = True
    moving = target
    for _ in range(len(target).bit_length() + 1):
        further = before[before[moving]]
        over = begun[before[moving]]
        gains = over > begun[moving]
        # All of a round read what the round before left.
        taken_over, bearer = np.where(gains, over, begun[moving]), np.where(gains, who[before[moving]], who[moving])
        ended = ~inner[before[moving]]
        begun[moving], who[moving], before[moving] = taken_over, bearer, further
        moving = moving[~ended]
        if not len(moving):
            break
    for cluster in moving:
        refutations.add("circle", int(clusters.writer[cluster]))
    against = earliest[0][target] < begun[source]
    for at in np.flatnonzero(against):
        refutations.add("backwards", int(earliest[1][target[at]]), int(who[source[at]]))
    return before


def _extreme_of_blocks(
    block: _Positions, of_cluster: _Numbers, who: _Positions, better: np.ufunc
) -> tuple[_Numbers, _Positions]:
    extreme = of_cluster.copy()
    inner = np.flatnonzero(block != np.arange(len(block)))
    better.at(extreme, block[inner], of_cluster[inner])
    bearer = who.copy()
    has = inner[of_cluster[inner] == extreme[block[inner]]]
    bearer[block[has]] = who[has]
    return extreme, bearer


def _refute_zones(
    refutations: _Refutations,
    clusters: _Clusters,
    which: _Positions,
    latest: _Numbers,
    last: _Positions,
    earliest: _Numbers,
    first: _Positions,
) -> None:
    s, f = latest[which], earliest[which]
    forward = f < s
    point = np.where(forward, f, s)
    # By key and point; a backward zone that begins where a forward one does comes first: it is not inside.
    order = np.lexsort((forward, point))
    order = order[np.argsort(counted(clusters.key[which][order]), kind="stable")]
    s, f, forward, zone = s[order], f[order], forward[order], which[order]
    key = clusters.key[zone]
    preceding = np.maximum.accumulate(np.where(forward, np.arange(len(order)), -1))
    preceding = np.concatenate([[-1], preceding[:-1]])
    holds = (preceding >= 0) & (key[preceding] == key)
    overlap = holds & forward & (f < s[preceding])
    inside = holds & ~forward & (f < s[preceding])
    for kind, found in (("overlap", overlap), ("inside", inside)):
        for at in np.flatnonzero(found):
            one, other = zone[preceding[at]], zone[at]
            refutations.add(kind, int(first[one]), int(last[one]), int(first[other]), int(last[other]))
