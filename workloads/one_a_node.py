"""One a node: the workers of a crew that do what is needed once through every coordinator."""

from __future__ import annotations

from schemaquake.harness.model.protocols import Context, Worker

__all__ = ["stands_for_its_node"]


def stands_for_its_node(worker: Worker, context: Context) -> bool:
    """Return True for the first worker on each node."""
    return worker.index < len(context.nodes)
