"""Lost majority: more nodes die for good than the others can decide without, and an operator has those that are left go on.

The nodes die one after another, so that what is acknowledged meanwhile has reached one that stays. Fewer die than a row has
replicas. The dead are then taken out of the ring; they are never started again, since they would decide by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.membership import MemberState
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.options import option
from schemaquake.harness.model.protocols import Cluster, Context, Fault
from schemaquake.harness.model.topology import Attempt
from schemaquake.harness.wait import pause_for
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
)
from schemaquake.nemeses.topology.decommission import start_again
from schemaquake.nemeses.topology.planning import ANY, leaver, planned

__all__ = ["LostMajority"]


@dataclass(frozen=True, kw_only=True)
class LostMajority:
    """`--nemesis lost-majority --nodes 4`; `-O lost-majority.nodes=n3+n4`."""

    name = "lost-majority"
    needs = frozenset({"topology", "signals"})
    options = standard.TopologyOptions()

    nodes: str = option(
        ANY, "the nodes that die, joined by +; `any`: the seed chooses as few as make a majority impossible"
    )
    how: str = standard.how()
    apart_s: float = option(3.0, "the time between two deaths, in seconds")
    behind: str = option(
        ANY,
        "`true`: one of the nodes that stay is down before the others die, and comes back afterwards, so that it has less of "
        "the log; `false`; `any`: the seed draws",
    )
    begins_s: float = standard.at()
    limit_s: float = standard.limit()

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one loss and its recovery. Raises PlanError."""
        plan = configured(self, context)
        count = len(context.nodes) - len(context.nodes) // 2
        drawn = [leaver(context, ANY, place=place) for place in range(min(count, len(context.nodes) - 1))]
        nodes = drawn if plan.nodes == ANY else [leaver(context, name, place=0) for name in plan.nodes.split("+")]
        if not count <= len(set(nodes)) < len(context.nodes):
            raise PlanError(
                f"-O {self.name}.nodes: of {len(context.nodes)} nodes {count} have to die, and one has to stay"
            )
        if len(nodes) >= context.replication_factor:
            raise PlanError(
                f'nemesis "{self.name}": {len(nodes)} nodes die, and rows with {context.replication_factor} replicas with them; '
                f"use --replication-factor {len(nodes) + 1} or more, or other --nodes"
            )
        return planned(
            self.name,
            context,
            random,
            nodes=nodes,
            begins_s=plan.begins_s,
            how=plan.how,
            apart_s=plan.apart_s,
            behind=_behind(context, nodes, plan.behind, random),
            loses_disk=True,
            limit_s=plan.limit_s,
            after_failure="retry",
        )

    def becomes(self, operation: Fault) -> Mapping[str, MemberState]:
        """Return that the dead have left afterwards."""
        return dict.fromkeys(operation.nodes, "left")

    def missing(self, cluster: Cluster) -> str | None:
        """Say why no group can be recovered here."""
        return lacks(cluster, "recover-group", "remove")

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Take the nodes down, have the others recover their group, and remove the dead."""
        limit_s = float(operation.parameters["limit_s"])
        change, dead = changing(cluster), operation.nodes
        member_states(cluster)  # so that their identities are known when they can no longer be asked
        behind = operation.parameters.get("behind")
        for name in [behind, *dead] if behind else dead:
            take_down(named(cluster, [str(name)]), str(operation.parameters["how"]), task="taking down a node")
            pause_for(float(operation.parameters["apart_s"]))
        if behind:
            start_again(cluster, str(behind), limit_s=limit_s)
        alive = next((told for name in dead if (told := change.await_dead(name, limit_s=DEAD_LIMIT_S))), None)
        if alive is not None:
            for name in dead:
                start_again(cluster, name, limit_s=limit_s)
            return refused(f"after {DEAD_LIMIT_S:g} s {alive}")
        up = partial(all_up, cluster, *dead)

        def recover() -> Attempt:
            on = some_other(cluster, *dead)
            return change.ask("recover-group", on=on, argument=" ".join(dead), limit_s=limit_s)

        done = try_out(operation, recover, Recovery(retry=recover))
        for name in dead:
            if done.type == "ok":
                remove = partial(_remove, cluster, dead, name, limit_s)
                done = _joined(done, try_out(operation, remove, Recovery(up=up, retry=remove)))
        return done


def _behind(context: Context, dead: Sequence[str], wanted: str, random: Random) -> str | None:
    """Return the node that is to have less of the log than another one that stays; None: none is. Raises PlanError."""
    left = [name for name in context.nodes if name not in dead]
    if wanted not in {ANY, "true", "false"}:
        raise PlanError(f"-O lost-majority.behind={wanted}: true, false or {ANY}")
    decides = random.random() < 0.5 if wanted == ANY else wanted == "true"
    if not decides or len(left) < 2:
        return None
    return random.choice(left)


def _remove(cluster: Cluster, dead: Sequence[str], name: str, limit_s: float) -> Attempt:
    return changing(cluster).ask("remove", on=some_other(cluster, *dead), about=name, limit_s=limit_s)


def _joined(before: Completion, after: Completion) -> Completion:
    """Return one completion of two parts of an operation, of which the later decides; after the first nothing is as it was."""
    value = {
        "attempts": [*before.value["attempts"], *after.value["attempts"]],
        "seconds": round(before.value["seconds"] + after.value["seconds"], 3),
    }
    return Completion(type="ok" if after.type == "ok" else "info", value=value, error=after.error)
