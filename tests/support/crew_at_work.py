"""A crew carried out on the simulated runtime's crew: barriers, pauses and slow statements, without a cluster.

Every worker walks its own steps; an operation takes as long as `lasts` says. A worker that ends while others wait for it
is a deadlock, as in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import Context, Phase, Worker, Workload
from schemaquake.harness.model.steps import Invoke, Meet, Require, Step
from schemaquake.harness.run.event_heap import EventHeap
from schemaquake.harness.run.interpreter import Assignment, Script, WorkerFailed
from schemaquake.harness.run.simulated_crew import SimulatedCrew

_S = 1_000_000_000

FEATURES = frozenset(
    {
        *("keyspaces", "tables", "columns", "options", "indexes"),
        *("collections", "column-drops", "types", "functions", "views"),
    }
)


@dataclass(frozen=True)
class Done:
    """One step of one worker, from `begun` to `ended` (s); `met` counts the barriers it had passed.

    What is required is done when it is asked for first, and stands here as the operation that it is.
    """

    worker: Worker
    step: Step
    begun: float
    ended: float
    met: int


def at_once(_worker: Worker, _operation: Invoke) -> float:
    return 0.05


def carry_out(
    workload: Workload,
    phase: Phase,
    context: Context,
    *,
    label: str = "settled",
    steps_each: int | None = None,
    lasts: Callable[[Worker, Invoke], float] = at_once,
) -> list[Done]:
    """Everything the crew does in one phase, in order of time. Raises WorkerFailed on a deadlock, and PlanError as steps do.

    A rate is not kept: operations follow one another as soon as they are answered.
    """
    members = list(workload.crew(context))
    assert [worker.index for worker in members] == list(range(len(members)))
    heap = EventHeap()
    traced = _Traced(workload, heap, steps_each)
    scripts = [
        Script(traced, Assignment(workload.name, worker, worker.index), context, worker_count=len(members))
        for worker in members
    ]
    crew = SimulatedCrew(
        heap,
        scripts,
        connect=lambda script: _Obedient(heap, partial(lasts, script.assignment.member)),
        journal=lambda _: _NoJournal(),
    )
    crew.connect(context.nodes)
    try:
        crew.run(phase, label=label, nodes=context.nodes)
    except WorkerFailed as failed:
        if isinstance(failed.__cause__, PlanError):
            raise failed.__cause__ from None
        raise
    return sorted(traced.done, key=lambda one: (one.begun, one.worker.index))


class _Traced:
    """A workload whose steps are remembered, with the times at which they began and ended."""

    endless = False
    requires: frozenset[str] = frozenset()

    def __init__(self, workload: Workload, heap: EventHeap, steps_each: int | None) -> None:
        self.name = workload.name
        self.done: list[Done] = []
        self._workload = workload
        self._heap = heap
        self._steps_each = steps_each

    def crew(self, context: Context) -> Sequence[Worker]:
        return self._workload.crew(context)

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:
        met = 0
        heap = self._heap
        for step in islice(self._workload.steps(phase, worker, context, phase_label=phase_label), self._steps_each):
            begun = heap.now_ns
            yield step
            if isinstance(step, Meet):
                met += 1
                continue
            asked = step.invoke if isinstance(step, Require) else step
            self.done.append(Done(worker, asked, begun / _S, heap.now_ns / _S, met))


class _Obedient:
    """A client that does everything, and takes as long as it is said to."""

    def __init__(self, heap: EventHeap, lasts: Callable[[Invoke], float]) -> None:
        self._heap = heap
        self._lasts = lasts

    def submit(self, operation: Invoke, answer: Callable[[Completion], None]) -> None:
        ends = self._heap.now_ns + round(self._lasts(operation) * _S)
        self._heap.at(ends, lambda: answer(Completion(type="ok", value=operation.value)))

    def invoke(self, operation: Invoke) -> Completion:
        raise NotImplementedError

    def look(self, **_: object) -> None:
        raise NotImplementedError

    def observe(self, *, phase: str, sample: int, complete: bool) -> Sequence[Observation]:
        raise NotImplementedError

    def close(self) -> None:
        """There is nothing to close."""


class _NoJournal:
    def event(self, *_: object) -> int:
        return 0

    def sync(self) -> None:
        """There is nothing to write."""

    def close(self) -> None:
        """There is nothing to close."""


def operations(done: Sequence[Done]) -> list[Invoke]:
    return [one.step for one in done if isinstance(one.step, Invoke)]


def whole_run(workload: Workload, context: Context) -> list[Invoke]:
    """The operations of all phases, in order."""
    phases: list[tuple[Phase, str]] = [
        ("setup", ""),
        ("prepare", ""),
        ("main", ""),
        ("probe", "settled"),
        ("final", "settled"),
        ("probe", "restarted"),
        ("final", "restarted"),
    ]
    return [
        operation
        for phase, label in phases
        for operation in operations(carry_out(workload, phase, context, label=label))
    ]
