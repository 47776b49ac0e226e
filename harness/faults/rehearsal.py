"""Rehearsal: what a plan would do to each node and when, without touching any.

Nemeses act on nodes that only write down what they are asked. A command is answered with success and no output, so an
injection that depends on what a real node answers is written down as far as it gets.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from schemaquake.harness.faults.requests import requested_faults
from schemaquake.harness.faults.schedule import compose
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import (
    Boot,
    Executed,
    Fault,
    Nemesis,
    TopologyNemesis,
    Undo,
    Undoable,
    UndoVerb,
)
from schemaquake.harness.registry import load

__all__ = ["RehearsedFault", "rehearse"]

Undoing = Callable[[str, UndoVerb], Sequence[Undo]]
"""From a node's name and a verb to the commands by which that node undoes it; raises for a node that must be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedFault:
    """One fault of a plan: when (s after the main phase began), where, and with which commands by node."""

    nemesis: str
    begins_s: float
    ends_s: float
    nodes: tuple[str, ...]
    parameters: Mapping[str, JSON]
    injected: Mapping[str, Sequence[str]]
    undone: Mapping[str, Sequence[str]]
    incomplete: str | None
    """Why the commands end where they do: what a real node would have to answer; None if they are all there."""

    def to_json(self) -> dict[str, JSON]:
        """Return the fault as JSON."""
        return {
            "nemesis": self.nemesis,
            "begins_s": self.begins_s,
            "ends_s": self.ends_s,
            "nodes": list(self.nodes),
            "parameters": dict(self.parameters),
            "injected": {name: list(lines) for name, lines in self.injected.items()},
            "undone": {name: list(lines) for name, lines in self.undone.items()},
            "incomplete": self.incomplete,
        }


def rehearse(plan: Plan, *, addresses: Mapping[str, str], undoing: Undoing) -> Sequence[RehearsedFault]:
    """Return every fault of the plan in order of its beginning; those that workloads ask for come first.

    `addresses` are the nodes' by name. Raises PlanError as the nemeses' schedules do.
    """
    context = plan.context(frozenset())
    nemeses: dict[str, Nemesis | TopologyNemesis] = {name: load("nemeses", name) for name in plan.nemeses}
    planned = [(nemeses[fault.nemesis], fault) for fault in compose(list(nemeses.values()), context)]
    requested = [
        (load("nemeses", request.nemesis), request.fault(id=len(planned) + number, ends_s=context.time_limit_s))
        for number, request in enumerate(requested_faults(plan))
    ]
    return [_rehearsed(nemesis, fault, addresses, undoing) for nemesis, fault in (*requested, *planned)]


def _rehearsed(
    nemesis: Nemesis | TopologyNemesis, fault: Fault, addresses: Mapping[str, str], undoing: Undoing
) -> RehearsedFault:
    if isinstance(nemesis, TopologyNemesis):
        return _rehearsed_operation(fault)
    cluster = _Stage(addresses)
    incomplete = None
    try:
        nemesis.inject(cluster, fault)  # type: ignore[arg-type]  # it has what nemeses use of a cluster
    except Exception as error:  # noqa: BLE001 - the answers are no real node's, so anything may follow from them
        incomplete = f"{type(error).__name__}: {error}"
    return RehearsedFault(
        nemesis=fault.nemesis,
        begins_s=fault.begins_s,
        ends_s=fault.ends_s,
        nodes=fault.nodes,
        parameters=fault.parameters,
        injected={node.name: tuple(node.lines) for node in cluster.nodes if node.lines},
        undone=dict(_undone(nemesis, fault, _Stage(addresses), undoing)),
        incomplete=incomplete,
    )


def _rehearsed_operation(operation: Fault) -> RehearsedFault:
    """Describe an operation on the topology, whose commands follow from what the cluster answers."""
    return RehearsedFault(
        nemesis=operation.nemesis,
        begins_s=operation.begins_s,
        ends_s=operation.ends_s,
        nodes=operation.nodes,
        parameters=operation.parameters,
        injected={},
        undone={},
        incomplete="an operation on the topology: its commands follow from what the cluster answers",
    )


def _undone(nemesis: Nemesis, fault: Fault, cluster: _Stage, undoing: Undoing) -> Iterator[tuple[str, Sequence[str]]]:
    if not isinstance(nemesis, Undoable):
        return
    for name, steps in nemesis.undo(cluster, fault).items():  # type: ignore[arg-type]  # as above
        yield name, tuple(line for step in steps for line in _lines(name, step, undoing))


def _lines(name: str, step: Undo, undoing: Undoing) -> Iterator[str]:
    if step.verb is None:
        yield shlex.join(step.argv)
        return
    try:
        yield from (shlex.join(each.argv) for each in undoing(name, step.verb))
    except Exception:  # noqa: BLE001 - the node itself would have to be asked
        yield f"# {step.verb}"


@dataclass
class _Stage:
    """The part of a cluster that nemeses use, with nodes that only write down."""

    addresses: Mapping[str, str]
    nodes: list[_Player] = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = [_Player(name, address) for name, address in self.addresses.items()]

    def missing(self, _means: str) -> str | None:
        return None


@dataclass
class _Player:
    """A node that writes down what it is asked, and answers as if it had done it."""

    name: str
    address: str
    lines: list[str] = field(default_factory=list)
    now: Literal["running", "paused", "stopped"] = "running"
    offset_s: float = 0.0

    def exec(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: str | None = None) -> Executed:  # noqa: ARG002
        self.lines.append(shlex.join(argv) + (f" <<< {shlex.quote(stdin)}" if stdin else ""))
        return Executed(0, "", "")

    def upload(self, source: Path, target: str) -> None:
        self.lines.append(f"# put {source.name} to {target}")

    def start(self) -> None:
        self._become("running", "start the server")

    def await_serving(self, *, deadline_s: float) -> Boot:  # noqa: ARG002
        return Boot(node=self.name, served=True, seconds=0)

    def stop(self, *, deadline_s: float = 30) -> None:
        self._become("stopped", f"stop the server (SIGTERM, after {deadline_s:g} s SIGKILL)")

    def kill(self) -> None:
        self._become("stopped", "kill the server (SIGKILL)")

    def pause(self) -> None:
        self._become("paused", "freeze the server (SIGSTOP)")

    def resume(self) -> None:
        self._become("running", "resume the server (SIGCONT)")

    def state(self) -> Literal["running", "paused", "stopped"]:
        return self.now

    def skew_clock(self, offset_s: float) -> None:
        self.offset_s = offset_s
        self.lines.append(f"# move the clock by {offset_s:+g} s")

    def clock_offset(self) -> float:
        return self.offset_s

    def _become(self, state: Literal["running", "paused", "stopped"], line: str) -> None:
        self.now = state
        self.lines.append(f"# {line}")
