"""Booting: servers of one ring started in the order that their line wants, and what a new cluster is told then."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from schemaquake.clusters.systems.system import ToolCommand
from schemaquake.harness.errors import ClusterError, NodeDied, StartTimeout
from schemaquake.harness.model.protocols import Boot, Executed, Node

__all__ = ["boot_in_order", "carry_out_on_first"]

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


def carry_out_on_first(commands: Sequence[ToolCommand], name: str, nodetool: Callable[[ToolCommand], Executed]) -> None:
    """Carry out a new cluster's commands on its first node, `name`. Raises ClusterError for one that fails."""
    for each in commands:
        done = nodetool(each)
        if done.exit_code != 0:
            raise ClusterError(f"`{each}` failed on {name}: {(done.stderr or done.stdout).strip()[-500:]}")
        log.info("carried out on the new cluster", extra={"node": name, "command": str(each)})
