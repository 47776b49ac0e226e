"""Doctor: checks on every node, before a run, that a deployed cluster has what the run needs.

`schemaquake doctor --cluster FILE` checks for everything that the file allows. A run checks for what its plan needs and
refuses with everything that is missing at once. Nothing is installed or repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from schemaquake.clusters.cluster_file.allowance import asked
from schemaquake.clusters.cluster_file.model import ClusterFile
from schemaquake.clusters.cql.client import CqlConnector
from schemaquake.clusters.doctor.checks import checks_for
from schemaquake.clusters.doctor.examination import Check, Examination, JointCheck, Seen, examine
from schemaquake.clusters.doctor.probe import NodeProbe
from schemaquake.clusters.nodes.transport import Transport
from schemaquake.clusters.ssh.transport import SshTransport
from schemaquake.clusters.systems.cassandra.system_schema import SystemSchema
from schemaquake.clusters.systems.dialect import CqlDialect
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.errors import EnvironmentLacks, PlanError
from schemaquake.harness.model.plan import Plan

__all__ = ["TransportTo", "examine_cluster", "refuse_unless_fit", "required_checks"]

TransportTo = Callable[[ClusterFile, str], Transport]
"""From a cluster file and a node's name to the transport of the connection's user."""

_LATEST_BEFORE_KNOWN: Final = CqlDialect(protocol_version=4, schema=SystemSchema())
"""The dialect of a server whose system the user has not named: that of Cassandra 3.0 to 5.0."""


def required_checks(plan: Plan, file: ClusterFile) -> Sequence[Check[NodeProbe] | JointCheck[NodeProbe]]:
    """List the checks of every node that this plan needs before it is run."""
    return checks_for(file, [need.word for need in asked(plan)])


def by_ssh(file: ClusterFile, name: str) -> Transport:
    """Make the transport to a node of a cluster file with `provider = "ssh"`."""
    return SshTransport(file.access(name))


def examine_cluster(
    file: ClusterFile,
    *,
    allowances: Collection[str] | None = None,
    system: str | None = None,
    transport_to: TransportTo = by_ssh,
) -> Examination:
    """Check every node for what faults of these words need (None: all that the file allows).

    `system` is what the servers should be (None: as the file says, if it does). Raises PlanError for a system without CQL.
    """
    wanted = file.allow if allowances is None else tuple(allowances)
    with _probes(file, system or file.system, transport_to) as probes:
        return examine(probes, checks_for(file, wanted))


def refuse_unless_fit(plan: Plan, file: ClusterFile, *, transport_to: TransportTo = by_ssh) -> Mapping[str, str]:
    """Check every node for what this plan needs, and return the facts about the hosts for the report.

    Raises EnvironmentLacks with everything that is missing, a line each.
    """
    words = {need.word for need in asked(plan)}
    with _probes(file, plan.system, transport_to, words) as probes:
        found = examine(probes, required_checks(plan, file))
    if not found.ok:
        missing = "\n".join(f"  {sentence}" for sentence in found.missing)
        raise EnvironmentLacks(f"the cluster lacks what this run needs; nothing was touched:\n{missing}")
    facts = found.document()["checks"]
    return {
        f"{check} of the nodes": ", ".join(f"{node} {facts[check][node]['said']}" for node in probes)
        for check in ("clock offset", "version")
        if check in facts
    }


@contextmanager
def _probes(
    file: ClusterFile, system: str | None, transport_to: TransportTo, allowances: Collection[str] | None = None
) -> Iterator[Mapping[str, NodeProbe]]:
    cql = _connector(file, system)
    probes = {
        name: NodeProbe(name, address, transport_to(file, name), file, cql=cql, system=system, allowances=allowances)
        for name, address in file.addresses.items()
    }
    try:
        yield probes
    finally:
        for probe in probes.values():
            probe.transport.close()


def _connector(file: ClusterFile, system: str | None) -> CqlConnector:
    dialect = _LATEST_BEFORE_KNOWN if system is None else parse_system(system).cql
    if dialect is None:
        raise PlanError(f"{system} speaks Thrift; only clusters that speak CQL can be tested where they are deployed")
    return CqlConnector(
        file.addresses,
        port=file.cql_port,
        dialect=dialect,
        credentials=file.credentials,
        tls=file.tls,
    )


# ── containers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def examine_engine(file: ClusterFile, *, system: str | None = None) -> Examination:
    """Check the docker engine and that it has the image; before a run there are no containers to check."""
    from schemaquake.clusters.docker.engine import DockerEngine  # noqa: PLC0415 - the SDK takes long to import
    from schemaquake.clusters.docker.image import image_name  # noqa: PLC0415 - the same

    image = file.docker.image
    if image is None and (system or file.system) is not None:
        image = image_name(parse_system(str(system or file.system)))

    def engine(host: str | None) -> Seen:
        opened = DockerEngine.connect(host)
        try:
            return Seen(True, next(iter(opened.described().values())))
        finally:
            opened.close()

    def holds_image(host: str | None) -> Seen:
        if image is None:
            return Seen(False, "no image is named", 'write image = "…" below [docker], or say --system')
        opened = DockerEngine.connect(host)
        try:
            there = opened.has_image(image)
        finally:
            opened.close()
        remedy = f"docker pull {image}" if file.docker.image else f"schemaquake image {system or file.system}"
        return Seen(True, image) if there else Seen(False, f"the engine has no {image}", remedy)

    checks: Sequence[Check[str | None]] = (
        Check(name="engine", look=engine),
        Check(name="image", look=holds_image, after=("engine",)),
    )
    return examine({"docker": file.docker.host}, checks)
