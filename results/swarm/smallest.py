"""Smallest: the smallest scenario of one finding, in a folder of its own, with a report and a script that repeats it.

First the plan loses features (`schemaquake.results.swarm.reducing`); what is left is carried out with a report; then races, statements and
nodes are left out (`schemaquake.results.shrink`). A simulated run repeats itself, so each candidate is carried out once, in this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from schemaquake.harness.atomic import write_bytes
from schemaquake.harness.errors import HistoryError, SchemaquakeError
from schemaquake.harness.model.plan import Plan
from schemaquake.results.runs.execution import carry_out
from schemaquake.results.shrink.candidate import Candidate
from schemaquake.results.shrink.failing_run import FailingRun
from schemaquake.results.shrink.shrinking import BudgetSpent, Measured
from schemaquake.results.shrink.shrunk_run import shrunk_run
from schemaquake.results.shrink.trying import plan_of, scenario_of
from schemaquake.results.swarm.one_seed import findings_in, row_of
from schemaquake.results.swarm.reducing import reduced

__all__ = ["find_smallest"]

_NOTE: Final = "smallest.json"


def find_smallest(finding: Mapping[str, Any], plan: Plan, folder: Path, *, reduce: int, shrink: int) -> dict[str, Any]:
    """Return what `FINDINGS` says of a finding's smallest scenario; `plan` is that of the first seed that showed it.

    `reduce` runs at most are spent on features, `shrink` on statements. What is known from an earlier call with the same plan
    and limits is returned as it is. Raises HistoryError for a note that is damaged, and KeyboardInterrupt, without a note, if a
    signal ended its run.
    """
    asked = orjson.loads(orjson.dumps({"plan": plan.to_json(), "reduce": reduce, "shrink": shrink}))
    note = folder / _NOTE
    if note.exists():
        try:
            known = orjson.loads(note.read_bytes())
            if known["asked"] == asked:
                return dict(known["found"])
        except (ValueError, KeyError, TypeError) as error:
            raise HistoryError(
                f"{note} is damaged ({error}): delete it, and the finding is made smaller again"
            ) from error
    folder.mkdir(parents=True, exist_ok=True)
    small = reduced(plan, partial(_shows, finding["id"]), most=reduce) if reduce else plan
    found: dict[str, Any] = {"reduced": small.command() if reduce else None, "statements": None, "script": None}
    if shrink:
        found |= _shrunk(small, finding["anomaly"], folder, shrink)
    write_bytes(note, orjson.dumps({"asked": asked, "found": found}, option=orjson.OPT_INDENT_2))
    return found


def _shows(finding: str, plan: Plan) -> bool:
    return finding in findings_in(plan)


def _shrunk(plan: Plan, anomaly: str, folder: Path, most: int) -> dict[str, Any]:
    """Carry a plan out with a report, and leave out its statements; nothing is left out of a run without races."""
    finished = carry_out(plan, folder, engine="local")
    if finished.interrupted:
        raise KeyboardInterrupt
    run = finished.store.folder
    try:
        found = shrunk_run(run, anomaly, tries=1, rate=1.0, ends=None, oracle=partial(_oracle, most=most))
    except SchemaquakeError:
        return {}
    if found.shrunk is None:
        return {}
    return {
        "statements": found.shrunk.candidate.size()["statements"],
        "script": str((found.folder / "reproduce.sh").relative_to(folder.parent.resolve())),
    }


def _oracle(failing: FailingRun, folder: Path, *, most: int) -> _Once:
    return _Once(failing, folder, most)


@dataclass(slots=True)
class _Once:
    """An oracle that carries each candidate out once, from the plan's own seed."""

    failing: FailingRun
    folder: Path
    left: int

    def __call__(self, candidate: Candidate) -> Measured:
        """Carry the candidate out. Raises BudgetSpent."""
        if not self.left:
            raise BudgetSpent
        self.left -= 1
        path = self.folder / f"candidate-{self.left:03d}.json"  # a scenario is read once from each path
        path.write_bytes(orjson.dumps(scenario_of(candidate).to_json()))
        row = row_of(plan_of(self.failing.plan, candidate, path, repeats=1))
        decided = row["outcome"] in {"valid", "invalid", "unknown"}
        return Measured(int(self.failing.anomaly in row["anomalies"]), int(decided))
