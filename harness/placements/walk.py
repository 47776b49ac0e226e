"""Walk: a random history of joins, leaves, moves and replacements on one ring, and the invariants that hold after each step.

The placement simulator of CEP-21: a ring of one node more a data centre than there are replicas, fifty joins, and beside them
leaves (30 % of turns), moves (30 %), replacements (20 %), cancellations (5 %), snapshots (5 %), else a step of a change under way.
A turn that cannot begin a change, because as many are under way as may be or because the ranges are locked, is a step, too.

A change is planned from the ring of the changes that are over, and locks the ranges that it changes, as in Cassandra 6.0
(`tcm/transformations/PrepareJoin.java`). `Rules` weakens that, for tests of the invariants.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, Literal, NamedTuple, TypeAlias

from schemaquake.harness.placements.changes import (
    STEPS,
    Misplaced,
    Placements,
    Plan,
    plan_join,
    plan_leave,
    plan_move,
    plan_replace,
)
from schemaquake.harness.placements.ring import Location, Ring
from schemaquake.harness.placements.strategies import Factor, NetworkTopology, Replica, Simple, Strategy

__all__ = ["GRID", "INVARIANTS", "Broken", "Cell", "Invariant", "Layout", "Locks", "Rules", "Walk", "walk"]

Locks: TypeAlias = Literal["none", "touched", "commuting"]
"""What keeps a change from beginning. `touched`: another one changes one of its ranges (Cassandra 6.0). `commuting`: that, or it would
be planned otherwise if one or all of the others were over: with racks, a walk may stop at a node that another change takes away
although both change different ranges."""
Layout: TypeAlias = Literal["simple", "data centers", "racks"]
Invariant: TypeAlias = Literal[
    "reads", "writes", "ranges", "read-before-write", "surplus", "rest", "cancel", "lock", "misplaced", "snapshot"
]
INVARIANTS: Final[Mapping[Invariant, str]] = {
    "reads": "a range is read from as many replicas in each data centre as there should be",
    "writes": "a range is written to as many, or one more",
    "ranges": "the ranges end at the tokens of the nodes and of those that join or move",
    "read-before-write": "a replica that is read is written to, and is full for writes if it is so for reads",
    "surplus": "each change under way has at least one range with one replica more, and no more than its share",
    "rest": "when no change is under way, the placement is that of the ring computed afresh",
    "cancel": "a change that is cancelled leaves its ranges as they were",
    "lock": "no two changes under way have a range in common",
    "misplaced": "a step removes what is there and adds what is not",
    "snapshot": "placements that are written down and read are the same",
}
_TOKENS: Final = 1 << 40
_JOINS: Final = 50
_CENTERS: Final = ("dc1", "dc2", "dc3")
_RACKS: Final = 3


class Cell(NamedTuple):
    """One cell of the grid."""

    layout: Layout
    factor: Factor
    concurrency: int


class Rules(NamedTuple):
    """The rules by which a change may begin, and by which it goes on."""

    locks: Locks = "commuting"
    barrier: bool = True
    """False: reads are exchanged before writes have the replicas to come."""


class Broken(NamedTuple):
    """An invariant that did not hold."""

    invariant: Invariant
    step: int
    """The number of steps before."""
    end: int | None
    """The end of the range; None: it is not one range's."""
    text: str


@dataclass(slots=True)
class Walk:
    """The outcome of one cell."""

    cell: Cell
    seed: int
    steps: Counter[str] = field(default_factory=Counter)
    """By change and step, as `join START`, and `cancel`, `snapshot`, `refused`."""
    broken: list[Broken] = field(default_factory=list)
    nodes: int = 0

    @property
    def operations(self) -> int:
        """The number of steps that were applied or reverted."""
        return sum(count for name, count in self.steps.items() if name not in {"refused", "snapshot"})


def _grid() -> Iterator[Cell]:
    for layout in ("simple", "data centers", "racks"):
        for total in (2, 3, 5):
            for transient in range(total):
                for concurrency in (1, 3, 5):
                    yield Cell(layout, Factor(total, transient), concurrency)


