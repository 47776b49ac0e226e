"""Topology commands: changes of a cluster's membership, asked of its nodes by nodetool, and what the answers prove.

An answer that the system's table of refusals knows proves that nothing was changed; any other failure leaves it open.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from schemaquake.clusters.nodes.members import MemberReader
from schemaquake.clusters.nodes.node import ServerNode
from schemaquake.clusters.nodes.ring import await_none_missing
from schemaquake.clusters.systems.system import System
from schemaquake.clusters.systems.topology import NamedBy, ToolCommand
from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.model.membership import ChangeOutcome
from schemaquake.harness.model.topology import Attempt, TopologyVerb

__all__ = ["TopologyCommands"]

_ANSWER_MOST: Final = 500
_NAMED_BY: Final[Mapping[TopologyVerb, NamedBy]] = {"assassinate": "address", "abort-join": "address"}
"""How a dead node is named where it is not as for its removal."""
_STACK: Final = "-- StackTrace --"


class TopologyCommands:
    """The commands of one cluster, whose nodes are asked in the words of its system."""

    def __init__(
        self,
        nodes: Sequence[ServerNode],
        system: System,
        members: MemberReader,
        *,
        now: Mapping[str, System] | None = None,
    ) -> None:
        """`now` has the systems of nodes that have become another one than `system`; it may change."""
        self._nodes = {node.name: node for node in nodes}
        self._system = system
        self._members = members
        self._now = {} if now is None else now

    def _system_of(self, node: str) -> System:
        return self._now.get(node, self._system)

    def cannot(self, verb: TopologyVerb) -> str | None:
        """Return why this system cannot be asked that, or why a node that runs cannot; None if all can."""
        commands = self._system.topology.commands(verb, "?")
        if not commands:
            return f"{self._system} has no command for it ({verb})"
        if all(command.tool == "nodetool" for command in commands):
            return None
        reasons = (self._node_cannot(node, verb) for node in self._nodes.values() if node.state() == "running")
        return next((reason for reason in reasons if reason is not None), None)

    def _node_cannot(self, node: ServerNode, verb: TopologyVerb) -> str | None:
        """Return what a node lacks that its system does not bring everywhere, as it does nodetool."""
        system = self._system_of(node.name)
        commands = system.topology.commands(verb, "?")
        if not commands:
            return f"{system}, which {node.name} has become, has no command for it ({verb})"
        try:
            lacking = [command.tool for command in commands if not node.has(command.tool)]
        except NodeUnreachable as error:
            return f"{node.name} does not say what tools it has: {error}"
        return f"{node.name} has no {lacking[0]}" if lacking else None

    def cannot_replace(self) -> str | None:
        """Return why no node of this system can take a dead one's place; None if one can."""
        if self._system.topology.replace_setting is None:
            return f"no node of {self._system} can take another's place"
        return None

    def ask(self, verb: TopologyVerb, *, on: str, about: str | None, argument: str | None, limit_s: float) -> Attempt:
        """Carry out what this change takes on node `on`, in order, and judge the answer. Raises ClusterError."""
        system = self._system_of(on)
        topology = system.topology
        if about is not None:
            argument = self._name(about, _NAMED_BY.get(verb, topology.removed_by))
        commands = topology.commands(verb, argument)
        if not commands:
            raise ClusterError(f"{system} has no command for it ({verb})")
        began = time.monotonic()
        attempt = None
        for command in commands:
            attempt = self.carry_out(command, on=on, limit_s=limit_s - (time.monotonic() - began))
            if attempt.outcome != "ok":
                break
        assert attempt is not None
        return attempt

    def stopped(self, name: str) -> ServerNode:
        """Return a node that does not run. Raises ClusterError for one that does."""
        node = self._nodes[name]
        if node.state() != "stopped":
            raise ClusterError(f"node {name} runs, so it cannot join")
        return node

    def replacing(self, dead: str) -> Mapping[str, str]:
        """Return the properties with which a node takes this one's place. Raises ClusterError."""
        topology = self._system.topology
        if topology.replace_setting is None or topology.replaced_by is None:
            raise ClusterError(f"no node of {self._system} can take another's place")
        return {topology.replace_setting: self._name(dead, topology.replaced_by)}

    def await_joined(self, node: ServerNode, properties: Mapping[str, str], *, limit_s: float) -> Attempt:
        """Start a node that is to join, and wait until it serves clients, which it does not before it has joined."""
        began = time.monotonic()
        command = " ".join(["start", *(f"-D{name}={value}" for name, value in properties.items())])
        node.start()
        boot = node.await_serving(deadline_s=limit_s)
        seconds = time.monotonic() - began
        if boot.served:
            return Attempt(outcome="ok", command=command, node=node.name, seconds=seconds)
        said = boot.first_error or ""
        return Attempt(
            outcome=_judge(said, self._system_of(node.name).topology.refusals) if boot.ended else "info",
            command=command,
            node=node.name,
            seconds=seconds,
            answer=said[:_ANSWER_MOST],
            timed_out=not boot.ended,
        )

    def await_dead(self, name: str, *, limit_s: float) -> str | None:
        """Wait until every other node that runs has logged that this one is down. Return what is missing, or None."""
        dead = self._nodes[name]

        def missing() -> Sequence[str]:
            alive = []
            for node in self._nodes.values():
                with suppress(NodeUnreachable):
                    if node is not dead and node.state() == "running" and node.answers():
                        states = self._system.membership.liveness(node.log_text())
                        if states.get(dead.address) == "UP":
                            alive.append(f"{node.name} takes {name} for alive")
            return alive

        return await_none_missing(missing, deadline_s=limit_s, every_s=0.5)

    def _name(self, node: str, named_by: NamedBy) -> str:
        """Name a node as the system wants it named. Raises ClusterError if that was never learnt."""
        if named_by == "address":
            return self._nodes[node].address
        host_id, tokens = self._members.identity(node)
        found = host_id if named_by == "host-id" else next(iter(tokens), None)
        if found is None:
            raise ClusterError(f"the {named_by} of {node} was never learnt")
        return found

    def carry_out(
        self,
        command: ToolCommand,
        *,
        on: str,
        limit_s: float,
        refusals: Sequence[str] | None = None,
        done_already: Sequence[str] = (),
    ) -> Attempt:
        """Have node `on` carry out one command of nodetool.

        `refusals` are answers which prove that it changed nothing (default: the system's), `done_already` those which prove
        that there was nothing to do.
        """
        known = self._system_of(on).topology.refusals if refusals is None else refusals
        limit_s = max(1.0, limit_s)
        began = time.monotonic()
        try:
            done = self._nodes[on].manage(command, timeout_s=limit_s)
        except NodeUnreachable as error:
            took = time.monotonic() - began
            # Sooner than that it did not run into its limit: there was no session, no container, or the session was lost.
            return Attempt(
                outcome="info",
                command=str(command),
                node=on,
                seconds=took,
                answer=str(error),
                timed_out=took >= limit_s,
            )
        said = f"{done.stdout}\n{done.stderr}".split(_STACK, maxsplit=1)[0].strip()[-_ANSWER_MOST:]
        return Attempt(
            outcome="ok" if done.exit_code == 0 or _matches(said, done_already) else _judge(said, known),
            command=str(command),
            node=on,
            seconds=time.monotonic() - began,
            answer=said,
        )


def _judge(said: str, refusals: Sequence[str]) -> ChangeOutcome:
    """Return `fail` for an answer that proves that nothing was changed, else `info`."""
    return "fail" if _matches(said, refusals) else "info"


def _matches(said: str, patterns: Sequence[str]) -> bool:
    return any(re.search(pattern, said) for pattern in patterns)
