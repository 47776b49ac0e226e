"""Neighbours: mislead a *sending* node about where its peers are, with iproute2 alone.

A permanent neighbour entry with an unused link address makes the node lose its packets for that peer. It needs both
nodes on one link, knows neither ports nor probabilities, and counts nothing; the entry itself is the evidence.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from schemaquake.harness.errors import ClusterError, HealError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Node, Undo
from schemaquake.nemeses.network.drops import Drop
from schemaquake.nemeses.network.routes import route_to
from schemaquake.nemeses.schedule.commands import describe_failure, must, run

__all__ = ["misdirect", "refusal", "restore", "undo"]

_OURS: Final = "02:73"
"""The first bytes of our link addresses: locally administered, and "s". The run's tag and the fault's id follow."""

_NO_TAG: Final = "7100"

# Only entries that lead to our address are deleted: an entry that the node's owner made for the same peer stays.
_RESTORE: Final = (
    "ip neigh show nud permanent | while read -r peer _ device _ address _; do "
    'if [ "$address" = "$1" ]; then ip neigh del "$peer" dev "$device"; fi; done'
)
_GONE: Final = (
    "command -v ip > /dev/null || exit 0; "
    'shown=$(ip neigh show nud permanent) || exit 1; case $shown in *"$1"*) exit 1 ;; esac'
)


def refusal(node: Node, peers: Sequence[str]) -> str | None:
    """Return why entries for these peers cannot be made, None if they can. Tries an address reserved for documentation."""
    try:
        for device in {_device(node, peer) for peer in peers}:
            entry = ["192.0.2.255", "dev", device]
            must(node, "ip", "neigh", "replace", *entry, "lladdr", f"{_OURS}:ff:ff:ff:ff", "nud", "permanent")
            must(node, "ip", "neigh", "del", *entry)
    except ClusterError as error:
        return f"neighbour: {error}"
    return None


def misdirect(node: Node, peers: Sequence[str], rule: Drop) -> list[str]:
    """Lose packets for these peers, and return the entries as read back.

    Raises ClusterError, also if another fault already misleads this node about one of them, or if the node has a permanent
    entry of its own for one of them: an entry that is replaced is lost.
    """
    taken = {entry["dst"]: entry["lladdr"] for entry in _entries(node, "") if entry["dst"] in peers}
    misled = [peer for peer, address in taken.items() if address.startswith(_OURS)]
    if misled:
        raise ClusterError(f"{node.name} is already misled about {', '.join(misled)} by another fault")
    if taken:
        raise ClusterError(f"{node.name} has permanent neighbour entries of its own for {', '.join(taken)}")
    for peer in peers:
        entry = [peer, "dev", _device(node, peer), "lladdr", _unused_address(rule), "nud", "permanent"]
        must(node, "ip", "neigh", "replace", *entry)
    entries = _entries(node, _unused_address(rule))
    if len(entries) != len(peers):
        raise ClusterError(f"{node.name} has {len(entries)} misleading entries where {len(peers)} were made")
    return [json.dumps(entry) for entry in entries]


def undo(rule: Drop) -> list[Undo]:
    """Return commands that delete this fault's entries. They are harmless where there are none."""
    address = _unused_address(rule)
    return [Undo(("sh", "-c", _RESTORE, "sh", address), whole=("sh", "-c", _GONE, "sh", address))]


def restore(node: Node, rule: Drop) -> dict[str, JSON] | None:
    """Delete this fault's entries, and return them in the shape of `Filter.remove`; None if there were none.

    Raises HealError if they stay.
    """
    entries = _entries(node, _unused_address(rule))
    for step in undo(rule):
        if entries:
            run(node, *step.argv)
        if (left := run(node, *step.whole)).exit_code != 0:
            raise HealError(f"misleading neighbour entries may still be there on {node.name}: {describe_failure(left)}")
    if not entries:
        return None
    return {"means": "neighbour", "rules": [json.dumps(entry) for entry in entries], "packets": None, "bytes": None}


def _unused_address(rule: Drop) -> str:
    tag = rule.tag or _NO_TAG
    high, low = (rule.fault_id % 0x10000).to_bytes(2, "big")
    return f"{_OURS}:{tag[:2]}:{tag[2:]}:{high:02x}:{low:02x}"


def _device(node: Node, peer: str) -> str:
    route = route_to(node, peer)
    if not route.is_direct:
        raise ClusterError(f"{node.name} reaches {peer} through a router, so a neighbour entry cuts nothing")
    return route.device


def _entries(node: Node, link_address: str) -> list[dict[str, Any]]:
    """Return the node's permanent entries whose link address starts with this one; none where there is no iproute2."""
    listed = run(node, "ip", "-j", "neigh", "show", "nud", "permanent")
    if listed.exit_code != 0:
        return []
    entries = json.loads(listed.stdout or "[]")
    return [entry for entry in entries if entry.get("lladdr", "").startswith(link_address)]
