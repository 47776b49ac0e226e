"""Cluster: the simulated nodes of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import orjson

from schemaquake.clusters.simulated.accounts import account_of
from schemaquake.clusters.simulated.client import SimulatedConnector
from schemaquake.clusters.simulated.faces import Model
from schemaquake.clusters.simulated.kernel import Kernel, rendered
from schemaquake.clusters.simulated.network import Network
from schemaquake.clusters.simulated.node import SimulatedNode
from schemaquake.clusters.simulated.reshaping import Reshaping, new_host_id
from schemaquake.clusters.systems.system import System
from schemaquake.harness.errors import NodeDied, StartTimeout
from schemaquake.harness.model.membership import Member
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Boot
from schemaquake.harness.model.topology import Attempt, TopologyVerb
from schemaquake.harness.placements.ring import Location
from schemaquake.harness.wait import until

__all__ = ["BOOKS", "SimulatedCluster"]

BOOKS: Final = "simulation.json"
"""Name of the file in a run's folder that holds the passages of steps and the crashes at them."""


class SimulatedCluster:
    """N simulated nodes of one system."""

    runs_server = False
    shares_clock = True
    kills_servers = False

    def __init__(
        self,
        system: System,
        model: Model,
        kernel: Kernel,
        *,
        names: Sequence[str],
        folder: Path,
        start_timeout_s: float,
        started: Callable[[], None] = lambda: None,
        spares: Sequence[str] = (),
        locations: Mapping[str, Location] | None = None,
    ) -> None:
        """`started` is called once, when all nodes serve for the first time. `spares` are prepared, and not started.

        `locations` has the place of every node, if there are several data centres or racks.
        """
        self.features = system.features
        self.pull_delay_s = system.pull_delay_s
        self._system = system
        self._kernel = kernel
        self._folder = folder
        self._start_timeout_s = start_timeout_s
        self._stopped = False
        self._started = started
        network = Network(kernel)
        everybody = (*names, *spares)
        self.nodes: Sequence[SimulatedNode] = [
            SimulatedNode(name, f"10.66.0.{number}", kernel=kernel, network=network, model=model, names=everybody)
            for number, name in enumerate(everybody, start=1)
        ]
        self._founders = self.nodes[: len(names)]
        addresses = {node.name: node.address for node in self.nodes}
        host_ids = {name: new_host_id(kernel, name) for name in names}
        places = dict(locations or {})
        for node in self.nodes:
            node.addresses, node.founders, node.host_ids = addresses, tuple(names), host_ids
            node.locations = places
            node.founder_ids = dict(host_ids)
        self._reshaping = Reshaping(system, model, kernel, self.nodes, spares)

    def members(self) -> Mapping[str, Member]:
        """Return the state of every node, spares among them, as those that serve list it."""
        return self._reshaping.members()

    def cannot(self, verb: TopologyVerb) -> str | None:
        """Return why this system cannot be asked that; see `schemaquake.harness.model.topology.ChangesTopology`."""
        return self._reshaping.cannot(verb)

    def cannot_replace(self) -> str | None:
        """Return why no node of this system can take a dead one's place; None if one can."""
        return self._reshaping.cannot_replace()

    def outlives_restart(self) -> bool:
        """Return whether a change goes on when the node that began it is restarted."""
        return self._system.topology.outlives_restart

    def ask(
        self, verb: TopologyVerb, *, on: str, about: str | None = None, argument: str | None = None, limit_s: float
    ) -> Attempt:
        """Ask node `on` for a change. Raises ClusterError."""
        return self._reshaping.ask(verb, on=on, about=about, argument=argument, limit_s=limit_s)

    def join(self, node: str, *, replacing: str | None = None, limit_s: float) -> Attempt:
        """Start a node with an empty disk, and wait until it serves. Raises ClusterError."""
        return self._reshaping.join(node, replacing=replacing, limit_s=limit_s)

    def await_dead(self, node: str, *, limit_s: float) -> str | None:
        """Wait until every other node that serves takes this one for dead. Return who does not, or None."""
        return self._reshaping.await_dead(node, limit_s=limit_s)

    def ownership(self, names: Sequence[str], *, prefix: str) -> Mapping[str, JSON]:
        """Return, by node, the replicas of each range of the run's keyspaces as that node reads them."""
        return self._reshaping.ownership(names, prefix=prefix)

    def steps(self, nodes: Sequence[str]) -> Sequence[str]:
        """Return the step that was done last of each change of these nodes."""
        return self._reshaping.steps(nodes)

    def steps_shown(self) -> Sequence[str]:
        """Return the steps that this design can show; see `schemaquake.harness.model.aim.KnowsItsSteps`."""
        return self._reshaping.steps_shown()

    def token_at(self, fraction: float) -> str:
        """Return the token that lies this far along the ring, from 0 to 1."""
        return self._reshaping.token_at(fraction)

    def start(self) -> Sequence[Boot]:
        """Start all nodes. Raises NodeDied, StartTimeout."""
        first_alone = self._system.start == "first-alone"
        boots = []
        for group in [self._founders[:1], self._founders[1:]] if first_alone else [self._founders]:
            for node in group:
                node.start()
            boots += [_served(node.await_serving(deadline_s=self._start_timeout_s)) for node in group]
        missing = self.await_whole([node.name for node in self._founders], deadline_s=self._start_timeout_s)
        if missing is not None:
            raise StartTimeout(f"all nodes serve, but after {self._start_timeout_s:g} s {missing}")
        self._started()
        return boots

    def await_whole(self, names: Sequence[str], *, deadline_s: float) -> str | None:
        """Wait until each of these nodes takes the others for alive."""
        nodes = [node for node in self.nodes if node.name in names]

        def missing() -> list[str]:
            return [
                f"{node.name} does not take {name} for alive"
                for node in nodes
                for name in names
                if node.serving is None or not node.serving.gossip.alive(name)
            ]

        try:
            until(lambda: not missing(), deadline_s=deadline_s, what="a whole cluster", every_s=0.2)
        except TimeoutError:
            return "; ".join(missing())
        return None

    def stop(self) -> None:
        """End every node, and write logs and books into the run's folder; idempotent."""
        if self._stopped:
            return
        self._stopped = True
        for node in self.nodes:
            node.kill()
            node.console.write(self._folder / "nodes" / node.name)
        books = {
            "passages": rendered(self._kernel.passages),
            "crashes": [[*key, count] for key, count in sorted(self._kernel.crashes.items())],
            "events": self._kernel.heap.scheduled,
        }
        (self._folder / BOOKS).write_bytes(orjson.dumps(books))

    def connector(self) -> SimulatedConnector:
        """Return the connector to all nodes."""
        return SimulatedConnector({node.name: node for node in self.nodes}, account_of(self._system))

    def missing(self, means: str) -> str | None:
        """Return None for the means that simulated nodes have: packets, signals, clocks, changes of the ring."""
        if means in {"packets", "signals", "clock", "topology"}:
            return None
        return f'a simulated cluster has no means for "{means}"'


def _served(boot: Boot) -> Boot:
    if boot.served:
        return boot
    if boot.exit_code is None:
        raise StartTimeout(f"{boot.node} did not serve in time")
    raise NodeDied(
        f"{boot.node} ended while starting",
        node=boot.node,
        exit_code=boot.exit_code,
        first_error=boot.first_error or "",
    )
