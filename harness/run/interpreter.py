"""Interpreter of steps: the actions of one worker in one phase, independent of the runtime and its clock.

`interpret` turns the steps of a workload into effects, and is resumed with the result of each:

| effect | what the runtime does | resumed with |
|---|---|---|
| `Call` | records the invocation, asks the worker's session for the operation, records the completion | the `Completion` |
| `Record` | writes one event into the worker's journal | None |
| `Sleep` | lets time pass until a moment of its clock | False if the phase was over before, else True |
| `Meet` | waits for the crew; throws `MeetingFailed` in if that is in vain | False if the phase was over before, else True |

Pacing, requirements and the retirement
of process numbers are here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.operation import JSON, NEMESIS, Completion, MicroOp
from schemaquake.harness.model.protocols import Context, Phase, Worker, Workload
from schemaquake.harness.model.runtime import Sleep
from schemaquake.harness.model.steps import Invoke, Meet, Note, Require, Step, Wait
from schemaquake.harness.model.traits import workload_traits
from schemaquake.harness.registry import load
from schemaquake.harness.units import S

__all__ = [
    "MEETING_LIMIT_S",
    "ONE_HAS_LEFT",
    "Assignment",
    "Call",
    "Effect",
    "Ending",
    "MeetingFailed",
    "PhaseOrder",
    "Record",
    "Script",
    "WorkerFailed",
    "assign",
    "interpret",
]

MEETING_LIMIT_S: Final = 180.0
"""The time in seconds for which a meeting waits for a worker that is still busy with a slow operation."""

_AGAIN_FIRST_NS: Final = S // 50
_AGAIN_EVERY_NS: Final = S // 4
"""Pauses before a refused requirement is asked for again: short at first, since a migration arrives in milliseconds."""
_ARREARS_NS: Final = S
"""The longest delay that a paced worker makes up for."""


class WorkerFailed(ClusterError):
    """An error in a worker's own code (not the cluster), which ends the run."""


class MeetingFailed(Exception):
    """A meeting that cannot be held any more; the message says why."""


ONE_HAS_LEFT: Final = "one of them has no more steps while another waits for it"


# ── effects ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Record(NamedTuple):
    """One event for the worker's journal, to be written with the time of the runtime's clock. Fields as of `Journal.event`."""

    process: int
    type: Literal["invoke", "ok", "fail", "info"]
    f: str
    node: str | None = None
    key: str | None = None
    value: JSON = None
    error: str | None = None
    mops: Sequence[MicroOp] | None = None


class Call(NamedTuple):
    """One operation to be asked of the worker's own session, in the name of this process and node."""

    operation: Invoke
    process: int
    node: str

    def invocation(self) -> Record:
        """Return the record of the operation's beginning, to be written before it is asked."""
        operation = self.operation
        return Record(
            self.process, "invoke", operation.f, self.node, operation.key, operation.value, None, operation.mops
        )

    def completion(self, found: Completion) -> Record:
        """Return the record of the operation's end."""
        operation = self.operation
        return Record(
            self.process, found.type, operation.f, self.node, operation.key, found.value, found.error, found.mops
        )

    def carry_out(self, record: Callable[..., object], invoke: Callable[[Invoke], Completion]) -> Completion:
        """Record the invocation, ask, and record the completion: for a runtime whose threads wait for the answer.

        Without a value for either record, since what this costs is what the harness costs.
        """
        operation, process, node = self
        f, key = operation.f, operation.key
        record(process, "invoke", f, node, key, operation.value, None, operation.mops)
        found = invoke(operation)
        record(process, found.type, f, node, key, found.value, found.error, found.mops)
        return found


_call: Final[Callable[[tuple[Invoke, int, str]], Call]] = partial(tuple.__new__, Call)
"""Of all its fields in order, and in a third of the time: there is one for every operation."""

Effect: TypeAlias = Call | Record | Sleep | Meet


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one worker's phase.

    `finished`: it took all its steps. `over`: time was up, or another worker ended the phase. `unmet`: a requirement of
    its own was never met, for the reason `because`, and the phase has to end for the whole crew.
    """

    how: Literal["finished", "over", "unmet"]
    because: str | None = None


# ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Assignment:
    """One worker of a run: its workload, its place in that workload's crew, and its first process number."""

    workload: str
    member: Worker
    process: int


@dataclass(frozen=True, slots=True)
class PhaseOrder:
    """The order to carry out one phase."""

    phase: Phase
    label: str
    ends_at_ns: int | None
    """The end of the phase on the runtime's clock; None: when the steps are exhausted."""
    meetings: bool
    """False where not every worker takes part: meetings are then left out."""
    nodes: frozenset[str] | None = None
    """The nodes whose workers take part; None: all."""


def assign(workloads: Sequence[str], context: Context) -> Sequence[Assignment]:
    """Number the workers of all workloads from 0, crew after crew."""
    members = [(name, member) for name in workloads for member in load("workloads", name).crew(context)]
    return [Assignment(name, member, number) for number, (name, member) in enumerate(members)]


