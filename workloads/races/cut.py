"""The cut of mode `partition`: a few nodes are parted from the rest while the main phase runs.

It is a fault that the workload asks for (`schemaquake.harness.model.protocols.FaultRequesting`), carried out by the nemesis
`partition` and recorded in the ledger like every other fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.protocols import Context, FaultRequest
from schemaquake.workloads.races.options import CutOptions

__all__ = ["cut", "isolated_nodes", "requested_cuts"]

_NEMESIS: Final = "partition"


def requested_cuts(options: CutOptions, context: Context) -> Sequence[FaultRequest]:
    """Return the cut of mode `partition`, and nothing in other modes. Raises PlanError as `cut` does."""
    if options.mode != "partition":
        return ()
    return (cut(isolated_nodes(options, context), context.nodes),)


def isolated_nodes(options: CutOptions, context: Context) -> tuple[str, ...]:
    """Return the nodes that mode `partition` cuts off, side A's coordinator first; none in other modes."""
    if options.mode != "partition":
        return ()
    return options.isolated or (context.random("isolated").choice(context.nodes),)


def cut(isolated: Sequence[str], nodes: Sequence[str]) -> FaultRequest:
    """Return the fault in which `isolated` and the rest of `nodes` drop each other's packets on the storage port.

    Raises PlanError unless both sides have a node, and for an unknown node.
    """
    rest = [name for name in nodes if name not in isolated]
    if unknown := [name for name in isolated if name not in nodes]:
        raise PlanError(f"-O isolated: no such node: {', '.join(unknown)}. Nodes: {', '.join(nodes)}")
    if not isolated or not rest:
        raise PlanError(f"a partition needs a node on either side: {', '.join(isolated)} | {', '.join(rest)}")
    grudge = {name: sorted(rest if name in isolated else isolated) for name in nodes}
    return FaultRequest(
        nemesis=_NEMESIS,
        nodes=tuple(nodes),
        parameters={"grudge": grudge, "ports": "storage"},
        reason="--mode partition",
    )
