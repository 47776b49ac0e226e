"""Workers: several processes, one a node, each with a thread and a pinned session for every worker of that node.

One interpreter cannot drive a cluster, and two racing statements must not share one: a process a node gives racers of
different coordinators an interpreter each. The conductor talks to the processes over pipes, one command a phase; what
the workers do in a phase they derive themselves from plan and seed, and write into journals of their own.
"""

from __future__ import annotations

import multiprocessing
import re
import signal
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any, Final, Literal

from schemaquake.harness.errors import ClusterError, NodeUnreachable, SchemaquakeError
from schemaquake.harness.history.journal import Journal
from schemaquake.harness.model.operation import NEMESIS, Completion
from schemaquake.harness.model.protocols import Client, Connector, Context, Phase, Worker, Workload
from schemaquake.harness.model.steps import Invoke, Meet, Note, Require, Step, Wait
from schemaquake.harness.registry import load
from schemaquake.harness.run.lifeline import end_with_parent
from schemaquake.harness.run.meeting_point import MeetingPoint, NobodyElseComes
from schemaquake.harness.wait import pause_for

__all__ = ["Crew", "WorkerFailed"]

_MEETING_LIMIT_S: Final = 180.0
"""How long a barrier waits for a worker that is still busy with a slow operation before the meeting is called off."""

_PATIENCE_S: Final = 5.0
"""After a failure the run is over: whoever has not come home by then is not waited for."""

_LOOK_EVERY_S: Final = 0.25
"""How often a worker that lets time pass looks whether the phase is over."""


_AGAIN_FIRST_S: Final = 0.02
_AGAIN_EVERY_S: Final = 0.25
"""When what is required and was refused is asked for again: soon at first, since a migration arrives in milliseconds."""

_IS_THERE: Final = re.compile(r"AlreadyExists|\balready (exist|defined|contains)|conflicts with an existing column")
"""How the eras say that what is to be made is there; with the class of the error in front of the text."""


class WorkerFailed(ClusterError):
    """A worker's own code failed (not the cluster): the run goes no further."""


@dataclass(frozen=True, slots=True)
class _Assignment:
    """One worker: which workload it serves, as which member, under which number it starts."""

    workload: str
    member: Worker
    process: int


@dataclass(frozen=True, slots=True)
class _PhaseCommand:
    phase: Phase
    label: str
    ends_at: float | None
    """On time.monotonic; None: when the steps are exhausted."""
    meetings: bool


class Crew:
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
        self._meeting_points: dict[str, MeetingPoint] = {}
        by_node: dict[str, list[_Assignment]] = {node: [] for node in context.nodes}
        number = 0
        for name in workloads:
            workload: Workload = load("workloads", name)
            members = workload.crew(context)
            self._meeting_points[name] = MeetingPoint(spawn, len(members))
            for member in members:
                by_node[member.node].append(_Assignment(name, member, number))
                number += 1
        self.ended_early: str | None = None
        """Why the last phase ended before its steps did, by the word of a worker; None if it did not."""
        self._processes: dict[str, _WorkerProcess] = {
            node: _WorkerProcess(
                spawn,
                node,
                _Duty(
                    node=node,
                    assignments=tuple(assignments),
                    worker_count=number,
                    context=context,
                    connector=connector,
                    journals=journals,
                    started_ns=started_ns,
                    request_timeout_s=request_timeout_s,
                ),
                self._meeting_points,
                self._stopped,
            )
            for node, assignments in by_node.items()
            if assignments
        }

    def connect(self, nodes: Iterable[str]) -> None:
        """Open (or open anew) the sessions of the workers of these nodes; raises NodeUnreachable."""
        self._command("connect", None, nodes)

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
        self.ended_early = None
        for point in self._meeting_points.values():
            point.reset()
        ends_at = None if time_limit_s is None else time.monotonic() + time_limit_s
        everybody = set(self._processes) <= set(nodes)
        return self._command("phase", _PhaseCommand(phase, label, ends_at, everybody), nodes, ends_at=ends_at)

    def _command(self, verb: str, argument: Any, nodes: Iterable[str], *, ends_at: float | None = None) -> bool:
        """Whether everybody was done before the time was over."""
        waiting = self._send(verb, argument, nodes)
        failures: list[SchemaquakeError] = []
        in_time = True
        while waiting:
            timeout = None if ends_at is None else max(0.0, ends_at - time.monotonic())
            ready = wait([*waiting, *(p.process.sentinel for p in waiting.values())], timeout)
            if not ready:
                if failures:
                    break
                self._halt()
                in_time = False
                ends_at = None  # whoever is in the middle of an operation is let finish it
            for connection in [c for c, p in waiting.items() if c in ready or p.process.sentinel in ready]:
                process = waiting.pop(connection)
                failure = process.reply()
                self.ended_early = self.ended_early or process.ended_early
                if failure is not None:
                    failures.append(failure)
                    ends_at = time.monotonic() + _PATIENCE_S
                    self._halt()
        if failures:
            raise failures[0]
        return in_time and (ends_at is None or time.monotonic() < ends_at)

    def _send(self, verb: str, argument: Any, nodes: Iterable[str]) -> dict[Connection, _WorkerProcess]:
        """Give the processes of these nodes a command; who was told, by the pipe that will answer."""
        told = {}
        for node in nodes:
            process = self._processes.get(node)
            if process is not None:
                with suppress(OSError):  # its end is what it answers
                    process.connection.send((verb, argument))
                told[process.connection] = process
        return told

    def _halt(self) -> None:
        """Time is over: nobody takes another step, and whoever waits for a meeting goes home."""
        self._stopped.value = 1

    def stop(self) -> None:
        """End the processes; idempotent."""
        self._halt()
        for process in self._processes.values():
            process.stop()


