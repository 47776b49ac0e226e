"""Runtime: the clock of a run, its crew, its observer, and tasks beside them.

Real runs stand on processes, threads and the machine's clock (`schemaquake.harness.run.process_runtime`), simulated ones
on an event heap and virtual time (`schemaquake.harness.run.simulated_runtime`). Phases, steps and faults are written
once, against these protocols.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

from schemaquake.harness.model.observation import Observation

if TYPE_CHECKING:
    from schemaquake.harness.model.plan import Plan
    from schemaquake.harness.model.protocols import Connector, Context, Phase

__all__ = ["Clock", "Crew", "Observer", "Runtime", "RuntimeProvider", "Settled", "Sleep", "Task", "TaskSteps", "Tasks"]


class Clock(Protocol):
    """The time of one run."""

    def now_ns(self) -> int:
        """Return the present moment in ns; never less than before. Only differences have a meaning."""
        ...

    def stamp_ns(self) -> int:
        """Return the present moment as a record's time. In a simulation no two stamps are equal, so that records keep their order."""
        ...

    def utc(self) -> datetime:
        """Return the present moment of the calendar."""
        ...


class Sleep(NamedTuple):
    """A pause until a moment of the runtime's clock. Resumed with True, or with False if it was cut short."""

    until_ns: int


TaskSteps: TypeAlias = Generator[Sleep, bool, None]
"""Work with pauses; it may block between two of them."""


class Task(Protocol):
    """A task that runs beside the phases."""

    def stop(self) -> None:
        """Cut the task's present and later pauses short; idempotent."""
        ...

    def join(self) -> None:
        """Wait until the task has ended."""
        ...


class Tasks(Protocol):
    """A clock, and a way to run tasks beside the phases."""

    @property
    def clock(self) -> Clock:
        """The time of the run."""
        ...

    def spawn(self, name: str, steps: TaskSteps) -> Task:
        """Begin a task of these `steps` now. They must not raise."""
        ...


@dataclass(frozen=True, slots=True)
class Settled:
    """The end of settling: whether all nodes showed one schema version, after how long, and what each showed last."""

    agreed: bool
    seconds: float
    versions: Mapping[str, str]
    quiet_s: float | None = None
    """How long nothing had changed when waiting ended before its limit, because nothing was under way any more; else None."""


class Crew(Protocol):
    """The workers of a run."""

    ended_early: str | None
    """A worker's reason why the last phase ended before its steps did; None if it did not."""

    def connect(self, nodes: Iterable[str]) -> None:
        """Open (or open anew) the sessions of the workers of these nodes; raises NodeUnreachable.

        May be called while a phase goes on: a worker changes over between two operations.
        """
        ...

    def admit(self, nodes: Iterable[str]) -> None:
        """Open the sessions of the workers of these nodes, which have joined; in a main phase that goes on they begin.

        Raises NodeUnreachable. May be called while a phase goes on, as `dismiss` may.
        """
        ...

    def dismiss(self, nodes: Iterable[str]) -> None:
        """End the phase of the workers of these nodes, which have left, after the operation each is at; meetings go on."""
        ...

    def finish_main(self) -> None:
        """End the main phase as its time limit would, now or as soon as it begins. Called by another thread or task."""
        ...

    def run(self, phase: Phase, *, label: str = "", nodes: Iterable[str], time_limit_s: float | None = None) -> bool:
        """Let the workers of these nodes do one phase, and wait for all of them.

        With a time limit the phase ends when the steps do or when the time is over, whichever is first; returns whether
        it was the steps. Raises WorkerFailed with the worker's traceback.
        """
        ...

    def stop(self) -> None:
        """End the workers; idempotent."""
        ...


class Observer(Protocol):
    """The reader of each node's own account of its schema."""

    def connect(self, nodes: Iterable[str]) -> None:
        """Open (or open anew) a session to each of these nodes, and observe only these from now on."""
        ...

    def follow(self, nodes: Iterable[str]) -> None:
        """Observe these nodes from now on: close sessions to others, and open those that there are none to yet.

        Raises NodeUnreachable for a node that accepts none; the others are observed all the same.
        """
        ...

    def sample(self, phase: str | None) -> None:
        """Begin to sample under that phase's name, or stop (None)."""
        ...

    def settle(self, *, limit_s: float, quiet_s: float = 0) -> Settled:
        """Wait until every node shows the same schema version twice in a row, or until the limit passes.

        With `quiet_s`, or until so long nothing has changed that every node shows.
        """
        ...

    def read(self, phase: str) -> None:
        """Read every node completely, and record that under the phase's name."""
        ...

    def record(self, observations: Sequence[Observation]) -> None:
        """Record one reading of one node that was taken elsewhere (its data directories)."""
        ...

    def stop(self) -> None:
        """End the observer; idempotent."""
        ...


class Runtime(Tasks, Protocol):
    """The clock, crew, observer and tasks of a run."""

    is_repeatable: bool
    """True if the run can be repeated from its seed, so that its journals need not survive a power cut."""

    def waiting(self) -> AbstractContextManager[None]:
        """Have `schemaquake.harness.wait` wait by this runtime's clock while the block runs."""
        ...

    def crew(
        self,
        workloads: Sequence[str],
        context: Context,
        connector: Connector,
        *,
        journals: Path,
        started_ns: int,
        request_timeout_s: float,
    ) -> Crew:
        """Create the workers of all workloads, not yet connected. Each writes a journal of its own into `journals`."""
        ...

    def observer(self, connector: Connector, *, journal: Path, started_ns: int, request_timeout_s: float) -> Observer:
        """Create the observer, not yet connected."""
        ...


@runtime_checkable
class RuntimeProvider(Protocol):
    """A provider whose runs have a runtime of their own. Those of any other use processes and wall time."""

    def runtime(self, plan: Plan) -> Runtime:
        """Return the runtime of this plan's run; called once, before `create`, which is called on the same provider."""
        ...
