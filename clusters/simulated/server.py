"""Server: the process of a simulated node between its start and its end; everything in it is gone when it is killed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, Protocol
from uuid import UUID

from schemaquake.clusters.simulated import faces
from schemaquake.clusters.simulated.faces import Steps
from schemaquake.clusters.simulated.gossip import Gossip
from schemaquake.clusters.simulated.messages import Failure, Message
from schemaquake.clusters.simulated.processes import Lock, Process
from schemaquake.clusters.simulated.ring import RingView
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.definitions import Schema, Table
from schemaquake.harness.run.event_heap import Event

__all__ = ["Answers", "Post", "Server"]


class Post(Protocol):
    """The way of a server's messages."""

    def send(self, receiver: str, message: Message) -> None:
        """Send a message over the network."""
        ...

    def handle(self, message: Message) -> None:
        """Handle a message that this server sent itself."""
        ...


class Server:
    """One life of one node."""

    def __init__(self, node: faces.Node, post: Post) -> None:
        self.node = node
        self._post = post
        self._heap = node.kernel.heap
        self.started_ns = self._heap.now_ns
        self.phase: Literal["booting", "serving", "left"] = "booting"
        self.processes: dict[faces.Process, None] = {}
        self._stages: dict[str, deque[faces.Process]] = {}
        self.requests: dict[Callable[[Any, ServerSaid | None], None], None] = {}
        """Clients that wait for an answer."""
        self.gossip = Gossip(node, self)
        self.version: UUID | None = None
        """The schema version that it tells others."""
        self.ring: RingView | None = None
        """Its view of the ring; None: the founders' ring, which does not change."""
        self.epoch = 0
        """The epoch of what it serves; 0 in designs without."""
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

    def learn(self, table: Table) -> None:
        """Take rows of a table as another node defines it; the schema that is served stays as it is."""
        self._tables[table.id] = table

    @property
    def uptime_ns(self) -> int:
        """The time since its start."""
        return self._heap.now_ns - self.started_ns

    # ── processes ────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, handling: str, steps: Steps, done: Callable[[Any, ServerSaid | None], None] | None = None) -> None:
        """Begin a process now."""
        process = Process(self.node, self, handling, steps, done)
        self.processes[process] = None
        process.resume()

    def end(self, process: faces.Process, result: Any, said: ServerSaid | None) -> None:
        """Hand the result or the refusal of a process over."""
        del self.processes[process]
        if process.done is not None:
            process.done(result, said)
        elif said is not None:
            raise said  # a defect of the model: a protocol that nobody asked for has nobody to refuse

    def after(self, delay_ns: int, act: Callable[[], None]) -> None:
        """Have `act` happen that much later, if the server still lives; later still if it is paused then."""
        heap = self._heap
        heap.post(heap.now_ns + delay_ns, partial(self._happen, act))

    def _happen(self, act: Callable[[], None]) -> None:
        if self.node.server is self:
            if self.node.is_paused:
                self.node.postpone(partial(self._happen, act))
            else:
                act()

    def staged(self, stage: str, steps: Steps) -> Steps:
        """Carry `steps` out while no other process is in the stage."""
        yield Lock(stage)
        try:
            return (yield from steps)
        finally:
            self._release(stage)

    def enter(self, stage: str, process: faces.Process) -> bool:
        """Take a stage for a process: True if it is free, else the process is resumed when its turn comes."""
        waiting = self._stages.get(stage)
        if waiting is None:
            self._stages[stage] = deque()
            return True
        waiting.append(process)
        return False

    def _release(self, stage: str) -> None:
        """Leave the stage to the next process that waits for it; a server that was killed has none.

        Its processes end when Python collects them, and nothing may depend on when that is.
        """
        if self.node.server is not self:
            return
        waiting = self._stages.get(stage)
        if waiting:
            self.node.kernel.after(0, waiting.popleft().resume)
        else:
            self._stages.pop(stage, None)

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, receiver: str, kind: str, body: Any = None) -> None:
        """Send a message without an answer."""
        self._post.send(receiver, Message(self.node.name, kind, body, self.epoch))

    def ask(self, receivers: Iterable[str], kind: str, body: Any, *, need: int, limit_ns: int) -> Answers:
        """Ask these nodes, perhaps this one too; the process that yields the answers waits until `need` have come."""
        names = list(receivers)
        own = self.node.name
        answers = Answers(self, names, need, limit_ns)
        message = Message(own, kind, body, self.epoch, answers)
        for name in names:
            if name == own:
                self._post.handle(message)
            else:
                self._post.send(name, message)
        return answers

    def answer(self, message: Message, body: Any) -> None:
        """Answer a message; `body` is a Failure if it could not be done."""
        answers: Answers = message.question
        own = self.node.name
        if message.sender == own:
            answers.receive(own, body)
        else:
            self._post.send(message.sender, Message(own, "answer", body, self.epoch, answers))


class Answers:
    """The answers of several nodes to one question; resumes its process with itself."""

    __slots__ = ("_limit", "_limit_ns", "_process", "_unanswered", "answers", "failures", "need", "receivers", "server")

    def __init__(self, server: Server, receivers: Sequence[str], need: int, limit_ns: int) -> None:
        """`receivers` are the nodes that the question goes to."""
        self.server = server
        self.receivers = receivers
        self.need = need
        self.answers: dict[str, Any] = {}
        """By node, in the order in which they came."""
        self.failures: dict[str, str] = {}
        self._unanswered = len(receivers)
        self._limit_ns = limit_ns
        self._limit: Event | None = None
        self._process: faces.Process | None = None

    @property
    def enough(self) -> bool:
        """True if as many have answered as were needed."""
        return len(self.answers) >= self.need

    @property
    def is_awaited(self) -> bool:
        """True while its process waits for answers."""
        return self._process is not None

    def begin(self, process: faces.Process) -> bool:
        """Wait for the answers, until there are enough or too many have failed."""
        there = len(self.answers)
        if there >= self.need or there + self._unanswered < self.need:
            return True
        self._process = process
        self._limit = process.node.kernel.limit(self._limit_ns, self._end)
        return False

    def receive(self, name: str, body: Any) -> None:
        """Take one node's answer."""
        self._unanswered -= 1
        if body.__class__ is Failure:
            self.failures[name] = body.reason
        else:
            self.answers[name] = body
        if self._process is not None:
            there = len(self.answers)
            if there >= self.need or there + self._unanswered < self.need:
                self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if self._limit is not None:
            self._limit.cancel()
        if process is not None:
            process.resume(self)
