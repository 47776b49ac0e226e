"""Gossip: who is alive, and which schema version each node says it has.

Every second a server sends each peer its state; one that was not heard of for eight seconds is taken for dead. Real
servers reach one or two peers a second and a threshold that adapts (phi); in clusters of a few nodes both come to the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from schemaquake.clusters.simulated.faces import Node, Server
from schemaquake.harness.units import S

__all__ = ["Gossip"]

_BEAT_NS: Final = 1 * S
_DEAD_AFTER_NS: Final = 8 * _BEAT_NS


class Gossip:
    """One server's knowledge of the others."""

    __slots__ = ("_beats", "_has_ended", "_node", "_server", "has_begun", "heard_ns", "states", "up")

    def __init__(self, node: Node, server: Server) -> None:
        self._node = node
        self._server = server
        self._beats = node.kernel.draws.stream("gossip", node.name)
        self.heard_ns: dict[str, int] = {}
        self.states: dict[str, Mapping[str, Any]] = {}
        self.up: dict[str, bool] = {}
        self._has_ended = False
        self.has_begun = False
        """False while the server reads its disk: it does not listen yet, and what is sent to it is lost."""

    def begin(self) -> None:
        """Begin to send beats, the first at once; from now on the server listens to others."""
        self.has_begun = True
        self._beat(_BEAT_NS + self._beats.below(_BEAT_NS // 10))

    def listen(self) -> None:
        """Begin to listen to others, and send nothing yet: they take this server for dead."""
        self.has_begun = True

    def end(self) -> None:
        """Say good-bye to all, and send no more."""
        self._has_ended = True
        for name in self._node.peers:
            self._server.send(name, "gossip", {"shutdown": True})

    def alive(self, name: str) -> bool:
        """Return whether this server takes that node for alive."""
        return name == self._node.name or self.up.get(name, False)

    def living(self, names: Iterable[str]) -> list[str]:
        """Return those nodes that this server takes for alive, in the order given."""
        own, up = self._node.name, self.up
        return [name for name in names if name == own or up.get(name, False)]

    def peers_alive(self) -> list[str]:
        """Return the other nodes that this server takes for alive, in order."""
        return [name for name in self._node.peers if self.up.get(name, False)]

    def tell(self) -> None:
        """Send the present state to every peer now."""
        node = self._node
        state = node.model.gossip(node)
        for name in node.peers:
            self._server.send(name, "gossip", state)

    def hear(self, name: str, state: Mapping[str, Any]) -> None:
        """Take note of another node's state, and let the model see it."""
        node = self._node
        if state.get("shutdown"):
            self._convict(name)
            return
        self.heard_ns[name] = node.kernel.heap.now_ns
        self.states[name] = state
        if not self.up.get(name, False):
            self.up[name] = True
            node.console.info("GossipStage:1", "Gossiper.java:1442", f"InetAddress {node.endpoint(name)} is now UP")
        node.model.heard(node, name, state)

    def forgive(self) -> None:
        """Count silence from now: a server that was paused heard no other, and convicts none for that."""
        now_ns = self._node.kernel.heap.now_ns
        self.heard_ns = dict.fromkeys(self.heard_ns, now_ns)

    def _beat(self, every_ns: int) -> None:
        if self._has_ended:
            return
        now_ns = self._node.kernel.heap.now_ns
        for name, heard_ns in self.heard_ns.items():
            if self.up[name] and now_ns - heard_ns > _DEAD_AFTER_NS:
                self._convict(name)
        if self._node.server is not self._server:
            return  # a request to the dead node was given up, and a fault fell on the step that followed
        self.tell()
        self._server.after(every_ns, lambda: self._beat(every_ns))

    def _convict(self, name: str) -> None:
        if self.up.get(name, False):
            node = self._node
            self.up[name] = False
            node.disconnect(name)
            node.console.info("GossipTasks:1", "Gossiper.java:1450", f"InetAddress {node.endpoint(name)} is now DOWN")
