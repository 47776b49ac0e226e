"""Deployed node: one server on a host or in a container that outlives the run, reached by a transport.

Everything is read from the node and nothing remembered but where its logs ended when the harness last started it. What
only reads may be asked a second time when a session breaks; what changes something is not repeated: the node is looked
at instead, which tells whether it happened.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from ssl import SSLContext
from typing import Final, Literal, Protocol

from schemaquake.clusters.cql.protocol import answers_cql
from schemaquake.clusters.nodes.first_error import first_error
from schemaquake.clusters.nodes.service import Service
from schemaquake.clusters.nodes.transport import Transport
from schemaquake.clusters.systems.data_directories import DEPTH, TableDirectory, tables_listed
from schemaquake.clusters.systems.recipe import Layout
from schemaquake.harness.errors import ClusterError, EnvironmentLacks, NodeUnreachable
from schemaquake.harness.model.protocols import Boot, Executed, UndoVerb
from schemaquake.harness.wait import until

__all__ = ["DeployedNode", "NodeClock"]

log = logging.getLogger(__name__)

_LOG_BYTES_MAX: Final = 8 * 2**20
_END_LIMIT_S: Final = 30.0
_APPEARS_WITHIN_S: Final = 5.0
"""A service manager starts servers in its own time: until then there is none, and yet it has not ended."""
_EVERY_S: Final = 0.25
_GONE: Final = frozenset({"Z", "X"})
_NOT_THERE: Final = 44
_NO_SCRIPT: Final = 45

# What of a log is later than a given byte, and at most so much of it. One that is shorter now was begun anew.
_TAIL: Final = f"""
[ -e "$1" ] || exit {_NOT_THERE}
size=$(wc -c < "$1") || exit 1
from=$2
[ "$size" -ge "$from" ] || from=0
[ "$((size - from))" -le "$3" ] || from=$((size - $3))
exec tail -c +"$((from + 1))" "$1"
"""
_SIZE: Final = '[ ! -e "$1" ] || wc -c < "$1"'
# A folder may go while it is being looked at: dropped tables do.
_FIND: Final = f"""
cd "$1" || exit {_NOT_THERE}
find . -maxdepth {DEPTH} "(" -type d -o -name "*-Data.db" ")" || true
"""
_CLEAN: Final = '[ ! -e "$1" ] || echo there; rm -rf "$1" && { rmdir "$2" 2> /dev/null || true; }'
_SIGNAL: Final = 'kill "-$1" "$2"'
_SIGNAL_SERVER: Final = 'signal=$1; shift; pid=$("$@") && [ -n "$pid" ] && kill "-$signal" "$pid"'
_SCRIPTED: Final = f'[ -r "$2" ] || exit {_NO_SCRIPT}; exec "$@"'


class NodeClock(Protocol):
    """How a node's wall clock is skewed, and set right again."""

    def skew(self, offset_s: float) -> None:
        """Shift it by so much from true time; 0 restores it."""
        ...

    def offset(self) -> float:
        """By how much it is shifted, read back."""
        ...

    def refusal(self) -> str | None:
        """Why it cannot be skewed, in words; null if it can."""
        ...

    def undo(self) -> Sequence[Sequence[str]]:
        """What root carries out on the node to restore it; harmless if there is nothing to restore."""
        ...


