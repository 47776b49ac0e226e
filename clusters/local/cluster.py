"""Local cluster: N nodes of one system on a private bridge, inside an enclosure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from schemaquake.clusters.cql.client import CqlConnector
from schemaquake.clusters.local import namespaces
from schemaquake.clusters.local.addresses import Addresses
from schemaquake.clusters.local.node import Launch, local_node, prepare_to_join
from schemaquake.clusters.local.startup_archive import archive_arguments
from schemaquake.clusters.local.versions import LocalVersion, Versions
from schemaquake.clusters.local.volumes import SMALL_VOLUME_MB, VOLUME, make_volume, remove_volume
from schemaquake.clusters.nodes import libfaketime
from schemaquake.clusters.nodes.booting import boot_in_order, run_on_first
from schemaquake.clusters.nodes.management import Management
from schemaquake.clusters.nodes.node import ServerNode
from schemaquake.clusters.nodes.ownership import read_ownership
from schemaquake.clusters.nodes.reshaping import Reshaping
from schemaquake.clusters.nodes.ring import await_none_missing, taken_for_dead
from schemaquake.clusters.systems.configuration import (
    CLIENT_PORTS,
    JMX_PORT,
    Place,
    server_folders,
    tokens,
    tokens_between,
)
from schemaquake.clusters.systems.dialect import CqlDialect
from schemaquake.clusters.systems.recipe import Recipe
from schemaquake.clusters.systems.system import System
from schemaquake.harness.errors import StartTimeout
from schemaquake.harness.model.files import ServerFiles
from schemaquake.harness.model.membership import Member
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Boot, Connector
from schemaquake.harness.model.topology import Attempt, TopologyVerb

__all__ = ["InstalledVersion", "LocalCluster", "ServerSetup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledVersion:
    """A system that is on this machine: how it is configured, its jars, and a Java for it."""

    system: System
    recipe: Recipe
    java: Path
    class_path: Sequence[Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSetup:
    """The options, settings and devices of every server of a local cluster, beside its recipe."""

    java_options: Sequence[str] | None = None
    """Replace those that use the startup archive (the boot that makes an archive has its own); None keeps them."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Entries of every cassandra.yaml."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """System properties of every server's virtual machine."""
    own_clock: bool = False
    """Each server has a clock of its own, which can be skewed, where this machine has libfaketime."""
    own_disk: bool = False
    """The files of each server lie on a file system of their own, which can be filled."""
    in_memory_mb: int | None = None
    """The files of each server may take so many MB of memory; None: they lie on the disk, unless `own_disk`."""

    @property
    def volume_mb(self) -> int | None:
        """The size of each node's own file system in MB; None if it has none."""
        return SMALL_VOLUME_MB if self.own_disk else self.in_memory_mb

    def launch(self, version: InstalledVersion) -> Launch:
        """Return how servers of this version are started."""
        return Launch(
            recipe=version.recipe,
            java=version.java,
            class_path=version.class_path,
            java_options=(
                archive_arguments(version.java, version.class_path) if self.java_options is None else self.java_options
            ),
            settings=self.settings,
            properties=self.properties,
            faketime=libfaketime.find_library() if self.own_clock else None,
        )


def _places(
    system: System, recipe: Recipe, names: Sequence[str], spares: Sequence[str], folder: Path
) -> dict[str, Place]:
    """Find the place of every node: its address, its token, whom it asks for others, and its folder.

    Founders divide the ring evenly. The token of a spare lies in the middle of a founder's range.
    """
    addresses = [namespaces.address_of(number) for number in range(1, len(names) + len(spares) + 1)]
    founders = addresses[: len(names)]
    founding = tokens(recipe, len(names))
    seeds = founders if system.start == "together" else founders[:1]
    return {
        name: Place(address=address, token=token, seeds=seeds, folder=folder / name)
        for name, address, token in zip(
            (*names, *spares), addresses, (*founding, *tokens_between(recipe, founding, len(spares))), strict=True
        )
    }


