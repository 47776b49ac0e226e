"""Applicability: whether a system has what a workload requires, known before anything is started."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from schemaquake.harness.errors import NotApplicable
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Forecast, Workload
from schemaquake.harness.registry import load

__all__ = ["refuse_inapplicable", "refuse_lacking", "why_inapplicable"]


def why_inapplicable(workload: str, system: str, features: AbstractSet[str]) -> str | None:
    """Say which features the workload requires that the system does not have; None if it has them all."""
    loaded: Workload = load("workloads", workload)
    lacking = sorted(loaded.requires - features)
    return f'workload "{workload}" is not applicable to {system}: it has no {", ".join(lacking)}' if lacking else None


def refuse_lacking(plan: Plan, features: AbstractSet[str]) -> None:
    """Raise NotApplicable for a workload of the plan that requires more than these features."""
    for name in plan.workloads:
        why = why_inapplicable(name, plan.system, features)
        if why is not None:
            raise NotApplicable(why)


def refuse_inapplicable(plan: Plan) -> None:
    """Raise NotApplicable where the plan's provider knows in advance what its system lacks. Raises PlanError as that does."""
    provider = load("clusters", plan.cluster)
    if isinstance(provider, Forecast):
        refuse_lacking(plan, provider.demands(plan).features)
