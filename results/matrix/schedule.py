"""Schedule: which run comes next, so that a page worth reading exists early and time goes where little is known.

Pure: it is told what was begun and what came of it, and answers; clocks, processes and memory belong to others. So a
schedule that is told the same again, after an interruption, goes on with the same.

Breadth first: every cell is run once, the first of every system before the second of any; then, cell by cell, whatever
is least known, and of what is equally unknown the cheapest. Kinds of race that can be expected not to disturb each
other share a cluster, until a run shows that they do. Times are learnt: of the same unit, else of its system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from schemaquake.checkers.findings.catalogue import counted_by_runs
from schemaquake.harness.model.protocols import Demands
from schemaquake.harness.registry import load
from schemaquake.results.matrix.cells import any_cell, cell_of, own_races
from schemaquake.results.matrix.facts import RunFacts, refused
from schemaquake.results.matrix.matrix_plan import CONTROL, Condition, MatrixPlan, Unit, is_racing
from schemaquake.results.summary.cell import Cell, wilson

__all__ = ["CellKey", "Demand", "Schedule"]

_BASE_S: Final = 8.0
_S_A_MB: Final = 0.012
"""A first guess: three nodes of 0.7 (about 0.5 GB) take a quarter of a minute, three of 5.0 (2.4 GB) well over half."""
_S_A_RACE: Final = 0.8
_CONTROL_RACES: Final = 2
_UNDECIDED_MOST: Final = 2
"""A cell whose runs are never decided is given up after so many."""


@dataclass(frozen=True, slots=True, order=True)
class CellKey:
    """One cell of the schedule: all anomalies of a workload in a condition on a system."""

    system: str
    workload: str
    condition: str


@dataclass(frozen=True, slots=True)
class Demand:
    """What a unit asks of the machine."""

    unit: Unit
    memory_mb: int
    seconds: float


@dataclass(slots=True)
class Schedule:
    """What was done, what is going on, and what is next."""

    plan: MatrixPlan
    demands: Mapping[str, Demands | None]
    """System → what its cluster asks; None: its provider does not tell."""
    runs: dict[CellKey, list[RunFacts]] = field(default_factory=dict)
    running: dict[str, Unit] = field(default_factory=dict)
    _took: dict[tuple[str, tuple[str, ...], str], list[float]] = field(default_factory=dict)
    _ratios: dict[str, list[float]] = field(default_factory=dict)
    _turns: dict[tuple[str, tuple[str, ...], str], int] = field(default_factory=dict)
    _apart: set[tuple[str, str]] = field(default_factory=set)
    """(system, condition) in which kinds of race turned out to disturb each other."""
    # Asked for several times a second, and nothing but a run that is done changes them.
    _known: dict[CellKey, bool] = field(default_factory=dict)
    _doubts: dict[CellKey, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """What a system never had needs no run to be known."""
        for key, condition in self._keys():
            self.runs.setdefault(key, [])
            lacking = self._lacking(key.system, key.workload)
            if lacking and not self.runs[key]:
                why = f'workload "{key.workload}" is not applicable to {key.system}: it has no {", ".join(lacking)}'
                self.runs[key].append(refused(why, applicable=False))
            assert condition.name == key.condition

    def _lacking(self, system: str, workload: str) -> list[str]:
        demands = self.demands[system]
        return [] if demands is None else sorted(load("workloads", workload).requires - demands.features)

    # ── what is next ─────────────────────────────────────────────────────────────────────────────────────────────────

    def next(self, *, memory_mb: float, seconds_left: float) -> Unit | None:
        """The unit to begin now, within so much memory and likely to end in time; None: none such.

        What needs more memory or time than there is does not keep the smaller ones from being begun.
        """
        for demand in self.candidates():
            if demand.memory_mb <= memory_mb and demand.seconds <= seconds_left:
                return demand.unit
        return None

    def candidates(self) -> list[Demand]:
        """Everything worth a run now, in the order in which it should be begun."""
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
        """Small comes first: untried before tried, controls after what they are the control of, then the least known."""
        untried = any(not self.runs[key] for key in keys)
        if untried:
            return 0, float(condition.mode == CONTROL), float(order), float(place)
        return 1, -max(self.doubt(key) for key in keys), demand.seconds, float(place)

    def _groups(self, system: str, condition: Condition) -> list[tuple[str, ...]]:
        """Who runs with whom: those that share, if they still do, and then each of the others alone."""
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
            # What must stay quiet is as telling after two as after six, and there are many kinds in one run of controls.
            races=min(self.plan.races, _CONTROL_RACES) if condition.mode == CONTROL else self.plan.races,
            turn=turn,
        )

    # ── what is known ────────────────────────────────────────────────────────────────────────────────────────────────

    def is_refused(self, key: CellKey) -> bool:
        """Whether the system lacks what the workload needs."""
        return any(not run.applicable for run in self.runs[key])

    def is_known(self, key: CellKey) -> bool:
        """Whether no further run of the cell is wanted: it is not applicable, sure enough, or was given up."""
        if key not in self._known:
            self._known[key] = self._judged_known(key)
        return self._known[key]

    def _judged_known(self, key: CellKey) -> bool:
        runs = self.runs[key]
        if self.is_refused(key):
            return True
        # Runs that several kinds spoilt for each other tell nothing of this one, and do not use up its tries.
        own = [run for run in runs if not run.ambiguous and (not run.races or own_races(run, key.workload))]
        if len(own) >= self.plan.tries_max:
            return True
        cell = self.cell(key)
        if not cell.tried:
            return len(own) >= _UNDECIDED_MOST
        return key.condition == CONTROL or self.doubt(key) <= self.plan.confidence

    def doubt(self, key: CellKey) -> float:
        """The half width of the widest interval of the cell: of its races, or of its runs where they are what counts."""
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
        """The row "any anomaly" of the cell, as it stands."""
        condition = self.plan.condition(key.condition)
        return any_cell(key.system, key.workload, condition, self.runs[key], racing=is_racing(key.workload))

    def counts(self) -> tuple[int, int]:
        """(cells known, cells), controls included."""
        keys = [key for key, _ in self._keys()]
        return sum(self.is_known(key) for key in keys), len(keys)

    def _keys(self) -> list[tuple[CellKey, Condition]]:
        return [
            (CellKey(system, workload, condition.name), condition)
            for system in self.plan.systems
            for condition in self.plan.all_conditions
            for workload in (self.plan.racing if condition.mode == CONTROL else self.plan.workloads)
        ]

    # ── what is told ─────────────────────────────────────────────────────────────────────────────────────────────────

    def begun(self, unit: Unit) -> None:
        """The unit is being run."""
        assert unit.id not in self.running
        self.running[unit.id] = unit
        self._turns[unit.kind] = unit.turn + 1

    def done(self, unit: Unit, facts: RunFacts) -> None:
        """What came of it. Also for a unit of an earlier process that this one never saw begin."""
        self.running.pop(unit.id, None)
        self._turns[unit.kind] = max(self._turns.get(unit.kind, 0), unit.turn + 1)
        condition = unit.condition.name
        for name in unit.workloads:
            key = CellKey(unit.system, name, condition)
            self.runs[key].append(facts)
            self._known.pop(key, None)
            self._doubts.pop(key, None)
        if len(unit.workloads) > 1 and (facts.ambiguous or not facts.kinds >= set(unit.workloads)):
            # Somebody spoilt it for the others, or nobody could begin: from now on each for itself.
            self._apart.add((unit.system, condition))
        if facts.completed:
            self._took.setdefault(unit.kind, []).append(facts.seconds)
            self._ratios.setdefault(unit.system, []).append(facts.seconds / self._guess(unit))

    # ── time and memory ──────────────────────────────────────────────────────────────────────────────────────────────

    def memory_of(self, system: str) -> int:
        """What a cluster of it takes, in MB; of one that does not tell, nothing is known and nothing is counted."""
        demands = self.demands[system]
        return 0 if demands is None else demands.memory_mb

    def estimate(self, unit: Unit) -> float:
        """Seconds that a run of it is likely to take."""
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
        """How long the rest is likely to take, what is going on included, if so many run at once."""
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
        """How many more runs would make it known, if its rate is what it seems to be."""
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
