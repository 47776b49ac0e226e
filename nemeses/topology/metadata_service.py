"""Metadata service: other nodes, or another number of them, commit the changes of schema and topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from schemaquake.harness.model.membership import MemberState
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.options import option
from schemaquake.harness.model.protocols import Cluster, Context, Fault
from schemaquake.harness.model.topology import Attempt
from schemaquake.nemeses.schedule.options import configured
from schemaquake.nemeses.topology import standard_options as standard
from schemaquake.nemeses.topology.attempts import Recovery, all_up, changing, lacks, some_other, try_out
from schemaquake.nemeses.topology.planning import planned

__all__ = ["CmsReconfigure"]

_SIZES: Final = (1, 3)


@dataclass(frozen=True, kw_only=True)
class CmsReconfigure:
    """`--nemesis cms-reconfigure`; `-O cms-reconfigure.members=3`."""

    name = "cms-reconfigure"
    needs = frozenset({"topology"})
    options = standard.TopologyOptions()

    members: int = option(0, "the number of nodes that commit metadata; 0: the seed draws 1 or 3")
    begins_s: float = standard.at()
    limit_s: float = standard.limit()

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one reconfiguration, which concerns no node in particular. Raises PlanError."""
        plan = configured(self, context)
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

    def becomes(self, operation: Fault) -> Mapping[str, MemberState]:  # noqa: ARG002 - others depend on it
        """Return nothing: every node stays a member of the ring."""
        return {}

    def missing(self, cluster: Cluster) -> str | None:
        """Say why there is no metadata service to be changed."""
        return lacks(cluster, "reconfigure")

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Ask a node for it, and wait until it is done."""
        limit_s, members = float(operation.parameters["limit_s"]), str(operation.parameters["members"])

        def reconfigure() -> Attempt:
            return changing(cluster).ask("reconfigure", on=some_other(cluster), argument=members, limit_s=limit_s)

        return try_out(operation, reconfigure, Recovery(up=partial(all_up, cluster), retry=reconfigure))
