"""Schedules: the faults that a run's nemeses plan, each in its time, and the operations on the topology beside them.

Every planned fault has begun, failed or been skipped in the end, unless its nemesis' task ended by an error (note `nemesis-died`,
`{"nemesis", "error"}`). `schemaquake.harness.faults.executor` injects and heals the single fault.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import Final

from schemaquake.harness.errors import ClusterError, HealError, PlanError
from schemaquake.harness.faults.aiming import refuse_unseen
from schemaquake.harness.faults.executor import FaultExecutor, FaultFailed, FaultSkipped, Note, refuse_unguardable
from schemaquake.harness.faults.ledger import Ledger
from schemaquake.harness.faults.membership import TopologyOperations
from schemaquake.harness.faults.owners_limits import ConditionWatch
from schemaquake.harness.machine_time import ThreadTasks
from schemaquake.harness.model.aim import Aim
from schemaquake.harness.model.protocols import (
    Cluster,
    Context,
    Fault,
    FaultRequest,
    Nemesis,
    OwnersLimits,
    TopologyNemesis,
)
from schemaquake.harness.model.runtime import Sleep, Task, Tasks, TaskSteps
from schemaquake.harness.registry import load
from schemaquake.harness.units import S

__all__ = ["FaultSchedule", "compose"]

_THREADS: Final = ThreadTasks()
_ASKS_FOR_ITS_TURN_NS: Final = 100_000_000
_NO_TIME: Final = "the main phase ended before its time came"


class FaultSchedule:
    """The schedules of several nemeses in the main phase, and the faults that workloads request.

    Each nemesis has a task of its own, in which its faults follow one another: a node that takes long to come back
    delays the next fault of that nemesis, not those of the others.
    """

    def __init__(
        self,
        cluster: Cluster,
        nemeses: Sequence[str | Nemesis | TopologyNemesis],
        context: Context,
        *,
        ledger: Ledger,
        note: Note,
        tasks: Tasks = _THREADS,
        requested: Sequence[FaultRequest] = (),
        topology: TopologyOperations | None = None,
        halted: Callable[[str], None] = lambda _: None,
        ends_after_s: float | None = None,
    ) -> None:
        """`nemeses` are registered names or the nemeses themselves; the schedule runs on the clock of `tasks`.

        `requested` faults are in place from start to stop. `topology` carries out the operations of topology nemeses.
        `halted` is called with the reason, from another thread, when a condition of the owner's ends all faults.

        `ends_after_s` after the last operation has ended, the schedule calls what `start` was given for that.

        Raises PlanError as their schedules do, and as `refuse_unguardable` does.
        """
        self._topology = topology
        self._nemeses: list[Nemesis | TopologyNemesis] = [
            load("nemeses", known) if isinstance(known, str) else known for known in nemeses
        ]
        self.faults = compose(self._nemeses, context)
        """Every planned fault, in order of `begins_s`."""
        for nemesis in self._nemeses:
            refuse_unguardable(cluster, nemesis, [fault for fault in self.faults if fault.nemesis == nemesis.name])
        changing = {nemesis.name for nemesis in self._nemeses if isinstance(nemesis, TopologyNemesis)}
        self.operations = [fault for fault in self.faults if fault.nemesis in changing]
        """Those of `faults` that are operations on the topology."""
        self._ends_after_s = ends_after_s
        self._still_to_operate = len(changing)
        self._counting = threading.Lock()
        self._finish: Callable[[], None] = lambda: None
        refuse_unseen(cluster, self.operations, context.options.get("aim", ""))
        self._numbers = count(len(self.faults))
        self._requested = [
            (load("nemeses", each.nemesis), each.fault(id=next(self._numbers), ends_s=context.time_limit_s))
            for each in requested
        ]
        for nemesis, fault in self._requested:
            refuse_unguardable(cluster, nemesis, [fault])
        self.executor = FaultExecutor(cluster, ledger, note=note, roster=None if topology is None else topology.roster)
        self._note = note
        self._tasks = tasks
        self._began_ns = 0
        self._errors: list[Exception] = []
        self._running: list[Task] = []
        self._operating: list[Task] = []
        self._halted = halted
        self._stopping = threading.RLock()
        self._watch = ConditionWatch(
            cluster.stop_conditions() if isinstance(cluster, OwnersLimits) else (), halt=self._halt
        )

    @property
    def failures(self) -> Sequence[str]:
        """The failures of faults so far, a sentence each: reasons why the run may be unknown."""
        return self.executor.failures

    def start(self, *, finish: Callable[[], None] = lambda: None) -> None:
        """Inject the requested faults, then begin the schedule: this is second 0 of its faults' times.

        `finish` is called from a task of the schedule, `ends_after_s` after the last operation on the topology has ended.

        Raises FaultNotAllowed, FaultSkipped and FaultFailed as `FaultExecutor.inject` does for a requested fault.
        """
        self._finish = finish
        self._watch.start()
        for nemesis, fault in self._requested:
            self.executor.inject(nemesis, fault)
        self._began_ns = self._tasks.clock.now_ns()
        for nemesis in self._nemeses:
            faults = [fault for fault in self.faults if fault.nemesis == nemesis.name]
            if isinstance(nemesis, TopologyNemesis):
                self._operating.append(self._tasks.spawn(f"nemesis {nemesis.name}", self._operate(nemesis, faults)))
            else:
                self._running.append(self._tasks.spawn(f"nemesis {nemesis.name}", self._carry_out(nemesis, faults)))

    def stop(self) -> None:
        """Begin no more faults, wait for the one each nemesis may be working on, and undo everything still in place.

        Operations under way are waited for at the end, since a fault may be what holds them up. May be called again, and
        before `start`. Raises an ExceptionGroup of what could not be undone and of what went wrong in the tasks, or if a
        condition of the owner's ended the faults.
        """
        self._watch.end()
        with self._stopping:  # the owner's condition may end the faults while the phase does
            self._stop()

    def _halt(self, reason: str) -> None:
        self.executor.halt(reason)
        self._halted(reason)
        with self._stopping:
            try:
                self._stop()
            except ExceptionGroup as group:
                self._errors += group.exceptions  # the next `stop` raises them
            self._errors.append(ClusterError(f"stop_if {reason}: every fault was undone, and the run was ended"))

    def _stop(self) -> None:
        for task in (*self._running, *self._operating):
            task.stop()
        for task in self._running:
            task.join()
        errors: list[Exception] = []
        try:
            self.executor.heal_all()
        except ExceptionGroup as group:
            errors += group.exceptions
        for task in self._operating:
            task.join()
        failed, self._errors = self._errors, []
        errors = [*failed, *errors]
        if errors:
            raise ExceptionGroup("some faults could not be carried out or undone", errors)

    @contextmanager
    def guarded_restart(self, restart: FaultRequest, *, serving_limit_s: float) -> Iterator[Cluster]:
        """Guard a restart that the harness makes itself (`FaultExecutor.guarded_restart`)."""
        with self.executor.guarded_restart(restart.fault(id=next(self._numbers), ends_s=serving_limit_s)) as cluster:
            yield cluster

    def _carry_out(self, nemesis: Nemesis, faults: Sequence[Fault]) -> TaskSteps:
        try:
            for position, fault in enumerate(faults):
                if not (yield self._until(fault.begins_s)):
                    self._leave_out(faults[position:])
                    return
                if self._inject(nemesis, fault):
                    if not (yield self._until(fault.ends_s)):
                        self._leave_out(faults[position + 1 :])
                        return  # stop() undoes it
                    with suppress(HealError):  # noted; if it is still in place, stop() tries again and raises
                        self.executor.heal(fault.id)
        except Exception as error:  # noqa: BLE001 - a task has nothing to raise to: stop() raises it
            self._give_up(nemesis, error)
        except SystemExit as error:  # a thread would end of it without a trace
            self._give_up(nemesis, ClusterError(f'nemesis "{nemesis.name}" ended its own task: {error!r}'))

    def _operate(self, nemesis: TopologyNemesis, operations: Sequence[Fault]) -> TaskSteps:
        """Carry out the nemesis' operations; after the last one of all nemeses, wait and call `finish`."""
        yield from self._operate_all(nemesis, operations)
        with self._counting:
            self._still_to_operate -= 1
            is_last = not self._still_to_operate
        if is_last and self._ends_after_s is not None:
            ends_at_ns = self._tasks.clock.now_ns() + int(self._ends_after_s * S)
            if (yield Sleep(ends_at_ns)):
                self._finish()

    def _operate_all(self, nemesis: TopologyNemesis, operations: Sequence[Fault]) -> TaskSteps:
        """Carry out one operation after another; one whose time has passed when its turn comes is skipped."""
        topology = self._topology
        try:
            if topology is None:
                raise PlanError(f'nemesis "{nemesis.name}" changes the topology, and this schedule cannot')  # noqa: TRY301
            for position, operation in enumerate(operations):
                turn = yield from self._await_turn(topology, operation)
                if turn is None:
                    for left in operations[position:]:
                        topology.skip(left, _NO_TIME)
                    return
                with turn:
                    if self._elapsed_s() >= operation.ends_s:
                        topology.skip(operation, "the one before it took until after this one should have begun")
                    elif (reason := topology.obstacle(nemesis, operation)) is not None:
                        topology.skip(operation, reason)
                    else:
                        topology.carry_out(nemesis, operation, strike=self._strike)
        except Exception as error:  # noqa: BLE001 - a task has nothing to raise to: stop() raises it
            self._give_up(nemesis, error)
        except SystemExit as error:  # as above
            self._give_up(nemesis, ClusterError(f'nemesis "{nemesis.name}" ended its own task: {error!r}'))

    def _await_turn(
        self, topology: TopologyOperations, operation: Fault
    ) -> Generator[Sleep, bool, AbstractContextManager[None] | None]:
        """Wait until the operation may begin, and return what is held while it goes on; None: the main phase ended before."""
        if not (yield self._until(operation.begins_s)):
            return None
        while (turn := topology.take_turn(operation)) is None:
            if not (yield Sleep(self._tasks.clock.now_ns() + _ASKS_FOR_ITS_TURN_NS)):
                return None
        return turn

    @contextmanager
    def _strike(self, aim: Aim) -> Iterator[None]:
        """Keep the fault of an aim in place; one that cannot be injected is noted as any other."""
        nemesis = load("nemeses", aim.nemesis)
        topology = self._topology
        if topology is not None and any(topology.roster.is_gone(name) for name in aim.nodes):
            topology.roster.refresh()  # a spare is no member until it is seen to join
        begins_s = self._elapsed_s()
        fault = Fault(
            id=next(self._numbers),
            nemesis=aim.nemesis,
            begins_s=begins_s,
            ends_s=begins_s + aim.hold_s,
            nodes=aim.nodes,
            parameters=aim.parameters,
        )
        with suppress(FaultSkipped, FaultFailed, HealError):
            self.executor.inject(nemesis, fault)
        try:
            yield
        finally:
            with suppress(HealError):  # noted; if it is still in place, stop() tries again and raises
                self.executor.heal(fault.id)

    def _leave_out(self, faults: Sequence[Fault]) -> None:
        """Record that the main phase ended before these faults, so that every planned fault is accounted for."""
        for fault in faults:
            with suppress(FaultSkipped):
                self.executor.skip(fault, _NO_TIME)

    def _give_up(self, nemesis: Nemesis | TopologyNemesis, error: Exception) -> None:
        """Record that a nemesis' task ended before its schedule did; `stop` raises the error."""
        self._errors.append(error)
        with suppress(Exception):  # what failed may be the journal itself
            self._note("nemesis-died", {"nemesis": nemesis.name, "error": f"{type(error).__name__}: {error}"})

    def _inject(self, nemesis: Nemesis, fault: Fault) -> bool:
        try:
            if self._elapsed_s() >= fault.ends_s:
                self.executor.skip(fault, "the one before it took until after this one should have ended")
            self.executor.inject(nemesis, fault)
        except (FaultSkipped, FaultFailed, HealError):
            return False  # noted and remembered by the executor; the later faults are still wanted
        return True

    def _until(self, second: float) -> Sleep:
        return Sleep(self._began_ns + int(second * S))

    def _elapsed_s(self) -> float:
        return (self._tasks.clock.now_ns() - self._began_ns) / S


