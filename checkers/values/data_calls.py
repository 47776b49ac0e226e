"""Calls on data: the operations of a few functions, grouped by key, and what the levels of their reads promise.

A read may say at which level it was asked and at which level additions were made (`consistency` and `additions` of its argument),
for additions are plain values. Where the two must share a replica (R + W > N), it shows every addition that was acknowledged
before it began. A level of one data centre counts where its coordinator is, also that of an addition. Histories of other tools do not say
levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import READ_LEVELS, PairedOperation, operations, select_functions
from schemaquake.checkers.quorum.centers import Asked, list_placements, meet, read_locations
from schemaquake.checkers.quorum.levels import share_a_replica
from schemaquake.checkers.quorum.operations import find_replication_factors
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import keyspace_of, plain

__all__ = ["Levels", "ReadKind", "group_calls_by_key", "list_answered", "list_objects", "list_reads_alone"]


_WRITES_NOTHING: Final = SCHEMA_CHANGES | {"read", "read-rows", "know-table"}


class ReadKind(NamedTuple):
    """The levels and the place by which reads are owed the same."""

    asked: Asked
    additions: str
    """The level at which additions are made."""


class _Copies(NamedTuple):
    """Where a keyspace may have had its replicas."""

    factors: frozenset[int]
    placements: Sequence[Mapping[str, int]]
    """By data centre, each different one; empty ones name none."""
    changed: int = 0
    """When (ns) a change of them was asked for first."""
    first: _Copies | None = None
    """Where it had them until then; None: they were never changed, or it is not known."""

    @property
    def is_across(self) -> bool:
        return any(len(centers) > 1 for centers in self.placements)

    def ways(self, one: Asked, other: Asked) -> Iterator[bool]:
        """Yield for each way in which the keyspace may have been replicated whether two requests have a replica in common."""
        if self.is_across:
            return (meet(one, other, centers) for centers in self.placements if centers)
        return (share_a_replica(one.level, other.level, factor) for factor in self.factors)


class Levels:
    """The promises that the levels of a run's reads make."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._copies: dict[str, _Copies] = {}

    def promise(self, read: PairedOperation) -> bool | None:
        """Return whether the read shares a replica with every acknowledged addition; None: its levels are not known.

        A read promises nothing once an operation has begun to take a node's disk away, nor once a change of the replication was asked for:
        what was added may be on fewer replicas then. Raises HistoryError for an unknown level.
        """
        kind = self.kind(read)
        if kind is None:
            return None
        # Additions are made through all nodes, so that local ones are nowhere in particular.
        undisturbed = self.is_steady(read) and not self.is_after_loss(read)
        return undisturbed and self.owes_addition(read.key, kind, None)

    def is_excused(self, read: PairedOperation) -> bool:
        """Return whether the read would share a replica with every acknowledged addition, had no disk been taken away and no replica moved.

        Its levels do by every replication that there may have been. Raises HistoryError as above.
        """
        kind = self.kind(read)
        if kind is None or (self.is_steady(read) and not self.is_after_loss(read)):
            return False
        return self.owes_addition(read.key, kind, None) and (self.is_steady(read) or self.owes_always(read.key, kind))

    def kind(self, read: PairedOperation) -> ReadKind | None:
        """Return at which level the read asked and where, and the level of additions; None: it does not say its levels."""
        levels = read.argument if isinstance(read.argument, dict) else {}
        if not levels.keys() >= set(READ_LEVELS):
            return None
        consistency, additions = (str(levels[name]) for name in READ_LEVELS)
        return ReadKind(Asked(consistency, self.center(read)), additions)

    def center(self, call: PairedOperation) -> str | None:
        """Return the data centre of the call's coordinator; None: not known."""
        return self._locations.get(call.node or "")

    def owes_addition(self, key: str | None, kind: ReadKind, center: str | None) -> bool:
        """Return whether such a read shares a replica with every addition that was acknowledged through this data centre, by their levels.

        Where the replication changes, the first one counts; if that is not known, one is enough. Raises HistoryError for an unknown level.
        """
        return self._meet(key, Asked(kind.additions, center), kind.asked)

    def owes_sight(self, key: str | None, kind: ReadKind, earlier: ReadKind) -> bool:
        """Return whether such a read shares a replica with every earlier one, which repaired what it asked. Raises HistoryError as above."""
        return self._meet(key, earlier.asked, kind.asked)

    def owes_always(self, key: str | None, kind: ReadKind) -> bool:
        """Return whether such a read shares a replica with every addition by every replication that there may have been."""
        return all(self._copies_of(key).ways(Asked(kind.additions, None), kind.asked))

    def is_steady(self, read: PairedOperation) -> bool:
        """Return whether the keyspace of a read was replicated in one known way until the read ended."""
        copies = self._copies_of(read.key)
        ended = read.invoked if read.completed is None else read.completed
        return _is_one(copies) or (copies.first is not None and ended < copies.changed)

    def excuse(self, read: PairedOperation) -> str:
        """Render why a read that is excused may miss what it owed."""
        return "a disk that was taken away" if self.is_steady(read) else "a change of the replication factor"

    def is_after_loss(self, read: PairedOperation) -> bool:
        """Return whether an operation has begun to take a disk away before the read ended."""
        ended = read.invoked if read.completed is None else read.completed
        return bool(self._evidence.notes.losses.around(ended, ended).begun)

    def shares_sight(self, read: PairedOperation, earlier: PairedOperation) -> bool:
        """Return whether a read shares a replica with an earlier one, which repaired what it asked; True where reads do not say their levels.

        A read promises nothing of the kind once replicas may have come to lack what was repaired. Raises HistoryError for an unknown level.
        """
        kind, before = self.kind(read), self.kind(earlier)
        if kind is None or before is None:
            return kind == before
        undisturbed = self.is_steady(read) and not self.is_after_loss(read) and self.is_ring_steady(read)
        return undisturbed and self.owes_sight(read.key, kind, before)

    def is_ring_steady(self, read: PairedOperation) -> bool:
        """Return whether no operation on the ring had begun before the read ended: no node was joining, leaving or moving."""
        ended = read.invoked if read.completed is None else read.completed
        changing = (one for one in self._evidence.notes.operations if one.becomes and not one.takes_down)
        return all(one.invoked > ended for one in changing)

    def _meet(self, key: str | None, one: Asked, other: Asked) -> bool:
        copies = self._copies_of(key)
        return any((copies.first or copies).ways(one, other))

    @cached_property
    def _locations(self) -> Mapping[str, str]:
        return read_locations(self._evidence)

    def _copies_of(self, key: str | None) -> _Copies:
        """Return where the keyspace of this key may have had its replicas."""
        keyspace = str(keyspace_of(key))
        if keyspace not in self._copies:
            history = self._evidence.history
            changes = history.filter(pc.equal(history["key"], keyspace))
            self._copies[keyspace] = _read_copies(changes)
        return self._copies[keyspace]


