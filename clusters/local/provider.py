"""Local: real nodes on this machine, each a process in a network namespace of its own, with its own address.

The run's process stands inside an enclosure (`schemaquake.clusters.local.namespaces`), so nothing here needs to find free ports, and a
teardown that never happened leaves nothing behind. A node's folder holds its configuration, data and one log a start.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

from schemaquake.clusters.cql.client import CqlConnector
from schemaquake.clusters.cql.protocol import answers_cql
from schemaquake.clusters.distribution.fetch import fetch
from schemaquake.clusters.distribution.java import find_java
from schemaquake.clusters.local import namespaces
from schemaquake.clusters.local.startup_archive import archive_arguments, ensure_archive
from schemaquake.clusters.nodes import libfaketime
from schemaquake.clusters.nodes.booting import boot_in_order
from schemaquake.clusters.nodes.first_error import first_error
from schemaquake.clusters.nodes.gossip_log import last_words
from schemaquake.clusters.systems.configuration import (
    CLIENT_PORTS,
    Place,
    command,
    tokens,
    tool_command,
    write_configuration,
)
from schemaquake.clusters.systems.data_directories import TableDirectory, table_directories
from schemaquake.clusters.systems.recipe import Recipe, System, parse_system, recipe_for
from schemaquake.clusters.thrift.protocol import answers_thrift
from schemaquake.harness.errors import ClusterError, EnvironmentLacks, NodeDied, NodeUnreachable, StartTimeout
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Boot, Connector, Demands, Executed
from schemaquake.harness.registry import load
from schemaquake.harness.run_process import process_start_time
from schemaquake.harness.wait import until

__all__ = ["LocalCluster", "LocalNode", "LocalProvider"]

log = logging.getLogger(__name__)

_KEPT_FREE_MB: Final = 1500
_YAML: Final = "yaml."
_PROPERTY: Final = "property."
_GONE: Final = frozenset({"Z", "X", None})
"""Letters of /proc/PID/stat for a process that runs no more (and no letter, for one that is reaped)."""
_ANY_SERVER_FOLDERS: Final = ("data", "commitlog", "hints", "saved_caches", "cdc_raw", "accord.journal", "tmp")
"""Of any line: whoever heals a run sweeps up without asking which line it was."""


class LocalProvider:
    """`--cluster local`."""

    name = "local"

    def prepare(self, plan: Plan, folder: Path) -> Mapping[str, str]:
        """Fetch the distribution and a Java for it, and check memory; writes `local.json` for the enclosure to read.

        Raises PlanError, FetchError, EnvironmentLacks.
        """
        system = parse_system(plan.system)
        recipe = recipe_for(system)
        _require_memory(plan.nodes * recipe.memory_mb)
        java = find_java(*recipe.java)
        distribution = fetch(system.version, distribution=plan.distribution)
        _require_disk(folder)
        ensure_archive(plan.system, java.path, distribution.class_path)
        document = {
            "java": str(java.path),
            "class_path": [str(jar) for jar in distribution.class_path],
            "source": distribution.source,
            "digest": distribution.digest,
        }
        (folder / "local.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
        return {
            "java": f"{java.version}",
            "distribution": distribution.source,
            "digest of its jars": distribution.digest[:16],
        }

    def demands(self, plan: Plan) -> Demands:
        """The memory of all its nodes, and what DDL its version knows. Raises PlanError."""
        recipe = recipe_for(parse_system(plan.system))
        return Demands(memory_mb=plan.nodes * recipe.memory_mb, features=recipe.features)

    def enclosure(self, folder: Path) -> Sequence[str]:  # noqa: ARG002 - other providers look at the run's folder
        """The private namespaces in which the run's process lives."""
        return namespaces.enclosure()

    def create(self, plan: Plan, folder: Path) -> LocalCluster:
        """The cluster of this plan; its nodes' folders are `folder/nodes/<name>`."""
        system = parse_system(plan.system)
        document = json.loads((folder / "local.json").read_text(encoding="utf-8"))
        return LocalCluster(
            system,
            recipe_for(system, wanted=_required(plan.workloads)),
            java=Path(document["java"]),
            class_path=[Path(jar) for jar in document["class_path"]],
            folder=folder,
            names=plan.node_names,
            start_timeout_s=plan.start_timeout_s,
            skewable_clocks="clock" in plan.nemeses,
            keep_data=plan.keep_data,
            settings=_settings(plan.options),
            properties=_properties(plan.options),
        )

    def heal(self, folder: Path) -> Sequence[str]:
        """End what a run left running, if its enclosure could not (no process namespace); by pid and start time.

        Deletes the nodes' data, too, unless the run was to keep it. Raises TimeoutError if a process does not end.
        """
        done = []
        for record in sorted((folder / "nodes").glob("*/process.json")):
            pid = _end_recorded(record)
            if pid is not None:
                done.append(f"node {record.parent.name}: process {pid} was still running and was ended")
            record.unlink()
        if Plan.read(folder).keep_data:
            return done
        emptied = [node.name for node in sorted((folder / "nodes").glob("*")) if _drop_data(node)]
        return done + [f"node {name}: its data was deleted" for name in emptied]