GRID: Final[tuple[Cell, ...]] = tuple(_grid())
"""RF {2, 3, 5} × 0 to RF−1 transient replicas × {1, 3, 5} changes at once, of three layouts: ninety cells."""


def walk(cell: Cell, seed: int, *, joins: int = _JOINS, rules: Rules | None = None) -> Walk:
    """Carry out one cell's history; it ends at the first invariant that does not hold."""
    return _Walker(cell, seed, joins, rules or Rules()).run()


class _UnderWay:
    """A change between PREPARE and FINISH."""

    __slots__ = ("before", "done", "plan")

    def __init__(self, plan: Plan, before: Placements) -> None:
        self.plan = plan
        self.done = 0
        """Steps that were applied."""
        self.before = before


class _Walker:
    """One history under way."""

    def __init__(self, cell: Cell, seed: int, joins: int, rules: Rules) -> None:
        self._random = random.Random(seed)
        self._cell, self._rules = cell, rules
        self._joins = joins
        self._number = 0
        self._strategy = _strategy(cell)
        self._counted = ("datacenter1",) if cell.layout == "simple" else _CENTERS
        self._centers: dict[str, str] = {}
        """By node its data centre, of all that ever were."""
        self._under_way: list[_UnderWay] = []
        self._ring = self._first_ring()
        self._rest = self._strategy.replicate(self._ring)
        self._placements = Placements.at_rest(self._rest)
        self._centers.update((node, place.data_center) for node, place in self._ring.locations.items())
        self._out = Walk(cell, seed)
        self._step = 0

    def run(self) -> Walk:
        """Take turns until all joins are over and nothing is under way."""
        while (self._joins or self._under_way) and not self._out.broken:
            try:
                self._turn()
            except Misplaced as error:
                self._break("misplaced", None, str(error))
        self._out.nodes = len(self._ring.locations)
        return self._out

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _turn(self) -> None:
        if self._joins and self._has_room and self._below(2) and self._begin(self._join()):
            self._joins -= 1
            return
        drawn = self._below(100)
        if drawn < 80 and self._joins and self._has_room:
            plan = self._leave() if drawn < 30 else self._move() if drawn < 60 else self._replace()
            if plan is not None and self._begin(plan):
                return
        elif 80 <= drawn < 85 and self._under_way:
            self._cancel(self._pick())
            return
        elif 85 <= drawn < 90:
            self._snapshot()
            return
        if self._under_way:
            self._advance(self._pick())

    @property
    def _has_room(self) -> bool:
        return len(self._under_way) < self._cell.concurrency

    def _begin(self, plan: Plan) -> bool:
        """Prepare a change; False if its ranges are locked."""
        others = [each.plan for each in self._under_way]
        locks = self._rules.locks
        if (locks != "none" and any(plan.conflicts(other) for other in others)) or (
            locks == "commuting" and others and not self._commutes(plan, others)
        ):
            self._out.steps["refused"] += 1
            return False
        self._centers[plan.node] = (
            (plan.ring if plan.change != "leave" else self._ring).locations[plan.node].data_center
        )
        change = _UnderWay(plan, self._placements)
        self._under_way.append(change)
        self._advance(change)
        return True

    def _commutes(self, plan: Plan, others: Sequence[Plan]) -> bool:
        """Return whether a change would be planned as it is if each one of the others, or all of them, were over."""
        if self._cell.layout != "racks":
            return True  # the range at which a walk stops is changed, too, when its node goes
        for some in (*([other] for other in others), others):
            ring = reduce(_finished, some, self._ring)
            again = _plan_again(ring, self._strategy, plan)
            if any(
                mine.reads != its.reads or mine.writes != its.writes
                for mine, its in zip(plan.steps, again.steps, strict=True)
            ):
                return False
        return True

    def _advance(self, change: _UnderWay) -> None:
        """Apply the next step of a change, and judge what it made of the placements."""
        plan = change.plan
        order = plan.steps if self._rules.barrier else tuple(plan.steps[place] for place in (0, 2, 1, 3))
        step = order[change.done]
        self._placements = step.apply(self._placements)
        change.done += 1
        self._out.steps[f"{plan.change} {step.name}"] += 1
        if change.done == len(STEPS):
            self._under_way.remove(change)
            self._ring = _finished(self._ring, plan)
            self._rest = self._strategy.replicate(self._ring)
        self._judge(span.end for span in plan.locked)

    def _cancel(self, change: _UnderWay) -> None:
        """Revert the steps of a change, the last one first."""
        plan = change.plan
        for step in reversed(plan.steps[: change.done]):
            self._placements = step.revert(self._placements)
        self._under_way.remove(change)
        if plan.change == "join":
            self._joins += 1
        self._out.steps["cancel"] += 1
        for span in plan.locked:
            for now, then in (
                (self._placements.reads, change.before.reads),
                (self._placements.writes, change.before.writes),
            ):
                if now.get(span.end) != then.get(span.end):
                    self._break("cancel", span.end, f"{plan.change} of {plan.node}")
        self._judge(span.end for span in plan.locked)

    def _snapshot(self) -> None:
        """Write the placements down, and go on with what is read."""
        read = Placements.from_json(self._placements.to_json())
        if read != self._placements:
            self._break("snapshot", None, "not the same")
        self._placements = read
        self._out.steps["snapshot"] += 1

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _first_ring(self) -> Ring:
        count = self._cell.factor.total + 1
        places = [self._place(center, number) for number in range(count) for center in self._counted]
        nodes = [self._new_name() for _ in places]
        tokens: dict[int, None] = {}
        while len(tokens) < len(nodes):
            tokens[self._below(_TOKENS)] = None
        mine = {node: [token] for node, token in zip(nodes, tokens, strict=True)}
        return Ring.of(mine, dict(zip(nodes, places, strict=True)))

    def _join(self) -> Plan:
        locations = list(self._ring.locations.values())
        place = locations[self._below(len(locations))]
        return plan_join(self._ring, self._strategy, self._new_name(), [self._new_token()], place, now=self._rest)

    def _leave(self) -> Plan | None:
        node = self._settled()
        if node is None:
            return None
        place = self._ring.locations[node]
        leaving = sum(
            each.plan.change == "leave" and self._ring.locations[each.plan.node].data_center == place.data_center
            for each in self._under_way
        )
        racks = self._ring.racks[place.data_center]
        # Where a data centre would have too few nodes, or one rack less, every range of it would have other replicas.
        if sum(racks.values()) - leaving <= self._cell.factor.total + 1 or racks[place.rack] - leaving <= 1:
            return None
        return plan_leave(self._ring, self._strategy, node, now=self._rest)

    def _move(self) -> Plan | None:
        node = self._settled()
        if node is None:
            return None
        return plan_move(self._ring, self._strategy, node, [self._new_token()], now=self._rest)

    def _replace(self) -> Plan | None:
        node = self._settled()
        return (
            None if node is None else plan_replace(self._ring, self._strategy, node, self._new_name(), now=self._rest)
        )

    def _settled(self) -> str | None:
        """Pick a node that no change is about."""
        busy = {name for each in self._under_way for name in (each.plan.node, each.plan.replaced)}
        nodes = [node for node in self._ring.locations if node not in busy]
        return nodes[self._below(len(nodes))] if nodes else None

    def _place(self, center: str, number: int) -> Location:
        return Location(center, f"rack{number % _RACKS + 1 if self._cell.layout == 'racks' else 1}")

    def _new_name(self) -> str:
        self._number += 1
        return f"n{self._number}"

    def _new_token(self) -> int:
        """Draw a token that is not taken."""
        taken = {*self._ring.tokens, *self._ends_to_come()}
        while (token := self._below(_TOKENS)) in taken:
            pass
        return token

    def _below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def _pick(self) -> _UnderWay:
        return self._under_way[self._below(len(self._under_way))]

    # ── invariants ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _ends_to_come(self) -> Iterator[int]:
        for change in self._under_way:
            yield from change.plan.steps[0].split

    def _judge(self, ends: Iterable[int]) -> None:
        """Judge the ranges that a step may have changed, and what concerns all of them."""
        self._step += 1
        reads, writes = self._placements.reads, self._placements.writes
        if reads.keys() != writes.keys() or reads.keys() != {*self._ring.tokens, *self._ends_to_come()}:
            self._break("ranges", None, f"{sorted(reads)} and {sorted(writes)}")
            return
        for end in ends:
            if end in reads:
                self._judge_range(end, reads[end], writes[end])
        for place, change in enumerate(self._under_way):
            if any(change.plan.conflicts(other.plan) for other in self._under_way[:place]):
                self._break("lock", None, change.plan.node)
        self._judge_surplus()
        if not self._under_way:
            fresh = Placements.at_rest(self._rest)
            for end, replicas in fresh.reads.items():
                if reads[end] != replicas or writes[end] != replicas:
                    self._break("rest", end, f"{_named(writes[end])}, afresh {_named(replicas)}")

    def _judge_range(self, end: int, reads: frozenset[Replica], writes: frozenset[Replica]) -> None:
        factor = self._cell.factor.total
        full: dict[str, bool] = {}
        read, written = dict.fromkeys(self._counted, 0), dict.fromkeys(self._counted, 0)
        for node, is_full in writes:
            full[node] = is_full
            written[self._centers[node]] += 1
        for node, is_full in reads:
            read[self._centers[node]] += 1
            if node not in full or is_full > full[node]:
                self._break("read-before-write", end, node)
        for center in self._counted:
            if read[center] != factor:
                self._break("reads", end, f"{read[center]} of {factor} in {center}")
            if not factor <= written[center] <= factor + 1:
                self._break("writes", end, f"{written[center]} of {factor} in {center}")

    def _judge_surplus(self) -> None:
        """Judge each change between START and FINISH by the ranges that have a replica more for it, in its data centre."""
        for change in self._under_way:
            if not 2 <= change.done <= 3:
                continue
            plan = change.plan
            more = sum(
                len(self._placements.writes[span.end]) > len(self._placements.reads[span.end]) for span in plan.locked
            )
            if self._cell.layout == "racks":
                continue  # there a node may have any number of ranges, and a move may exchange none
            most = self._cell.factor.total * (2 if plan.change == "move" else 1)
            # Between the tokens of one data centre are those of the others, which cut its ranges.
            if more < 1 or (self._cell.layout == "simple" and more > most):
                self._break("surplus", None, f"{more} ranges of {plan.change} of {plan.node}")

    def _break(self, invariant: Invariant, end: int | None, text: str) -> None:
        self._out.broken.append(Broken(invariant, self._step, end, text))


