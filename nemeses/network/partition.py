"""Partition: nodes stop hearing one another.

Cuts the storage port (or everything) between the nodes; clients and the harness still reach every node. The grudge
(`schemaquake.nemeses.network.grudges`) says which node drops packets from which, and `schemaquake.nemeses.network.packet_filter` how. A fault's parameters are
`{"grudge", "ports"}`, and `above_bytes` if only longer packets are lost, as on a path whose MTU is too small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import option
from schemaquake.harness.model.protocols import Cluster, Context, Fault, Undo
from schemaquake.nemeses.network import packet_filter
from schemaquake.nemeses.network.drops import Drop, ports_named, tag_of
from schemaquake.nemeses.network.grudges import (
    BUILDERS,
    FEWEST_NODES,
    Grudge,
    from_json,
    outside_largest_group,
    split,
    to_json,
)
from schemaquake.nemeses.schedule.options import TargetOptions, configured
from schemaquake.nemeses.schedule.targets import primaries
from schemaquake.nemeses.schedule.timetable import spells

__all__ = ["Partition"]

_LONGEST = 65_535
_CENTER = "data-center"
"""The kind that cuts a whole data centre off from all others."""


@dataclass(frozen=True, kw_only=True)
class Partition:
    """`--nemesis partition`; `-O partition.targets=one,bridge`, `-O partition.ports=all`, `-O partition.above_bytes=600`."""

    name = "partition"
    needs = frozenset({"packets"})
    allowed_by = "partition"
    disturbs = "packets"
    effect = "packets"
    checked_as = "packet filter"
    options = TargetOptions()

    targets: tuple[str, ...] = option(
        ("one", "majority", "majorities-ring"), "the kinds of grudge, with commas; one is drawn for each fault"
    )
    """Kinds that need more nodes than there are, or a second data centre, are left out."""
    ports: str = option("storage", "`storage`, `all`, or port numbers separated by `+`")
    above_bytes: int = option(0, "the size in bytes above which packets are lost; 0: all are lost")
    """Packets queued behind them in the same connection are lost with them."""

    def missing(self, cluster: Cluster) -> str | None:
        """Ask every node that already runs for a means to drop packets."""
        rule = Drop(fault_id=0, ports=ports_named(self.ports), above_bytes=self.above_bytes)
        return packet_filter.missing(cluster, rule)

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan partitions of 5 to 15 s with quiet between them. Raises PlanError for a kind that needs more nodes."""
        partition = configured(self, context)
        ports_named(partition.ports)
        if not 0 <= partition.above_bytes < _LONGEST:
            raise PlanError(f"partition.above_bytes={partition.above_bytes}: no packet is longer than {_LONGEST} bytes")
        selective = {"above_bytes": partition.above_bytes} if partition.above_bytes else {}
        kinds = [kind for kind in partition.targets if len(context.nodes) >= _fewest_nodes(kind)]
        kinds = [kind for kind in kinds if kind != _CENTER or len(_centers(context)) > 1]
        if not kinds and partition.targets == (_CENTER,):
            raise PlanError(f"partition.targets={_CENTER}: all nodes are in one data centre (--data-centers)")
        if not kinds:
            raise PlanError(
                f"{len(context.nodes)} nodes cannot be parted by any of {', '.join(partition.targets)}: "
                + ", ".join(f"{kind} needs {_fewest_nodes(kind)}" for kind in partition.targets)
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
                    parameters={"target": kind, "grudge": grudge, "ports": partition.ports, **selective},
                )
            )
        return faults

    def down(self, fault: Fault) -> Sequence[str]:
        """Return the nodes outside the largest group whose members all hear one another, directly or through others."""
        return outside_largest_group(from_json(fault.parameters["grudge"]), fault.nodes)

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Install the rules and return them as read back (`schemaquake.nemeses.network.packet_filter.drop`). Raises ClusterError."""
        ports = ports_named(str(fault.parameters.get("ports", self.ports)))
        above_bytes = int(fault.parameters.get("above_bytes", 0))
        rule = Drop(fault_id=fault.id, tag=tag_of(fault), ports=ports, above_bytes=above_bytes)
        return packet_filter.drop(cluster, from_json(fault.parameters["grudge"]), rule)

    def undo(self, cluster: Cluster, fault: Fault) -> Mapping[str, Sequence[Undo]]:
        """Return commands that remove the fault's rules, by every means that may have made them (`schemaquake.nemeses.network.packet_filter.undo`)."""
        rule = Drop(fault_id=fault.id, tag=tag_of(fault))
        return packet_filter.undo(cluster, from_json(fault.parameters["grudge"]), rule)

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """Remove the rules and return their counters (`schemaquake.nemeses.network.packet_filter.lift`). Raises HealError."""
        return packet_filter.lift(cluster, Drop(fault_id=fault.id, tag=tag_of(fault)))


def _fewest_nodes(kind: str) -> int:
    if kind not in {"primaries", _CENTER} and kind not in BUILDERS:
        raise PlanError(f'unknown kind of partition "{kind}". Known: {", ".join([*BUILDERS, "primaries", _CENTER])}.')
    return FEWEST_NODES.get(kind, 2)


def _centers(context: Context) -> Sequence[str]:
    """List the data centres that have nodes, in the order of their names."""
    return sorted({context.data_centers[name] for name in context.nodes if name in context.data_centers})


def _grudge(kind: str, context: Context, random: Random) -> Grudge:
    if kind == _CENTER:
        lost = random.choice(_centers(context))
        within = [name for name in context.nodes if context.data_centers[name] == lost]
        return split(within, [name for name in context.nodes if name not in within])
    if kind != "primaries":
        return BUILDERS[kind](context.nodes, random)
    alone = random.choice(primaries(context))
    return split([alone], [name for name in context.nodes if name != alone])
