"""Membership: which nodes belong to the cluster, and which of them should serve.

What the cluster shows (`Member`) and what was asked of it (`TopologyChange`) are kept apart. A node that nobody asked to
leave should serve, whatever the others think of it; one whose leaving was acknowledged should not, whatever its process
does. Only where the outcome of a change is unknown does the cluster's own account decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from schemaquake.harness.model.operation import JSON

__all__ = [
    "GONE",
    "MEMBER_STATES",
    "SERVING",
    "ChangeOutcome",
    "Member",
    "MemberState",
    "TopologyChange",
    "expected_states",
    "serving",
]

MemberState: TypeAlias = Literal["absent", "joining", "normal", "leaving", "left", "replaced"]
"""`absent`: not yet a member. `left`: handed its data over, or was removed. `replaced`: another node has its place."""

ChangeOutcome: TypeAlias = Literal["ok", "fail", "info"]

MEMBER_STATES: Final[frozenset[MemberState]] = frozenset(get_args(MemberState))
SERVING: Final[frozenset[MemberState]] = frozenset({"normal", "leaving"})
"""The states in which a node answers clients. One that joins does not yet, one that leaves does until it has left."""
GONE: Final[frozenset[MemberState]] = frozenset({"absent", "left", "replaced"})
"""The states of nodes that are no members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One node as the cluster shows it."""

    node: str
    address: str
    state: MemberState
    host_id: str | None = None
    """None: not known."""
    tokens: tuple[str, ...] = ()
    """Empty: not known."""
    spare: bool = False
    """True for a node that is prepared, and no member when the run begins."""

    def to_json(self) -> dict[str, JSON]:
        """Return the member as a `membership` note holds it."""
        return {"state": self.state, "address": self.address, "host_id": self.host_id, "spare": self.spare}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyChange:
    """One operation that changes membership: the states it leads to, and its outcome (None: it still goes on)."""

    becomes: Mapping[str, MemberState]
    outcome: ChangeOutcome | None


def expected_states(
    initial: Mapping[str, MemberState], changes: Iterable[TopologyChange], shown: Mapping[str, MemberState]
) -> dict[str, MemberState]:
    """Derive the state that each node should have now.

    `initial` are the states before the first change, `shown` those that the cluster shows now. A node keeps its state
    until a change that names it is acknowledged. After one of unknown outcome both are possible, and `shown` decides;
    where it does not, the node counts as one that need not serve.
    """
    possible: dict[str, tuple[MemberState, ...]] = {node: (state,) for node, state in initial.items()}
    for change in changes:
        for node, state in change.becomes.items():
            match change.outcome:
                case "ok":
                    possible[node] = (state,)
                case "fail":
                    possible.setdefault(node, ("absent",))
                case _:
                    possible[node] = (*possible.get(node, ("absent",)), state)
    return {node: _decided(states, shown.get(node)) for node, states in possible.items()}


def serving(states: Mapping[str, MemberState]) -> tuple[str, ...]:
    """Name the nodes that should serve, in the order of `states`."""
    return tuple(node for node, state in states.items() if state in SERVING)


def _decided(states: tuple[MemberState, ...], shown: MemberState | None) -> MemberState:
    if len(set(states)) == 1:
        return states[0]
    if shown is not None and (shown in states or shown in {"joining", "leaving"}):
        return shown
    return next((state for state in states if state not in SERVING), states[-1])