def _read_copies(changes: pa.Table) -> _Copies:
    """Read where a keyspace may have had its replicas from the events about it."""
    found = _Copies(find_replication_factors(changes), list_placements(changes))
    times = changes.filter(pc.equal(plain(changes.select(["f"]))["f"], "alter-keyspace"))["time"]
    if _is_one(found) or not len(times):
        return found
    changed = pc.min(times).as_py()
    before = changes.filter(pc.less(changes["time"], changed))
    first = _Copies(find_replication_factors(before), list_placements(before))
    return found._replace(changed=changed, first=first if _is_one(first) else None)


def _is_one(copies: _Copies) -> bool:
    return len(copies.factors) == len(copies.placements) == 1


def group_calls_by_key(
    history: pa.Table, functions: Sequence[str], *, defining: Sequence[str]
) -> Mapping[str | None, Sequence[PairedOperation]]:
    """Group the operations (`f` in `functions`) by key, in order of invocation; None: operations without a key.

    Only keys with an operation of `defining` are returned: other checkers judge the others. Raises HistoryError.
    """
    events = select_functions(history, functions)
    if not len(events):
        return {}
    mops = pa.nulls(len(events), history.schema.field("mops").type)
    events = plain(events.drop_columns("mops")).append_column("mops", mops)
    found: dict[str | None, list[PairedOperation]] = {}
    for operation in operations(events):
        found.setdefault(operation.key, []).append(operation)
    return {key: calls for key, calls in found.items() if any(call.f in defining for call in calls)}


def list_reads_alone(history: pa.Table) -> Mapping[str | None, Sequence[PairedOperation]]:
    """Group the answered reads (`f` is `read`) of keys for which nothing else was asked that may write. Raises HistoryError."""
    events = history.filter(pc.not_equal(plain(history.select(["process"]))["process"], NEMESIS))
    names = plain(events.select(["f"]))["f"]
    writing = pc.invert(pc.is_in(names, value_set=pa.array(sorted(_WRITES_NOTHING))))
    others = pc.unique(plain(events.filter(writing).select(["key"]))["key"])
    grouped = group_calls_by_key(events, ("read",), defining=("read",))
    written = set(others.to_pylist())
    return {key: list_answered(calls, "read") for key, calls in grouped.items() if key not in written}


def list_answered(calls: Sequence[PairedOperation], f: str) -> list[PairedOperation]:
    """List the operations of this function that were answered."""
    return [call for call in calls if call.f == f and call.type == "ok"]


def list_objects(key: str | None) -> tuple[str, ...]:
    """List the objects of a finding about this key."""
    return () if key is None else (key,)
