"""Removal: a node is taken down, and the others forget it (`nodetool removenode`, `assassinate`).

`removenode` has them copy what it held among themselves; `assassinate` makes them forget it and copies nothing, so that
its ranges lack a replica's rows until a repair, which follows unless it is switched off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from schemaquake.harness.model.membership import SERVING
from schemaquake.harness.model.operation import JSON, Completion
from schemaquake.harness.model.options import option, truth
from schemaquake.harness.model.protocols import Cluster, Context, Fault
from schemaquake.harness.model.topology import Attempt, TopologyVerb
from schemaquake.nemeses.process.serving import take_down
from schemaquake.nemeses.schedule.options import configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.topology import standard_options as standard
from schemaquake.nemeses.topology.attempts import (
    DEAD_LIMIT_S,
    Recovery,
    all_up,
    changing,
    lacks,
    member_states,
    refused,
    some_other,
    try_out,
    undone_by,
)
from schemaquake.nemeses.topology.decommission import start_again
from schemaquake.nemeses.topology.planning import (
    draw_recovery,
    first_place,
    in_series,
    leavers_of,
    node_leaves,
    plan_leaver,
)

__all__ = ["Assassinate", "RemoveNode", "die"]

_WAYS: Final = ("retry", "abort")


@dataclass(frozen=True, kw_only=True)
class RemoveNode:
    """`--nemesis removenode --nodes 4`; `-O removenode.how=stop`."""

    about = "Removal: a node is taken down, and the others are told to remove it and stream what it had."
    name = "removenode"
    needs = frozenset({"topology", "signals"})
    allowed_by = "topology"
    options = standard.TopologyOptions()

    node: str = standard.node("that is taken down and removed")
    how: str = standard.how()
    count: int = standard.count(", each of another node")
    begins_s: float = standard.at()
    limit_s: float = standard.limit()
    after_failure: str = standard.after_failure(_WAYS)

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one removal, or `count`. Raises PlanError."""
        return _plan_removals(configured(self, context), context, random)

    becomes = node_leaves

    words_for = standard.words_for_aim

    def missing(self, cluster: Cluster) -> str | None:
        """Say why no node can be removed here."""
        return lacks(cluster, "remove")

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Take the node down, have it taken for dead, and have it removed; one that stays a member is started again."""
        return _take_out(cluster, operation, "remove")


@dataclass(frozen=True, kw_only=True)
class Assassinate:
    """`--nemesis assassinate --nodes 4`; `-O assassinate.repair=false`."""

    about = "Assassination: a node is taken down, and the others are told to forget it without streaming anything; a repair may follow."
    name = "assassinate"
    needs = frozenset({"topology", "signals"})
    allowed_by = "topology"
    options = standard.TopologyOptions()

    node: str = standard.node("that is taken down and forgotten")
    how: str = standard.how()
    repair: bool = option(True, "true if a repair of every node follows, as nothing is streamed otherwise", parse=truth)
    count: int = standard.count(", each of another node")
    begins_s: float = standard.at()
    limit_s: float = standard.limit()
    after_failure: str = standard.after_failure(_WAYS)

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one assassination, or `count`. Raises PlanError."""
        plan = configured(self, context)
        return _plan_removals(plan, context, random, repair=plan.repair)

    becomes = node_leaves

    words_for = standard.words_for_aim

    def missing(self, cluster: Cluster) -> str | None:
        """Say why no node can be assassinated here."""
        return lacks(cluster, "assassinate", "repair")

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Take the node down, have it taken for dead and forgotten, and repair the others."""
        completion = _take_out(cluster, operation, "assassinate")
        if completion.type != "ok" or not operation.parameters["repair"]:
            return completion
        limit_s = float(operation.parameters["limit_s"])
        repairs = [
            changing(cluster).ask("repair", on=node.name, argument="", limit_s=limit_s).to_json()
            for node in cluster.nodes
            if node.name != operation.nodes[0] and node.state() == "running"
        ]
        return Completion(type="ok", value={**completion.value, "repairs": repairs})


def die(cluster: Cluster, name: str, how: str) -> str | None:
    """Take a node down and wait until the others take it for dead; return who does not, or None."""
    member_states(cluster)  # so that its identity is known when it can no longer be asked
    take_down(named(cluster, [name]), how, task="taking down a node that is to be dead")
    return changing(cluster).await_dead(name, limit_s=DEAD_LIMIT_S)


def _plan_removals(
    plan: RemoveNode | Assassinate, context: Context, random: Random, **parameters: JSON
) -> Sequence[Fault]:
    """Plan `plan.count` faults, each of another node, with these further parameters. Raises PlanError."""
    first = first_place(context, plan.name)

    def one(number: int) -> Sequence[Fault]:
        return plan_leaver(
            plan,
            context,
            random,
            place=first + number,
            how=plan.how,
            loses_disk=True,
            **parameters,
            after_failure=draw_recovery(random, _WAYS, plan.after_failure, plan.name),
        )

    return in_series(plan, context, one, nodes_max=leavers_of(context, plan.node))


def _take_out(cluster: Cluster, operation: Fault, verb: TopologyVerb) -> Completion:
    name, limit_s = operation.nodes[0], float(operation.parameters["limit_s"])
    change = changing(cluster)
    alive = die(cluster, name, str(operation.parameters["how"]))
    if alive is not None:
        start_again(cluster, name, limit_s=limit_s)
        return refused(f"after {DEAD_LIMIT_S:g} s {alive}")

    def take_out() -> Attempt:
        return change.ask(verb, on=some_other(cluster, name), about=name, limit_s=limit_s)

    def keep() -> Attempt:
        if change.cannot("abort-remove") is None:
            change.ask("abort-remove", on=some_other(cluster, name), about=name, limit_s=limit_s)
        return start_again(cluster, name, limit_s=limit_s)

    up, undoes = partial(all_up, cluster, name), undone_by(cluster, "abort-remove")
    completion = try_out(operation, take_out, Recovery(up=up, retry=take_out, abort=keep, undoes=undoes))
    if completion.type != "ok" and member_states(cluster).get(name, "normal") in SERVING:
        # It was this operation that took the server down, so no other way brings it back.
        start_again(cluster, name, limit_s=limit_s)
    return completion
