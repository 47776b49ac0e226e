"""Bootstrap: a spare joins the cluster, takes a part of the ring, and has the rows of that part streamed to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.aim import ShowsSteps
from schemaquake.harness.model.membership import ChangeOutcome
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import Cluster, Context, Fault
from schemaquake.harness.model.topology import Attempt
from schemaquake.harness.wait import until
from schemaquake.nemeses.schedule.options import configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.topology import standard_options as standard
from schemaquake.nemeses.topology.attempts import (
    Recovery,
    all_up,
    ask_about_dead,
    changing,
    lacks,
    member_states,
    refused,
    try_out,
)
from schemaquake.nemeses.topology.planning import draw_recovery, in_series, joiners_of, node_serves, plan_joiner

__all__ = ["Bootstrap", "join_again", "leave_half_joined"]

_WAYS: Final = ("retry", "resume", "abort")
_FORGOTTEN_S: Final = 150.0
"""The time in which others have forgotten a node that was killed as it joined, or taken its join back.

Cassandra 5.0 keeps one that is silent for ten times as long as 4.1 does, 100 s with the quarantine of local clusters (`FatClient … has been
silent for 100000ms`).
"""


@dataclass(frozen=True, kw_only=True)
class Bootstrap:
    """`--nemesis bootstrap --spares 1`; `-O bootstrap.node=n4`."""

    name = "bootstrap"
    needs = frozenset({"topology"})
    allowed_by = "topology"
    options = standard.TopologyOptions()

    node: str = standard.node("that joins, a spare")
    count: int = standard.count(", each of another spare")
    begins_s: float = standard.at()
    limit_s: float = standard.limit()
    after_failure: str = standard.after_failure(_WAYS)

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one bootstrap, or `count`. Raises PlanError without spares."""
        plan = configured(self, context)

        def one(number: int) -> Sequence[Fault]:
            recovery = draw_recovery(random, _WAYS, plan.after_failure, self.name)
            return plan_joiner(plan, context, random, place=number, after_failure=recovery)

        return in_series(plan, context, one, nodes_max=joiners_of(context, plan.node))

    becomes = node_serves

    words_for = standard.words_for_aim

    def missing(self, cluster: Cluster) -> str | None:
        """Say why no node can join this cluster."""
        return lacks(cluster)

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Start the spare and wait until it serves, which it does when it has joined."""
        name, limit_s = operation.nodes[0], float(operation.parameters["limit_s"])
        if named(cluster, [name])[0].state() != "stopped":
            return refused(f"{name} runs already")
        return try_out(
            operation,
            lambda: changing(cluster).join(name, limit_s=limit_s),
            Recovery(
                up=partial(all_up, cluster, name),
                retry=lambda: join_again(cluster, name, limit_s=limit_s),
                resume=lambda: _resume(cluster, name, limit_s=limit_s),
                abort=lambda: leave_half_joined(cluster, name, limit_s=limit_s),
            ),
        )


def join_again(cluster: Cluster, name: str, *, replacing: str | None = None, limit_s: float) -> Attempt:
    """Begin anew with an empty disk, as after a joining node was lost."""
    _end_joining(cluster, name, limit_s=limit_s)
    return changing(cluster).join(name, replacing=replacing, limit_s=limit_s)


def leave_half_joined(cluster: Cluster, name: str, *, limit_s: float) -> Attempt:
    """Kill the node that joins, and remove it from the other nodes where they do not forget it by themselves.

    Without a command for that, a kill alone proves nothing: the node may have told the others just before that it has joined, or they may
    carry its join on (ScyllaDB). The outcome is `ok` once nobody lists it or shows a step of it, and `info` if that does not come.
    """
    removed = _end_joining(cluster, name, limit_s=limit_s)
    if removed is not None:
        return removed
    outcome: ChangeOutcome = "ok"
    try:
        until(partial(_is_forgotten, cluster, name), deadline_s=_FORGOTTEN_S, what=f"{name} forgotten", every_s=0.5)
    except TimeoutError:
        outcome = "info"
    return Attempt(outcome=outcome, command="kill", node=name, seconds=0.0)


def _end_joining(cluster: Cluster, name: str, *, limit_s: float) -> Attempt | None:
    """Kill the node that joins, and have another one abort its join; None where there is no command for that."""
    named(cluster, [name])[0].kill()
    if changing(cluster).cannot("abort-join") is not None:
        return None
    return ask_about_dead(cluster, name, "abort-join", limit_s=limit_s)


def _is_forgotten(cluster: Cluster, name: str) -> bool:
    """Return whether no node lists this one as a member or shows a step of its join, as far as the cluster shows that."""
    if isinstance(cluster, ShowsSteps) and cluster.steps([name]):
        return False
    try:
        return member_states(cluster).get(name) != "normal"
    except ClusterError:
        return False


def _resume(cluster: Cluster, name: str, *, limit_s: float) -> Attempt:
    """Have a node that runs go on with what it lacks; one that ended, or cannot, begins anew."""
    change, node = changing(cluster), named(cluster, [name])[0]
    if node.state() != "running" or change.cannot("resume-join") is not None:
        return join_again(cluster, name, limit_s=limit_s)
    asked = change.ask("resume-join", on=name, limit_s=limit_s)
    if asked.outcome == "ok" and not node.await_serving(deadline_s=limit_s).served:
        return Attempt(
            outcome="info", command=asked.command, node=name, seconds=asked.seconds, answer="it does not serve"
        )
    return asked
