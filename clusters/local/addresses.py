"""Addresses: all servers of a local cluster end, get other addresses, and start again with their data.

Only what servers tell each other and clients changes. The earlier address stays with the node's network, and a server listens
for clients on all of them, so that sessions of the harness find it as before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from schemaquake.clusters.local import namespaces
from schemaquake.clusters.local.node import Launch, take_over
from schemaquake.clusters.nodes.every_node import on_every
from schemaquake.clusters.nodes.node import ServerNode
from schemaquake.clusters.systems.configuration import Place
from schemaquake.clusters.systems.system import System
from schemaquake.harness.model.topology import Attempt

__all__ = ["Addresses"]

_STOP_LIMIT_S: Final = 60.0
_SHIFT: Final = 120
"""How far a node's further address lies behind its first one."""
_ANSWER_MOST: Final = 500
_SINCE: Final = (2, 1)
"""The first line that can listen for clients elsewhere than where it tells them to come."""


class Addresses:
    """The addresses of one cluster's nodes; see `schemaquake.harness.model.topology.ChangesAddresses`."""

    def __init__(
        self,
        nodes: Sequence[ServerNode],
        places: dict[str, Place],
        system: System,
        *,
        launch_of: Callable[[str], Launch],
    ) -> None:
        """`places` are kept up to date for others to read; `launch_of` says how a node's server is started now."""
        self._nodes = {node.name: node for node in nodes}
        self._places = places
        self._system = system
        self._launch_of = launch_of
        self._first = {node.name: node.address for node in nodes}

    def cannot_readdress(self) -> str | None:
        """Return why the addresses of these nodes cannot be changed, or None."""
        if self._system.line < _SINCE:
            return f"a server of {self._system} serves clients only where others reach it"
        if len(self._nodes) >= _SHIFT:
            return f"{len(self._nodes)} nodes leave no further addresses in their network"
        return None

    def readdress(self, names: Sequence[str], *, limit_s: float) -> Attempt:
        """End these servers, change their addresses, and start them together.

        Of those that have their new address already, the ones that do not serve are started again.
        """
        began = time.monotonic()
        moving = [name for name in names if self._nodes[name].address == self._first[name]]
        on_every(moving, lambda name: self._nodes[name].stop(deadline_s=_STOP_LIMIT_S))
        on_every([name for name in names if name not in moving], self._end_deaf)
        seeds = [_shifted(self._first[name]) for name in names]
        for name in moving:
            self._move(self._nodes[name], seeds)
        for name in names:
            self._nodes[name].start()
        ends = began + limit_s
        boots = on_every(
            names, lambda name: self._nodes[name].await_serving(deadline_s=max(1.0, ends - time.monotonic()))
        )
        down = [boot for boot in boots.values() if not boot.served]
        answers = [f"{boot.node} exit code {boot.exit_code}: {boot.first_error or ''}" for boot in down]
        return Attempt(
            outcome="info" if down else "ok",
            command="stop all, change addresses, start all",
            node=names[0],
            seconds=time.monotonic() - began,
            answer="; ".join(answers)[:_ANSWER_MOST],
            timed_out=any(not boot.ended for boot in down),
        )

    def _end_deaf(self, name: str) -> None:
        """End a server that runs and answers no client, as an operator does before another try."""
        node = self._nodes[name]
        if not node.answers():
            node.kill()

    def _move(self, node: ServerNode, seeds: Sequence[str]) -> None:
        """Give the node's network another address that it speaks from, and its server the configuration for it."""
        old, new = self._first[node.name], _shifted(self._first[node.name])
        namespaces.change_address(node.name, old, new)
        place = replace(self._places[node.name], address=new, seeds=seeds)
        self._places[node.name] = place
        launch = self._launch_of(node.name)
        clients: Mapping[str, str] = {"rpc_address": "0.0.0.0", "broadcast_rpc_address": new}  # noqa: S104 - in a network of its own
        take_over(node, place, replace(launch, settings={**launch.settings, **clients}))
        node.address = new


def _shifted(address: str) -> str:
    head, _, number = address.rpartition(".")
    return f"{head}.{int(number) + _SHIFT}"
