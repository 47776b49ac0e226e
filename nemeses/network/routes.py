"""Routes: by which device a node reaches a peer, and whether the peer is on that device's link."""

from __future__ import annotations

import json
from dataclasses import dataclass

from schemaquake.harness.model.protocols import Node
from schemaquake.nemeses.schedule.commands import must

__all__ = ["Route", "route_to"]


@dataclass(frozen=True, slots=True)
class Route:
    """The way to one peer."""

    device: str
    is_direct: bool
    """Not through a router."""


def route_to(node: Node, peer: str) -> Route:
    """The way from a node to an address; raises ClusterError if there is none, or no iproute2 to ask."""
    found = json.loads(must(node, "ip", "-j", "route", "get", peer))[0]
    return Route(str(found["dev"]), is_direct="gateway" not in found and "via" not in found)
