"""Failing run: the races of a run as values again, and those that showed the anomaly.

The plan and the seed fix every race, so the workload makes the same races again. A run of churn has rounds in place of
races: those of the anomaly's keyspace are raced by themselves, the likeliest to blame first (`schemaquake.results.shrink.suspects`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from schemaquake.checkers.findings.catalogue import counted_by_runs
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.registry import load
from schemaquake.results.matrix.machine import features_of
from schemaquake.results.shrink.suspects import suspected_rounds
from schemaquake.results.store.store import Store
from schemaquake.results.summary.run_summary import RaceSummary
from schemaquake.results.summary.summarise import read_summary
from schemaquake.workloads.races.engine import Race, RacingWorkload
from schemaquake.workloads.races.grid import Grid
from schemaquake.workloads.races.scenario import Scenario

__all__ = ["FailingRun", "failing_run", "remade_races", "requires_of"]

_TOGETHER: Final = (2, 8, 24)
"""Numbers of a churn run's suspected rounds that are raced together before all are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingRun:
    """A judged run with the anomaly to reproduce."""

    plan: Plan
    anomaly: str
    title: str
    races: tuple[Race, ...]
    """The races that began, in order."""
    shows: tuple[Race, ...]
    """The races in whose keyspaces the anomaly was found; empty if it belongs to no keyspace."""
    guesses: tuple[tuple[Race, ...], ...] = ()
    """Races that may be enough, the likeliest first, each of them to be run together."""

    @property
    def of_the_run(self) -> bool:
        """True if only a whole run can show the anomaly."""
        return counted_by_runs(self.anomaly)


def failing_run(store: Store, anomaly: str | None) -> FailingRun:
    """Read the run in the store's folder; `anomaly` None: the first of its verdict.

    Raises HistoryError for a run that was not judged, PlanError if it shows no such anomaly or had no races.
    """
    plan = store.read_plan()
    summary = read_summary(store)
    found = summary.anomalies
    if not found:
        raise PlanError(f"{store.folder} shows no anomaly: there is nothing to shrink")
    counts: Counter[str] = Counter()
    for one in found:
        counts[one.type] += one.count
    chosen = anomaly or found[0].type
    if chosen not in counts:
        known = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
        raise PlanError(f'{store.folder} shows no "{chosen}"; it shows {known}')
    title = next(one.title for one in found if one.type == chosen)
    if not summary.races:
        suspects = suspected_rounds(store, plan, chosen)
        if not suspects:
            raise PlanError(f"{store.folder} had no races: only races can be shrunk")
        guesses = tuple(suspects[:number] for number in _TOGETHER if number < len(suspects))
        return FailingRun(plan=plan, anomaly=chosen, title=title, races=suspects, shows=suspects, guesses=guesses)
    races = remade_races(plan, summary.races)
    concerned = {keyspace for one in found if one.type == chosen for keyspace in one.keyspaces}
    shows = tuple(race for keyspace, race in races.items() if keyspace in concerned)
    # Most often one race is enough.
    guesses = tuple((race,) for race in shows[:2])
    return FailingRun(plan=plan, anomaly=chosen, title=title, races=tuple(races.values()), shows=shows, guesses=guesses)


def requires_of(races: tuple[Race, ...]) -> frozenset[str]:
    """Return the features that the workloads of these races require."""
    every: frozenset[str] = frozenset({"keyspaces"})
    return every.union(*(load("workloads", race.workload).requires for race in races))


def remade_races(plan: Plan, noted: Sequence[RaceSummary]) -> Mapping[str, Race]:
    """Map each keyspace to its race, in the order in which they began. Raises PlanError for a race that the plan does not give."""
    context = plan.context(features_of(plan))
    listings: Mapping[str, Scenario | Grid] = {Scenario.name: Scenario(), Grid.name: Grid()}
    listing = listings.get(", ".join(plan.workloads))
    if listing is not None:
        made = {race.keyspace: race for race in listing.races(context)}
    else:
        made = {}
        for known in noted:
            race = _remake(known.workload, known.number, context)
            made[race.keyspace] = race
    unknown = [known.keyspace for known in noted if known.keyspace not in made]
    if unknown:
        raise PlanError(
            f"the race in {unknown[0]} cannot be made again from the plan: was the run made by another version?"
        )
    return {known.keyspace: made[known.keyspace] for known in noted}


def _remake(workload: str, number: int, context: Context) -> Race:
    kind = load("workloads", workload)
    if not isinstance(kind, RacingWorkload):
        raise PlanError(f'the workload "{workload}" is not one that Schemaquake can make single races of')
    return kind.race(number, context.random(workload, "race", number), context)
