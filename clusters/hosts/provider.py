"""SSH: a cluster of hosts that a cluster file describes (`--cluster FILE.toml`).

Nothing is installed, and the servers run before and after the run. The harness keeps its files on a host in one folder,
which is removed with the run, and every fault has a guard there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from schemaquake.clusters.cluster_file.allowance import asked, check_plan
from schemaquake.clusters.cluster_file.model import ClusterFile, Process
from schemaquake.clusters.cluster_file.parse import read_cluster_file, read_cluster_file_of_run
from schemaquake.clusters.cql.client import CqlConnector
from schemaquake.clusters.doctor.doctor import refuse_unless_fit
from schemaquake.clusters.hosts.everywhere import fire_everywhere
from schemaquake.clusters.hosts.joining import HostJoining
from schemaquake.clusters.nodes.client_port import ClientPort
from schemaquake.clusters.nodes.clock import FaketimeClock, HostClock
from schemaquake.clusters.nodes.cluster import DeployedCluster
from schemaquake.clusters.nodes.guard import Guard, Guards
from schemaquake.clusters.nodes.lease import Lease, Leases
from schemaquake.clusters.nodes.ledger_healer import heal_by_ledger
from schemaquake.clusters.nodes.node import ServerData, ServerNode, deployed_node
from schemaquake.clusters.nodes.reshaping import Spares
from schemaquake.clusters.nodes.run_name import name_run, run_name, run_of
from schemaquake.clusters.nodes.service import service_of
from schemaquake.clusters.nodes.stop_conditions import ConsentCondition, conditions_of
from schemaquake.clusters.nodes.terms import OwnersTerms, RunOnNodes
from schemaquake.clusters.nodes.transport import NoTransport, Transport
from schemaquake.clusters.ssh.root_transport import RootTransport
from schemaquake.clusters.ssh.transport import SshTransport
from schemaquake.clusters.systems.system import System, parse_system
from schemaquake.harness.errors import PlanError
from schemaquake.harness.faults.ledger import FILE_NAME
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Rehearsal, StopCondition

__all__ = ["SshProvider", "transport_to"]

_START_LIMIT_S: Final = 120.0
_TOPOLOGY: Final = "topology"
"""The word of `allow` for operations on the membership."""


def transport_to(file: ClusterFile, name: str) -> Transport:
    """Make the transport to that node, which runs every command as root."""
    transport = SshTransport(file.access(name))
    return transport if file.become.method == "none" else RootTransport(transport, file.become)


class SshProvider:
    """`--cluster FILE.toml` with `provider = "ssh"`."""

    name = "ssh"
    prepares_spares = True

    def prepare(self, plan: Plan, folder: Path) -> Mapping[str, str]:
        """Refuse a plan that the cluster's owner does not allow or that its hosts cannot carry out, before anything is touched.

        Raises PlanError, FaultNotAllowed, EnvironmentLacks.
        """
        if plan.cluster_file is None:
            raise PlanError("--cluster ssh needs a cluster file: use --cluster FILE.toml")
        file = read_cluster_file_of_run(folder)
        check_plan(plan, file)
        _conditions(file, plan, {})
        facts = refuse_unless_fit(plan, file)
        name_run(folder)
        hosts = ", ".join(f"{name} {file.access(name).host}" for name in _names(file, plan))
        return {"hosts": hosts, "cluster file": str(plan.cluster_file), **facts}

    def unstarted(self, plan: Plan) -> DeployedCluster:
        """Return the plan's cluster of hosts that are not asked. Raises PlanError, FaultNotAllowed."""
        if plan.cluster_file is None:
            raise PlanError("--cluster ssh needs a cluster file: use --cluster FILE.toml")
        file = read_cluster_file(plan.cluster_file)
        check_plan(plan, file)
        return _cluster(
            file,
            plan.system,
            run="RUN",
            folder=Path("RUN"),
            start_timeout_s=plan.start_timeout_s,
            keep_data=True,
            plan=plan,
            transport_of=NoTransport,
        )

    def enclosure(self, folder: Path) -> Sequence[str]:  # noqa: ARG002 - other providers look at the run's folder
        """Return the command by which the run heals and tears down when the command that started it dies."""
        return [] if shutil.which("setpriv") is None else ["setpriv", "--pdeathsig", "TERM"]

    def create(self, plan: Plan, folder: Path) -> DeployedCluster:
        """Make the cluster of this plan without touching its hosts."""
        return _cluster(
            read_cluster_file_of_run(folder),
            plan.system,
            run=run_name(folder),
            folder=folder,
            start_timeout_s=plan.start_timeout_s,
            keep_data=plan.keep_data,
            plan=plan,
        )

    def heal(self, folder: Path) -> Sequence[str]:
        """Undo what a dead run left on the hosts, from any machine that can log in there. Raises HealError."""
        plan = Plan.read(folder, keep_going=True)
        return heal_by_ledger(self.create(plan, folder), folder / FILE_NAME, keep_data=plan.keep_data)

    def rehearsal(self, plan: Plan) -> Rehearsal:
        """Return the hosts of the plan's cluster file, checked against what its owner allows. Connects to none."""
        if plan.cluster_file is None:
            raise PlanError("--cluster ssh needs a cluster file: use --cluster FILE.toml")
        file = read_cluster_file(plan.cluster_file)
        check_plan(plan, file)
        _conditions(file, plan, {})
        cluster = _cluster(
            file, plan.system, run="RUN", folder=Path("RUN"), start_timeout_s=plan.start_timeout_s, keep_data=True
        )
        nodes = {node.name: node for node in cluster.nodes if isinstance(node, ServerNode)}
        addresses = {name: file.all_addresses[name] for name in _names(file, plan)}
        return Rehearsal(addresses, lambda name, verb: nodes[name].undoing(verb))

    def heal_everywhere(self, cluster_file: Path) -> Sequence[str]:
        """Have the guards of every run on every host undo their faults now. Raises HealError, PlanError."""
        file = read_cluster_file(cluster_file)
        return fire_everywhere(cluster_file, transports=partial(transport_to, file), names=list(file.all_addresses))

    def heal_ledger(self, ledger: Path, cluster_file: Path) -> Sequence[str]:
        """Undo what a dead run left on the hosts, from its ledger and a cluster file, which may be another machine's.

        Raises HealError, PlanError.
        """
        file = read_cluster_file(cluster_file)
        if file.system is None:
            raise PlanError(f'{cluster_file} does not name the system: add system = "cassandra:VERSION" to it')
        cluster = _cluster(
            file, file.system, run=run_of(ledger), folder=ledger.parent, start_timeout_s=_START_LIMIT_S, keep_data=False
        )
        return heal_by_ledger(cluster, ledger, keep_data=False)


