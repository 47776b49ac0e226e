"""Membership: which nodes should serve at which time, by the conductor's notes and the operations on the topology.

From notes `membership` (the first one holds the states before any change, the last one those in the end) and the pairs
of process −1 whose values have `becomes` (`schemaquake.harness.faults.membership`). A history without such notes, as of
runs of 0.1, has a membership that never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from schemaquake.harness.model.membership import (
    MEMBER_STATES,
    SERVING,
    ChangeOutcome,
    MemberState,
    TopologyChange,
    expected_states,
)

__all__ = ["Membership"]

_Note: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]

_OUTCOMES: Final[Mapping[str, ChangeOutcome]] = {"ok": "ok", "fail": "fail", "info": "info"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """One operation; `completed` is None while it goes on."""

    invoked: int
    completed: int | None
    becomes: Mapping[str, MemberState]
    outcome: ChangeOutcome | None
    down: frozenset[str] = frozenset()
    """The nodes that it takes down and starts again, as an upgrade does."""

    def takes_down(self, node: str, time: int) -> bool:
        """Return whether the node is down at that time (ns) because the operation goes on."""
        return node in self.down and self.invoked <= time and (self.completed is None or time < self.completed)

    def by(self, time: int) -> TopologyChange | None:
        """Return its possible effect at that time (ns); None before it began.

        A node may have left from the invocation on, and need not serve before its joining was acknowledged.
        """
        if time < self.invoked:
            return None
        ended = self.completed is not None and self.completed <= time
        becomes = {node: state for node, state in self.becomes.items() if ended or state not in SERVING}
        return TopologyChange(becomes=becomes, outcome=self.outcome)


class Membership:
    """The nodes that should serve, by time."""

    def __init__(self, notes: Iterable[_Note]) -> None:
        """Take all notes of process −1, in order, as (event, value)."""
        shown: list[Mapping[str, MemberState]] = []
        addresses: dict[str, str] = {}
        self.times: list[int] = []
        """When anything changed or was noted (ns)."""
        invoked: dict[int, tuple[int, Mapping[str, MemberState], frozenset[str]]] = {}
        ended: dict[int, tuple[int, ChangeOutcome]] = {}
        for event, value in notes:
            if event["f"] == "membership":
                members = value.get("members", {})
                addresses |= {node: str(one["address"]) for node, one in members.items() if one.get("address")}
                # Just after boot not every node lists every other one: what was planned holds, which is `expected`.
                states = "state" if shown else "expected"
                shown.append(_states({node: one.get(states, one.get("state")) for node, one in members.items()}))
            elif "becomes" in value and event["type"] == "invoke":
                down = value.get("nodes") if (value.get("parameters") or {}).get("takes_down") else None
                invoked[value["operation"]] = event["time"], _states(value["becomes"]), frozenset(down or ())
            elif "becomes" in value and event["type"] in _OUTCOMES:
                ended[value["operation"]] = event["time"], _OUTCOMES[event["type"]]
            else:
                continue
            self.times.append(event["time"])
        self.initial: Mapping[str, MemberState] = shown[0] if shown else {}
        """The states before any change."""
        self.addresses: Mapping[str, str] = addresses
        """The address of every node of which one was noted."""
        self._shown: Mapping[str, MemberState] = shown[-1] if shown else {}
        self._operations: Sequence[_Operation] = [
            _Operation(invoked=time, completed=completed, becomes=becomes, outcome=outcome, down=down)
            for number, (time, becomes, down) in invoked.items()
            for completed, outcome in [ended.get(number, (None, None))]
        ]

    @property
    def taken_down(self) -> Sequence[tuple[int, int | None, frozenset[str]]]:
        """When (ns; the end null: never noted) operations took which nodes down, to start them again."""
        return [(one.invoked, one.completed, one.down) for one in self._operations if one.down]

    @property
    def operations(self) -> int:
        """The number of operations that were begun."""
        return len(self._operations)

    @property
    def changes(self) -> bool:
        """True if any operation was to make a node join or leave."""
        return any(operation.becomes for operation in self._operations)

    def is_changing(self, begins: int, ends: int, *, spread_ns: int) -> bool:
        """Return whether an operation went on at any moment of an interval (ns), or had ended less than `spread_ns` before it.

        One of unknown outcome may go on for good.
        """
        return any(
            one.invoked <= ends
            and (one.completed is None or one.outcome == "info" or one.completed + spread_ns > begins)
            for one in self._operations
        )

    def serving(self, time: int) -> frozenset[str]:
        """Return the nodes of which anything was noted and that should serve at `time` (ns)."""
        return frozenset(node for node in self.initial if self.serves(node, time))

    def serves(self, node: str, time: int) -> bool:
        """Return whether the node should serve at `time` (ns); one of which nothing was noted always should."""
        if node not in self.initial:
            return True
        if any(one.takes_down(node, time) for one in self._operations):
            return False
        changes = [change for one in self._operations if (change := one.by(time)) is not None]
        return expected_states(self.initial, changes, self._shown)[node] in SERVING


def _states(states: Mapping[str, Any]) -> dict[str, MemberState]:
    """Keep the states that are known; a node of any other is one that always should serve."""
    known: dict[str, MemberState] = {state: state for state in MEMBER_STATES}
    return {node: known[state] for node, state in states.items() if state in known}
