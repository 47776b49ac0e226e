"""Booting: the servers of one ring are started in the order that their release line needs, and set up as one cluster."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from schemaquake.clusters.nodes.node import ServerNode
from schemaquake.clusters.systems.topology import ToolCommand
from schemaquake.harness.errors import ClusterError, NodeDied, StartTimeout
from schemaquake.harness.model.protocols import Boot

__all__ = ["boot_in_order", "run_on_first"]

log = logging.getLogger(__name__)


def boot_in_order(nodes: Sequence[ServerNode], *, first_alone: bool, timeout_s: float, system: str) -> list[Boot]:
    """Start the servers, together or the first one before the others, and wait until each serves clients.

    `system` is named in errors. Raises NodeDied for the first server that ended, with its own first error, or StartTimeout
    for the first that does not serve within `timeout_s`, with the end of its log.
    """
    boots = []
    alone = 1 if first_alone else 0
    for group in (nodes[:alone], nodes[alone:]):
        for node in group:
            node.start()
        for node in group:
            boot = node.await_serving(deadline_s=timeout_s)
            if not boot.served:
                raise _failure(node, boot, system=system, timeout_s=timeout_s)
            log.info("node serves clients", extra={"node": node.name, "seconds": round(boot.seconds, 1)})
            boots.append(boot)
    return boots


def run_on_first(node: ServerNode, commands: Sequence[ToolCommand]) -> None:
    """Run a new cluster's commands on its first node, in order. Raises ClusterError for one that fails."""
    for command in commands:
        done = node.nodetool(*command.arguments, timeout_s=command.limit_s)
        if done.exit_code != 0:
            raise ClusterError(f"`{command}` failed on {node.name}: {(done.stderr or done.stdout).strip()[-500:]}")
        log.info("carried out on the new cluster", extra={"node": node.name, "command": str(command)})


def _failure(node: ServerNode, boot: Boot, *, system: str, timeout_s: float) -> NodeDied | StartTimeout:
    node.log.keep()
    label = f"{node.name} ({system})"
    if boot.exit_code is not None:
        return NodeDied(
            f"node {label} ended while starting, exit code {boot.exit_code}. Its first error: {boot.first_error}\n"
            f"Its log: {node.log.location}",
            node=node.name,
            exit_code=boot.exit_code,
            first_error=boot.first_error or "",
        )
    return StartTimeout(
        f"node {label} did not answer {node.client_port} within {timeout_s:g} s. Its first error, or the end of its log: "
        f"{boot.first_error}\nIts log: {node.log.location}. Try a longer --start-timeout."
    )