class Script:
    """The steps of one worker, phase by phase, and its current process number."""

    def __init__(self, workload: Workload, assignment: Assignment, context: Context, *, worker_count: int) -> None:
        self.assignment = assignment
        self.process = assignment.process
        self.node = assignment.member.node
        """The coordinator that the worker is pinned to."""
        self.worker_count = worker_count
        self._context = context
        self._workload = workload
        crew = max(1, len(self._workload.crew(context)))
        # A rate is for work that never ends; a pause between a meeting and a racing statement would break the race.
        rate = context.rate if workload_traits(self._workload).endless else None
        self.interval_ns = None if rate is None else int(crew / rate * S)
        """The time between two operations of the main phase; None: as fast as they are answered."""

    def begin(
        self, order: PhaseOrder, *, now_ns: Callable[[], int], is_over: Callable[[], bool]
    ) -> Generator[Effect, Any, Ending]:
        """Interpret this worker's steps of one phase."""
        context = replace(self._context, taking_part=order.nodes)
        steps = self._workload.steps(order.phase, self.assignment.member, context, phase_label=order.label)
        return interpret(steps, self, order, now_ns=now_ns, is_over=is_over)

    def retire(self) -> None:
        """Continue under another process number: the last operation of this one has an unknown outcome and may still take effect."""
        self.process += self.worker_count


# ── the interpreter ──────────────────────────────────────────────────────────────────────────────────────────────────


def interpret(
    steps: Iterable[Step],
    script: Script,
    order: PhaseOrder,
    *,
    now_ns: Callable[[], int],
    is_over: Callable[[], bool],
) -> Generator[Effect, Any, Ending]:
    """Carry out `steps` as effects until they are exhausted or the phase is over.

    Raises WorkerFailed where workers of one crew do not meet equally often.
    """
    interval_ns = script.interval_ns if order.phase == "main" else None
    next_at_ns = now_ns()
    has_met = False
    for step in steps:
        if is_over():
            return Ending("over")
        if isinstance(step, Invoke):
            if interval_ns is not None:
                # What follows a meeting leaves at once, and what follows that waits for both.
                if not has_met and next_at_ns > now_ns() and not (yield Sleep(next_at_ns)):
                    return Ending("over")
                next_at_ns = max(next_at_ns + interval_ns, now_ns() - _ARREARS_NS)
                has_met = False
            found: Completion = yield _call((step, script.process, script.node))
            if found.type == "info":
                script.retire()
        else:
            ending = yield from _take(step, script, order, now_ns)
            if ending is not None:
                return ending
            has_met = isinstance(step, Meet)
    return Ending("finished")


def _take(
    step: Require | Meet | Wait | Note, script: Script, order: PhaseOrder, now_ns: Callable[[], int]
) -> Generator[Effect, Any, Ending | None]:
    """Carry out one step that is no operation. Returns the ending of the phase if it ended, else None."""
    go_on = True
    match step:
        case Require():
            return (yield from _require(step, script, order, now_ns))
        case Meet():
            go_on = not order.meetings or (yield from _meet(step, script))
        case Wait(seconds):
            go_on = yield Sleep(now_ns() + int(seconds * S))
        case Note(f, key, value):
            yield Record(NEMESIS, "info", f, None, key, value)
    return None if go_on else Ending("over")


def _require(
    step: Require, script: Script, order: PhaseOrder, now_ns: Callable[[], int]
) -> Generator[Effect, Any, Ending | None]:
    """Repeat the call until it is done. Returns None then, and the ending of the phase if it never was."""
    ends_ns = now_ns() + int(step.limit_s * S)
    again_ns = _AGAIN_FIRST_NS
    while True:
        completion: Completion = yield Call(step.invoke, script.process, script.node)
        if completion.type == "info":
            script.retire()
        # A first attempt without an answer may have been carried out.
        if completion.type == "ok" or completion.already_there:
            return None
        now = now_ns()
        if now >= ends_ns:
            break
        if not (yield Sleep(min(now + again_ns, ends_ns))):
            return Ending("over")
        again_ns = min(2 * again_ns, _AGAIN_EVERY_NS)
    wanted = step.invoke
    because = (
        f"{wanted.f} of {wanted.key} through {script.node} was not done within {step.limit_s:g} s: {completion.error}"
    )
    note = {"phase": order.phase, "because": because, "key": wanted.key}
    yield Record(NEMESIS, "info", "phase-ended-early", script.node, wanted.key, note)
    return Ending("unmet", because)


def _meet(step: Meet, script: Script) -> Generator[Effect, Any, bool]:
    try:
        met: bool = yield step
    except MeetingFailed as why:
        raise WorkerFailed(
            f"the workers of {script.assignment.workload} did not meet ({why}): "
            "do all of them yield the same number of Meet steps?"
        ) from None
    return met
