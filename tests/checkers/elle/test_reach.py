"""Reach against brute force: what it says of every graph of a few transactions is so."""

from __future__ import annotations

from random import Random

import numpy as np
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from schemaquake.checkers.elle.reach import along_the_edges, relaxed, stretches

NEVER = np.iinfo(np.int64).max


class Transactions:
    """Some transactions with intervals of unique ends, and dependencies between them, none by chance against all time."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.count = random.randint(2, 7)
        moments = random.sample(range(100), 2 * self.count)
        pairs = [sorted(moments[2 * n : 2 * n + 2]) for n in range(self.count)]
        self.begins = np.array([begin for begin, _ in pairs], np.int64)
        self.ends = np.array([end if random.random() < 0.9 else NEVER for _, end in pairs], np.int64)
        edges = {(random.randrange(self.count), random.randrange(self.count)) for _ in range(random.randint(0, 9))}
        self.edges = sorted((a, b) for a, b in edges if a != b)
        self.source = np.array([a for a, _ in self.edges], np.int64)
        self.target = np.array([b for _, b in self.edges], np.int64)

    def real_time(self) -> set[tuple[int, int]]:
        everyone = range(self.count)
        return {(a, b) for a in everyone for b in everyone if self.ends[a] < self.begins[b]}

    def reaches(self, edges: set[tuple[int, int]]) -> np.ndarray:
        """Whether one leads to another by edges, or is it."""
        found = np.eye(self.count, dtype=bool)
        for a, b in edges:
            found[a, b] = True
        for middle in range(self.count):
            found |= np.outer(found[:, middle], found[middle])
        return found

    def components(self, edges: set[tuple[int, int]]) -> set[frozenset[int]]:
        """Those of two or more."""
        reaches = self.reaches(edges)
        both = reaches & reaches.T
        found = {frozenset(np.flatnonzero(row).tolist()) for row in both}
        return {component for component in found if len(component) > 1}


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_is_the_latest_invocation_of_all_that_reach(seed: int) -> None:
    of = Transactions(seed)
    found = relaxed(of.begins, np.full(of.count, NEVER), of.source, of.target)
    reaches = of.reaches(set(of.edges))
    assert found.latest.tolist() == [int(of.begins[reaches[:, v]].max()) for v in range(of.count)]
    assert not found.clipped.any()


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 1 << 32))
def test_along_the_edges_what_leads_to_a_component_stands_before_what_leaves_it(seed: int) -> None:
    of = Transactions(seed)
    order = along_the_edges(of.count, of.source, of.target).tolist()
    assert sorted(order) == list(range(len(of.edges)))
    reaches = of.reaches(set(of.edges))
    for place, edge in enumerate(order):
        leaving = of.source[edge]
        for later in order[place + 1 :]:
            source, target = of.source[later], of.target[later]
            assert not reaches[target, leaving] or reaches[leaving, source]
    found = relaxed(of.begins, of.ends, of.source[order], of.target[order])
    given_order = relaxed(of.begins, of.ends, of.source, of.target)
    assert found.latest.tolist() == given_order.latest.tolist()
    assert found.handed.tolist() == given_order.handed.tolist()


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_cycle_of_dependencies_has_one_a(seed: int) -> None:
    of = Transactions(seed)
    found = relaxed(of.begins, np.full(of.count, NEVER), of.source, of.target)
    for component in of.components(set(of.edges)):
        assert len({int(found.latest[v]) for v in component}) == 1


@settings(max_examples=examples(600), deadline=None)
@given(st.integers(0, 1 << 32))
def test_real_time_is_broken_where_some_transaction_is_late(seed: int) -> None:
    of = Transactions(seed)
    plain, timed = of.components(set(of.edges)), of.components({*of.edges, *of.real_time()})
    for ends in (np.full(of.count, NEVER), of.ends):
        late = relaxed(of.begins, ends, of.source, of.target).latest > of.ends
        assert bool(late.any()) == (timed != plain) or (plain and timed == plain)
        if not late.any():
            assert timed == plain


@settings(max_examples=examples(600), deadline=None)
@given(st.integers(0, 1 << 32))
def test_all_of_a_cycle_are_under_way_in_one_stretch_of_spans(seed: int) -> None:
    of = Transactions(seed)
    found = relaxed(of.begins, of.ends, of.source, of.target)
    late = found.latest > of.ends
    begins, ends = stretches(of.ends[late], found.latest[late])
    plain = of.components(set(of.edges))
    for component in of.components({*of.edges, *of.real_time()}):
        members = sorted(component)
        one_a = len({int(found.latest[v]) for v in members}) == 1 and not found.clipped[members].any()
        within = [
            bool(np.all((of.begins[members] <= end) & (of.ends[members] >= begin)))
            for begin, end in zip(begins, ends, strict=True)
        ]
        assert any(within) or (component in plain and one_a)


def test_stretches_join_what_overlaps_or_touches() -> None:
    begins, ends = stretches(np.array([7, 1, 2, 20, 9]), np.array([8, 5, 3, 25, 11]))
    assert list(zip(begins.tolist(), ends.tolist(), strict=True)) == [(1, 5), (7, 8), (9, 11), (20, 25)]
    begins, ends = stretches(np.array([1, 5, 2]), np.array([5, 6, 9]))
    assert list(zip(begins.tolist(), ends.tolist(), strict=True)) == [(1, 9)]
    begins, ends = stretches(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert len(begins) == len(ends) == 0


def test_what_is_handed_on_is_clipped_where_it_is_later_than_a_completion() -> None:
    found = relaxed(np.array([100, 1, 5]), np.array([200, 10, 20]), np.array([0, 1]), np.array([1, 2]))
    assert found.latest.tolist() == [100, 100, 10]
    assert found.handed.tolist() == [100, 10, 10]
    assert found.clipped.tolist() == [False, True, False]
