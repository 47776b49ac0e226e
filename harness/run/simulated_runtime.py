"""Simulated runtime: crew, observer and faults on an event heap, in one thread of one process and virtual time.

The same plan and the same simulated cluster give byte-identical journals, on any machine, in any process. Nothing here
reads a clock, draws a number or iterates over a set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from datetime import datetime, timedelta
from pathlib import Path

from schemaquake.harness.history.journal import VIRTUAL_EPOCH, Journal
from schemaquake.harness.model.protocols import Connector, Context
from schemaquake.harness.model.runtime import Task, TaskSteps
from schemaquake.harness.registry import load
from schemaquake.harness.run.event_heap import Event, EventHeap
from schemaquake.harness.run.interpreter import Script, assign
from schemaquake.harness.run.simulated_crew import SimulatedCrew
from schemaquake.harness.run.simulated_observer import SimulatedObserver
from schemaquake.harness.run.strands import Strand
from schemaquake.harness.units import S
from schemaquake.harness.wait import waiting_by

__all__ = ["SimulatedClock", "SimulatedRuntime"]


class SimulatedClock:
    """The heap's time, which begins at 0, at midnight of 1 January 2000 UTC."""

    def __init__(self, heap: EventHeap) -> None:
        self._heap = heap
        self.stamp_ns = heap.stamp_ns

    def now_ns(self) -> int:
        """Return the present moment of the heap."""
        return self._heap.now_ns

    def utc(self) -> datetime:
        """Return the present moment, to the microsecond."""
        return VIRTUAL_EPOCH + timedelta(microseconds=self._heap.now_ns // 1000)


class SimulatedRuntime:
    """A `Runtime` on an event heap, which the simulated cluster shares.

    Clients that implement `EventClient` answer in later events; any other answers at once. What blocks by
    `schemaquake.harness.wait` runs the heap meanwhile; tasks (faults, changes of the ring) do so each on a strand of its own, and
    go on when their own time has come.
    """

    is_repeatable = True

    def __init__(self, heap: EventHeap) -> None:
        self.heap = heap
        self.clock = SimulatedClock(heap)
        self._strands: list[Strand] = []

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait by virtual time while the block runs. What tasks still wait for then does not happen any more."""
        with waiting_by(self.clock.now_ns, self.sleep, self):
            try:
                yield
            finally:
                self.heap.abandon()
                for strand in self._strands:
                    strand.abandon()

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass, and carry out every act that falls due in it."""
        # A nanosecond more than nothing: a wait that was rounded down to nothing would never end.
        pause_ns = max(1, round(seconds * S)) if seconds > 0 else 0
        self.heap.run(lambda: False, until_ns=self.heap.now_ns + pause_ns)

    def spawn(self, name: str, steps: TaskSteps) -> Task:  # noqa: ARG002 - a name is for threads
        """Begin `steps` in an event of the present moment."""
        strand = Strand(copy_context())
        self._strands.append(strand)
        return _SimulatedTask(self.heap, steps, strand)

    def crew(
        self,
        workloads: Sequence[str],
        context: Context,
        connector: Connector,
        *,
        journals: Path,
        started_ns: int,
        request_timeout_s: float,
    ) -> SimulatedCrew:
        """Create the workers, all in this thread."""
        assignments = assign(workloads, context)
        return SimulatedCrew(
            self.heap,
            [
                Script(load("workloads", one.workload), one, context, worker_count=len(assignments))
                for one in assignments
            ],
            connect=lambda script: connector.connect(script.node, request_timeout_s=request_timeout_s),
            journal=lambda script: Journal(
                journals / f"events-{script.assignment.process:04d}.jsonl",
                started_ns,
                clock=self.clock,
                durable=not self.is_repeatable,
            ),
            absent=context.spares,
        )

    def observer(
        self, connector: Connector, *, journal: Path, started_ns: int, request_timeout_s: float
    ) -> SimulatedObserver:
        """Create the observer, in this thread."""
        return SimulatedObserver(
            self.heap, connector, journal=journal, started_ns=started_ns, request_timeout_s=request_timeout_s
        )


class _SimulatedTask:
    def __init__(self, heap: EventHeap, steps: TaskSteps, strand: Strand) -> None:
        self._heap = heap
        self._steps = steps
        self._strand = strand
        self._stopped = False
        self._ended = False
        self._pause: Event | None = None
        heap.at(heap.now_ns, lambda: self._resume(None))

    def _resume(self, slept: bool | None) -> None:
        self._pause = None
        self._heap.on(self._strand, lambda: self._go_on(slept))

    def _go_on(self, slept: bool | None) -> None:
        try:
            pause = self._steps.send(slept)  # type: ignore[arg-type]  # None begins a generator
        except StopIteration:
            self._ended = True
            self._strand.leave()
            return
        if self._stopped:
            self._heap.at(self._heap.now_ns, lambda: self._resume(False))
        else:
            self._pause = self._heap.at(pause.until_ns, lambda: self._resume(True))

    def stop(self) -> None:
        """Cut the task's present and later pauses short."""
        self._stopped = True
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
            self._heap.at(self._heap.now_ns, lambda: self._resume(False))

    def join(self) -> None:
        """Run the heap until the task has ended."""
        self._heap.run(lambda: self._ended)
