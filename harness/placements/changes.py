"""Changes: a node joins, leaves, moves or is replaced, as steps that are applied one after the other (CEP-21, `tcm/ownership`).

The placement of reads and that of writes are apart. A change is planned from the ring as it will be when the changes under way are
over, and its steps touch the ranges that it has locked alone:

- PREPARE splits ranges where new tokens will be
- START adds the replicas to come to the writes
- MID exchanges the replicas of the reads, when what they lack was streamed
- FINISH takes the former ones out of the writes, and merges ranges that are no longer apart

A replica that becomes full is so from START on, one that becomes transient from FINISH on. Each step can be reverted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from schemaquake.harness.placements.ring import Location, Ring, TokenRange
from schemaquake.harness.placements.strategies import Placement, Replica, Strategy

__all__ = [
    "STEPS",
    "Change",
    "Misplaced",
    "Placements",
    "Plan",
    "Regrouping",
    "Step",
    "StepName",
    "plan_join",
    "plan_leave",
    "plan_move",
    "plan_replace",
]

StepName: TypeAlias = Literal["PREPARE", "START", "MID", "FINISH"]
STEPS: Final[tuple[StepName, ...]] = ("PREPARE", "START", "MID", "FINISH")


class Misplaced(Exception):
    """A step that does not fit the placement: what it removes is not there, or what it adds is."""


class Regrouping(NamedTuple):
    """The change of one range, which ends at `end`."""

    end: int
    removed: frozenset[Replica]
    added: frozenset[Replica]


@dataclass(frozen=True, slots=True)
class Placements:
    """The replicas that are read from and those that are written to, by the ends of ranges."""

    reads: Mapping[int, frozenset[Replica]]
    writes: Mapping[int, frozenset[Replica]]

    @classmethod
    def at_rest(cls, placement: Placement) -> Placements:
        """Make the placements of a ring that nothing changes."""
        groups = {end: frozenset(group) for end, group in zip(placement.ends, placement.groups, strict=True)}
        return cls(groups, dict(groups))

    def to_json(self) -> dict[str, Any]:
        """Return the placements as JSON: by the end of each range its replicas, of reads and of writes."""
        return {
            kind: {str(end): [list(replica) for replica in sorted(group)] for end, group in groups.items()}
            for kind, groups in (("reads", self.reads), ("writes", self.writes))
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Placements:
        """Read what `to_json` returned."""
        reads, writes = (
            {int(end): frozenset(Replica(*each) for each in group) for end, group in document[kind].items()}
            for kind in ("reads", "writes")
        )
        return cls(reads, writes)


@dataclass(frozen=True, slots=True)
class Step:
    """One step. It is applied to placements, and can be reverted."""

    name: StepName
    split: Mapping[int, int]
    """By the end of each new range the end of the range that it is cut from."""
    merged: Mapping[int, int]
    """By the end of each range that goes the end of the range that it becomes a part of."""
    reads: tuple[Regrouping, ...]
    writes: tuple[Regrouping, ...]

    def apply(self, placements: Placements) -> Placements:
        """Return the placements after the step. Raises Misplaced."""
        return Placements(
            _apply(placements.reads, self.split, self.merged, self.reads),
            _apply(placements.writes, self.split, self.merged, self.writes),
        )

    def revert(self, placements: Placements) -> Placements:
        """Return the placements before the step, from those after it. Raises Misplaced."""
        return Placements(
            _revert(placements.reads, self.split, self.merged, self.reads),
            _revert(placements.writes, self.split, self.merged, self.writes),
        )


Change: TypeAlias = Literal["join", "leave", "move", "replace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A change with its steps."""

    change: Change
    node: str
    """The node that joins, leaves or moves, or the one that takes another's place."""
    replaced: str | None = None
    ring: Ring
    """The ring when it is over, of the changes that were over when it was planned."""
    steps: tuple[Step, ...]
    locked: tuple[TokenRange, ...]
    """The ranges that it changes."""

    def conflicts(self, other: Plan) -> bool:
        """Return whether both change a token."""
        return any(_overlap(mine, its) for mine in self.locked for its in other.locked)


def plan_join(
    ring: Ring,
    strategy: Strategy,
    node: str,
    tokens: Sequence[int],
    location: Location,
    *,
    now: Placement | None = None,
) -> Plan:
    """Plan that a node joins. Raises ValueError if one of its tokens is taken."""
    return _plan("join", ring, ring.with_node(node, tokens, location), strategy, node, now)


def plan_leave(ring: Ring, strategy: Strategy, node: str, *, now: Placement | None = None) -> Plan:
    """Plan that a node leaves."""
    return _plan("leave", ring, ring.without_node(node), strategy, node, now)


