"""Drops: the packets that a fault drops on arrival, and the protocol of the filters that drop them."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from schemaquake.harness.errors import ClusterError, PlanError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Fault, Node, Undo

__all__ = ["STORAGE_PORTS", "Drop", "Filter", "ip_version", "ports_named", "tag_of"]

STORAGE_PORTS: Final = (7000, 7001)
"""Cassandra's internode ports, plain and over TLS. CQL's is 9042."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """The packets that one fault drops, on every node alike."""

    fault_id: int
    tag: str = ""
    """Four hexadecimal digits that identify the run on a cluster that outlives it; empty elsewhere."""
    ports: tuple[int, ...] = STORAGE_PORTS
    """TCP ports, matched as source or destination, since connections go both ways; () is every packet between the nodes."""
    probability: float = 1.0
    above_bytes: int = 0
    """The packet size, headers included, above which packets are dropped, as on a path whose MTU is too small; 0: any size."""

    @property
    def name(self) -> str:
        """Name of the fault's own chain or table, by which healing finds it and spares the rules of others.

        iptables takes 28 characters, six of which are for the probe's name.
        """
        return f"schemaquake_{self.tag}_{self.fault_id}" if self.tag else f"schemaquake_{self.fault_id}"

    @property
    def text(self) -> str:
        """The dropped packets in a phrase."""
        cuts = f"tcp ports {', '.join(map(str, self.ports))}" if self.ports else "everything"
        cuts = f"packets of more than {self.above_bytes} bytes of {cuts}" if self.above_bytes else cuts
        return cuts if self.probability == 1 else f"{self.probability:.1%} of {cuts}"

    @property
    def selects(self) -> bool:
        """True if some packets between the same two nodes pass, which only a packet filter can do."""
        return self.probability < 1 or self.above_bytes > 0


class Filter(Protocol):
    """A packet filter on the receiving node."""

    name: str

    def refusal(self, node: Node, rule: Drop) -> str | None:
        """Return why this rule cannot be made on the node, in the tool's words; None if it can. Leaves nothing behind."""
        ...

    def install(self, node: Node, sources: Sequence[str], rule: Drop) -> list[str]:
        """Drop packets that arrive from these addresses, and return the rules as read back. Raises ClusterError."""
        ...

    def undo(self, rule: Drop) -> list[Undo]:
        """Return commands that remove the fault's rules and any partial installation. They are harmless if run again."""
        ...

    def remove(self, node: Node, rule: Drop) -> dict[str, JSON] | None:
        """Remove the fault's rules by the commands of `undo`. Raises HealError if they stay.

        Returns `{"means", "rules": [text], "packets", "bytes"}` as counted before; None if there were no rules.
        """
        ...


def tag_of(fault: Fault) -> str:
    """Return the run's tag in a fault's parameters: set only on a cluster that outlives the run."""
    return str(fault.parameters.get("tag", ""))


def ip_version(address: str) -> int:
    """Return 4 or 6. Raises ClusterError for a name: a rule made from one would match whatever it resolves to that day."""
    try:
        return ipaddress.ip_address(address).version
    except ValueError as error:
        raise ClusterError(f"packets can be dropped by numeric address only, and {address!r} is none") from error


def ports_named(text: str) -> tuple[int, ...]:
    """Parse the ports of a fault's parameter: `storage`, `all` (that is ()), or numbers separated by `+`. Raises PlanError."""
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
