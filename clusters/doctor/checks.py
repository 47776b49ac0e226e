"""Checks: what every node of a deployed cluster must have before a run, and what each kind of fault needs besides.

    access    reachable · host key · root · consent · tools · lease
    server    service · logs · data · CQL · version · ring · schema agreement · prefix
    room      disk space · clock offset
    faults    clock (clock), and what each installed nemesis asks a node for (`OwnLack`), under the word that allows it

Checks change nothing; a packet filter is tried in a chain that no packet passes, which is removed again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Any, Final

from schemaquake.clusters.cluster_file.model import ClusterFile, Commands, Process, Systemd
from schemaquake.clusters.cql.protocol import answers_cql
from schemaquake.clusters.doctor.examination import Check, JointCheck, Seen
from schemaquake.clusters.doctor.probe import NodeProbe
from schemaquake.clusters.nodes.clock import FaketimeClock, HostClock
from schemaquake.clusters.nodes.lease import Lease
from schemaquake.clusters.nodes.stop_conditions import consent_lack
from schemaquake.clusters.ssh.login import HostKeyRefused
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.model.protocols import Executed, OwnLack, TopologyNemesis
from schemaquake.harness.model.traits import nemesis_traits
from schemaquake.harness.registry import load_all

__all__ = ["all_checks", "checks_for"]

_TOOLS: Final = ("sh", "setsid", "flock", "base64", "stat", "find", "wc", "tail", "date", "df", "kill")
"""The commands that guards, services and readings of a node use."""
_STATE_MB_MIN: Final = 4
_DATA_MB_MIN: Final = 512
_OFFSET_S_MAX: Final = 0.5
_ANSWERS_WITHIN_S: Final = 3.0
# The file system that a folder is on, or would be on if it were made.
_FREE: Final = 'place=$1; while [ ! -e "$place" ]; do place=$(dirname "$place"); done; df -Pk "$place" | tail -n 1'


# ── access ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _reachable(probe: NodeProbe) -> Seen:
    """Check that the host answers and runs commands; a host whose key is refused does answer."""
    if isinstance(probe.ping, HostKeyRefused):
        return Seen(True, probe.transport.described())
    if not isinstance(probe.ping, Executed):
        return Seen(False, str(probe.ping))
    if probe.ping.exit_code != 0:
        answer = _first_line(probe.ping)
        return Seen(False, f"{probe.transport.described()} runs no commands: {answer}", "give the user a login shell")
    return Seen(True, probe.transport.described())


def _host_key(probe: NodeProbe) -> Seen:
    """Check that the host's key is known; a host with another key was shown no credentials."""
    return Seen(False, str(probe.ping)) if isinstance(probe.ping, HostKeyRefused) else Seen(True)


def _root(probe: NodeProbe) -> Seen:
    done = probe.root("id", "-u")
    if done.exit_code == 0 and done.stdout.strip() == "0":
        return Seen(True, "" if probe.file.become.method == "none" else "by sudo")
    return Seen(
        False, f"commands do not run as root: {_first_line(done)}", 'log in as root, or write [become] method = "sudo"'
    )


def _tools(probe: NodeProbe) -> Seen:
    script = 'for tool in "$@"; do command -v "$tool" > /dev/null || echo "$tool"; done'
    lacking = probe.root("sh", "-c", script, "sh", *_TOOLS).stdout.split()
    if lacking:
        return Seen(False, f"no {', '.join(lacking)}", "install coreutils, findutils and util-linux")
    return Seen(True)


def _lease(probe: NodeProbe) -> Seen:
    """Check that no other run holds the host; one that begins now would be refused."""
    holder = Lease(probe.as_root, run="", state=probe.file.paths.state).holder()
    if holder is None:
        return Seen(True)
    return Seen(
        False,
        f"run {holder.run} of {holder.owner} holds it for another {holder.expires_in_s:g} s, longer while it goes on",
        "wait for its end; if it is dead: schemaquake heal RUN",
    )


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _service(probe: NodeProbe) -> Seen:
    match probe.file.service:
        case Systemd(unit=unit):
            return _unit(probe, unit)
        case Commands(status=status):
            done = probe.root(*status)
            return _server_process(probe, done.stdout.strip() if done.exit_code == 0 else "", " ".join(status))
        case Process(command=command):
            done = probe.root("sh", "-c", 'command -v "$1"', "sh", command[0])
            if done.exit_code != 0:
                return Seen(False, f"there is no {command[0]}", "correct [service] command, or install it")
            return Seen(True, done.stdout.strip())


