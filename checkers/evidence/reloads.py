"""Reloads: operations of process −1 that drop a table, create it anew, and load it from snapshots that were taken before.

Their parameters have `reloads`: true, `keyspace` and `table` (nemesis `reload-table`). A node's snapshot holds everything that the node had acknowledged
before it began. The value of their end says when that was: `snapshots` maps each node to the seconds from the operation's begin, rounded down; `dated` in
the parameters promises that. Of recordings without it, the snapshots are known to hold what was acknowledged before the operation began, and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.topology_operations import TopologyOperation
from schemaquake.harness.units import S

__all__ = ["Reload", "read_reloads"]

_END: Final = sys.maxsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """One reload, from its begin to its end (ns)."""

    index: int
    """The index of its invocation."""
    keyspace: str
    table: str
    invoked: int
    completed: int
    """Its end, or a time after all others if none was noted."""
    acknowledged: bool
    """True if every node took up its snapshot."""
    snapshots: Mapping[str, int] = field(default_factory=dict)
    """The time (ns) before which each node's snapshot did not begin; empty if that was not noted."""

    def holds(self, write: PairedOperation, copies: int) -> bool:
        """Check that a snapshot certainly holds what this operation wrote, and `copies` nodes acknowledged: fewer nodes' began before."""
        missed = self._missed(write)
        return missed is not None and missed < copies

    def thins(self, write: PairedOperation) -> bool:
        """Check that the snapshots may hold fewer copies of a write than were acknowledged."""
        return self._missed(write) != 0

    def _missed(self, write: PairedOperation) -> int | None:
        """Count the nodes whose snapshot may have begun before the write was acknowledged.

        None: it may be any of them, or nobody acknowledged the write.
        """
        if write.type != "ok":
            return None
        if write.ended_before(self.invoked):
            return 0
        return sum(not write.ended_before(began) for began in self.snapshots.values()) if self.snapshots else None

    def may_undo(self, removal: PairedOperation) -> bool:
        """Check that a removal may have been made between a snapshot and its load, which puts back what was there before."""
        return removal.invoked <= self.completed and not removal.ended_before(self.invoked)

    def puts_back(self, write: PairedOperation, removal: PairedOperation, copies: int) -> bool:
        """Check that the row of this write, of so many copies, was loaded again after this removal, which did not fail.

        The removal was the reload's own, or went on beside it; one that began before the last snapshot did may be in that.
        """
        last = max(self.snapshots.values(), default=self.invoked)
        within = last < removal.invoked and removal.ended_before(self.completed)
        return self.acknowledged and within and self.holds(write, copies)


def read_reloads(operations: Iterable[TopologyOperation]) -> Sequence[Reload]:
    """Read the reloads that may have dropped their table, in order."""
    return [_reload(one) for one in operations if one.parameters.get("reloads") and one.outcome != "fail"]


def _reload(operation: TopologyOperation) -> Reload:
    ends = _END if operation.completed is None else operation.completed
    return Reload(
        index=operation.index,
        keyspace=str(operation.parameters.get("keyspace")),
        table=str(operation.parameters.get("table")),
        invoked=operation.invoked,
        completed=ends,
        acknowledged=operation.outcome == "ok",
        snapshots=_read_snapshots(operation, ends),
    )


def _read_snapshots(operation: TopologyOperation, ends: int) -> Mapping[str, int]:
    """Read when the snapshots began; none if a time cannot be true."""
    noted = operation.effect.get("snapshots")
    if not isinstance(noted, Mapping) or not all(type(after) in {int, float} for after in noted.values()):
        return {}
    began = {str(node): operation.invoked + int(after * S) for node, after in noted.items()}
    return began if all(operation.invoked <= at <= ends for at in began.values()) else {}
