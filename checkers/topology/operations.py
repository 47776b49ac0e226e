"""Operations on the topology, as the history has them: pairs of events of process −1 whose values have `becomes`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemaquake.checkers.evidence.notes import Note
from schemaquake.checkers.findings.explanation import seconds
from schemaquake.harness.model.membership import MemberState

__all__ = ["TopologyOperation", "read_operations"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyOperation:
    """One operation; `completed` (ns) and `outcome` are None if no end was noted."""

    number: int
    index: int
    """The index of its invocation."""
    f: str
    nodes: tuple[str, ...]
    becomes: Mapping[str, MemberState]
    invoked: int
    completed: int | None = None
    outcome: str | None = None
    error: str | None = None
    attempts: Sequence[Mapping[str, Any]] = ()
    limit_s: float | None = None
    """The limit of each attempt (s); None: it has none."""
    token: str | None = None
    """The token that a move asked for."""
    loses_disk: bool = False
    """True if it was to take a node's disk away, and was not refused."""
    steps: Sequence[tuple[int, str]] = ()
    """The steps that it was seen at, each with the time (ns) since which it was."""

    def text(self) -> str:
        """Render it as a line of an argument."""
        nodes = ", ".join(self.nodes)
        if self.completed is None:
            return f"op {self.index}: {self.f} {nodes} from {seconds(self.invoked)} on, without an end"
        error = "" if self.error is None else f" ({self.error})"
        return f"op {self.index}: {self.f} {nodes} at {seconds(self.invoked)} -> {self.outcome} at {seconds(self.completed)}{error}"


def read_operations(notes: Iterable[Note]) -> Sequence[TopologyOperation]:
    """Read the operations in order of their invocations."""
    begun: dict[Any, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    ended: dict[Any, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    steps: dict[Any, list[tuple[int, str]]] = {}
    for event, value in notes:
        if event["f"] == "operation-step":
            steps.setdefault(value.get("operation"), []).append((event["time"], str(value.get("step"))))
        if "becomes" not in value or "operation" not in value:
            continue
        (begun if event["type"] == "invoke" else ended).setdefault(value["operation"], (event, value))
    return [_operation(number, *begun[number], ended.get(number), steps.get(number, ())) for number in begun]


def _operation(
    number: int,
    event: Mapping[str, Any],
    value: Mapping[str, Any],
    end: tuple[Mapping[str, Any], Mapping[str, Any]] | None,
    steps: Sequence[tuple[int, str]],
) -> TopologyOperation:
    effect = (end[1].get("effect") if end is not None else None) or {}
    return TopologyOperation(
        number=number,
        index=event["index"],
        f=event["f"],
        nodes=tuple(value.get("nodes") or ()),
        becomes=value["becomes"],
        invoked=event["time"],
        completed=None if end is None else end[0]["time"],
        outcome=None if end is None else end[0]["type"],
        error=None if end is None else end[0].get("error"),
        attempts=effect.get("attempts") or (),
        limit_s=(value.get("parameters") or {}).get("limit_s"),
        token=effect.get("token"),
        loses_disk=bool((value.get("parameters") or {}).get("loses_disk"))
        and (end is None or end[0]["type"] != "fail"),
        steps=steps,
    )
