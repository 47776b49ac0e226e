"""Partition: nodes stop hearing one another.

Cuts the storage port (or everything) between the nodes; clients and the harness still reach every node. Who drops whom
is a grudge (`nemeses.grudges`), how is `nemeses.packet_filter`. A fault's parameters are `{"grudge", "ports"}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from harness.errors import PlanError
from harness.operations import JSON
from harness.protocols import Cluster, Context, Fault
from nemeses import packet_filter
from nemeses.drops import Drop, ports_named
from nemeses.grudges import BUILDERS, FEWEST_NODES, Grudge, from_json, split, to_json
from nemeses.options import configured
from nemeses.targets import primaries
from nemeses.timetable import spells

__all__ = ["Partition"]


@dataclass(frozen=True, kw_only=True)
class Partition:
    """`--nemesis partition`; `-O partition.targets=one,bridge`, `-O partition.ports=all`."""

    name = "partition"
    disturbs = "packets"

    targets: tuple[str, ...] = ("one", "majority", "majorities-ring")
    """Kinds of grudge, one drawn for each fault; those that need more nodes than there are, are left out."""
    ports: str = "storage"
    """`storage`, `all`, or port numbers separated by `+`."""

    def missing(self, cluster: Cluster) -> str | None:
        """Asks every node that already runs for a means to drop packets."""
        return packet_filter.missing(cluster)

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Partitions of 5 to 15 s with quiet between them. Raises PlanError for what cannot be parted so."""
        partition = configured(self, context)
        ports_named(partition.ports)
        kinds = [kind for kind in partition.targets if len(context.nodes) >= _fewest(kind)]
        if not kinds:
            raise PlanError(
                f"{len(context.nodes)} nodes cannot be parted by any of {', '.join(partition.targets)}: "
                + ", ".join(f"{kind} needs {_fewest(kind)}" for kind in partition.targets)
            )
        faults = []
        for number, (begins_s, ends_s) in enumerate(spells(random, context.time_limit_s)):
            kind = random.choice(kinds)
            grudge = to_json(_grudge(kind, context, random))
            faults.append(
                Fault(
                    id=number,
                    nemesis=self.name,
                    begins_s=begins_s,
                    ends_s=ends_s,
                    nodes=tuple(sorted({*grudge, *(name for dropped in grudge.values() for name in dropped)})),
                    parameters={"target": kind, "grudge": grudge, "ports": partition.ports},
                )
            )
        return faults

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Install the rules; returns them as read back (`nemeses.packet_filter.drop`). Raises ClusterError."""
        ports = ports_named(str(fault.parameters.get("ports", self.ports)))
        return packet_filter.drop(cluster, from_json(fault.parameters["grudge"]), Drop(fault_id=fault.id, ports=ports))

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """Remove them; returns their counters (`nemeses.packet_filter.lift`). Raises HealError."""
        return packet_filter.lift(cluster, fault.id)


def _fewest(kind: str) -> int:
    if kind != "primaries" and kind not in BUILDERS:
        raise PlanError(f'unknown kind of partition "{kind}". Known: {", ".join([*BUILDERS, "primaries"])}.')
    return FEWEST_NODES.get(kind, 2)


def _grudge(kind: str, context: Context, random: Random) -> Grudge:
    if kind != "primaries":
        return BUILDERS[kind](context.nodes, random)
    alone = random.choice(primaries(context))
    return split([alone], [name for name in context.nodes if name != alone])
