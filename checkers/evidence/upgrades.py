"""Upgrades: the operations of process −1 by which nodes became another version, and what was promised meanwhile.

An operation is one node's (`stage` is `node` or `back`) or the end of the upgrade (`finish`). Its outcome holds the node's
`system` afterwards, and `promises` (`schemaquake.harness.model.upgrade.ChangesVersions.promises`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from schemaquake.harness.model.operation import JSON

__all__ = ["LAST_STAGE", "STAGES", "Promise", "UpgradeOperation", "Upgrades"]

_Note: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]

Promise: TypeAlias = Literal["refused", "unsupported", "unknown"]

LAST_STAGE: Final = "finish"
STAGES: Final = frozenset({"node", "back", LAST_STAGE})
"""What an operation is about: a node, a node that is taken back, and the end of the upgrade."""
_PROMISES: Final[Mapping[JSON, Promise]] = {"refused": "refused", "unsupported": "unsupported"}
_END: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeOperation:
    """One operation; `completed` (ns) and `outcome` are None if no end was noted."""

    index: int
    """The index of its invocation."""
    stage: str
    node: str
    to: str
    """The system that nodes become."""
    invoked: int
    completed: int | None = None
    outcome: str | None = None
    system: str | None = None
    """What the node was afterwards, or would have been started as; None without an end."""
    attempts: Sequence[Mapping[str, Any]] = ()
    promises: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def ends(self) -> int:
        """Its end (ns), or a time after all others."""
        return _END if self.completed is None else self.completed


class Upgrades:
    """The upgrade of one run, if there was one."""

    def __init__(self, notes: Iterable[_Note]) -> None:
        """Take all notes of process −1, in order, as (event, value)."""
        begun: dict[Any, _Note] = {}
        ended: dict[Any, _Note] = {}
        self.skipped: list[str] = []
        """Why operations did not begin, a sentence each."""
        for event, value in notes:
            parameters = value.get("parameters")
            if isinstance(parameters, Mapping) and parameters.get("stage") in STAGES and "operation" in value:
                (begun if event["type"] == "invoke" else ended).setdefault(value["operation"], (event, value))
        self.operations: Sequence[UpgradeOperation] = [_operation(begun[number], ended.get(number)) for number in begun]
        names = {event["f"] for event, _ in begun.values()}
        self.skipped = [
            str(value.get("reason"))
            for event, value in notes
            if event["f"] == "operation-skipped" and value.get("nemesis") in names
        ]

    @property
    def promises(self) -> Mapping[str, JSON]:
        """The promises for mixed versions; empty if no operation came to its end."""
        return next((one.promises for one in self.operations if one.promises), {})

    @property
    def source(self) -> str:
        """The source of the promises; empty if none is known."""
        return str(self.promises.get("source") or "")

    def on(self, node: str | None) -> Sequence[UpgradeOperation]:
        """List the operations that made this node another version, in order: all of its own but the end of the upgrade."""
        return [one for one in self.operations if one.node == node and one.stage != LAST_STAGE]

    @property
    def finished(self) -> UpgradeOperation | None:
        """The operation that ended the upgrade with an acknowledgement; None if none did."""
        return next((one for one in self.operations if one.stage == LAST_STAGE and one.outcome == "ok"), None)

    @property
    def mixed(self) -> tuple[int, int] | None:
        """The time (ns) from the begin of the first operation to the end of what the promises are bound to; None: no upgrade."""
        if not self.operations:
            return None
        begins = min(one.invoked for one in self.operations)
        if self.promises.get("until") == "nodes":
            nodes = [one for one in self.operations if one.stage != LAST_STAGE]
            whole = all(one.outcome == "ok" for one in nodes) and not self.skipped
            return begins, max(one.ends for one in nodes) if nodes and whole else _END
        return begins, _END if self.finished is None else self.finished.ends

    def promise_on(self, node: str | None, invoked: int, completed: int) -> Promise | None:
        """Return what is promised for a schema change asked of this node, all of whose time lies in the mixed one.

        None: it may lie outside. `unknown`: the node may have been either version, or nothing is known of the promises.
        """
        mixed = self.mixed
        if mixed is None or not mixed[0] < invoked <= completed < self._certainly_mixed_until(mixed[1]):
            return None
        side = self.side_of(node, invoked, completed)
        told = self.promises.get("schema_changes")
        promise = told.get(side) if isinstance(told, Mapping) and side is not None else None
        return _PROMISES.get(promise, "unknown")

    def may_refuse(self, invoked: int, completed: int) -> bool:
        """Return whether a refusal of a schema change at that time may be one that was promised."""
        told = self.promises.get("schema_changes")
        mixed = self.mixed
        refuses = isinstance(told, Mapping) and "refused" in told.values()
        return refuses and mixed is not None and mixed[0] <= completed and invoked <= mixed[1]

    def _certainly_mixed_until(self, end: int) -> int:
        """Return the time up to which changes are certainly not allowed: the last step may allow them before it has ended.

        One that is known to have changed nothing allows nothing.
        """
        last = (one for one in self.operations if one.stage == LAST_STAGE and one.outcome != "fail")
        return min([end, *(one.invoked for one in last)])

    def side_of(self, node: str | None, invoked: int, completed: int) -> Literal["old", "new"] | None:
        """Return which version the node was all that time; None if it may have changed meanwhile."""
        own = self.on(node)
        if any(one.invoked <= completed and invoked <= one.ends for one in own):
            return None
        before = [one for one in own if one.ends < invoked]
        if not before:
            return "old"
        last = before[-1]
        if last.outcome != "ok":
            return None
        return "new" if last.system == last.to else "old"


def _operation(begin: _Note, end: _Note | None) -> UpgradeOperation:
    event, value = begin
    told = None if end is None else end[1].get("effect")
    effect: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    attempts, promises = effect.get("attempts"), effect.get("promises")
    parameters = value["parameters"]
    return UpgradeOperation(
        index=event["index"],
        stage=parameters["stage"],
        node=str((value.get("nodes") or [event.get("node")])[0]),
        to=str(parameters.get("to")),
        invoked=event["time"],
        completed=None if end is None else end[0]["time"],
        outcome=None if end is None else end[0]["type"],
        system=effect.get("system"),
        attempts=[one for one in attempts if isinstance(one, Mapping)] if isinstance(attempts, list) else (),
        promises=promises if isinstance(promises, Mapping) else {},
    )
