"""Server: the process of a simulated node between its start and its end; everything in it is gone when it is killed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from uuid import UUID

from schemaquake.clusters.simulated.gossip import Gossip
from schemaquake.clusters.simulated.kernel import Lock, Process, Steps
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.definitions import Schema, Table

if TYPE_CHECKING:
    from schemaquake.clusters.simulated.node import SimulatedNode
    from schemaquake.harness.run.event_heap import Event

__all__ = ["Failure", "Gather", "Message", "Server"]


class Failure(NamedTuple):
    """The answer of a node that could not do what it was asked for."""

    reason: str


class Message(NamedTuple):
    """A message from one server to another. `gather` waits for its answer; None: nobody does."""

    sender: str
    kind: str
    body: Any
    gather: Gather | None = None


class Server:
    """One life of one node."""

    def __init__(self, node: SimulatedNode) -> None:
        self.node = node
        self.started_ns = node.kernel.heap.now_ns
        self.phase: Literal["booting", "serving"] = "booting"
        self.processes: dict[Process, None] = {}
        self.stages: dict[str, deque[Process]] = {}
        self.requests: dict[Callable[[Any, ServerSaid | None], None], None] = {}
        """Clients that wait for an answer."""
        self.gossip = Gossip(self)
        self.version: UUID | None = None
        """The schema version that it tells others."""
        self.state: Any = None
        """The rest of a model's own."""
        self._memory: Schema = {}
        self._tables: dict[str, Table] = {}

    @property
    def memory(self) -> Schema:
        """The schema that it serves."""
        return self._memory

    @memory.setter
    def memory(self, schema: Schema) -> None:
        for name in {**self._memory, **schema}:
            old, new = self._memory.get(name), schema.get(name)
            if old is not new:
                for table in () if old is None else (*old.tables.values(), *old.views.values()):
                    self._tables.pop(table.id, None)
        for name, new in schema.items():
            if self._memory.get(name) is not new:
                self._tables.update((table.id, table) for table in (*new.tables.values(), *new.views.values()))
        self._memory = schema

    def table(self, table_id: str) -> Table | None:
        """Return the table or view of that id, if it serves one."""
        return self._tables.get(table_id)

    @property
    def uptime_ns(self) -> int:
        """The time since its start."""
        return self.node.kernel.heap.now_ns - self.started_ns

    # ── processes ────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, handling: str, steps: Steps, done: Callable[[Any, ServerSaid | None], None] | None = None) -> None:
        """Begin a process now."""
        Process(self, handling, steps, done).resume()

    def after(self, delay_ns: int, act: Callable[[], None]) -> None:
        """Have `act` happen that much later, if the server still lives; later still if it is paused then."""
        self.node.kernel.after(delay_ns, partial(self._happen, act))

    def _happen(self, act: Callable[[], None]) -> None:
        if self.node.server is self:
            if self.node.is_paused:
                self.node.postpone(act)
            else:
                act()

    def staged(self, stage: str, steps: Steps) -> Steps:
        """Carry `steps` out while no other process is in the stage."""
        yield Lock(stage)
        try:
            return (yield from steps)
        finally:
            self.release(stage)

    def release(self, stage: str) -> None:
        """Leave the stage to the next process that waits for it."""
        waiting = self.stages.get(stage)
        if waiting:
            self.node.kernel.after(0, waiting.popleft().resume)
        else:
            self.stages.pop(stage, None)

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, receiver: str, kind: str, body: Any = None) -> None:
        """Send a message that nobody answers."""
        self.node.network.send(self.node, receiver, Message(self.node.name, kind, body))

    def ask(self, receivers: Iterable[str], kind: str, body: Any, *, need: int, limit_ns: int) -> Gather:
        """Ask these nodes, perhaps this one too; the process that yields the answer waits until `need` have answered."""
        names = list(receivers)
        gather = Gather(self, names, need, limit_ns)
        message = Message(self.node.name, kind, body, gather)
        for name in names:
            if name == self.node.name:
                self.node.handle(message)
            else:
                self.node.network.send(self.node, name, message)
        return gather

    def answer(self, message: Message, body: Any) -> None:
        """Answer a message; `body` is a Failure if it could not be done."""
        gather = message.gather
        assert gather is not None
        if message.sender == self.node.name:
            gather.receive(self.node.name, body)
        else:
            self.node.network.send(self.node, message.sender, Message(self.node.name, "answer", body, gather))


class Gather:
    """The answers of several nodes to one question; resumes its process with itself."""

    __slots__ = ("_limit", "_limit_ns", "_process", "_unanswered", "answers", "failures", "need", "server")

    def __init__(self, server: Server, names: Sequence[str], need: int, limit_ns: int) -> None:
        self.server = server
        self.need = need
        self.answers: dict[str, Any] = {}
        """By node, in the order in which they came."""
        self.failures: dict[str, str] = {}
        self._unanswered = len(names)
        self._limit_ns = limit_ns
        self._limit: Event | None = None
        self._process: Process | None = None

    @property
    def enough(self) -> bool:
        """True if as many have answered as were needed."""
        return len(self.answers) >= self.need

    @property
    def in_vain(self) -> bool:
        """True if too many have failed."""
        return len(self.answers) + self._unanswered < self.need

    def begin(self, process: Process) -> bool:
        """Wait for the answers."""
        if self.enough or self.in_vain:
            return True
        self._process = process
        heap = process.node.kernel.heap
        self._limit = heap.at(heap.now_ns + self._limit_ns, self._end)
        return False

    def receive(self, name: str, body: Any) -> None:
        """Take one node's answer."""
        self._unanswered -= 1
        if body.__class__ is Failure:
            self.failures[name] = body.reason
        else:
            self.answers[name] = body
        if self._process is not None and (self.enough or self.in_vain):
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if self._limit is not None:
            self._limit.cancel()
        if process is not None:
            process.resume(self)
