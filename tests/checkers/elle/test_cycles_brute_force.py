"""Cycles of tiny random graphs: what is found is what enumerating every simple cycle finds, real-time edges and all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from schemaquake.checkers.elle.cycles import find_cycles
from schemaquake.checkers.elle.graphs import ORDER, PASS, RW, WR, WW, graph
from schemaquake.checkers.elle.models import Order, implied_by
from schemaquake.checkers.elle.transactions import INFO, NEVER, OK, Transactions
from schemaquake.checkers.elle.witnesses import base_kind

Edges: TypeAlias = set[tuple[int, int, int]]


def intervals(random: Random, count: int) -> Transactions:
    """Transactions that did nothing: only their processes and intervals matter."""
    moments = random.sample(range(1000), 2 * count)
    # A process is sequential: the n-th interval of a process begins after the one before it has ended.
    spans = sorted((min(pair), max(pair)) for pair in zip(moments[::2], moments[1::2], strict=True))
    free: list[int] = []
    processes = []
    for invoked, completed in spans:
        process = next((n for n, until in enumerate(free) if until < invoked and random.random() < 0.8), len(free))
        if process == len(free):
            free.append(0)
        free[process] = completed
        processes.append(process)
    order = sorted(range(count), key=lambda n: spans[n][1])
    unknown = [random.random() < 0.1 for _ in order]
    last = {processes[n]: n for n in sorted(range(count), key=lambda n: spans[n][0])}
    status = [INFO if unknown[n] and last[processes[n]] == n else OK for n in order]
    nothing = np.zeros(0, np.int64)
    return Transactions(
        status=np.array(status, np.int8),
        process=np.array([processes[n] for n in order], np.int32),
        invoked=np.array([spans[n][0] for n in order], np.int32),
        completed=np.array([NEVER if s == INFO else spans[n][1] for n, s in zip(order, status, strict=True)], np.int32),
        index=np.arange(count),
        first=np.zeros(count + 1, np.int64),
        f=np.zeros(0, np.int8),
        key=np.zeros(0, np.int32),
        value=nothing,
        given=np.zeros(0, np.bool_),
        begin=nothing,
        end=nothing,
        elements=nothing,
        keys=nothing,
        time=pa.chunked_array([], pa.int64()),
        memory=pa.chunked_array([], pa.int64()),
    )


def dependencies(random: Random, count: int) -> tuple[list[tuple[int, int, int]], Edges, int]:
    """Random edges, some of them through junctions; the same as plain edges; and how many nodes there are."""
    edges = [
        (*random.sample(range(count), 2), random.choices([WW, WR, RW], [3, 3, 4])[0])
        for _ in range(random.randrange(2 * count))
    ]
    plain: Edges = set(edges)
    nodes = count
    for _ in range(random.randrange(3)):
        before = random.sample(range(count), random.randrange(1, 3))
        after = random.sample(range(count), random.randrange(1, 3))
        kinds = [random.choice([WW, RW]) for _ in before]
        edges += [(node, nodes, kind) for node, kind in zip(before, kinds, strict=True)]
        edges += [(nodes, node, PASS) for node in after]
        plain |= {
            (one, other, kind) for one, kind in zip(before, kinds, strict=True) for other in after if one != other
        }
        if nodes > count and random.random() < 0.5:
            # The junction before this one leads here, too.
            edges.append((nodes - 1, nodes, PASS))
            plain |= {
                (one, other, kind)
                for one, at, kind in edges
                if at == nodes - 1 and kind != PASS
                for other in after
                if one != other
            }
        nodes += 1
    return edges, plain, nodes


def order_edges(of: Transactions, order: Order | None) -> Edges:
    pairs = [(one, other) for one in range(of.count) for other in range(of.count)]
    if order == "realtime":
        return {(one, other, ORDER) for one, other in pairs if of.completed[one] < of.invoked[other]}
    if order == "process":
        by_time = sorted(range(of.count), key=lambda one: of.invoked[one])
        return {
            (one, other, ORDER)
            for process in set(of.process.tolist())
            for one, other in pairwise([node for node in by_time if of.process[node] == process])
        }
    return set()


def simple_cycles(nodes: list[int], edges: Edges) -> Iterator[list[int]]:
    """The kinds of edges of every simple cycle."""
    leading: dict[int, list[tuple[int, int]]] = {}
    for one, other, kind in edges:
        leading.setdefault(one, []).append((other, kind))

    def walk(begin: int, node: int, path: list[int], kinds: list[int]) -> Iterator[list[int]]:
        for other, kind in leading.get(node, ()):
            if other == begin:
                yield [*kinds, kind]
            elif other > begin and other not in path:
                yield from walk(begin, other, [*path, other], [*kinds, kind])

    for begin in nodes:
        yield from walk(begin, begin, [begin], [])


def component_of(edges: Edges, count: int) -> list[frozenset[int]]:
    reach = [{node} for node in range(count)]
    for _ in range(count):
        for one, other, _ in edges:
            for known in reach:
                if one in known:
                    known.add(other)
    return list({frozenset(other for other in reach[node] if node in reach[other]) for node in range(count)})


def expected(of: Transactions, edges: Edges, order: Order | None) -> set[str]:
    """Of every component the kinds that are no special cases of each other; those with the order in view of it."""
    told: set[str] = set()
    plain: list[tuple[frozenset[int], set[str]]] = []
    for component in component_of(edges, of.count):
        kinds = {base_kind(cycle) for cycle in cycles_in(component, edges)}
        plain.append((component, least(kinds)))
        told |= least(kinds)
    if order is not None:
        every = edges | order_edges(of, order)
        for component in component_of(every, of.count):
            known = set().union(*(kinds for part, kinds in plain if part <= component))
            kinds = {f"{base_kind(cycle)}-{order}" for cycle in cycles_in(component, every) if ORDER in cycle}
            told |= {kind for kind in least(kinds | known) if kind.endswith(order)}
    return told


def cycles_in(component: frozenset[int], edges: Edges) -> Iterator[list[int]]:
    inside = {edge for edge in edges if edge[0] in component and edge[1] in component}
    return simple_cycles(sorted(component), inside)


def least(kinds: set[str]) -> set[str]:
    return {kind for kind in kinds if not any(kind in implied_by(other) for other in kinds - {kind})}


@settings(max_examples=examples(1500), deadline=None)
@given(seed=st.integers(0, 1 << 40), order=st.sampled_from([None, "process", "realtime"]))
def test_every_kind_is_found_and_no_other(seed: int, order: Order | None) -> None:
    random = Random(seed)
    count = random.randrange(2, 7)
    of = intervals(random, count)
    edges, plain, nodes = dependencies(random, count)
    source, target, kind = (np.array([edge[n] for edge in edges], np.int32) for n in range(3))
    dependent = graph(count, nodes, source, target, kind.astype(np.int8))
    found = find_cycles(of, dependent, order, deadline=time.monotonic() + 60)
    assert not found.undecided
    assert set(found.counts) == expected(of, plain, order)
    every = plain | order_edges(of, order)
    for witness in found.witnesses:
        steps = zip(
            witness.cycle.nodes, (*witness.cycle.nodes[1:], witness.cycle.nodes[0]), witness.cycle.kinds, strict=True
        )
        assert set(steps) <= every
        assert len(set(witness.cycle.nodes)) == len(witness.cycle)
        assert witness.kind.startswith(base_kind(witness.cycle.kinds))
