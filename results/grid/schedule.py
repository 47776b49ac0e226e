"""The schedule of a grid: which cells are raced next, and on which cluster.

Cells that were raced least come first, and of these the ones that were least often not decided. Cells of one batch have been raced as often as each other, because the number of a
race fixes its coordinators. Batches are taken in turn from two ends: of the cells that seem least likely to poison a cluster, so that
all nodes start again and everything about them is known, and of those that seem most likely to, which lose little by each other's company. How likely that is, is
what a cell's statements suggest (one takes away what the other rests on) until it is known what it did on that system. Where such cells
were raced and poisoned fewer clusters than they suggest, less is made of it. In a batch the most likely ones come last. A batch of these is small: what it sets up for races that the cluster does not live to see is lost, and if no node
starts again, most of its races are not decided.

A batch that showed an anomaly of a node or of the whole cluster, and no race that explains it, is
raced again in halves, until the cell to blame is alone. A race that was not decided is no try and is raced again: among all others if another
race of its cluster is known to have poisoned it, else in smaller and smaller company. A cell that cannot be raced, or is never decided,
is not asked for again and again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Final

from schemaquake.checkers.findings.catalogue import CATALOGUE, halts_changes, scope_of
from schemaquake.results.grid.facts import BatchFacts
from schemaquake.results.grid.folder import DoneBatch
from schemaquake.results.grid.plan import Batch, GridPlan
from schemaquake.results.grid.tally import counted_races
from schemaquake.results.intervals import wilson
from schemaquake.workloads.races.options import Mode

__all__ = ["GridSchedule"]

_FAILURES_MOST: Final = 3
_TRIES_MOST: Final = 50
"""The number of races of a cell after which its rate is known well enough, whatever its interval."""
_RISKY_LEAST: Final = 18
_DOUBTED_MOST: Final = 12
"""The company of a cell that was not decided, for no reason that is known, before it is halved."""
_SURVIVAL_LEAST: Final = 0.25
_OF_UNANSWERED: Final = frozenset({"unexpected-log-error", "unavailable"})
"""Anomalies of the cluster that come of changes whose outcome clients were not told."""

Place = tuple[str, Mode]
"""System and mode."""


class GridSchedule:
    """The races that are known, running, and wanted next."""

    def __init__(
        self, plan: GridPlan, cells: Mapping[str, Sequence[str]], risks: Mapping[str, float] | None = None
    ) -> None:
        """Begin with nothing known. `cells` maps each system to the names of the cells that it can be raced by.

        `risks` maps names of cells to how likely their statements suggest that they poison a cluster, from 0 to 1.
        """
        self.plan = plan
        self._risks = risks or {}
        self.done: list[DoneBatch] = []
        self._cells = cells
        self._tried: Counter[tuple[Place, str]] = Counter()
        self._broken: Counter[tuple[Place, str]] = Counter()
        self._failed: Counter[tuple[Place, str]] = Counter()
        self._undecided: Counter[tuple[Place, str]] = Counter()
        self._running: dict[str, Batch] = {}
        self._suspects: deque[tuple[Place, tuple[str, ...], int]] = deque()
        self._number = 0
        self._raced: Counter[tuple[str, str]] = Counter()
        self._poisoned: Counter[tuple[str, str]] = Counter()
        self._feared: dict[str, float] = {}
        """By system, the poisonings that the statements of all races suggested."""
        self._came: Counter[str] = Counter()
        """By system, the poisonings that came."""
        self._begun: Counter[Place] = Counter()

    @property
    def wanted(self) -> int:
        """The number of races that the plan asks for, as far as is known: of a rate that is not known well enough one more."""
        return sum(self._wanted(place, name) for place, name in self._every())

    @property
    def known(self) -> int:
        """The number of races that it asks for and that were run."""
        return sum(min(self._wanted(place, name), self._tried[place, name]) for place, name in self._every())

    def _every(self) -> Iterator[tuple[Place, str]]:
        for system in self.plan.systems:
            for mode in self.plan.modes:
                for name in self._cells[system]:
                    yield (system, mode), name

    def _wanted(self, place: Place, name: str) -> int:
        """Return the number of races of a cell that the plan asks for, given what they showed."""
        tried = self._tried[place, name]
        if self.plan.within is None or not self.plan.tries <= tried < _TRIES_MOST:
            return self.plan.tries
        low, high = wilson(self._broken[place, name], tried)
        return tried + 1 if (high - low) / 2 > self.plan.within else self.plan.tries

    def next(self) -> Batch | None:
        """Return the next batch; None if nothing more is wanted, or all that is wanted is running."""
        while self._suspects:
            (system, mode), cells, turn = self._suspects.popleft()
            if not self._was_raced((system, mode), cells, turn):
                return self._begin(system, mode, cells, turn)
        busy = {((one.system, one.mode), name) for one in self._running.values() for name in one.cells}
        best: tuple[int, Place, list[str]] | None = None
        for system in self.plan.systems:
            for mode in self.plan.modes:
                place: Place = (system, mode)
                open_cells = [
                    name
                    for name in self._cells[system]
                    if (place, name) not in busy
                    and self._tried[place, name] < self._wanted(place, name)
                    and self._failed[place, name] < _FAILURES_MOST
                ]
                if open_cells:
                    turn = min(self._tried[place, name] for name in open_cells)
                    if best is None or turn < best[0]:
                        best = (turn, place, self._least_doubted(place, open_cells, turn))
        if best is None:
            return None
        turn, (system, mode), names = best
        # Alike on all systems, so that they can be compared soon.
        Random(f"{self.plan.seed} {mode} {turn}").shuffle(names)
        names.sort(key=lambda name: self._poison(system, name))
        calm = self._begun[system, mode] % 2 == 0
        self._begun[system, mode] += 1
        company = self._company((system, mode), names, calm=calm)
        return self._begin(system, mode, tuple(names[:company] if calm else names[-company:]), turn)

    def finished(self, done: DoneBatch, *, earlier: bool = False) -> None:
        """Count a batch of this session, or of an `earlier` one.

        What could not be raced earlier, such as on a disk that was full, is asked for again.
        """
        self._running.pop(done.unit.id, None)
        self._number = max(self._number, done.unit.number + 1)
        self.done.append(done)
        place: Place = (done.unit.system, done.unit.mode)
        raced = list(dict.fromkeys(race.cell for race in counted_races(done)))
        halting = [
            race.cell for race in done.facts.races if any(halts_changes(symptom.type) for symptom in race.symptoms)
        ]
        self._learn_poison(done, raced, halting)
        # A batch with a race that halts changes has decided that race, so leaving undecided ones uncounted ends.
        self._count(done, raced, earlier=earlier, undecided_count=not halting)
        if _needs_halving(done.facts) and len(done.unit.cells) > 1:
            self._halve(place, [name for name in done.unit.cells if name in raced], done.unit.turn)

    def _learn_poison(self, done: DoneBatch, raced: Sequence[str], halting: Sequence[str]) -> None:
        """Learn which races poison their cluster: those that halt changes, else the last one of a batch that was cut short."""
        system = done.unit.system
        poisonous = halting or (raced[-1:] if len(raced) < len(done.unit.cells) else ())
        self._raced.update((system, name) for cell in raced for name in (cell, *_statements(cell)))
        self._poisoned.update((system, name) for cell in poisonous for name in (cell, *_statements(cell)))
        self._feared[system] = self._feared.get(system, 0.0) + sum(self._risks.get(cell, 0.0) for cell in raced)
        self._came[system] += len(poisonous)

    def _count(self, done: DoneBatch, raced: Collection[str], *, earlier: bool, undecided_count: bool) -> None:
        """Count the tries, the failures and the findings of a batch's cells."""
        place: Place = (done.unit.system, done.unit.mode)
        broke = {race.cell for race in counted_races(done) if race.symptoms}
        undecided = {race.cell for race in counted_races(done) if race.doubts and not race.symptoms}
        for name in done.unit.cells:
            if name in undecided:
                self._failed[place, name] += undecided_count
                self._undecided[place, name] += undecided_count
            elif name in raced:
                self._tried[place, name] += 1
                self._broken[place, name] += name in broke
            else:
                # A batch that was cut short goes on where it ended.
                self._failed[place, name] += not raced and not earlier

    def given_up(self, batch: Batch) -> None:
        """Forget a batch that was interrupted."""
        self._running.pop(batch.id, None)

    def _begin(self, system: str, mode: Mode, cells: tuple[str, ...], turn: int) -> Batch:
        batch = Batch(system=system, mode=mode, cells=cells, turn=turn, number=self._number)
        self._number += 1
        self._running[batch.id] = batch
        return batch

    def _poison(self, system: str, cell: str) -> float:
        """Estimate how likely a race of this cell poisons a cluster of the system: as it did before, or as its statements suggest."""
        raced = self._raced[system, cell]
        before = self._poisoned[system, cell] / raced if raced else self._risks.get(cell, 0.0) * self._trust(system)
        names = [(system, name) for name in _statements(cell)]
        return before + sum((self._poisoned[name] + 0.1) / (self._raced[name] + 1) for name in names) / 2

    def _trust(self, system: str) -> float:
        """Estimate how much of what statements suggest comes true on a system: 1 if nothing is known, near 0 where nothing poisons a cluster."""
        return min(1.0, (self._came[system] + 1) / (self._feared.get(system, 0.0) + 1))

    def _least_doubted(self, place: Place, names: Sequence[str], turn: int) -> list[str]:
        """Return the cells that were raced so often, and of these the ones that were least often not decided."""
        equals = [name for name in names if self._tried[place, name] == turn]
        fewest = min(self._undecided[place, name] for name in equals)
        return [name for name in equals if self._undecided[place, name] == fewest]

    def _company(self, place: Place, names: Sequence[str], *, calm: bool) -> int:
        """Return the number of cells of the next batch: of the first of `names`, which are sorted by risk, or of the last.

        Of the riskiest as many as their cluster is likely to see raced, and at least some. Cells that were not decided in the
        company of others, none of which explains that, have half as much of it each time they are raced again.
        """
        doubted = self._undecided[place, names[0]]
        most = min(self.plan.batch, len(names), max(1, _DOUBTED_MOST >> doubted) if doubted else self.plan.batch)
        alive = 1.0
        for number, cell in enumerate(() if calm else reversed(names[-most:])):
            if number >= _RISKY_LEAST and alive < _SURVIVAL_LEAST:
                return number
            alive *= 1.0 - min(1.0, self._poison(place[0], cell))
        return most

    def _halve(self, place: Place, names: Sequence[str], turn: int) -> None:
        middle = -(-len(names) // 2)
        for half in (names[:middle], names[middle:]):
            if half:
                self._suspects.append((place, tuple(half), turn))

    def _was_raced(self, place: Place, cells: Collection[str], turn: int) -> bool:
        """Tell if these cells were raced as a batch, as halves may have been in an earlier session, before or after their whole."""
        return any(
            ((one.unit.system, one.unit.mode), one.unit.turn) == (place, turn) and set(one.unit.cells) == set(cells)
            for one in self.done
        )


def _needs_halving(facts: BatchFacts) -> bool:
    """Tell if something broke that no race can be charged with.

    Where races broke, they are taken for the cause of what is wrong with the whole cluster; but not of a node that does not start,
    unless one of them shows that, or what is known to bring it about. An error that a node logged
    is not hunted, nor that it did not answer, if changes of races were answered by an error of the server: which ones is known.
    """
    shown = {symptom.type for race in facts.races for symptom in race.symptoms}
    if not shown:
        unanswered = any(race.unanswered for race in facts.races)
        return any(not (unanswered and symptom.type in _OF_UNANSWERED) for symptom in facts.at_large)
    return any(
        scope_of(symptom.type) == "node" and not shown & {symptom.type, *CATALOGUE[symptom.type].follows_from}
        for symptom in facts.at_large
        if symptom.type in CATALOGUE
    )


def _statements(cell: str) -> tuple[str, ...]:
    """Return the names of a cell's two statements."""
    return tuple(cell.split("/")[:2])
