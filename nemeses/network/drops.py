"""Drops: what a fault does to packets, and what a means of dropping them on arrival must be able to do."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from schemaquake.harness.errors import ClusterError, PlanError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Fault, Node

__all__ = ["STORAGE_PORTS", "Drop", "Filter", "ip_version", "ports_named", "tag_of"]

STORAGE_PORTS: Final = (7000, 7001)
"""Cassandra's internode port, plain and over TLS. CQL is 9042 and never among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """What one fault drops, wherever it does."""

    fault_id: int
    tag: str = ""
    """Four hexadecimal digits of the run's, where what it makes could meet what another run made."""
    ports: tuple[int, ...] = STORAGE_PORTS
    """TCP ports, as source or destination, for connections go both ways; () is every packet between the nodes."""
    probability: float = 1.0
    above_bytes: int = 0
    """Only packets that are longer, headers included: what a way with too small an MTU swallows."""

    @property
    def name(self) -> str:
        """Of the chain or table: the fault's own, so that healing needs nothing else and spares what others made.

        iptables takes 28 characters, six of which are for the probe's name.
        """
        return f"schemaquake_{self.tag}_{self.fault_id}" if self.tag else f"schemaquake_{self.fault_id}"

    @property
    def text(self) -> str:
        """What is dropped, in words."""
        cuts = f"tcp ports {', '.join(map(str, self.ports))}" if self.ports else "everything"
        cuts = f"packets of more than {self.above_bytes} bytes of {cuts}" if self.above_bytes else cuts
        return cuts if self.probability == 1 else f"{self.probability:.1%} of {cuts}"

    @property
    def selects(self) -> bool:
        """Whether some packets between the same two are let through, so that only a filter can do it."""
        return self.probability < 1 or self.above_bytes > 0


class Filter(Protocol):
    """A packet filter of the receiving node's."""

    name: str

    def refusal(self, node: Node, what: Drop) -> str | None:
        """Why such a rule cannot be made on this node, in the tool's words; null if it can. Leaves nothing behind."""
        ...

    def install(self, node: Node, sources: Sequence[str], what: Drop) -> list[str]:
        """Drop what arrives from these addresses; returns the rules as read back. Raises ClusterError."""
        ...

    def undo(self, what: Drop) -> list[tuple[str, ...]]:
        """Commands that take the fault's rules away, and whatever its installation may have left; harmless otherwise."""
        ...

    def remove(self, node: Node, what: Drop) -> dict[str, JSON] | None:
        """Take the fault's rules away by the same commands; raises HealError if they stay.

        Returns `{"means", "rules": [text], "packets", "bytes"}` as counted before, null if there were none.
        """
        ...


def tag_of(fault: Fault) -> str:
    """The run's tag in a fault's parameters: there only on a cluster that outlives the run."""
    return str(fault.parameters.get("tag", ""))


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
