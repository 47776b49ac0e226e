"""Reducing: the plan with the fewest features that still shows a finding. Each candidate is a run from the same seed.

First features go (nemeses, aims, workloads), then sizes shrink (nodes, races, time). What remains is for `schemaquake shrink`, which
leaves out statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from schemaquake.harness.model.plan import Plan
from schemaquake.results.swarm.drawing import without_data_centers

__all__ = ["reduced"]

_SECONDS_LEAST: Final = 5.0


def reduced(plan: Plan, shows: Callable[[Plan], bool], *, most: int = 40) -> Plan:
    """Return the smallest plan found that `shows` what the given one does, after `most` runs at most."""
    tried = 0
    begun = True
    while begun:
        begun = False
        for candidate in _smaller(plan):
            if tried == most:
                return plan
            tried += 1
            if shows(candidate):
                plan, begun = candidate, True
                break
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans with one feature less, then those with one size smaller."""
    yield from _with_less(plan)
    if plan.options.get("races", "1") != "1":
        yield replace(plan, options={**plan.options, "races": "1"})
    factor = plan.replication_factor
    for nodes in (2, 3, 5):
        if nodes < plan.nodes:
            yield plan.with_nodes(nodes)
    if factor is not None:
        yield replace(plan, replication_factor=None)
    if plan.data_centers > 1:
        yield replace(plan, data_centers=1, racks=1, options=without_data_centers(plan.options))
    if plan.racks > 1:
        yield replace(plan, racks=1)
    if plan.restart != "none":
        yield replace(plan, restart="none")
    if plan.time_limit_s > _SECONDS_LEAST:
        yield replace(plan, time_limit_s=_SECONDS_LEAST)


def _with_less(plan: Plan) -> Iterator[Plan]:
    for name in plan.nemeses:
        yield replace(plan, nemeses=tuple(each for each in plan.nemeses if each != name))
    for name in ("kill.at", "pause.at", "cut.at", "fault.seconds"):
        if name in plan.options:
            yield replace(plan, options={each: text for each, text in plan.options.items() if each != name})
    if plan.options.get("mode", "barrier") != "barrier":
        yield replace(plan, options={**plan.options, "mode": "barrier"})
    for name in plan.workloads if len(plan.workloads) > 1 else ():
        yield replace(plan, workloads=tuple(each for each in plan.workloads if each != name))
