"""Server node: one server of a cluster, put together from the parts that differ by where it runs.

Its transport carries commands and files, its process starts and ends, its log is read, its clock is skewed, and its
folder holds the harness's files. What follows from these is here, once for hosts, containers and this machine.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from schemaquake.clusters.nodes.client_port import ClientPort
from schemaquake.clusters.nodes.first_error import first_error
from schemaquake.clusters.nodes.management import CallRefused, Management, NoManagement
from schemaquake.clusters.nodes.run_folder import NodeFolder, RunFolder
from schemaquake.clusters.nodes.server_log import FollowedLog, ServerLog
from schemaquake.clusters.nodes.server_process import ServerProcess, State
from schemaquake.clusters.nodes.service import Service
from schemaquake.clusters.nodes.service_process import ServiceProcess
from schemaquake.clusters.nodes.transport import Transport, read_by
from schemaquake.clusters.systems.data_directories import DEPTH, TableDirectory, tables_listed
from schemaquake.clusters.systems.recipe import Layout
from schemaquake.clusters.systems.topology import Tool, ToolCommand
from schemaquake.harness.errors import ClusterError, EnvironmentLacks, NodeUnreachable
from schemaquake.harness.model.protocols import Boot, Executed, Undo, UndoVerb
from schemaquake.harness.wait import until

__all__ = ["NodeClock", "ServerData", "ServerNode", "ServerTools", "deployed_node"]

log = logging.getLogger(__name__)

_KILL_LIMIT_S: Final = 30.0
_END_LIMIT_S: Final = 60.0
"""The time that a server which was told to end is given before it is killed, so that it can be started."""
_CALL_LIMIT_S: Final = 30.0
"""The time for a call over JMX, before nodetool is used instead; all such calls are short."""
_NOT_THERE: Final = 44

# A folder may go while it is being looked at: dropped tables do.
_FIND: Final = f"""
cd "$1" || exit {_NOT_THERE}
find . -maxdepth {DEPTH} "(" -type d -o -name "*-Data.db" ")" || true
"""


class NodeClock(Protocol):
    """The wall clock that a node's server goes by."""

    def skew(self, offset_s: float) -> None:
        """Shift the clock by `offset_s` from true time; 0 restores it."""
        ...

    def offset(self) -> float:
        """Measure how many seconds the clock is ahead of true time."""
        ...

    def refusal(self) -> str | None:
        """Return why the clock cannot be skewed, as a sentence; None if it can."""
        ...

    def through(self, transport: Transport, fault_id: int) -> NodeClock:
        """Return the same clock as one fault skews it, through the fault's own transport."""
        ...

    def undo(self) -> Sequence[Undo]:
        """List the commands by which root restores the clock; harmless if nothing is to be restored."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerData:
    """The data folders of a server, as paths on its node, and how tables are laid out in them."""

    folders: Sequence[str]
    layout: Layout = "folders-with-ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTools:
    """The programs of a server's distribution, each as the beginning of its command."""

    nodetool: Sequence[str] = ("nodetool",)
    loader: Sequence[str] = ("sstableloader",)


@dataclass(slots=True)
class _Starts:
    """The harness's starts of one server, known to every view of its node."""

    at: float
    """The time of the latest, on this process's monotonic clock."""
    here: bool = False
    """True once there was one."""
    turn: threading.Lock = field(default_factory=threading.Lock)
    """Held while one begins: the end of a fault and an operation may want it at the same time."""


