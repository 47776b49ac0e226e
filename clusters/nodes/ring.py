"""Ring: whether all nodes of a cluster know each other and take each other for alive."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schemaquake.clusters.nodes.node import ServerNode
from schemaquake.clusters.systems.gossip import Membership
from schemaquake.harness.wait import until

__all__ = ["await_none_missing", "taken_for_dead"]


def taken_for_dead(
    node: ServerNode, others: Sequence[ServerNode], membership: Membership, *, silence_counts: bool
) -> list[str]:
    """Describe, a sentence each, the others that the node does not take for alive by the log of its latest start.

    A server that was started here names every node that it takes for alive, so one that it does not name is not. With
    `silence_counts` this holds of a log that names no node at all, too; without, such a server may log none of this.
    """
    states = membership.liveness(node.log_text())
    names_all = node.started_here and (silence_counts or bool(states))
    return [
        f"{node.name} does not take {other.name} for alive"
        for other in others
        if states.get(other.address, "DOWN" if names_all else "UP") != "UP"
    ]


def await_none_missing(missing: Callable[[], Sequence[str]], *, deadline_s: float, every_s: float) -> str | None:
    """Wait until `missing` returns nothing; return None, or what it returned last at the deadline, as one sentence."""
    last: Sequence[str] = ()

    def is_whole() -> bool:
        nonlocal last
        last = missing()
        return not last

    try:
        until(is_whole, deadline_s=deadline_s, what="a whole ring", every_s=every_s)
    except TimeoutError:
        return "; ".join(last)
    return None
