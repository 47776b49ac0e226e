"""Topology: the members of a simulated cluster, their tokens, and the changes of the ring under way, as one value.

A change goes through the steps of CEP-21 (`schemaquake.harness.placements.changes`): PREPARE, START, MID and FINISH. Each makes a
value with other placements; a node that has not heard of it goes by the one before. Which node knows which value, and what is waited
for between two steps, is the affair of the models.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, NamedTuple, TypeAlias

from schemaquake.clusters.simulated.ring import SPACE, Copies, even_tokens, strategy_of
from schemaquake.harness.placements.changes import (
    STEPS,
    Change,
    Plan,
    StepName,
    plan_join,
    plan_leave,
    plan_move,
    plan_replace,
)
from schemaquake.harness.placements.ring import Location, Ring, TokenRange

__all__ = [
    "FACTORS",
    "SOMEWHERE",
    "Moving",
    "Seat",
    "SeatState",
    "Topology",
    "Transfer",
    "even_topology",
    "factors_of",
    "former_of",
    "is_former",
    "lacking",
    "present_of",
    "shown_token",
    "spare_token",
]

SeatState: TypeAlias = Literal["registered", "joining", "normal", "leaving", "moving", "left", "replaced"]

FACTORS: Final = (1, 2, 3, 4, 5)
"""The replication factors whose ranges a change locks."""
SOMEWHERE: Final = Location()
"""Where all nodes stand if there is one data centre, of one rack."""
_FORMER: Final = "~"
_HISTORY: Final = 24
"""How many changes of placements a value remembers."""


class Seat(NamedTuple):
    """A node that is, or was, a member."""

    state: SeatState
    host_id: str
    tokens: tuple[int, ...] = ()
    location: Location = SOMEWHERE


@dataclass(frozen=True, slots=True)
class Moving:
    """A change under way."""

    change: Change
    node: str
    base: Ring
    """The ring when it was prepared."""
    tokens: tuple[int, ...] = ()
    """The tokens that the node comes to, of a join or a move."""
    replaced: str | None = None
    done: int = 1
    """Steps that were taken."""
    removed: bool = False
    """True if the node that leaves is dead."""
    location: Location = SOMEWHERE
    """Where the node stands, of a join."""
    _plans: dict[Copies, Plan] = field(default_factory=dict, compare=False, repr=False)

    @property
    def step(self) -> StepName:
        """The step that was taken last."""
        return STEPS[self.done - 1]

    @property
    def dead(self) -> str | None:
        """The node that cannot hand its rows over; None if all can."""
        return self.replaced if self.change == "replace" else self.node if self.removed else None

    def plan(self, factor: Copies) -> Plan:
        """Return its steps for keyspaces of that replication factor."""
        plan = self._plans.get(factor)
        if plan is None:
            strategy = strategy_of(factor)
            match self.change:
                case "join":
                    plan = plan_join(self.base, strategy, self.node, self.tokens, self.location)
                case "leave":
                    plan = plan_leave(self.base, strategy, self.node)
                case "move":
                    plan = plan_move(self.base, strategy, self.node, self.tokens)
                case "replace":
                    assert self.replaced is not None
                    plan = plan_replace(self.base, strategy, self.replaced, self.node)
            self._plans[factor] = plan
        return plan

    def locked(self) -> tuple[TokenRange, ...]:
        """Return the ranges that it changes."""
        return tuple(span for factor in factors_of(self.base) for span in self.plan(factor).locked)


class Transfer(NamedTuple):
    """Rows of one range that a node needs before it is read from."""

    factor: Copies
    span: TokenRange
    target: str
    sources: tuple[str, ...]
    """The node that loses the range; where it is dead, or nobody loses it, all who are read from."""
    is_strict: bool
    """True if the source is the node that loses the range."""
    readers: tuple[str, ...]
    """All who are read from and live on."""


class _Groups(NamedTuple):
    reads: tuple[tuple[str, ...], ...]
    writes: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Topology:
    """The members at one version (a `RingView`)."""

    version: int = 0
    seats: Mapping[str, Seat] = field(default_factory=dict)
    ring: Ring = field(default_factory=lambda: Ring((), (), {}))
    """The tokens of those who are read from, without the changes under way."""
    moves: tuple[Moving, ...] = ()
    history: tuple[tuple[int, tuple[TokenRange, ...]], ...] = ()
    """Versions with the ranges whose placement each changed, oldest first."""

    # ── what the data path asks ──────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def tokens(self) -> tuple[int, ...]:
        """The ends of the ranges, those to come among them."""
        found = dict.fromkeys(self.ring.tokens)
        for move in self.moves:
            found |= dict.fromkeys(move.tokens)
        return tuple(sorted(found))

    def place(self, token: int) -> int:
        """Return the number of the range that a token lies in."""
        tokens = self.tokens
        return bisect_left(tokens, token) % len(tokens)

    def replicas(self, place: int, factor: Copies) -> tuple[str, ...]:
        """Return the replicas of a range that are read from."""
        return self._groups(factor).reads[place]

    def writes(self, place: int, factor: Copies) -> tuple[str, ...]:
        """Return the replicas of a range that are written to."""
        return self._groups(factor).writes[place]

    @cached_property
    def _known(self) -> dict[Copies, _Groups]:
        return {}

    def _groups(self, factor: Copies) -> _Groups:
        groups = self._known.get(factor)
        if groups is None:
            rest = strategy_of(factor).replicate(self.ring)
            reads, writes = [], []
            for end in self.tokens:
                read = [replica.node for replica in rest.at(end)]
                write = list(read)
                for move in self.moves:
                    removed, added = _regrouped(move.plan(factor), end)
                    if move.done >= 2:
                        write += [name for name in added if name not in write]
                    if move.done >= 3:
                        read = [name for name in read if name not in removed]
                        read += [name for name in added if name not in read]
                reads.append(tuple(read))
                writes.append(reads[-1] if write == read else tuple(write))
            groups = self._known[factor] = _Groups(tuple(reads), tuple(writes))
        return groups

    def changed_since(self, version: int, token: int | None) -> bool:
        """Return whether the placement of a token, or (None) of any, has changed after a version."""
        return any(
            changed > version and (token is None or any(span.has(token) for span in spans))
            for changed, spans in self.history
        )

    # ── members ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def members(self) -> tuple[str, ...]:
        """The nodes that own ranges, and those that are to."""
        return tuple(name for name, seat in self.seats.items() if seat.state in _MEMBERS)

    def move_of(self, node: str) -> Moving | None:
        """Return the change under way that a node is the subject of, or whose place is taken."""
        return next((move for move in self.moves if node in {move.node, move.replaced}), None)

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def vacated(self, version: int, node: str, host_id: str, location: Location = SOMEWHERE) -> Topology:
        """Return the value in which a node's place belongs to who had its address before, and the node has another id and no tokens."""
        former = former_of(node)
        seats, ring = dict(self.seats), self.ring
        if node in ring.locations:  # else an earlier attempt has left the place to that one
            seats[former] = seats[node]
            ring = ring.with_replacement(node, former)
        seats[node] = Seat("registered", host_id, (), location)
        return replace(self, version=version, seats=seats, ring=ring)

    def registered(self, version: int, node: str, host_id: str, location: Location = SOMEWHERE) -> Topology:
        """Return the value with a node that has an id and no tokens."""
        return replace(self, version=version, seats={**self.seats, node: Seat("registered", host_id, (), location)})

    def settled(
        self, version: int, node: str, host_id: str, tokens: tuple[int, ...], location: Location = SOMEWHERE
    ) -> Topology:
        """Return the value with a founder, which takes its tokens at once."""
        seats = {**self.seats, node: Seat("normal", host_id, tokens, location)}
        return replace(self, version=version, seats=seats, ring=self.ring.with_node(node, tokens, location))

    def obstacle(self, move: Moving, *, has_locks: bool = True) -> str | None:
        """Return why a change cannot begin: the node is not there, or its ranges are another one's. None if it can."""
        if self.move_of(move.node) is not None:
            return f"{move.node} is changing already"
        if move.node not in self.seats:
            return f"{move.node} is not registered"
        taken = self.ring.tokens
        if any(token in taken for token in move.tokens):
            return "the token is another node's"
        if move.change in {"leave", "move"} and move.node not in self.ring.locations:
            return f"{move.node} is not in the ring"
        if move.change == "replace" and move.replaced not in self.ring.locations:
            return f"{move.replaced} is not in the ring"
        mine = move.locked() if has_locks else ()
        for other in self.moves:
            if any(_overlap(one, its) for one in mine for its in other.locked()):
                return "it interacts with a range locked by another change"
        return None

    def prepare(self, version: int, move: Moving) -> Topology:
        """Return the value with a change under way: its ranges are locked, and nothing else is changed."""
        seats = {**self.seats, move.node: self.seats[move.node]._replace(state=_UNDER_WAY[move.change])}
        return replace(self, version=version, seats=seats, moves=(*self.moves, move))

    def advance(self, version: int, node: str) -> Topology:
        """Return the value after the next step of the change that a node is the subject of."""
        move = next(each for each in self.moves if each.node == node)
        others = tuple(each for each in self.moves if each is not move)
        history = (*self.history, (version, move.locked()))[-_HISTORY:]
        if move.done < len(STEPS) - 1:
            moves = tuple(replace(each, done=each.done + 1) if each is move else each for each in self.moves)
            return replace(self, version=version, moves=moves, history=history)
        seats = dict(self.seats)
        ring = self.ring
        match move.change:
            case "join":
                seats[node] = seats[node]._replace(state="normal", tokens=move.tokens)
                ring = ring.with_node(node, move.tokens, move.location)
            case "leave":
                seats[node] = seats[node]._replace(state="left", tokens=())
                ring = ring.without_node(node)
            case "move":
                seats[node] = seats[node]._replace(state="normal", tokens=move.tokens)
                ring = ring.with_tokens(node, move.tokens)
            case "replace":
                assert move.replaced is not None
                gone = seats[move.replaced]
                seats[node] = seats[node]._replace(state="normal", tokens=gone.tokens)
                seats[move.replaced] = gone._replace(state="replaced", tokens=())
                ring = ring.with_replacement(move.replaced, node)
        return replace(self, version=version, seats=seats, ring=ring, moves=others, history=history)

    def cancel(self, version: int, node: str) -> Topology:
        """Return the value without a change: its placements are those of before."""
        move = next(each for each in self.moves if each.node == node)
        seat = self.seats[node]
        state: SeatState = "registered" if move.change in {"join", "replace"} else "normal"
        return replace(
            self,
            version=version,
            seats={**self.seats, node: seat._replace(state=state)},
            moves=tuple(each for each in self.moves if each is not move),
            history=(*self.history, (version, move.locked()))[-_HISTORY:],
        )

    def transfers(self, move: Moving, factor: Copies) -> Iterator[Transfer]:
        """Yield what has to be streamed between START and MID."""
        plan = move.plan(factor)
        mid = {each.end: each for each in plan.steps[2].reads}
        for regrouping in plan.steps[1].writes:
            losing = [r.node for r in sorted(mid[regrouping.end].removed)] if regrouping.end in mid else []
            span = _range_to(plan, regrouping.end)
            is_strict = len(losing) == 1 and losing[0] != move.dead
            read = self.replicas(self.place(regrouping.end), factor)
            readers = tuple(name for name in read if name != move.dead)
            for target in sorted(replica.node for replica in regrouping.added):
                others = tuple(name for name in readers if name != target)
                yield Transfer(factor, span, target, tuple(losing) if is_strict else others, is_strict, others)

    def own_transfers(self, node: str, factor: Copies) -> Iterator[Transfer]:
        """Yield what a node that is read from has to have, if it has lost its disk."""
        for place, end in enumerate(self.tokens):
            read = self.replicas(place, factor)
            if node in read:
                others = tuple(name for name in read if name != node)
                span = TokenRange(self.tokens[place - 1], end)
                yield Transfer(factor, span, node, others, is_strict=False, readers=others)


