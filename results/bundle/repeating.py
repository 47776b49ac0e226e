"""Repeating: the plan of a bundle, run again on a cluster of this machine, and its findings counted: n of N against what is claimed.

A stranger's plan is taken as data. Only clusters that the harness makes itself are used, no distribution and no file of the plan is, and no
option is that a cluster would hand on to a server. A simulated run has to give the same history, byte for byte.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

from schemaquake.harness.errors import PlanError
from schemaquake.harness.installed_options import options_of, refuse_undeclared
from schemaquake.harness.model.plan import Plan
from schemaquake.results.bundle.verification import Check, CheckState
from schemaquake.results.findings.finding import Finding, Rate
from schemaquake.results.intervals import wilson
from schemaquake.results.runs.execution import carry_out
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import read_summary
from schemaquake.results.wording import counted

__all__ = ["plan_to_repeat", "repeat_run"]

_CLUSTERS: Final = ("local", "simulated")
_SIMULATED: Final = "simulated"


def plan_to_repeat(store: Store) -> Plan:
    """Return a bundle's plan if it may be run on this machine. Raises PlanError with the reason for which it may not."""
    plan = store.read_plan()
    if plan.cluster not in _CLUSTERS or plan.cluster_file is not None:
        raise PlanError(f"a run on a cluster of kind {plan.cluster} is not repeated: its hosts are its owner's")
    if plan.distribution is not None:
        raise PlanError("the run had a distribution of its own, which is not in the bundle")
    refuse_undeclared(plan.options, workloads=plan.workloads, nemeses=plan.nemeses, cluster=plan.cluster)
    if plan.cluster != _SIMULATED:
        for_servers = [option.name for option in options_of("clusters", plan.cluster)]
        for name in plan.options:
            if any(name == one or (one.endswith(".") and name.startswith(one)) for one in for_servers):
                raise PlanError(f"the plan has an option for servers (-O {name}), and is not repeated")
    for name, value in plan.options.items():
        if "/" in value or "\\" in value:
            raise PlanError(f"the plan's option {name} names a path, and is not repeated")
    return replace(plan, keep_data=False)


def repeat_run(store: Store, times: int, *, limit_s: float) -> Check:
    """Run a bundle's plan `times` times and compare the findings. A finding that never shows again differs.

    Raises KeyboardInterrupt if a signal ended one of them.
    """
    try:
        plan = plan_to_repeat(store)
    except PlanError as error:
        return Check(name="repeat", state="not checked", details=(str(error),))
    recorded = {finding.id: finding for finding in read_summary(store).findings}
    seen: Counter[str] = Counter()
    completed, same_history, new = 0, 0, dict[str, int]()
    with tempfile.TemporaryDirectory(prefix="schemaquake-repeat-") as temporary:
        for _ in range(times):
            finished = carry_out(plan, Path(temporary), engine="local", limit_s=limit_s)
            if finished.interrupted:
                raise KeyboardInterrupt
            completed += finished.completed
            ids = {finding.id for finding in finished.findings}
            seen.update(ids)
            for one in ids - recorded.keys():
                new[one] = new.get(one, 0) + 1
            if finished.store.path("history.parquet").exists() and store.path("history.parquet").exists():
                same_history += finished.store.read_history().equals(store.read_history())
    details = [_describe(finding, seen[finding.id], times) for finding in recorded.values()]
    details += [
        f"{one}: not in the bundle, and found in {counted(count, 'repetition')} of {times}"
        for one, count in new.items()
    ]
    if plan.cluster == _SIMULATED:
        details.insert(0, f"the same history in {same_history} of {counted(times, 'repetition')}")
        differs = same_history < times
    else:
        differs = completed == times and any(
            not seen[one] and _is_expected(finding, times) for one, finding in recorded.items()
        )
    if completed < times:
        details.append(f"{times - completed} of {counted(times, 'repetition')} did not come to an end")
    state: CheckState = (
        "differs" if differs else "ok" if completed == times and all(seen[one] for one in recorded) else "not checked"
    )
    return Check(name="repeat", state=state, details=tuple(details))


def _describe(finding: Finding, seen: int, times: int) -> str:
    low, high = wilson(seen, times)
    claimed = f"{finding.rate.broken} of {counted(finding.rate.tried, finding.rate.unit)}"
    return f"{finding.id}: in {seen} of {counted(times, 'repetition')} ({100 * low:.0f}–{100 * high:.0f} %); recorded in {claimed}"


def _is_expected(finding: Finding, times: int) -> bool:
    """Return True if so many runs should have shown the finding, even at the lower end of its rate's interval."""
    rate: Rate = finding.rate
    low, _ = rate.interval
    return bool((1 - low) ** (times * max(rate.tried if rate.unit == "race" else 1, 1)) < 0.05)
