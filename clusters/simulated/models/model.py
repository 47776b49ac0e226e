"""Model: one design of schema changes and of the data path under it, as protocols on simulated nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from schemaquake.clusters.simulated.kernel import Steps
    from schemaquake.clusters.simulated.node import SimulatedNode
    from schemaquake.clusters.simulated.server import Message
    from schemaquake.harness.model.steps import Invoke

__all__ = ["Model"]


class Model(Protocol):
    """A design. One value serves all nodes of a cluster; what it remembers lies on them (`Server.state`, `Disk.state`)."""

    flaws: frozenset[str]
    """The flaws that are switched on."""
    steps: tuple[str, ...]
    """The names of all its steps, in the order of its protocols."""

    def boot(self, node: SimulatedNode) -> Steps:
        """Start a server from its disk; it serves clients when the steps end. Raises Died."""
        ...

    def receive(self, node: SimulatedNode, message: Message) -> Steps | None:
        """Handle a message of another node (or of its own); None if that took no time."""
        ...

    def serve(self, node: SimulatedNode, request: Invoke) -> Steps:
        """Carry out a client's request and return the value of its completion. Raises ServerSaid."""
        ...

    def gossip(self, node: SimulatedNode) -> Mapping[str, Any]:
        """Return the state that the node tells the others each second."""
        ...

    def heard(self, node: SimulatedNode, name: str, state: Mapping[str, Any]) -> None:
        """Take note of the state that another node told."""
        ...
