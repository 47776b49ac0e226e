"""Drops: what a fault does to packets, and what a means of dropping them on arrival must be able to do."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from harness.errors import ClusterError, PlanError
from harness.operations import JSON
from harness.protocols import Node

__all__ = ["STORAGE_PORTS", "Drop", "Filter", "ip_version", "ports_named"]

STORAGE_PORTS: Final = (7000, 7001)
"""Cassandra's internode port, plain and over TLS. CQL is 9042 and never among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """What one fault drops, wherever it does."""

    fault_id: int
    ports: tuple[int, ...] = STORAGE_PORTS
    """TCP ports, as source or destination, for connections go both ways; () is every packet between the nodes."""
    probability: float = 1.0

    @property
    def name(self) -> str:
        """Of the chain or table: the fault's own, so that healing needs nothing else and spares what others made."""
        return f"schemaquake_{self.fault_id}"

    @property
    def text(self) -> str:
        """What is dropped, in words."""
        cuts = f"tcp ports {', '.join(map(str, self.ports))}" if self.ports else "everything"
        return cuts if self.probability == 1 else f"{self.probability:.1%} of {cuts}"


class Filter(Protocol):
    """A packet filter of the receiving node's."""

    name: str

    def refusal(self, node: Node, what: Drop) -> str | None:
        """Why such a rule cannot be made on this node, in the tool's words; null if it can. Leaves nothing behind."""
        ...

    def install(self, node: Node, sources: Sequence[str], what: Drop) -> list[str]:
        """Drop what arrives from these addresses; returns the rules as read back. Raises ClusterError."""
        ...

    def remove(self, node: Node, what: Drop) -> dict[str, JSON] | None:
        """Take the fault's rules away; raises HealError if they stay.

        Returns `{"means", "rules": [text], "packets", "bytes"}` as counted before, null if there were none.
        """
        ...


def ip_version(address: str) -> int:
    """4 or 6. Raises ClusterError for a name: a rule made from one would match whatever it resolves to that day."""
    try:
        return ipaddress.ip_address(address).version
    except ValueError as error:
        raise ClusterError(f"packets can be dropped by numeric address only, and {address!r} is none") from error


def ports_named(text: str) -> tuple[int, ...]:
    """The ports of a fault's parameter: `storage`, `all` (that is ()), or numbers separated by `+`. Raises PlanError."""
    match text:
        case "storage":
            return STORAGE_PORTS
        case "all":
            return ()
    try:
        ports = tuple(int(part) for part in text.split("+"))
    except ValueError:
        ports = ()
    if not ports or not all(0 < port < 65536 for port in ports):
        raise PlanError(f'ports "{text}": neither "storage", "all", nor numbers separated by "+"')
    return ports
