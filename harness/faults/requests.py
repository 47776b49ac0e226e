"""Requests: faults that come from elsewhere than the nemeses of the command line."""

from __future__ import annotations

from collections.abc import Sequence

from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import FaultRequest, FaultRequesting
from schemaquake.harness.registry import load

__all__ = ["nemeses_of", "requested_faults", "server_restart"]


def requested_faults(plan: Plan) -> Sequence[FaultRequest]:
    """Return the faults that the plan's workloads ask for, each once. Raises PlanError for options that do not fit."""
    context = plan.context(frozenset())
    found: list[FaultRequest] = []
    for name in plan.workloads:
        workload = load("workloads", name)
        if isinstance(workload, FaultRequesting):
            found += [request for request in workload.faults(context) if request not in found]
    return found


def nemeses_of(plan: Plan) -> tuple[str, ...]:
    """Return the names of all nemeses that act in the plan's main phase, its workloads' own included, each once."""
    return tuple(dict.fromkeys([*plan.nemeses, *(request.nemesis for request in requested_faults(plan))]))


def server_restart(nodes: Sequence[str], *, serving_limit_s: float) -> FaultRequest:
    """Return a restart that the harness makes itself as the fault whose nemesis can guard and heal it."""
    return FaultRequest(
        nemesis="restart",
        nodes=tuple(nodes),
        parameters={"how": "kill", "stop_limit_s": serving_limit_s, "serving_limit_s": serving_limit_s},
    )
