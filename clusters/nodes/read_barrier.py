"""Read barrier on the node itself: where ScyllaDB's REST interface listens on loopback alone, as it does by default.

The client that reads a node asks it for a barrier from afar (`schemaquake.clusters.cql.scylla_rest`), which only an interface that is open
to the harness answers. Asked on the node, by curl, it needs no more than what faults need there, too.
"""

from __future__ import annotations

import time

from schemaquake.clusters.cql.scylla_rest import REST_PORT, Barrier
from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.protocols import Executed, Node

__all__ = ["catch_up"]

_NOBODY_LISTENS = 7  # curl's exit code


def catch_up(node: Node, *, timeout_s: float) -> Barrier:
    """Have the node apply all that was committed to group 0 before. Raises nothing: that it could not is told."""
    began = time.monotonic()
    why: str | None = None
    address = f"[{node.address}]" if ":" in node.address else node.address
    for at in ("127.0.0.1", address):
        done = _asked(node, f"http://{at}:{REST_PORT}/raft/read_barrier?timeout={max(1, int(timeout_s))}", timeout_s)
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
    told = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return told[0] if told else f"curl ended with exit code {done.exit_code}"
