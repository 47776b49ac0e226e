"""Reloads: operations of process −1 that drop a table, create it anew, and load it from snapshots that were taken before.

Their parameters have `reloads`: true, `keyspace` and `table` (nemesis `reload-table`). A node's snapshot holds everything that the node had acknowledged
before it began. The value of their end says when that was: `snapshots` maps each node to the seconds from the operation's begin, rounded down; `dated` in
the parameters promises that. Of recordings without it, the snapshots are known to hold what was acknowledged before the operation began, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from schemaquake.checkers.evidence.operations import PairedOperation

__all__ = ["Reload", "read_reloads"]

_Note: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]
_END: Final = 2**63 - 1


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
        """Count the nodes whose snapshot may have begun before the write was acknowledged; None: any of them, or nobody acknowledged it."""
        if write.type != "ok" or write.completed is None:
            return None
        if write.completed < self.invoked:
            return 0
        return sum(began <= write.completed for began in self.snapshots.values()) if self.snapshots else None

    def may_undo(self, removal: PairedOperation) -> bool:
        """Check that a removal may have been made between a snapshot and its load, which puts back what was there before."""
        ends = _END if removal.completed is None or removal.type == "info" else removal.completed
        return removal.invoked <= self.completed and self.invoked <= ends

    def puts_back(self, write: PairedOperation, removal: PairedOperation, copies: int) -> bool:
        """Check that the row of this write, of so many copies, was loaded again after this removal.

        The removal was the reload's own, or went on beside it; one that began before the last snapshot did may be in that.
        """
        last = max(self.snapshots.values(), default=self.invoked)
        within = removal.completed is not None and removal.completed < self.completed and last < removal.invoked
        return self.acknowledged and within and removal.type == "ok" and self.holds(write, copies)


def read_reloads(notes: Iterable[_Note]) -> Sequence[Reload]:
    """Read the reloads that may have dropped their table, in order."""
    begun: dict[Any, Mapping[str, Any]] = {}
    ended: dict[Any, _Note] = {}
    for event, value in notes:
        if "operation" in value and event["type"] == "invoke":
            begun.setdefault(value["operation"], {**event, "parameters": value.get("parameters")})
        elif "operation" in value and value["operation"] in begun and event["type"] in {"ok", "fail", "info"}:
            ended.setdefault(value["operation"], (event, value))
    found = [_reload(begin, ended.get(number)) for number, begin in begun.items()]
    return [reload for reload in found if reload is not None]


def _reload(begin: Mapping[str, Any], end: _Note | None) -> Reload | None:
    parameters = begin["parameters"]
    if not isinstance(parameters, Mapping) or not parameters.get("reloads"):
        return None
    if end is not None and end[0]["type"] == "fail":
        return None
    return Reload(
        index=begin["index"],
        keyspace=str(parameters.get("keyspace")),
        table=str(parameters.get("table")),
        invoked=begin["time"],
        completed=_END if end is None else end[0]["time"],
        acknowledged=end is not None and end[0]["type"] == "ok",
        snapshots={} if end is None else _read_snapshots(begin["time"], *end),
    )


def _read_snapshots(begins: int, event: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, int]:
    """Read when the snapshots began; none if a time cannot be true."""
    effect = value.get("effect")
    noted = effect.get("snapshots") if isinstance(effect, Mapping) else None
    if not isinstance(noted, Mapping):
        return {}
    lasted_s = (event["time"] - begins) / 1e9
    if not all(type(after) in {int, float} and 0 <= after <= lasted_s for after in noted.values()):
        return {}
    return {str(node): begins + int(after * 1e9) for node, after in noted.items()}
