"""Foresight: what a workload can know of a run's faults, and of the other workloads, before it begins.

Nemeses plan every fault from the seed, so the plan of a run fixes when and where each of them is to be.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemaquake.harness.model.context import Context
from schemaquake.harness.model.protocols import Fault, Workload
from schemaquake.harness.registry import load

__all__ = ["other_workloads", "planned_faults"]


def planned_faults(context: Context) -> Sequence[Fault]:
    """Return the faults that the run's nemeses plan, nemesis by nemesis; those that workloads ask for are not among them."""
    return [
        fault
        for name in context.nemeses
        for fault in load("nemeses", name).schedule(context, random=context.random("nemesis", name))
    ]


def other_workloads(name: str, context: Context) -> Sequence[Workload]:
    """Return the workloads of the run but the one of this name. Raises PlanError for one that is not installed."""
    return [load("workloads", other) for other in context.workloads if other != name]
