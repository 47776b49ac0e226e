"""Replication factors: the series of those that a keyspace had, and what levels of consistency promise across it.

A request goes by the factor that its coordinator knows. A change may be known from its invocation on. It is known for certain to a
node that acknowledged it, that showed it in a reading, or that the operation `rf-change` saw it on. So each request has a *moment*: the
first and the last change whose factor it may have gone by. A change of unknown outcome may or may not have been made.

What a level promises is followed from the factor of a write to that of a read (SimpleStrategy: the replicas of a lower factor are among
those of a higher one):

- a write that was acknowledged by R of N replicas is on R of them
- a change to fewer replicas takes away as many copies as it takes replicas; these may drop their rows, and may not have
  them when they become replicas again
- a change to more replicas adds none
- a repair of all nodes after a change, in an operation that was acknowledged, brings what was acknowledged before it, and is on one
  replica at least, to all of them

A factor above the number of nodes places a replica on each of them, and levels still count by the factor: QUORUM of 5 takes 3 answers, which
are all of three nodes. So copies and replicas are counted up to the number of nodes, where none joins or leaves.

A read of R of N replicas must show the write if R + copies > N. What holds on every way from one moment to the other is *certain*;
what holds on one of them is *possible*: a read that contradicts no more than that is undecided.

A repair counts as certain if every member had shown the new factor before it began, each answered that it was repaired, and no other
operation on the topology went on; otherwise as possible. If nodes showed factors in another order than they were asked for, or changes
overlapped, the order is not known: then nothing is certain but what holds for every pair of factors.

Sources: Gifford, "Weighted voting for replicated data" (SOSP 1979); seed document 4 (CEP-21), quorum intersection; the manual of Cassandra,
"Changing the replication factor" (repair after an increase).
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.topology_operations import TopologyOperation
from schemaquake.checkers.findings.explanation import listing
from schemaquake.checkers.quorum.levels import count_replicas, sum_factors
from schemaquake.checkers.quorum.processes import NEVER, ends_of_processes
from schemaquake.harness.model.membership import SERVING
from schemaquake.harness.model.operation import JSON

__all__ = ["FactorSeries", "Moment"]

_SYNCED_WITHIN_NS: Final = 15_000_000_000
"""How long (ns) what a node showed may not be on its disk yet, so that the end of its process may take it back."""
_CHANGES: Final = ("create-keyspace", "alter-keyspace")
_OPERATION: Final = "rf-change"


class Moment(NamedTuple):
    """The factors that a request may have gone by, and the repairs around it; equal for requests that are promised the same."""

    low: int
    """The first change (position in the series) whose factor it may have gone by."""
    high: int
    """The last one."""
    since: int
    """How many repairs had ended when it was invoked."""
    until: int
    """How many repairs had begun before it ended."""


class _Repair(NamedTuple):
    """A repair of all nodes after the change at this position. Times in ns."""

    change: int
    begins: int
    ended: int
    certain: bool


class _Held(NamedTuple):
    """So many copies among the first `spread` replicas of a row, in the order in which a greater factor adds them."""

    copies: int
    spread: int

    def among(self, replicas: int) -> int:
        """Count the copies on the first so many replicas, at least."""
        return max(self.copies - max(0, self.spread - replicas), 0)

    def within(self, factor: int) -> _Held:
        """Return what is left by that factor: others may drop their rows."""
        return _Held(self.among(factor), min(self.spread, factor))

    def repaired(self, factor: int) -> _Held:
        """Return what there is by that factor after a repair of all replicas."""
        return _Held(factor, factor) if self.copies else self


@dataclass(slots=True)
class _Change:
    """One change, or several to one factor. Times in ns."""

    factor: int
    invoked: int
    completed: int | None = None
    """When it was acknowledged first; None: whether it was made is not known."""
    nodes: tuple[tuple[str, int], ...] = ()
    """The coordinators that acknowledged it, each with the time."""
    keyspaces: tuple[str, ...] = ()

    @property
    def certain(self) -> bool:
        return self.completed is not None


class FactorSeries:
    """The replication factors of the keyspace of a history, in the order in which they were asked for."""

    def __init__(self, evidence: Evidence) -> None:
        """Read them. Raises HistoryError."""
        self._changes = _read_changes(evidence)
        self._keyspaces = {keyspace for change in self._changes for keyspace in change.keyspaces}
        self.factors: Sequence[int] = [change.factor for change in self._changes]
        """The factors; no two neighbours are equal. Empty: no possible CREATE KEYSPACE is known."""
        self.is_ordered: bool = not any(
            one.completed is not None and one.completed > other.invoked
            for one, other in zip(self._changes, self._changes[1:], strict=False)
        )
        """False if the changes may have taken effect in another order."""
        self._begins = [change.invoked for change in self._changes]
        self._nodes = _count_nodes(evidence)
        self._carried: dict[tuple[_Held, int, int, Moment, Moment, bool], frozenset[_Held]] = {}
        operations = () if self.is_constant else _read_operations(evidence, self._keyspaces)
        self._known = {} if self.is_constant else self._follow_nodes(evidence, operations)
        self._repairs = self._find_repairs(evidence, operations)
        self._repairs_begin = [repair.begins for repair in self._repairs]
        self._repairs_end = [repair.ended for repair in self._repairs]

    @property
    def is_constant(self) -> bool:
        """True if there is one factor for the whole run."""
        return len(self._changes) <= 1

    def moment(self, node: str | None, invoked: int, completed: int) -> Moment:
        """Return the moment of a request through this node, by its invocation and completion (ns)."""
        high = max(bisect_left(self._begins, completed) - 1, 0)
        low = 0
        times, positions = self._known.get(node or "", ((), ()))
        if self.is_ordered and (at := bisect_right(times, invoked)):
            low = min(positions[at - 1], high)
        return Moment(low, high, bisect_right(self._repairs_end, invoked), bisect_left(self._repairs_begin, completed))

    def at_end(self, began: int, replicas: int, *, nodes: int) -> Moment | None:
        """Return the moment of a settled cluster of so many nodes that has so many replicas of a row from `began` (ns) on.

        After settling every acknowledged change is known to all, and of those that are not acknowledged the readings tell. None: the
        replicas contradict the changes.
        """
        last = max((at for at, change in enumerate(self._changes) if change.certain), default=0)
        fitting = [at for at in range(last, len(self._changes)) if min(self.factors[at], nodes) == replicas]
        if self.is_constant:
            return Moment(0, 0, 0, 0) if fitting else None
        if not self.is_ordered or not fitting or self._begins[-1] >= began:
            return None
        return Moment(fitting[0], fitting[-1], bisect_right(self._repairs_end, began), len(self._repairs))

    def share(self, write: str, by: Moment, read: str, read_by: Moment, *, lost: int = 0, certain: bool = True) -> bool:
        """Return whether a read at a level must show what was written at a level, on all ways or (not `certain`) on one.

        `lost` replicas lost their disk in between. Raises HistoryError for an unknown level.
        """
        ways = (
            held.copies - lost + self._count_answers(read, end) > self._count_replicas(end)
            for begin in range(by.low, by.high + 1)
            for end in range(read_by.low, read_by.high + 1)
            for held in self._carry(write, begin, end, by, read_by, certain=certain)
        )
        return all(ways) if certain else any(ways)

    def copies(self, level: str, by: Moment, placed_by: Moment, *, replicas: int) -> int:
        """Count those of so many replicas that must have, at one moment, what was acknowledged at a level at another. Raises HistoryError."""
        return min(
            held.among(replicas)
            for begin in range(by.low, by.high + 1)
            for end in range(placed_by.low, placed_by.high + 1)
            for held in self._carry(level, begin, end, by, placed_by, certain=True)
        )

    def describe(self, moment: Moment) -> str:
        """Render the factors that a request may have gone by: `2 or 3`."""
        found = sorted({self.factors[at] for at in range(moment.low, moment.high + 1)})
        return " or ".join(map(str, found))

    def describe_all(self) -> str:
        """Render the whole series: `3, 4 and 3`."""
        return listing(map(str, self.factors))

    # ── ways ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _count_replicas(self, at: int) -> int:
        """Count the replicas of a row by the factor at this position."""
        return min(self.factors[at], self._nodes)

    def _count_answers(self, level: str, at: int) -> int:
        """Count those of them that answer a request at this level. Raises HistoryError."""
        return min(count_replicas(level, self.factors[at]), self._count_replicas(at))

    def _carry(
        self, level: str, begin: int, end: int, by: Moment, read_by: Moment, *, certain: bool
    ) -> frozenset[_Held]:
        """Return the copies that may be left, on each way from the factor of a write to that of a read."""
        held = _Held(self._count_answers(level, begin), self._count_replicas(begin))
        key = (held, begin, end, by, read_by, certain)
        if key not in self._carried:
            self._carried[key] = self._follow_ways(held, begin, end, by, read_by, certain=certain)
        return self._carried[key]

    def _follow_ways(
        self, held: _Held, begin: int, end: int, by: Moment, read_by: Moment, *, certain: bool
    ) -> frozenset[_Held]:
        factors = self.factors
        if not self.is_ordered:
            return frozenset({held.within(min(factors) if certain else factors[end])})
        # Its own factor takes nothing away from a write.
        if end < begin:  # the reader's coordinator had not heard yet of what the writer's had
            return frozenset({held.within(min(factors[end:begin]))})
        repaired = {
            repair.change
            for number, repair in enumerate(self._repairs)
            if by.until <= number < read_by.since and (repair.certain or not certain)
        }
        states = {held}
        for at in range(begin, end + 1):
            made = {state.within(factors[at]) for state in states}
            if at in repaired:
                made = {state.repaired(self._count_replicas(at)) for state in made}
            # A change of unknown outcome may have been left out, unless it is the one that the read went by.
            states = made if self._changes[at].certain or at == end else made | states
        return frozenset(states)

    # ── what nodes knew ──────────────────────────────────────────────────────────────────────────────────────────────

    def _follow_nodes(
        self, evidence: Evidence, operations: Sequence[_Operation]
    ) -> Mapping[str, tuple[Sequence[int], Sequence[int]]]:
        """Map each node to the times (ns) from which on it knew a change, and the positions of these. May find that there is no order."""
        seen: dict[str, list[tuple[int, int, int]]] = {}
        for sighting in evidence.sightings("keyspace"):
            factor = _factor_of(sighting.definition)
            if factor is not None and sighting.keyspace in self._keyspaces:
                seen.setdefault(sighting.node, []).append((sighting.time, 1, factor))
        for position, change in enumerate(self._changes):
            for node, time in change.nodes:
                seen.setdefault(node, []).append((time, 2, position))
        for operation in operations:
            for node in operation.shown_by:
                seen.setdefault(node, []).append((operation.completed, 1, operation.factor))
        found = {}
        for node, entries in seen.items():
            ends = [(at, 0, span[0]) for span in ends_of_processes(evidence.notes, node) for at in span]
            found[node] = self._follow_node(sorted([*entries, *ends]))
        return found

    def _follow_node(self, entries: Sequence[tuple[int, int, int]]) -> tuple[Sequence[int], Sequence[int]]:
        """Follow (time, 0, begin) of a time in which its process ended, (time, 1, factor shown) and (time, 2, change acknowledged)."""
        times, positions = [-NEVER], [0]
        for time, kind, what in entries:
            now = positions[-1]
            if kind == 0:
                now = positions[bisect_right(times, what - _SYNCED_WITHIN_NS) - 1]
            elif kind == 1:
                later = range(now, len(self._changes))
                fitting = next((at for at in later if self.factors[at] == what and self._begins[at] < time), None)
                if fitting is None:
                    self.is_ordered = False
                else:
                    now = fitting
            else:
                now = max(now, what)
            times.append(time)
            positions.append(now)
        return times, positions

    # ── repairs ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _find_repairs(self, evidence: Evidence, operations: Sequence[_Operation]) -> Sequence[_Repair]:
        """Find the repairs, one after another: while one goes on, no change is asked for."""
        found = []
        for operation in operations:
            position = self._position_of(operation)
            if operation.outcome != "ok" or position is None or not operation.repaired:
                continue
            members = evidence.notes.membership.serving(operation.completed) or operation.repaired
            known = members <= operation.repaired and members <= operation.shown_by
            alone = not any(
                begins <= operation.completed and ends >= operation.invoked for begins, ends in operation.others
            )
            begins = max(self._changes[position].completed or 0, operation.invoked)
            found.append(_Repair(position, begins, operation.completed, known and alone))
        return sorted(found, key=lambda repair: repair.begins)

    def _position_of(self, operation: _Operation) -> int | None:
        """Return the position of the change that an operation made; None if another one was asked for before it ended."""
        at = bisect_right(self._begins, operation.completed) - 1
        return at if at >= 0 and self.factors[at] == operation.factor and self._changes[at].certain else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """An operation `rf-change` that ended. Times in ns."""

    factor: int
    invoked: int
    completed: int
    outcome: str
    repaired: frozenset[str]
    """The nodes whose last repair in it was acknowledged."""
    shown_by: frozenset[str]
    """The nodes that were seen to know the factor before the first repair."""
    others: Sequence[tuple[int, int]]
    """When other operations on the topology went on; one of unknown outcome may go on for good."""


def _read_operations(evidence: Evidence, keyspaces: Collection[str]) -> Sequence[_Operation]:
    every = evidence.notes.operations
    spans = {one.number: (one.invoked, _end_of(one)) for one in every}
    return [
        _Operation(
            factor=one.effect["to"],
            invoked=one.invoked,
            completed=one.completed,
            outcome=one.outcome or "",
            repaired=_repaired(one),
            shown_by=frozenset(map(str, one.effect.get("shown_by") or ())),
            others=[span for other, span in spans.items() if other != one.number],
        )
        for one in every
        if one.f == _OPERATION
        and one.completed is not None
        and one.effect.get("keyspace") in keyspaces
        and isinstance(one.effect.get("to"), int)
    ]


def _end_of(operation: TopologyOperation) -> int:
    """Return when (ns) an operation was over. What one of unknown outcome may still do to a factor is among the changes."""
    ended = operation.completed if operation.f == _OPERATION else operation.ends_ns
    return NEVER if ended is None else ended


def _repaired(operation: TopologyOperation) -> frozenset[str]:
    last: dict[str, str] = {}
    for attempt in operation.attempts:
        if "repair" in str(attempt.get("command")).split():
            last[str(attempt.get("node"))] = str(attempt.get("outcome"))
    return frozenset(node for node, outcome in last.items() if outcome == "ok")


# ── changes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_changes(evidence: Evidence) -> Sequence[_Change]:
    """Read the possible changes in order of their invocations, neighbours to one factor as one."""
    found: list[_Change] = []
    for operation in evidence.operations(_CHANGES):
        if not operation.possible or (operation.type == "ok" and not operation.acknowledged):
            continue
        factor = _factor_of(operation.argument) or 0
        if not found or found[-1].factor != factor:
            found.append(_Change(factor, operation.invoked))
        change = found[-1]
        change.keyspaces = (*change.keyspaces, *([] if operation.key is None else [operation.key]))
        if operation.type == "ok" and operation.completed is not None:
            completed = operation.completed
            change.completed = completed if change.completed is None else min(change.completed, completed)
            change.nodes = (*change.nodes, (operation.node or "", completed))
    return found


def _factor_of(document: JSON) -> int | None:
    """Sum the replication factors of all data centres; None for a document without."""
    replication = document.get("replication") if isinstance(document, Mapping) else None
    return sum_factors(replication) if replication and replication.keys() - {"class"} else None


def _count_nodes(evidence: Evidence) -> int:
    """Count the nodes of a cluster without joins and departures; no bound for any other one, or if the members are not known."""
    membership = evidence.notes.membership
    serving = [state for state in membership.initial.values() if state in SERVING]
    return len(serving) if serving and not membership.changes else sys.maxsize
