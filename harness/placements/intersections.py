"""Intersections: the read and write quorums of every pair of epochs that miss each other while replicas change (CEP-21).

A `View` is the replicas of one range at one epoch, of reads and of writes. Two coordinators that are at different epochs gather
quorums of different views. Where two such quorums have no node in common, a read may miss an acknowledged write, unless one of the
two is *detected*: a replica that knows a later epoch refuses it. Progress barriers are what makes replicas know.

Sets of nodes are bits of an int here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from typing import Final, Literal, NamedTuple, TypeAlias

from schemaquake.harness.placements.changes import Placements, Plan, Step
from schemaquake.harness.placements.strategies import Replica

__all__ = [
    "BARRIERS",
    "SCENARIOS",
    "Guarded",
    "Intersections",
    "Rule",
    "Scenario",
    "View",
    "change_of_one",
    "guarded",
    "interleavings",
    "intersect",
    "views_of",
]

Rule: TypeAlias = Literal["majority", "pending"]
"""How many writes are waited for: a majority of the write replicas, or one of the read replicas and all that are pending
(`db/ConsistencyLevel.java`, `blockForWrite`)."""


class View(NamedTuple):
    """The replicas of a range at one epoch."""

    reads: int
    writes: int


@dataclass(frozen=True, slots=True)
class Intersections:
    """All pairs of a read quorum and a write quorum of some views."""

    pairs: int
    cells: Mapping[tuple[int, int], tuple[int, int]]
    """By the epochs of the read and of the write: (violations, pairs), of cells with violations."""

    @property
    def violations(self) -> int:
        """The number of pairs that do not meet."""
        return sum(bad for bad, _ in self.cells.values())

    @property
    def worst(self) -> Fraction:
        """The highest share of violations in a cell."""
        return max((Fraction(bad, count) for bad, count in self.cells.values()), default=Fraction(0))


class Guarded(NamedTuple):
    """The pairs of quorums that barriers are to keep apart."""

    cases: int
    """(Latest epoch, epoch of the read, of the write, read quorum, write quorum)."""
    bad: int
    """Cases in which the quorums do not meet, and nobody need notice."""


@lru_cache(maxsize=4096)
def quorums(nodes: int, size: int) -> tuple[int, ...]:
    """Return all subsets of that size."""
    bits = [1 << place for place in range(nodes.bit_length()) if nodes >> place & 1]
    return tuple(sum(some) for some in combinations(bits, size))


def read_quorums(view: View) -> tuple[int, ...]:
    """Return the quorums of a read."""
    return quorums(view.reads, view.reads.bit_count() // 2 + 1)


def write_quorums(view: View, rule: Rule) -> tuple[int, ...]:
    """Return the quorums of a write."""
    if rule == "majority":
        return quorums(view.writes, view.writes.bit_count() // 2 + 1)
    pending = (view.writes & ~view.reads).bit_count()
    return quorums(view.writes, min(view.reads.bit_count() // 2 + 1 + pending, view.writes.bit_count()))


def intersect(views: Sequence[View], rule: Rule = "pending", *, down: int = 0) -> Intersections:
    """Intersect the quorums of every ordered pair of epochs; `down` are nodes that are in no quorum."""
    reads = [[quorum for quorum in read_quorums(view) if not quorum & down] for view in views]
    writes = [[quorum for quorum in write_quorums(view, rule) if not quorum & down] for view in views]
    pairs = 0
    cells = {}
    for (i, some), (j, others) in product(enumerate(reads), enumerate(writes)):
        count = len(some) * len(others)
        bad = sum(not one & other for one in some for other in others)
        pairs += count
        if bad:
            cells[i, j] = bad, count
    return Intersections(pairs, cells)


BARRIERS: Final[frozenset[int]] = frozenset({1, 2})
"""The epochs of one change that a majority knows before the next step: MID waits for START, FINISH for MID."""


def guarded(
    views: Sequence[View], rule: Rule = "majority", *, barriers: frozenset[int] = BARRIERS, answers: int | None = None
) -> Guarded:
    """Count the pairs of quorums that miss each other and that no replica need refuse.

    For each latest epoch j: an operation at i ≤ j, another at i′ ≤ j. For each barrier on an epoch k < j an adversary picks the
    nodes that know k: a majority of its replicas, or `answers` of them. A quorum gathered at i is detected if it meets those of a
    k > i, and the view has changed after i up to k.
    """
    cases = bad = 0
    reads = [read_quorums(view) for view in views]
    writes = [write_quorums(view, rule) for view in views]
    for latest in range(len(views)):
        known = {k: _knowing(views[k], answers) for k in sorted(barriers) if k < latest}
        for i, other in product(range(latest + 1), repeat=2):
            cases += len(reads[i]) * len(writes[other])
            seen_by_read = [k for k in known if k > i and _changed(views, i, k)]
            seen_by_write = [k for k in known if k > other and _changed(views, other, k)]
            for one, two in product(reads[i], writes[other]):
                if one & two:
                    continue
                # Barriers are picked one by one, so the adversary needs a choice for each that avoids what it would tell.
                avoided = {k: (one if k in seen_by_read else 0) | (two if k in seen_by_write else 0) for k in known}
                bad += all(any(not nodes & avoided[k] for nodes in known[k]) for k in known)
    return Guarded(cases, bad)


def _knowing(view: View, answers: int | None) -> tuple[int, ...]:
    everybody = view.reads | view.writes
    return quorums(everybody, everybody.bit_count() // 2 + 1 if answers is None else answers)


def _changed(views: Sequence[View], after: int, until: int) -> bool:
    return any(views[k] != views[k - 1] for k in range(after + 1, until + 1))


# ── views ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def change_of_one(replicas: int, leaving: int, coming: int) -> tuple[View, ...]:
    """Return the views of a range in which one node takes another's place: before, after START, MID and FINISH."""
    after = replicas & ~leaving | coming
    both = replicas | coming
    return View(replicas, replicas), View(replicas, both), View(after, both), View(after, after)


