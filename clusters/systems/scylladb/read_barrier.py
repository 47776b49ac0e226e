"""Read barrier: have a node apply all that was committed to group 0 before, asked from afar or on the node itself.

From afar only an interface that is open to the harness answers (`schemaquake.clusters.systems.scylladb.rest`), and by
default it listens on loopback alone. Asked on the node, by curl, it needs no more than what faults need there, too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from schemaquake.clusters.systems.dialect import Barrier
from schemaquake.clusters.systems.scylladb.rest import REST_PORT, read_barrier
from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.protocols import Executed, Node

__all__ = ["Group0Barrier", "catch_up"]

_NOBODY_LISTENS = 7  # curl's exit code


@dataclass(frozen=True, slots=True)
class Group0Barrier:
    """A `ReadBarrier` over ScyllaDB's REST interface."""

    port: int = REST_PORT

    def wait(self, address: str, *, timeout_s: float) -> Barrier:
        """Ask the node from afar."""
        return read_barrier(address, port=self.port, timeout_s=timeout_s)

    def wait_on(self, node: Node, *, timeout_s: float) -> Barrier:
        """Ask the node on itself, by curl."""
        return catch_up(node, timeout_s=timeout_s, port=self.port)


def catch_up(node: Node, *, timeout_s: float, port: int = REST_PORT) -> Barrier:
    """Have the node apply all that was committed to group 0 before. Raises nothing: a failure is in the answer."""
    began = time.monotonic()
    why: str | None = None
    address = f"[{node.address}]" if ":" in node.address else node.address
    for at in ("127.0.0.1", address):
        done = _asked(node, f"http://{at}:{port}/raft/read_barrier?timeout={max(1, int(timeout_s))}", timeout_s)
        why = None if done.exit_code == 0 else _words(done)
        if done.exit_code != _NOBODY_LISTENS:
            break
    return Barrier(passed=why is None, seconds=time.monotonic() - began, why=why)


def _asked(node: Node, url: str, timeout_s: float) -> Executed:
    """The server gives up first, so that its own words arrive."""
    limit_s = timeout_s + 2
    argv = ("curl", "-sS", "--fail", "--globoff", "--max-time", f"{limit_s:g}", "--request", "POST", url)
    try:
        return node.exec(argv, timeout_s=limit_s + 5)
    except FileNotFoundError:
        return Executed(127, "", "there is no curl on it")
    except (ClusterError, OSError) as error:
        return Executed(255, "", str(error))


def _words(done: Executed) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[0] if lines else f"curl ended with exit code {done.exit_code}"
