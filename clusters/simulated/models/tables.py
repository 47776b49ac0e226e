"""Tables: what a simulated node answers of its schema and of the members that it knows, in the tables of real servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from schemaquake.clusters.simulated.faces import Node
from schemaquake.clusters.simulated.models.serving import server_of
from schemaquake.clusters.simulated.topology import Topology, even_topology, former_of, is_former, shown_token
from schemaquake.harness.placements.ring import Location

__all__ = ["answer_from_tables", "founding_topology"]

_NEXT: Final = {"PREPARE": "START", "START": "MID", "MID": "FINISH"}


def founding_topology(node: Node) -> Topology:
    """Return the topology of the founders, for designs whose ring does not change."""
    host_ids = tuple(node.founder_ids[name] for name in node.founders)
    return _founding(node.founders, host_ids, tuple(node.locations.items()))


@lru_cache(maxsize=64)
def _founding(
    names: tuple[str, ...], host_ids: tuple[str, ...], locations: tuple[tuple[str, Location], ...]
) -> Topology:
    return even_topology(names, dict(zip(names, host_ids, strict=True)), locations=dict(locations))


def _place(location: Location) -> Mapping[str, str]:
    return {"data_center": location.data_center, "rack": location.rack}


def answer_from_tables(node: Node, text: str, topology: Topology | None = None) -> Iterable[Mapping[str, Any]]:
    """Answer a statement about members or schema. Without a topology the members are the founders."""
    if "FROM system.local" in text:
        return [_own(node, topology or founding_topology(node))]
    if "FROM system.peers" in text:
        return _peers(node, topology or founding_topology(node))
    if "FROM system_views.gossip_info" in text:
        return _gossip(node, topology or founding_topology(node))
    if "FROM system_views.cluster_metadata_directory" in text and topology is not None:
        return _directory(node, topology)
    return node.disk.schema.table(text.partition(" FROM system_schema.")[2].partition(" ")[0])


def _own(node: Node, topology: Topology) -> Mapping[str, Any]:
    seat = topology.seats.get(node.name)
    return {
        "schema_version": server_of(node).version,
        "release_version": "simulated",
        "broadcast_address": node.addresses[node.name],
        **_place(node.location),
        "host_id": node.host_ids.get(node.name),
        "tokens": [shown_token(token) for token in seat.tokens] if seat is not None else [],
    }


def _peers(node: Node, topology: Topology) -> Sequence[Mapping[str, Any]]:
    return [
        {
            "peer": node.addresses[name],
            "rpc_address": node.addresses[name],
            **_place(seat.location),
            "host_id": seat.host_id,
            "tokens": [shown_token(token) for token in seat.tokens],
        }
        for name, seat in topology.seats.items()
        if name not in {node.name, former_of(node.name)} and seat.state in {"normal", "leaving", "moving"}
    ]


def _gossip(node: Node, topology: Topology) -> Sequence[Mapping[str, Any]]:
    words = {"joining": "BOOT", "normal": "NORMAL", "leaving": "LEAVING", "moving": "MOVING"}
    return [
        {"address": node.addresses[name], "status": words.get(seat.state, "LEFT")}
        for name, seat in topology.seats.items()
        if seat.state != "registered" and not is_former(name)
    ]


def _directory(node: Node, topology: Topology) -> Sequence[Mapping[str, Any]]:
    states = {
        "registered": "REGISTERED",
        "joining": "BOOTSTRAPPING",
        "normal": "JOINED",
        "leaving": "LEAVING",
        "moving": "MOVING",
        "left": "LEFT",
        "replaced": "LEFT",
    }
    moves = {move.node: move for move in topology.moves}
    return [
        {
            "broadcast_address": node.addresses[name],
            "host_id": seat.host_id,
            "state": "BOOT_REPLACING" if name in moves and moves[name].change == "replace" else states[seat.state],
            "tokens": [shown_token(token) for token in seat.tokens],
            "multi_step_operation": f"nextStep={_NEXT[moves[name].step]}_{moves[name].change.upper()}"
            if name in moves
            else None,
        }
        for name, seat in topology.seats.items()
        if seat.state != "replaced"
    ]
