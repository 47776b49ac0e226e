"""Child process: a server that is a child of the run's own process, and the record by which `heal` ends it later.

Each start prints to a log of its own, `system-0.log`, `system-1.log`, … in the node's folder.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signals
from typing import Final, Literal

from schemaquake.clusters.nodes.server_log import log_name
from schemaquake.clusters.nodes.server_process import State, read_state
from schemaquake.clusters.nodes.transport import Transport
from schemaquake.harness.model.protocols import Undo
from schemaquake.harness.run_process import process_start_time
from schemaquake.harness.wait import until

__all__ = ["RECORD", "ChildProcess", "PrintedLog", "end_recorded"]

RECORD: Final = "process.json"

_SIGNALS: Final = {"STOP": SIGSTOP, "CONT": SIGCONT}
_END_LIMIT_S: Final = 10.0


class PrintedLog:
    """A `schemaquake.clusters.nodes.server_log.ServerLog`: what each start of a child printed, among the run's files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._start = -1

    @property
    def path(self) -> Path:
        """The file of the latest start."""
        return self._folder / log_name(max(self._start, 0))

    @property
    def location(self) -> str:
        """The file of the latest start."""
        return str(self.path)

    def begin(self) -> None:
        """Do nothing: no file is older than the run."""

    def begin_start(self) -> None:
        """Go on to the next file."""
        self._start += 1

    def text(self) -> str:
        """Read the file of the latest start; empty before the first."""
        return self.path.read_text(encoding="utf-8", errors="replace") if self.path.exists() else ""

    def keep(self) -> None:
        """Do nothing: the files are the run's already."""


class ChildProcess:
    """A `schemaquake.clusters.nodes.server_process.ServerProcess` that this process starts, and that ends with it."""

    appears_within_s = 0.0

    def __init__(self, argv: Sequence[str], *, folder: Path, environment: Mapping[str, str], log: PrintedLog) -> None:
        """`argv` runs in `folder`, with `environment` and nothing inherited, and prints to `log`."""
        self._argv = argv
        self._folder = folder
        self._environment = environment
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None
        self._told_to_end = False

    def relaunch_as(self, argv: Sequence[str]) -> None:
        """Start the server with these arguments from now on."""
        self._argv = argv

    def start(self) -> None:
        """Start the child and write down its pid and start time."""
        self._told_to_end = False
        with self._log.path.open("wb") as output:
            self._child = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=self._environment,
                start_new_session=True,  # so that Ctrl-C reaches the harness alone
            )
        _write_record(self._folder, self._child.pid)

    def terminate(self, *, limit_s: float) -> None:  # noqa: ARG002 - a signal takes no time
        """Send SIGTERM, which begins the server's own shutdown."""
        self._told_to_end = True
        self._send(SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._send(SIGKILL)

    def signal(self, name: Literal["STOP", "CONT"]) -> None:
        """Send this signal."""
        self._send(_SIGNALS[name])

    def pid(self) -> int | None:
        """Return the pid of a child that runs."""
        return None if self._child is None or self._child.poll() is not None else self._child.pid

    def state(self) -> State:
        """Read the child's state, and reap it if it has ended."""
        pid = self.pid()
        state = "stopped" if pid is None else _state_of(pid)
        if state == "stopped" and self._child is not None:
            self._child.wait(_END_LIMIT_S)  # it may have ended between the two looks
        return state

    def exit_code(self) -> int | None:
        """Return the exit code of a child that has ended; minus the signal's number if one ended it."""
        return None if self._child is None else self._child.wait(_END_LIMIT_S)

    def is_ending(self) -> bool:
        """Return True between SIGTERM and the end."""
        return self._told_to_end and self.pid() is not None

    def through(self, transport: Transport) -> ChildProcess:  # noqa: ARG002 - the server is this process's own
        """Return this: a child needs no transport."""
        return self

    def undo_commands(self, verb: Literal["start", "resume"]) -> Sequence[Undo]:  # noqa: ARG002 - the same for both
        """Return no commands: without the harness the child has ended, too, and nothing is left to undo."""
        return []

    def _send(self, number: Signals) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)


def end_recorded(record: Path) -> int | None:
    """End the process that a node's record names and wait until it is gone. Returns its pid, None if it was gone before.

    Raises TimeoutError if the process does not end.
    """
    try:
        identity = json.loads(record.read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        return None  # the record was never whole, so it names no process
    pid = identity["host_pid"]
    if pid is None or process_start_time(pid) != identity["start_time"] or _state_of(pid) == "stopped":
        return None
    os.kill(pid, SIGKILL)
    until(lambda: _state_of(pid) == "stopped", deadline_s=_END_LIMIT_S, what=f"the end of process {pid}")
    return int(pid)


def _write_record(folder: Path, pid: int) -> None:
    """Write the record whole or not at all: `heal` must be able to read it after a crash.

    A pid of a process namespace of our own means nothing outside, and nothing of it can be left there.
    """
    identity = {"pid": pid, "start_time": process_start_time(pid), "host_pid": pid if os.getpid() != 1 else None}
    temporary = folder / "process.new"
    temporary.write_text(json.dumps(identity), encoding="ascii")
    temporary.replace(folder / RECORD)


def _state_of(pid: int) -> State:
    try:
        return read_state(Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return "stopped"
