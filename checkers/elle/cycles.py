"""Cycles: which kinds there are among transactions, component by component, without ever building the real-time edges.

Real time breaks an order only where A(v), the latest invocation that reaches some v, is later than the completion of v
(`schemaquake.checkers.elle.reach` has the theorem). A search from the last invoked transaction on to the first one finds A
and the components of the dependencies in one pass, linear in the edges. Only where there is a cycle is real time made
explicit: a chain of junctions, one a completion.

A component's kinds are found from the worst to the least: special cases of a kind already found are left out.
Kinds that need an order (process, real time) are looked for in the components of dependencies and order together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from schemaquake.checkers.elle.arrays import Bytes, Ints, Longs
from schemaquake.checkers.elle.graphs import ORDER, PASS, RW, WR, WW, Graph, bit, components, graph, only_real, traverse
from schemaquake.checkers.elle.models import Order, implied_by
from schemaquake.checkers.elle.transactions import FAIL, NEVER, Transactions
from schemaquake.checkers.elle.witnesses import Cycle, Search, base_kind
from schemaquake.harness.compiled import compiled, working_time

__all__ = ["Cycles", "Found", "find_cycles", "process_edges"]


_DEPENDENCIES: Final = bit(WW, WR, RW, PASS)
_ALL: Final = bit(WW, WR, RW, PASS, ORDER)
_NO_RW: Final = bit(WW, WR, PASS, ORDER)
_WW_ONLY: Final = bit(WW, PASS, ORDER)
_DENSE: Final = 4  # a table over the rows of the history may be this many times as long as there are transactions
_WITNESSES_MOST: Final = 8  # of one kind; components beyond it are counted

_UNDECIDED: Final = {
    "": "PL-SI-cycle-exists",
    "-process": "strong-session-snapshot-isolation-cycle-exists",
    "-realtime": "strong-snapshot-isolation-cycle-exists",
}


@dataclass(frozen=True, slots=True)
class Found:
    """One cycle: what it is, its transactions and edges, how large its component is, and whether none is shorter."""

    kind: str
    cycle: Cycle
    component: int
    shortest: bool


@dataclass(slots=True)
class Cycles:
    """Every kind of cycle with the number of components that have it, witnesses of some, and what was not decided."""

    counts: dict[str, int] = field(default_factory=dict)
    witnesses: list[Found] = field(default_factory=list)
    undecided: set[str] = field(default_factory=set)
    late: bool = False

    def add(self, found: Found) -> None:
        """Count one component's kind, and keep the witness if there are not many of them yet."""
        self.counts[found.kind] = self.counts.get(found.kind, 0) + 1
        if self.counts[found.kind] <= _WITNESSES_MOST:
            self.witnesses.append(found)


def find_cycles(transactions: Transactions, dependencies: Graph, order: Order | None, *, deadline: float) -> Cycles:
    """Find the cycles among transactions by dependencies, and where `order` is asked for, by dependencies and order.

    `deadline` is one of `working_time`; what was not looked at until then makes the answer `late` or undecided.
    """
    cycles = Cycles()
    dependent = _joined(dependencies, *process_edges(transactions)) if order == "process" else dependencies
    latest_first = _latest_first(transactions.invoked)
    numbers, reached = traverse(dependent.start, dependent.target, dependent.kind, _ALL, latest_first)
    numbers = only_real(numbers, transactions.count)
    violated = order == "realtime" and bool(
        (transactions.invoked[reached[: transactions.count]] > transactions.completed).any()
    )
    if not violated and not (numbers >= 0).any():
        return cycles
    late = _deadline(deadline)
    plain = components(dependencies, _DEPENDENCIES) if order == "process" else numbers
    kinds = _kinds_within(dependencies, plain, "", {}, cycles, late)
    if order == "process":
        _kinds_within(dependent, numbers, "-process", kinds, cycles, late)
    elif violated:
        timed = _joined(dependencies, *_real_time_edges(transactions, dependencies.count))
        _kinds_within(timed, components(timed, _ALL), "-realtime", kinds, cycles, late)
    return cycles


def _latest_first(invoked: Ints) -> Ints:
    """List the transactions from the one invoked last on."""
    rows = int(invoked.max(initial=-1)) + 1
    if rows < _DENSE * len(invoked) + 1024:
        return _from_last_row(invoked, rows)
    return np.argsort(invoked, kind="stable")[::-1].astype(np.int32)


@compiled
def _from_last_row(invoked: Ints, rows: int) -> Ints:
    at = np.full(rows, -1, np.int32)
    for t in range(len(invoked)):
        at[invoked[t]] = t
    order = np.empty(len(invoked), np.int32)
    done = len(invoked)
    for row in range(len(at)):
        if at[row] >= 0:
            done -= 1
            order[done] = at[row]
    return order


