"""Meetings: schema changes outside of races that met, and the anomalies that each meeting explains.

Two changes met if they overlapped, went through two coordinators, and concern one object: the table that both alter, the type
that one drops and the other uses, the table of an index. What merely happened at the same time, or on the same object at another
time, is another meeting, and so another cause. An anomaly often names the whole history of its object: of the meetings in
it the one counts that other anomalies name alone, or that has a symptom from which this one is known to follow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from schemaquake.results.findings.shapes import objects_of
from schemaquake.results.tables.statements import Statement

__all__ = ["Clue", "Explained", "Meetings", "explain"]

_SHARED_ROLES: Final = ("of", "on")
"""Relations that two changes may have to one object and so concern each other: views and indexes change what their table is."""


class Meetings:
    """The schema changes of a run, and which of them met."""

    def __init__(self, changes: Iterable[Statement]) -> None:
        every = list(changes)
        self._changes = {one.index: one for one in every if one.type != "fail"}
        self._own: dict[int, str] = {}
        self._related: dict[int, frozenset[str]] = {}
        self._tables: dict[int, frozenset[str]] = {}
        by_object: dict[str, set[tuple[str, str]]] = {}
        for one in every:
            own, relations = objects_of(one)
            self._own[one.index] = own
            by_object.setdefault(own, set()).update(relation for relation in relations if relation[0] != "in")
        for one in every:
            own, relations = objects_of(one)
            # DROP INDEX does not say of which table: that its CREATE said so holds for every change of the index.
            known = {*relations, *by_object[own]}
            self._related[one.index] = frozenset({own, *(name for _, name in known)})
            self._tables[one.index] = frozenset(name for role, name in known if role in _SHARED_ROLES)

    def groups(self, indices: Iterable[int]) -> list[tuple[Statement, ...]]:
        """Divide changes into those that met each other, directly or through others; changes that met none are left out."""
        some = [self._changes[index] for index in sorted(set(indices)) if index in self._changes]
        return _components_of_two(some, self._met)

    def overlapping(self, changes: Iterable[Statement]) -> tuple[Statement, ...]:
        """Select the changes that met another, or, if none did, that overlapped one through another coordinator."""
        some = [one for one in {one.index: one for one in changes}.values() if one.type != "fail"]
        groups = (
            _components_of_two(some, self._met)
            or _components_of_two(some, _overlapped)
            or _components_of_two(some, _may_have_overlapped)
        )
        return tuple(sorted((one for group in groups for one in group), key=lambda one: (one.invoked, one.index)))

    def _met(self, one: Statement, other: Statement) -> bool:
        return _overlapped(one, other) and bool(
            self._own[one.index] in self._related[other.index]
            or self._own[other.index] in self._related[one.index]
            or self._tables[one.index] & self._tables[other.index]
        )


def _overlapped(one: Statement, other: Statement) -> bool:
    """Return True if two coordinators were at work on them at once, as far as is known."""
    return one.node != other.node and _ends(one) >= other.invoked and _ends(other) >= one.invoked


def _may_have_overlapped(one: Statement, other: Statement) -> bool:
    """Return True unless one had completed: a change without an answer may take effect at any later time."""
    return one.node != other.node and one.overlaps(other)


def _ends(one: Statement) -> float:
    return one.ends if one.completed is None else one.completed


def _components_of_two(
    changes: Sequence[Statement], met: Callable[[Statement, Statement], bool]
) -> list[tuple[Statement, ...]]:
    """Divide changes into connected components, without those of a single change. Looks only at changes still under way."""
    groups: dict[int, list[Statement]] = {}
    under_way: list[Statement] = []
    for one in sorted(changes, key=lambda one: (one.invoked, one.index)):
        under_way = [other for other in under_way if other.ends >= one.invoked]
        mine = [one]
        for group in {id(groups[other.index]): groups[other.index] for other in under_way if met(other, one)}.values():
            mine = [*group, *mine]
        for member in mine:
            groups[member.index] = mine
        under_way.append(one)
    found = {id(group): group for group in groups.values() if len(group) > 1}
    return sorted(
        (tuple(sorted(group, key=lambda one: (one.invoked, one.index))) for group in found.values()),
        key=lambda group: (group[0].invoked, group[0].index),
    )


# ── anomalies ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """The parts of an anomaly that tell of its cause."""

    place: int
    """Its place in the verdict."""
    kind: str
    prominence: int
    causes: frozenset[str]
    """Types from which this one is known to follow."""
    links: frozenset[Hashable]
    """The objects and the changes that it names."""
    groups: Sequence[tuple[Statement, ...]]
    """The meetings in the changes that it names."""

    @property
    def leads(self) -> bool:
        """Return whether this type leads a finding; the least prominent ones lead only where nothing else does."""
        return self.prominence >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The anomalies with one meeting as their cause."""

    places: tuple[int, ...]
    named: Mapping[int, tuple[Statement, ...]]
    """Place → the meeting, for the anomalies that name it and no other."""


