"""Address change: all servers end, every node gets another address, and all start again with their data.

As after a move of machines to another network: nodes know each other by addresses that nobody has any more, and have to find
one another by the seeds of their configuration (CASSANDRA-20476 on 6.0, whose metadata service is known by addresses, too).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.options import option
from schemaquake.harness.model.protocols import Cluster, Context, Fault
from schemaquake.harness.model.topology import Attempt, ChangesAddresses
from schemaquake.nemeses.schedule.options import configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.topology import standard_options as standard
from schemaquake.nemeses.topology.attempts import Recovery, refused, serving_members, try_out
from schemaquake.nemeses.topology.planning import nobody_changes, planned

__all__ = ["AddressChange"]


@dataclass(frozen=True, kw_only=True)
class AddressChange:
    """`--nemesis address-change`; `-O address-change.begins_s=20`."""

    name = "address-change"
    needs = frozenset({"topology", "signals"})
    options = standard.TopologyOptions()

    begins_s: float = standard.at()
    limit_s: float = option(
        120.0, "the limit in seconds for one attempt, in which all servers end, start and serve; it is tried again"
    )

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one change of all addresses. Raises PlanError."""
        plan = configured(self, context)
        return planned(
            self.name,
            context,
            random,
            nodes=(*context.spares, *context.nodes),
            begins_s=plan.begins_s,
            limit_s=plan.limit_s,
            takes_down=True,
            after_failure="retry",
        )

    becomes = nobody_changes

    def missing(self, cluster: Cluster) -> str | None:
        """Say why the nodes of this cluster keep their addresses."""
        if not isinstance(cluster, ChangesAddresses):
            return "the addresses of this cluster's nodes cannot be changed"
        return cluster.cannot_readdress()

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """End all members that run, change their addresses, and start them; those that do not serve then are started again."""
        assert isinstance(cluster, ChangesAddresses)
        names, limit_s = serving_members(cluster), float(operation.parameters["limit_s"])
        if not names:
            return refused("no member runs")
        before = _addresses(cluster, names)

        def readdress() -> Attempt:
            return cluster.readdress(names, limit_s=limit_s)

        completion = try_out(operation, readdress, Recovery(retry=readdress))
        after = _addresses(cluster, names)
        changed = {name: [before[name], after[name]] for name in names}
        return replace(completion, value={**completion.value, "addresses": changed})


def _addresses(cluster: Cluster, names: Sequence[str]) -> Mapping[str, str]:
    return {node.name: node.address for node in named(cluster, names)}