def process_edges(transactions: Transactions) -> tuple[int, Ints, Ints, Bytes]:
    """Link each transaction of a process that may have happened to its next one: (no junctions, source, target, kind)."""
    chosen = np.flatnonzero(transactions.status != FAIL)
    chosen = chosen[np.lexsort((transactions.invoked[chosen], transactions.process[chosen]))].astype(np.int32)
    same = transactions.process[chosen[1:]] == transactions.process[chosen[:-1]]
    source, target = chosen[:-1][same], chosen[1:][same]
    return 0, source, target, np.full(len(source), ORDER, np.int8)


def _real_time_edges(transactions: Transactions, count: int) -> tuple[int, Ints, Ints, Bytes]:
    """Build the interval order as a chain of junctions, one for each completion: (junctions, source, target, kind)."""
    ends = np.flatnonzero(transactions.completed != NEVER)
    ends = ends[transactions.status[ends] != FAIL].astype(np.int32)
    links = (count + np.arange(len(ends))).astype(np.int32)
    begins = np.flatnonzero(transactions.status != FAIL).astype(np.int32)
    before = np.searchsorted(transactions.completed[ends], transactions.invoked[begins]) - 1
    begins, before = begins[before >= 0], before[before >= 0]
    source = np.concatenate([ends, links[:-1], links[before]])
    target = np.concatenate([links, links[1:], begins])
    kind = np.full(len(source), PASS, np.int8)
    kind[: len(ends)] = ORDER
    return len(ends), source, target, kind


def _joined(base: Graph, junctions: int, source: Ints, target: Ints, kind: Bytes) -> Graph:
    """Add edges and junctions to a graph."""
    return graph(
        base.real,
        base.count + junctions,
        np.concatenate([base.source(), source]),
        np.concatenate([base.target, target]),
        np.concatenate([base.kind, kind]),
    )


def _deadline(deadline: float) -> Callable[[], bool]:
    return lambda: working_time() > deadline


def _kinds_within(
    graph: Graph, numbers: Ints, suffix: str, known: dict[int, set[str]], cycles: Cycles, late: Callable[[], bool]
) -> dict[int, set[str]]:
    """Tell the kinds of every component of `numbers`; return transaction → kinds of its component.

    `known` are the kinds of the components without the order of `suffix`; only kinds with it are found then.
    """
    kinds: dict[int, set[str]] = {}
    if not (numbers >= 0).any():
        return kinds
    core = _Core(graph, numbers)
    for component in core.smallest_first():
        if late():
            cycles.late = True
            break
        nodes = core.transactions(component)
        worse = set().union(*(known.get(node, set()) for node in nodes)) if known else set()
        found = core.kinds(component, suffix, worse, cycles, late)
        if not suffix:
            kinds.update(dict.fromkeys(nodes, found))
    return kinds


