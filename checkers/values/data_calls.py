"""Calls on data: the operations of a few functions, grouped by key, and what the levels of their reads promise.

A read may say at which level it was asked and at which level additions were made (`consistency` and `additions` of its argument),
for additions are plain values. Where the two must share a replica (R + W > N), it shows every addition that was acknowledged
before it began. A level of one data centre counts where its coordinator is, also that of an addition. Histories of other tools do not say
levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import READ_LEVELS, PairedOperation, operations, select_functions
from schemaquake.checkers.quorum.centers import Asked, list_placements, meet, read_locations
from schemaquake.checkers.quorum.levels import share_a_replica
from schemaquake.checkers.quorum.operations import find_replication_factors
from schemaquake.harness.model.records import keyspace_of, plain

__all__ = ["Levels", "ReadKind", "group_calls_by_key", "list_answered", "list_objects"]


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

    @property
    def is_across(self) -> bool:
        return any(len(centers) > 1 for centers in self.placements)


class Levels:
    """The promises that the levels of a run's reads make."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._copies: dict[str, _Copies] = {}

    def promise(self, read: PairedOperation) -> bool | None:
        """Return whether the read shares a replica with every acknowledged addition; None: its levels are not known.

        A read promises nothing once an operation has taken a node's disk away, nor in a run in which the replication factor changes:
        what was added may be on fewer replicas then. Raises HistoryError for an unknown level.
        """
        kind = self.kind(read)
        if kind is None:
            return None
        # Additions are made through all nodes, so that local ones are nowhere in particular.
        undisturbed = self.has_one_replication(read.key) and not self.is_after_loss(read)
        return undisturbed and self.owes_addition(read.key, kind, None)

    def is_robbed(self, read: PairedOperation) -> bool:
        """Return whether the read would share a replica with every acknowledged addition, had no disk been taken away. Raises HistoryError as above."""
        kind = self.kind(read)
        if kind is None or not self.has_one_replication(read.key):
            return False
        return self.is_after_loss(read) and self.owes_addition(read.key, kind, None)

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

        Where the replication factor changes, it is enough that they do by one of them. Raises HistoryError for an unknown level.
        """
        return self._meet(key, Asked(kind.additions, center), kind.asked)

    def owes_sight(self, key: str | None, kind: ReadKind, earlier: ReadKind) -> bool:
        """Return whether such a read shares a replica with every earlier one, which repaired what it asked. Raises HistoryError as above."""
        return self._meet(key, earlier.asked, kind.asked)

    def has_one_replication(self, key: str | None) -> bool:
        """Return whether the keyspace of this key was replicated in one way all the time."""
        copies = self._copies_of(key)
        return len(copies.factors) == len(copies.placements) == 1

    def is_after_loss(self, read: PairedOperation) -> bool:
        """Return whether an operation has begun to take a disk away before the read ended."""
        ended = read.invoked if read.completed is None else read.completed
        return bool(self._evidence.notes.losses.around(ended, ended).begun)

    def _meet(self, key: str | None, one: Asked, other: Asked) -> bool:
        copies = self._copies_of(key)
        if copies.is_across:
            return any(meet(one, other, centers) for centers in copies.placements if centers)
        return any(share_a_replica(one.level, other.level, factor) for factor in copies.factors)

    @cached_property
    def _locations(self) -> Mapping[str, str]:
        return read_locations(self._evidence)

    def _copies_of(self, key: str | None) -> _Copies:
        """Return where the keyspace of this key may have had its replicas."""
        keyspace = str(keyspace_of(key))
        if keyspace not in self._copies:
            history = self._evidence.history
            changes = history.filter(pc.equal(history["key"], keyspace))
            self._copies[keyspace] = _Copies(find_replication_factors(changes), list_placements(changes))
        return self._copies[keyspace]


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


def list_answered(calls: Sequence[PairedOperation], f: str) -> list[PairedOperation]:
    """List the operations of this function that were answered."""
    return [call for call in calls if call.f == f and call.type == "ok"]


def list_objects(key: str | None) -> tuple[str, ...]:
    """List the objects of a finding about this key."""
    return () if key is None else (key,)
