"""Steps: how far an operation on the topology has come, by the word of every member that answers."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

from schemaquake.clusters.cql.client import CqlClient, CqlConnector
from schemaquake.clusters.nodes.node import ServerNode
from schemaquake.clusters.systems.dialect import StepReading
from schemaquake.clusters.systems.system import System
from schemaquake.harness.errors import ClusterError, NodeUnreachable

__all__ = ["StepReader"]

_REQUEST_LIMIT_S: Final = 2.0


class StepReader:
    """Reads the steps, by one session with each node that is kept open."""

    def __init__(self, nodes: Sequence[ServerNode], connector: CqlConnector | None, system: System) -> None:
        """Nothing is read of a system without CQL, or whose dialect reads no steps."""
        self._nodes = nodes
        self._connector = connector
        ring: object = None if system.cql is None else system.cql.ring
        self.shown: Collection[str] = ring.steps if isinstance(ring, StepReading) else ()
        """The steps that can be read of this system."""
        self._clients: dict[str, CqlClient] = {}
        self._turn = threading.Lock()

    def read(self, names: Sequence[str]) -> Collection[str]:
        """Ask every node that answers for the steps of the operation of these nodes."""
        if not self.shown:
            return ()
        addresses = [node.address for node in self._nodes if node.name in names]
        found: set[str] = set()
        with self._turn:
            for node in self._nodes:
                with suppress(ClusterError, OSError):
                    client = self._client(node)
                    if client is not None:
                        found |= self._ask(node, client, addresses)
        return found

    def close(self) -> None:
        """Close all sessions."""
        for client in self._clients.values():
            client.close()
        self._clients = {}

    def _ask(self, node: ServerNode, client: CqlClient, addresses: Sequence[str]) -> frozenset[str]:
        reading: object = client.dialect.ring
        try:
            return (
                frozenset(reading.read_steps(client.read, addresses))
                if isinstance(reading, StepReading)
                else frozenset()
            )
        except NodeUnreachable:
            self._clients.pop(node.name).close()
            raise

    def _client(self, node: ServerNode) -> CqlClient | None:
        """Return the session with a node; None for one that does not answer clients."""
        if node.state() != "running":
            return None
        if node.name not in self._clients:
            if self._connector is None or not node.answers():
                return None
            self._clients[node.name] = self._connector.connect(node.name, request_timeout_s=_REQUEST_LIMIT_S)
        return self._clients[node.name]
