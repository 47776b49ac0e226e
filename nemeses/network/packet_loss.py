"""Packet loss: packets between some nodes and the rest are lost at random, or late.

The receivers' packet filters lose packets at random; the kernel's network emulator on the senders delays them, and
loses them where no filter works. Parameters: `{"grudge", "ports", "loss", "delay_ms", "jitter_ms"}`; the grudge names
the senders whose packets suffer on arrival.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from schemaquake.harness.errors import HealError, PlanError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import option
from schemaquake.harness.model.protocols import Cluster, Context, Fault, Node, Undo
from schemaquake.nemeses.network import netem, packet_filter
from schemaquake.nemeses.network.drops import Drop, ports_named, tag_of
from schemaquake.nemeses.network.grudges import from_json, split, to_json
from schemaquake.nemeses.network.netem import Impairment
from schemaquake.nemeses.schedule.commands import runs_commands
from schemaquake.nemeses.schedule.every_node import on_every
from schemaquake.nemeses.schedule.options import TargetOptions, configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.schedule.timetable import targeted

__all__ = ["PacketLoss"]

_INSTALL = (
    "install iproute2 and a kernel with sch_prio, sch_netem and cls_u32, and allow CAP_NET_ADMIN and CAP_SYS_ADMIN"
)


@dataclass(frozen=True, kw_only=True)
class PacketLoss:
    """`--nemesis packet-loss`; `-O packet-loss.loss=0.1`, `-O packet-loss.delay_ms=200`, `-O packet-loss.targets=all`."""

    name = "packet-loss"
    needs = frozenset({"packets"})
    allowed_by = "packets"
    disturbs = "packets"
    effect = "packets"
    checked_as = "packet loss"
    options = TargetOptions()

    targets: tuple[str, ...] = option(("one", "all"), "the targets, with commas; one is drawn for each fault")
    """Nodes whose packets, to and from all others, suffer; one of these is drawn for each fault."""
    ports: str = option("storage", "`storage`, `all`, or port numbers separated by `+`")
    loss: float = option(0.2, "the share of packets that is lost; 0 to delay them only")
    delay_ms: float = option(0.0, "the delay of each packet in milliseconds")
    jitter_ms: float = option(0.0, "the variation of the delay in milliseconds")

    def missing(self, cluster: Cluster) -> str | None:
        """Ask every node that already runs for a means to lose packets at random, or to delay them."""
        filtered = None if self.delay_ms else packet_filter.missing(cluster, Drop(fault_id=0, probability=0.5))
        if filtered is None and not self.delay_ms:
            return None
        for node in cluster.nodes:
            if runs_commands(node) and (refusal := netem.refusal(node)) is not None:
                lacking = f"node {node.name} cannot delay or lose packets: {refusal}. On that node, {_INSTALL}"
                return lacking if filtered is None else f"{filtered}; or: {lacking}"
        return None

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan faults of 5 to 15 s with quiet between them. Raises PlanError for parameters without effect."""
        configuration = configured(self, context)
        configuration.check()
        planned = targeted(
            self.name,
            context,
            random,
            targets=configuration.targets,
            ports=configuration.ports,
            loss=configuration.loss,
            delay_ms=configuration.delay_ms,
            jitter_ms=configuration.jitter_ms,
        )
        return [
            replace(
                fault,
                nodes=context.nodes,
                parameters={**fault.parameters, "grudge": _between(fault.nodes, context.nodes)},
            )
            for fault in planned
        ]

    def check(self) -> None:
        """Raise PlanError, naming the parameter, unless packets would suffer."""
        ports_named(self.ports)
        if not 0 <= self.loss <= 1:
            raise PlanError(f"packet-loss.loss={self.loss:g}: a share of all packets lies between 0 and 1")
        if self.delay_ms < 0 or self.jitter_ms < 0:
            raise PlanError("packet-loss: a delay cannot be negative")
        if self.loss == 0 and self.delay_ms == 0:
            raise PlanError("packet-loss: with neither loss nor delay_ms nothing would happen")

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Lose or delay packets, and return rules or emulators as read back. Raises ClusterError."""
        grudge = from_json(fault.parameters["grudge"])
        ports = ports_named(str(fault.parameters["ports"]))
        impairment = Impairment(
            fault_id=fault.id,
            tag=tag_of(fault),
            ports=ports,
            loss=float(fault.parameters["loss"]),
            delay_ms=float(fault.parameters["delay_ms"]),
            jitter_ms=float(fault.parameters["jitter_ms"]),
        )
        rule = Drop(fault_id=fault.id, tag=tag_of(fault), ports=ports, probability=impairment.loss)
        if not impairment.delay_ms:
            chosen = packet_filter.choose(cluster, grudge, rule)
            if packet_filter.lacking(cluster, chosen, rule) is None:
                return packet_filter.drop(cluster, grudge, rule, chosen=chosen)
        addresses = {node.name: node.address for node in cluster.nodes}
        receivers = {
            name: [addresses[receiver] for receiver, dropped in sorted(grudge.items()) if name in dropped]
            for name in sorted({name for dropped in grudge.values() for name in dropped})
        }

        def impair(node: Node) -> JSON:
            return {"means": "netem", "rules": netem.impair(node, receivers[node.name], impairment)}

        effects = on_every(named(cluster, list(receivers)), impair, task="losing or delaying packets")
        return {"observed": bool(effects), "nodes": effects}

    def undo(self, cluster: Cluster, fault: Fault) -> Mapping[str, Sequence[Undo]]:
        """Return the commands that remove the fault's filter rules and emulators, whichever it needed."""
        rule = Drop(fault_id=fault.id, tag=tag_of(fault))
        emulated = netem.undo(Impairment(fault_id=fault.id, tag=tag_of(fault)))
        filtered = packet_filter.undo(cluster, from_json(fault.parameters["grudge"]), rule)
        return {name: [*undo, *emulated] for name, undo in filtered.items()}

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """Remove rules and emulators; returns the counters, in the shape of `schemaquake.nemeses.network.packet_filter.lift`. Raises HealError."""
        impairment = Impairment(fault_id=fault.id, tag=tag_of(fault))
        emulated = on_every(
            list(cluster.nodes),
            lambda node: netem.restore(node, impairment),
            task=f"removing the network emulators of fault {fault.id}",
            error=HealError,
        )
        lifted = packet_filter.lift(cluster, Drop(fault_id=fault.id, tag=tag_of(fault)))
        for name, piece in emulated.items():
            if piece is not None:
                lifted["nodes"].setdefault(name, []).append(piece)
                lifted["packets"] += piece["packets"]
                lifted["observed"] |= piece["packets"] > 0
        return lifted


def _between(chosen: Sequence[str], nodes: Sequence[str]) -> JSON:
    """Return the grudge between the chosen nodes and all others, both ways."""
    rest = [name for name in nodes if name not in chosen]
    return to_json(split(*([name] for name in chosen), rest))
