"""Executor: runs units, each in a process of its own (`schemaquake.results.runs.separate_run`), several at the same time."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from schemaquake.harness.wait import pause_for
from schemaquake.results.matrix.facts import RunFacts, refused
from schemaquake.results.matrix.machine import KEPT_FREE_MB, IdleShare, available_mb
from schemaquake.results.matrix.matrix_folder import Done, MatrixFolder
from schemaquake.results.matrix.matrix_plan import MatrixPlan, Unit
from schemaquake.results.runs.separate_run import SeparateRun

__all__ = ["Executor", "Processes"]

_LOOK_EVERY_S: Final = 0.2
_MOST_A_JOB: Final = 3
_BOOTING_S: Final = 6.0
_IDLE_LEAST: Final = 0.3
_RUN: Final = (sys.executable, "-m", "schemaquake.results.matrix.one_run")


class Executor(Protocol):
    """Runs units, and owns the clock and the memory that they share."""

    def clock(self) -> float:
        """Return the time in seconds from an arbitrary origin."""
        ...

    def memory_mb(self) -> float:
        """Return the memory that further clusters may take now, MB."""
        ...

    def begin(self, unit: Unit, *, memory_mb: int) -> None:
        """Start a unit whose cluster takes `memory_mb`."""
        ...

    def has_room(self) -> bool:
        """Return True if the processors allow another cluster now. Memory is not considered."""
        ...

    def wait(self) -> Sequence[Done]:
        """Wait briefly for an event, and return the units finished since the last call."""
        ...

    def stop(self) -> Sequence[Done]:
        """End every running unit, healed and torn down, and return the units that finished nevertheless."""
        ...


@dataclass(frozen=True, slots=True)
class _Running:
    unit: Unit
    run: SeparateRun
    memory_mb: int


@dataclass(slots=True)
class Processes:
    """Runs units in processes. It allocates at most the memory available at the beginning, and at most the memory available now."""

    plan: MatrixPlan
    folder: MatrixFolder
    at_once: int = 1
    """Number of clusters regardless of the load."""
    elastic: bool = False
    """True to start more clusters while cores are idle: a cluster mostly waits for its schema to settle."""
    _idle: Callable[[], float] = field(default_factory=IdleShare)
    _begun_at: float = -math.inf
    _budget_mb: float = field(default_factory=lambda: available_mb() - KEPT_FREE_MB)
    _running: dict[str, _Running] = field(default_factory=dict)
    _number: int = 0

    def clock(self) -> float:
        """Implement `Executor.clock`."""
        return time.monotonic()

    def memory_mb(self) -> float:
        """Implement `Executor.memory_mb`. A cluster that has just begun has not allocated its memory yet, so its demand is subtracted."""
        promised = sum(one.memory_mb for one in self._running.values() if one.run.has_cluster())
        return min(self._budget_mb - promised, available_mb() - KEPT_FREE_MB)

    def has_room(self) -> bool:
        """Implement `Executor.has_room`. A unit that is being judged has no cluster, but needs a core."""
        idle = self._idle()
        if len(self._running) >= _MOST_A_JOB * self.at_once:
            return False
        clusters = self.clusters()
        if clusters < self.at_once:
            return True
        # The load does not include units that have just begun.
        settled = time.monotonic() - self._begun_at > _BOOTING_S
        return self.elastic and settled and idle >= _IDLE_LEAST

    def begin(self, unit: Unit, *, memory_mb: int) -> None:
        """Implement `Executor.begin`."""
        self._number += 1
        self._begun_at = time.monotonic()
        name = f"{self._number:04d}-{os.getpid()}-" + "".join(c if c.isalnum() or c in ".-" else "-" for c in unit.id)
        run = SeparateRun(_RUN, self.plan.run_plan(unit), name=name[:150], runs=self.folder.runs, logs=self.folder.logs)
        self._running[unit.id] = _Running(unit, run, memory_mb)

    def clusters(self) -> int:
        """Return the number of units that have a cluster now."""
        return sum(one.run.has_cluster() for one in self._running.values())

    def wait(self) -> Sequence[Done]:
        """Implement `Executor.wait`."""
        pause_for(_LOOK_EVERY_S)
        for one in self._running.values():
            one.run.end_if_overdue()
        return self._collect()

    def stop(self) -> Sequence[Done]:
        """Implement `Executor.stop`."""
        for one in self._running.values():
            one.run.ask_to_end()
        done: list[Done] = []
        while self._running:
            done += self.wait()
        # An interrupted unit is run again: half a run is not a try.
        return [one for one in done if one.facts.completed]

    def _collect(self) -> list[Done]:
        done = []
        for one in [one for one in self._running.values() if one.run.has_ended()]:
            del self._running[one.unit.id]
            done.append(Done(one.unit, one.run.read_answer(RunFacts.from_json, refused)))
        return done
