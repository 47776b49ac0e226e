"""Recovery: an operator's procedure when the majority of a group is lost for good (ScyllaDB, "Manual Recovery Procedure").

All nodes that are left are stopped and told to give their group up; then one of them is started, which founds it anew, and then the others,
which become its members. What they do is the model's affair (`Recovering`); a procedure that was broken off goes on where it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemaquake.clusters.simulated.faces import Recovering
from schemaquake.clusters.simulated.node import SimulatedNode

__all__ = ["recover_group"]

_RUNS_WITHIN_S = 20.0


def recover_group(model: Recovering, nodes: Sequence[SimulatedNode], *, limit_s: float) -> str | None:
    """Have these nodes, all that are left, found their group anew. Return what went wrong, or None.

    `limit_s` is the time that each has for its start.
    """
    founder = next((name for node in nodes if (name := model.founder(node))), "")
    if not founder:
        away = _start([node for node in nodes if node.server is None], limit_s=_RUNS_WITHIN_S)
        away = away or next((node.name for node in nodes if node.serving is None), None)
        if away is not None:
            return f"{away} does not serve: nothing was begun"
        founder = model.recovers_from(nodes)
        for node in nodes:
            node.stop()
            model.give_up_group(node, founder)
    first = [node for node in nodes if node.name == founder]
    others = [node for node in nodes if node.name != founder]
    failed = _start(first, limit_s=limit_s) or _start(others, limit_s=limit_s)
    return None if failed is None else f"{failed} does not serve: the recovery is not over"


def _start(nodes: Sequence[SimulatedNode], *, limit_s: float) -> str | None:
    """Start nodes that do not run, and wait for all. Return one that does not serve, or None."""
    for node in nodes:
        node.start()
    return next((node.name for node in nodes if not node.await_serving(deadline_s=limit_s).served), None)
