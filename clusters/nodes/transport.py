"""Transport: how an argument vector and a file get to a node that is not on this machine, and back.

A host behind SSH and a container behind its engine differ in nothing else, so everything above works over both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from schemaquake.harness.model.protocols import Executed

__all__ = ["Transport"]


class Transport(Protocol):
    """One way to one node. Safe to use from several threads."""

    def run(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: bytes | None = None) -> Executed:
        """Carry out a command and wait for it; whatever its exit code. An argument vector, never a line for a shell.

        Raises NodeUnreachable if the node does not answer or the command does not end in time: then nobody knows
        whether it was carried out, and it is not repeated.
        """
        ...

    def put(self, content: bytes, target: str, *, mode: int = 0o644) -> None:
        """Write a file, whole or not at all. Its folder must be there. Raises NodeUnreachable, ClusterError."""
        ...

    def get(self, source: str) -> bytes:
        """The content of a file. Raises FileNotFoundError, NodeUnreachable, ClusterError."""
        ...

    def close(self) -> None:
        """Let go of what is open; may be called twice. The next command would open it again."""
        ...

    def described(self) -> str:
        """Where this leads, in words: `ssh cassandra@10.0.0.1:22`, `container sq-n1`."""
        ...