def _unit(probe: NodeProbe, unit: str) -> Seen:
    done = probe.root("systemctl", "show", "--property=LoadState,ActiveState,MainPID", unit)
    if done.exit_code != 0:
        remedy = 'write [service] kind = "commands" or kind = "process" where there is no systemd'
        return Seen(False, f"systemctl does not work: {_first_line(done)}", remedy)
    properties = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    if properties.get("LoadState") != "loaded":
        return Seen(False, f"there is no unit {unit}", "correct [service] unit")
    if properties.get("ActiveState") != "active":
        return Seen(False, f"the unit {unit} is {properties.get('ActiveState')}", f"systemctl start {unit}")
    return Seen(True, f"{unit}, process {properties.get('MainPID')}")


def _server_process(probe: NodeProbe, pid: str, asked: str) -> Seen:
    if not pid.isdigit():
        return Seen(False, f"`{asked}` prints no process id", "start the server, or correct [service] status")
    if probe.root("test", "-d", f"/proc/{pid}").exit_code != 0:
        return Seen(False, f"`{asked}` prints {pid}, and no such process runs", "start the server")
    return Seen(True, f"process {pid}")


def _logs(probe: NodeProbe) -> Seen:
    lacking = [path for path in probe.file.paths.logs if probe.root("test", "-r", path).exit_code != 0]
    if lacking:
        return Seen(False, f"there is no {', '.join(lacking)}", "correct [paths] logs")
    return Seen(True)


def _data(probe: NodeProbe) -> Seen:
    lacking = [path for path in probe.file.paths.data if probe.root("test", "-d", path).exit_code != 0]
    if lacking:
        return Seen(False, f"there is no folder {', '.join(lacking)}", "correct [paths] data")
    return Seen(True)


def _cql(probe: NodeProbe) -> Seen:
    tls = probe.file.tls
    where = f"{probe.address}:{probe.file.cql_port}"
    context = None if tls is None else tls.context()
    if not answers_cql(probe.address, probe.file.cql_port, timeout_s=_ANSWERS_WITHIN_S, tls=context):
        kind = "CQL" if tls is None else "CQL in TLS with a certificate signed by [tls] ca"
        return Seen(
            False,
            f"nothing answers {kind} at {where}",
            "start the server, correct cql_port or [tls], or open the port to this machine",
        )
    if not probe.local:
        return Seen(False, f"system.local is empty at {where}")
    return Seen(True, where)


def _version(probe: NodeProbe) -> Seen:
    system = None if probe.system is None else parse_system(probe.system)
    served = probe.cql.dialect.schema.read_release(probe.rows)
    if system is not None and re.match(rf"{re.escape(system.version)}(?![\w.])", served) is None:
        return Seen(False, f"it is {served}, not {system.version}", "correct the system, here or in the cluster file")
    return Seen(True, served)


def _ring(probes: Mapping[str, NodeProbe]) -> Mapping[str, Seen]:
    """Check that the file lists the whole ring: a run must not judge a part of one."""
    listed = {probe.address: name for name, probe in probes.items()}
    return {name: _members(probe, listed) for name, probe in probes.items()}


def _members(probe: NodeProbe, listed: Mapping[str, str]) -> Seen:
    rows = probe.rows("SELECT * FROM system.peers")
    peers = [{str(row[column]) for column in ("peer", "rpc_address") if row.get(column)} for row in rows]
    strangers = sorted(min(addresses) for addresses in peers if not addresses & set(probe.file.addresses.values()))
    if strangers:
        return Seen(
            False,
            f"it knows {', '.join(strangers)}, which the file does not list",
            "list every node of the ring in [[nodes]]",
        )
    known = set().union(*peers) if peers else set()
    unknown = [name for address, name in listed.items() if name != probe.name and address not in known]
    if unknown:
        return Seen(
            False, f"it does not know {', '.join(unknown)}", "join them to one ring, or correct their addresses"
        )
    return Seen(True, f"{len(rows) + 1} nodes")


