"""Workers: several processes, one a node, each with a thread and a pinned session for every worker of that node.

One interpreter cannot drive a cluster, and two racing statements must not share one: a process a node gives racers of
different coordinators an interpreter each. The conductor talks to the processes over pipes, one command a phase; the
workers derive their steps from plan and seed, and write journals of their own.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from schemaquake.harness.errors import NodeUnreachable, SchemaquakeError
from schemaquake.harness.history.journal import Journal, sync_regularly
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import Client, Connector, Context, Phase, Workload
from schemaquake.harness.model.runtime import Sleep
from schemaquake.harness.model.steps import Invoke, Meet
from schemaquake.harness.registry import load
from schemaquake.harness.run.failures import Failure, classify_failure
from schemaquake.harness.run.interpreter import (
    MEETING_LIMIT_S,
    Assignment,
    Call,
    Effect,
    Ending,
    MeetingFailed,
    PhaseOrder,
    Record,
    Script,
    WorkerFailed,
    assign,
)
from schemaquake.harness.run.lifeline import end_with_parent
from schemaquake.harness.run.meeting_point import MeetingPoint
from schemaquake.harness.units import S
from schemaquake.harness.wait import pause_for

__all__ = ["ProcessCrew"]

_PATIENCE_S: Final = 5.0
"""The time in seconds that workers have to end after a failure; later ones are not waited for."""

_END_LIMIT_S: Final = 5.0
"""The time that a process has to end after it was asked to, and after it was killed."""

_LOOK_EVERY_NS: Final = 250_000_000
"""The interval at which a sleeping worker checks whether the phase is over."""


_ABSENT, _PRESENT, _GONE = range(3)
"""The state of the workers of one node: not yet begun, taking part, or dismissed."""

_Verb: TypeAlias = Literal["connect", "phase"]


class ProcessCrew:
    """Every worker process of a run, seen from the conductor."""

    def __init__(
        self,
        workloads: Sequence[str],
        context: Context,
        connector: Connector,
        *,
        journals: Path,
        started_ns: int,
        request_timeout_s: float,
    ) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._stopped = spawn.RawValue("b", 0)
        self._is_main_finished = False
        self._connecting = threading.Lock()
        self._assignments = assignments = assign(workloads, context)
        self._meeting_points = {name: MeetingPoint(spawn, 0) for name in workloads}
        self.ended_early: str | None = None
        self._processes = {
            node: _WorkerProcess(
                spawn,
                WorkerConfig(
                    node=node,
                    assignments=tuple(one for one in assignments if one.member.node == node),
                    worker_count=len(assignments),
                    context=context,
                    connector=connector,
                    journals=journals,
                    started_ns=started_ns,
                    request_timeout_s=request_timeout_s,
                ),
                self._meeting_points,
                _Signals(self._stopped, spawn.RawValue("b", _ABSENT if node in context.spares else _PRESENT)),
            )
            for node in (*context.nodes, *context.spares)
            if any(one.member.node == node for one in assignments)
        }

    def connect(self, nodes: Iterable[str]) -> None:
        """Open (or open anew) the sessions of the workers of these nodes; raises NodeUnreachable.

        May be called while a phase goes on, by another thread: a worker changes over between two operations.
        """
        with self._connecting:
            self._command("connect", None, nodes)

    def admit(self, nodes: Iterable[str]) -> None:
        """Open the sessions of the workers of these nodes; those that wait to begin a main phase begin it."""
        nodes = tuple(nodes)
        self.connect(nodes)
        for node in nodes:
            if node in self._processes:
                self._processes[node].signals.place.value = _PRESENT

    def dismiss(self, nodes: Iterable[str]) -> None:
        """End the phase of the workers of these nodes, after the operation each is at."""
        for node in nodes:
            if node in self._processes:
                self._processes[node].signals.place.value = _GONE

    def finish_main(self) -> None:
        """End the main phase as its time limit would, now or as soon as it begins. Called by another thread."""
        self._is_main_finished = (
            True  # first: a phase that begins meanwhile resets what the next line sets, then looks here
        )
        self._halt()

    def run(
        self,
        phase: Phase,
        *,
        label: str = "",
        nodes: Iterable[str],
        time_limit_s: float | None = None,
    ) -> bool:
        """Let the workers of these nodes do one phase, and wait for all of them.

        With a time limit the phase ends when the steps do or when the time is over, whichever is first; returns whether
        it was the steps. Raises WorkerFailed with the worker's traceback.
        """
        nodes = tuple(nodes)
        self._stopped.value = 0
        if phase == "main" and self._is_main_finished:
            self._halt()
        self.ended_early = None
        present = {node for node, process in self._processes.items() if process.is_at(_PRESENT)}
        for name, point in self._meeting_points.items():
            point.reset(sum(one.workload == name and one.member.node in present for one in self._assignments))
        ends_at_ns = None if time_limit_s is None else time.monotonic_ns() + int(time_limit_s * S)
        everybody = present <= set(nodes)
        order = PhaseOrder(phase, label, ends_at_ns, everybody, frozenset(present.intersection(nodes)))
        return self._command("phase", order, nodes, ends_at=None if ends_at_ns is None else ends_at_ns / S)

    def _command(
        self, verb: _Verb, order: PhaseOrder | None, nodes: Iterable[str], *, ends_at: float | None = None
    ) -> bool:
        """Have the processes of these nodes carry out a command. Returns True if all were done in time."""
        waiting = self._send(verb, order, nodes)
        failures: list[SchemaquakeError] = []
        in_time = True
        while waiting:
            if verb == "phase" and all(process.is_at(_ABSENT) for process in waiting.values()):
                self._halt()  # none of them has begun, and nothing else goes on
            timeout = None if ends_at is None else max(0.0, ends_at - time.monotonic())
            ready = wait([*waiting, *(p.process.sentinel for p in waiting.values())], timeout)
            if not ready:
                if failures:
                    break
                self._halt()
                in_time = False
                ends_at = None  # a worker in the middle of an operation finishes it
            for connection in [c for c, p in waiting.items() if c in ready or p.process.sentinel in ready]:
                process = waiting.pop(connection)
                failure, ended_early = process.reply(verb)
                self.ended_early = self.ended_early or ended_early
                if failure is not None:
                    failures.append(failure)
                if failure is not None and verb == "phase":
                    ends_at = time.monotonic() + _PATIENCE_S
                    self._halt()
        if failures:
            raise failures[0]
        return in_time and (ends_at is None or time.monotonic() < ends_at)

    def _send(self, verb: _Verb, order: PhaseOrder | None, nodes: Iterable[str]) -> dict[Connection, _WorkerProcess]:
        """Give the processes of these nodes a command; returns them by the pipes that will answer."""
        commanded = {}
        for node in nodes:
            process = self._processes.get(node)
            if process is not None:
                with suppress(OSError):  # its end is what it answers
                    process.pipes[verb].send(order)
                commanded[process.pipes[verb]] = process
        return commanded

    def _halt(self) -> None:
        """End the phase: no worker takes another step, and waiting at a meeting ends."""
        self._stopped.value = 1

    def stop(self) -> None:
        """End the processes; idempotent."""
        self._halt()
        for process in self._processes.values():
            process.ask_to_end()  # all of them first, so that they end at once
        for process in self._processes.values():
            process.end()


class _WorkerProcess:
    """One process and its pipes: one for phases, and one for sessions, which may be renewed while a phase goes on."""

    def __init__(
        self, spawn: SpawnContext, config: WorkerConfig, meeting_points: Mapping[str, MeetingPoint], signals: _Signals
    ) -> None:
        self.node = config.node
        self.signals = signals
        phases, their_phases = spawn.Pipe()
        sessions, their_sessions = spawn.Pipe()
        self.pipes: Mapping[_Verb, Connection] = {"phase": phases, "connect": sessions}
        self.process: SpawnProcess = spawn.Process(
            target=_serve,
            args=(their_phases, their_sessions, config, dict(meeting_points), signals),
            name=f"workers-{config.node}",
            daemon=True,
        )
        self.process.start()
        their_phases.close()
        their_sessions.close()

    def is_at(self, place: int) -> bool:
        """Return whether the workers of this node stand there."""
        return bool(self.signals.place.value == place)

    def reply(self, verb: _Verb) -> tuple[SchemaquakeError | None, str | None]:
        """Receive the answer to the last such command: why it failed, and why one of its workers ended the phase."""
        try:
            answer = self.pipes[verb].recv()
        except (EOFError, OSError):
            self.process.join(_END_LIMIT_S)
            words = f"the worker process of {self.node} ended by itself, exit code {self.process.exitcode}"
            return WorkerFailed(words), None
        if isinstance(answer, Failure):
            return answer.to_error(f"a worker of {self.node}", WorkerFailed), None
        return None, answer

    def ask_to_end(self) -> None:
        """Ask the process to close its sessions and journals, and to end."""
        with suppress(OSError):
            self.pipes["phase"].send(None)

    def end(self) -> None:
        """Wait for the end of the process, or kill it if it takes too long."""
        self.process.join(_END_LIMIT_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join(_END_LIMIT_S)


# ── inside a worker process ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Signals:
    """The conductor's signals to working processes, in shared memory."""

    stopped: Any
    """1 if the phase is over for all workers."""
    place: Any
    """The state of the workers of this node."""

    def is_over(self) -> bool:
        """Return whether the workers of this node take no more steps."""
        return bool(self.stopped.value) or self.place.value == _GONE


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """The arguments of one worker process, passed when it is spawned."""

    node: str
    assignments: tuple[Assignment, ...]
    worker_count: int
    context: Context
    connector: Connector
    journals: Path
    started_ns: int
    request_timeout_s: float


