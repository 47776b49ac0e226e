"""Local: real nodes on this machine, each a process in a network namespace of its own, with its own address.

The run's process stands inside an enclosure (`clusters.namespaces`), so nothing here needs to find free ports, and a
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
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

from clusters import libfaketime, namespaces
from clusters.cql_client import CqlConnector
from clusters.data_directories import table_directories
from clusters.fetch import fetch
from clusters.first_error import first_error
from clusters.java import find_java
from clusters.native_protocol import answers_cql
from clusters.recipe import Recipe, System, parse_system, recipe_for
from clusters.startup_archive import archive_arguments, ensure_archive
from harness.errors import ClusterError, EnvironmentLacks, NodeDied, NodeUnreachable, StartTimeout
from harness.plan import Plan
from harness.protocols import Boot, Executed
from harness.runner import process_start_time
from harness.wait import until

__all__ = ["LocalCluster", "LocalNode", "LocalProvider"]

log = logging.getLogger(__name__)

_CQL_PORT: Final = 9042
_STORAGE_PORT: Final = 7000
_JMX_PORT: Final = 7199
_KEPT_FREE_MB: Final = 1500
_RING: Final = 2**64
_YAML: Final = "yaml."
_ALIVE: Final = re.compile(r"/(?P<address>[0-9.]+)(?::[0-9]+)? is now (?P<state>UP|DOWN)")
_GONE: Final = frozenset({"Z", "X", None})
"""Letters of /proc/PID/stat for a process that runs no more (and no letter, for one that is reaped)."""
_SERVER_FOLDERS: Final = ("data", "commitlog", "hints", "saved_caches", "cdc_raw", "tmp")


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
        java = find_java(17, 21)
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

    def enclosure(self, folder: Path) -> Sequence[str]:  # noqa: ARG002 - other providers look at the run's folder
        """The private namespaces in which the run's process lives."""
        return namespaces.enclosure()

    def create(self, plan: Plan, folder: Path) -> LocalCluster:
        """The cluster of this plan; its nodes' folders are `folder/nodes/<name>`."""
        system = parse_system(plan.system)
        document = json.loads((folder / "local.json").read_text(encoding="utf-8"))
        return LocalCluster(
            system,
            recipe_for(system),
            java=Path(document["java"]),
            class_path=[Path(jar) for jar in document["class_path"]],
            folder=folder,
            names=plan.node_names,
            start_timeout_s=plan.start_timeout_s,
            skewable_clocks="clock" in plan.nemeses,
            keep_data=plan.keep_data,
            settings=_settings(plan.options),
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
    ) -> None:
        """`java_options` replace the startup archive's, for whoever makes one; `settings` go into every cassandra.yaml."""
        self.system = system
        self.features = recipe.features
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
                token=-(2**63) + (number * _RING) // len(names) + 1,
                seeds=addresses if recipe.start == "together" else addresses[:1],
                system=system,
                recipe=recipe,
                java=java,
                class_path=class_path,
                folder=folder / "nodes" / name,
                faketime=library,
                java_options=archive_arguments(java, class_path) if java_options is None else java_options,
                settings=settings or {},
            )
            for number, (name, address) in enumerate(zip(names, addresses, strict=True))
        ]

    def start(self) -> Sequence[Boot]:
        """Lay the network and boot every node, together where the version allows it.

        Raises NodeDied with the node's own first error, StartTimeout with the last line of its log.
        """
        namespaces.open_enclosure()
        namespaces.lay_network([node.name for node in self.nodes])
        self._network_laid = True
        boots: list[Boot] = []
        alone = 1 if self._recipe.start == "first-alone" else 0
        for group in (self.nodes[:alone], self.nodes[alone:]):
            for node in group:
                node.start()
            boots += [self._await(node) for node in group]
        missing = self.await_whole([node.name for node in self.nodes], deadline_s=self._start_timeout_s)
        if missing is not None:
            raise StartTimeout(f"all nodes serve, but after {self._start_timeout_s:g} s {missing}")
        if self._recipe.cms is not None and len(self.nodes) > 1:
            self._widen_metadata_service(min(self._recipe.cms, len(self.nodes)))
        return boots

    def _await(self, node: LocalNode) -> Boot:
        boot = node.await_serving(deadline_s=self._start_timeout_s)
        if boot.served:
            log.info("node serves CQL", extra={"node": node.name, "seconds": round(boot.seconds, 1)})
            return boot
        if boot.exit_code is not None:
            raise NodeDied(
                f"node {node.name} ({self.system}) ended while starting, exit code {boot.exit_code}. "
                f"Its first error: {boot.first_error}\nIts log: {node.log_path}",
                node=node.name,
                exit_code=boot.exit_code,
                first_error=boot.first_error or "",
            )
        last = node.log_text().strip().rsplit("\n", 1)[-1][:300]
        raise StartTimeout(
            f"node {node.name} ({self.system}) did not answer CQL at {node.address}:{_CQL_PORT} within "
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

    def connector(self) -> CqlConnector:
        """Sessions over the native protocol, each pinned to one address."""
        return CqlConnector(
            addresses={node.name: node.address for node in self.nodes},
            port=_CQL_PORT,
            protocol_version=4,
            era=self._recipe.era,
        )

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
        system: System,
        recipe: Recipe,
        java: Path,
        class_path: Sequence[Path],
        folder: Path,
        faketime: Path | None,
        java_options: Sequence[str],
        settings: Mapping[str, Any],
    ) -> None:
        self.name = name
        self.address = address
        self.folder = folder
        self._token = token
        self._seeds = seeds
        self._system = system
        self._recipe = recipe
        self._java = java
        self._class_path = class_path
        self._faketime = faketime
        self._java_options = java_options
        self._settings = settings
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

    def await_serving(self, *, deadline_s: float) -> Boot:
        """Wait for an answer to CQL, the process's end, or the deadline."""

        def serves_or_ended() -> bool:
            return self.state() == "stopped" or answers_cql(self.address, _CQL_PORT)

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
        served = answers_cql(self.address, _CQL_PORT)
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
        return self.exec(
            [
                str(self._java),
                *self._recipe.java.arguments(heap=["-Xmx128m"]),
                "-Dcom.sun.jndi.rmiURLParsing=legacy",
                f"-Duser.home={self.folder}",
                "-Dlogback.configurationFile=" + str(self.folder / "logback.xml"),
                "-cp",
                os.pathsep.join(map(str, self._class_path)),
                "org.apache.cassandra.tools.NodeTool",
                "-p",
                str(_JMX_PORT),
                *arguments,
            ],
            timeout_s=timeout_s,
        )

    # ── what it left ─────────────────────────────────────────────────────────────────────────────────────────────────

    def log_text(self) -> str:
        """The log of the latest start; empty before the first."""
        return self.log_path.read_text(encoding="utf-8", errors="replace") if self.log_path.exists() else ""

    def data_directories(self) -> Sequence[tuple[str, str, str, bool, Sequence[str]]]:
        """(keyspace, table, id, live, snapshots) of every user table directory on the node's disk."""
        return table_directories(self.folder / "data")

    def drop_data(self) -> None:
        """Delete what only the server needed; logs and configuration stay."""
        _drop_data(self.folder)
        (self.folder / "process.json").unlink(missing_ok=True)

    # ── configuration ────────────────────────────────────────────────────────────────────────────────────────────────

    def _configure(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for folder in _SERVER_FOLDERS:
            (self.folder / folder).mkdir(exist_ok=True)
        (self.folder / "logback.xml").write_text(
            files("clusters").joinpath("logback.xml").read_text(), encoding="utf-8"
        )
        # JSON is YAML: no emitter is needed, and nothing is quoted wrongly.
        (self.folder / "cassandra.yaml").write_text(json.dumps(self._yaml(), indent=1), encoding="utf-8")
        if self._faketime is not None:
            libfaketime.write_offset(self._offset_file, 0)

    def _yaml(self) -> Mapping[str, Any]:
        document = dict(self._recipe.yaml)
        document |= {
            "cluster_name": "schemaquake",
            "listen_address": self.address,
            "rpc_address": self.address,
            "native_transport_port": _CQL_PORT,
            "storage_port": _STORAGE_PORT,
            "seed_provider": [
                {
                    "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                    "parameters": [{"seeds": ",".join(self._seeds)}],
                }
            ],
            "initial_token": str(self._token),
            "data_file_directories": [str(self.folder / "data")],
            "commitlog_directory": str(self.folder / "commitlog"),
            "saved_caches_directory": str(self.folder / "saved_caches"),
            "hints_directory": str(self.folder / "hints"),
            "cdc_raw_directory": str(self.folder / "cdc_raw"),
        }
        return {**document, **self._settings}

    def _command(self) -> list[str]:
        return [
            str(self._java),
            *self._recipe.java.arguments(),
            *self._java_options,
            f"-Dcassandra.config=file://{self.folder / 'cassandra.yaml'}",
            f"-Dlogback.configurationFile={self.folder / 'logback.xml'}",
            f"-Dcassandra.storagedir={self.folder}",
            f"-Dcassandra.jmx.local.port={_JMX_PORT}",
            f"-Djava.io.tmpdir={self.folder / 'tmp'}",
            f"-Djna.tmpdir={self.folder / 'tmp'}",
            "-Dcassandra-foreground=yes",
            *(f"-D{entry}" for entry in self._recipe.properties),
            "-cp",
            os.pathsep.join(map(str, self._class_path)),
            self._recipe.main,
        ]


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


def _strangers(nodes: Sequence[LocalNode]) -> list[tuple[str, str]]:
    """(node, other) for every node whose log's last word on the other's address is not that it is up."""
    found = []
    for node in nodes:
        last_word = {match["address"]: match["state"] for match in _ALIVE.finditer(node.log_text())}
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
    folders = [node_folder / name for name in _SERVER_FOLDERS]
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
