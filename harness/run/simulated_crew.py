"""Simulated crew: all workers of a run on an event heap, each resumed when its wait is over."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from schemaquake.harness.errors import NodeUnreachable, SchemaquakeError
from schemaquake.harness.history.event_sink import EventSink
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import Client, EventClient, Phase
from schemaquake.harness.model.runtime import Sleep
from schemaquake.harness.model.steps import Meet
from schemaquake.harness.run.event_heap import Event, EventHeap
from schemaquake.harness.run.failures import classify_failure
from schemaquake.harness.run.interpreter import (
    MEETING_LIMIT_S,
    ONE_HAS_LEFT,
    Call,
    Effect,
    Ending,
    MeetingFailed,
    PhaseOrder,
    Record,
    Script,
    WorkerFailed,
)
from schemaquake.harness.units import S

__all__ = ["SimulatedCrew"]

_PATIENCE_NS: Final = 5 * S
"""The time in seconds that workers have to end after a failure; later ones are not waited for."""
_UNREACHABLE_NS: Final = S // 4
"""The time after which an operation of a worker without a session fails."""


class SimulatedCrew:
    """Every worker of a run, in one thread.

    `connect` opens a session for the worker of a script, and `journal` its journal.
    """

    def __init__(
        self,
        heap: EventHeap,
        scripts: Sequence[Script],
        *,
        connect: Callable[[Script], Client],
        journal: Callable[[Script], EventSink],
        absent: Iterable[str] = (),
    ) -> None:
        """`absent` are nodes whose workers begin no phase until they are admitted."""
        self._heap = heap
        self._absent = set(absent)
        self._gone: set[str] = set()
        self._order: PhaseOrder | None = None
        self._latecomers: set[str] = set()
        self.ended_early: str | None = None
        self._over = False
        self._is_main_finished = False
        self._ends_at_ns: int | None = None
        self._working = 0
        self._failures: list[SchemaquakeError] = []
        crews = [script.assignment.workload for script in scripts]
        self._meetings = {name: _Meeting(heap, self.is_over) for name in dict.fromkeys(crews)}
        self._workers = [
            _SimulatedWorker(
                heap,
                self,
                script,
                self._meetings[script.assignment.workload],
                partial(connect, script),
                journal(script),
            )
            for script in scripts
        ]

    def connect(self, nodes: Iterable[str]) -> None:
        """Open (or open anew) the sessions of the workers of these nodes; raises NodeUnreachable."""
        for node in nodes:
            for worker in self._workers:
                if worker.node == node:
                    worker.connect()

    def admit(self, nodes: Iterable[str]) -> None:
        """Open the sessions of the workers of these nodes; those that wait to begin a main phase begin it."""
        nodes = tuple(nodes)
        self.connect(nodes)
        self._absent -= set(nodes)
        self._gone -= set(nodes)
        for worker in self._workers:
            if self._order is not None and worker.node in nodes and worker.node in self._latecomers:
                self._working += 1
                self._heap.at(self._heap.now_ns, partial(worker.begin, replace(self._order, meetings=False)))
        self._latecomers -= set(nodes)

    def dismiss(self, nodes: Iterable[str]) -> None:
        """End the phase of the workers of these nodes, after the operation each is at."""
        nodes = tuple(nodes)
        self._gone |= set(nodes)
        for worker in self._workers:
            if worker.node in nodes:
                worker.dismiss()

    def finish_main(self) -> None:
        """End the main phase as its time limit would, now or as soon as it begins."""
        self._is_main_finished = True
        self._halt()

    def run(self, phase: Phase, *, label: str = "", nodes: Iterable[str], time_limit_s: float | None = None) -> bool:
        """Let the workers of these nodes do one phase, and run the heap until all have; as `Crew.run`."""
        heap = self._heap
        nodes = tuple(nodes)
        present = [worker for worker in self._workers if worker.node not in self._absent | self._gone]
        workers = [worker for worker in present if worker.node in nodes]
        self._latecomers = self._absent & set(nodes)
        self.ended_early = None
        self._over = phase == "main" and self._is_main_finished
        self._failures = []
        self._working = len(workers)
        for meeting in self._meetings.values():
            meeting.reset(sum(worker.meets_at(meeting) for worker in present))
        self._ends_at_ns = None if time_limit_s is None else heap.now_ns + int(time_limit_s * S)
        taking_part = frozenset(worker.node for worker in workers)
        order = PhaseOrder(phase, label, self._ends_at_ns, len(workers) == len(present), taking_part)
        self._order = order
        limit = None if self._ends_at_ns is None else heap.at(self._ends_at_ns, self._halt)
        for worker in workers:
            heap.at(heap.now_ns, partial(worker.begin, order))
        try:
            heap.run(
                lambda: not (self._working and not self._failures)
            )  # without a call: it is asked after every event
            self._order = None
            if self._failures:
                heap.run(lambda: self._working == 0, until_ns=heap.now_ns + _PATIENCE_NS)
                raise self._failures[0]
        finally:
            for worker in self._workers:
                worker.sync()
        if self._working:
            raise WorkerFailed(f"{self._working} workers wait, and nothing is left to happen: a client does not answer")
        if limit is not None:
            limit.cancel()
        return self._ends_at_ns is None or heap.now_ns < self._ends_at_ns

    def is_gone(self, node: str) -> bool:
        """Return whether the workers of that node were dismissed."""
        return node in self._gone

    def is_over(self) -> bool:
        """Return True if no worker may take another step."""
        return self._over or (self._ends_at_ns is not None and self._heap.now_ns >= self._ends_at_ns)

    def _halt(self) -> None:
        """End the phase: pauses and meetings are cut short, operations under way are let finish."""
        self._over = True
        for worker in self._workers:
            worker.wake()
        for meeting in self._meetings.values():
            meeting.call_off()

    def end(self, ending: Ending) -> None:
        """Take note that a worker's phase has ended."""
        self._working -= 1
        if ending.how == "unmet":
            self.ended_early = self.ended_early or ending.because
            self._halt()

    def fail(self, node: str, error: Exception) -> None:
        """Take note that a worker's own code failed; the phase is over for all."""
        self._working -= 1
        failure = classify_failure(error).to_error(f"a worker of {node}", WorkerFailed)
        failure.__cause__ = error
        self._failures.append(failure)
        self._halt()

    def stop(self) -> None:
        """Close sessions and journals; idempotent."""
        for worker in self._workers:
            worker.close()


