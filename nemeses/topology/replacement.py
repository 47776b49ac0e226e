"""Replacement: a node dies for good, and another one takes its place and its part of the ring.

The other one is a spare, with an address of its own, or the same machine with a new disk at the same address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.membership import MemberState
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.options import one_of, option
from schemaquake.harness.model.protocols import Cluster, Context, Fault
from schemaquake.harness.model.topology import Attempt
from schemaquake.nemeses.schedule.options import configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.topology import standard_options as standard
from schemaquake.nemeses.topology.attempts import Recovery, all_up, changing, lacks, refused, try_out
from schemaquake.nemeses.topology.bootstrap import join_again
from schemaquake.nemeses.topology.decommission import start_again
from schemaquake.nemeses.topology.planning import (
    ANY,
    first_place,
    in_series,
    joiners_of,
    leaver,
    leavers_of,
    planned,
    spare,
)
from schemaquake.nemeses.topology.removal import die

__all__ = ["Replace"]


@dataclass(frozen=True, kw_only=True)
class Replace:
    """`--nemesis replace --spares 1`; `-O replace.address=same` needs no spare."""

    name = "replace"
    needs = frozenset({"topology", "signals"})
    allowed_by = "topology"
    options = standard.TopologyOptions()

    node: str = standard.node("that dies")
    by: str = standard.node("that takes its place, a spare; not with `address=same`")
    address: str = option(
        ANY,
        "`new`: a spare takes the place; `same`: the node itself, with an empty disk; `any`: the seed draws, without spares `same`",
        parse=one_of("any", "new", "same"),
    )
    how: str = standard.how()
    count: int = standard.count(", each of another node")
    begins_s: float = standard.at()
    limit_s: float = standard.limit()

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one replacement, or `count`. Raises PlanError."""
        plan = configured(self, context)
        deaths = leavers_of(context, plan.node)
        nodes_max = min(deaths, joiners_of(context, plan.by)) if plan.address == "new" else deaths
        one = partial(self._one, plan, context, random, first_place(context, self.name))
        return in_series(plan, context, one, nodes_max=nodes_max)

    def _one(self, plan: Replace, context: Context, random: Random, first: int, number: int) -> Sequence[Fault]:
        drawn = random.choice(("new", "same")) if len(context.spares) > number else "same"
        address = drawn if plan.address == ANY else plan.address
        dead = leaver(context, plan.node, place=first + number)
        # From the last spare on, so that a bootstrap in the same run finds the first one free.
        successor = dead if address == "same" else spare(context, plan.by, self.name, place=-1 - number)
        if address == "new" and successor == dead:
            raise PlanError(f"-O replace.by={dead}: a node that takes its own place keeps its address")
        return planned(
            self.name,
            context,
            random,
            nodes=(dead,) if successor == dead else (dead, successor),
            begins_s=plan.begins_s,
            address=address,
            how=plan.how,
            loses_disk=True,
            limit_s=plan.limit_s,
            after_failure="retry",
        )

    def becomes(self, operation: Fault) -> Mapping[str, MemberState]:
        """Return that the dead node is replaced and its successor a normal member afterwards."""
        if len(operation.nodes) == 1:
            return {operation.nodes[0]: "normal"}
        dead, successor = operation.nodes
        return {dead: "replaced", successor: "normal"}

    words_for = standard.words_for_aim

    def missing(self, cluster: Cluster) -> str | None:
        """Say why no node can be replaced here."""
        return lacks(cluster, replaces=True)

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Take the node down, have it taken for dead, and have its successor join in its place."""
        dead, successor = operation.nodes[0], operation.nodes[-1]
        limit_s = float(operation.parameters["limit_s"])
        if successor != dead and named(cluster, [successor])[0].state() != "stopped":
            return refused(f"{successor} runs already")
        alive = die(cluster, dead, str(operation.parameters["how"]))
        if alive is not None:
            start_again(cluster, dead, limit_s=limit_s)
            return refused(f"{dead} was down, and still {alive}")

        def join() -> Attempt:
            return changing(cluster).join(successor, replacing=dead, limit_s=limit_s)

        def again() -> Attempt:
            return join_again(cluster, successor, replacing=dead, limit_s=limit_s)

        return try_out(operation, join, Recovery(up=partial(all_up, cluster, dead, successor), retry=again))