def _in_a_row(*parts: Sequence[View]) -> tuple[View, ...]:
    return tuple(parts[0]) + tuple(view for part in parts[1:] for view in part[1:])


def interleavings(one: tuple[int, int], other: tuple[int, int], replicas: int) -> Iterator[tuple[View, ...]]:
    """Yield the views of a range that two changes have at once, each (leaving, coming), for every order of their six steps."""
    for mine in combinations(range(6), 3):
        views = [View(replicas, replicas)]
        done = [0, 0]
        for place in range(6):
            done[0 if place in mine else 1] += 1
            views.append(_half_way(replicas, ((one, done[0]), (other, done[1]))))
        yield tuple(views)


def _half_way(replicas: int, changes: Sequence[tuple[tuple[int, int], int]]) -> View:
    reads = writes = replicas
    for (leaving, coming), done in changes:
        if done >= 1:
            writes |= coming
        if done >= 2:
            reads = reads & ~leaving | coming
        if done >= 3:
            writes &= ~leaving
    return View(reads, writes)


def views_of(plan: Plan, placements: Placements) -> Mapping[int, tuple[View, ...]]:
    """Return, by the end of each range that a plan gives other replicas, its views: before, after START, MID and FINISH."""
    bits: dict[str, int] = {}
    seen: dict[int, list[View]] = {}
    changed = {regrouping.end for step in plan.steps for regrouping in (*step.reads, *step.writes)}
    for step in plan.steps:
        placements = step.apply(placements) if step.name != "FINISH" else _without_merging(step, placements)
        for end in sorted(changed):
            seen.setdefault(end, []).append(
                View(*(_bits(replicas[end], bits) for replicas in (placements.reads, placements.writes)))
            )
    return {end: tuple(views) for end, views in seen.items()}


def _without_merging(step: Step, placements: Placements) -> Placements:
    return replace(step, merged={}).apply(placements)


def _bits(replicas: frozenset[Replica], bits: dict[str, int]) -> int:
    return sum(bits.setdefault(node, 1 << len(bits)) for node, _ in sorted(replicas))


# ── scenarios ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Scenario:
    """Views that follow each other, for a number of replicas."""

    name: str
    about: str
    views: Callable[[int], Sequence[View]]
    least: int = 1
    """The fewest replicas for which it is defined."""


def _first(count: int) -> int:
    return (1 << count) - 1


def _one(factor: int) -> tuple[View, ...]:
    return change_of_one(_first(factor), 1, 1 << factor)


def _two(factor: int) -> tuple[View, ...]:
    after = _first(factor) & ~1 | 1 << factor
    return _in_a_row(_one(factor), change_of_one(after, 2, 2 << factor))


def _in_and_out(factor: int) -> tuple[View, ...]:
    after = _first(factor) & ~1 | 1 << factor
    return _in_a_row(_one(factor), change_of_one(after, 1 << factor, 1))


def _in_then_replaced(factor: int) -> tuple[View, ...]:
    after = _first(factor) & ~1 | 1 << factor
    return _in_a_row(_one(factor), change_of_one(after, 1 << factor, 2 << factor))


def _without(*left_out: int) -> Callable[[int], Sequence[View]]:
    return lambda factor: [view for step, view in enumerate(_one(factor)) if step not in left_out]


def _at_once(more: int) -> Callable[[int], Sequence[View]]:
    def views(factor: int) -> Sequence[View]:
        return [View(nodes, nodes) for nodes in (_first(factor), _first(factor + more))]

    return views


def _member_more(count: int) -> tuple[View, ...]:
    now, then = _first(count), _first(count + 1)
    return View(now, now), View(now, then), View(then, then)


def _member_less(count: int) -> tuple[View, ...]:
    return tuple(View(nodes, nodes) for nodes in (_first(count), _first(count) & ~1))


def _member_more_then_less(count: int) -> tuple[View, ...]:
    then = _first(count + 1)
    return (*_member_more(count), View(then & ~1, then & ~1))


SCENARIOS: Final[Mapping[str, Scenario]] = {
    scenario.name: scenario
    for scenario in (
        Scenario("one", "join, leave, move or replace: one node takes another's place in a range", _one),
        Scenario("two in a row", "a second change of the range, of another replica", _two, least=2),
        Scenario("in and out", "the node that came leaves again, for the one that it replaced", _in_and_out),
        Scenario("in, then replaced", "the node that came is replaced", _in_then_replaced),
        Scenario("all at once", "one change without START and MID", _without(1, 2)),
        Scenario("no START", "one change without START", _without(1)),
        Scenario("no MID", "one change without MID", _without(2)),
        Scenario("one replica more", "the replication factor raised by one at once", _at_once(1)),
        Scenario("two replicas more", "the replication factor raised by two at once", _at_once(2)),
        Scenario("member more", "a member more in the metadata service: writes first, then reads", _member_more),
        Scenario("member less", "a member less in the metadata service, at once", _member_less, least=2),
        Scenario("member more, then less", "both, one after the other", _member_more_then_less),
    )
}