class ServerNode:
    """A `schemaquake.harness.model.protocols.Node` made of parts."""

    def __init__(
        self,
        name: str,
        client_port: ClientPort,
        transport: Transport,
        process: ServerProcess,
        *,
        log: ServerLog,
        folder: NodeFolder,
        data: ServerData,
        clock: NodeClock | None = None,
        tools: ServerTools | None = None,
        management: Management | None = None,
        poll_s: float = 0.25,
    ) -> None:
        """`folder` is the harness's own on the node. Without a clock none can be skewed; without `tools` they are those on the node's PATH.

        `management` makes calls of the server without nodetool, where its JMX can be reached. `poll_s` is how often the
        node is asked while the harness waits for its server to serve or to end.
        """
        self.name = name
        self.address = client_port.address
        self.transport = transport
        self.process = process
        self.log = log
        self.folder = folder
        self.clock = clock
        self.client_port = client_port
        self._starts = _Starts(at=time.monotonic())
        self._data = data
        self._tools = tools or ServerTools()
        self._poll_s = poll_s
        self.management = management

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self) -> None:
        """Make the node's folder. Raises ClusterError, NodeUnreachable."""
        self.folder.make()

    def start(self) -> None:
        """Start the server and wait until its process exists; a running one is left alone. Raises ClusterError.

        A server that was told to end and still runs is not what was started here: it is waited out, and killed if it does
        not go.
        """
        with self._starts.turn:
            self._await_end()
            if self.state() != "stopped":
                return
            self.log.begin_start()
            self._starts.at = time.monotonic()
            self._starts.here = True
            # A server that ends at once may never be seen; `await_serving` finds out.
            with suppress(TimeoutError):
                self._change(
                    self.process.start,
                    lambda: self.state() != "stopped",
                    limit_s=self.process.appears_within_s,
                    what=f"start of {self.name}",
                )

    def become(self, client_port: ClientPort, *, tools: ServerTools, layout: Layout) -> None:
        """Speak to another version's server from now on, which the node's process starts when it is started next."""
        self.client_port = client_port
        self._tools = tools
        self._data = replace(self._data, layout=layout)

    def _await_end(self) -> None:
        try:
            until(
                lambda: not self.process.is_ending(),
                deadline_s=_END_LIMIT_S,
                what=f"the end of {self.name}, which is stopping",
                every_s=self._poll_s,
            )
        except TimeoutError as error:
            log.warning("node does not stop and is killed", extra={"node": self.name, "why": str(error)})
            self.kill()

    def await_serving(self, *, deadline_s: float) -> Boot:
        """Wait until a client is answered, the process ends or the deadline passes. An unreachable host has not ended."""

        def serves_or_ended() -> bool:
            return self.answers() or self._is_known_to_be_stopped()

        with suppress(TimeoutError):
            until(serves_or_ended, deadline_s=deadline_s, what=f"an answer from {self.name}", every_s=self._poll_s)
        seconds = time.monotonic() - self._starts.at
        if self.answers():
            return Boot(node=self.name, served=True, seconds=seconds)
        ended = self._is_known_to_be_stopped()
        return Boot(
            node=self.name,
            served=False,
            seconds=seconds,
            exit_code=self.process.exit_code() if ended else None,
            first_error=self._first_error(),
            ended=ended,
        )

    def stop(self, *, deadline_s: float = 30) -> None:
        """End the server cleanly; kill it if it lives longer than `deadline_s`. Raises ClusterError if it lives on."""
        self.resume()
        try:
            self._end(lambda: self.process.terminate(limit_s=deadline_s), what="stop", limit_s=deadline_s)
        except (TimeoutError, NodeUnreachable) as error:
            log.warning("node did not stop in time and is killed", extra={"node": self.name, "why": str(error)})
            self.kill()

    def kill(self) -> None:
        """End the server with SIGKILL and wait until it is gone. Raises ClusterError if it is not."""
        if self.state() == "stopped":
            return
        try:
            self._end(self.process.kill, what="kill", limit_s=_KILL_LIMIT_S)
        except TimeoutError as error:
            raise ClusterError(
                f"node {self.name}: the server (process {self.process.pid()}) still runs after SIGKILL; its service "
                "may have started another, or its disk does not answer. Look on the node itself"
            ) from error

    def pause(self) -> None:
        """Freeze the server with SIGSTOP."""
        self.process.signal("STOP")

    def resume(self) -> None:
        """Let the server go on with SIGCONT."""
        self.process.signal("CONT")

    def state(self) -> State:
        """Read what the server's process is doing. Raises NodeUnreachable."""
        return self.process.state()

    @property
    def started_here(self) -> bool:
        """True once the harness has started the server, so that its log since then is whole."""
        return self._starts.here

    @property
    def started_at(self) -> float:
        """The time of the latest start, on this process's monotonic clock."""
        return self._starts.at

    def through(self, transport: Transport, fault_id: int) -> ServerNode:
        """Return the same node as one fault acts on it, by commands of its own transport alone."""
        node = copy.copy(self)
        node.transport = transport
        node.process = self.process.through(transport)
        node.clock = None if self.clock is None else self.clock.through(transport, fault_id)
        return node

    def undoing(self, verb: UndoVerb) -> Sequence[Undo]:
        """List the commands by which root undoes a fault on the node, whether or not it still stands."""
        if verb == "clock":
            return [] if self.clock is None else self.clock.undo()
        return self.process.undo_commands(verb)

    # ── means ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def exec(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: str | None = None) -> Executed:
        """Run a command on the node as root. Raises NodeUnreachable, ClusterError (sudo refused)."""
        return self.transport.run(argv, timeout_s=timeout_s, stdin=None if stdin is None else stdin.encode())

    def manage(self, command: ToolCommand, *, timeout_s: float) -> Executed:
        """Have this node's server carry out a command, over JMX if that can be, else by its tool. Raises NodeUnreachable."""
        if self.management is not None and command.call is not None:
            try:
                said = self.management.call(self.address, command.call, limit_s=min(timeout_s, _CALL_LIMIT_S))
            except CallRefused as error:
                return Executed(1, "", str(error))
            except NoManagement as error:
                log.info("nodetool is used instead", extra={"node": self.name, "why": str(error)})
            else:
                return Executed(0, said, "")
        if command.tool == "sstableloader":
            return self.exec([*self._tools.loader, *command.arguments], timeout_s=timeout_s)
        return self.nodetool(*command.arguments, timeout_s=timeout_s)

    def has(self, tool: Tool) -> bool:
        """Return whether the node has this program of the distribution. Raises NodeUnreachable."""
        program = {"nodetool": self._tools.nodetool, "sstableloader": self._tools.loader}[tool][0]
        return self.exec(["sh", "-c", 'command -v "$1"', "sh", program]).exit_code == 0

    def nodetool(self, *arguments: str, timeout_s: float = 60) -> Executed:
        """Run nodetool against this node's server. Raises NodeUnreachable."""
        return self.exec([*self._tools.nodetool, *arguments], timeout_s=timeout_s)

    def upload(self, source: Path, target: str) -> None:
        """Copy a file to the node; a relative target lies in the node's folder."""
        self.transport.put(source.read_bytes(), self._in_folder(target))

    def download(self, source: str, target: Path) -> None:
        """Copy a file from the node; a relative source lies in the node's folder."""
        target.write_bytes(self.transport.get(self._in_folder(source)))

    def skew_clock(self, offset_s: float) -> None:
        """Shift the clock of the server. Raises EnvironmentLacks for a node without one to shift."""
        if self.clock is None:
            raise EnvironmentLacks(
                f"node {self.name}: its clock cannot be skewed, because this run was prepared without clock faults or the "
                "cluster file has no [clock]"
            )
        self.clock.skew(offset_s)

    def clock_offset(self) -> float:
        """Measure how many seconds the server's clock is ahead of true time."""
        return 0.0 if self.clock is None else self.clock.offset()

    # ── what clients, logs and disks show ────────────────────────────────────────────────────────────────────────────

    def answers(self) -> bool:
        """Ask as a client, and return True if the server answers."""
        return self.client_port.answers()

    def log_text(self) -> str:
        """Read the server's log since its latest start. Raises ClusterError, NodeUnreachable."""
        return self.log.text()

    def data_directories(self) -> Sequence[TableDirectory]:
        """List (keyspace, table, id, live, snapshots) of every user table in the data folders. Raises ClusterError."""
        listing: list[str] = []
        for folder in self._data.folders:
            found = read_by(self.transport, ["sh", "-c", _FIND, "sh", folder], timeout_s=60)
            if found.exit_code != 0:
                raise ClusterError(f"node {self.name}: cannot list {folder}: {found.stderr.strip()}")
            listing += [line for line in found.stdout.splitlines() if line != "."]
        return tables_listed(listing, self._data.layout)

    # ── its parts ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _end(self, act: Callable[[], None], *, what: str, limit_s: float) -> None:
        self._change(act, lambda: self.state() == "stopped", limit_s=limit_s, what=f"{what} of {self.name}")

    def _change(self, act: Callable[[], None], shows: Callable[[], bool], *, limit_s: float, what: str) -> None:
        """Change the server once and wait until it shows.

        An answer that was lost does not tell whether the change was made, so the node is looked at instead. Raises what
        `act` raises, NodeUnreachable if its answer was lost and the change does not show, else TimeoutError.
        """
        lost: NodeUnreachable | None = None
        try:
            act()
        except NodeUnreachable as error:
            lost = error
        try:
            until(shows, deadline_s=limit_s, what=what, every_s=self._poll_s)
        except TimeoutError:
            if lost is not None:
                raise lost from None
            raise

    def _is_known_to_be_stopped(self) -> bool:
        try:
            return self.state() == "stopped"
        except NodeUnreachable:
            return False

    def _first_error(self) -> str:
        try:
            return first_error(self.log_text())
        except (ClusterError, OSError) as error:
            return f"(its log could not be read: {error})"

    def _in_folder(self, path: str) -> str:
        return path if path.startswith("/") else f"{self.folder.path}/{path}"


def deployed_node(
    name: str,
    client_port: ClientPort,
    transport: Transport,
    service: Service,
    *,
    folder: str,
    logs: Sequence[str],
    data: ServerData,
    clock: NodeClock | None = None,
    keeps: Path | None = None,
) -> ServerNode:
    """Make the node of a host or a container, on which `transport` acts as root and `service` runs the server.

    `folder` is the run's own on the node; `logs` and `data` are the server's. `keeps` is the folder of this machine that
    takes a copy of the log of each start, None for no copies.
    """
    run_folder = RunFolder(transport, folder, service.scripts)
    return ServerNode(
        name,
        client_port,
        transport,
        ServiceProcess(transport, service, run_folder),
        log=FollowedLog(transport, logs, node=name, console=service.console, copies=keeps),
        folder=run_folder,
        data=data,
        clock=clock,
    )
