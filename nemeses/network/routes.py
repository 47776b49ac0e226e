"""Routes: the device by which a node reaches a peer, and whether the peer is on that device's link."""

from __future__ import annotations

import json
from dataclasses import dataclass

from schemaquake.harness.model.protocols import Node
from schemaquake.nemeses.schedule.commands import must

__all__ = ["Route", "route_to"]


@dataclass(frozen=True, slots=True)
class Route:
    """The route to one peer."""

    device: str
    is_direct: bool
    """True without a router in between."""


def route_to(node: Node, peer: str) -> Route:
    """Return the route from a node to an address. Raises ClusterError if there is none, or no iproute2 to ask."""
    found = json.loads(must(node, "ip", "-j", "route", "get", peer))[0]
    return Route(str(found["dev"]), is_direct="gateway" not in found and "via" not in found)
