"""One a node: which workers of a crew do what has to be done once through every coordinator."""

from __future__ import annotations

from schemaquake.harness.model.protocols import Context, Worker

__all__ = ["stands_for_its_node"]


def stands_for_its_node(worker: Worker, context: Context) -> bool:
    """The first workers of every crew are one a node; further ones have nothing to do where one a node is enough."""
    return worker.index < len(context.nodes)
