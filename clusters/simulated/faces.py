"""Faces: a node, its server and a model, as protocols see them. `node`, `server` and `models` have the implementations."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable
from uuid import UUID

from schemaquake.clusters.simulated.clock import NodeClock
from schemaquake.clusters.simulated.disk import Disk
from schemaquake.clusters.simulated.kernel import Kernel
from schemaquake.clusters.simulated.messages import Message
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.definitions import Schema, Table
from schemaquake.clusters.simulated.server_log import ServerLog

if TYPE_CHECKING:
    from schemaquake.clusters.simulated.ring import RingView
    from schemaquake.harness.model.steps import Invoke
    from schemaquake.harness.model.topology import TopologyVerb
    from schemaquake.harness.placements.ring import Location

__all__ = [
    "Answers",
    "CatchingUp",
    "ChangingRing",
    "Effect",
    "Gossiping",
    "Joining",
    "Model",
    "Node",
    "Process",
    "Recovering",
    "Server",
    "Steps",
    "Watched",
]


class Effect(Protocol):
    """One thing that a protocol yields."""

    def begin(self, process: Process) -> bool:
        """Begin; return True if the process can go on at once."""
        ...


Steps: TypeAlias = Generator[Effect, Any, Any]
"""A protocol under way: effects out, their answers in, its result at the end."""


class Process(Protocol):
    """A protocol under way on one server."""

    handling: str
    """The kind of the message or request that is handled."""
    step: str
    """The step that it stands at."""
    done: Callable[[Any, ServerSaid | None], None] | None
    """Receives its result or its refusal; None: nobody waits for it."""

    @property
    def node(self) -> Node:
        """The node it runs on."""
        ...

    @property
    def server(self) -> Server:
        """The server it ends with."""
        ...

    def resume(self, answer: Any = None) -> None:
        """Go on with the answer to the last effect."""
        ...


class Answers(Effect, Protocol):
    """The answers of several nodes to one question; resumes its process with itself."""

    answers: dict[str, Any]
    """By node, in the order in which they came."""
    failures: dict[str, str]
    """By node the reasons of those that could not."""
    receivers: Sequence[str]
    """The nodes that were asked."""
    need: int

    @property
    def enough(self) -> bool:
        """True if as many have answered as were needed."""
        ...

    @property
    def is_awaited(self) -> bool:
        """True while its process waits for answers."""
        ...


class Gossiping(Protocol):
    """One server's knowledge of the others."""

    states: dict[str, Mapping[str, Any]]
    """By node the state that it told last."""

    def begin(self) -> None:
        """Begin to send beats, the first at once."""
        ...

    def alive(self, name: str) -> bool:
        """Return whether this server takes that node for alive."""
        ...

    def living(self, names: Iterable[str]) -> list[str]:
        """Return those nodes that this server takes for alive, in the order given."""
        ...

    def peers_alive(self) -> list[str]:
        """Return the other nodes that this server takes for alive, in order."""
        ...

    def tell(self) -> None:
        """Send the present state to every peer now."""
        ...

    def listen(self) -> None:
        """Begin to listen to others, and send nothing yet: they take this server for dead."""
        ...

    def end(self) -> None:
        """Say good-bye to all, and send no more."""
        ...


class Server(Protocol):
    """One life of a node: all of it is gone when it is killed."""

    phase: Literal["booting", "serving", "left"]
    memory: Schema
    """The schema that it serves."""
    ring: RingView | None
    """Its view of the ring; None: the founders' ring, which does not change."""
    epoch: int
    """The epoch of what it serves, sent with every message; 0 in designs without."""
    version: UUID | None
    """The schema version that it tells others."""
    state: Any
    """The rest of a model's own."""

    @property
    def gossip(self) -> Gossiping:
        """Its knowledge of the others."""
        ...

    @property
    def uptime_ns(self) -> int:
        """The time since its start."""
        ...

    def table(self, table_id: str) -> Table | None:
        """Return the table or view of that id, if it serves one."""
        ...

    def learn(self, table: Table) -> None:
        """Take rows of a table as another node defines it; the schema that is served stays as it is."""
        ...

    def begin(self, handling: str, steps: Steps, done: Callable[[Any, ServerSaid | None], None] | None = None) -> None:
        """Begin a process now; `done` receives its result or its refusal."""
        ...

    def end(self, process: Process, result: Any, said: ServerSaid | None) -> None:
        """Hand the result or the refusal of a process over."""
        ...

    def after(self, delay_ns: int, act: Callable[[], None]) -> None:
        """Have `act` happen that much later, if the server still lives; later still if it is paused then."""
        ...

    def staged(self, stage: str, steps: Steps) -> Steps:
        """Carry `steps` out while no other process is in the stage."""
        ...

    def enter(self, stage: str, process: Process) -> bool:
        """Take a stage for a process: True if it is free, else the process is resumed when its turn comes."""
        ...

    def send(self, receiver: str, kind: str, body: Any = None) -> None:
        """Send a message without an answer."""
        ...

    def ask(self, receivers: Iterable[str], kind: str, body: Any, *, need: int, limit_ns: int) -> Answers:
        """Ask these nodes, perhaps this one too; the process that yields the answers waits until `need` have come."""
        ...

    def answer(self, message: Message, body: Any) -> None:
        """Answer a message; `body` is a Failure if it could not be done."""
        ...


