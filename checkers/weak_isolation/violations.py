"""Violations: where the axioms lead in circles, and the shortest circle of each place.

What a weaker level prohibits is reported as that, and its transactions are not reported again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from schemaquake.checkers.elle.arrays import Bytes, Ints
from schemaquake.checkers.elle.graphs import ORDER, PASS, WR, WW, bit, components, graph
from schemaquake.checkers.elle.witnesses import Cycle, Search
from schemaquake.checkers.weak_isolation.axioms import EARLIER, LATER, READER
from schemaquake.checkers.weak_isolation.levels import CYCLES, Level
from schemaquake.checkers.weak_isolation.readings import INITIAL, Readings

__all__ = ["AXIOM", "KNOWN", "Broken", "Circle", "Violations"]

AXIOM: Final = 5
"""The kind of an edge that follows from an axiom, beside those of `schemaquake.checkers.elle.graphs`."""
KNOWN: Final = -1
"""The reader of a step that needs none: of the order of elements in a list."""

_SHOWN_MOST: Final = 8  # of one kind; the others are counted
_KINDS: Final = bit(WW, WR, ORDER, PASS, AXIOM)


@dataclass(frozen=True, slots=True)
class Circle:
    """A cycle, how many transactions hang together by such cycles, and whether none of them is shorter."""

    name: str
    level: Level
    cycle: Cycle
    component: int
    shortest: bool


@dataclass(frozen=True, slots=True)
class Broken:
    """An axiom broken at once: a read of a key in its initial state by a transaction that saw a writer of it."""

    name: str
    level: Level
    earlier: int
    reader: int
    key: int


class Violations:
    """All that is found, level by level: how many of each name, the first few of them, and the weakest level of all."""

    def __init__(self, readings: Readings, *, late: Callable[[], bool]) -> None:
        self.counts: dict[str, int] = {}
        self.circles: list[Circle] = []
        self.broken: list[Broken] = []
        self.weakest: Level | None = None
        self._readings = readings
        self._late = late
        self._reported = np.zeros(len(readings.before), np.bool_)
        self._readers: set[tuple[int, int]] = set()

    def add(self, name: str, level: Level, more: int) -> None:
        """Count so many more of a name. Called with those of the weakest level first."""
        if more:
            self.counts[name] = self.counts.get(name, 0) + more
            self.weakest = self.weakest or level

    def of_dependencies(self, known: Ints) -> None:
        """Tell of cycles that need no axiom: those without sessions first. `known` are the steps of lists."""
        if len(known):
            self._circles("G0", "read-committed", self._edges(known, reads=False, sessions=False), WW)
        self._circles("G1c", "read-committed", self._edges(known, reads=True, sessions=False), WR)
        if len(known):
            self._circles("G0-process", "read-committed", self._edges(known, reads=False, sessions=True), WW)
        self._circles("G1c-process", "read-committed", self._edges(known, reads=True, sessions=True), WR)

    def of_axiom(self, level: Level, steps: Ints) -> None:
        """Tell what the steps of a level show. Called with those of the weakest level first."""
        name = CYCLES[level]
        new = {
            (reader, key): earlier
            for earlier, _, reader, key in steps[steps[:, LATER] == INITIAL].tolist()
            if (reader, key) not in self._readers
        }
        self._readers |= set(new)
        self.add(name, level, len(new))
        self.broken += [
            Broken(name, level, earlier, reader, key) for (reader, key), earlier in list(new.items())[:_SHOWN_MOST]
        ]
        self._circles(name, level, self._edges(steps, reads=True, sessions=True), AXIOM)

    def _edges(self, steps: Ints, *, reads: bool, sessions: bool) -> tuple[Ints, Ints, Bytes]:
        """Steps, and where asked for, reads and sessions, as edges: source, target, kind."""
        of = self._readings
        steps = steps[steps[:, LATER] != INITIAL]
        found = [(steps[:, EARLIER], steps[:, LATER], np.where(steps[:, READER] == KNOWN, WW, AXIOM).astype(np.int8))]
        if reads:
            chosen = of.read_from != INITIAL
            reader = np.repeat(np.arange(len(of.before), dtype=np.int32), np.diff(of.read_first))[chosen]
            found.append((of.read_from[chosen], reader, np.full(len(reader), WR, np.int8)))
        if sessions:
            after = np.flatnonzero(of.before >= 0).astype(np.int32)
            found.append((of.before[after], after, np.full(len(after), ORDER, np.int8)))
        source, target, kind = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return source, target, kind

    def _circles(self, name: str, level: Level, edges: tuple[Ints, Ints, Bytes], sort: int) -> None:
        """Report every component without transactions reported before. Each cycle in it has an edge of that sort."""
        source, target, kind = edges
        count = len(self._readings.before)
        numbers = components(graph(count, count, source, target, kind), _KINDS)
        numbers[np.isin(numbers, np.unique(numbers[self._reported]))] = -1
        nodes = np.flatnonzero(numbers >= 0)
        if not len(nodes):
            return
        self._reported[nodes] = True
        inside = (numbers[source] >= 0) & (numbers[source] == numbers[target])
        source, target, kind = source[inside], target[inside], kind[inside]
        names, sizes = np.unique(numbers[nodes], return_counts=True)
        self.add(name, level, len(names))
        for number in names[np.argsort(sizes, kind="stable")][:_SHOWN_MOST].tolist():
            own = numbers[source] == number
            members = np.flatnonzero(numbers == number).astype(np.int32)
            found = _shortest(members, source[own], target[own], kind[own], sort, self._late)
            if found is not None:
                self.circles.append(Circle(name, level, found[0], len(members), found[1]))


def _shortest(
    members: Ints, source: Ints, target: Ints, kind: Bytes, sort: int, late: Callable[[], bool]
) -> tuple[Cycle, bool] | None:
    """Find the shortest cycle of a component, and whether all were looked at. However many of a session make one step."""
    one, other = np.searchsorted(members, source), np.searchsorted(members, target)
    count = len(members)
    ordered = kind == ORDER
    # Each transaction leads to a junction that leads to the next one and to that one's junction.
    has_next = np.zeros(count, np.bool_)
    has_next[one[ordered]] = True
    junction = np.where(has_next, count + np.cumsum(has_next) - 1, -1)
    on = ordered & (junction[other] >= 0)
    parts = [
        (one[~ordered], other[~ordered], kind[~ordered]),
        (np.flatnonzero(has_next), junction[has_next], np.full(int(has_next.sum()), ORDER, np.int8)),
        (junction[one[ordered]], other[ordered], np.full(int(ordered.sum()), PASS, np.int8)),
        (junction[one[on]], junction[other[on]], np.full(int(on.sum()), PASS, np.int8)),
    ]
    sources, targets, kinds = (np.concatenate(column) for column in zip(*parts, strict=True))
    search = Search(
        graph(count, count + int(has_next.sum()), sources.astype(np.int32), targets.astype(np.int32), kinds)
    )
    candidates = np.flatnonzero(search.graph.kind == sort)
    flat = np.zeros(search.graph.count, np.int32)
    cycle, complete = search.shortest(candidates.tolist(), _KINDS, layered=False, rank=flat, deadline=late)
    if cycle is None:
        return None
    return Cycle(tuple(int(members[node]) for node in cycle.nodes), cycle.kinds), complete