def _agreement(probes: Mapping[str, NodeProbe]) -> Mapping[str, Seen]:
    versions = {name: str(probe.local.get("schema_version")) for name, probe in probes.items()}
    if len(set(versions.values())) == 1:
        return {name: Seen(True, version[:8]) for name, version in versions.items()}
    differing = ", ".join(f"{name} has {version}" for name, version in versions.items())
    remedy = "wait for agreement (nodetool describecluster), then check again"
    return dict.fromkeys(versions, Seen(False, differing, remedy))


def _prefix(probe: NodeProbe) -> Seen:
    """Check that no keyspace is under the prefix: it may be in use, and the end of a run drops the run's own."""
    prefix = f"{probe.file.keyspace_prefix}_"
    there = sorted(probe.cql.dialect.schema.read_keyspaces(probe.rows))
    taken = [name for name in there if name.startswith(prefix)]
    if taken:
        remedy = "drop them if they are of an earlier run, or choose another keyspace_prefix"
        return Seen(False, f"there are keyspaces under {prefix} already: {', '.join(taken)}", remedy)
    return Seen(True, prefix)


# ── room and time ────────────────────────────────────────────────────────────────────────────────────────────────────


def _disk_space(probe: NodeProbe) -> Seen:
    paths = probe.file.paths
    wanted = {paths.state: _STATE_MB_MIN} | dict.fromkeys(paths.data, _DATA_MB_MIN)
    free = {path: _free_mb(probe, path) for path in wanted}
    full = [
        f"{path} has {free[path]} MB free of {least} needed" for path, least in wanted.items() if free[path] < least
    ]
    if full:
        return Seen(False, "; ".join(full), "make room there")
    return Seen(True, f"{min(free[path] for path in paths.data)} MB")


def _free_mb(probe: NodeProbe, path: str) -> int:
    """Read the free space in MB; 0 if `df` does not print it."""
    columns = probe.root("sh", "-c", _FREE, "sh", str(PurePosixPath(path))).stdout.split()
    return int(columns[3]) // 1024 if len(columns) > 3 and columns[3].isdigit() else 0


def _clock_offset(probe: NodeProbe) -> Seen:
    """Compare the clocks; the answer's delay adds half of itself to the tolerance, a date without fractions half a second."""
    asked = time.time()
    printed = probe.run("date", "+%s.%N").stdout.strip()
    answered = time.time()
    whole, _, fraction = printed.partition(".")
    if not whole.isdigit():
        return Seen(False, f"`date` printed {printed!r}", "install coreutils")
    reads = float(printed) if fraction.isdigit() else float(whole) + 0.5
    offset_s = reads - (asked + answered) / 2
    allowed_s = _OFFSET_S_MAX + (answered - asked) / 2 + (0.0 if fraction.isdigit() else 0.5)
    if abs(offset_s) > allowed_s:
        remedy = "synchronize it (chrony, timesyncd): servers stamp what is written with it"
        return Seen(False, f"its clock is {offset_s:+.2f} s from this machine's", remedy)
    return Seen(True, f"{offset_s:+.2f} s")


# ── what faults need ─────────────────────────────────────────────────────────────────────────────────────────────────


class _Alone:
    """The part of a cluster that a nemesis asks about: one node, which the file allows to be disturbed."""

    def __init__(self, probe: NodeProbe) -> None:
        self.nodes = [probe]

    def missing(self, means: str) -> str | None:  # noqa: ARG002 - the node itself is asked
        return None


def _lack_of(nemesis: OwnLack) -> Callable[[NodeProbe], Seen]:
    """Make the check that asks the nemesis itself, so that the doctor finds what a run would."""

    def look(probe: NodeProbe) -> Seen:
        alone: Any = _Alone(probe)
        missing = nemesis.missing(alone)
        return Seen(True) if missing is None else Seen(False, missing)

    return look


def _checks_of_nemeses() -> Iterator[Check[NodeProbe]]:
    """Make a check for every installed nemesis that knows what it may lack on a node."""
    for name, nemesis in load_all("nemeses").items():
        traits = nemesis_traits(nemesis)
        is_of_one_node = isinstance(nemesis, OwnLack) and not isinstance(nemesis, TopologyNemesis)
        if is_of_one_node and traits.allowed_by is not None:
            yield Check(
                name=traits.checked_as or name,
                look=_lack_of(nemesis),
                after=("root", "CQL") if traits.checks_server else ("root",),
                allowances=frozenset({traits.allowed_by}),
                of_a_running_server=traits.checks_server,
            )


