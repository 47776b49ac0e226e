"""`--cluster docker`: nodes in containers of this machine's engine, made for one run and removed with it.

A container idles; the process runner starts the server in it, so that its network, with the packet filter's rules, and
the guards of its faults outlive a server that is killed. Workers connect to each node at its container's own address: the
engine must be this machine's, or its networks must be routed here. Every object has the run's label.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson
from docker.errors import NotFound

from schemaquake.clusters.cluster_file.allowance import check_plan
from schemaquake.clusters.cluster_file.model import ClusterFile, Process
from schemaquake.clusters.cluster_file.parse import read_cluster_file, read_cluster_file_of_run
from schemaquake.clusters.cql.client import CqlConnector
from schemaquake.clusters.docker.carried_tools import carry_clock_library, carry_packet_filter
from schemaquake.clusters.docker.engine import Container, DockerEngine, Limits
from schemaquake.clusters.docker.image import image_name
from schemaquake.clusters.docker.image_context import settings_of
from schemaquake.clusters.docker.server import Image, Joining, Server, edited, server_of
from schemaquake.clusters.docker.transport import DockerTransport
from schemaquake.clusters.nodes.client_port import ClientPort
from schemaquake.clusters.nodes.clock import FaketimeClock
from schemaquake.clusters.nodes.cluster import DeployedCluster
from schemaquake.clusters.nodes.guard import Guard, Guards
from schemaquake.clusters.nodes.node import ServerData, ServerNode, deployed_node
from schemaquake.clusters.nodes.reshaping import Spares
from schemaquake.clusters.nodes.run_name import name_run
from schemaquake.clusters.nodes.service import Service, process
from schemaquake.clusters.nodes.service_process import ServiceProcess
from schemaquake.clusters.nodes.stop_conditions import conditions_of
from schemaquake.clusters.nodes.terms import OwnersTerms, RunOnNodes
from schemaquake.clusters.nodes.transport import NoTransport, Transport
from schemaquake.clusters.systems import server_options
from schemaquake.clusters.systems.dialect import CqlDialect
from schemaquake.clusters.systems.server_options import system_properties, yaml_settings
from schemaquake.clusters.systems.system import System, parse_system, recipe_for
from schemaquake.harness.errors import ClusterError, EnvironmentLacks, HistoryError, NodeUnreachable, PlanError
from schemaquake.harness.faults.needs import means_needed
from schemaquake.harness.model.files import ServerFiles
from schemaquake.harness.model.options import configured, declared, option
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Demands, Rehearsal, StopCondition, Undo, UndoVerb
from schemaquake.harness.registry import load
from schemaquake.harness.run.phases import main_limit_s

__all__ = ["OPTIONS", "ContainerOptions", "DockerProvider"]

log = logging.getLogger(__name__)

_SIZE: Final = re.compile(r"([1-9][0-9]*)([bkmg])")
_CORES: Final = re.compile(r"[0-9]*\.?[0-9]+")


def _fitting(pattern: re.Pattern[str]) -> Callable[[str], str]:
    """Return a parser of texts that fit a pattern, which leaves them as they are."""

    def parse(text: str) -> str:
        if pattern.fullmatch(text) is None:
            raise ValueError(text)
        return text

    return parse


@dataclass(frozen=True, slots=True)
class ContainerOptions:
    """The options (`-O`) about containers, named as in a cluster file's `[docker]`."""

    image: str | None = option(None, "the image of the containers", parse=str)
    memory: str | None = option(
        None, "the memory of each container, a number and a unit, such as 2g or 1500m", parse=_fitting(_SIZE)
    )
    cpus: str | None = option(None, "the number of cores of each container, such as 1.5", parse=_fitting(_CORES))
    network: str | None = option(None, "the network that the containers join", parse=str)
    host: str | None = option(None, "the address of the container engine", parse=str)


OPTIONS: Final = tuple(each.name for each in declared(ContainerOptions))
"""The names of the options about containers."""