class _Core:
    """The components of a graph that have cycles, with everything that searches within them need."""

    def __init__(self, graph: Graph, numbers: Ints) -> None:
        self._nodes = np.flatnonzero(numbers >= 0).astype(np.int32)
        new = np.full(graph.count, -1, np.int32)
        new[self._nodes] = np.arange(len(self._nodes), dtype=np.int32)
        _, component = np.unique(numbers[self._nodes], return_inverse=True)
        source = graph.source()
        inside = (numbers[source] >= 0) & (numbers[source] == numbers[graph.target])
        real = int(np.searchsorted(self._nodes, graph.real))
        kept = _in_order(real, len(self._nodes), new[source[inside]], new[graph.target[inside]], graph.kind[inside])
        self._search = Search(kept)
        self._size = np.bincount(component[:real], minlength=int(component.max()) + 1)
        self._members = _grouped(component[:real].astype(np.int32), len(self._size))
        edge_source = self._search.source
        self._edges = _grouped(component[edge_source].astype(np.int32), len(self._size))
        self._component = component

        # Within which edges of a kind lie on a cycle: of ww; of ww and wr; of everything without two rw in a row.
        self._ww = components(kept, _WW_ONLY)
        self._rank, _ = traverse(kept.start, kept.target, kept.kind, _NO_RW, np.arange(kept.count, dtype=np.int32))
        self._no_rw = only_real(self._rank, real)
        self._layered = _two_layers(kept)
        self._flat = np.zeros(kept.count, np.int32)

    def smallest_first(self) -> Iterator[int]:
        """Iterate over the components, the smallest one first; of equal ones the one with the earliest transaction first."""
        earliest = np.array([self._members(component)[0] for component in range(len(self._size))])
        return (int(component) for component in np.lexsort((earliest, self._size)))

    def transactions(self, component: int) -> Sequence[int]:
        """List the transactions of a component."""
        found: list[int] = self._nodes[self._members(component)].tolist()
        return found

    def kinds(self, component: int, suffix: str, worse: set[str], cycles: Cycles, late: Callable[[], bool]) -> set[str]:
        """Tell the kinds of one component, unless they are special cases of each other or of `worse`."""
        found: set[str] = set(worse)
        kept = self._search.graph
        edges = self._edges(component)
        source, target, kind = self._search.source[edges], kept.target[edges], kept.kind[edges]
        reads = edges[kind == RW]
        same = self._ww[source] == self._ww[target]
        one = self._no_rw[source] == self._no_rw[target]
        layers = self._layered[source] == self._layered[target + kept.count]
        # An rw edge can be the only one of a cycle only if it leads back in the order of all the others.
        back = self._rank[source] <= self._rank[target]
        no_rw = self._no_rw[source] >= 0
        attempts: list[tuple[str, Longs, int, bool, Ints]] = [
            ("G0", edges[(kind == WW) & same & (self._ww[source] >= 0)], _WW_ONLY, False, self._flat),
            ("G1c", edges[(kind == WR) & one & no_rw], _NO_RW, False, self._flat),
            ("G-single-item", edges[(kind == RW) & back], _NO_RW, False, self._rank),
            ("G-nonadjacent-item", edges[(kind == RW) & layers & (self._layered[source] >= 0)], _ALL, True, self._flat),
            ("G2-item", reads, _ALL, False, self._flat),
        ]
        open_question = False
        for base, candidates, kinds, layered, rank in attempts:
            name = base + suffix
            if not len(candidates) or any(name == other or name in implied_by(other) for other in found):
                continue
            if base == "G2-item" and open_question:
                continue
            cycle, complete = self._search.shortest(
                candidates.tolist(), kinds, layered=layered, rank=rank, deadline=late
            )
            if cycle is not None:
                self._tell(cycle, suffix, component, complete, found, cycles)
            elif not complete:
                open_question = True
        if open_question and not any(name.startswith(("G-", "G2")) for name in found - worse):
            found.add(_UNDECIDED[suffix])
            cycles.undecided.add(_UNDECIDED[suffix])
        return found

    def _tell(self, cycle: Cycle, suffix: str, component: int, complete: bool, found: set[str], cycles: Cycles) -> None:
        ordered = ORDER in cycle.kinds
        if bool(suffix) != ordered:
            return  # without the order it belongs to another component, where it was found
        name = base_kind(cycle.kinds) + suffix
        found.add(name)
        nodes = tuple(int(self._nodes[node]) for node in cycle.nodes)
        cycles.add(Found(name, Cycle(nodes, cycle.kinds), int(self._size[component]), complete))


def _in_order(real: int, count: int, source: Ints, target: Ints, kind: Bytes) -> Graph:
    """Build a graph of those edges sorted by source, target and kind: the same searches find the same, wherever edges come from."""
    by_kind = np.argsort(kind, kind="stable")
    turned = graph(0, count, target[by_kind], source[by_kind], kind[by_kind])
    return graph(real, count, turned.target, turned.source(), turned.kind)


def _two_layers(dependencies: Graph) -> Ints:
    """Components of the graph in which node + count means "arrived by rw", from where no other rw leads on.

    −1 for what lies on no such cycle of two transactions or more.
    """
    source, target, kind = dependencies.source(), dependencies.target, dependencies.kind
    read, passes = kind == RW, kind == PASS
    behind = dependencies.count
    new_source = np.concatenate([source, source[~read] + behind])
    new_target = np.concatenate(
        [target + np.where(read, behind, 0), target[~read] + np.where(passes[~read], behind, 0)]
    )
    layers = graph(
        0, 2 * behind, new_source.astype(np.int32), new_target.astype(np.int32), np.concatenate([kind, kind[~read]])
    )
    numbers, _ = traverse(layers.start, layers.target, layers.kind, _ALL, np.arange(layers.count, dtype=np.int32))
    real = np.concatenate([np.arange(dependencies.real), np.arange(dependencies.real) + behind])
    pairs = np.unique(np.stack([numbers[real], real % behind]), axis=1)
    sizes = np.bincount(pairs[0], minlength=int(numbers.max(initial=0)) + 1)
    found: Ints = np.where(sizes[numbers] >= 2, numbers, -1).astype(np.int32)
    return found


def _grouped(group: Ints, count: int) -> Callable[[int], Any]:
    """Index the positions of each group's members."""
    order = np.argsort(group, kind="stable")
    start = np.searchsorted(group[order], np.arange(count + 1))
    return lambda number: order[start[number] : start[number + 1]]
