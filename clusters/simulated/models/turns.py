"""Turns: one schema change at a time, in designs that have no order of their own (`-O order=turns`).

A free arbiter gives a coordinator the turn when all nodes serve and have one version, so that its change begins on what everybody has;
or when it had the last turn, too, and so has every change, whoever has not heard of the last ones. What was created and dropped again
leaves the version as it was, so that the deletions of the last one have to be everywhere, too.
What follows is the design's own protocol: its rows, pushes, merges and pulls. Without the flaw `no-order` that has to be silent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from schemaquake.clusters.simulated.faces import Node, Server, Steps
from schemaquake.clusters.simulated.models.serving import server_of
from schemaquake.clusters.simulated.processes import Sleep
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.topology import Topology
from schemaquake.harness.units import MS

__all__ = ["Turns"]

_WAITS_NS: Final = 10_000 * MS
_LOOKS_EVERY_NS: Final = 20 * MS
_GONE: Final = frozenset({"left", "replaced"})


class Turns:
    """The turns of one cluster's coordinators."""

    def __init__(self, *, gives_up_with: str) -> None:
        """`gives_up_with` is the class of the error by which a coordinator says that it did not get the turn in time."""
        self._gives_up_with = gives_up_with
        self._nodes: dict[str, Node] = {}
        self._holder: tuple[Node, Server] | None = None
        self._last: Server | None = None
        """The server that had the last turn, if it came to its end."""
        self._before: Node | None = None
        """The node that had the last turn, however it ended."""

    def meet(self, node: Node) -> None:
        """Take note of a node that starts: from now on no turn is given without it."""
        self._nodes[node.name] = node

    def in_turn(self, node: Node, steps: Steps) -> Steps:
        """Carry out steps while no other node changes the schema. Raises ServerSaid if that does not come to be."""
        server = server_of(node)
        ends_ns = node.kernel.heap.now_ns + _WAITS_NS
        while not self._is_free(node):
            if node.kernel.heap.now_ns >= ends_ns:
                raise ServerSaid(self._gives_up_with, "")
            yield Sleep(_LOOKS_EVERY_NS)
        self._holder, self._last, self._before = (node, server), None, node
        try:
            yield Sleep(2 * MS)  # timestamps are whole milliseconds, and this change has a later one than that before
            result = yield from steps
            self._last = server
            return result
        finally:
            # The steps of a server that was killed end when Python collects them; its turn is over already.
            if node.server is server:
                self._holder = None

    def _is_free(self, node: Node) -> bool:
        if self._holder is not None and self._holder[0].server is self._holder[1]:
            return False
        if self._last is not None and self._last is node.server:
            return True
        ring = server_of(node).ring
        seats = ring.seats if isinstance(ring, Topology) else {}
        nodes = [node for name, node in self._nodes.items() if name not in seats or seats[name].state not in _GONE]
        servers = [node.server for node in nodes]
        return (
            all(each is not None and each.phase == "serving" for each in servers)
            and len({each.version for each in servers if each is not None}) == 1
            and (self._before is None or _have_deletions_of(self._before, nodes))
        )


def _have_deletions_of(last: Node, nodes: Iterable[Node]) -> bool:
    """Tell if nodes have every deletion of the one that had the last turn."""
    return all(node.disk.schema.has_deletions_of(last.disk.schema) for node in nodes)