class LocalCluster:
    """N nodes of one system on a private bridge."""

    def __init__(
        self,
        system: System,
        recipe: Recipe,
        *,
        java: Path,
        class_path: Sequence[Path],
        folder: Path,
        names: Sequence[str],
        start_timeout_s: float,
        skewable_clocks: bool = False,
        keep_data: bool = False,
        java_options: Sequence[str] | None = None,
        settings: Mapping[str, Any] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """`java_options` replace the startup archive's, for whoever makes one.

        `settings` go into every cassandra.yaml, `properties` to every server's virtual machine.
        """
        self.system = system
        self.features = recipe.features
        self.pull_delay_s = recipe.pull_delay_s
        self._recipe = recipe
        self._java = java
        self._class_path = class_path
        self._folder = folder
        self._start_timeout_s = start_timeout_s
        self._keep_data = keep_data
        self._network_laid = False
        library = libfaketime.find_library() if skewable_clocks else None
        addresses = [namespaces.address_of(number) for number in range(1, len(names) + 1)]
        self.nodes: Sequence[LocalNode] = [
            LocalNode(
                name=name,
                address=address,
                token=token,
                seeds=addresses if recipe.start == "together" else addresses[:1],
                recipe=recipe,
                java=java,
                class_path=class_path,
                folder=folder / "nodes" / name,
                faketime=library,
                java_options=archive_arguments(java, class_path) if java_options is None else java_options,
                settings=settings or {},
                properties=properties or {},
            )
            for name, address, token in zip(names, addresses, tokens(recipe, len(names)), strict=True)
        ]

    def start(self) -> Sequence[Boot]:
        """Lay the network and boot every node, together where the version allows it.

        Raises NodeDied with the node's own first error, StartTimeout with the last line of its log.
        """
        namespaces.open_enclosure()
        namespaces.lay_network([node.name for node in self.nodes])
        self._network_laid = True
        boots = boot_in_order(
            self.nodes,
            first_alone=self._recipe.start == "first-alone",
            timeout_s=self._start_timeout_s,
            failure=self._failure,
        )
        missing = self.await_whole([node.name for node in self.nodes], deadline_s=self._start_timeout_s)
        if missing is not None:
            raise StartTimeout(f"all nodes serve, but after {self._start_timeout_s:g} s {missing}")
        if self._recipe.cms is not None and len(self.nodes) > 1:
            self._widen_metadata_service(min(self._recipe.cms, len(self.nodes)))
        return boots

    def _failure(self, node: LocalNode, boot: Boot) -> NodeDied | StartTimeout:
        if boot.exit_code is not None:
            return NodeDied(
                f"node {node.name} ({self.system}) ended while starting, exit code {boot.exit_code}. "
                f"Its first error: {boot.first_error}\nIts log: {node.log_path}",
                node=node.name,
                exit_code=boot.exit_code,
                first_error=boot.first_error or "",
            )
        last = node.log_text().strip().rsplit("\n", 1)[-1][:300]
        return StartTimeout(
            f"node {node.name} ({self.system}) did not answer {node.asked} within "
            f'{self._start_timeout_s:g} s. Last log line: "{last}".\nIts log: {node.log_path}. Try a longer --start-timeout.'
        )

    def await_whole(self, names: Sequence[str], *, deadline_s: float) -> str | None:
        """Wait until each of these nodes takes all the others of them for alive; else what is still missing.

        A node that waited for nobody serves clients before it knows the others: a schema change it is given then stays
        with it, and a QUORUM write is refused. What a node thinks of another it tells in its log and nowhere in CQL.
        """
        nodes = [node for node in self.nodes if node.name in names]
        pairs = partial(_strangers, nodes)
        try:
            until(lambda: not pairs(), deadline_s=deadline_s, what="a whole ring", every_s=0.2)
        except TimeoutError:
            return "; ".join(f"{one} does not take {other} for alive" for one, other in pairs())
        return None

    def _widen_metadata_service(self, members: int) -> None:
        """A fresh 6.0 cluster commits its metadata through one node; three survive the loss of any one of them."""
        finished = self.nodes[0].nodetool("cms", "reconfigure", str(members), timeout_s=90)
        if finished.exit_code != 0:
            raise ClusterError(
                f"`nodetool cms reconfigure {members}` failed on {self.nodes[0].name}: "
                f"{(finished.stderr or finished.stdout).strip()[-500:]}"
            )
        log.info("cluster metadata service widened", extra={"members": members})

    def stop(self) -> None:
        """End every node and drop its data (unless `--keep-data`); the network goes with the enclosure."""
        errors: list[Exception] = []
        for node in self.nodes:
            try:
                node.kill()
                if not self._keep_data:
                    node.drop_data()
            except Exception as error:  # noqa: BLE001 - teardown goes on and tells of everything at the end
                errors.append(error)
        if errors:
            raise ExceptionGroup("some nodes could not be torn down", errors)

    def connector(self) -> Connector:
        """Sessions over the protocol of this line's clients, each pinned to one address."""
        addresses = {node.name: node.address for node in self.nodes}
        port, era = CLIENT_PORTS[self._recipe.client], self._recipe.era
        if self._recipe.protocol_version is not None:
            return CqlConnector(addresses, port, self._recipe.protocol_version, era)
        # Not before it is needed: who asks by CQL shall not depend on what reads an interface definition.
        connector: Connector = import_module("schemaquake.clusters.thrift.client").ThriftConnector(
            addresses=addresses, port=port, era=era
        )
        return connector

    def missing(self, means: str) -> str | None:
        """Packets, signals and clocks are the means of a local cluster; topology changes are not."""
        match means:
            case "signals" | "packets":
                return None
            case "clock":
                if libfaketime.find_library() is None:
                    return "clock skew needs libfaketime (Debian: apt-get install faketime)"
                return None
        return f'the local cluster has no means for "{means}"'


class LocalNode:
    """One server process in its namespace."""

    def __init__(
        self,
        *,
        name: str,
        address: str,
        token: int,
        seeds: Sequence[str],
        recipe: Recipe,
        java: Path,
        class_path: Sequence[Path],
        folder: Path,
        faketime: Path | None,
        java_options: Sequence[str],
        settings: Mapping[str, Any],
        properties: Mapping[str, str],
    ) -> None:
        self.name = name
        self.address = address
        self.folder = folder
        self._place = Place(address=address, token=token, seeds=seeds, folder=folder)
        self._recipe = recipe
        self._java = java
        self._class_path = class_path
        self._faketime = faketime
        self._java_options = java_options
        self._settings = settings
        self._properties = properties
        self._process: subprocess.Popen[bytes] | None = None
        self._boot = -1
        self._started_at = 0.0

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def log_path(self) -> Path:
        """The log of the latest start."""
        return self.folder / f"system-{max(self._boot, 0)}.log"

    @property
    def _offset_file(self) -> Path:
        return self.folder / "clock_offset"

    def start(self) -> None:
        """Start the JVM and return at once."""
        if self.state() != "stopped":
            return
        if self._boot < 0:
            self._configure()
        self._boot += 1
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"}
        if self._faketime is not None:
            environment |= libfaketime.environment(self._faketime, self._offset_file)
        with self.log_path.open("wb") as output:
            self._process = subprocess.Popen(
                [*namespaces.in_namespace(self.name), *self._command()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=environment,
                start_new_session=True,  # Ctrl-C is the harness's to answer
            )
        self._started_at = time.monotonic()
        pid = self._process.pid
        document = {"pid": pid, "start_time": process_start_time(pid), "host_pid": pid if os.getpid() != 1 else None}
        # Whole or not at all: whoever heals after a crash must be able to read it.
        record = self.folder / "process.new"
        record.write_text(json.dumps(document), encoding="ascii")
        record.replace(self.folder / "process.json")

    @property
    def asked(self) -> str:
        """Whom a client asks, in words: `CQL at 10.77.0.1:9042`."""
        name = {"cql": "CQL", "thrift": "Thrift"}[self._recipe.client]
        return f"{name} at {self.address}:{CLIENT_PORTS[self._recipe.client]}"

    def _answers(self) -> bool:
        port = CLIENT_PORTS[self._recipe.client]
        if self._recipe.protocol_version is None:
            return answers_thrift(self.address, port)
        return answers_cql(self.address, port, version=self._recipe.protocol_version)

    def await_serving(self, *, deadline_s: float) -> Boot:
        """Wait for an answer to a client, the process's end, or the deadline."""

        def serves_or_ended() -> bool:
            return self.state() == "stopped" or self._answers()

        with suppress(TimeoutError):
            until(serves_or_ended, deadline_s=deadline_s, what=f"an answer from {self.name}", every_s=0.1)
        seconds = time.monotonic() - self._started_at
        if self.state() == "stopped":
            return Boot(
                node=self.name,
                served=False,
                seconds=seconds,
                exit_code=None if self._process is None else self._process.wait(10),
                first_error=first_error(self.log_text()),
            )
        served = self._answers()
        return Boot(
            node=self.name, served=served, seconds=seconds, first_error=None if served else first_error(self.log_text())
        )

    def stop(self, *, deadline_s: float = 30) -> None:
        """SIGTERM (the server's own shutdown), then SIGKILL if it does not end in time."""
        if self._process is None:
            return
        self.resume()
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            log.warning("node did not stop in time and was killed", extra={"node": self.name, "deadline_s": deadline_s})
            self.kill()

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait(30)

    def pause(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def state(self) -> Literal["running", "paused", "stopped"]:
        """Read from /proc: T is stopped by a signal, Z or nothing is gone."""
        if self._process is None or self._process.poll() is not None:
            return "stopped"
        match _process_state(self._process.pid):
            case "T" | "t":
                return "paused"
            case state if state in _GONE:
                return "stopped"
        return "running"

    # ── means ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def exec(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: str | None = None) -> Executed:
        """Run a command in the node's network namespace. Raises NodeUnreachable if it does not end in time."""
        try:
            finished = subprocess.run(
                [*namespaces.in_namespace(self.name), *argv],
                input=stdin,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
                cwd=self.folder,
            )
        except subprocess.TimeoutExpired as error:
            raise NodeUnreachable(f"node {self.name}: `{' '.join(argv)}` did not end within {timeout_s:g} s") from error
        return Executed(finished.returncode, finished.stdout, finished.stderr)

    def upload(self, source: Path, target: str) -> None:
        """Copy into the node's folder."""
        shutil.copyfile(source, self.folder / target)

    def download(self, source: str, target: Path) -> None:
        """Copy out of the node's folder."""
        shutil.copyfile(self.folder / source, target)

    def skew_clock(self, offset_s: float) -> None:
        """Shift the server's wall clock; takes effect within a second, or at the next start."""
        if self._faketime is None:
            raise EnvironmentLacks(
                "this run's nodes were started without libfaketime, so their clocks cannot be skewed"
            )
        libfaketime.write_offset(self._offset_file, offset_s)

    def clock_offset(self) -> float:
        """The offset a process under this node's clock sees, in seconds."""
        return 0.0 if self._faketime is None else libfaketime.read_offset(self._faketime, self._offset_file)

    def nodetool(self, *arguments: str, timeout_s: float = 60) -> Executed:
        """Run the distribution's own nodetool against this node."""
        tool = tool_command(self._recipe, self._place, java=self._java, class_path=self._class_path)
        return self.exec([*tool, *arguments], timeout_s=timeout_s)

    # ── what it left ─────────────────────────────────────────────────────────────────────────────────────────────────

    def log_text(self) -> str:
        """The log of the latest start; empty before the first."""
        return self.log_path.read_text(encoding="utf-8", errors="replace") if self.log_path.exists() else ""

    def data_directories(self) -> Sequence[TableDirectory]:
        """(keyspace, table, id, live, snapshots) of every user table on the node's disk; id null where names bear none."""
        return table_directories(self.folder / "data", self._recipe.layout)

    def drop_data(self) -> None:
        """Delete what only the server needed; logs and configuration stay."""
        _drop_data(self.folder)
        (self.folder / "process.json").unlink(missing_ok=True)

    # ── configuration ────────────────────────────────────────────────────────────────────────────────────────────────

    def _configure(self) -> None:
        write_configuration(self._recipe, self._place, self._settings)
        if self._faketime is not None:
            libfaketime.write_offset(self._offset_file, 0)

    def _command(self) -> list[str]:
        return command(
            self._recipe,
            self._place,
            java=self._java,
            class_path=self._class_path,
            java_options=self._java_options,
            properties=self._properties,
        )


def _settings(options: Mapping[str, str]) -> dict[str, Any]:
    """`-O yaml.NAME=VALUE` for every node's cassandra.yaml; a value that is JSON is taken as such, any other as text."""
    found: dict[str, Any] = {}
    for option, text in options.items():
        if option.startswith(_YAML):
            try:
                found[option.removeprefix(_YAML)] = json.loads(text)
            except json.JSONDecodeError:
                found[option.removeprefix(_YAML)] = text
    return found


def _required(workloads: Sequence[str]) -> frozenset[str]:
    """The features without which these workloads are not applicable."""
    requirements: list[frozenset[str]] = [load("workloads", name).requires for name in workloads]
    return frozenset().union(*requirements)


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    """`-O property.NAME=VALUE` for every server: `-DNAME=VALUE`, as it stands."""
    return {option.removeprefix(_PROPERTY): text for option, text in options.items() if option.startswith(_PROPERTY)}


def _strangers(nodes: Sequence[LocalNode]) -> list[tuple[str, str]]:
    """(node, other) for every node whose log's last word on the other's address is not that it is up."""
    found = []
    for node in nodes:
        last_word = last_words(node.log_text())
        found += [
            (node.name, other.name) for other in nodes if other is not node and last_word.get(other.address) != "UP"
        ]
    return found


def _end_recorded(record: Path) -> int | None:
    """End the process that a node's record names and wait until it is gone; its pid, or None if it was gone before."""
    try:
        process = json.loads(record.read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        return None  # it never became whole, so no process is known by it
    pid = process["host_pid"]
    if pid is None or process_start_time(pid) != process["start_time"] or _process_state(pid) in _GONE:
        return None
    os.kill(pid, signal.SIGKILL)
    until(lambda: _process_state(pid) in _GONE, deadline_s=10, what=f"the end of process {pid}")
    return int(pid)


def _drop_data(node_folder: Path) -> list[Path]:
    """Delete what only a server needs; returns the folders that were there."""
    folders = [node_folder / name for name in _ANY_SERVER_FOLDERS]
    there = [folder for folder in folders if folder.exists()]
    for folder in there:
        shutil.rmtree(folder, ignore_errors=True)
    return there


def _process_state(pid: int) -> str | None:
    """The state letter of /proc/PID/stat, None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return stat.rsplit(")", 1)[1].split()[0]


def _require_memory(needed_mb: int) -> None:
    match = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    if match is None:
        return
    available_mb = int(match[1]) // 1024
    if available_mb < needed_mb + _KEPT_FREE_MB:
        raise EnvironmentLacks(
            f"these nodes need about {needed_mb} MB, and {_KEPT_FREE_MB} MB must stay free for the harness, "
            f"but only {available_mb} MB of memory are available. Use fewer --nodes, or end something."
        )


def _require_disk(folder: Path) -> None:
    free_mb = shutil.disk_usage(folder).free // 2**20
    if free_mb < 1024:
        raise EnvironmentLacks(
            f"only {free_mb} MB are free on the disk of {folder}; a run needs 1 GB. Choose another folder with --runs, or make room."
        )
