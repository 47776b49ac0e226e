"""Transport: how commands and files reach a node and come back.

A host behind SSH, a container behind its engine and a network namespace of this machine differ in nothing else, so
everything above works over all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from schemaquake.harness.errors import NodeUnreachable
from schemaquake.harness.model.protocols import Executed

__all__ = ["NoTransport", "Transport", "read_by"]


class Transport(Protocol):
    """A connection to one node. Safe to use from several threads."""

    def run(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: bytes | None = None) -> Executed:
        """Run an argument vector, never a line for a shell, and wait for its end, whatever its exit code.

        Raises NodeUnreachable if the node does not answer or the command does not end in time. Then it is not known
        whether the command ran, and it is not repeated.
        """
        ...

    def put(self, content: bytes, target: str, *, mode: int = 0o644) -> None:
        """Write a file into a folder that exists, whole or not at all. Raises NodeUnreachable, ClusterError."""
        ...

    def get(self, source: str) -> bytes:
        """Read a file. Raises FileNotFoundError, NodeUnreachable, ClusterError."""
        ...

    def close(self) -> None:
        """Close what is open; may be called twice. The next command opens it again."""
        ...

    def described(self) -> str:
        """Name the other end for messages: `ssh cassandra@10.0.0.1:22`, `container sq-n1`."""
        ...


class NoTransport:
    """The transport of a node that is only shown, before anything of a run is made: whatever is asked of it raises NodeUnreachable."""

    def __init__(self, name: str) -> None:
        self._name = name

    def run(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: bytes | None = None) -> Executed:  # noqa: ARG002 - a transport's
        """Raise NodeUnreachable."""
        raise NodeUnreachable(f"{self.described()} cannot run {argv[0]}")

    def put(self, content: bytes, target: str, *, mode: int = 0o644) -> None:  # noqa: ARG002 - as above
        """Raise NodeUnreachable."""
        raise NodeUnreachable(f"{self.described()} cannot take {target}")

    def get(self, source: str) -> bytes:
        """Raise NodeUnreachable."""
        raise NodeUnreachable(f"{self.described()} has no {source}")

    def close(self) -> None:
        """Do nothing: nothing was opened."""

    def described(self) -> str:
        """Name the node, and say that it is not asked."""
        return f"{self._name}, which is not asked before a run,"


def read_by(transport: Transport, argv: Sequence[str], *, timeout_s: float = 30) -> Executed:
    """Run a command that may run twice without harm: once more over a new session if the first one broke."""
    with suppress(NodeUnreachable):
        return transport.run(argv, timeout_s=timeout_s)
    return transport.run(argv, timeout_s=timeout_s)