class Joining(NamedTuple):
    """The place that a new node takes."""

    token: int
    replaces: str | None = None
    """The dead node whose tokens it takes, which may be the node itself, with an empty disk."""


class Node(Protocol):
    """A simulated node."""

    name: str
    peers: tuple[str, ...]
    """The other nodes, in order, spares among them."""
    founders: tuple[str, ...]
    """The nodes that are members from the start, in order."""
    addresses: dict[str, str]
    """By name the address of every node."""
    host_ids: dict[str, str]
    """By name the id of every node, as text."""
    founder_ids: Mapping[str, str]
    """By name the ids that the founders began with."""
    locations: dict[str, Location]
    """By name where every node stands; empty where there is one data centre, of one rack."""
    joins: Joining | None
    """The place that a node takes which is no founder, or which takes a dead one's place; None: it is a founder."""
    kernel: Kernel
    clock: NodeClock
    disk: Disk
    console: ServerLog
    is_paused: bool
    weather: str
    """The faults in place on it, joined by `+`."""

    @property
    def server(self) -> Server | None:
        """The server; None while none runs."""
        ...

    @property
    def model(self) -> Model:
        """The design that it follows."""
        ...

    @property
    def location(self) -> Location:
        """Where it stands."""
        ...

    def by_data_center(self, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Sort nodes by their data centres, each in the order given and once."""
        ...

    def endpoint(self, name: str) -> str:
        """Return a node's address as servers log it."""
        ...

    def postpone(self, act: Callable[[], None]) -> None:
        """Have `act` happen when a frozen server goes on."""
        ...

    def die(self, stack: str) -> None:
        """End the server by its own error."""
        ...

    def end_itself(self, text: str) -> None:
        """End the server in good order, with this text in its log."""
        ...

    def disconnect(self, name: str) -> None:
        """Give up the connections to a node: what is under way on them is lost."""
        ...


class Model(Protocol):
    """A design. One value serves all nodes of a cluster; what it remembers lies on them (`Server.state`, `Disk.state`)."""

    flaws: frozenset[str]
    """The flaws that are switched on."""
    steps: tuple[str, ...]
    """The names of all its steps, in the order of its protocols."""
    describes_memory: bool
    """True in designs that answer DESCRIBE from the node's memory (4.0 and later)."""

    def boot(self, node: Node) -> Steps:
        """Start a server from its disk; it serves clients when the steps end. Raises Died."""
        ...

    def receive(self, node: Node, message: Message) -> Steps | None:
        """Handle a message of another node (or of its own); None if that took no time."""
        ...

    def serve(self, node: Node, request: Invoke) -> Steps:
        """Carry out a client's request and return the value of its completion. Raises ServerSaid."""
        ...

    def gossip(self, node: Node) -> Mapping[str, Any]:
        """Return the state that the node tells the others each second."""
        ...

    def heard(self, node: Node, name: str, state: Mapping[str, Any]) -> None:
        """Record the state that another node sent."""
        ...

    def answer(self, node: Node, text: str) -> Iterable[Mapping[str, Any]]:
        """Answer a statement by which a client reads the node's own account of its schema."""
        ...


@runtime_checkable
class Watched(Protocol):
    """A design that can say what must hold of all nodes at once."""

    def watch(self, nodes: Sequence[Node]) -> None:
        """Have that be looked at from now on."""
        ...


@runtime_checkable
class ChangingRing(Protocol):
    """A design whose ring can be changed."""

    @property
    def verbs(self) -> frozenset[TopologyVerb]:
        """The changes that a node can be asked for."""
        ...

    @property
    def steps_shown(self) -> tuple[str, ...]:
        """The steps of a change that nodes show."""
        ...

    @property
    def takes_own_place(self) -> bool:
        """True if a node with an empty disk can take its own place."""
        ...

    @property
    def keeps_host_id(self) -> bool:
        """True if a node that takes its own place has the id of the node that died."""
        ...

    def reshape(self, node: Node, verb: TopologyVerb, *, about: str | None, argument: str | None) -> Steps:
        """Carry out a change that an operator asked this node for; `about` is the node it concerns. Raises ServerSaid."""
        ...


@runtime_checkable
class Recovering(Protocol):
    """A design whose nodes can found their group anew when its majority is lost for good."""

    def recovers_from(self, nodes: Sequence[Node]) -> str:
        """Return the node that is to found the group anew, of those that are left; all of them run."""
        ...

    def give_up_group(self, node: Node, founder: str) -> None:
        """Have a stopped node forget its group at its next start, and join the one that `founder` founds."""
        ...

    def founder(self, node: Node) -> str:
        """Return the node that is to found the group of a node anew; empty: its group is not given up."""
        ...


@runtime_checkable
class CatchingUp(Protocol):
    """A design in which a node can be made to apply all that was committed before."""

    def catch_up(self, node: Node) -> Steps:
        """Wait until the node has applied all that was committed before; returns whether it has."""
        ...
