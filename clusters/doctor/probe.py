"""Node probe: one node as the doctor reads it before a run: a transport for commands, and sessions that only read.

Answers that several checks need are kept: the first command's, and the server's row about itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    """One node of a cluster file. `transport` runs commands as the user of the connection."""

    def __init__(
        self,
        name: str,
        address: str,
        transport: Transport,
        file: ClusterFile,
        *,
        cql: CqlConnector,
        system: str | None,
        allowances: Collection[str] | None = None,
    ) -> None:
        """`allowances` are the words of `allow` that the run needs; None: all that the file has."""
        self.name = name
        self.address = address
        self.transport = transport
        self.file = file
        self.cql = cql
        self.system = system
        self.allowances = allowances

    def run(self, *argv: str) -> Executed:
        """Run a command as the user of the connection. Raises NodeUnreachable."""
        return self.transport.run(argv, timeout_s=_COMMAND_LIMIT_S)

    def root(self, *argv: str) -> Executed:
        """Run a command as root. Raises ClusterError if sudo refuses, NodeUnreachable."""
        return self.exec(argv)

    @cached_property
    def as_root(self) -> Transport:
        """The transport that runs every command as root."""
        return self.transport if self.file.become.method == "none" else RootTransport(self.transport, self.file.become)

    def exec(self, argv: Sequence[str], *, timeout_s: float = _COMMAND_LIMIT_S, stdin: str | None = None) -> Executed:
        """Run a command as `schemaquake.harness.model.protocols.Node.exec` does, for nemeses that check what they need."""
        return self.as_root.run(argv, timeout_s=timeout_s, stdin=None if stdin is None else stdin.encode())

    def state(self) -> Literal["running"]:
        """Return "running": nemeses are only asked about servers that were seen to serve."""
        return "running"

    @cached_property
    def ping(self) -> Executed | NodeUnreachable:
        """The result of the first command, or why none could be run."""
        try:
            return self.run("true")
        except NodeUnreachable as error:
            return error

    def rows(self, text: str) -> Sequence[Mapping[str, Any]]:
        """Run a statement that only reads in a session of its own. Raises NodeUnreachable."""
        client = self.cql.connect(self.name, request_timeout_s=_REQUEST_LIMIT_S)
        try:
            return client.read(text)
        finally:
            client.close()

    @cached_property
    def local(self) -> Mapping[str, Any]:
        """The server's row about itself in system.local. Raises NodeUnreachable."""
        rows = self.rows("SELECT * FROM system.local WHERE key = 'local'")
        if not rows:
            raise NodeUnreachable(f"node {self.name} has no row in system.local")
        return rows[0]
