"""Decommission: a node hands its data over and leaves; its server is neither started again nor called dead."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from schemaquake.harness.model.aim import ShowsSteps
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import Cluster, Context, Fault
from schemaquake.harness.model.topology import Attempt, TopologyVerb
from schemaquake.harness.wait import until
from schemaquake.nemeses.schedule.options import configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.topology import standard_options as standard
from schemaquake.nemeses.topology.attempts import (
    Recovery,
    all_up,
    changing,
    lacks,
    member_states,
    try_out,
    undone_by,
)
from schemaquake.nemeses.topology.planning import (
    draw_recovery,
    first_place,
    in_series,
    leavers_of,
    node_leaves,
    plan_leaver,
)

__all__ = ["Decommission", "abort_or_restart", "start_again"]

_WAYS: Final = ("retry", "abort", "start-over")
_SPREADS_S: Final = 30.0
"""The time in which all should have heard that a node leaves or moves no more."""


@dataclass(frozen=True, kw_only=True)
class Decommission:
    """`--nemesis decommission --nodes 4`; `-O decommission.node=n4`."""

    name = "decommission"
    needs = frozenset({"topology"})
    allowed_by = "topology"
    options = standard.TopologyOptions()

    node: str = standard.node("that leaves")
    count: int = standard.count(", each of another node")
    begins_s: float = standard.at()
    limit_s: float = standard.limit()
    after_failure: str = standard.after_failure(_WAYS)

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one decommission, or `count`. Raises PlanError."""
        plan = configured(self, context)
        first = first_place(context, self.name)

        def one(number: int) -> Sequence[Fault]:
            recovery = draw_recovery(random, _WAYS, plan.after_failure, self.name)
            return plan_leaver(plan, context, random, place=first + number, after_failure=recovery)

        return in_series(plan, context, one, nodes_max=leavers_of(context, plan.node))

    becomes = node_leaves

    words_for = standard.words_for_aim

    def missing(self, cluster: Cluster) -> str | None:
        """Say why no node can be decommissioned here."""
        return lacks(cluster, "decommission")

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Ask the node to leave, and wait until it has."""
        name, limit_s = operation.nodes[0], float(operation.parameters["limit_s"])
        change = changing(cluster)

        def leave() -> Attempt:
            return change.ask("decommission", on=name, limit_s=limit_s)

        def stay() -> Attempt:
            return abort_or_restart(cluster, "abort-leave", name, limit_s=limit_s)

        undoes = undone_by(cluster, "abort-leave")
        recovery = Recovery(up=partial(all_up, cluster), retry=leave, abort=stay, undoes=undoes, starts_over=True)
        return try_out(operation, leave, recovery)


def abort_or_restart(cluster: Cluster, verb: TopologyVerb, name: str, *, limit_s: float) -> Attempt:
    """Abort what the node began by this verb; restart the node where its system has no such command."""
    change = changing(cluster)
    if change.cannot(verb) is None:
        return change.ask(verb, on=name, limit_s=limit_s)
    return start_again(cluster, name, limit_s=limit_s)


def start_again(cluster: Cluster, name: str, *, limit_s: float) -> Attempt:
    """Restart a node, which then is what it was before it began to leave or to move; not so where others carry the change on."""
    node = named(cluster, [name])[0]
    node.kill()
    node.start()
    boot = node.await_serving(deadline_s=limit_s)
    if boot.served:
        with suppress(TimeoutError):
            until(partial(_is_normal, cluster, name), deadline_s=_SPREADS_S, what=f"{name} as it was", every_s=0.5)
    return Attempt(
        outcome="ok" if boot.served and _is_normal(cluster, name) else "info",
        command="restart",
        node=name,
        seconds=boot.seconds,
        answer=boot.first_error or "",
        timed_out=not boot.served and not boot.ended,
    )


def _is_normal(cluster: Cluster, name: str) -> bool:
    """Return whether a node is a member that neither leaves nor moves, as far as the cluster shows that."""
    if isinstance(cluster, ShowsSteps) and cluster.steps([name]):
        return False
    return member_states(cluster).get(name, "normal") == "normal"
