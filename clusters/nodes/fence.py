"""Fence: a transport for the commands of one fault, each of which its guard on the node lets through or refuses.

The node itself decides, at the moment at which the command would act: a harness that was suspended, or whose network was
cut, and comes back when its fault has expired changes nothing any more.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemaquake.clusters.nodes.guard import Guard
from schemaquake.clusters.nodes.transport import Transport
from schemaquake.harness.model.protocols import Executed

__all__ = ["FencedTransport"]


class FencedTransport:
    """A `Transport` whose commands run only while the guard of one fault stands and its time is not over.

    A command that is refused raises ClusterError. Files go their usual way: none does anything by lying there.
    """

    def __init__(self, transport: Transport, guard: Guard, fault_id: int) -> None:
        """`guard` is that of the same node."""
        self._transport = transport
        self._guard = guard
        self._fault_id = fault_id

    def run(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: bytes | None = None) -> Executed:
        """Run a command behind the fence; see `Transport.run`."""
        done = self._transport.run(self._guard.fenced(self._fault_id, argv), timeout_s=timeout_s, stdin=stdin)
        self._guard.require_let_through(done, self._fault_id)
        return done

    def put(self, content: bytes, target: str, *, mode: int = 0o644) -> None:
        """Write a file; see `Transport.put`."""
        self._transport.put(content, target, mode=mode)

    def get(self, source: str) -> bytes:
        """Read a file; see `Transport.get`."""
        return self._transport.get(source)

    def close(self) -> None:
        """Close the transport underneath; see `Transport.close`."""
        self._transport.close()

    def described(self) -> str:
        """Name the other end; see `Transport.described`."""
        return self._transport.described()
