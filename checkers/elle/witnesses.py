"""Witnesses: the shortest cycle of a kind through an edge, and of several edges the shortest.

A cycle is searched breadth first from the target of one of its edges back to the source. Junctions cost nothing, so a
path is as long as it has transactions. In two layers ("the last edge was rw") a search never takes two rw in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from schemaquake.checkers.elle.arrays import Bytes, Ints, Longs
from schemaquake.checkers.elle.graphs import RW, WR, Graph
from schemaquake.harness.compiled import compiled, phase

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
        self._states = _States(
            seen=np.zeros(2 * graph.count, np.int64),
            parent=np.empty(2 * graph.count, np.int32),
            by=np.empty(2 * graph.count, np.int8),
            queue=np.empty(2 * graph.count, np.int32),
            junctions=np.empty(2 * graph.count, np.int32),
        )

    def through(self, edge: int, kinds: int, *, layered: bool, rank: Ints, most: int) -> tuple[Cycle | None, int]:
        """Find the shortest cycle of at most `most` transactions through an edge, and how many edges were looked at.

        All other edges are of `kinds` (bits). No path leads from a smaller `rank` to a larger one.
        """
        self._stamp += 2
        edges = _Edges(self.graph.start, self.graph.target, self.graph.kind, rank, self.graph.real)
        found, steps = _back(
            edges,
            self._states,
            kinds,
            layered,
            int(self.source[edge]),
            int(self.graph.target[edge]),
            most,
            self._stamp,
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
        while self._states.parent[at] >= 0:
            kinds.append(int(self._states.by[at]))
            at = int(self._states.parent[at])
            nodes.append(at % count)
        nodes.reverse()
        kinds.reverse()
        if len(set(nodes)) < len(nodes):
            return None
        # From the source of the edge along it, and the path back.
        return Cycle((nodes[-1], *nodes[:-1]), (int(self.graph.kind[edge]), *kinds))


class _Edges(NamedTuple):
    """The graph as arrays: the edges of node n are `start[n]:start[n + 1]`; nodes from `real` on are junctions.

    No path leads from a smaller `rank` to a larger one.
    """

    start: Longs
    target: Ints
    kind: Bytes
    rank: Ints
    real: int


class _States(NamedTuple):
    """The memory of a search, one entry per state: the stamp of the search that saw it, the state before, the kind of the edge.

    `queue` has the states in the order in which they are reached, `junctions` is a stack.
    """

    seen: Longs
    parent: Ints
    by: Bytes
    queue: Ints
    junctions: Ints


@compiled
def _back(
    edges: _Edges, states: _States, kinds: int, layered: bool, source: int, begin: int, most: int, stamp: int
) -> tuple[int, int]:
    """Find the state in which `source` is reached from `begin`, or −1; and how many edges were looked at.

    A state is a node, plus the number of nodes in the layer behind rw. The path has at most `most` transactions. Each state
    is queued once, so a search looks at each edge twice at most.
    """
    count = len(edges.start) - 1
    floor = edges.rank[source]
    tail, steps = _enter(edges, states, begin, source, count if layered else 0, stamp)
    head = 0
    depth = 1
    level = tail
    while head < tail and depth < most:
        if head == level:
            depth += 1
            level = tail
            continue
        state = states.queue[head]
        head += 1
        node = state % count
        behind = state >= count
        for edge in range(edges.start[node], edges.start[node + 1]):
            kind = edges.kind[edge]
            steps += 1
            if not (kinds >> kind) & 1 or (behind and kind == RW):
                continue
            layer = count if layered and kind == RW else 0
            other = edges.target[edge]
            if edges.rank[other] < floor or states.seen[other + layer] == stamp:
                continue
            states.seen[other + layer] = stamp
            if other < edges.real:
                tail = _reach(states, other + layer, state, kind, tail)
                if other == source and layer == 0:
                    return other, steps
                continue
            found, tail, steps = _pass_junctions(
                edges, states, other, layer, state, kind, source, floor, stamp, tail, steps
            )
            if found:
                return source, steps
    return -1, steps


@phase
def _reach(states: _States, reached: int, state: int, kind: int, tail: int) -> int:
    """Queue a state that was reached from another by an edge of a kind; returns the new end of the queue."""
    states.parent[reached] = state
    states.by[reached] = kind
    states.queue[tail] = reached
    return tail + 1


@phase
def _enter(edges: _Edges, states: _States, begin: int, source: int, layer: int, stamp: int) -> tuple[int, int]:
    """Queue the transactions at which a path can begin; returns their number, and how many edges were looked at.

    If `begin` is a junction, these are the transactions behind it except `source`, from which there would be no cycle.
    Such junctions stay unseen, since another transaction may well come to the source through them.
    """
    tail = 0
    steps = 0
    if begin < edges.real:
        states.seen[begin + layer] = stamp
        states.parent[begin + layer] = -1
        states.queue[tail] = begin + layer
        return 1, steps
    waiting = 1
    states.junctions[0] = begin
    states.seen[begin + layer] = stamp - 1
    while waiting:
        waiting -= 1
        junction = states.junctions[waiting]
        for edge in range(edges.start[junction], edges.start[junction + 1]):
            steps += 1
            other = edges.target[edge]
            if other >= edges.real:
                if states.seen[other + layer] < stamp - 1:
                    states.seen[other + layer] = stamp - 1
                    states.junctions[waiting] = other
                    waiting += 1
            elif other != source and states.seen[other + layer] != stamp:
                states.seen[other + layer] = stamp
                states.parent[other + layer] = -1
                states.queue[tail] = other + layer
                tail += 1
    return tail, steps


@phase
def _pass_junctions(
    edges: _Edges,
    states: _States,
    first: int,
    layer: int,
    state: int,
    kind: int,
    source: int,
    floor: int,
    stamp: int,
    tail: int,
    steps: int,
) -> tuple[bool, int, int]:
    """Queue every transaction behind a junction; returns whether one is `source`, the end of the queue, and the steps."""
    waiting = 1
    states.junctions[0] = first
    while waiting:
        waiting -= 1
        junction = states.junctions[waiting]
        for edge in range(edges.start[junction], edges.start[junction + 1]):
            steps += 1
            other = edges.target[edge]
            if edges.rank[other] < floor or states.seen[other + layer] == stamp:
                continue
            states.seen[other + layer] = stamp
            if other >= edges.real:
                states.junctions[waiting] = other
                waiting += 1
                continue
            tail = _reach(states, other + layer, state, kind, tail)
            if other == source and layer == 0:
                return True, tail, steps
    return False, tail, steps
