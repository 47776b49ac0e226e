"""One a node: the workers of a crew that do what is needed once through every coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from schemaquake.harness.model.protocols import Context, Worker

__all__ = ["share", "stands_for_its_node"]

T = TypeVar("T")


def stands_for_its_node(worker: Worker, context: Context) -> bool:
    """Return True for the first worker on each node."""
    return worker.index < len(context.nodes)


def share(everything: Sequence[T], worker: Worker, context: Context) -> Sequence[T]:
    """Return the worker's part of what is done once on the cluster, dealt in turn to the first workers of the nodes.

    Nodes that take no part in the phase, as those that have left, have none: the others do all of it.
    """
    dealt = [name for name in context.nodes if context.taking_part is None or name in context.taking_part]
    if not stands_for_its_node(worker, context) or worker.node not in dealt:
        return everything[:0]
    return everything[dealt.index(worker.node) :: len(dealt)]
