"""An executor whose clock is a number: every unit takes as long as it is told, and shows what a world says it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from schemaquake.results.matrix.facts import RaceFacts, RunFacts, refused
from schemaquake.results.matrix.matrix_folder import Done

FEATURES = frozenset({"keyspaces", "tables", "columns", "options", "types", "functions", "views", "indexes"})


def clean(unit):
    """Every race began, and nothing was found."""
    return shows(unit)


def shows(unit, *, broken=lambda _workload, _number: (), at_large=(), begin=None, seconds=30.0):
    """The facts of a unit: `broken(workload, number)` are a race's anomalies; only the kinds in `begin` begin."""
    kinds = unit.workloads if begin is None else [name for name in unit.workloads if name in begin]
    races = [
        RaceFacts(
            keyspace=f"sq_{name.replace('-', '_')}_{number:03d}",
            workload=name,
            number=number,
            acknowledged=5,
            anomalies=tuple(broken(name, number)),
        )
        for name in kinds
        for number in range(unit.first_race, unit.first_race + unit.races)
    ]
    return RunFacts(
        run=f"runs/{unit.id}", completed=True, seconds=seconds, races=tuple(races), at_large=tuple(at_large)
    )


@dataclass
class VirtualExecutor:
    """`world(unit)` gives its facts, `lasts(unit)` the seconds it takes; memory and clock are checked at every begin."""

    world: Callable = clean
    lasts: Callable = lambda _unit: 30.0
    at_once: int = 2
    total_mb: float = 100_000
    judging_s: float = 0.0
    now: float = 1000.0
    begun: list = field(default_factory=list)
    most_at_once: int = 0
    most_mb: float = 0
    stopped: int = 0
    interrupt_after: int | None = None
    _running: dict = field(default_factory=dict)

    def clock(self):
        return self.now

    def memory_mb(self):
        return self.total_mb - sum(memory for _, ends, memory in self._running.values() if self.now < ends)

    def begin(self, unit, *, memory_mb):
        assert unit.id not in self._running
        self.begun.append(unit)
        self._running[unit.id] = (unit, self.now + self.lasts(unit), memory_mb)
        self.most_at_once = max(self.most_at_once, self.clusters())
        self.most_mb = max(self.most_mb, self.total_mb - self.memory_mb())

    def has_room(self):
        return self.clusters() < self.at_once

    def clusters(self):
        return sum(self.now < ends for _, ends, _ in self._running.values())

    def wait(self):
        if self.interrupt_after is not None and len(self.begun) > self.interrupt_after:
            raise KeyboardInterrupt
        moments = [ends for _, ends, _ in self._running.values()] + [
            ends + self.judging_s for _, ends, _ in self._running.values()
        ]
        self.now = min(moment for moment in moments if moment > self.now)
        return self._collect()

    def stop(self):
        """What was going on is torn down, and is no try."""
        self.stopped += len(self._running)
        self._running.clear()
        return []

    def _collect(self):
        over = [one for one in self._running.values() if self.now >= one[1] + self.judging_s]
        for unit, _, _ in over:
            del self._running[unit.id]
        return [Done(unit, self.world(unit)) for unit, _, _ in over]


def crashed(_unit):
    return refused("its process ended with 1", applicable=True, seconds=5)