class DeployedNode:
    """A `schemaquake.harness.model.protocols.Node`. Whatever is carried out on it, `transport` carries out as root."""

    def __init__(
        self,
        name: str,
        address: str,
        transport: Transport,
        service: Service,
        *,
        folder: str,
        cql_port: int,
        protocol_version: int,
        logs: Sequence[str],
        data: Sequence[str],
        tls: SSLContext | None = None,
        layout: Layout = "folders-with-ids",
        clock: NodeClock | None = None,
        keeps: Path | None = None,
    ) -> None:
        """`folder` is the run's own on the node; `logs` and `data` are the server's.

        `keeps` is a folder of this machine that takes the logs, one of each start: `system-0.log`, …
        """
        self.name = name
        self.address = address
        self.transport = transport
        self.service = service
        self.clock = clock
        self.folder = folder
        self._port = cql_port
        self._protocol_version = protocol_version
        self._tls = tls
        self._logs = logs
        self._data = data
        self._layout = layout
        self._keeps = keeps
        self._boot = 0
        self._kept = False
        """Whether something of the present start was kept."""
        self._starts = 0
        self._log_begins: dict[str, int] | None = None
        self._started_at = time.monotonic()

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def started_here(self) -> bool:
        """Whether this harness has started the server, so that its log since then is known."""
        return self._starts > 0

    @property
    def asked(self) -> str:
        """Whom a client asks, in words."""
        return f"CQL at {self.address}:{self._port}"

    def prepare(self) -> None:
        """Make the run's folder and put there what the service needs. Raises ClusterError, NodeUnreachable."""
        done = self._read(["mkdir", "-p", "-m", "700", self.folder])
        if done.exit_code != 0:
            raise ClusterError(f"node {self.name}: {self.folder} cannot be made: {done.stderr.strip()}")
        for path, content in self.service.scripts.items():
            self.transport.put(content, path, mode=0o700)

    def clean(self) -> bool:
        """Remove the run's folder, and the one above it if nothing else is in it; whether there was any."""
        above = str(PurePosixPath(self.folder).parent)
        done = self._read(["sh", "-c", _CLEAN, "sh", self.folder, above])
        if done.exit_code != 0:
            raise ClusterError(f"node {self.name}: {self.folder} cannot be removed: {done.stderr.strip()}")
        return bool(done.stdout)

    def start(self) -> None:
        """Have the service start the server, and see it appear; a running one is left alone. Raises ClusterError."""
        if self.state() != "stopped":
            return
        self.keep_log()
        if self._kept:
            self._boot += 1
            self._kept = False
        self._log_begins = {path: self._size(path) for path in self._logs}  # what it prints is begun anew
        self._started_at = time.monotonic()
        self._starts += 1
        self._change(self.service.start, "start", shows=lambda: self.state() != "stopped", limit_s=_APPEARS_WITHIN_S)

    def await_serving(self, *, deadline_s: float) -> Boot:
        """Wait for an answer to a client, the process's end, or the deadline. An unreachable host has not ended."""

        def serves_or_ended() -> bool:
            return self.answers() or self._state_or_none() == "stopped"

        with suppress(TimeoutError):
            until(serves_or_ended, deadline_s=deadline_s, what=f"an answer from {self.name}", every_s=_EVERY_S)
        seconds = time.monotonic() - self._started_at
        if self.answers():
            return Boot(node=self.name, served=True, seconds=seconds)
        ended = self._state_or_none() == "stopped"
        return Boot(
            node=self.name,
            served=False,
            seconds=seconds,
            exit_code=self._exit_code() if ended else None,
            first_error=self._first_error(),
        )

    def stop(self, *, deadline_s: float = 30) -> None:
        """Have the service end it cleanly, then kill it if the deadline passes. Raises ClusterError if it lives on."""
        self.resume()
        try:
            self._change(
                self.service.stop, "stop", shows=lambda: self.state() == "stopped", limit_s=deadline_s, must=True
            )
        except (TimeoutError, NodeUnreachable) as error:
            log.warning("node did not stop in time and is killed", extra={"node": self.name, "why": str(error)})
            self.kill()

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone. Raises ClusterError if it is not."""
        if self.state() == "stopped":
            return
        try:
            self._change(
                self.service.kill, "kill", shows=lambda: self.state() == "stopped", limit_s=_END_LIMIT_S, must=True
            )
        except TimeoutError as error:
            raise ClusterError(
                f"node {self.name}: the server (process {self._pid()}) does not end, not even by SIGKILL; its service "
                "may have started another, or its disk does not answer. Look on the node itself"
            ) from error

    def pause(self) -> None:
        """SIGSTOP."""
        self._signal("STOP")

    def resume(self) -> None:
        """SIGCONT."""
        self._signal("CONT")

    def state(self) -> Literal["running", "paused", "stopped"]:
        """Of the process that the service names, from the node's /proc. Raises NodeUnreachable."""
        pid = self._pid()
        if pid is None:
            return "stopped"
        stat = self._read(["cat", f"/proc/{pid}/stat"])
        if stat.exit_code != 0:
            return "stopped"
        match stat.stdout.rsplit(")", 1)[1].split()[0]:
            case "T" | "t":
                return "paused"
            case letter if letter in _GONE:
                return "stopped"
        return "running"

    def undoing(self, verb: UndoVerb) -> Sequence[Sequence[str]]:
        """What root carries out on the node to undo a fault, whether or not it still stands."""
        match verb:
            case "start":
                return [self.service.start]
            case "resume":
                return [("sh", "-c", _SIGNAL_SERVER, "sh", "CONT", *self.service.status)]
            case "clock":
                return [] if self.clock is None else self.clock.undo()

    # ── means ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def exec(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: str | None = None) -> Executed:
        """Run a command on the node, as root. Raises NodeUnreachable, ClusterError (sudo refused)."""
        return self.transport.run(argv, timeout_s=timeout_s, stdin=None if stdin is None else stdin.encode())

    def upload(self, source: Path, target: str) -> None:
        """Copy to the node; a relative path is one in the run's folder there."""
        self.transport.put(source.read_bytes(), self._there(target))

    def download(self, source: str, target: Path) -> None:
        """Copy from the node; a relative path is one in the run's folder there."""
        target.write_bytes(self.transport.get(self._there(source)))

    def skew_clock(self, offset_s: float) -> None:
        """Shift the node's wall clock."""
        if self.clock is None:
            raise EnvironmentLacks(
                f"node {self.name}: no means to skew its clock was named ([clock] in the cluster file)"
            )
        self.clock.skew(offset_s)

    def clock_offset(self) -> float:
        """The node's wall clock minus true time, in seconds."""
        return 0.0 if self.clock is None else self.clock.offset()

    # ── what it left ─────────────────────────────────────────────────────────────────────────────────────────────────

    def log_text(self) -> str:
        """Its logs since this harness last started it, the last 8 MB of each; if they say nothing, what it printed."""
        told = "".join(self._tail(path, (self._log_begins or {}).get(path, 0)) for path in self._logs)
        if told or self.service.console is None:
            return told
        return self._tail(self.service.console, (self._log_begins or {}).get(self.service.console, 0))

    def begin_log(self) -> None:
        """From here on: what its logs say from now on is what `log_text` returns."""
        printed = [] if self.service.console is None else [self.service.console]
        self._log_begins = {path: self._size(path) for path in (*self._logs, *printed)}

    def keep_log(self) -> None:
        """Copy to this machine what its logs say since `begin_log`, if anything; again, to the same file. A loss is told."""
        if self._keeps is None or self._log_begins is None:
            return
        try:
            text = self.log_text()
        except (ClusterError, OSError) as error:
            log.warning("a log could not be fetched", extra={"node": self.name, "error": str(error)})
            return
        if not text:
            return
        self._keeps.mkdir(parents=True, exist_ok=True)
        (self._keeps / f"system-{self._boot}.log").write_text(text, encoding="utf-8")
        self._kept = True

    def data_directories(self) -> Sequence[TableDirectory]:
        """(keyspace, table, id, live, snapshots) of every user table in its data folders. Raises ClusterError."""
        listing: list[str] = []
        for folder in self._data:
            found = self._read(["sh", "-c", _FIND, "sh", folder], timeout_s=60)
            if found.exit_code != 0:
                raise ClusterError(f"node {self.name}: {folder} cannot be listed: {found.stderr.strip()}")
            listing += [line for line in found.stdout.splitlines() if line != "."]
        return tables_listed(listing, self._layout)

    # ── the node, asked ──────────────────────────────────────────────────────────────────────────────────────────────

    def answers(self) -> bool:
        """Whether it answers CQL now."""
        return answers_cql(self.address, self._port, version=self._protocol_version, tls=self._tls)

    def _state_or_none(self) -> str | None:
        try:
            return self.state()
        except NodeUnreachable:
            return None

    def _pid(self) -> int | None:
        done = self._service(self.service.status)
        word = done.stdout.split()
        return int(word[0]) if done.exit_code == 0 and word and word[0].isdigit() and int(word[0]) > 0 else None

    def _exit_code(self) -> int | None:
        """Of the server that ended; a moment later than its end, somebody has to write it down."""
        if not self.service.ended:
            return None

        def written() -> str:
            return self._service(self.service.ended).stdout.strip()

        try:
            return int(until(written, deadline_s=2, what="an exit code", every_s=_EVERY_S))
        except (TimeoutError, ValueError, NodeUnreachable):
            return None

    def _first_error(self) -> str:
        try:
            return first_error(self.log_text())
        except (ClusterError, OSError) as error:
            return f"(its log could not be read: {error})"

    def _tail(self, path: str, begins: int) -> str:
        done = self._read(["sh", "-c", _TAIL, "sh", path, str(begins), str(_LOG_BYTES_MAX)], timeout_s=60)
        if done.exit_code == _NOT_THERE:
            return ""
        if done.exit_code != 0:
            raise ClusterError(f"node {self.name}: {path} cannot be read: {done.stderr.strip()}")
        return done.stdout

    def _size(self, path: str) -> int:
        return int(self._read(["sh", "-c", _SIZE, "sh", path]).stdout.strip() or 0)

    def _signal(self, signal: str) -> None:
        pid = self._pid()
        if pid is not None:
            self._read(["sh", "-c", _SIGNAL, "sh", signal, str(pid)])

    def _there(self, path: str) -> str:
        return path if path.startswith("/") else f"{self.folder}/{path}"

    def _read(self, argv: Sequence[str], *, timeout_s: float = 30) -> Executed:
        """What only reads, or may be done twice, is asked again over a new session if the first one broke."""
        with suppress(NodeUnreachable):
            return self.transport.run(argv, timeout_s=timeout_s)
        return self.transport.run(argv, timeout_s=timeout_s)

    def _service(self, argv: Sequence[str]) -> Executed:
        """One of the service's commands that reads. A node that rebooted has lost our scripts: they are put there again."""
        if not self.service.scripts:
            return self._read(argv)
        scripted = ["sh", "-c", _SCRIPTED, "sh", *argv]
        done = self._read(scripted)
        if done.exit_code == _NO_SCRIPT:
            self.prepare()
            done = self._read(scripted)
        return done

    def _change(
        self, argv: Sequence[str], what: str, *, shows: Callable[[], bool], limit_s: float, must: bool = False
    ) -> None:
        """Carry out what changes the server, once, and wait until it shows. Raises TimeoutError if it does not and `must`.

        Raises ClusterError in the service's own words.
        """
        lost: NodeUnreachable | None = None
        try:
            done = self.transport.run(argv, timeout_s=max(_END_LIMIT_S, limit_s))
        except NodeUnreachable as error:
            lost = error  # it may have been carried out; what shows decides
        else:
            if done.exit_code != 0:
                words = (done.stderr.strip() or done.stdout.strip())[-500:]
                raise ClusterError(f"node {self.name}: its service could not {what} it: {words or done.exit_code}")
        try:
            until(shows, deadline_s=limit_s, what=f"{what} of {self.name}", every_s=_EVERY_S)
        except TimeoutError:
            if lost is not None:
                raise lost from None
            if must:
                raise
