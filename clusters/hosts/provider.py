"""SSH: a cluster of hosts that are there already, as a cluster file tells of them (`--cluster FILE.toml`).

Nothing is installed and nothing is started by surprise: the servers run before the run and after it. What the harness
puts on a host lies in one folder that goes with the run, and every fault has a guard there.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from schemaquake.clusters.cluster_file.allowance import check_plan
from schemaquake.clusters.cluster_file.model import ClusterFile, Process
from schemaquake.clusters.cluster_file.parse import read_cluster_file, read_cluster_file_of_run
from schemaquake.clusters.cql.client import CqlConnector
from schemaquake.clusters.doctor.doctor import refuse_unless_fit
from schemaquake.clusters.nodes.clock import FaketimeClock, HostClock
from schemaquake.clusters.nodes.cluster import DeployedCluster
from schemaquake.clusters.nodes.guard import Guard, Guards
from schemaquake.clusters.nodes.ledger_healer import heal_by_ledger
from schemaquake.clusters.nodes.node import ServerNode, deployed_node
from schemaquake.clusters.nodes.run_name import name_run, run_name, run_of
from schemaquake.clusters.nodes.service import service_of
from schemaquake.clusters.nodes.transport import Transport
from schemaquake.clusters.ssh.root_transport import RootTransport
from schemaquake.clusters.ssh.transport import SshTransport
from schemaquake.clusters.systems.system import System, parse_system
from schemaquake.harness.errors import PlanError
from schemaquake.harness.faults.ledger import FILE_NAME
from schemaquake.harness.model.plan import Plan

__all__ = ["SshProvider", "way_to"]

_START_LIMIT_S: Final = 120.0


def way_to(file: ClusterFile, name: str) -> Transport:
    """The way to that node, on which everything is carried out as root."""
    way = SshTransport(file.access(name))
    return way if file.become.method == "none" else RootTransport(way, file.become)


class SshProvider:
    """`--cluster FILE.toml` with `provider = "ssh"`."""

    name = "ssh"

    def prepare(self, plan: Plan, folder: Path) -> Mapping[str, str]:
        """Refuse what the cluster's owner does not allow and what its hosts cannot do, before anything is touched.

        Raises PlanError, FaultNotAllowed, EnvironmentLacks.
        """
        if plan.cluster_file is None:
            raise PlanError("--cluster ssh needs to know the hosts: give the cluster file itself, --cluster FILE.toml")
        file = read_cluster_file_of_run(folder)
        check_plan(plan, file)
        facts = refuse_unless_fit(plan, file)
        name_run(folder)
        hosts = ", ".join(f"{name} {file.access(name).host}" for name in file.addresses)
        return {"hosts": hosts, "cluster file": str(plan.cluster_file), **facts}

    def enclosure(self, folder: Path) -> Sequence[str]:  # noqa: ARG002 - other providers look at the run's folder
        """None but this: when the command that started the run dies, the run heals and tears down as if it were told to."""
        return [] if shutil.which("setpriv") is None else ["setpriv", "--pdeathsig", "TERM"]

    def create(self, plan: Plan, folder: Path) -> DeployedCluster:
        """The cluster of this plan, nobody asked yet."""
        return _cluster(
            read_cluster_file_of_run(folder),
            plan.system,
            run=run_name(folder),
            folder=folder,
            start_timeout_s=plan.start_timeout_s,
            keep_data=plan.keep_data,
        )

    def heal(self, folder: Path) -> Sequence[str]:
        """Undo what a dead run left on the hosts, from any machine that may log in there. Raises HealError."""
        plan = Plan.read(folder)
        return heal_by_ledger(self.create(plan, folder), folder / FILE_NAME, keep_data=plan.keep_data)

    def heal_ledger(self, ledger: Path, cluster_file: Path) -> Sequence[str]:
        """The same from the run's ledger alone, and a cluster file that may be written for another machine than the run's.

        Raises HealError, PlanError.
        """
        file = read_cluster_file(cluster_file)
        if file.system is None:
            raise PlanError(f'{cluster_file} does not say what runs there: add system = "cassandra:VERSION" to it')
        cluster = _cluster(
            file, file.system, run=run_of(ledger), folder=ledger.parent, start_timeout_s=_START_LIMIT_S, keep_data=False
        )
        return heal_by_ledger(cluster, ledger, keep_data=False)


def _cluster(
    file: ClusterFile, name: str, *, run: str, folder: Path, start_timeout_s: float, keep_data: bool
) -> DeployedCluster:
    system = parse_system(name)
    if system.cql is None:
        raise PlanError(f"{system} has no CQL: clusters of such an age can be had with --cluster local only")
    version = system.cql.protocol_version
    nodes = [_node(each, file, system, version, run=run, keeps=folder / "nodes" / each) for each in file.addresses]
    guards = {node.name: Guard(node.transport, state=file.paths.state, run=run, verbs=node.undoing) for node in nodes}
    cql = CqlConnector(file.addresses, file.cql_port, system.cql, credentials=file.credentials, tls=file.tls)
    return DeployedCluster(
        nodes,
        system,
        cql,
        Guards(guards, max_fault_s=file.max_fault_seconds),
        run_name=run,
        folder=folder,
        prefix=file.keyspace_prefix,
        begins="serving",
        start_timeout_s=start_timeout_s,
        keep_data=keep_data,
        missing=partial(_missing, nodes),
    )


def _node(name: str, file: ClusterFile, system: System, protocol_version: int, *, run: str, keeps: Path) -> ServerNode:
    way = way_to(file, name)
    folder = f"{file.paths.state}/{run}"
    clock = _clock(file, way, folder)
    return deployed_node(
        name,
        file.addresses[name],
        way,
        service_of(file, folder, environment=_environment(file, clock)),
        folder=folder,
        cql_port=file.cql_port,
        protocol_version=protocol_version,
        tls=None if file.tls is None else file.tls.context(),
        logs=file.paths.logs,
        data=file.paths.data,
        layout=system.layout,
        clock=clock,
        keeps=keeps,
    )


def _clock(file: ClusterFile, way: Transport, folder: str) -> HostClock | FaketimeClock | None:
    told = file.clock
    match told.method:
        case "settime":
            return HostClock(way, folder=folder)
        case "libfaketime":
            return FaketimeClock(way, folder=folder, library=told.library, offset_file=told.offset_file)
    return None


def _environment(file: ClusterFile, clock: HostClock | FaketimeClock | None) -> Mapping[str, str]:
    """What a server that the harness starts again needs, to follow its clock; asked only where clocks may be skewed."""
    if clock is None or "clock" not in file.allow or not isinstance(file.service, Process):
        return {}
    return clock.environment()


def _missing(nodes: Sequence[ServerNode], means: str) -> str | None:
    if means != "clock":
        return None
    refusals = [
        "no clock may be skewed here ([clock] method is none)" if node.clock is None else node.clock.refusal()
        for node in nodes
    ]
    return next((refusal for refusal in refusals if refusal is not None), None)
