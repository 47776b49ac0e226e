"""Targets: the nodes that a fault hits, by Jepsen's names."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model import options
from schemaquake.harness.model.protocols import Cluster, Context, Node
from schemaquake.nemeses.schedule.options import TargetOptions

__all__ = ["TARGETS", "choose", "named", "primaries"]

TARGETS: Final = ("one", "minority-third", "minority", "majority", "primaries", "all")


def choose(target: str, context: Context, random: Random) -> tuple[str, ...]:
    """Choose nodes of that kind, in random order.

    Raises PlanError for an unknown target, and for an empty one (a minority of two nodes).
    """
    nodes = context.nodes
    match target:
        case "primaries":
            leading = primaries(context)
            return tuple(random.sample(leading, len(leading)))
        case "one":
            count = 1
        case "minority-third":
            count = (len(nodes) - 1) // 3
        case "minority":
            count = (len(nodes) - 1) // 2
        case "majority":
            count = len(nodes) // 2 + 1
        case "all":
            count = len(nodes)
        case _:
            raise PlanError(f'unknown target "{target}". Known: {", ".join(TARGETS)}.')
    if count == 0:
        raise PlanError(f'target "{target}" of {len(nodes)} nodes is empty')
    return tuple(random.sample(nodes, count))


def primaries(context: Context) -> tuple[str, ...]:
    """Return the nodes that lead: those of `-O primaries=n1,n2`, else the first, which the others join by.

    Cassandra has no leader before 6.0; there the first node is the first member of the metadata service.
    Raises PlanError for a name that is not a node's.
    """
    names = options.configured(TargetOptions(), context.options).primaries or context.nodes[:1]
    for name in names:
        if name not in context.nodes:
            raise PlanError(f'-O primaries: there is no node "{name}". Nodes: {", ".join(context.nodes)}.')
    return names


def named(cluster: Cluster, names: Sequence[str]) -> list[Node]:
    """Return the cluster's nodes of these names, in this order. Raises PlanError for an unknown name."""
    nodes = {node.name: node for node in cluster.nodes}
    for name in names:
        if name not in nodes:
            raise PlanError(f'there is no node "{name}" in this cluster. Nodes: {", ".join(nodes)}.')
    return [nodes[name] for name in names]
