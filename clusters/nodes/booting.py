"""Booting: servers of one ring started in the order that their line wants."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from schemaquake.harness.errors import NodeDied, StartTimeout
from schemaquake.harness.model.protocols import Boot, Node

__all__ = ["boot_in_order"]

log = logging.getLogger(__name__)

N = TypeVar("N", bound=Node)


def boot_in_order(
    nodes: Sequence[N], *, first_alone: bool, timeout_s: float, failure: Callable[[N, Boot], NodeDied | StartTimeout]
) -> list[Boot]:
    """Start the servers, together or the first one before the others, and wait until each serves clients.

    Raises what `failure` says of the first one that ended, or does not serve within `timeout_s`.
    """
    boots = []
    alone = 1 if first_alone else 0
    for group in (nodes[:alone], nodes[alone:]):
        for node in group:
            node.start()
        for node in group:
            boot = node.await_serving(deadline_s=timeout_s)
            if not boot.served:
                raise failure(node, boot)
            log.info("node serves clients", extra={"node": node.name, "seconds": round(boot.seconds, 1)})
            boots.append(boot)
    return boots