class _WorkerProcess:
    """One process and its pipe."""

    def __init__(
        self, spawn: SpawnContext, node: str, duty: _Duty, meeting_points: Mapping[str, MeetingPoint], stopped: Any
    ) -> None:
        self.node = node
        self.ended_early: str | None = None
        self.connection, theirs = spawn.Pipe()
        self.process: SpawnProcess = spawn.Process(
            target=_serve, args=(theirs, duty, dict(meeting_points), stopped), name=f"workers-{node}", daemon=True
        )
        self.process.start()
        theirs.close()

    def reply(self) -> SchemaquakeError | None:
        """What the process answered to its last command: None if it was carried out, or ended by one of its workers."""
        self.ended_early = None
        try:
            kind, text = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(5)
            return WorkerFailed(f"the worker process of {self.node} ended by itself, exit code {self.process.exitcode}")
        match kind:
            case "done":
                return None
            case "ended early":
                self.ended_early = text
                return None
            case "unreachable":
                return NodeUnreachable(text)
            case "refused":
                return WorkerFailed(text)
        return WorkerFailed(f"a worker of {self.node} failed:\n{text}")

    def stop(self) -> None:
        """Ask it to end, then end it."""
        with suppress(OSError):
            self.connection.send(("end", None))
        self.process.join(3)
        if self.process.is_alive():
            self.process.kill()
            self.process.join(5)


# ── inside a worker process ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class _Duty:
    """What one worker process is told when it is born."""

    node: str
    assignments: tuple[_Assignment, ...]
    worker_count: int
    context: Context
    connector: Connector
    journals: Path
    started_ns: int
    request_timeout_s: float