class _SimulatedWorker:
    """One worker: its script, its session and its journal. Carries out effects by scheduling its own resumption."""

    def __init__(
        self,
        heap: EventHeap,
        crew: SimulatedCrew,
        script: Script,
        meeting: _Meeting,
        open_session: Callable[[], Client],
        journal: EventSink,
    ) -> None:
        self.node = script.node
        self._heap = heap
        self._crew = crew
        self._script = script
        self._meeting = meeting
        self._open_session = open_session
        self._journal = journal
        self._client: Client | None = None
        self._events: EventClient | None = None
        self._unreachable: str | None = None
        self._calling: Client | None = None
        self._effects: Generator[Effect, Any, Ending] | None = None
        self._pause: Event | None = None
        self._meets = False

    def connect(self) -> None:
        """Open the session anew; an operation under way ends in the former one."""
        self._close_session()
        try:
            self._client = self._open_session()
        except NodeUnreachable as error:
            self._unreachable = str(error)
            raise
        self._events = self._client if isinstance(self._client, EventClient) else None

    def begin(self, order: PhaseOrder) -> None:
        """Do one phase."""
        heap = self._heap
        self._meets = order.meetings
        self._effects = self._script.begin(order, now_ns=lambda: heap.now_ns, is_over=self._is_over)
        self._go_on(self._effects, None)

    def meets_at(self, meeting: _Meeting) -> bool:
        """Return whether that is where this worker's crew meets."""
        return self._meeting is meeting

    def dismiss(self) -> None:
        """Take no step after the present one, which a pause or a meeting ends at once."""
        if self._effects is not None and self._meets:
            self._meets = False
            self._meeting.withdraw(self)
        self.wake()

    def _is_over(self) -> bool:
        return self._crew.is_over() or self._crew.is_gone(self.node)

    def wake(self) -> None:
        """Cut a pause short."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
            self._heap.at(self._heap.now_ns, partial(self._go_on, self._effects, False))

    def _go_on(self, effects: Generator[Effect, Any, Ending] | None, answer: object) -> None:
        """Resume the interpreter until it has to wait; an answer to an abandoned phase is dropped."""
        if effects is None or effects is not self._effects:
            return
        self._pause = None
        try:
            waits = False
            while not waits:
                effect = effects.throw(answer) if isinstance(answer, MeetingFailed) else effects.send(answer)
                waits, answer = self._carry_out(effects, effect)
        except StopIteration as end:
            self._finish(end.value)
        except Exception as error:  # noqa: BLE001 - ends the run
            self._effects = None
            self._crew.fail(self.node, error)

    def _carry_out(self, effects: Generator[Effect, Any, Ending], effect: Effect) -> tuple[bool, object]:
        """Return whether the worker now waits, with the answer if it does not."""
        if isinstance(
            effect, Call
        ):  # patterns would take several times as long, and these two come with every operation
            operation, process, node = effect
            self._journal.event(
                process, "invoke", operation.f, node, operation.key, operation.value, None, operation.mops
            )
            self._call(effects, effect)
            return True, None
        if isinstance(effect, Sleep):
            until_ns = effect.until_ns
            if until_ns <= self._heap.now_ns:
                return False, True
            if self._is_over():
                return False, False
            self._pause = self._heap.at(until_ns, partial(self._go_on, effects, True))
            return True, None
        match effect:
            case Record():
                self._journal.event(*effect)
                return False, None
            case Meet():
                self._meeting.arrive(self, partial(self._go_on, effects))
                return True, None

    def _call(self, effects: Generator[Effect, Any, Ending], call: Call) -> None:
        if self._client is None:
            assert self._unreachable is not None, "a phase before connect"
            failed = Completion(type="fail", error=f"NodeUnreachable: {self._unreachable}")
            self._heap.at(self._heap.now_ns + _UNREACHABLE_NS, partial(self._complete, effects, call, failed))
            return
        self._calling = self._client
        if self._events is not None:
            self._events.submit(call.operation, partial(self._receive, effects, call, self._client))
        else:
            completion = self._client.invoke(call.operation)
            self._heap.at(self._heap.now_ns, partial(self._receive, effects, call, self._client, completion))

    def _receive(
        self, effects: Generator[Effect, Any, Ending], call: Call, client: Client, completion: Completion
    ) -> None:
        self._calling = None
        if client is not self._client:
            client.close()
        self._complete(effects, call, completion)

    def _complete(self, effects: Generator[Effect, Any, Ending], call: Call, completion: Completion) -> None:
        """Record the end of an operation, and go on; one of an abandoned phase has none."""
        if effects is self._effects:
            operation, process, node = call
            self._journal.event(
                process,
                completion.type,
                operation.f,
                node,
                operation.key,
                completion.value,
                completion.error,
                completion.mops,
            )
            self._go_on(effects, completion)

    def _finish(self, ending: Ending) -> None:
        self._effects = None
        if ending.how == "finished" and not self._crew.is_gone(self.node):
            self._meeting.leave()
        self._crew.end(ending)

    def _close_session(self) -> None:
        client, self._client, self._events = self._client, None, None
        if client is not None and client is not self._calling:
            client.close()

    def sync(self) -> None:
        """Write what its journal holds."""
        self._journal.sync()

    def close(self) -> None:
        """Close session and journal."""
        self._effects = None
        self._close_session()
        self._journal.close()


class _Meeting:
    """The barrier of one crew."""

    def __init__(self, heap: EventHeap, is_over: Callable[[], bool]) -> None:
        self._heap = heap
        self._parties = 0
        self._is_over = is_over
        self._waiting: list[tuple[object, Callable[[object], None], Event]] = []
        self._gone = 0

    def reset(self, parties: int) -> None:
        """Begin a phase anew, with so many workers."""
        self._parties = parties
        self._gone = 0
        self._release(False)

    def arrive(self, party: object, go_on: Callable[[object], None]) -> None:
        """Wait; `go_on` gets True when all are there, False when the meeting is called off, or MeetingFailed."""
        limit = self._heap.at(self._heap.now_ns + int(MEETING_LIMIT_S * S), self._give_up)
        self._waiting.append((party, go_on, limit))
        if len(self._waiting) == self._parties:
            self._release(True)
        elif self._is_over():
            self._release(False)
        elif self._gone:
            self._release(MeetingFailed(ONE_HAS_LEFT))

    def withdraw(self, party: object) -> None:
        """Send one party home, and count it no more: the others meet without it."""
        self._parties -= 1
        for index, (waiting, go_on, limit) in enumerate(self._waiting):
            if waiting is party:
                del self._waiting[index]
                limit.cancel()
                self._heap.post(self._heap.now_ns, partial(go_on, False))
                break
        if 0 < len(self._waiting) == self._parties:
            self._release(True)

    def leave(self) -> None:
        """Say that one party comes to no more meetings of this phase."""
        self._gone += 1
        self._release(MeetingFailed(ONE_HAS_LEFT))

    def call_off(self) -> None:
        """Release all waiting workers."""
        self._release(False)

    def _give_up(self) -> None:
        self._release(MeetingFailed(f"they did not meet within {MEETING_LIMIT_S:g} s"))

    def _release(self, answer: object) -> None:
        waiting, self._waiting = self._waiting, []
        for _, go_on, limit in waiting:
            limit.cancel()
            self._heap.post(self._heap.now_ns, partial(go_on, answer))