def explain(clues: Iterable[Clue]) -> tuple[list[Explained], list[int]]:
    """Attribute anomalies to meetings. Returns the meetings, and the places of the anomalies that have none.

    What is found does not depend on the order of the clues.
    """
    ordered = sorted(clues, key=lambda clue: (-clue.prominence, clue.kind, _indices(clue.groups), clue.place))
    found: list[_Cluster] = []
    for clue in ordered:
        if len(clue.groups) == 1:
            found = _with(found, clue, clue.groups[0])
    loose = [clue for clue in ordered if not clue.groups]
    for clue in ordered:
        if len(clue.groups) > 1:
            known = [one for one in found if any(one.has(group) for group in clue.groups)]
            if likely := [one for one in known if one.leads] or ([] if clue.leads else known):
                _best(clue, likely).clues.append(clue)
            elif clue.leads:
                found = _with(found, clue, max(clue.groups, key=_removes))
            else:
                loose.append(clue)
    links = [(one, one.links) for one in found]
    rest: list[int] = []
    for clue in loose:
        known = [one for one, shared in links if not shared.isdisjoint(clue.links)]
        if known:
            _best(clue, known).clues.append(clue)
        else:
            rest.append(clue.place)
    explained = [
        Explained(places=tuple(sorted(clue.place for clue in one.clues)), named=dict(sorted(one.named.items())))
        for one in found
    ]
    return sorted(explained, key=lambda one: one.places), sorted(rest)


@dataclass(slots=True, kw_only=True, eq=False)
class _Cluster:
    """A meeting, and the anomalies that it explains so far."""

    clues: list[Clue]
    named: dict[int, tuple[Statement, ...]]

    @property
    def statements(self) -> dict[int, Statement]:
        return {one.index: one for group in self.named.values() for one in group}

    @property
    def leads(self) -> bool:
        return any(clue.leads for clue in self.clues)

    @property
    def links(self) -> frozenset[Hashable]:
        """Objects and changes by which others belong here, without those of log entries, which name a whole keyspace."""
        told = [clue for clue in self.clues if clue.leads or clue.place in self.named]
        return frozenset(link for clue in told for link in clue.links)

    def has(self, group: Iterable[Statement]) -> bool:
        """Return True if one of these changes is of this meeting."""
        return not self.statements.keys().isdisjoint(one.index for one in group)


def _with(found: Iterable[_Cluster], clue: Clue, group: tuple[Statement, ...]) -> list[_Cluster]:
    """Add an anomaly to the meetings that share a change with its own, which thereby are one."""
    joined = _Cluster(clues=[clue], named={clue.place: group})
    others = []
    for one in found:
        if one.has(group):
            joined.clues = [*one.clues, *joined.clues]
            joined.named |= one.named
        else:
            others.append(one)
    return [*others, joined]


def _best(clue: Clue, known: Iterable[_Cluster]) -> _Cluster:
    """Choose the meeting that an anomaly is most likely to come from.

    First one of which it names a change, then one with a symptom from which it is known to follow, then one that removes
    something, then the one with the worst symptom, then the latest.
    """

    def merit(one: _Cluster) -> tuple[bool, bool, bool, int, tuple[bool, int, int]]:
        statements = one.statements
        return (
            not statements.keys().isdisjoint(clue.links),
            not clue.causes.isdisjoint(other.kind for other in one.clues if other.place in one.named),
            _removes(statements.values())[0],
            max(other.prominence for other in one.clues if other.place in one.named),
            _removes(statements.values()),
        )

    return max(known, key=merit)


def _removes(group: Iterable[Statement]) -> tuple[bool, int, int]:
    """Sort meetings that remove something behind others, and the later behind the earlier: what comes later hides what was."""
    some = list(group)
    return any(one.f.startswith("drop-") for one in some), *max((one.invoked, one.index) for one in some)


def _indices(groups: Iterable[Iterable[Statement]]) -> list[list[int]]:
    return [[one.index for one in group] for group in groups]
