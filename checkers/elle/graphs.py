"""Graphs: dependencies between transactions as flat arrays, and their strongly connected components.

Nodes below `real` are transactions; the others are junctions: "after this version of the key". An edge into a junction
has the kind of the dependency, an edge out of one is PASS, so that r readers and w writers need r + w edges instead of
r·w. A transaction that both reads a version and writes one after it may reach itself through a junction. That is no
cycle, and never hides or makes one: a path with the detour also exists without it. So a component counts only if it has
two transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from schemaquake.checkers.elle.arrays import Bytes, Ints, Longs
from schemaquake.harness.compiled import compiled

__all__ = ["ORDER", "PASS", "RW", "WR", "WW", "Graph", "bit", "components", "graph", "graph_of_stretches", "traverse"]


WW: Final = 0
WR: Final = 1
RW: Final = 2
ORDER: Final = 3  # one process' transactions in order, or real time
PASS: Final = 4


@dataclass(frozen=True, slots=True)
class Graph:
    """Edges sorted by source: those of node v are `start[v]:start[v + 1]` of `target` and `kind`."""

    real: int
    start: Longs
    target: Ints
    kind: Bytes

    @property
    def count(self) -> int:
        """The number of nodes, junctions included."""
        return len(self.start) - 1

    def source(self, nodes: int | None = None) -> Ints:
        """Compute the source of every edge, or of those of the first nodes, which come first."""
        count = self.count if nodes is None else nodes
        return np.repeat(np.arange(count, dtype=np.int32), np.diff(self.start[: count + 1]))


def graph(real: int, count: int, source: Ints, target: Ints, kind: Bytes) -> Graph:
    """Build the graph of those edges, in any order."""
    return graph_of_stretches(real, count, [(source, target, kind)])


def graph_of_stretches(real: int, count: int, stretches: Sequence[tuple[Ints, Ints, Bytes]]) -> Graph:
    """Build the graph of the edges of several stretches (source, target and kind of each). Edges of one source keep their order."""
    start = np.zeros(count + 2, np.int64)
    for source, _, _ in stretches:
        _counted(source, start)
    np.cumsum(start, out=start)
    edges = int(start[-1])
    target, kind = np.empty(edges, np.int32), np.empty(edges, np.int8)
    for stretch in stretches:
        _placed(*stretch, start, target, kind)
    return Graph(real, start[: count + 1], target, kind)


def bit(*kinds: int) -> int:
    """Encode a set of kinds of edges as a number."""
    return sum(1 << kind for kind in kinds)


def components(graph: Graph, kinds: int) -> Ints:
    """Number the strongly connected component of every node by edges of those kinds, −1 for all that have not two transactions.

    Numbered in reverse topological order: no edge leads from a smaller number to a larger one.
    """
    numbers, _ = traverse(graph.start, graph.target, graph.kind, kinds, np.arange(graph.count, dtype=np.int32))
    return only_real(numbers, graph.real)


def only_real(numbers: Ints, real: int) -> Ints:
    """Replace component numbers by −1 wherever a component has not two transactions; `real` nodes are transactions."""
    sizes = np.bincount(numbers[:real], minlength=1)
    if sizes.max() < 2:  # as with most histories
        return np.full(len(numbers), -1, np.int32)
    found: Ints = np.where(_at(sizes, numbers) >= 2, numbers, -1).astype(np.int32)
    return found


def _at(sizes: Longs, numbers: Ints) -> Longs:
    """Measure the size of each node's component; a component of junctions only has a number of its own, or none."""
    enough = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
    enough[: len(sizes)] = sizes[: len(enough)]
    return enough[numbers] if len(numbers) else numbers.astype(np.int64)


@compiled
def _counted(source: Ints, start: Longs) -> None:
    """Count the edges of each source, two places after its own."""
    for edge in range(len(source)):
        start[source[edge] + 2] += 1


@compiled
def _placed(source: Ints, target: Ints, kind: Bytes, start: Longs, sorted_target: Ints, sorted_kind: Bytes) -> None:
    """Put edges where those of their source go next, which is noted one place after its own."""
    for edge in range(len(source)):
        place = start[source[edge] + 1]
        sorted_target[place] = target[edge]
        sorted_kind[place] = kind[edge]
        start[source[edge] + 1] = place + 1


@compiled
def traverse(  # noqa: C901, PLR0915 - a compiled loop; its parts would have to hand on all of its arrays
    start: Longs, target: Ints, kind: Bytes, kinds: int, roots: Ints
) -> tuple[Ints, Ints]:
    """Tarjan's depth-first search from `roots`, in that order, by edges of `kinds` (bits).

    Returns for every node the number of its strongly connected component, in reverse topological order, and the root
    from which it was reached first. Nodes that no root reaches keep −1. Source: Tarjan 1972, without recursion.
    """
    count = len(start) - 1
    number = np.full(count, -1, np.int32)
    reached = np.full(count, -1, np.int32)
    low = np.zeros(count, np.int32)  # 0: not visited yet
    order = np.zeros(count, np.int32)
    edge = np.empty(count, np.int32)  # from the node's first one
    path = np.empty(count, np.int32)
    waiting = np.empty(count, np.int32)
    clock = 0
    found = 0
    for root in roots:
        if order[root] != 0:
            continue
        depth = 0
        waiting_count = 0
        path[0] = root
        clock += 1
        order[root] = low[root] = clock
        edge[root] = 0
        reached[root] = root
        while depth >= 0:
            node = path[depth]
            first, end = start[node], start[node + 1]
            at = first + edge[node]
            descended = False
            while at < end:
                if (kinds >> kind[at]) & 1:
                    other = target[at]
                    if order[other] == 0:
                        edge[node] = at + 1 - first
                        clock += 1
                        order[other] = low[other] = clock
                        edge[other] = 0
                        reached[other] = root
                        depth += 1
                        path[depth] = other
                        descended = True
                        break
                    if number[other] < 0 and order[other] < low[node]:
                        low[node] = order[other]
                at += 1
            if descended:
                continue
            depth -= 1
            waiting[waiting_count] = node
            waiting_count += 1
            if low[node] == order[node]:
                while waiting_count > 0 and order[waiting[waiting_count - 1]] >= order[node]:
                    waiting_count -= 1
                    number[waiting[waiting_count]] = found
                found += 1
            elif low[node] < low[path[depth]]:
                low[path[depth]] = low[node]
    return number, reached
