"""Trying: an oracle that runs a candidate on real clusters.

An anomaly of a race is looked for in keyspaces of its own on one fresh cluster, as often as there are tries. That is as
good as a cluster a try while the cluster takes schema changes, and it ends when it no longer does. An anomaly of the
whole run needs a fresh cluster for every try; tries end as soon as the remaining ones cannot change the answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import orjson

from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.harness.model.options import Configurable, configured, declared, written
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.registry import load
from schemaquake.results.matrix.facts import RunFacts, facts_of
from schemaquake.results.runs.execution import carry_out
from schemaquake.results.shrink.candidate import Candidate
from schemaquake.results.shrink.failing_run import FailingRun, requires_of
from schemaquake.results.shrink.shrinking import BudgetSpent, Measured
from schemaquake.workloads.races.impossible import without_vain_probes
from schemaquake.workloads.races.scenario import Scenario
from schemaquake.workloads.races.scenario_file import ScenarioFile

__all__ = ["Trying", "measured", "plan_of", "scenario_of"]

_JUDGE_LIMIT_S: Final = 60


@dataclass(slots=True)
class Trying:
    """An oracle whose runs lie below `folder`."""

    run: FailingRun
    folder: Path
    tries: int
    rate: float
    ends: float | None = None
    """The deadline on time.monotonic: no run is started that is likely to end later; None: no deadline."""
    _number: int = 0
    _longest_s: float = 0.0

    def __call__(self, candidate: Candidate) -> Measured:
        """Run the candidate, see `schemaquake.results.shrink.shrinking.Oracle`. Raises KeyboardInterrupt when a run was interrupted."""
        self._number += 1
        path = self.folder / f"candidate-{self._number:03d}.json"
        path.write_bytes(orjson.dumps(scenario_of(candidate).to_json(), option=orjson.OPT_INDENT_2))
        total = Measured(0, 0)
        for _ in range(self._runs()):
            facts = self._carry_out(
                plan_of(self.run.plan, candidate, path, repeats=1 if self.run.of_the_run else self.tries)
            )
            one = measured(facts, self.run.anomaly, len(candidate.races), whole=self.run.of_the_run)
            total = Measured(total.broken + one.broken, total.tried + one.tried)
            if self._is_settled(total):
                break
        return total

    def _runs(self) -> int:
        return self.tries if self.run.of_the_run else 1

    def _is_settled(self, so_far: Measured) -> bool:
        """Return True if the remaining runs cannot change the answer."""
        needed = max(1, math.ceil(self.rate * self.tries))
        return so_far.broken >= needed or so_far.broken + (self.tries - so_far.tried) < needed

    def _carry_out(self, plan: Plan) -> RunFacts:
        began = time.monotonic()
        if self.ends is not None and began + self._longest_s > self.ends:
            raise BudgetSpent
        finished = carry_out(plan, self.folder / "runs", engine="local", limit_s=_JUDGE_LIMIT_S)
        took = time.monotonic() - began
        self._longest_s = max(self._longest_s, took)
        if finished.interrupted:
            raise KeyboardInterrupt
        if not finished.applicable:
            raise EnvironmentLacks(finished.error or "the scenario is not applicable here")
        return facts_of(finished, folder=f"runs/{finished.store.folder.name}", seconds=took)


def scenario_of(candidate: Candidate) -> ScenarioFile:
    """Return the file that describes the candidate's races, without rows that nothing in them lets anybody write."""
    return ScenarioFile(tuple(map(without_vain_probes, candidate.races)), requires_of(candidate.races))


def plan_of(plan: Plan, candidate: Candidate, path: Path, *, repeats: int) -> Plan:
    """Return the plan of a candidate whose scenario is in `path`; `plan` is that of the failing run."""
    foreign = _options_of(plan.workloads) - _options_of([Scenario.name])
    given = {name: text for name, text in plan.options.items() if name not in foreign}
    options = replace(
        configured(Scenario.options, given),
        scenario=str(path),
        mode=candidate.mode,
        races=repeats,
        first_race=0,
        # The damage of an earlier repeat would count for the later ones.
        until_poisoned=candidate.mode == "barrier" and not candidate.nemeses and repeats > 1,
    )
    return replace(
        plan.with_nodes(candidate.nodes),
        workloads=(Scenario.name,),
        options=written(options, beside=given),
        nemeses=candidate.nemeses,
        restart=candidate.restart,
    )


def _options_of(workloads: Iterable[str]) -> set[str]:
    """Return the names of the options that these workloads declare."""
    plugins = (load("workloads", name) for name in workloads)
    return {each.name for plugin in plugins if isinstance(plugin, Configurable) for each in declared(plugin.options)}


def measured(facts: RunFacts, anomaly: str, races: int, *, whole: bool) -> Measured:
    """Count the repeats, of so many races each, in which a run shows the anomaly. With `whole` the run is one repeat."""
    turns: dict[int, bool] = {}
    for race in facts.races:
        turn = int(race.keyspace.rsplit("_", 1)[1]) // races  # the workload `scenario` numbers its keyspaces
        turns[turn] = turns.get(turn, False) or anomaly in race.anomalies
    broken = sum(turns.values())
    if whole:
        found = anomaly in facts.at_large or broken > 0
        return Measured(int(found), int(found or facts.completed))
    if not broken and anomaly in facts.at_large:
        broken = 1  # at least one repeat caused it
    return Measured(broken, max(broken, len(turns) if facts.completed else broken))