def _serve(connection: Connection, duty: _Duty, meeting_points: Mapping[str, MeetingPoint], stopped: Any) -> None:
    """The life of a worker process: one command after another, until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the conductor's to answer
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    workers = [
        _ThreadedWorker(assignment, duty, meeting_points[assignment.workload], stopped)
        for assignment in duty.assignments
    ]
    while True:
        try:
            verb, argument = connection.recv()
        except EOFError:
            return
        match verb:
            case "connect":
                connection.send(_each(workers, lambda worker: worker.connect(), stopped))
            case "phase":
                connection.send(_each(workers, lambda worker, command=argument: worker.run(command), stopped))
            case "end":
                for worker in workers:
                    worker.close()
                return


def _each(
    workers: Sequence[_ThreadedWorker], action: Any, stopped: Any
) -> tuple[Literal["done", "ended early", "unreachable", "refused", "failed"], str]:
    """Do it in a thread a worker, and sum up; the first failure sends everybody home."""
    answers: list[tuple[Literal["unreachable", "refused", "failed"], str]] = []
    early: list[str] = []

    def guarded(worker: _ThreadedWorker) -> None:
        try:
            because = action(worker)
            if because is not None:
                early.append(because)
        except NodeUnreachable as error:
            answers.append(("unreachable", str(error)))
        except SchemaquakeError as error:
            answers.append(("refused", str(error)))
        except Exception:  # noqa: BLE001 - handed to the conductor, which ends the run
            answers.append(("failed", traceback.format_exc()))
            stopped.value = 1

    threads = [threading.Thread(target=guarded, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if answers:
        return answers[0]
    return ("ended early", early[0]) if early else ("done", "")


class _ThreadedWorker:
    """One worker: its steps, its session, its journal, and the process number it currently goes by."""

    def __init__(self, assignment: _Assignment, duty: _Duty, meeting_point: MeetingPoint, stopped: Any) -> None:
        self._assignment = assignment
        self._duty = duty
        self._meeting_point = meeting_point
        self._stopped = stopped
        self._workload: Workload = load("workloads", assignment.workload)
        self._process = assignment.process
        self._client: Client | None = None
        self._journal = Journal(duty.journals / f"events-{assignment.process:04d}.jsonl", duty.started_ns)
        crew = max(1, len(self._workload.crew(duty.context)))
        # A rate is for work that never ends; a pause between a meeting and a racing statement would spoil the race.
        rate = duty.context.rate if getattr(self._workload, "endless", False) else None
        self._interval_s = None if rate is None else crew / rate
        self._next_at = 0.0
        self._ended_early: str | None = None

    def connect(self) -> None:
        self.close_session()
        self._client = self._duty.connector.connect(
            self._assignment.member.node, request_timeout_s=self._duty.request_timeout_s
        )

    def run(self, command: _PhaseCommand) -> str | None:
        """Do one phase; why it had to end early, if it was this worker who had to end it."""
        self._next_at = time.monotonic()
        self._ended_early = None
        for step in self._steps(command):
            if self._is_over(command) or not self._take(step, command):
                return self._ended_early
        self._meeting_point.leave()
        return None

    def _take(self, step: Step, command: _PhaseCommand) -> bool:
        """Do what the step says; False when the phase was over before it came to that."""
        match step:
            case Invoke():
                if self._interval_s is not None and command.phase == "main" and not self._pace(command):
                    return False
                self._invoke(step)
            case Require():
                return self._require(step, command)
            case Meet():
                return not command.meetings or self._meet()
            case Wait(seconds):
                return self._pause(seconds, command)
            case Note(f, key, value):
                self._journal.event(NEMESIS, "info", f, None, key, value)
        return True

    def _pace(self, command: _PhaseCommand) -> bool:
        assert self._interval_s is not None
        if not self._pause(self._next_at - time.monotonic(), command):
            return False
        # Whoever was held up for long does not make up for all of it at once.
        self._next_at = max(self._next_at + self._interval_s, time.monotonic() - 1)
        return True

    def _is_over(self, command: _PhaseCommand) -> bool:
        return bool(self._stopped.value) or (command.ends_at is not None and time.monotonic() >= command.ends_at)

    def _pause(self, seconds: float, command: _PhaseCommand) -> bool:
        """Let so much time pass, to the point; False when the phase is over before that."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            if self._is_over(command):
                return False
            pause_for(min(left, _LOOK_EVERY_S))
        return True

    def _steps(self, command: _PhaseCommand) -> Iterator[Step]:
        return self._workload.steps(
            command.phase, self._assignment.member, self._duty.context, phase_label=command.label
        )

    def _require(self, step: Require, command: _PhaseCommand) -> bool:
        """Ask until it is done; False when the phase is over, or now has to be."""
        ends = time.monotonic() + step.limit_s
        again_s = _AGAIN_FIRST_S
        while True:
            completion = self._invoke(step.invoke)
            if completion.type == "ok" or _IS_THERE.search(completion.error or ""):
                return True
            if time.monotonic() >= ends:
                break
            if not self._pause(min(again_s, max(0.0, ends - time.monotonic())), command):
                return False
            again_s = min(2 * again_s, _AGAIN_EVERY_S)
        node = self._assignment.member.node
        self._ended_early = (
            f"{step.invoke.f} of {step.invoke.key} through {node} was not done within {step.limit_s:g} s: "
            f"{completion.error}"
        )
        note = {"phase": command.phase, "because": self._ended_early, "key": step.invoke.key}
        self._journal.event(NEMESIS, "info", "phase-ended-early", node, step.invoke.key, note)
        self._stopped.value = 1
        return False

    def _invoke(self, step: Invoke) -> Completion:
        client = self._client
        assert client is not None, "a phase before connect"
        node = self._assignment.member.node
        journal = self._journal
        journal.event(self._process, "invoke", step.f, node, step.key, step.value, None, step.mops)
        completion = client.invoke(step)
        journal.event(
            self._process,
            completion.type,
            step.f,
            node,
            step.key,
            completion.value,
            completion.error,
            completion.mops,
        )
        if completion.type == "info":
            # Nobody knows whether that operation will still happen: whoever goes on must be somebody else.
            self._process += self._duty.worker_count
        return completion

    def _meet(self) -> bool:
        """Wait for the crew; False when the phase is over."""
        try:
            return self._meeting_point.meet(limit_s=_MEETING_LIMIT_S, called_off=lambda: bool(self._stopped.value))
        except NobodyElseComes as why:
            raise WorkerFailed(
                f"the workers of {self._assignment.workload} did not meet ({why}): "
                "do all of them yield the same number of Meet steps?"
            ) from None

    def close_session(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def close(self) -> None:
        self.close_session()
        self._journal.close()