def _strategy(cell: Cell) -> Strategy:
    if cell.layout == "simple":
        return Simple(cell.factor)
    return NetworkTopology(dict.fromkeys(_CENTERS, cell.factor))


def _finished(ring: Ring, plan: Plan) -> Ring:
    """Return a ring after a change; another one may have been finished since it was planned."""
    match plan.change:
        case "join":
            return ring.with_node(plan.node, plan.ring.tokens_of(plan.node), plan.ring.locations[plan.node])
        case "leave":
            return ring.without_node(plan.node)
        case "move":
            return ring.with_tokens(plan.node, plan.ring.tokens_of(plan.node))
        case "replace":
            assert plan.replaced is not None
            return ring.with_replacement(plan.replaced, plan.node)


def _plan_again(ring: Ring, strategy: Strategy, plan: Plan) -> Plan:
    """Plan the same change on another ring."""
    tokens = plan.ring.tokens_of(plan.node)
    match plan.change:
        case "join":
            return plan_join(ring, strategy, plan.node, tokens, plan.ring.locations[plan.node])
        case "leave":
            return plan_leave(ring, strategy, plan.node)
        case "move":
            return plan_move(ring, strategy, plan.node, tokens)
        case "replace":
            assert plan.replaced is not None
            return plan_replace(ring, strategy, plan.replaced, plan.node)


def _named(replicas: Iterable[Replica]) -> str:
    return ", ".join(f"{node}{'' if full else ' (transient)'}" for node, full in sorted(replicas))
