"""Gossip: which of the others a node knows, by CQL, and which of them it takes for alive, which only its log tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from schemaquake.clusters.systems.dialect import Query

__all__ = ["Gossip", "Membership", "last_words"]

_ALIVE: Final = re.compile(
    r"[/ ](?P<address>[0-9.]+)(?::[0-9]+)? (?:is|has restarted,) now (?P<state>UP|DOWN|dead)"
    r"|FatClient \S*/(?P<forgotten>[0-9.]+)(?::[0-9]+)? has been silent"
)
"""The latter of a node that was joining: gossip forgets it, on 6.0 before it was ever taken for dead."""


class Membership(Protocol):
    """The queries that tell whether a ring is whole."""

    def read_peers(self, query: Query) -> frozenset[str]:
        """Read the addresses of the nodes that this one knows, its own excepted."""
        ...

    def liveness(self, log: str) -> Mapping[str, str]:
        """Find the log's last word on each address: UP, DOWN or dead. Addresses that it never spoke of are absent."""
        ...


@dataclass(frozen=True, slots=True)
class Gossip:
    """The membership of servers that gossip, from `system.peers` and from what they log."""

    def read_peers(self, query: Query) -> frozenset[str]:
        """Read both addresses of every peer: the one that nodes use and the one that clients use."""
        rows = query("SELECT peer, rpc_address FROM system.peers")
        return frozenset(str(address) for row in rows for address in row.values())

    def liveness(self, log: str) -> Mapping[str, str]:
        """Find the log's last word on each address; see `last_words`."""
        return last_words(log)


def last_words(text: str) -> Mapping[str, str]:
    """Find the log's last word on each address: UP, DOWN or dead. Addresses that it never spoke of are absent."""
    return {match["address"] or match["forgotten"]: match["state"] or "dead" for match in _ALIVE.finditer(text)}
