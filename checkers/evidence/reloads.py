"""Reloads: operations of process −1 that drop a table, create it anew, and load it from snapshots that were taken before.

Their parameters have `reloads`: true, `keyspace` and `table` (nemesis `reload-table`). A snapshot holds everything that was acknowledged before the
operation began, and nothing is known of what was done while it went on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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

    def holds(self, write: PairedOperation) -> bool:
        """Check that the snapshots certainly hold what this operation wrote."""
        return write.type == "ok" and write.completed is not None and write.completed < self.invoked

    def may_undo(self, removal: PairedOperation) -> bool:
        """Check that a removal may have been made between a snapshot and its load, which puts back what was there before."""
        ends = _END if removal.completed is None or removal.type == "info" else removal.completed
        return removal.invoked <= self.completed and self.invoked <= ends

    def puts_back(self, write: PairedOperation, removal: PairedOperation) -> bool:
        """Check that the row of this write was loaded again after this removal, which was the reload's own or went on beside it."""
        within = removal.completed is not None and removal.completed < self.completed and self.invoked < removal.invoked
        return self.acknowledged and within and removal.type == "ok" and self.holds(write)


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
    )
