"""Witnesses: the shortest cycle of a kind through an edge, and of several edges the shortest.

A cycle is searched breadth first from the target of one of its edges back to the source. Junctions cost nothing, so a
path is as long as it has transactions. In two layers ("the last edge was rw") a search never takes two rw in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from schemaquake.checkers.elle.arrays import Bytes, Ints, Longs
from schemaquake.checkers.elle.compiled import compiled
from schemaquake.checkers.elle.graphs import RW, WR, Graph

__all__ = ["Cycle", "Search", "base_kind"]


_STEPS: Final = 3_000_000  # edges that may be looked at for the sake of a shorter cycle once there is one


@dataclass(frozen=True, slots=True)
class Cycle:
    """A simple cycle: `kinds[i]` is the edge from `nodes[i]` to the next one, the last leads back to the first."""

    nodes: tuple[int, ...]
    kinds: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.nodes)


def base_kind(kinds: Iterable[int]) -> str:
    """Name the kind of a cycle of such edges, leaving process and real time aside."""
    edges = list(kinds)
    reads = [kind == RW for kind in edges]
    if not any(reads):
        return "G1c" if WR in edges else "G0"
    if sum(reads) == 1:
        return "G-single-item"
    adjacent = any(one and other for one, other in zip(reads, reads[1:] + reads[:1], strict=True))
    return "G2-item" if adjacent else "G-nonadjacent-item"


class Search:
    """Searches in one graph; what they need to remember is kept from one to the next."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.source = graph.source()
        self._stamp = 0
        self._seen = np.zeros(2 * graph.count, np.int64)
        self._parent = np.empty(2 * graph.count, np.int32)
        self._by = np.empty(2 * graph.count, np.int8)
        self._queue = np.empty(2 * graph.count, np.int32)
        self._junctions = np.empty(2 * graph.count, np.int32)

    def through(self, edge: int, kinds: int, *, layered: bool, rank: Ints, most: int) -> tuple[Cycle | None, int]:
        """Find the shortest cycle of at most `most` transactions through an edge, and how many edges were looked at.

        All other edges are of `kinds` (bits). No path leads from a smaller `rank` to a larger one.
        """
        self._stamp += 2
        found, steps = _back(
            self.graph.start,
            self.graph.target,
            self.graph.kind,
            self.graph.real,
            kinds,
            layered,
            int(self.source[edge]),
            int(self.graph.target[edge]),
            most,
            rank,
            self._stamp,
            self._seen,
            self._parent,
            self._by,
            self._queue,
            self._junctions,
        )
        return (None if found < 0 else self._cycle_from(edge, found)), steps

    def shortest(
        self, edges: Iterable[int], kinds: int, *, layered: bool, rank: Ints, deadline: Callable[[], bool]
    ) -> tuple[Cycle | None, bool]:
        """Find the shortest cycle through any of the edges that was found, and whether all edges were tried to the end."""
        best: Cycle | None = None
        left = _STEPS
        for edge in edges:
            if left < 0 or deadline():
                return best, False
            most = self.graph.real if best is None else len(best) - 1
            cycle, steps = self.through(edge, kinds, layered=layered, rank=rank, most=most)
            if cycle is not None:
                best = cycle
                if len(best) == 2:
                    break
            left -= steps if best is not None else 0
        return best, True

    def _cycle_from(self, edge: int, found: int) -> Cycle | None:
        """Find the cycle whose last state is `found`; None if it passes a transaction twice."""
        count = self.graph.count
        nodes = [found % count]
        kinds: list[int] = []
        at = found
        while self._parent[at] >= 0:
            kinds.append(int(self._by[at]))
            at = int(self._parent[at])
            nodes.append(at % count)
        nodes.reverse()
        kinds.reverse()
        if len(set(nodes)) < len(nodes):
            return None
        # From the source of the edge along it, and the path back.
        return Cycle((nodes[-1], *nodes[:-1]), (int(self.graph.kind[edge]), *kinds))


@compiled
def _back(  # noqa: C901, PLR0912, PLR0915 - a compiled loop; its parts would have to hand on all of its arrays
    start: Longs,
    target: Ints,
    kind: Bytes,
    real: int,
    kinds: int,
    layered: bool,
    source: int,
    begin: int,
    most: int,
    rank: Ints,
    stamp: int,
    seen: Longs,
    parent: Ints,
    by: Bytes,
    queue: Ints,
    junctions: Ints,
) -> tuple[int, int]:
    """Find the state in which `source` is reached from `begin`, or −1; and how many edges were looked at.

    A state is a node, plus the number of nodes in the layer behind rw. The path has at most `most` transactions.
    """
    count = len(start) - 1
    layer = count if layered else 0
    floor = rank[source]
    steps = 0
    tail = 0
    if begin < real:
        state = begin + layer
        seen[state] = stamp
        parent[state] = -1
        queue[tail] = state
        tail += 1
    else:
        # Whatever the junction leads to, but not back to the source: that would be no cycle. These junctions stay
        # unseen, since another transaction may well come to the source through them.
        waiting = 1
        junctions[0] = begin
        seen[begin + layer] = stamp - 1
        while waiting:
            waiting -= 1
            at = junctions[waiting]
            for edge in range(start[at], start[at + 1]):
                steps += 1
                other = target[edge]
                if other >= real:
                    if seen[other + layer] < stamp - 1:
                        seen[other + layer] = stamp - 1
                        junctions[waiting] = other
                        waiting += 1
                elif other != source and seen[other + layer] != stamp:
                    seen[other + layer] = stamp
                    parent[other + layer] = -1
                    queue[tail] = other + layer
                    tail += 1
    head = 0
    depth = 1
    level = tail
    while head < tail and depth < most:
        if head == level:
            depth += 1
            level = tail
            continue
        state = queue[head]
        head += 1
        node = state % count
        behind = state >= count
        for edge in range(start[node], start[node + 1]):
            of = kind[edge]
            steps += 1
            if not (kinds >> of) & 1 or (behind and of == 2):
                continue
            into = count if layered and of == 2 else 0
            waiting = 0
            other = target[edge]
            if rank[other] < floor:
                continue
            if other >= real:
                if seen[other + into] == stamp:
                    continue
                seen[other + into] = stamp
                junctions[0] = other
                waiting = 1
            elif seen[other + into] != stamp:
                seen[other + into] = stamp
                parent[other + into] = state
                by[other + into] = of
                if other == source and into == 0:
                    return other, steps
                queue[tail] = other + into
                tail += 1
            while waiting:
                waiting -= 1
                at = junctions[waiting]
                for way in range(start[at], start[at + 1]):
                    steps += 1
                    beyond = target[way]
                    if rank[beyond] < floor or seen[beyond + into] == stamp:
                        continue
                    seen[beyond + into] = stamp
                    if beyond >= real:
                        junctions[waiting] = beyond
                        waiting += 1
                        continue
                    parent[beyond + into] = state
                    by[beyond + into] = of
                    if beyond == source and into == 0:
                        return beyond, steps
                    queue[tail] = beyond + into
                    tail += 1
    return -1, steps
