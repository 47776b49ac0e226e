"""Schedule: the order of runs, so that a useful page exists early and time is spent on the least certain cells.

Pure: its state depends only on the units begun and their facts. Clocks, processes and memory are arguments. A schedule that
receives the same units again after an interruption continues in the same way.

Breadth first: every cell is run once, the first cell of every system before the second of any. Then the least certain cell
is next, and among equally uncertain cells the fastest. Kinds of race that are not expected to disturb each other share a
cluster until a run shows that they do. Durations are learnt from earlier runs of the same unit, or else of its system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from schemaquake.checkers.findings.catalogue import counted_by_runs
from schemaquake.harness.model.protocols import Demands
from schemaquake.harness.run.applicability import why_inapplicable
from schemaquake.results.matrix.cells import any_cell, cell_of, own_races
from schemaquake.results.matrix.facts import RunFacts, refused
from schemaquake.results.matrix.matrix_plan import Condition, MatrixPlan, Unit, is_racing
from schemaquake.results.summary.cell import Cell, wilson
from schemaquake.results.summary.run_summary import CONTROL

__all__ = ["CellKey", "Demand", "Schedule"]

_BASE_S: Final = 8.0
_S_A_MB: Final = 0.012
"""Initial estimate, s per MB: three nodes of 0.7 (about 0.5 GB) take 15 s, three of 5.0 (2.4 GB) well over 30 s."""
_S_A_RACE: Final = 0.8
_CONTROL_RACES: Final = 2
_UNDECIDED_MOST: Final = 2
"""Number of undecided runs after which a cell is given up."""


@dataclass(frozen=True, slots=True, order=True)
class CellKey:
    """One cell of the schedule: all anomalies of a workload in a condition on a system."""

    system: str
    workload: str
    condition: str


@dataclass(frozen=True, slots=True)
class Demand:
    """The memory and time that a unit needs."""

    unit: Unit
    memory_mb: int
    seconds: float


@dataclass(slots=True)
class Schedule:
    """The finished units, the running units, and the choice of the next one."""

    plan: MatrixPlan
    demands: Mapping[str, Demands | None]
    """System → demand of its cluster; None if its provider does not state one."""
    runs: dict[CellKey, list[RunFacts]] = field(default_factory=dict)
    running: dict[str, Unit] = field(default_factory=dict)
    _took: dict[tuple[str, tuple[str, ...], str], list[float]] = field(default_factory=dict)
    _ratios: dict[str, list[float]] = field(default_factory=dict)
    _turns: dict[tuple[str, tuple[str, ...], str], int] = field(default_factory=dict)
    _apart: set[tuple[str, str]] = field(default_factory=set)
    """(system, condition) pairs in which kinds of race have disturbed each other."""
    _earlier: dict[CellKey, int] = field(default_factory=dict)
    """Runs of earlier sittings that count as tries of a cell."""
    # Read several times a second, and changed only by a finished run.
    _known: dict[CellKey, bool] = field(default_factory=dict)
    _doubts: dict[CellKey, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Mark the cells whose system lacks a required feature: they need no run."""
        for key, condition in self._keys():
            self.runs.setdefault(key, [])
            demands = self.demands[key.system]
            why = None if demands is None else why_inapplicable(key.workload, key.system, demands.features)
            if why is not None and not self.runs[key]:
                self.runs[key].append(refused(why, applicable=False))
            assert condition.name == key.condition

    # ── what is next ─────────────────────────────────────────────────────────────────────────────────────────────────

    def next(self, *, memory_mb: float, seconds_left: float) -> Unit | None:
        """Return the unit to begin now that fits into the memory and is likely to end in time; None if there is none.

        A unit that needs more memory or time than available does not block smaller units.
        """
        for demand in self.candidates():
            if demand.memory_mb <= memory_mb and demand.seconds <= seconds_left:
                return demand.unit
        return None

    def candidates(self) -> list[Demand]:
        """Return every unit that is worth a run now, in order of priority."""
        busy = {
            CellKey(unit.system, name, unit.condition.name) for unit in self.running.values() for name in unit.workloads
        }
        found: list[tuple[tuple[float, ...], str, Demand]] = []
        for place, system in enumerate(self.plan.systems):
            for condition in self.plan.all_conditions:
                for order, group in enumerate(self._groups(system, condition)):
                    keys = [CellKey(system, name, condition.name) for name in group]
                    if any(key in busy for key in keys) or all(self.is_known(key) for key in keys):
                        continue
                    unit = self._unit(system, group, condition)
                    demand = Demand(unit, self.memory_of(system), self.estimate(unit))
                    found.append((self._rank(keys, condition, order, place, demand), unit.id, demand))
        return [demand for _, _, demand in sorted(found, key=lambda entry: entry[:2])]

    def _rank(
        self, keys: Sequence[CellKey], condition: Condition, order: int, place: int, demand: Demand
    ) -> tuple[float, ...]:
        """Return a sort key: untried cells first, controls after the cells they control, then the least certain."""
        untried = any(not self.runs[key] for key in keys)
        if untried:
            return 0, float(condition.mode == CONTROL), float(order), float(place)
        return 1, -max(self.doubt(key) for key in keys), demand.seconds, float(place)

    def _groups(self, system: str, condition: Condition) -> list[tuple[str, ...]]:
        """Group workloads by cluster: those that may share one, then each of the others alone."""
        able = [
            name
            for name in self.plan.workloads
            if not self.is_refused(CellKey(system, name, condition.name))
            and (condition.mode != CONTROL or is_racing(name))
        ]
        together: tuple[str, ...] = ()
        if (system, condition.name) not in self._apart:
            together = tuple(name for name in self.plan.sharing(system, condition) if name in able)
        if len(together) < 2:
            together = ()
        return [*([together] if together else []), *((name,) for name in able if name not in together)]

    def _unit(self, system: str, group: tuple[str, ...], condition: Condition) -> Unit:
        keys = [CellKey(system, name, condition.name) for name in group]
        first = max(
            (race.number + 1 for key in keys for run in self.runs[key] for race in own_races(run, key.workload)),
            default=0,
        )
        turn = self._turns.get((system, group, condition.name), 0)
        return Unit(
            system=system,
            workloads=group,
            condition=condition,
            first_race=first,
            # Two races of a control are as conclusive as six, and one run of controls has many kinds of race.
            races=min(self.plan.races, _CONTROL_RACES) if condition.mode == CONTROL else self.plan.races,
            turn=turn,
        )

    # ── what is known ────────────────────────────────────────────────────────────────────────────────────────────────

    def is_refused(self, key: CellKey) -> bool:
        """Return True if the system lacks a feature that the workload needs."""
        return any(not run.applicable for run in self.runs[key])

    def is_known(self, key: CellKey) -> bool:
        """Return True if the cell needs no further run: it is not applicable, certain enough, or given up."""
        if key not in self._known:
            self._known[key] = self._judged_known(key)
        return self._known[key]

    def _judged_known(self, key: CellKey) -> bool:
        if self.is_refused(key):
            return True
        own = self._tries_of(key)
        if len(own) >= self.plan.tries_max:
            return True
        cell = self.cell(key)
        if not cell.tried:
            return len(own) - self._earlier.get(key, 0) >= _UNDECIDED_MOST
        return key.condition == CONTROL or self.doubt(key) <= self.plan.confidence

    def _tries_of(self, key: CellKey) -> Sequence[RunFacts]:
        """List the runs of a cell. One whose damage cannot be attributed to one kind of race does not count as a try."""
        return [run for run in self.runs[key] if not run.ambiguous and (not run.races or own_races(run, key.workload))]

    def doubt(self, key: CellKey) -> float:
        """Return the half width of the cell's widest interval, of its races or of its runs."""
        if key not in self._doubts:
            self._doubts[key] = self._widest(key)
        return self._doubts[key]

    def _widest(self, key: CellKey) -> float:
        cell = self.cell(key)
        if not is_racing(key.workload):
            return cell.half_width
        usable = [run for run in self.runs[key] if not run.ambiguous]
        kinds = {kind for run in usable for kind in (*run.at_large, *(k for race in run.races for k in race.anomalies))}
        of_runs = [
            cell_of(key.system, key.workload, self.plan.condition(key.condition), kind, self.runs[key])
            for kind in ({kind for kind in kinds if counted_by_runs(kind)} or {"node-will-not-start"})
        ]
        return max(cell.half_width, *(one.half_width for one in of_runs))

    def cell(self, key: CellKey) -> Cell:
        """Return the current cell of the row "any anomaly"."""
        condition = self.plan.condition(key.condition)
        return any_cell(key.system, key.workload, condition, self.runs[key], racing=is_racing(key.workload))

    def counts(self) -> tuple[int, int]:
        """Return (cells known, cells), controls included."""
        keys = [key for key, _ in self._keys()]
        return sum(self.is_known(key) for key in keys), len(keys)

    def _keys(self) -> list[tuple[CellKey, Condition]]:
        return [
            (CellKey(system, workload, condition.name), condition)
            for system in self.plan.systems
            for condition in self.plan.all_conditions
            for workload in (self.plan.racing if condition.mode == CONTROL else self.plan.workloads)
        ]

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin_sitting(self) -> None:
        """Take all runs so far for those of earlier sittings: a cell that they left undecided is tried again, on what may be another day."""
        self._earlier = {key: len(self._tries_of(key)) for key in self.runs}
        self._known.clear()

    def begun(self, unit: Unit) -> None:
        """Record that the unit is running."""
        assert unit.id not in self.running
        self.running[unit.id] = unit
        self._turns[unit.kind] = unit.turn + 1

    def done(self, unit: Unit, facts: RunFacts) -> None:
        """Record the facts of a unit. It may have been begun by an earlier process."""
        self.running.pop(unit.id, None)
        self._turns[unit.kind] = max(self._turns.get(unit.kind, 0), unit.turn + 1)
        condition = unit.condition.name
        for name in unit.workloads:
            key = CellKey(unit.system, name, condition)
            self.runs[key].append(facts)
            self._known.pop(key, None)
            self._doubts.pop(key, None)
        if len(unit.workloads) > 1 and (facts.ambiguous or not facts.kinds >= set(unit.workloads)):
            # The kinds of race disturbed each other, or none could begin: each is run alone from now on.
            self._apart.add((unit.system, condition))
        if facts.completed:
            self._took.setdefault(unit.kind, []).append(facts.seconds)
            self._ratios.setdefault(unit.system, []).append(facts.seconds / self._guess(unit))

    # ── time and memory ──────────────────────────────────────────────────────────────────────────────────────────────

    def memory_of(self, system: str) -> int:
        """Return the memory of a system's cluster, MB; 0 if its provider does not state it."""
        demands = self.demands[system]
        return 0 if demands is None else demands.memory_mb

    def estimate(self, unit: Unit) -> float:
        """Return the estimated duration of a run of the unit, s."""
        took = self._took.get(unit.kind)
        if took:
            return median(took)
        return self._guess(unit) * median(self._ratios.get(unit.system, [self._ratio_of_all()]))

    def _ratio_of_all(self) -> float:
        every = [ratio for ratios in self._ratios.values() for ratio in ratios]
        return median(every) if every else 1.0

    def _guess(self, unit: Unit) -> float:
        races = unit.races * len(unit.workloads)
        return _BASE_S + _S_A_MB * self.memory_of(unit.system) + _S_A_RACE * races

    def seconds_left(self, *, at_once: int) -> float:
        """Return the estimated duration of all remaining runs, running ones included, with `at_once` clusters, s."""
        rest = sum(self.estimate(unit) / 2 for unit in self.running.values())
        running = {
            CellKey(unit.system, name, unit.condition.name) for unit in self.running.values() for name in unit.workloads
        }
        for system in self.plan.systems:
            for condition in self.plan.all_conditions:
                for group in self._groups(system, condition):
                    keys = [CellKey(system, name, condition.name) for name in group]
                    wanted = max(self._runs_wanted(key) - (key in running) for key in keys)
                    rest += max(0, wanted) * self.estimate(self._unit(system, group, condition))
        return rest / max(1, at_once)

    def _runs_wanted(self, key: CellKey) -> int:
        """Return the number of further runs after which the cell would be known, if its rate stays the same."""
        if self.is_known(key):
            return 0
        runs = [run for run in self.runs[key] if not run.ambiguous]
        allowed = self.plan.tries_max - len(runs)
        if key.condition == CONTROL:
            return min(1, allowed)
        cell = self.cell(key)
        a_run = (cell.tried / len(runs) if runs and cell.tried else 1.0) if is_racing(key.workload) else 1.0
        rate = cell.broken / cell.tried if cell.tried else 0.0
        for more in range(1, allowed):
            tried = cell.tried + round(more * a_run)
            low, high = wilson(round(rate * tried), tried)
            runs_low, runs_high = wilson(0, len(runs) + more)
            if max(high - low, runs_high - runs_low) / 2 <= self.plan.confidence:
                return more
        return max(1, allowed)