def _cluster(
    file: ClusterFile,
    name: str,
    *,
    run: str,
    folder: Path,
    start_timeout_s: float,
    keep_data: bool,
    plan: Plan | None = None,
    transport_of: Callable[[str], Transport] | None = None,
) -> DeployedCluster:
    """Make the cluster. `plan` is that of a run, during which the owner's conditions are asked; None for a healing.

    `transport_of` is None for the transports of the file.
    """
    system = parse_system(name)
    if system.cql is None:
        raise PlanError(f"{system} has no CQL: use --cluster local, which also supports Thrift")
    version = system.cql.protocol_version
    names = _names(file, plan)
    transport_of = partial(transport_to, file) if transport_of is None else transport_of
    nodes = [
        _node(each, file, system, version, transport_of(each), run=run, keeps=folder / "nodes" / each) for each in names
    ]
    spares = [node for node in nodes if node.name in file.spare_addresses]
    reshapes = plan is not None and any(need.word == _TOPOLOGY for need in asked(plan))
    joining = HostJoining(file.joining)
    guards = {node.name: Guard(node.transport, state=file.paths.state, run=run, verbs=node.undoing) for node in nodes}
    leases = {node.name: Lease(node.transport, run=run, state=file.paths.state) for node in nodes}
    cql = connector_of(file, name)
    return DeployedCluster(
        nodes,
        system,
        cql,
        Guards(guards, max_fault_s=file.max_fault_seconds),
        RunOnNodes(
            folder=folder,
            prefix=file.keyspace_prefix,
            begins="serving",
            start_timeout_s=start_timeout_s,
            name=run,
            keep_data=keep_data,
        ),
        owner=OwnersTerms(
            max_nodes_down=file.max_nodes_down,
            conditions=lambda: (
                [] if plan is None else _conditions(file, plan, {node.name: node.transport for node in nodes})
            ),
            alone=reshapes and not file.shared,
        ),
        spares=Spares(
            names=[node.name for node in spares],
            prepare_to_join=joining if reshapes else None,
            cannot_replace=joining.cannot_replace,
            unfit=partial(joining.unfit, spares),
            tidy=joining.end,
        ),
        leases=Leases(leases, max_fault_s=file.max_fault_seconds),
        missing=partial(_missing, nodes),
    )


