"""Membership: which nodes should serve at which time, by the conductor's notes and the operations on the topology.

From notes `membership` (the first one holds the states before any change, the last one those in the end) and the pairs
of process −1 whose values have `becomes` (`schemaquake.harness.faults.membership`). A history without such notes, as of
runs of 0.1, has a membership that never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from schemaquake.checkers.evidence.topology_operations import TopologyOperation
from schemaquake.harness.model.membership import MEMBER_STATES, SERVING, MemberState, TopologyChange, expected_states

__all__ = ["Membership"]

_Note: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]


class Membership:
    """The nodes that should serve, by time."""

    def __init__(self, notes: Iterable[_Note], operations: Sequence[TopologyOperation]) -> None:
        """Take all notes of process −1, in order, as (event, value), and the operations that are among them."""
        shown: list[Mapping[str, MemberState]] = []
        addresses: dict[str, str] = {}
        self.times: list[int] = []
        """When anything changed or was noted (ns)."""
        for event, value in notes:
            if event["f"] == "membership":
                members = _whole_members(value.get("members"))
                addresses |= {node: str(one["address"]) for node, one in members.items() if one.get("address")}
                # Just after boot not every node lists every other one: what was planned holds, which is `expected`.
                states = "state" if shown else "expected"
                shown.append(_states({node: one.get(states, one.get("state")) for node, one in members.items()}))
            elif "becomes" not in value:
                continue
            self.times.append(event["time"])
        self.initial: Mapping[str, MemberState] = shown[0] if shown else {}
        """The states before any change."""
        self.addresses: Mapping[str, str] = addresses
        """The address of every node of which one was noted."""
        self._shown: Mapping[str, MemberState] = shown[-1] if shown else {}
        self._operations = [(one, _states(one.becomes)) for one in operations]

    @property
    def taken_down(self) -> Sequence[tuple[int, int | None, frozenset[str]]]:
        """When (ns; the end null: never noted) operations took which nodes down, to start them again."""
        return [(one.invoked, one.completed, frozenset(one.nodes)) for one, _ in self._operations if one.takes_down]

    @property
    def operations(self) -> int:
        """The number of operations that were begun."""
        return len(self._operations)

    @property
    def changes(self) -> bool:
        """True if any operation was to make a node join or leave."""
        return any(becomes for _, becomes in self._operations)

    def is_changing(self, begins: int, ends: int, *, spread_ns: int) -> bool:
        """Return whether an operation went on at any moment of an interval (ns), or had ended less than `spread_ns` before it.

        One of unknown outcome may go on for good.
        """
        return any(
            one.invoked <= ends and (one.ends_ns is None or one.ends_ns + spread_ns > begins)
            for one, _ in self._operations
        )

    def serving(self, time: int) -> frozenset[str]:
        """Return the nodes of which anything was noted and that should serve at `time` (ns)."""
        return frozenset(node for node in self.initial if self.serves(node, time))

    def serves(self, node: str, time: int) -> bool:
        """Return whether the node should serve at `time` (ns); one of which nothing was noted always should."""
        if node not in self.initial:
            return True
        if not self._operations:
            return self.initial[node] in SERVING
        if any(_takes_down(one, node, time) for one, _ in self._operations):
            return False
        changes = [_effect(one, becomes, time) for one, becomes in self._operations if one.invoked <= time]
        return expected_states(self.initial, changes, self._shown)[node] in SERVING


def _takes_down(operation: TopologyOperation, node: str, time: int) -> bool:
    """Return whether the node is down at that time (ns) because the operation goes on."""
    is_under_way = operation.invoked <= time and not operation.has_ended(time)
    return operation.takes_down and node in operation.nodes and is_under_way


def _effect(operation: TopologyOperation, becomes: Mapping[str, MemberState], time: int) -> TopologyChange:
    """Return what an operation that has begun may have done by that time (ns).

    A node may have left from the invocation on, and need not serve before its joining was acknowledged.
    """
    has_ended = operation.has_ended(time)
    possible = {node: state for node, state in becomes.items() if has_ended or state not in SERVING}
    return TopologyChange(becomes=possible, outcome=operation.outcome)


def _whole_members(noted: Any) -> Mapping[str, Mapping[str, Any]]:
    """Return the members of a note; of a damaged one, those of which it says something. The checker of notes names the damage."""
    found = noted if isinstance(noted, Mapping) else {}
    return {node: member for node, member in found.items() if isinstance(member, Mapping)}


def _states(states: Mapping[str, Any]) -> dict[str, MemberState]:
    """Keep the states that are known; a node of any other is one that always should serve."""
    known: dict[str, MemberState] = {state: state for state in MEMBER_STATES}
    return {node: known[state] for node, state in states.items() if state in known}