def compose(nemeses: Sequence[Nemesis | TopologyNemesis], context: Context) -> Sequence[Fault]:
    """Compose the faults of all nemeses in order of `begins_s`, numbered anew from 0; the same seed gives the same faults.

    Raises PlanError if a nemesis is named twice, or plans a fault that does not fit the run.
    """
    names = [nemesis.name for nemesis in nemeses]
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f'nemesis "{name}" is named twice')
    faults = [
        _checked(fault, nemesis, context)
        for nemesis in nemeses
        for fault in nemesis.schedule(context, random=context.random("nemesis", nemesis.name))
    ]
    faults.sort(key=lambda fault: (fault.begins_s, names.index(fault.nemesis), fault.id))
    return [replace(fault, id=number) for number, fault in enumerate(faults)]


def _checked(fault: Fault, nemesis: Nemesis | TopologyNemesis, context: Context) -> Fault:
    if fault.nemesis != nemesis.name:
        raise PlanError(f'nemesis "{nemesis.name}" planned a fault in the name of "{fault.nemesis}"')
    if not 0 <= fault.begins_s < fault.ends_s <= context.time_limit_s:
        raise PlanError(
            f"{fault.nemesis}: a fault from {fault.begins_s:g} s to {fault.ends_s:g} s does not lie within the "
            f"{context.time_limit_s:g} s of the main phase"
        )
    if unknown := sorted(set(fault.nodes) - set(context.nodes) - set(context.spares)):
        raise PlanError(f"{fault.nemesis}: no such node: {', '.join(unknown)}")
    return fault
