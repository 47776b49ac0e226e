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
from schemaquake.results.grid.facts import BatchFacts, RaceFacts, facts_of
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

    def __call__(self, asked: Sequence[Asked]) -> Sequence[Measured]:
        """Race all of these; see `schemaquake.results.shrink.abreast.Oracle`. Raises KeyboardInterrupt when a run was interrupted.

        Where the budget ends in between, the races that were not begun are no tries.
        """
        known = [Measured(0, 0)] * len(asked)
        # One entry a try; the tries of one race lie far apart.
        turns = [
            n
            for turn in range(max((one.tries for one in asked), default=0))
            for n, one in enumerate(asked)
            if turn < one.tries
        ]
        waiting = [(0, place) for place in turns]
        while waiting:
            begun = waiting[0][0]
            some = waiting[: max(1, _KEYSPACES >> begun)]
            # What one race of a round shows may be another's doing: where that left doubts, the next ones go one by one.
            try:
                facts = self._carry_out([asked[place] for _, place in some], lanes=1 if begun else _LANES)
            except BudgetSpent:
                if any(one.tried for one in known):
                    return known  # what is known counts; the next call finds the budget spent
                raise
            results = counted(facts, [asked[place] for _, place in some])
            again = [(times + 1, place) for (times, place), one in zip(some, results, strict=True) if not one.tried]
            for (_, place), one in zip(some, results, strict=True):
                known[place] = Measured(known[place].broken + one.broken, known[place].tried + one.tried)
            waiting = sorted(
                waiting[len(some) :] + [one for one in again if one[0] < _CLUSTERS], key=lambda one: one[0]
            )
        return known

    def _carry_out(self, asked: Sequence[Asked], *, lanes: int) -> BatchFacts:
        began = time.monotonic()
        if self.ends is not None and began + self._longest_s > self.ends:
            raise BudgetSpent
        self.clusters += 1
        candidate = Candidate(races=tuple(one.race for one in asked), nodes=self.plan.nodes, restart=self.plan.restart)
        path = self.folder / f"together-{self.clusters:03d}.json"
        path.write_bytes(orjson.dumps(scenario_of(candidate).to_json(), option=orjson.OPT_INDENT_2))
        plan = plan_of(self.plan, candidate, path, repeats=1)
        plan = replace(plan, options={**plan.options, "lanes": str(lanes), "until-poisoned": "true"})
        finished = carry_out(plan, self.folder / "runs", engine="local", limit_s=_JUDGE_LIMIT_S)
        took = time.monotonic() - began
        self._longest_s = max(self._longest_s, took)
        if finished.interrupted:
            raise KeyboardInterrupt
        if not finished.applicable:
            raise EnvironmentLacks(finished.error or "the scenario is not applicable here")
        return facts_of(finished, folder=f"runs/{finished.store.folder.name}", seconds=took)


def counted(facts: BatchFacts, asked: Sequence[Asked]) -> list[Measured]:
    """Return for each race of a run whether it was decided, and whether its anomaly showed."""
    by_place: dict[int, RaceFacts] = {}
    for race in facts.races:
        by_place[int(race.keyspace.rsplit("_", 1)[1])] = race  # the workload `scenario` numbers its keyspaces
    return [_measured(one, by_place.get(place)) for place, one in enumerate(asked)]


def _measured(asked: Asked, race: RaceFacts | None) -> Measured:
    if race is None:
        return Measured(0, 0)
    shows = asked.anomaly in {symptom.type for symptom in race.symptoms}
    return Measured(int(shows), int(shows or not race.doubts))