_UNDER_WAY: Final[Mapping[Change, SeatState]] = {
    "join": "joining",
    "replace": "joining",
    "leave": "leaving",
    "move": "moving",
}
_MEMBERS: Final = frozenset({"joining", "normal", "leaving", "moving"})


def former_of(name: str) -> str:
    """Return the name of the node that had the address of this one before: no node has it, so nothing that is sent there arrives."""
    return name + _FORMER


def present_of(name: str) -> str:
    """Return the name of the node that has the address of a node now."""
    return name.removesuffix(_FORMER)


def is_former(name: str) -> bool:
    """Return whether a name is that of a node whose address another one has now."""
    return name.endswith(_FORMER)


def lacking(ring: Ring, node: str, factors: Iterable[Copies]) -> int | None:
    """Return a replication factor for which too few nodes are left when this one leaves; None: there are enough."""
    there = ring.racks.get(ring.locations[node].data_center, {}) if node in ring.locations else {}
    for copies in factors:
        if isinstance(copies, int):
            count, left = copies, len(ring.locations) - 1
        else:
            count, left = dict(copies).get(ring.locations[node].data_center, 0), sum(there.values()) - 1
        if left < count:
            return count
    return None


def factors_of(ring: Ring) -> tuple[Copies, ...]:
    """Return the replication factors whose ranges a change locks, and for which rows are streamed."""
    centers = sorted(ring.racks)
    if len(centers) < 2 and all(len(racks) < 2 for racks in ring.racks.values()):
        return FACTORS
    return (*FACTORS, *(tuple((center, factor) for center in centers) for factor in FACTORS))