_RECORD: Final = "docker.json"
"""The file of the run's folder that has the `_Record`."""
_MB_OF_UNIT: Final = {"b": 2**-20, "k": 2**-10, "m": 1.0, "g": 2.0**10}
_LEAST_MB: Final = 1024
"""The memory of a container for which none is asked, however little its server needs."""
_ABOVE_THE_SERVER: Final = 1.25
"""A container's memory over that of its server: commands and guards run in it, too."""
_LONGER_THAN_ANY_FAULT_S: Final = 60.0
"""The time beyond the main phase after which guards undo what still stands, where no cluster file limits faults."""
_REACHED_WITHIN_S: Final = 5.0
_ANY_PORT: Final = 9
"""A port on which nothing listens (discard): a container that refuses the connection is reached."""
_EMPTIED_WITHIN_S: Final = 60.0
_LOG_OF_A_START: Final = re.compile(r"system-(\d+)\.log")
"""The name of a saved log, with the number of the start, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """The content of a run's `docker.json`: the engine and what the run makes on it, so that `heal` finds it."""

    run: str
    host: str | None
    image: str
    image_id: str
    network: str | None
    memory_mb: int
    cpus: float | None
    state: str

    @classmethod
    def read(cls, folder: Path) -> _Record | None:
        """Read the record; None if the run made nothing. Raises HistoryError if it is damaged."""
        path = folder / _RECORD
        try:
            return cls(**orjson.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (orjson.JSONDecodeError, TypeError) as error:
            raise HistoryError(f"{path} is damaged: {error}") from error


class DockerProvider:
    """The provider of `--cluster docker`, and of cluster files with `provider = "docker"`."""

    name = "docker"
    options = ContainerOptions()
    takes_options = server_options.OPTIONS
    prepares_spares = True

    def prepare(self, plan: Plan, folder: Path) -> Mapping[str, str]:
        """Check what the owner allows, find the engine and the image (pulled if it is published), and check memory.

        Raises PlanError, FaultNotAllowed, EnvironmentLacks.
        """
        file = _checked_file(plan, folder)
        system = _system(plan)
        _refuse_spares(plan, system)
        chosen = _choice(plan, file)
        host = chosen.get("host") or os.environ.get("DOCKER_HOST")
        engine = DockerEngine.connect(host)
        try:
            name = chosen.get("image") or _usual_image(system, engine)
            image = Image(name, engine.image(name))
            if image.system not in {None, plan.system}:
                raise PlanError(
                    f"the image {name} holds {image.system}, and --system is {plan.system}: change one of them"
                )
            record = _Record(
                run=name_run(folder),
                host=host,
                image=name,
                image_id=image.id,
                network=chosen.get("network"),
                memory_mb=_megabytes(chosen["memory"]) if "memory" in chosen else _usual_memory_mb(system),
                cpus=float(chosen["cpus"]) if "cpus" in chosen else None,
                state="/run/schemaquake" if file is None else file.paths.state,
            )
            _require_memory((plan.nodes + plan.spares) * record.memory_mb, engine)
            _warn_of_leftovers(engine)
            (folder / _RECORD).write_bytes(orjson.dumps(asdict(record), option=orjson.OPT_INDENT_2))
            return {
                **engine.described(),
                "image": name,
                "image id": image.id.removeprefix("sha256:")[:12],
                "a container": f"{record.memory_mb} MB" + ("" if record.cpus is None else f", {record.cpus:g} cores"),
            }
        finally:
            engine.close()

    def unstarted(self, plan: Plan) -> DeployedCluster:
        """Return a cluster of containers that are yet to be made, with addresses of examples (RFC 5737). Asks no engine.

        Raises PlanError, FaultNotAllowed.
        """
        system = _system(plan)
        _refuse_spares(plan, system)
        file = _checked_file(plan)
        connector = CqlConnector({}, _cql_port(file), _dialect(system))
        _choice(plan, file)
        return DeployedCluster(
            [_unmade(name, address, connector, system) for name, address in _examples(plan).items()],
            system,
            connector,
            Guards({}, max_fault_s=_max_fault_s(plan, file)),
            RunOnNodes(
                folder=Path("RUN"),
                prefix=plan.keyspace_prefix,
                begins=system.start,
                start_timeout_s=plan.start_timeout_s,
                keep_data=plan.keep_data,
            ),
            owner=None if file is None else OwnersTerms(max_nodes_down=file.max_nodes_down),
            spares=Spares(names=plan.spare_names, prepare_to_join=_join_nothing),
            missing=_missing,
            files=_no_files_yet,
        )

    def rehearsal(self, plan: Plan) -> Rehearsal:
        """Return containers that are yet to be made, with addresses of examples (RFC 5737). Raises PlanError, FaultNotAllowed."""
        _checked_file(plan)
        return Rehearsal(_examples(plan), _no_commands_yet)

    def demands(self, plan: Plan) -> Demands:
        """Sum up the memory of all containers and look up the features of the system's DDL. Raises PlanError."""
        system = _system(plan)
        chosen = _choice(plan, _file(plan))
        each_mb = _megabytes(chosen["memory"]) if "memory" in chosen else _usual_memory_mb(system)
        return Demands(memory_mb=(plan.nodes + plan.spares) * each_mb, features=system.features)

    def enclosure(self, folder: Path) -> Sequence[str]:  # noqa: ARG002 - other providers look at the run's folder
        """Return the command by which the run heals and tears down when the command that started it dies."""
        return [] if shutil.which("setpriv") is None else ["setpriv", "--pdeathsig", "TERM"]

    def create(self, plan: Plan, folder: Path) -> DeployedCluster:
        """Create containers that idle, and the cluster of the servers that will be started in them.

        The containers exist before the run's checks, which look for what a fault needs in the containers themselves. If
        anything fails, none is left. Raises EnvironmentLacks, ClusterError, PlanError.
        """
        record = _Record.read(folder)
        assert record is not None, "prepare has written it"
        engine = DockerEngine.connect(record.host)
        try:
            return DockerClusterBuilder(plan, folder, record, engine).build()
        except BaseException:
            try:
                engine.remove(record.run)
            finally:
                engine.close()
            raise

    def heal(self, folder: Path) -> Sequence[str]:
        """Save the logs of a dead run's nodes, and remove its containers, volumes and network; idempotent.

        Faults in them end with them. Raises EnvironmentLacks without the engine, ClusterError.
        """
        record = _Record.read(folder)
        if record is None:
            return []
        engine = DockerEngine.connect(record.host)
        try:
            saved = [_saved_log(engine, each, record, folder) for each in engine.containers(record.run)]
            return [*saved, *engine.remove(record.run)]
        finally:
            engine.close()


class DockerClusterBuilder:
    """The steps that turn the plan of one run into containers and a cluster of them."""

    def __init__(self, plan: Plan, folder: Path, record: _Record, engine: DockerEngine) -> None:
        """`folder` is the run's. The engine stays open for the cluster, which closes it at its end."""
        self._plan = plan
        self._folder = folder
        self._record = record
        self._engine = engine
        self._file = _file(plan, folder)
        self._system = _system(plan)
        self._image = Image(record.image, engine.image(record.image_id))

    def build(self) -> DeployedCluster:
        """Create the containers, and put into each what its server and the faults of the plan need. Raises EnvironmentLacks, ClusterError."""
        containers = self._containers()
        _require_reachable(containers)
        nodes = [self._node(number, containers) for number in range(len(containers))]
        guards = Guards(
            {
                node.name: Guard(node.transport, state=self._record.state, run=self._record.run, verbs=node.undoing)
                for node in nodes
            },
            max_fault_s=_max_fault_s(self._plan, self._file),
        )
        connector, file = self._connector(containers), self._file
        addresses = [each.address for each in containers]
        return DeployedCluster(
            nodes,
            self._system,
            connector,
            guards,
            RunOnNodes(
                folder=self._folder,
                prefix=self._plan.keyspace_prefix,
                begins=self._system.start,
                start_timeout_s=self._plan.start_timeout_s,
                keep_data=self._plan.keep_data,
            ),
            owner=None if file is None else self._terms(file, connector),
            spares=Spares(names=self._plan.spare_names, prepare_to_join=partial(self._prepare_to_join, addresses)),
            missing=_missing,
            files=partial(self._files, addresses),
            ends=partial(self._end, nodes),
        )

    def _terms(self, file: ClusterFile, connector: CqlConnector) -> OwnersTerms:
        """Return what a cluster file lays down for its containers; `connector` asks what its conditions ask by CQL."""
        return OwnersTerms(
            max_nodes_down=file.max_nodes_down,
            conditions=lambda: _conditions(file, connector, self._plan.node_names),
        )

    def _files(self, addresses: Sequence[str], name: str) -> ServerFiles:
        """Return where the server of a container has its files: its commit log lies beside its data."""
        data = self._server(_names(self._plan).index(name), addresses).data
        folder = f"{self._record.state}/{self._record.run}"
        return ServerFiles(folder=folder, data=(data,), commit_log=str(PurePosixPath(data).parent / "commitlog"))

    def _containers(self) -> list[Container]:
        """Create the containers in threads, so that an interrupt cannot leave one half-created.

        Signals interrupt the main thread alone: when this returns or raises, every request has ended.
        """
        record = self._record
        with ThreadPoolExecutor(max_workers=len(_names(self._plan))) as pool:
            network = record.network or pool.submit(self._engine.create_network, record.run).result()
            pending = [
                pool.submit(
                    self._engine.create_container,
                    record.run,
                    name,
                    number=number,
                    image=record.image_id,
                    network=network,
                    limits=Limits(memory_mb=record.memory_mb, cpus=record.cpus),
                    folder=str(self._folder),
                    volumes=self._image.volumes,
                )
                for number, name in enumerate(_names(self._plan), 1)
            ]
            return [each.result() for each in pending]

    def _node(self, number: int, containers: Sequence[Container]) -> ServerNode:
        """Make the node of the container at this place, counted from 0, and carry into it what the image lacks."""
        container = containers[number]
        transport = DockerTransport(self._engine.client, container.id, name=container.name)
        unpack = partial(self._engine.unpack, container.id)
        server = self._server(number, [each.address for each in containers])
        if server.settings:
            self._set(transport, server)
        if "packets" in means_needed(self._plan):
            carried = carry_packet_filter(transport, unpack)
            if carried is not None:
                log.info(
                    "the image has no packet filter: this machine's goes in",
                    extra={"node": container.node, "tools": carried},
                )
        user, clock = server.user, None
        state = f"{self._record.state}/{self._record.run}"
        if "clock" in means_needed(self._plan):
            clock = FaketimeClock(transport, folder=state, library=carry_clock_library(transport, unpack))
            user = user or _owner(transport, str(PurePosixPath(server.data).parent))
        return deployed_node(
            container.node,
            ClientPort(
                address=container.address,
                port=_cql_port(self._file),
                protocol_version=_dialect(self._system).protocol_version,
                tls=None if self._file is None or self._file.tls is None else self._file.tls.context(),
            ),
            transport,
            self._service(server, clock, user),
            folder=state,
            logs=(),
            data=ServerData(folders=[server.data], layout=self._system.layout),
            clock=clock,
            keeps=self._folder / "nodes" / container.node,
        )

    def _service(self, server: Server, clock: FaketimeClock | None, user: str | None) -> Service:
        """Return how the container's server is started, as `user` unless the cluster file names one; None: as the image's user."""
        own = Process(kind="process") if self._file is None else self._file.service
        assert isinstance(own, Process)
        return process(
            own.command or server.command,
            f"{self._record.state}/{self._record.run}",
            environment={**server.environment, **own.environment, **({} if clock is None else clock.environment())},
            user=own.user or user,
        )

    def _prepare_to_join(
        self,
        addresses: Sequence[str],
        node: ServerNode,
        *,
        seeds: Sequence[str],
        takes_place: bool,
        properties: Mapping[str, str],
    ) -> None:
        """Empty the disk of a server that does not run, and place it anew; see `PrepareToJoin`. Raises ClusterError, PlanError."""
        joining = Joining(seeds=seeds, takes_place=takes_place, properties=properties)
        server = self._server(_names(self._plan).index(node.name), addresses, joining)
        disk, transport = str(PurePosixPath(server.data).parent), node.transport
        user = server.user if node.clock is None else server.user or _owner(transport, disk)
        emptied = transport.run(["find", disk, "-mindepth", "1", "-delete"], timeout_s=_EMPTIED_WITHIN_S)
        if emptied.exit_code != 0:
            raise ClusterError(f"{node.name}: its disk {disk} could not be emptied: {emptied.stderr.strip()}")
        if server.settings:
            self._set(transport, server)
        assert isinstance(node.process, ServiceProcess)
        assert node.clock is None or isinstance(node.clock, FaketimeClock)
        node.process.relaunch_as(self._service(server, node.clock, user))

    def _server(self, number: int, addresses: Sequence[str], joining: Joining | None = None) -> Server:
        options = self._plan.options
        demanded = _on_demand(self._system, self._plan)
        return server_of(
            self._image,
            self._system,
            number=number,
            addresses=addresses,
            memory_mb=self._record.memory_mb,
            settings={**demanded, **yaml_settings(options)},
            properties=system_properties(options),
            spares=self._plan.spares,
            joining=joining,
        )

    def _set(self, transport: Transport, server: Server) -> None:
        """Write a server's settings over those of its file in the container. Raises EnvironmentLacks for an image without the file."""
        path = self._image.settings_file
        try:
            text = transport.get(path).decode()
        except FileNotFoundError as error:
            raise EnvironmentLacks(
                f"the image {self._record.image} has no {path}, so {', '.join(server.settings)} cannot be set in it: set "
                "CASSANDRA_CONF in the image to where it is"
            ) from error
        transport.put(edited(text, server.settings).encode(), path)
        transport.run(
            ["chown", "--reference", str(PurePosixPath(path).parent), path]
        )  # its server may write there, too

    def _connector(self, containers: Sequence[Container]) -> CqlConnector:
        return CqlConnector(
            {each.node: each.address for each in containers},
            _cql_port(self._file),
            _dialect(self._system),
            credentials=None if self._file is None else self._file.credentials,
            tls=None if self._file is None else self._file.tls,
        )

    def _end(self, nodes: Sequence[ServerNode]) -> None:
        """Remove everything; with `--keep-data` first copy each node's data out as an archive."""
        try:
            if self._plan.keep_data:
                self._copy_data_out(nodes)
        finally:
            self._engine.remove(self._record.run)
            self._engine.close()

    def _copy_data_out(self, nodes: Sequence[ServerNode]) -> None:
        self._engine.halt(self._record.run)
        place = self._server(0, [node.address for node in nodes]).data
        for each in self._engine.containers(self._record.run):
            with suppress(NotFound):  # a server that never started has none
                (self._folder / "nodes" / each.node).mkdir(parents=True, exist_ok=True)
                self._engine.copy_out(each.id, place, self._folder / "nodes" / each.node / "data.tar")


# ── what was asked for ───────────────────────────────────────────────────────────────────────────────────────────────


def _names(plan: Plan) -> Sequence[str]:
    """List the founders, then the spares."""
    return [*plan.node_names, *plan.spare_names]


def _file(plan: Plan, folder: Path | None = None) -> ClusterFile | None:
    """Read the cluster file, from the run's own copy if there is a folder; None for a plan without one."""
    if plan.cluster_file is None:
        return None
    file = read_cluster_file(plan.cluster_file) if folder is None else read_cluster_file_of_run(folder)
    if not isinstance(file.service, Process):
        raise PlanError('containers have no service manager: write [service] kind = "process", or leave it out')
    return file


def _checked_file(plan: Plan, folder: Path | None = None) -> ClusterFile | None:
    """Read the cluster file as `_file` does, and require that its owner allows the plan. Raises PlanError, FaultNotAllowed."""
    file = _file(plan, folder)
    if file is not None:
        check_plan(plan, file)
        _conditions(file, CqlConnector({}, file.cql_port, _dialect(_system(plan))), plan.node_names)
    return file


def _cql_port(file: ClusterFile | None) -> int:
    return 9042 if file is None else file.cql_port


def _max_fault_s(plan: Plan, file: ClusterFile | None) -> float:
    """Return the limit of a fault: the cluster file's, else longer than any fault of the plan lasts."""
    return main_limit_s(plan) + _LONGER_THAN_ANY_FAULT_S if file is None else file.max_fault_seconds


def _examples(plan: Plan) -> Mapping[str, str]:
    """Map each node of containers that are yet to be made to an address of the range for examples (RFC 5737)."""
    return {name: f"192.0.2.{number}" for number, name in enumerate(_names(plan), 1)}


def _unmade(name: str, address: str, connector: CqlConnector, system: System) -> ServerNode:
    """Make the node of a container that is yet to be made: it runs no commands."""
    return deployed_node(
        name,
        ClientPort(address=address, port=connector.port, protocol_version=connector.dialect.protocol_version),
        NoTransport(name),
        process(["true"], "/run/schemaquake"),
        folder="/run/schemaquake",
        logs=(),
        data=ServerData(folders=(), layout=system.layout),
    )


def _join_nothing(node: ServerNode, *, seeds: Sequence[str], takes_place: bool, properties: Mapping[str, str]) -> None:  # noqa: ARG001 - `PrepareToJoin`
    raise ClusterError(f"{node.name} is yet to be made")


def _no_files_yet(name: str) -> ServerFiles:
    raise ClusterError(f"{name} is yet to be made")


def _refuse_spares(plan: Plan, system: System) -> None:
    if plan.spares and system.container is not None:
        raise PlanError(f"--spares {plan.spares}: how {system} joins a cluster in a container is not known here")


def _conditions(file: ClusterFile, connector: CqlConnector, names: Sequence[str]) -> Sequence[StopCondition]:
    """Make the owner's conditions for these containers. Raises PlanError for CQL that does more than read."""
    return conditions_of(file.stop_if, connector=connector, nodes=names)


def _no_commands_yet(name: str, verb: UndoVerb) -> Sequence[Undo]:
    raise PlanError(f"{name} knows how to {verb} when it is there")


def _system(plan: Plan) -> System:
    system = parse_system(plan.system)
    _dialect(system)
    return system


def _dialect(system: System) -> CqlDialect:
    if system.cql is None:
        raise PlanError(
            "Cassandra up to 1.1 speaks Thrift, and nodes in containers are asked by CQL: use --cluster local"
        )
    return system.cql


def _choice(plan: Plan, file: ClusterFile | None) -> Mapping[str, str]:
    """Collect `image`, `memory`, `cpus`, `network` and `host` where the cluster file or `-O` sets them."""
    given = asdict(configured(ContainerOptions(), plan.options))
    by_option: Mapping[str, str] = {name: text for name, text in given.items() if text is not None}
    written = {} if file is None else file.docker.model_dump(include=set(OPTIONS), exclude_none=True)
    by_file = {name: str(entry) for name, entry in written.items()}
    for name in by_option.keys() & by_file.keys():
        if by_option[name] != by_file[name]:
            raise PlanError(f"-O {name}={by_option[name]} contradicts the cluster file, which says {by_file[name]}")
    return {**by_option, **by_file}


def _megabytes(text: str) -> int:
    """Parse a size such as `1500m`, which the option or the cluster file has checked."""
    match = _SIZE.fullmatch(text)
    assert match is not None, "both refuse another"
    return int(int(match[1]) * _MB_OF_UNIT[match[2]])


def _usual_memory_mb(system: System) -> int:
    """Return the memory of a container for which none is asked, MB."""
    return max(_LEAST_MB, round(system.memory_mb * _ABOVE_THE_SERVER))


def _usual_image(system: System, engine: DockerEngine) -> str:
    """Name the image that `schemaquake image` builds, or the published one of a system that is not built here."""
    if system.container is not None:
        return f"{system.container.image}:{system.version}"
    name = image_name(system)
    if not engine.has_image(name):
        raise EnvironmentLacks(
            f"there is no image {name}: build it with `schemaquake image {system}`, or name one that the engine has or can "
            f"pull, for example -O image=cassandra:{system.version}"
        )
    return name


def _on_demand(system: System, plan: Plan) -> Mapping[str, Any]:
    """List the settings for features that this plan's workloads need and images do not have."""
    if system.launch is None:
        return {}
    requirements: list[frozenset[str]] = [load("workloads", name).requires for name in plan.workloads]
    usual = settings_of(recipe_for(system))
    wanted = settings_of(recipe_for(system, wanted=frozenset().union(*requirements)))
    return {name: entry for name, entry in wanted.items() if usual.get(name) != entry}


# ── what it needs ────────────────────────────────────────────────────────────────────────────────────────────────────


def _require_memory(needed_mb: int, engine: DockerEngine) -> None:
    """Require that the engine's machine has the memory of all containers. Raises EnvironmentLacks."""
    there_mb = engine.memory_mb()
    if needed_mb > there_mb:
        raise EnvironmentLacks(
            f"the containers may take {needed_mb} MB together, and the engine's machine has {there_mb} MB: use fewer "
            "--nodes, or give each less with -O memory=900m"
        )


def _warn_of_leftovers(engine: DockerEngine) -> None:
    for run, folder in engine.leftovers().items():
        log.warning(
            "containers of another run are on this engine; if that run is over: schemaquake heal FOLDER",
            extra={"run": run, "folder": folder},
        )


def _require_reachable(containers: Sequence[Container]) -> None:
    """Require that each container answers from here, if only by refusing a connection. Raises EnvironmentLacks."""
    for each in containers:
        try:
            socket.create_connection((each.address, _ANY_PORT), timeout=_REACHED_WITHIN_S).close()
        except ConnectionRefusedError:
            continue
        except OSError as error:
            raise EnvironmentLacks(
                f"the container of {each.node} cannot be reached at {each.address} from here ({error}). The networks of an "
                "engine on another machine, and those of Docker Desktop, which runs its engine in a virtual machine, are not "
                "routed here: run schemaquake on the engine's own machine, or join the containers to a network that is "
                "routed (-O network=NAME)"
            ) from error


def _owner(transport: Transport, folder: str) -> str | None:
    """Find the owner of a server's folder; None for root.

    Entrypoints start as root and change to that user. libfaketime does not survive this, because its shared memory is
    root's by then. So a server with a clock of its own starts as that user.
    """
    owner = transport.run(["stat", "-c", "%U", folder]).stdout.strip()
    return None if owner in {"", "root", "UNKNOWN"} else owner


def _missing(means: str) -> str | None:
    """Return why containers lack these means, None if they have them; `create` has prepared what the plan needs."""
    return (
        None
        if means in {"packets", "signals", "clock", "topology", "files"}
        else f'containers have no means for "{means}"'
    )


def _saved_log(engine: DockerEngine, container: Container, record: _Record, folder: Path) -> str:
    """Copy what the server of a dead run printed beside the logs that were saved before. Returns a sentence."""
    transport = DockerTransport(engine.client, container.id, name=container.name)
    keeps = folder / "nodes" / container.node
    boots = [int(match[1]) for path in keeps.glob("*.log") if (match := _LOG_OF_A_START.fullmatch(path.name))]
    path = keeps / f"system-{max(boots, default=-1) + 1}.log"
    printed = process(["true"], f"{record.state}/{record.run}").console
    assert printed is not None
    try:
        text = transport.get(printed)
        keeps.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    except (OSError, NodeUnreachable, ClusterError) as error:
        return f"the log of {container.node} could not be saved: {error}"
    return f"the log of {container.node} was saved as {path.name}"
