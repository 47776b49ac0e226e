"""Racing abreast: an oracle that runs the candidates of many findings on common clusters, each in keyspaces of its own.

Anomalies are charged to a race as those of a grid's batch are (`schemaquake.results.grid.facts`): a race that shows nothing but what another one
may have brought over its cluster is not decided, and neither is one that never began because the cluster took no more
changes. Such races go to the next cluster, in smaller company each time; what is never decided there is no try.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import orjson

from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.harness.model.plan import Plan
from schemaquake.results.grid.facts import BatchFacts, facts_of
from schemaquake.results.runs.execution import carry_out
from schemaquake.results.shrink.abreast import Asked
from schemaquake.results.shrink.candidate import Candidate
from schemaquake.results.shrink.shrinking import BudgetSpent, Measured
from schemaquake.results.shrink.trying import plan_of, scenario_of

__all__ = ["RacingAbreast", "counted"]

_JUDGE_LIMIT_S: Final = 60
_KEYSPACES: Final = 60
"""Races of one cluster."""
_LANES: Final = 6
_CLUSTERS: Final = 4
"""Clusters on which a race is begun or hoped for, before it counts as never decided."""


@dataclass(slots=True)
class RacingAbreast:
    """An oracle whose runs lie below `folder`; they are as `plan`, the failing run's, but for workloads and faults."""

    plan: Plan
    folder: Path
    ends: float | None = None
    """The deadline on time.monotonic: no run is started that is likely to end later; None: no deadline."""
    clusters: int = 0
    """Clusters that were started."""
    _longest_s: float = field(default=0.0)
    _longest_races: int = field(default=_KEYSPACES)
    _company: int = field(default=_KEYSPACES)
    """Races that the next cluster is given: twice as many as one that took no more changes had seen."""

    def __call__(self, asked: Sequence[Asked]) -> Sequence[Measured]:
        """Race all of these; see `schemaquake.results.shrink.abreast.Oracle`. Raises KeyboardInterrupt when a run was interrupted.

        A race that is asked about for several anomalies is raced once for all of them. Where the budget ends in between, the races
        that were not begun are no tries.
        """
        known = [Measured(0, 0)] * len(asked)
        alike: dict[bytes, list[int]] = {}
        for place, one in enumerate(asked):
            alike.setdefault(Candidate(races=(one.race,)).identity, []).append(place)
        groups = list(alike.values())
        tries = [max(asked[place].tries for place in group) for group in groups]
        # One entry a try; the tries of one race lie far apart.
        waiting = [(0, n) for turn in range(max(tries, default=0)) for n, most in enumerate(tries) if turn < most]
        while waiting:
            begun = waiting[0][0]
            # What one race of a round shows may be another's doing: where that left doubts, the next ones go one by one.
            try:
                some = waiting[: self._fitting(min(len(waiting), max(1, self._company >> begun)))]
                facts = self._carry_out([asked[groups[n][0]] for _, n in some], lanes=1 if begun else _LANES)
            except BudgetSpent:
                if any(one.tried for one in known):
                    return known  # what is known counts; the next call finds the budget spent
                raise
            if len(facts.races) < len(some):
                self._company = min(self._company, max(_LANES, 2 * len(facts.races)))
            again = []
            for at, (times, n) in enumerate(some):
                results = [(place, counted(facts, at, asked[place])) for place in groups[n]]
                for place, found in results:
                    known[place] = Measured(known[place].broken + found.broken, known[place].tried + found.tried)
                if not any(found.tried for _, found in results) and times + 1 < _CLUSTERS:
                    again.append((times + 1, n))
            waiting = sorted(waiting[len(some) :] + again, key=lambda one: one[0])
        return known

    def _fitting(self, races: int) -> int:
        """Return how many of so many races a cluster is likely to have done before the deadline. Raises BudgetSpent if none.

        Half of the time of the longest run so far is taken for what does not depend on the number of its races.
        """
        if self.ends is None or not self._longest_s:
            return races
        left = self.ends - time.monotonic()
        share = 2 * left / self._longest_s - 1
        if share <= 0:
            raise BudgetSpent
        return min(races, max(1, int(share * self._longest_races)))

    def _carry_out(self, asked: Sequence[Asked], *, lanes: int) -> BatchFacts:
        began = time.monotonic()
        if self.ends is not None and began > self.ends:
            raise BudgetSpent
        self.clusters += 1
        candidate = Candidate(races=tuple(one.race for one in asked), nodes=self.plan.nodes, restart=self.plan.restart)
        path = self.folder / f"together-{self.clusters:03d}.json"
        path.write_bytes(orjson.dumps(scenario_of(candidate).to_json(), option=orjson.OPT_INDENT_2))
        plan = plan_of(self.plan, candidate, path, repeats=1)
        plan = replace(plan, options={**plan.options, "lanes": str(lanes), "until-poisoned": "true"})
        finished = carry_out(plan, self.folder / "runs", engine="local", limit_s=_JUDGE_LIMIT_S)
        took = time.monotonic() - began
        if took > self._longest_s:
            self._longest_s, self._longest_races = took, len(asked)
        if finished.interrupted:
            raise KeyboardInterrupt
        if not finished.applicable:
            raise EnvironmentLacks(finished.error or "the scenario is not applicable here")
        return facts_of(finished, folder=f"runs/{finished.store.folder.name}", seconds=took)


def counted(facts: BatchFacts, place: int, asked: Asked) -> Measured:
    """Return whether the race at this place of a run was decided, and whether the anomaly showed."""
    # The workload `scenario` numbers its keyspaces.
    race = next((one for one in facts.races if int(one.keyspace.rsplit("_", 1)[1]) == place), None)
    if race is None:
        return Measured(0, 0)
    shows = asked.anomaly in {symptom.type for symptom in race.symptoms}
    return Measured(int(shows), int(shows or not race.doubts))