def _names(file: ClusterFile, plan: Plan | None) -> Sequence[str]:
    """List the nodes and those spares that the plan has; without a plan all of them."""
    return list(file.all_addresses) if plan is None else [*file.addresses, *plan.spare_names]


def _conditions(file: ClusterFile, plan: Plan, transports: Mapping[str, Transport]) -> Sequence[StopCondition]:
    """Make the owner's conditions for this plan. Raises PlanError for CQL that does more than read."""
    words = {need.word for need in asked(plan)}
    connector = connector_of(file, plan.system)
    stated = conditions_of(file.stop_if, connector=connector, nodes=list(file.addresses))
    if file.consent_file is None or not words:
        return stated
    consents = [ConsentCondition(name, each, file.consent_file, words) for name, each in transports.items()]
    return [*stated, *consents]


def connector_of(file: ClusterFile, system: str) -> CqlConnector:
    """Make the connector to the servers of a cluster file. Raises PlanError for a system without CQL."""
    cql = parse_system(system).cql
    if cql is None:
        raise PlanError(f"{system} has no CQL: use --cluster local, which also supports Thrift")
    return CqlConnector(file.all_addresses, file.cql_port, cql, credentials=file.credentials, tls=file.tls)


def _node(
    name: str,
    file: ClusterFile,
    system: System,
    protocol_version: int,
    transport: Transport,
    *,
    run: str,
    keeps: Path,
) -> ServerNode:
    folder = f"{file.paths.state}/{run}"
    clock = _clock(file, transport, folder)
    return deployed_node(
        name,
        ClientPort(
            address=file.all_addresses[name],
            port=file.cql_port,
            protocol_version=protocol_version,
            tls=None if file.tls is None else file.tls.context(),
        ),
        transport,
        service_of(file, folder, environment=_environment(file, clock)),
        folder=folder,
        logs=file.paths.logs,
        data=ServerData(folders=file.paths.data, layout=system.layout),
        clock=clock,
        keeps=keeps,
    )


def _clock(file: ClusterFile, transport: Transport, folder: str) -> HostClock | FaketimeClock | None:
    clock = file.clock
    match clock.method:
        case "settime":
            return HostClock(transport, folder=folder)
        case "libfaketime":
            return FaketimeClock(transport, folder=folder, library=clock.library, offset_file=clock.offset_file)
    return None


def _environment(file: ClusterFile, clock: HostClock | FaketimeClock | None) -> Mapping[str, str]:
    """Return the variables with which a server that the harness restarts follows its clock; none if clocks stay as they are."""
    if clock is None or "clock" not in file.allow or not isinstance(file.service, Process):
        return {}
    return clock.environment()


def _missing(nodes: Sequence[ServerNode], means: str) -> str | None:
    """Return why the hosts lack these means, None if they have them; hosts that are only shown are not asked for their clocks."""
    match means:
        case "packets" | "signals":
            return None
        case "clock":
            return next((refusal for refusal in map(_refuse_clock, nodes) if refusal is not None), None)
        case "files" | "disk":
            return "the files and disks of this cluster's servers are their owner's"
    return f'hosts of an owner have no means for "{means}"'


def _refuse_clock(node: ServerNode) -> str | None:
    """Return why the clock of a node cannot be skewed, None if it can, or if its host is only shown."""
    if node.clock is None:
        return "no clock may be skewed here ([clock] method is none)"
    return None if isinstance(node.transport, NoTransport) else node.clock.refusal()
