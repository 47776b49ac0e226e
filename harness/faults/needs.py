"""Needs: the means that a plan's faults ask of its cluster, known before there is a cluster."""

from __future__ import annotations

from schemaquake.harness.faults.requests import nemeses_of
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.traits import nemesis_traits
from schemaquake.harness.registry import load

__all__ = ["means_needed"]


def means_needed(plan: Plan) -> frozenset[str]:
    """Collect what the nemeses of the plan and of its workloads declare in `needs`. Raises PlanError for an unknown nemesis."""
    return frozenset().union(*(nemesis_traits(load("nemeses", name)).needs for name in nemeses_of(plan)))
