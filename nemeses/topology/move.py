"""Move: a node gives its part of the ring to its neighbour and takes another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.options import option
from schemaquake.harness.model.protocols import Cluster, Context, Fault
from schemaquake.harness.model.topology import Attempt
from schemaquake.nemeses.schedule.options import configured
from schemaquake.nemeses.topology import standard_options as standard
from schemaquake.nemeses.topology.attempts import Recovery, all_up, changing, lacks, try_out, undone_by
from schemaquake.nemeses.topology.decommission import abort_or_restart
from schemaquake.nemeses.topology.planning import (
    ANY,
    draw_recovery,
    in_series,
    node_serves,
    place_of_those_who_stay,
    plan_leaver,
)

__all__ = ["Move"]

_WAYS: Final = ("retry", "abort", "start-over")


@dataclass(frozen=True, kw_only=True)
class Move:
    """`--nemesis move`; `-O move.token=4611686018427387904`."""

    name = "move"
    needs = frozenset({"topology"})
    allowed_by = "topology"
    options = standard.TopologyOptions()

    node: str = standard.node("that moves")
    token: str = option(ANY, "its new token; `any`: the seed draws one")
    count: int = standard.count(", of one node after another")
    begins_s: float = standard.at()
    limit_s: float = standard.limit()
    after_failure: str = standard.after_failure(_WAYS)

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one move, or `count`. Raises PlanError."""
        plan = configured(self, context)
        if plan.token != ANY and plan.count > 1:
            raise PlanError(
                f"-O {self.name}.token={plan.token} -O {self.name}.count={plan.count}: one move to one token"
            )

        first = place_of_those_who_stay(context)

        def one(number: int) -> Sequence[Fault]:
            return plan_leaver(
                plan,
                context,
                random,
                place=first + number,
                fraction=round(random.random(), 9),
                token=plan.token,
                after_failure=draw_recovery(random, _WAYS, plan.after_failure, self.name),
            )

        return in_series(plan, context, one)

    becomes = node_serves

    words_for = standard.words_for_aim

    def missing(self, cluster: Cluster) -> str | None:
        """Say why no node can move here."""
        return lacks(cluster, "move")

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Ask the node to move, and wait until it has. The value has the `token`."""
        name, limit_s = operation.nodes[0], float(operation.parameters["limit_s"])
        change = changing(cluster)
        token = str(operation.parameters["token"])
        if token == ANY:
            token = change.token_at(float(operation.parameters["fraction"]))

        def move() -> Attempt:
            return change.ask("move", on=name, argument=token, limit_s=limit_s)

        def stay() -> Attempt:
            return abort_or_restart(cluster, "abort-move", name, limit_s=limit_s)

        undoes = undone_by(cluster, "abort-move")
        recovery = Recovery(up=partial(all_up, cluster), retry=move, abort=stay, undoes=undoes, starts_over=True)
        return try_out(operation, move, recovery, more={"token": token})
