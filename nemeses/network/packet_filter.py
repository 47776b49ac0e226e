"""Packet filter: drop packets that arrive at a node from chosen peers, and remove exactly those rules again.

Three means, tried on each node in this order, all through argument vectors on the node itself: iptables, nftables, and
misleading neighbour entries on the senders (`schemaquake.nemeses.network.iptables`, `schemaquake.nemeses.network.nftables`, `schemaquake.nemeses.network.neighbours`).

Every rule bears the fault's id, so healing needs nothing else, spares the rules of others, and faults that overlap
spare each other's. Rules name the peers' addresses as source: traffic of the harness, and of clients that are not
nodes, never matches. On a cluster that outlives the run, neighbour entries are used only to cut everything: the harness
itself may reach a node by way of another. Counters are read before the rules are removed: they prove that packets were dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from schemaquake.harness.errors import ClusterError, HealError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Cluster, Guarded, Node, Undo
from schemaquake.nemeses.network import neighbours
from schemaquake.nemeses.network.drops import Drop, Filter
from schemaquake.nemeses.network.grudges import Grudge
from schemaquake.nemeses.network.iptables import Iptables
from schemaquake.nemeses.network.nftables import Nftables
from schemaquake.nemeses.schedule.commands import runs_commands
from schemaquake.nemeses.schedule.every_node import on_every
from schemaquake.nemeses.schedule.targets import named

__all__ = ["Chosen", "choose", "drop", "lacking", "lift", "missing", "undo"]

_FILTERS: Final[tuple[Filter, ...]] = (Iptables(), Nftables())
_INSTALL: Final = "install iptables or nftables (Debian: apt-get install iptables) and allow CAP_NET_ADMIN"


Chosen: TypeAlias = Mapping[str, tuple[Filter | None, Sequence[str]]]
"""The packet filter of each receiving node (None: none works there), and the refusals of those that do not work."""


def choose(cluster: Cluster, grudge: Grudge, rule: Drop) -> Chosen:
    """Try the filters of every node that is to drop something, all at once. Leaves nothing behind."""
    receivers = named(cluster, [name for name, dropped in grudge.items() if dropped])
    return on_every(receivers, lambda node: _filter_for(node, rule), task="probing for a packet filter")


def lacking(cluster: Cluster, chosen: Chosen, rule: Drop) -> str | None:
    """Return why `drop` cannot use the chosen filters, and what to install; None if it can."""
    unfiltered = [name for name, (means, _) in chosen.items() if means is None]
    if unfiltered and not _may_mislead(cluster, rule):
        return _no_means(unfiltered[0], chosen[unfiltered[0]][1])
    return None


def drop(cluster: Cluster, grudge: Grudge, rule: Drop, *, chosen: Chosen | None = None) -> JSON:
    """Make every node of the grudge drop packets from the nodes that it names; returns the rules as read back.

    `{"observed": True, "nodes": {node: {"means", "cuts", "rules": [text]}}}`. Raises ClusterError, saying what to
    install, if some node has no means; rules may then stand on others until `lift`.
    """
    addresses = {node.name: node.address for node in cluster.nodes}
    chosen = choose(cluster, grudge, rule) if chosen is None else chosen
    if (refusal := lacking(cluster, chosen, rule)) is not None:
        raise ClusterError(refusal)
    unfiltered = [name for name, (means, _) in chosen.items() if means is None]

    def install(node: Node) -> JSON:
        means = chosen[node.name][0]
        assert means is not None
        rules = means.install(node, [addresses[peer] for peer in sorted(grudge[node.name])], rule)
        return {"means": means.name, "cuts": rule.text, "rules": rules}

    filtering = [node for node in named(cluster, list(chosen)) if node.name not in unfiltered]
    effects = on_every(filtering, install, task="dropping packets")
    # A sender that loses its way to the receivers stands in for the filter they lack.
    lost = {
        node.name: [addresses[name] for name in unfiltered if node.name in grudge[name]]
        for node in cluster.nodes
        if any(node.name in grudge[name] for name in unfiltered)
    }

    def misdirect(node: Node) -> JSON:
        return {"means": "neighbour", "cuts": "everything", "rules": neighbours.misdirect(node, lost[node.name], rule)}

    misled = on_every(named(cluster, list(lost)), misdirect, task="dropping packets without a filter")
    for name, effect in misled.items():
        effects[f"{name} (sending)" if name in effects else name] = effect
    return {"observed": bool(effects), "nodes": effects}


def undo(cluster: Cluster, grudge: Grudge, rule: Drop) -> Mapping[str, Sequence[Undo]]:
    """Return the commands that remove the fault from each receiver, and from each sender that may stand in for one."""
    involved = {name for name, dropped in grudge.items() if dropped}.union(*grudge.values())
    steps = [*(step for means in _FILTERS for step in means.undo(rule)), *neighbours.undo(rule)]
    return {node.name: steps for node in cluster.nodes if node.name in involved}


def lift(cluster: Cluster, rule: Drop) -> JSON:
    """Remove every rule and entry of this fault, wherever it is. Idempotent. Returns the counters read before.

    `{"observed", "packets", "nodes": {node: [{"means", "rules": [text], "packets", "bytes"}]}}`; `observed` says that
    packets were dropped, or that a misleading neighbour entry (which counts nothing) was found standing. Nodes without a
    rule of this fault are left out. Raises HealError if a rule is still there, or a node did not answer.
    """

    def clear(node: Node) -> list[dict[str, JSON]]:
        removed = [found for means in _FILTERS if (found := means.remove(node, rule)) is not None]
        if (found := neighbours.restore(node, rule)) is not None:
            removed.append(found)
        return removed

    removed = on_every(list(cluster.nodes), clear, task=f"lifting fault {rule.fault_id}", error=HealError)
    nodes = {name: found for name, found in removed.items() if found}
    pieces = [piece for found in nodes.values() for piece in found]
    packets = sum(piece["packets"] or 0 for piece in pieces)
    return {
        "observed": packets > 0 or any(piece["means"] == "neighbour" for piece in pieces),
        "packets": packets,
        "nodes": nodes,
    }


def missing(cluster: Cluster, rule: Drop) -> str | None:
    """Return why packets cannot be dropped on some node, and what to install; None if they can.

    Nodes that do not run commands yet (a cluster that is not started) are skipped; `drop` asks again.
    """
    reachable = [node for node in cluster.nodes if runs_commands(node)]
    for node in reachable:
        means, refusals = _filter_for(node, rule)
        if means is not None:
            continue
        senders = [peer for peer in reachable if peer.name != node.name] if _may_mislead(cluster, rule) else []
        stand_ins = [neighbours.refusal(sender, [node.address]) for sender in senders]
        if not stand_ins or any(stand_ins):
            return _no_means(node.name, [*refusals, *filter(None, stand_ins)])
    return None


def _may_mislead(cluster: Cluster, rule: Drop) -> bool:
    """Return True if a neighbour entry may replace a filter: it cuts everything between two nodes, and cannot do less."""
    return not rule.selects and not (rule.ports and isinstance(cluster, Guarded))


def _no_means(name: str, refusals: Sequence[str]) -> str:
    return f"node {name} has no means to drop packets: {'; '.join(refusals)}. On that node, {_INSTALL}"


def _filter_for(node: Node, rule: Drop) -> tuple[Filter | None, list[str]]:
    """Return the first filter that works on the node, and the refusals of those before it."""
    refusals: list[str] = []
    for means in _FILTERS:
        refusal = means.refusal(node, rule)
        if refusal is None:
            return means, refusals
        refusals.append(f"{means.name}: {refusal}")
    return None, refusals
