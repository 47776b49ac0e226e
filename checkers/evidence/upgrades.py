"""Upgrades: the operations of process −1 by which nodes became another version, and what was promised meanwhile.

An operation is one node's (`stage` is `node` or `back`) or the end of the upgrade (`finish`), on the way `to` a system. Its outcome
holds the node's `system` afterwards, and `promises` (`schemaquake.harness.model.upgrade.ChangesVersions.promises`). A run may have
several upgrades, one after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from schemaquake.harness.model.operation import JSON

__all__ = ["LAST_STAGE", "STAGES", "Promise", "Upgrade", "UpgradeOperation", "Upgrades"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """One upgrade of the cluster, to one system."""

    operations: Sequence[UpgradeOperation]
    """Its operations in order, at least one."""
    is_cut_short: bool = False
    """True if some of its operations may not have begun."""

    @property
    def to(self) -> str:
        """The system that nodes become."""
        return self.operations[0].to

    @property
    def promises(self) -> Mapping[str, JSON]:
        """The promises for mixed versions; empty if no operation came to its end."""
        return next((one.promises for one in self.operations if one.promises), {})

    @property
    def source(self) -> str:
        """The source of the promises; empty if none is known."""
        return str(self.promises.get("source") or "")

    @property
    def finished(self) -> UpgradeOperation | None:
        """The operation that ended it with an acknowledgement; None if none did."""
        return next((one for one in self.operations if one.stage == LAST_STAGE and one.outcome == "ok"), None)

    @property
    def mixed(self) -> tuple[int, int]:
        """The time (ns) from the begin of its first operation to the end of what the promises are bound to."""
        begins = min(one.invoked for one in self.operations)
        if self.promises.get("until") == "nodes":
            nodes = [one for one in self.operations if one.stage != LAST_STAGE]
            whole = all(one.outcome == "ok" for one in nodes) and not self.is_cut_short
            return begins, max(one.ends for one in nodes) if nodes and whole else _END
        return begins, _END if self.finished is None else self.finished.ends

    def promise_on(self, node: str | None, invoked: int, completed: int) -> Promise | None:
        """Return what is promised for a schema change asked of this node, all of whose time lies in the mixed one.

        None: it may lie outside. `unknown`: the node may have been either version, or nothing is known of the promises.
        """
        begins, ends = self.mixed
        if not begins < invoked <= completed < self._certainly_mixed_until(ends):
            return None
        side = self._side_of(node, invoked, completed)
        told = self.promises.get("schema_changes")
        promise = told.get(side) if isinstance(told, Mapping) and side is not None else None
        return _PROMISES.get(promise, "unknown")

    def may_refuse(self, invoked: int, completed: int) -> bool:
        """Return whether a refusal of a schema change at that time may be one that was promised."""
        told = self.promises.get("schema_changes")
        begins, ends = self.mixed
        refuses = isinstance(told, Mapping) and "refused" in told.values()
        return refuses and begins <= completed and invoked <= ends

    def _certainly_mixed_until(self, end: int) -> int:
        """Return the time up to which changes are certainly not allowed: the last step may allow them before it has ended.

        One that is known to have changed nothing allows nothing.
        """
        last = (one for one in self.operations if one.stage == LAST_STAGE and one.outcome != "fail")
        return min([end, *(one.invoked for one in last)])

    def _side_of(self, node: str | None, invoked: int, completed: int) -> Literal["old", "new"] | None:
        """Return which version the node was all that time; None if it may have changed meanwhile."""
        became = _became(_on(self.operations, node), invoked, completed)
        if became is None:
            return None
        return "new" if became != "first" and became.system == became.to else "old"


class Upgrades:
    """The upgrades of one run, if there were any."""

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
        self.each: Sequence[Upgrade] = _divide(self.operations, are_skipped=bool(self.skipped))
        """The upgrades in order."""

    @property
    def finished(self) -> UpgradeOperation | None:
        """The operation that ended the last upgrade with an acknowledgement; None if none did."""
        return self.each[-1].finished if self.each else None

    @property
    def mixed(self) -> tuple[int, int] | None:
        """The time (ns) from the begin of the first operation to the end of what any promises are bound to; None: no upgrade."""
        if not self.each:
            return None
        return min(one.mixed[0] for one in self.each), max(one.mixed[1] for one in self.each)

    def on(self, node: str | None) -> Sequence[UpgradeOperation]:
        """List the operations that made this node another version, in order: all of its own but the ends of upgrades."""
        return _on(self.operations, node)

    def during(self, node: str | None, invoked: int, completed: int) -> Upgrade | None:
        """Return the upgrade in whose mixed time all of a schema change lies that this node was asked for; None if there is none."""
        return next((one for one in self.each if one.promise_on(node, invoked, completed) is not None), None)

    def promise_on(self, node: str | None, invoked: int, completed: int) -> Promise | None:
        """Return what that upgrade promises for the change (`Upgrade.promise_on`)."""
        upgrade = self.during(node, invoked, completed)
        return None if upgrade is None else upgrade.promise_on(node, invoked, completed)

    def may_refuse(self, invoked: int, completed: int) -> bool:
        """Return whether a refusal of a schema change at that time may be one that was promised."""
        return any(one.may_refuse(invoked, completed) for one in self.each)

    def versions_of(self, node: str | None, begins: int, ends: int) -> tuple[int, int]:
        """Return the oldest and the newest version that the node may have been from one time (ns) to another.

        The first is 0, and n what the n-th upgrade makes of nodes. An operation under way, and one that was not acknowledged, may have
        left the node as it was.
        """
        own = [one for one in self.on(node) if one.invoked <= ends]
        certain = [one for one in own if one.ends < begins and one.outcome == "ok"]
        number = {upgrade.to: n for n, upgrade in enumerate(self.each, start=1)}
        known = 0
        if certain:
            known = number[certain[-1].to] - (certain[-1].system != certain[-1].to)
        later = [number[one.to] for one in own[own.index(certain[-1]) + 1 if certain else 0 :]]
        return min([known, *(n - 1 for n in later)]), max([known, *later])


def _divide(operations: Sequence[UpgradeOperation], *, are_skipped: bool) -> Sequence[Upgrade]:
    """Divide operations by the system that they lead to. An upgrade that was ended has all of its own; others lack some if any were skipped."""
    by_system: dict[str, list[UpgradeOperation]] = {}
    for one in operations:
        by_system.setdefault(one.to, []).append(one)
    found = [Upgrade(operations=each) for each in by_system.values()]
    return [replace(one, is_cut_short=one.finished is None and (are_skipped or one is not found[-1])) for one in found]


def _on(operations: Iterable[UpgradeOperation], node: str | None) -> Sequence[UpgradeOperation]:
    return [one for one in operations if one.node == node and one.stage != LAST_STAGE]


def _became(
    operations: Sequence[UpgradeOperation], begins: int, ends: int
) -> UpgradeOperation | Literal["first"] | None:
    """Return the last of a node's operations before that time, or `first`; None if one may have been under way, or its effect is not known."""
    if any(one.invoked <= ends and begins <= one.ends for one in operations):
        return None
    before = [one for one in operations if one.ends < begins]
    if not before:
        return "first"
    return before[-1] if before[-1].outcome == "ok" else None


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
