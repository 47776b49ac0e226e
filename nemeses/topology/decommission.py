"""Decommission: a node hands its data over and leaves; its server is neither started again nor called dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from schemaquake.harness.model.membership import MemberState
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import Cluster, Context, Fault
from schemaquake.harness.model.topology import Attempt, TopologyVerb
from schemaquake.nemeses.schedule.options import configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.topology import standard_options as standard
from schemaquake.nemeses.topology.attempts import Recovery, all_up, changing, lacks, try_out
from schemaquake.nemeses.topology.planning import draw_recovery, leaver, planned

__all__ = ["Decommission", "abort_or_restart", "start_again"]

_WAYS: Final = ("retry", "abort")


@dataclass(frozen=True, kw_only=True)
class Decommission:
    """`--nemesis decommission --nodes 4`; `-O decommission.node=n4`."""

    name = "decommission"
    needs = frozenset({"topology"})
    options = standard.TopologyOptions()

    node: str = standard.node("that leaves")
    begins_s: float = standard.at()
    limit_s: float = standard.limit()
    after_failure: str = standard.after_failure(_WAYS)

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one decommission. Raises PlanError."""
        plan = configured(self, context)
        return planned(
            self.name,
            context,
            random,
            nodes=(leaver(context, plan.node, place=0),),
            begins_s=plan.begins_s,
            limit_s=plan.limit_s,
            after_failure=draw_recovery(random, _WAYS, plan.after_failure, self.name),
        )

    def becomes(self, operation: Fault) -> Mapping[str, MemberState]:
        """Return that the node has left afterwards."""
        return {operation.nodes[0]: "left"}

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

        return try_out(operation, leave, Recovery(up=partial(all_up, cluster), retry=leave, abort=stay))


def abort_or_restart(cluster: Cluster, verb: TopologyVerb, name: str, *, limit_s: float) -> Attempt:
    """Abort what the node began by this verb; restart the node where its system has no such command."""
    change = changing(cluster)
    if change.cannot(verb) is None:
        return change.ask(verb, on=name, limit_s=limit_s)
    return start_again(cluster, name, limit_s=limit_s)


def start_again(cluster: Cluster, name: str, *, limit_s: float) -> Attempt:
    """Restart a node, which then is what it was before it began to leave or to move."""
    node = named(cluster, [name])[0]
    node.kill()
    node.start()
    boot = node.await_serving(deadline_s=limit_s)
    return Attempt(
        outcome="ok" if boot.served else "info",
        command="restart",
        node=name,
        seconds=boot.seconds,
        answer=boot.first_error or "",
        timed_out=not boot.served and not boot.ended,
    )