def _serve(
    phases: Connection,
    sessions: Connection,
    config: WorkerConfig,
    meeting_points: Mapping[str, MeetingPoint],
    signals: _Signals,
) -> None:
    """Carry out one command after another until the pipes end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the conductor's to answer
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    workers = [
        _ThreadedWorker(assignment, config, meeting_points[assignment.workload], signals)
        for assignment in config.assignments
    ]
    threading.Thread(target=_serve_sessions, args=(sessions, workers), name="sessions", daemon=True).start()
    sync_regularly([worker.journal for worker in workers])
    while True:
        try:
            order: PhaseOrder | None = phases.recv()
        except EOFError:
            return
        if order is None:
            break
        phases.send(_do_each(workers, partial(_ThreadedWorker.run, order=order), signals.stopped))
    for worker in workers:
        worker.close()


def _serve_sessions(sessions: Connection, workers: Sequence[_ThreadedWorker]) -> None:
    with suppress(EOFError, OSError):
        while True:
            sessions.recv()
            sessions.send(_do_each(workers, _ThreadedWorker.connect))


def _do_each(
    workers: Sequence[_ThreadedWorker], action: Callable[[_ThreadedWorker], str | None], stopped: Any = None
) -> Failure | str | None:
    """Act in one thread a worker. Returns the first failure, else why the first worker that did so ended the phase early.

    The first defect sets `stopped`, which ends the phase for all.
    """
    failures: list[Failure] = []
    early: list[str] = []

    def guarded(worker: _ThreadedWorker) -> None:
        try:
            because = action(worker)
            if because is not None:
                early.append(because)
        except Exception as error:  # noqa: BLE001 - handed to the conductor, which ends the run
            failure = classify_failure(error)
            failures.append(failure)
            if failure.kind == "failed" and stopped is not None:
                stopped.value = 1

    threads = [threading.Thread(target=guarded, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        return failures[0]
    return early[0] if early else None


class _ThreadedWorker:
    """One worker: its script, its session and its journal. Carries out effects by blocking its thread."""

    def __init__(
        self, assignment: Assignment, config: WorkerConfig, meeting_point: MeetingPoint, signals: _Signals
    ) -> None:
        self._config = config
        self._meeting_point = meeting_point
        self._signals = signals
        workload: Workload = load("workloads", assignment.workload)
        self._script = Script(workload, assignment, config.context, worker_count=config.worker_count)
        self._client: Client | None = None
        self._unreachable: str | None = None
        self._changing_over = threading.Lock()
        self.journal = Journal(config.journals / f"events-{assignment.process:04d}.jsonl", config.started_ns)

    def connect(self) -> None:
        """Open the session, or open it anew when the operation under way has ended."""
        with self._changing_over:
            self._close_session()
            try:
                self._client = self._config.connector.connect(
                    self._script.node, request_timeout_s=self._config.request_timeout_s
                )
            except NodeUnreachable as error:
                self._unreachable = str(error)
                raise

    def run(self, order: PhaseOrder) -> str | None:
        """Carry out one phase. Returns the reason if this worker ended it early, else None."""
        signals, place, ends_at_ns = self._signals, self._signals.place, order.ends_at_ns

        def is_over() -> bool:
            return signals.is_over() or (ends_at_ns is not None and time.monotonic_ns() >= ends_at_ns)

        if place.value == _ABSENT:
            order = replace(order, meetings=False)
            while place.value == _ABSENT:
                if is_over():
                    return None
                pause_for(_LOOK_EVERY_NS / S)
        ending = self._drive(self._script.begin(order, now_ns=time.monotonic_ns, is_over=is_over), is_over)
        if place.value == _GONE:
            if order.meetings:
                self._meeting_point.withdraw()
        elif ending.how == "finished":
            self._meeting_point.leave()
        if ending.how == "unmet":
            signals.stopped.value = 1
        self.journal.sync()
        return ending.because

    def _drive(self, effects: Generator[Effect, Any, Ending], is_over: Callable[[], bool]) -> Ending:
        record, invoke = self.journal.event, self._invoke
        answer: Any = None
        try:
            while True:
                effect = effects.send(answer)
                # Tested first, and by type, because each test costs throughput.
                if type(effect) is Call:
                    answer = effect.carry_out(record, invoke)
                elif type(effect) is Record:
                    record(*effect)
                    answer = None
                else:
                    answer = self._wait(effects, effect, is_over)
        except StopIteration as end:
            ending: Ending = end.value
            return ending

    def _wait(self, effects: Generator[Effect, Any, Ending], effect: Effect, is_over: Callable[[], bool]) -> bool:
        """Wait for a pause or a meeting. Returns False if the phase was over before."""
        if isinstance(effect, Sleep):
            return _sleep(effect.until_ns, is_over)
        assert isinstance(effect, Meet)
        try:
            return self._meeting_point.meet(limit_s=MEETING_LIMIT_S, called_off=self._signals.is_over)
        except MeetingFailed as why:
            effects.throw(why)  # raises WorkerFailed
            raise

    def _invoke(self, operation: Invoke) -> Completion:
        with self._changing_over:
            if self._client is not None:
                return self._client.invoke(operation)
        assert self._unreachable is not None, "a phase before connect"
        pause_for(_LOOK_EVERY_NS / S)
        return Completion(type="fail", error=f"NodeUnreachable: {self._unreachable}")

    def _close_session(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def close(self) -> None:
        """End session and journal."""
        self._close_session()
        self.journal.close()


def _sleep(until_ns: int, is_over: Callable[[], bool]) -> bool:
    """Sleep until a moment of the clock; False if the phase is over before."""
    while (left := until_ns - time.monotonic_ns()) > 0:
        if is_over():
            return False
        pause_for(min(left, _LOOK_EVERY_NS) / S)
    return True