def _clock(probe: NodeProbe) -> Seen:
    """Ask the clock itself, so that the doctor finds what a run would."""
    settings = probe.file.clock
    clock: HostClock | FaketimeClock
    if settings.method == "settime":
        clock = HostClock(probe.as_root, folder=probe.file.paths.state)
    else:
        folder = probe.file.paths.state
        clock = FaketimeClock(probe.as_root, folder=folder, library=settings.library, offset_file=settings.offset_file)
    refusal = clock.refusal()
    if refusal is not None:
        return Seen(False, refusal, 'remedy that, take "clock" out of allow, or choose another [clock] method')
    if settings.method == "libfaketime" and not isinstance(probe.file.service, Process) and not _is_faked(probe):
        remedy = "start it with LD_PRELOAD and FAKETIME_TIMESTAMP_FILE, which [clock] offset_file names"
        return Seen(False, "the service does not start the server under libfaketime", remedy)
    return Seen(True, settings.method)


def _is_faked(probe: NodeProbe) -> bool:
    """Return True if some process reads its time from the file that `[clock] offset_file` names."""
    offset_file = probe.file.clock.offset_file
    if offset_file is None:
        return False
    script = 'grep -lzxF "FAKETIME_TIMESTAMP_FILE=$1" /proc/[0-9]*/environ 2> /dev/null | head -n 1'
    return bool(probe.root("sh", "-c", script, "sh", offset_file).stdout.strip())


def _first_line(done: Executed) -> str:
    return (done.stderr.strip() or done.stdout.strip() or f"exit code {done.exit_code}").splitlines()[0].rstrip(".")


def _consent(probe: NodeProbe) -> Seen:
    """Check the owner's file on the node, where the cluster file asks for one."""
    path = probe.file.consent_file
    if path is None:
        return Seen(True, "not asked for")
    lack = consent_lack(probe.as_root, path, probe.file.allow if probe.allowances is None else probe.allowances)
    remedy = f"its owner puts {path} there, of root, empty or with the words of allow that hold for this node"
    return Seen(True, path) if lack is None else Seen(False, lack, remedy)


_ALWAYS: Final[Sequence[Check[NodeProbe] | JointCheck[NodeProbe]]] = (
    Check(name="reachable", look=_reachable),
    Check(name="host key", look=_host_key, after=("reachable",)),
    Check(name="root", look=_root, after=("host key",)),
    Check(name="consent", look=_consent, after=("root",)),
    Check(name="tools", look=_tools, after=("root",)),
    Check(name="lease", look=_lease, after=("tools",)),
    Check(name="service", look=_service, after=("root",)),
    Check(name="logs", look=_logs, after=("root",)),
    Check(name="data", look=_data, after=("root",)),
    Check(name="disk space", look=_disk_space, after=("tools",)),
    Check(name="clock offset", look=_clock_offset, after=("host key",)),
    Check(name="clock", look=_clock, after=("root",), allowances=frozenset({"clock"})),
    Check(name="CQL", look=_cql),
    Check(name="version", look=_version, after=("CQL",)),
    JointCheck(name="ring", look=_ring, after=("CQL",)),
    JointCheck(name="schema agreement", look=_agreement, after=("CQL",)),
    Check(name="prefix", look=_prefix, after=("CQL",)),
)
"""The checks that are not a nemesis', in the order in which they are run and shown."""

_OF_A_RUNNING_SERVER: Final = frozenset({"CQL", "version", "ring", "schema agreement", "prefix", "logs", "data"})
"""Those of them that pass only while, or after, the server runs."""


@cache
def all_checks() -> Sequence[Check[NodeProbe] | JointCheck[NodeProbe]]:
    """Return all checks in the order in which they are run and shown; those of nemeses last, by name."""
    return (*_ALWAYS, *sorted(_checks_of_nemeses(), key=lambda check: check.name))


def checks_for(file: ClusterFile, allowances: Sequence[str]) -> Sequence[Check[NodeProbe] | JointCheck[NodeProbe]]:
    """List the checks for faults of these allowances, without those that need a server the harness has yet to start."""
    chosen = [check for check in all_checks() if not check.allowances or check.allowances & set(allowances)]
    if file.service.kind == "process":
        return [check for check in chosen if check.name not in _OF_A_RUNNING_SERVER and not check.of_a_running_server]
    return chosen
