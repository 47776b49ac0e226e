"""Node: one simulated server with its disk, clock, log and filters, as the harness and its nemeses see a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from schemaquake.clusters.simulated.clock import NodeClock
from schemaquake.clusters.simulated.disk import Disk
from schemaquake.clusters.simulated.faces import Joining, Model
from schemaquake.clusters.simulated.kernel import Kernel
from schemaquake.clusters.simulated.messages import Message
from schemaquake.clusters.simulated.network import Network
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.server import Answers, Server
from schemaquake.clusters.simulated.server_log import ServerLog
from schemaquake.clusters.simulated.shell import Filters, execute
from schemaquake.clusters.simulated.topology import SOMEWHERE
from schemaquake.harness.model.protocols import Boot, Executed
from schemaquake.harness.placements.ring import Location
from schemaquake.harness.units import S
from schemaquake.harness.wait import until

__all__ = ["SimulatedNode"]

_EXIT_OF_A_FAILED_START: Final = 3
_EXIT_OF_A_KILL: Final = 137


class SimulatedNode:
    """One node. Its server is None while it does not run."""

    def __init__(
        self, name: str, address: str, *, kernel: Kernel, network: Network, model: Model, names: Sequence[str]
    ) -> None:
        self.name = name
        self.address = address
        self.kernel = kernel
        self.network = network
        self.model = model
        self.names = tuple(names)
        """All nodes of the cluster."""
        self.peers = tuple(peer for peer in names if peer != name)
        self.addresses: dict[str, str] = {}
        self.founders = self.names
        self.host_ids: dict[str, str] = {}
        self.founder_ids: Mapping[str, str] = {}
        self.locations: dict[str, Location] = {}
        self.joins: Joining | None = None
        self.clock = NodeClock(kernel.heap)
        self.disk = Disk()
        self.console = ServerLog(self.clock)
        self.filters = Filters()
        self.server: Server | None = None
        self.is_paused = False
        self.exit_code: int | None = None
        self.weather = ""
        """The faults in place on it, joined by `+`."""
        self._postponed: list[Callable[[], None]] = []
        self._started_ns = 0
        self._halts = 0
        network.join(self)
        self.send: Callable[[str, Message], None] = partial(network.send, self)
        """Sends a message to a node over the network."""

    @property
    def location(self) -> Location:
        """Where it stands."""
        return self.locations.get(self.name, SOMEWHERE)

    def by_data_center(self, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Sort nodes by their data centres, each in the order given and once."""
        found: dict[str, dict[str, None]] = {}
        for name in names:
            found.setdefault(self.locations.get(name, SOMEWHERE).data_center, {})[name] = None
        return {center: tuple(there) for center, there in found.items()}

    def endpoint(self, name: str) -> str:
        """Return a node's address as servers log it."""
        return f"/{self.addresses[name]}:7000"

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def serving(self) -> Server | None:
        """The server if it answers clients."""
        server = self.server
        return None if server is None or self.is_paused or server.phase != "serving" else server

    def start(self) -> None:
        """Start the server; a running one is left alone."""
        if self.server is not None:
            return
        self.console.begin_start()
        self.clock.restart()
        self.exit_code = None
        self._started_ns = self.kernel.heap.now_ns
        self.console.info("main", "CassandraDaemon.java:156", f"Starting {self.name}")
        server = self.server = Server(self, self)
        server.begin("boot", self.model.boot(self), partial(self._boot_done, server))

    def wipe(self) -> None:
        """Give the node an empty disk. It must not run."""
        assert self.server is None
        self.disk = Disk()

    def _boot_done(self, server: Server, _result: Any, said: ServerSaid | None) -> None:
        if said is not None:
            self.die(said.stack)
            return
        server.phase = "serving"
        self.console.info("main", "CassandraDaemon.java:676", "Startup complete")

    def await_serving(self, *, deadline_s: float) -> Boot:
        """Wait until the server answers clients, has ended, or the deadline passes."""
        with suppress(TimeoutError):
            until(
                lambda: self.serving or self.server is None, deadline_s=deadline_s, what=f"an answer from {self.name}"
            )
        seconds = (self.kernel.heap.now_ns - self._started_ns) / S
        if self.serving:
            return Boot(node=self.name, served=True, seconds=seconds)
        ended = self.server is None
        return Boot(
            node=self.name,
            served=False,
            seconds=seconds,
            exit_code=self.exit_code if ended else None,
            first_error=_first_error(self.console.text()),
            ended=ended,
        )

    def stop(self, *, deadline_s: float = 30) -> None:  # noqa: ARG002 - a simulated server stops at once
        """Stop the server cleanly: it says good-bye to the others."""
        self.resume()
        if self.server is not None:
            for peer in self.peers:
                self.server.send(peer, "gossip", {"shutdown": True})
            self.console.info("StorageServiceShutdownHook", "Gossiper.java:2201", "Announcing shutdown")
        self._end("stop")

    def kill(self) -> None:
        """End the server at once."""
        if self.server is not None:
            self.exit_code = _EXIT_OF_A_KILL
        self._end("kill")

    def crash(self) -> Callable[[], None]:
        """End the server at once, by a fault that undoes itself. Returns what starts it again, unless it was stopped or killed meanwhile.

        A server that does not run is let be: a spare has not joined by then, and one that is down is started by whoever took it down.
        """
        if self.server is None:
            return lambda: None
        self.kill()
        halts = self._halts

        def start() -> None:
            if self._halts == halts:
                self.start()

        return start

    def die(self, stack: str) -> None:
        """End the server by its own error."""
        self.console.error("main", "CassandraDaemon.java:887", "Exception encountered during startup", stack)
        self.exit_code = _EXIT_OF_A_FAILED_START
        self._end("death")

    def end_itself(self, text: str) -> None:
        """End the server in good order, with this text in its log."""
        self.console.info("main", "StorageService.java:1", text)
        self.exit_code = 0
        self._end("death")

    def _end(self, how: str) -> None:
        self._halts += how != "death"
        server, self.server = self.server, None
        self._postponed = []
        self.is_paused = False
        self._set_weather()
        if server is None:
            return
        for process in server.processes:
            if process.step:
                self.kernel.crashes[process.step, how] += 1
        for done in server.requests:
            self.kernel.after(
                0, partial(done, None, ServerSaid("ConnectionShutdown", f"Connection to {self.address} was closed"))
            )

    def pause(self) -> None:
        """Freeze the server: what falls due and what arrives waits, and the wall clock goes on."""
        if self.server is not None:
            self.is_paused = True
            for process in self.server.processes:
                if process.step:
                    self.kernel.crashes[process.step, "pause"] += 1
            self._set_weather()

    def resume(self) -> None:
        """Let a frozen server go on with all that waited, in its order."""
        if not self.is_paused:
            return
        self.is_paused = False
        self._set_weather()
        if self.server is not None:
            self.server.gossip.forgive()
        postponed, self._postponed = self._postponed, []
        for act in postponed:
            self.kernel.after(0, act)

    def postpone(self, act: Callable[[], None]) -> None:
        """Have `act` happen when the server goes on."""
        self._postponed.append(act)

    def state(self) -> Literal["running", "paused", "stopped"]:
        """Return the present state of the server's process."""
        if self.server is None:
            return "stopped"
        return "paused" if self.is_paused else "running"

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def disconnect(self, name: str) -> None:
        """Give up the connections to a node: what is under way on them is lost."""
        self.network.reset(self, name)

    def arrive(self, message: Message) -> None:
        """Take a message from the network; a server that does not run, or does not listen yet, takes none."""
        server = self.server
        if server is None or not server.gossip.has_begun:
            return
        if self.is_paused:
            self.postpone(partial(self._deliver, server, message))
        else:
            self.handle(message)

    def _deliver(self, server: Server, message: Message) -> None:
        if self.server is server:
            self.arrive(message)

    def handle(self, message: Message) -> None:
        """Let the server handle a message."""
        server = self.server
        assert server is not None
        kind = message.kind
        if kind == "answer":
            answers: Answers = message.question
            if answers.server is server:
                answers.receive(message.sender, message.body)
        elif kind == "gossip":
            server.gossip.hear(message.sender, message.body)
        else:
            steps = self.model.receive(self, message)
            if steps is not None:
                server.begin(kind, steps)

    # ── means ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def exec(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: str | None = None) -> Executed:  # noqa: ARG002 - others wait
        """Carry out a command (`schemaquake.clusters.simulated.shell`)."""
        done = execute(self.filters, argv)
        self.network.lift(self)
        self._set_weather()
        return done

    def cut_off(self, address: str, chain: str) -> None:
        """Drop what arrives from an address, until that chain of filters is opened again (`reconnect`)."""
        self.filters.cut(address, chain)
        self._set_weather()

    def reconnect(self, chain: str) -> None:
        """Drop no more what a chain of filters dropped."""
        self.filters.open(chain)
        self.network.lift(self)
        self._set_weather()

    def upload(self, source: Path, target: str) -> None:
        """Refuse: there is no file system. Raises FileNotFoundError."""
        raise FileNotFoundError(f"{target}: a simulated node has no files (for {source})")

    def download(self, source: str, target: Path) -> None:
        """Refuse: there is no file system. Raises FileNotFoundError."""
        raise FileNotFoundError(f"{source}: a simulated node has no files (for {target})")

    def skew_clock(self, offset_s: float) -> None:
        """Shift the wall clock."""
        self.clock.skew(offset_s)
        self._set_weather()

    def clock_offset(self) -> float:
        """Return how many seconds the wall clock is ahead of true time."""
        return self.clock.offset_ns / S

    def log_text(self) -> str:
        """Return the log of the latest start."""
        return self.console.text()

    def data_directories(self) -> Sequence[tuple[str, str, str | None, bool, Sequence[str]]]:
        """Return (keyspace, table, id, live, snapshots) of every table on the disk."""
        return list(self.disk.directories())

    def _set_weather(self) -> None:
        faults = (("cut", self.filters.active), ("pause", self.is_paused), ("clock", self.clock.offset_ns != 0))
        self.weather = "+".join(name for name, there in faults if there)


def _first_error(text: str) -> str | None:
    """Cut the first ERROR with its exception out of a log."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("ERROR"):
            return "\n".join(lines[number : number + 2])
    return None
