"""NodeProbe: one node as the doctor sees it, before anything there is ours: a way for commands, and a session to read by.

What several checks need to know is asked once and kept: the answer to the first knock, the server's word of itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal

from schemaquake.clusters.cluster_file.model import ClusterFile
from schemaquake.clusters.cql.client import CqlConnector
from schemaquake.clusters.nodes.transport import Transport
from schemaquake.clusters.ssh.root_transport import RootTransport
from schemaquake.harness.errors import NodeUnreachable
from schemaquake.harness.model.protocols import Executed

__all__ = ["NodeProbe"]

_COMMAND_LIMIT_S: Final = 20.0
_REQUEST_LIMIT_S: Final = 10.0


class NodeProbe:
    """One node of a cluster file. `way` is the one that the user of the connection has."""

    def __init__(
        self, name: str, address: str, way: Transport, file: ClusterFile, *, cql: CqlConnector, system: str | None
    ) -> None:
        self.name = name
        self.address = address
        self.way = way
        self.file = file
        self.cql = cql
        self.system = system

    def run(self, *argv: str) -> Executed:
        """As the user. Raises NodeUnreachable."""
        return self.way.run(argv, timeout_s=_COMMAND_LIMIT_S)

    def root(self, *argv: str) -> Executed:
        """As root. Raises ClusterError if sudo does not let it, NodeUnreachable."""
        return self.exec(argv)

    @cached_property
    def as_root(self) -> Transport:
        """The way on which everything is carried out as root."""
        return self.way if self.file.become.method == "none" else RootTransport(self.way, self.file.become)

    def exec(self, argv: Sequence[str], *, timeout_s: float = _COMMAND_LIMIT_S, stdin: str | None = None) -> Executed:
        """As a `schemaquake.harness.model.protocols.Node` would, so that nemeses can be asked whether they can work here."""
        return self.as_root.run(argv, timeout_s=timeout_s, stdin=None if stdin is None else stdin.encode())

    def state(self) -> Literal["running"]:
        """For nemeses that ask servers which run; they are asked when it was seen to serve."""
        return "running"

    @cached_property
    def ping(self) -> Executed | NodeUnreachable:
        """What came of the first command, or why none could be carried out."""
        try:
            return self.run("true")
        except NodeUnreachable as error:
            return error

    def rows(self, text: str) -> Sequence[Mapping[str, Any]]:
        """What the server answers to a statement that only reads, in a session of its own. Raises NodeUnreachable."""
        client = self.cql.connect(self.name, request_timeout_s=_REQUEST_LIMIT_S)
        try:
            return client.read(text)
        finally:
            client.close()

    @cached_property
    def local(self) -> Mapping[str, Any]:
        """The server's row about itself. Raises NodeUnreachable."""
        rows = self.rows("SELECT * FROM system.local WHERE key = 'local'")
        if not rows:
            raise NodeUnreachable(f"node {self.name} says nothing of itself in system.local")
        return rows[0]