class LocalCluster:
    """N nodes of one system on a private bridge."""

    shares_clock = True

    def __init__(
        self,
        installed: InstalledVersion,
        *,
        folder: Path,
        names: Sequence[str],
        spares: Sequence[str] = (),
        start_timeout_s: float,
        keep_data: bool = False,
        setup: ServerSetup | None = None,
        others: Sequence[InstalledVersion] = (),
    ) -> None:
        """`folder` is the run's. `names` are the founders, `spares` the nodes that are prepared and not started.

        All nodes start as `installed`; `others` are what they can become.
        """
        setup = setup or ServerSetup()
        system, recipe = installed.system, installed.recipe
        everything = (installed, *others)
        self.system = system
        self.features = system.features.intersection(*(other.system.features for other in others))
        self.pull_delay_s = max(each.recipe.pull_delay(setup.properties) for each in everything)
        # Of nodes that change their version, either may be the slower one, and what mixed versions pull from each other is not known.
        self.quiet_s = 0.0 if others else recipe.quiet(setup.properties, setup.settings)
        self.late_nodes_take_over = recipe.late_nodes_take_over
        self._start_timeout_s = start_timeout_s
        self._keep_data = keep_data
        self._on_disk = tuple(dict.fromkeys(name for each in everything for name in server_folders(each.recipe)))
        self._own_disks = setup.own_disk
        self._volume_mb = setup.volume_mb
        versions = [LocalVersion(system=each.system, launch=setup.launch(each)) for each in everything]
        self._management = Management(installed.java, port=JMX_PORT) if recipe.remote_jmx else None
        self._places = _places(system, recipe, names, spares, folder / "nodes")
        self.nodes: Sequence[ServerNode] = [
            local_node(name, place, versions[0].launch, management=self._management)
            for name, place in self._places.items()
        ]
        self._connect_to = {node.name: node.address for node in self.nodes}
        """Where the harness finds each node, also when the node tells others of another address."""
        self._founders = [node for node in self.nodes if node.name in names]
        self._others = {o.system.version: o.system.cql for o in others if o.system.cql is not None}
        cql = None if system.cql is None else self._cql_connector(system.cql)
        self._cql = cql
        now: dict[str, System] = {}
        self._reshaping = Reshaping(self.nodes, system, cql, spares=spares, prepare=self._prepare_to_join, now=now)
        self._versions = Versions(self.nodes, self._places, versions, commands=self._reshaping.commands, now=now)
        self._addressing = Addresses(self.nodes, self._places, system, launch_of=self._versions.launch_of)

    def _cql_connector(self, dialect: CqlDialect) -> CqlConnector:
        releases = {self.system.version: dialect, **self._others} if self._others else {}
        return CqlConnector(self._connect_to, CLIENT_PORTS[self.system.client], dialect, releases=releases)

    def members(self) -> Mapping[str, Member]:
        """Read the state of every node from those that answer; before the start it is the plan. Raises ClusterError."""
        return self._reshaping.members()

    def ownership(self, names: Sequence[str], *, prefix: str) -> Mapping[str, JSON]:
        """Ask these nodes for the replicas of each range of the run's keyspaces. Raises ClusterError."""
        nodes = [node for node in self.nodes if node.name in names]
        return {} if self._cql is None else read_ownership(nodes, self._cql, self.system, prefix=prefix)

    def start(self) -> Sequence[Boot]:
        """Lay the network and boot every node, together where the version allows it.

        Raises NodeDied with the node's own first error, StartTimeout with the last line of its log.
        """
        self._create()
        boots = self._boot(self._founders, first_alone=self.system.start == "first-alone")
        self._complete()
        return boots

    def start_first(self) -> Sequence[Boot]:
        """Lay the network and boot the first node. Raises NodeDied, StartTimeout."""
        self._create()
        return self._boot(self._founders[:1])

    def start_others(self) -> Sequence[Boot]:
        """Boot the founders that `start_first` left out, together. Raises NodeDied, StartTimeout, ClusterError."""
        boots = self._boot(self._founders[1:])
        self._complete()
        return boots

    def _create(self) -> None:
        namespaces.open_enclosure()
        namespaces.lay_network([node.name for node in self.nodes])
        for node in self.nodes:
            if self._volume_mb is not None:
                make_volume(self._places[node.name].folder, self._on_disk, size_mb=self._volume_mb)
            node.prepare()

    def _boot(self, nodes: Sequence[ServerNode], *, first_alone: bool = False) -> Sequence[Boot]:
        return boot_in_order(nodes, first_alone=first_alone, timeout_s=self._start_timeout_s, system=str(self.system))

    def _complete(self) -> None:
        """Wait until all founders know each other, and carry out what makes them one cluster."""
        missing = self.await_whole([node.name for node in self._founders], deadline_s=self._start_timeout_s)
        if missing is not None:
            raise StartTimeout(f"all nodes serve, but after {self._start_timeout_s:g} s {missing}")
        run_on_first(self.nodes[0], self.system.after_first_boot(len(self._founders)))
        self._reshaping.begin()

    # ── changes of the membership ────────────────────────────────────────────────────────────────────────────────────

    def cannot(self, verb: TopologyVerb) -> str | None:
        """Return why this system cannot be asked that; see `schemaquake.harness.model.topology.ChangesTopology`."""
        return self._reshaping.cannot(verb)

    def cannot_replace(self) -> str | None:
        """Return why no node of this system can take a dead one's place; None if one can."""
        return self._reshaping.cannot_replace()

    def outlives_restart(self) -> bool:
        """Return whether a change goes on when the node that began it is restarted."""
        return self._reshaping.outlives_restart()

    def ask(
        self, verb: TopologyVerb, *, on: str, about: str | None = None, argument: str | None = None, limit_s: float
    ) -> Attempt:
        """Ask node `on` for a change by nodetool. Raises ClusterError."""
        return self._reshaping.ask(verb, on=on, about=about, argument=argument, limit_s=limit_s)

    def join(self, node: str, *, replacing: str | None = None, limit_s: float) -> Attempt:
        """Start a node with an empty disk, which asks the nodes that run, and wait until it serves. Raises ClusterError."""
        return self._reshaping.join(node, replacing=replacing, limit_s=limit_s)

    def steps(self, nodes: Sequence[str]) -> Collection[str]:
        """Return the steps at which the operation of these nodes is; see `schemaquake.harness.model.aim.ShowsSteps`."""
        return self._versions.steps(nodes) or self._reshaping.steps(nodes)

    def steps_shown(self) -> Collection[str]:
        """Return the steps that this system and its upgrades can show; see `schemaquake.harness.model.aim.KnowsItsSteps`."""
        return {*self._versions.steps_shown(), *self._reshaping.steps_shown()}

    def await_dead(self, node: str, *, limit_s: float) -> str | None:
        """Wait until every other node that runs has logged that this one is down. Return what is missing, or None."""
        return self._reshaping.await_dead(node, limit_s=limit_s)

    def token_at(self, fraction: float) -> str:
        """Return the token that lies this far along the ring, from 0 to 1."""
        return self._reshaping.token_at(fraction)

    def cannot_readdress(self) -> str | None:
        """Return why the nodes' addresses cannot be changed; see `schemaquake.harness.model.topology.ChangesAddresses`."""
        return self._addressing.cannot_readdress()

    def readdress(self, names: Sequence[str], *, limit_s: float) -> Attempt:
        """End these servers, change their addresses, and start them together. Raises ClusterError."""
        return self._addressing.readdress(names, limit_s=limit_s)

    def _prepare_to_join(
        self, node: ServerNode, *, seeds: Sequence[str], takes_place: bool, properties: Mapping[str, str]
    ) -> None:
        place = self._places[node.name]
        place = replace(place, seeds=seeds, token=None if takes_place else place.token)
        prepare_to_join(node, place, self._versions.launch_of(node.name), properties=properties)

    # ── changes of the version ───────────────────────────────────────────────────────────────────────────────────────

    def began_as(self) -> str:
        """Return the system that all nodes were in the beginning."""
        return self._versions.began_as()

    def others(self) -> Sequence[str]:
        """Return the further systems that were prepared."""
        return self._versions.others()

    def running(self) -> Mapping[str, str]:
        """Return the system of each node; see `schemaquake.harness.model.upgrade.ChangesVersions`."""
        return self._versions.running()

    def cannot_become(self, system: str) -> str | None:
        """Return why a node cannot become this system, or None."""
        return self._versions.cannot_become(system)

    def cannot_go_back(self, system: str) -> str | None:
        """Return why a node that became this system cannot go back, or None."""
        return self._versions.cannot_go_back(system)

    def not_ready(self, system: str) -> str | None:
        """Return why no node may become this system yet, or None."""
        return self._versions.not_ready(system)

    def promises(self, system: str) -> Mapping[str, JSON]:
        """Return what is promised while nodes become this system. Raises ClusterError."""
        return self._versions.promises(system)

    def become(self, node: str, system: str, *, limit_s: float) -> Attempt:
        """Exchange the server of a node, with its data. Raises ClusterError."""
        return self._versions.become(node, system, limit_s=limit_s)

    def finish(self, system: str, *, on: str, limit_s: float, insists: bool = False) -> Attempt:
        """Carry out what ends the upgrade. Raises ClusterError."""
        return self._versions.finish(system, on=on, limit_s=limit_s, insists=insists)

    def server_files(self, node: str) -> ServerFiles:
        """Return the folders of a node's server; see `schemaquake.harness.model.files.ShowsFiles`."""
        folder = self._places[node].folder
        return ServerFiles(
            folder=str(folder),
            data=(str(folder / "data"),),
            commit_log=str(folder / "commitlog"),
            volume=str(folder / VOLUME) if self._own_disks else None,
        )

    # ── what others use ──────────────────────────────────────────────────────────────────────────────────────────────

    def await_whole(self, names: Sequence[str], *, deadline_s: float) -> str | None:
        """Wait until each of these nodes takes all the others of them for alive. Return what is missing at the deadline, or None.

        A node that does not wait for others serves clients before it knows them: a schema change that it is sent then
        stays with it, and a QUORUM write is refused. Which nodes it takes for alive is in its log and nowhere in CQL.
        """
        nodes = [node for node in self.nodes if node.name in names]

        def missing() -> Sequence[str]:
            return [
                text
                for node in nodes
                for text in taken_for_dead(
                    node, [other for other in nodes if other is not node], self.system.membership, silence_counts=True
                )
            ]

        return await_none_missing(missing, deadline_s=deadline_s, every_s=0.2)

    def stop(self) -> None:
        """End every node and delete its data (unless `--keep-data`); the network ends with the enclosure."""
        steps: list[Callable[[], None]] = [self._reshaping.close, *(partial(self._end, node) for node in self.nodes)]
        if self._management is not None:
            steps.insert(1, self._management.close)
        errors: list[Exception] = []
        for step in steps:
            try:
                step()
            except Exception as error:  # noqa: BLE001 - teardown goes on and raises everything at the end
                errors.append(error)
        if errors:
            raise ExceptionGroup("the cluster could not be torn down as a whole", errors)

    def _end(self, node: ServerNode) -> None:
        node.kill()
        if self._volume_mb is not None:
            remove_volume(self._places[node.name].folder, self._on_disk)
        if not self._keep_data:
            node.folder.remove()

    def connector(self) -> Connector:
        """Make the connector for the protocol of the system's clients; each session is pinned to one address."""
        addresses = self._connect_to
        port = CLIENT_PORTS[self.system.client]
        if self.system.cql is not None:
            return self._cql_connector(self.system.cql)
        # Not before it is needed: a run over CQL does not depend on the Thrift library.
        connector: Connector = import_module("schemaquake.clusters.thrift.client").ThriftConnector(
            addresses=addresses, port=port, authority=self.system.authority
        )
        return connector

    def missing(self, means: str) -> str | None:
        """Return why the cluster lacks these means, None if it has them: packets, signals, topology, files, disks, and clocks with libfaketime."""
        match means:
            case "signals" | "packets" | "topology" | "files" | "disk":
                return None
            case "clock":
                if libfaketime.find_library() is None:
                    return "clock skew needs libfaketime (Debian: apt-get install faketime)"
                return None
        return f'the local cluster has no means for "{means}"'