def even_topology(
    names: Sequence[str],
    host_ids: Mapping[str, str],
    *,
    version: int = 0,
    locations: Mapping[str, Location] | None = None,
) -> Topology:
    """Return the topology of founders that divide the ring evenly."""
    tokens = even_tokens(len(names))
    known = locations or {}
    seats = {
        name: Seat("normal", host_ids[name], (token,), known.get(name, Location()))
        for name, token in zip(names, tokens, strict=True)
    }
    return Topology(version, seats, Ring.of({name: seat.tokens for name, seat in seats.items()}, known))


def spare_token(founders: int, number: int) -> int:
    """Return the token of the spare of that number, from 0: in the middle of a founder's range, or of a half of it."""
    lap, place = divmod(number, founders)
    return SPACE * place // founders + (SPACE // founders >> (lap + 1))


def shown_token(token: int) -> str:
    """Return a token as servers with Murmur3 show it: from -2^63 on."""
    return str(token - (SPACE >> 1))


def _regrouped(plan: Plan, end: int) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return who is no more read from, and who is, of the range that a token ends."""
    ends = sorted({*plan.ring.tokens, *plan.steps[3].merged})
    whole = ends[bisect_left(ends, end) % len(ends)]
    for regrouping in plan.steps[2].reads:
        if regrouping.end == whole:
            return (
                frozenset(replica.node for replica in regrouping.removed),
                tuple(sorted(replica.node for replica in regrouping.added)),
            )
    return frozenset(), ()


def _range_to(plan: Plan, end: int) -> TokenRange:
    """Return the range of the plan that ends there."""
    return next(span for span in plan.locked if span.end == end)


def _overlap(one: TokenRange, other: TokenRange) -> bool:
    return one.has(other.end) or other.has(one.end)
