"""Local node: one server process in a network namespace of this machine.

A node's folder holds its configuration, data and one log a start.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from schemaquake.clusters.cql.protocol import answers_cql
from schemaquake.clusters.local import namespaces
from schemaquake.clusters.nodes import libfaketime
from schemaquake.clusters.nodes.first_error import first_error
from schemaquake.clusters.systems.configuration import CLIENT_PORTS, Place, command, tool_command, write_configuration
from schemaquake.clusters.systems.data_directories import TableDirectory, table_directories
from schemaquake.clusters.systems.recipe import Recipe
from schemaquake.clusters.thrift.protocol import answers_thrift
from schemaquake.harness.errors import EnvironmentLacks, NodeUnreachable
from schemaquake.harness.model.protocols import Boot, Executed
from schemaquake.harness.run_process import process_start_time
from schemaquake.harness.wait import until

__all__ = ["GONE", "LocalNode", "drop_data", "process_state"]

log = logging.getLogger(__name__)

GONE: Final = frozenset({"Z", "X", None})
"""Letters of /proc/PID/stat for a process that runs no more (and no letter, for one that is reaped)."""
_ANY_SERVER_FOLDERS: Final = ("data", "commitlog", "hints", "saved_caches", "cdc_raw", "accord.journal", "tmp")
"""Of any line: whoever heals a run sweeps up without asking which line it was."""


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
        match process_state(self._process.pid):
            case "T" | "t":
                return "paused"
            case state if state in GONE:
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
        drop_data(self.folder)
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


def drop_data(node_folder: Path) -> list[Path]:
    """Delete what only a server needs; returns the folders that were there."""
    folders = [node_folder / name for name in _ANY_SERVER_FOLDERS]
    there = [folder for folder in folders if folder.exists()]
    for folder in there:
        shutil.rmtree(folder, ignore_errors=True)
    return there


def process_state(pid: int) -> str | None:
    """The state letter of /proc/PID/stat, None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return stat.rsplit(")", 1)[1].split()[0]
