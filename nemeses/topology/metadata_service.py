"""Metadata service: other nodes, or another number of them, commit the changes of schema and topology, or none does for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.options import option
from schemaquake.harness.model.protocols import Cluster, Context, Fault, Node
from schemaquake.harness.model.topology import Attempt, TopologyVerb
from schemaquake.harness.wait import pause_for
from schemaquake.nemeses.schedule.every_node import on_every
from schemaquake.nemeses.schedule.options import configured
from schemaquake.nemeses.topology import standard_options as standard
from schemaquake.nemeses.topology.attempts import Recovery, all_up, changing, lacks, some_other, try_out
from schemaquake.nemeses.topology.planning import in_series, nobody_changes, planned

__all__ = ["CmsReconfigure", "PauseCommits"]

_SIZES: Final = (1, 3)
_PAUSES_S: Final = (5.0, 20.0)
_ANSWER_WITHIN_S: Final = 60.0
_RESUME_TRIES: Final = 6
_BETWEEN_TRIES_S: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class CmsReconfigure:
    """`--nemesis cms-reconfigure`; `-O cms-reconfigure.members=3`."""

    about = "Reconfigured metadata service (6.0): other nodes, or another number of them, commit the changes of schema and topology."
    name = "cms-reconfigure"
    needs = frozenset({"topology"})
    keeps_members = True
    allowed_by = "topology"
    options = standard.TopologyOptions()

    members: int = option(0, "the number of nodes that commit metadata; 0: the seed draws 1 or 3")
    count: int = standard.count()
    begins_s: float = standard.at()
    limit_s: float = standard.limit()

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one reconfiguration, or `count`, which concern no node in particular. Raises PlanError."""
        plan = configured(self, context)

        def one(_number: int) -> Sequence[Fault]:
            drawn = random.choice([size for size in _SIZES if size <= len(context.nodes)])
            return planned(
                self.name,
                context,
                random,
                nodes=(),
                begins_s=plan.begins_s,
                members=plan.members or drawn,
                limit_s=plan.limit_s,
                after_failure="retry",
            )

        return in_series(plan, context, one)

    becomes = nobody_changes

    words_for = standard.words_for_aim

    def missing(self, cluster: Cluster) -> str | None:
        """Say why there is no metadata service to be changed."""
        return lacks(cluster, "reconfigure")

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Ask a node for it, and wait until it is done."""
        limit_s, members = float(operation.parameters["limit_s"]), str(operation.parameters["members"])

        def reconfigure() -> Attempt:
            return changing(cluster).ask("reconfigure", on=some_other(cluster), argument=members, limit_s=limit_s)

        return try_out(operation, reconfigure, Recovery(up=partial(all_up, cluster), retry=reconfigure))


@dataclass(frozen=True, kw_only=True)
class PauseCommits:
    """`--nemesis pause-commits`; `-O pause-commits.lasts_s=30`."""

    about = "Paused metadata service (6.0): for a while no change of schema or topology is committed."
    name = "pause-commits"
    needs = frozenset({"topology"})
    keeps_members = True
    allowed_by = "topology"
    options = standard.TopologyOptions()

    lasts_s: float = option(-1.0, "how long nothing is committed, in seconds; negative: the seed draws 5 to 20")
    count: int = standard.count()
    begins_s: float = standard.at()

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one pause, or `count`, which other operations meet: they do not wait for its end. Raises PlanError."""
        plan = configured(self, context)

        def one(_number: int) -> Sequence[Fault]:
            drawn = round(random.uniform(*_PAUSES_S), 1)
            return planned(
                self.name,
                context,
                random,
                nodes=(),
                begins_s=plan.begins_s,
                lasts_s=drawn if plan.lasts_s < 0 else plan.lasts_s,
                overlaps=True,
                stops_changes=True,
            )

        return in_series(plan, context, one)

    becomes = nobody_changes

    words_for = standard.words_for_aim

    def missing(self, cluster: Cluster) -> str | None:
        """Say why commits cannot be paused here."""
        return lacks(cluster, "pause-commits", "resume-commits")

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Have every node that runs commit nothing, wait, and have each commit again; one that was restarted does already."""
        lasts_s = float(operation.parameters["lasts_s"])
        running = [node for node in cluster.nodes if node.state() == "running"]
        paused: Mapping[str, Attempt] = {}
        resumed: Mapping[str, Attempt] = {}
        try:
            paused = _ask_each(cluster, "pause-commits", running)
            pause_for(lasts_s)
        finally:
            resumed = _resume(cluster, running)
        attempts = [*paused.values(), *resumed.values()]
        failed = next((attempt for attempt in attempts if attempt.outcome != "ok"), None)
        return Completion(
            type="ok" if failed is None else "info",
            value={"attempts": [attempt.to_json() for attempt in attempts], "seconds": lasts_s},
            error=None if failed is None else f"Failed: {failed.answer or failed.command}",
        )


def _ask_each(cluster: Cluster, verb: TopologyVerb, nodes: Sequence[Node]) -> Mapping[str, Attempt]:
    """Ask all these nodes at the same time."""
    asked = changing(cluster)
    return on_every(nodes, lambda node: asked.ask(verb, on=node.name, limit_s=_ANSWER_WITHIN_S), task=verb)


def _resume(cluster: Cluster, nodes: Sequence[Node]) -> Mapping[str, Attempt]:
    """Have these nodes commit again, but for those that do not run: a server that starts commits. What fails is tried again."""
    attempts: dict[str, Attempt] = {}
    left = list(nodes)
    for _ in range(_RESUME_TRIES):
        left = [node for node in left if node.state() != "stopped"]
        attempts |= _ask_each(cluster, "resume-commits", left)
        left = [node for node in left if attempts[node.name].outcome != "ok"]
        if not left:
            break
        pause_for(_BETWEEN_TRIES_S)
    return {name: one for name, one in attempts.items() if one.outcome == "ok" or name in {node.name for node in left}}