def plan_move(
    ring: Ring, strategy: Strategy, node: str, tokens: Sequence[int], *, now: Placement | None = None
) -> Plan:
    """Plan that a node has other tokens. Raises ValueError if one of them is taken."""
    return _plan("move", ring, ring.with_tokens(node, tokens), strategy, node, now)


def plan_replace(ring: Ring, strategy: Strategy, node: str, replacement: str, *, now: Placement | None = None) -> Plan:
    """Plan that another node takes a node's place."""
    plan = _plan("replace", ring, ring.with_replacement(node, replacement), strategy, replacement, now)
    return replace(plan, replaced=node)


def _plan(change: Change, before: Ring, after: Ring, strategy: Strategy, node: str, now: Placement | None) -> Plan:
    """Plan the way from one ring to another, over the ranges of both; `now` is the placement of the first, if it is known."""
    ends = tuple(sorted({*before.tokens, *after.tokens}))
    started = now or strategy.replicate(before)
    finished = strategy.replicate(after)
    first, last = started.split(ends), finished.split(ends)
    new, gone = _parts(started.ends, ends), _parts(finished.ends, ends)
    start, mid, finish, locked = [], [], [], []
    for (span, group), final in zip(first.items(), last.groups, strict=True):
        if group is final or group == final:
            if span.end in new or span.end in gone or _touches(span, ends, new, gone):
                locked.append(span)
            continue
        old, goal = frozenset(group), frozenset(final)
        if old != goal:
            between = _union(old, goal)
            start.append(Regrouping(span.end, old - between, between - old))
            mid.append(Regrouping(span.end, old - goal, goal - old))
            finish.append(Regrouping(span.end, between - goal, goal - between))
        if old != goal or span.end in new or span.end in gone or _touches(span, ends, new, gone):
            locked.append(span)
    steps = (
        Step("PREPARE", new, {}, (), ()),
        Step("START", {}, {}, (), tuple(each for each in start if each.removed or each.added)),
        Step("MID", {}, {}, tuple(mid), ()),
        Step("FINISH", {}, gone, (), tuple(each for each in finish if each.removed or each.added)),
    )
    return Plan(change=change, node=node, ring=after, steps=steps, locked=tuple(locked))


def _union(old: frozenset[Replica], new: frozenset[Replica]) -> frozenset[Replica]:
    """Return the replicas of both; one that is full in either is full."""
    both = old | new
    doubled = [replica for replica in both if not replica.full and Replica(replica.node) in both]
    return both.difference(doubled) if doubled else both


def _parts(whole: Sequence[int], ends: Sequence[int]) -> dict[int, int]:
    """Return, by the end of each range that is not among `whole`, the end of the one there that it is a part of."""
    known = set(whole)
    found: dict[int, int] = {}
    following = whole[0]
    for end in reversed(ends):
        if end in known:
            following = end
        else:
            found[end] = following
    return found


def _touches(span: TokenRange, ends: Sequence[int], new: Mapping[int, int], gone: Mapping[int, int]) -> bool:
    """Return whether the range that ends just before this one begins is cut from it or becomes a part of it."""
    return len(ends) > 1 and (new.get(span.start) == span.end or gone.get(span.start) == span.end)


def _overlap(one: TokenRange, other: TokenRange) -> bool:
    return one.has(other.end) or other.has(one.end)


_Groups: TypeAlias = Mapping[int, frozenset[Replica]]


def _apply(
    groups: _Groups, split: Mapping[int, int], merged: Mapping[int, int], regroupings: Iterable[Regrouping]
) -> _Groups:
    if not (split or merged or regroupings):
        return groups
    after = dict(groups)
    for end, whole in split.items():
        _require(end not in after and whole in after, f"the range to {whole} cannot be cut at {end}")
        after[end] = after[whole]
    for end, removed, added in regroupings:
        there = after.get(end)
        _require(there is not None, f"no range ends at {end}")
        assert there is not None
        _require(removed <= there, f"the range to {end} has {_named(there)}, not {_named(removed)}")
        left = there - removed
        present = {replica.node for replica in left}
        _require(
            not any(replica.node in present for replica in added), f"the range to {end} has {_named(added)} already"
        )
        after[end] = left | added
    for end, whole in merged.items():
        _require(after.get(end) == after.get(whole, ()), f"the ranges to {end} and {whole} have different replicas")
        del after[end]
    return after


def _revert(
    groups: _Groups, split: Mapping[int, int], merged: Mapping[int, int], regroupings: Iterable[Regrouping]
) -> _Groups:
    return _apply(groups, merged, split, [Regrouping(end, added, removed) for end, removed, added in regroupings])


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise Misplaced(text)


def _named(replicas: Iterable[Replica]) -> str:
    return ", ".join(f"{node}{'' if full else ' (transient)'}" for node, full in sorted(replicas)) or "none"
