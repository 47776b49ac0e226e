"""Operations on the topology, as the history has them: pairs of events of process −1 whose values have `becomes`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from schemaquake.harness.model.membership import ChangeOutcome, MemberState

__all__ = ["Around", "DiskLosses", "TopologyOperation", "read_operations"]

_Note: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]

_OUTCOMES: Final[Mapping[str, ChangeOutcome]] = {"ok": "ok", "fail": "fail", "info": "info"}


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
    outcome: ChangeOutcome | None = None
    error: str | None = None
    effect: Mapping[str, Any] = field(default_factory=dict)
    """What its end says that it did; empty while it goes on."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What it was to do."""
    limit_s: float | None = None
    """The limit of each attempt (s); None: it has none."""
    loses_disk: bool = False
    """True if it was to take a node's disk away, and was not refused."""
    takes_down: bool = False
    """True if it takes its nodes down and starts them again, as an upgrade does."""
    stops_changes: bool = False
    """True if the schema cannot be changed while it goes on."""
    steps: Sequence[tuple[int, str]] = ()
    """The steps that it was seen at, each with the time (ns) since which it was."""

    @property
    def attempts(self) -> Sequence[Mapping[str, Any]]:
        """The commands that were given for it, as its end lists them."""
        attempts = self.effect.get("attempts")
        return [one for one in attempts if isinstance(one, Mapping)] if isinstance(attempts, list) else []

    @property
    def token(self) -> str | None:
        """The token that a move asked for."""
        return self.effect.get("token")

    @property
    def ends_ns(self) -> int | None:
        """When (ns) it was certainly over; None: without an end, or its outcome is unknown, so that it may go on for good."""
        return None if self.outcome == "info" else self.completed

    def has_ended(self, time: int) -> bool:
        """Return whether its end had been noted at that time (ns), whatever its outcome."""
        return self.completed is not None and self.completed <= time


class Around(NamedTuple):
    """The operations around a request that took disks away; equal for requests between the same ones."""

    ended: int
    """How many were over before it was invoked."""
    begun: int
    """How many had begun before it ended."""

    def lost_until(self, later: Around) -> int:
        """Count the disks that may have been lost after this request took effect and before the later one did."""
        return max(later.begun - self.ended, 0)


class DiskLosses:
    """When operations may have taken disks away, with all copies on them."""

    def __init__(self, operations: Iterable[TopologyOperation]) -> None:
        """Take the operations of a run."""
        self._losing = losing = [operation for operation in operations if operation.loses_disk]
        self._begins = sorted(operation.invoked for operation in losing)
        self._ends = sorted(operation.ends_ns for operation in losing if operation.ends_ns is not None)

    def __bool__(self) -> bool:
        return bool(self._begins)

    def between(self, node: str, begins: int, ends: int) -> bool:
        """Return whether the disk of this node may have been lost between two times (ns)."""
        return any(
            node in one.nodes and one.invoked <= ends and (one.ends_ns is None or one.ends_ns >= begins)
            for one in self._losing
        )

    def around(self, invoked: int, completed: int) -> Around:
        """Return what there was around a request, by its invocation and completion (ns)."""
        return Around(bisect_left(self._ends, invoked), bisect_left(self._begins, completed))

    def count_between(self, begins: int, ends: int) -> int:
        """Count the operations that may have taken disks away between two times (ns)."""
        return self.around(begins, begins).lost_until(self.around(ends, ends))


def read_operations(notes: Iterable[_Note]) -> Sequence[TopologyOperation]:
    """Read the operations in order of their invocations from the notes of process −1, each an event and its value."""
    begun: dict[Any, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    ended: dict[Any, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    steps: dict[Any, list[tuple[int, str]]] = {}
    for event, value in notes:
        if event["f"] == "operation-step":
            steps.setdefault(value.get("operation"), []).append((event["time"], str(value.get("step"))))
        if "becomes" not in value or "operation" not in value:
            continue
        if event["type"] == "invoke":
            begun.setdefault(value["operation"], (event, value))
        elif event["type"] in _OUTCOMES:
            ended.setdefault(value["operation"], (event, value))
    return [_operation(number, *begun[number], ended.get(number), steps.get(number, ())) for number in begun]


def _operation(
    number: int,
    event: Mapping[str, Any],
    value: Mapping[str, Any],
    end: tuple[Mapping[str, Any], Mapping[str, Any]] | None,
    steps: Sequence[tuple[int, str]],
) -> TopologyOperation:
    effect = None if end is None else end[1].get("effect")
    parameters = _map(value.get("parameters"))
    return TopologyOperation(
        number=number,
        index=event["index"],
        f=event["f"],
        nodes=tuple(value.get("nodes") or ()),
        becomes=value["becomes"],
        invoked=event["time"],
        completed=None if end is None else end[0]["time"],
        outcome=None if end is None else _OUTCOMES[end[0]["type"]],
        error=None if end is None else end[0].get("error"),
        effect=_map(effect),
        parameters=parameters,
        limit_s=parameters.get("limit_s"),
        loses_disk=bool(parameters.get("loses_disk")) and (end is None or end[0]["type"] != "fail"),
        takes_down=bool(parameters.get("takes_down")),
        stops_changes=bool(parameters.get("stops_changes")),
        steps=steps,
    )


def _map(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a map, as it is in a history without damage, and an empty one otherwise."""
    return value if isinstance(value, Mapping) else {}
