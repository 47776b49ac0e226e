"""Reshaping: the changes of the membership of a cluster whose nodes the harness configures and starts itself.

A spare is a node that is prepared and not started; it joins with an empty disk, configured as an operator's node is and not
as the founders of a short-lived cluster are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from schemaquake.clusters.cql.client import CqlConnector
from schemaquake.clusters.nodes.members import MemberReader
from schemaquake.clusters.nodes.node import ServerNode
from schemaquake.clusters.nodes.steps import StepReader
from schemaquake.clusters.nodes.topology_commands import TopologyCommands
from schemaquake.clusters.systems.configuration import token_at
from schemaquake.clusters.systems.system import System, recipe_for
from schemaquake.harness.model.membership import Member
from schemaquake.harness.model.topology import Attempt, TopologyVerb

__all__ = ["PrepareToJoin", "Reshaping", "Spares"]


class PrepareToJoin(Protocol):
    """The part of joining that differs from one kind of nodes to another."""

    def __call__(
        self, node: ServerNode, *, seeds: Sequence[str], takes_place: bool, properties: Mapping[str, str]
    ) -> None:
        """Empty the disk of a node that does not run, so that its next start joins the cluster of these addresses.

        With `takes_place` its token is another node's, which `properties`, for its virtual machine, name.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Spares:
    """The nodes that are prepared and not started, and how they join; the defaults are a membership that stays as it is."""

    names: Sequence[str] = ()
    prepare_to_join: PrepareToJoin | None = None
    """None: nodes are neither added nor removed."""
    cannot_replace: Callable[[], str | None] = lambda: None
    """Returns why no node can be told whose place it takes; None if one can."""
    unfit: Callable[[], Sequence[str]] = lambda: ()
    """Describes the spares with which a run cannot begin."""
    tidy: Callable[[], None] = lambda: None
    """Removes what joining left on the nodes. Raises ClusterError."""


class Reshaping:
    """The membership of one cluster, read and changed; see `schemaquake.harness.model.topology.ChangesTopology`."""

    def __init__(
        self,
        nodes: Sequence[ServerNode],
        system: System,
        cql: CqlConnector | None,
        *,
        spares: Sequence[str],
        prepare: PrepareToJoin,
        now: Mapping[str, System] | None = None,
    ) -> None:
        """`nodes` are the founders and the spares; without `cql` only the plan says who is a member.

        `now` has the systems of nodes that have become another one; it may change.
        """
        self._nodes = nodes
        self._system = system
        self._prepare = prepare
        self._begun = False
        self._members = MemberReader(nodes, cql, system.membership, spares=frozenset(spares))
        self.commands = TopologyCommands(nodes, system, self._members, now=now)
        self._steps = StepReader(nodes, cql, system)

    def begin(self) -> None:
        """Take the founders for members that serve, so that they are asked from now on."""
        self._begun = True

    def members(self) -> Mapping[str, Member]:
        """Read the state of every node from those that answer; before the beginning it is the plan. Raises ClusterError if none does."""
        return self._members.read() if self._begun else self._members.planned()

    def cannot(self, verb: TopologyVerb) -> str | None:
        """Return why this system cannot be asked that; None if it can."""
        return self.commands.cannot(verb)

    def cannot_replace(self) -> str | None:
        """Return why no node of this system can take a dead one's place; None if one can."""
        return self.commands.cannot_replace()

    def outlives_restart(self) -> bool:
        """Return whether a change goes on when the node that began it is restarted."""
        return self._system.topology.outlives_restart

    def ask(self, verb: TopologyVerb, *, on: str, about: str | None, argument: str | None, limit_s: float) -> Attempt:
        """Ask node `on` for a change by nodetool. Raises ClusterError."""
        return self.commands.ask(verb, on=on, about=about, argument=argument, limit_s=limit_s)

    def join(self, node: str, *, replacing: str | None, limit_s: float) -> Attempt:
        """Start a node with an empty disk, which asks the nodes that run, and wait until it serves. Raises ClusterError."""
        joining, members = self.commands.stopped(node), self.members()
        # A server that was decommissioned still runs, and answers nobody.
        seeds = [
            one.address
            for one in self._nodes
            if members[one.name].state == "normal" and one.name not in {node, replacing} and one.state() == "running"
        ]
        properties = {} if replacing is None else self.commands.replacing(replacing)
        self._prepare(joining, seeds=seeds, takes_place=replacing is not None, properties=properties)
        return self.commands.await_joined(joining, properties, limit_s=limit_s)

    def steps(self, nodes: Sequence[str]) -> Collection[str]:
        """Return the steps at which the operation of these nodes is; see `schemaquake.harness.model.aim.ShowsSteps`."""
        return self._steps.read(nodes)

    def steps_shown(self) -> Collection[str]:
        """Return the steps that this system can show; see `schemaquake.harness.model.aim.KnowsItsSteps`."""
        return self._steps.shown

    def await_dead(self, node: str, *, limit_s: float) -> str | None:
        """Wait until every other node that runs has logged that this one is down. Return what is missing, or None."""
        return self.commands.await_dead(node, limit_s=limit_s)

    def token_at(self, fraction: float) -> str:
        """Return the token that lies this far along the ring, from 0 to 1."""
        return str(token_at(recipe_for(self._system), fraction))

    def close(self) -> None:
        """Close the sessions in which steps are read."""
        self._steps.close()
