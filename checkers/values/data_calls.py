"""Calls on data: the operations of a few functions, grouped by key, and what the levels of their reads promise.

A read may say at which level it was asked and at which level additions were made (`consistency` and `additions` of its argument),
for additions are plain values. Where the two must share a replica (R + W > N), it shows every addition that was acknowledged
before it began. Histories of other tools do not say it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation, operations, select_functions
from schemaquake.checkers.quorum.centers import Asked, find_centers, meet
from schemaquake.checkers.quorum.levels import share_a_replica
from schemaquake.checkers.quorum.operations import find_replication_factors
from schemaquake.harness.model.records import keyspace_of, plain

__all__ = ["Levels", "group_calls_by_key", "list_objects"]


class Levels:
    """The promises that the levels of a run's reads make."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._copies: dict[str, tuple[frozenset[int], Mapping[str, int] | None]] = {}

    def promise(self, read: PairedOperation) -> bool | None:
        """Return whether the read shares a replica with every acknowledged addition; None: its levels are not known.

        A read promises nothing once an operation has taken a node's disk away, nor in a run in which the replication factor changes:
        what was added may be on fewer replicas then. Raises HistoryError for an unknown level.
        """
        levels = read.argument if isinstance(read.argument, dict) else {}
        if not levels.keys() >= {"consistency", "additions"}:
            return None
        factors, centers = self._copies_of(read.key)
        ended = read.invoked if read.completed is None else read.completed
        if self._evidence.notes.losses.around(ended, ended).begun or len(factors) != 1 or centers is None:
            return False
        if centers:  # additions are made through all nodes, so that local ones are nowhere in particular
            return meet(Asked(str(levels["additions"]), None), Asked(str(levels["consistency"]), None), centers)
        return share_a_replica(str(levels["additions"]), str(levels["consistency"]), min(factors))

    def _copies_of(self, key: str | None) -> tuple[frozenset[int], Mapping[str, int] | None]:
        """Return the replication factors of a keyspace, and the replicas by data centre if there are several."""
        keyspace = str(keyspace_of(key))
        if keyspace not in self._copies:
            history = self._evidence.history
            changes = history.filter(pc.equal(history["key"], keyspace))
            self._copies[keyspace] = find_replication_factors(changes), find_centers(changes)
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


def list_objects(key: str | None) -> tuple[str, ...]:
    """List the objects of a finding about this key."""
    return () if key is None else (key,)
