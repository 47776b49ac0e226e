"""Versions: the systems that a local cluster's nodes run and become, one after another, and how one becomes the next.

The node's configuration and arguments are those of the new version from before its server is ended, so that whoever starts
it afterwards, the end of a fault for example, starts the new one.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from schemaquake.clusters.local.node import Launch, take_over, use_tools
from schemaquake.clusters.nodes.node import ServerNode
from schemaquake.clusters.nodes.topology_commands import TopologyCommands
from schemaquake.clusters.systems.configuration import Place
from schemaquake.clusters.systems.system import System
from schemaquake.clusters.systems.topology import ToolCommand
from schemaquake.clusters.systems.upgrades import Upgrade
from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.topology import Attempt
from schemaquake.harness.model.upgrade import UpgradeStep
from schemaquake.harness.wait import pause_for

__all__ = ["LocalVersion", "Versions"]

_DRAIN: Final = ToolCommand(arguments=("drain",), limit_s=120.0)
_STOP_LIMIT_S: Final = 60.0
_ENDED_S: Final = 1.0
_ANSWER_MOST: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalVersion:
    """One system and how its servers are started here."""

    system: System
    launch: Launch


class Versions:
    """The versions of one cluster's nodes; a `schemaquake.harness.model.upgrade.ChangesVersions`."""

    def __init__(
        self,
        nodes: Sequence[ServerNode],
        places: Mapping[str, Place],
        versions: Sequence[LocalVersion],
        *,
        commands: TopologyCommands,
        now: dict[str, System],
    ) -> None:
        """Take the versions in the order in which nodes are them, and `commands`, which carry out nodetool. `now` is kept up to date for others to read."""
        self._nodes = {node.name: node for node in nodes}
        self._places = places
        self._first = versions[0].system
        self._versions = {str(version.system): version for version in versions}
        self._now = now
        self._commands = commands
        self._old_servers: set[str] = set()
        """The nodes whose server may still be the one before."""
        self._done: set[tuple[str, str, str]] = set()
        """The commands (system, node, command) of the ends of upgrades that were carried out."""
        self._ended: set[str] = set()
        """The systems whose upgrade has ended."""
        self._steps: dict[str, UpgradeStep] = {}

    def launch_of(self, node: str) -> Launch:
        """Return how the node's server is started now."""
        return self._versions[str(self.system_of(node))].launch

    def system_of(self, node: str) -> System:
        """Return the system that the node is, or will be when it is started next."""
        return self._now.get(node, self._first)

    def began_as(self) -> str:
        """Return the first system."""
        return str(self._first)

    def others(self) -> Sequence[str]:
        """Return the systems after the first, in order."""
        return [system for system in self._versions if system != str(self._first)]

    def running(self) -> Mapping[str, str]:
        """Return the system of each node by name."""
        return {name: str(self.system_of(name)) for name in self._nodes}

    def steps(self, nodes: Sequence[str]) -> Collection[str]:
        """Return the steps of upgrades at which these nodes are."""
        return {step for name in nodes if (step := self._steps.get(name)) is not None}

    def steps_shown(self) -> Collection[UpgradeStep]:
        """Return the steps that upgrades to the further systems have."""
        shown: set[UpgradeStep] = {"drain", "stop", "start"} if self.others() else set()
        for system in self.others():
            way = self._versions[system].system.upgrade
            if way is not None and way.last(len(self._nodes)):
                shown.add("initialize")
            if way is not None and way.on_each:
                shown.add("rewrite")
        return shown

    def cannot_become(self, system: str) -> str | None:
        """Return why nodes of the system before it cannot become this one, or None: it is older, no upgrade is known, or no server is here."""
        if system not in self.others():
            return f"{system} was not prepared"
        here, there = self._before(system), self._versions[system].system
        if here.product != there.product:
            return f"{here} cannot become {there}"
        if there.line < here.line:
            return f"{there} is older than {here}, and an upgrade leads to a newer version"
        if there.upgrade is None or here.line < there.upgrade.first:
            return f"no way from {here} to {there} is known"
        return None

    def cannot_go_back(self, system: str) -> str | None:
        """Return why nodes that became this system cannot become the one before it again, or None."""
        if (reason := self.cannot_become(system)) is not None:
            return reason
        here, there = self._before(system), self._versions[system].system
        way = there.upgrade
        if there.line != here.line and not (way is not None and way.reversible):
            return f"nodes of {there} do not go back to {here}"
        return None

    def not_ready(self, system: str) -> str | None:
        """Return why no node may become this system yet, or None: all must be the one before it, by an upgrade that has ended."""
        if (reason := self.cannot_become(system)) is not None:
            return reason
        before = str(self._before(system))
        behind = sorted(node for node, now in self.running().items() if now not in {before, system})
        if behind:
            return f"{', '.join(behind)} did not become {before}"
        if before != str(self._first) and before not in self._ended:
            return f"the upgrade to {before} has not ended"
        return None

    def promises(self, system: str) -> Mapping[str, JSON]:
        """Return what is promised while nodes become this system. Raises ClusterError if they cannot."""
        return self._way_to(system).promises()

    def become(self, node: str, system: str, *, limit_s: float) -> Attempt:
        """Drain, exchange, end and start the server of one node. Raises ClusterError for a system that it cannot become."""
        if system != str(self._first):
            self._way_to(system)
        target, server = self._versions[system], self._nodes[node]
        began = time.monotonic()
        try:
            if self.system_of(node) != target.system:
                if server.state() != "stopped":
                    self._steps[node] = "drain"
                    drained = self._drain(node, target, limit_s)
                    if drained.outcome != "ok":
                        return drained
                take_over(server, self._places[node], target.launch)
                self._now[node] = target.system
                self._old_servers.add(node)
            if node in self._old_servers:
                self._steps[node] = "stop"
                server.stop(deadline_s=_STOP_LIMIT_S)
                # A fault that strikes meanwhile reads back that the server has ended, before the next one runs.
                pause_for(_ENDED_S)
                self._old_servers.discard(node)
                self._steps.pop(node, None)
            server.start()
            # A fault that strikes at this step finds a server that runs.
            self._steps[node] = "start"
            return self._started(server, system, began, limit_s)
        finally:
            self._steps.pop(node, None)

    def finish(self, system: str, *, on: str, limit_s: float, insists: bool = False) -> Attempt:
        """Carry out the last commands on this node, then those of each node; return the first attempt that failed, or the last.

        `insists`: nodes that differ are left out of what is compared, where the line has a word for that.
        """
        way = self._way_to(system)
        began = time.monotonic()
        planned = [(on, command) for command in way.last(len(self._nodes))]
        if insists and way.insisting is not None:
            others = [node.address for name, node in self._nodes.items() if name != on]
            planned = [(node, way.insisting(command, others)) for node, command in planned]
        last = len(planned)
        planned += [(node.name, command) for command in way.on_each for node in self._nodes.values() if _serves(node)]
        attempt = Attempt(outcome="ok", command="no further command", node=on, seconds=0.0)
        try:
            for position, (node, command) in enumerate(planned):
                self._steps[on] = "initialize" if position < last else "rewrite"
                if (system, node, str(command)) in self._done:
                    continue
                left_s = limit_s - (time.monotonic() - began)
                attempt = self._carry_out(command, node, left_s, refusals=way.refusals, done=way.done_already)
                if attempt.outcome != "ok":
                    break
                self._done.add((system, node, str(command)))
            else:
                self._ended.add(system)
        finally:
            self._steps.pop(on, None)
        return attempt

    # ── its parts ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _before(self, system: str) -> System:
        """Return the system that nodes are before they become this one, which is not the first."""
        names = list(self._versions)
        return self._versions[names[names.index(system) - 1]].system

    def _way_to(self, system: str) -> Upgrade:
        """Return how nodes become this system. Raises ClusterError if they cannot."""
        if (reason := self.cannot_become(system)) is not None:
            raise ClusterError(reason)
        way = self._versions[system].system.upgrade
        assert way is not None
        return way

    def _drain(self, node: str, target: LocalVersion, limit_s: float) -> Attempt:
        """Drain a node by its own nodetool, or by that of the version it becomes: those of 3.x do not run on every Java that their servers do."""
        drained = self._carry_out(_DRAIN, node, limit_s)
        if drained.outcome != "info" or drained.timed_out:
            return drained
        server, place = self._nodes[node], self._places[node]
        own = self._versions[str(self.system_of(node))].launch
        use_tools(server, place, own, target.launch)
        again = self._carry_out(_DRAIN, node, limit_s - drained.seconds)
        if again.outcome != "ok":
            use_tools(server, place, own, own)
            return drained
        return again

    def _carry_out(
        self, command: ToolCommand, on: str, limit_s: float, *, refusals: Sequence[str] = (), done: Sequence[str] = ()
    ) -> Attempt:
        return self._commands.carry_out(
            command, on=on, limit_s=min(command.limit_s, limit_s), refusals=refusals, done_already=done
        )

    def _started(self, server: ServerNode, system: str, began: float, limit_s: float) -> Attempt:
        boot = server.await_serving(deadline_s=max(1.0, limit_s - (time.monotonic() - began)))
        return Attempt(
            outcome="ok" if boot.served else "info",
            command=f"drain, stop, start as {system}",
            node=server.name,
            seconds=time.monotonic() - began,
            answer="" if boot.served else f"exit code {boot.exit_code}: {boot.first_error or ''}"[:_ANSWER_MOST],
            timed_out=not boot.served and not boot.ended,
        )


def _serves(node: ServerNode) -> bool:
    return node.state() == "running" and node.answers()
