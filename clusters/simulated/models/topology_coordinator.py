"""Topology coordinator: changes of the ring in ScyllaDB, moved on by the leader of group 0 (`docs/dev/topology-over-raft.md`).

A node **asks** for a change by a command in the log, and waits for its end. The **coordinator** runs on the leader, wherever that is; what
it has done is in the log, so that another one goes on:

- o1 write_both_read_old: the replicas to come are written to, too; refused if that cannot be
- o2 a barrier: every member has that state, and its requests of an earlier one have ended
- o3 rows are streamed to the replicas to come, in a session that the next state closes
- o4 write_both_read_new: the replicas to come are read from
- o5 a barrier again, and a fence: replicas refuse requests of an earlier version
- o6 normal, left or replaced; the group has the member no longer, or gives it the vote. A coordinator that died between the two leaves the
  member to the next one

A node that is to be removed or replaced and lives is not: the coordinator refuses, whoever asked (`topology_coordinator::handle_node_transition`). The
request may have waited for a majority, and its node have come back with that.

Where a node that is needed is dead before o4, the change is rolled back, and the group has no longer the member that was to come; afterwards it
waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from schemaquake.clusters.simulated.faces import Answers, Node, Steps
from schemaquake.clusters.simulated.messages import Failure, Message
from schemaquake.clusters.simulated.models.invariants import RingInvariants
from schemaquake.clusters.simulated.models.serving import server_of
from schemaquake.clusters.simulated.models.steps import numbered
from schemaquake.clusters.simulated.models.streaming import Streams
from schemaquake.clusters.simulated.processes import Sleep
from schemaquake.clusters.simulated.ring import SPACE
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.topology import Moving, Topology, former_of, lacking
from schemaquake.harness.model.topology import TopologyVerb
from schemaquake.harness.placements.ring import Location
from schemaquake.harness.units import MS, S

__all__ = ["Board", "Coordinator", "Order", "Request", "after_order"]

_BARRIER_NS: Final = 3 * S
_DRAIN_NS: Final = 6 * S
_GIVES_UP_AFTER: Final = 10
"""Failed rounds of a step after which a change is rolled back."""
_ENDED_MOST: Final = 32
_TRANSITIONS: Final = {2: "write both read old", 3: "write both read new"}

O1, O2, O3, O4, O5, O6 = numbered("group0/topology", "o1", "o2", "o3", "o4", "o5", "o6")
STREAM = numbered("group0/stream", "s1", "s2")

RequestId: TypeAlias = tuple[str, int]


class Request(NamedTuple):
    """A change that a node asks for."""

    id: RequestId
    change: Literal["join", "leave", "move", "replace"]
    node: str
    host_id: str = ""
    tokens: tuple[int, ...] = ()
    replaced: str | None = None
    is_dead: bool = False
    location: Location = Location()

    @property
    def dead(self) -> str | None:
        """The node that has to be dead; None: there is none, or it is the one that had the address of this one before."""
        dead = self.node if self.is_dead else self.replaced
        return None if self.change == "replace" and dead == self.node else dead


class Order(NamedTuple):
    """A command about the topology in the log of the group."""

    kind: Literal["request", "begin", "refuse", "advance", "fence", "roll-back"]
    value: Any
    """The request; its id; (its id, reason); (node, steps done); a version; (node, reason)."""


class Board(NamedTuple):
    """The topology as the log has it (`system.topology`)."""

    topology: Topology
    at: int = 0
    """The index of the last entry that is in it."""
    fence: int = 0
    requests: tuple[Request, ...] = ()
    ended: tuple[tuple[RequestId, str], ...] = ()
    """Requests that have ended, each with the reason of a refusal or "", the latest last."""

    @property
    def transition(self) -> str | None:
        """The state of the change under way."""
        return next((_TRANSITIONS[move.done] for move in self.topology.moves), None)


def after_order(board: Board, order: Order, at: int) -> Board:
    """Return a board after an entry of the log; one that does not fit changes nothing."""
    board = board._replace(at=at)
    topology = board.topology
    version = topology.version + 1
    match order.kind:
        case "request":
            known = any(order.value.id == each.id for each in board.requests)
            ended = any(order.value.id == each for each, _ in board.ended)
            return board if known or ended else board._replace(requests=(*board.requests, order.value))
        case "begin":
            return _begun(board, order.value, version)
        case "refuse":
            request_id, reason = order.value
            is_first = board.requests and board.requests[0].id == request_id and not topology.moves
            return _ended(board, reason) if is_first else board
        case "fence":
            return board._replace(fence=max(board.fence, order.value))
    node, value = order.value
    move = next((each for each in topology.moves if each.node == node), None)
    if move is None or (order.kind == "advance" and move.done != value):
        return board
    if order.kind == "roll-back":
        return _ended(board._replace(topology=topology.cancel(version, node)), value)
    board = board._replace(topology=topology.advance(version, node))
    return board if board.topology.moves else _ended(board, "")


def _begun(board: Board, request_id: RequestId, version: int) -> Board:
    request = next((each for each in board.requests if each.id == request_id), None)
    topology = board.topology
    if request is None or topology.moves:
        return board
    seat = topology.seats.get(request.node)
    if request.host_id and seat is not None and (seat.state, seat.host_id) == ("normal", request.host_id):
        return _ended(board, "")  # asked twice by a node that was started again in between: it has what it asks for
    replaced = request.replaced
    if replaced == request.node:
        # The dead one has its place until the new one is read from: they are two, though they have one address.
        topology = topology.vacated(version, request.node, request.host_id, request.location)
        replaced = former_of(request.node)
    if request.node not in topology.seats:
        topology = topology.registered(version, request.node, request.host_id, request.location)
    move = Moving(
        request.change,
        request.node,
        topology.ring,
        request.tokens,
        replaced,
        removed=request.is_dead,
        location=request.location,
    )
    reason = topology.obstacle(move)
    if reason is not None:
        return _ended(board, f"the topology request was refused: {reason}")
    return board._replace(topology=topology.prepare(version, move).advance(version, request.node))


def _ended(board: Board, reason: str) -> Board:
    """Take the first request off the queue."""
    first, *others = board.requests
    return board._replace(requests=tuple(others), ended=(*board.ended, (first.id, reason))[-_ENDED_MOST:])


class Group(Protocol):
    """Group 0, as the coordinator uses it."""

    def board(self, node: Node) -> Board:
        """Return the topology that a node has."""
        ...

    def is_leader(self, node: Node) -> bool:
        """Return whether a node leads."""
        ...

    def hears(self, node: Node, name: str) -> bool:
        """Return whether a node takes another for alive."""
        ...

    def is_member(self, node: Node, name: str) -> bool:
        """Return whether a node is in the group, as another one knows it."""
        ...

    def append(self, node: Node, order: Order) -> Steps:
        """Append an order on the leader and carry it out there; returns whether that was done."""
        ...

    def send(self, node: Node, order: Order) -> Steps:
        """Have the leader append an order, from any node; returns whether a leader took it."""
        ...

    def dismiss(self, node: Node, name: str) -> Steps:
        """Have the group go on without a member, on the leader; returns whether it does."""
        ...

    def flights(self, node: Node) -> Mapping[int, int]:
        """Return how many requests of each version of the topology a node coordinates now."""
        ...


class Coordinator:
    """Changes of the ring in group 0."""

    steps: Final = tuple(step.name for step in (O1, O2, O3, O4, O5, O6, *STREAM))
    kinds: Final = frozenset({"topology-barrier"}) | Streams.kinds
    verbs: Final[frozenset[TopologyVerb]] = frozenset({"decommission", "remove", "move", "repair"})

    def __init__(self, group: Group, flaws: frozenset[str]) -> None:
        self._group = group
        self._flaws = flaws
        self.streams = Streams(flaws, STREAM, is_open=self._is_open, is_given_up=self._is_given_up)
        self._working: dict[str, object] = {}
        """By node the server on which a coordinator is at work."""
        self._requests = 0
        self.invariants: RingInvariants | None = None
        """The observer of barriers; None: nobody looks."""

    def _is_open(self, node: Node, session: Any) -> bool:
        """Return whether a stream's session is still that of the state that this node has."""
        if session is None:  # a repair, which no change of the ring ends
            return True
        subject, done = session
        move = self._group.board(node).topology.move_of(subject)
        return move is not None and move.done == done

    def _is_given_up(self, node: Node, name: str) -> bool:
        """Return whether a node is in the ring, and not in the group: an operator has recovered the group without it."""
        return not self._group.is_member(node, name)

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def reshape(self, node: Node, verb: TopologyVerb, *, about: str | None, argument: str | None) -> Steps:
        """Carry out a change that an operator asked this node for. Raises ServerSaid."""
        match verb:
            case "decommission":
                self._refuse_too_few(node)
                yield from self.ask(node, Request(self._new_id(node), "leave", node.name))
            case "remove":
                assert about is not None
                if self._group.hears(node, about):
                    raise ServerSaid("ServerError", f"removenode: Node {about} is alive and owns this ID")
                yield from self.ask(node, Request(self._new_id(node), "leave", about, is_dead=True))
            case "repair":
                yield from self.streams.repair(node, self._group.board(node).topology)
            case _:
                tokens = (int(argument or 0) + (SPACE >> 1),)
                yield from self.ask(node, Request(self._new_id(node), "move", node.name, tokens=tokens))

    def join(self, node: Node) -> Steps:
        """Have a booting node take the place that it is to have. Raises ServerSaid."""
        joins = node.joins
        assert joins is not None
        host_id = node.host_ids[node.name]
        if joins.replaces is not None:
            request = Request(
                self._new_id(node), "replace", node.name, host_id, replaced=joins.replaces, location=node.location
            )
        else:
            request = Request(self._new_id(node), "join", node.name, host_id, (joins.token,), location=node.location)
        yield from self.ask(node, request)

    def _new_id(self, node: Node) -> RequestId:
        self._requests += 1
        return node.name, self._requests

    def _refuse_too_few(self, node: Node) -> None:
        factors = [keyspace.replication_factor for keyspace in server_of(node).memory.values()]
        if lacking(self._group.board(node).topology.ring, node.name, [1, *factors]) is not None:
            raise ServerSaid("ServerError", "Not enough live nodes to maintain replication factor")

    def ask(self, node: Node, request: Request) -> Steps:
        """Have a request in the log, and wait for its end; one that waits there already is not made twice. Raises ServerSaid if it was refused or rolled back."""
        same = (each for each in self._group.board(node).requests if each[1:3] == request[1:3])
        request = next(same, request)
        while True:
            board = self._group.board(node)
            reason = next((why for each, why in board.ended if each == request.id), None)
            if reason == "":
                return
            if reason is not None:
                raise ServerSaid("ServerError", reason)
            if not any(each.id == request.id for each in board.requests):
                yield from self._group.send(node, Order("request", request))
            yield Sleep(200 * MS)

    # ── the coordinator ──────────────────────────────────────────────────────────────────────────────────────────────

    def look(self, node: Node) -> None:
        """Start the coordinator on the node that leads the group, if changes wait and none is at work there."""
        board = self._group.board(node)
        has_work = bool(board.requests or board.topology.moves) or self._gone_member(node) is not None
        if has_work and self._group.is_leader(node) and self._working.get(node.name) is not node.server:
            self._working[node.name] = node.server
            server_of(node).begin("topology-coordinator", self._work(node))

    def _work(self, node: Node) -> Steps:
        server = node.server
        yield from self._work_on(node)
        if self._working.get(node.name) is server:
            del self._working[node.name]

    def _work_on(self, node: Node) -> Steps:
        failures = 0
        while self._group.is_leader(node):
            gone = self._gone_member(node)
            if gone is not None:
                # It is a member until the second step of the change of members, too.
                yield from self._group.dismiss(node, gone)
                yield Sleep(node.kernel.cost_ns(200 * MS, 400 * MS))
                continue
            board = self._group.board(node)
            move = next(iter(board.topology.moves), None)
            if move is None:
                if not board.requests:
                    return
                request = board.requests[0]
                dead = request.dead
                if dead is not None and self._group.hears(node, dead):
                    reason = f"the topology request was refused: {dead} is alive"
                    yield from self._group.append(node, Order("refuse", (request.id, reason)))
                    yield from self._let_go(node, request)
                    continue
                yield O1
                yield from self._group.append(node, Order("begin", request.id))
                yield from self._let_go(node, request)
                failures = 0
                continue
            if (yield from (self._begin_reads(node, move) if move.done == 2 else self._finish(node, move))):
                failures = 0
                continue
            failures += 1
            if move.done == 2 and failures >= _GIVES_UP_AFTER:
                order = Order("roll-back", (move.node, "topology request was rolled back: a node does not answer"))
                if (yield from self._group.append(node, order)) and move.change in {"join", "replace"}:
                    yield from self._group.dismiss(node, move.node)
            yield Sleep(node.kernel.cost_ns(200 * MS, 400 * MS))

    def _let_go(self, node: Node, request: Request) -> Steps:
        """Have the group go on without a node whose request for a place was refused: it is a member since it asked."""
        board = self._group.board(node)
        is_refused = any(each == request.id and reason for each, reason in board.ended)
        if is_refused and request.change in {"join", "replace"} and request.node not in board.topology.seats:
            yield from self._group.dismiss(node, request.node)

    def _gone_member(self, node: Node) -> str | None:
        """Return a node that has left the ring, and is in the group still; None if there is none."""
        seats = self._group.board(node).topology.seats
        gone = (name for name, seat in seats.items() if seat.state in {"left", "replaced"})
        return next((name for name in gone if self._group.is_member(node, name)), None)

    def _begin_reads(self, node: Node, move: Moving) -> Steps:
        """Stream what the replicas to come lack, and have them read from; returns whether that was done."""
        if "early-stream" not in self._flaws:
            yield O2
            if not (yield from self._await_all(node, move)):
                return False
        yield O3
        self._look_at_barrier(node, move)
        topology = self._group.board(node).topology
        if not (yield from self.streams.move(node, topology, move, (move.node, move.done))):
            return False
        if not self._group.is_leader(node):
            return False
        self.streams.look_at_targets(node, topology, move)
        yield O4
        return (yield from self._group.append(node, Order("advance", (move.node, 2))))

    def _finish(self, node: Node, move: Moving) -> Steps:
        """Have the former replicas no more written to; returns whether that was done."""
        yield O5
        if not (yield from self._await_all(node, move)):
            return False
        version = self._group.board(node).topology.version
        if "no-fence" not in self._flaws and not (yield from self._group.append(node, Order("fence", version))):
            return False
        yield O6
        self._look_at_barrier(node, move)
        gone = move.node if move.change == "leave" else move.replaced
        done: bool = yield from self._group.append(node, Order("advance", (move.node, 3)))
        if done and gone is not None:
            yield from self._group.dismiss(node, gone)
        return done

    def _look_at_barrier(self, node: Node, move: Moving) -> None:
        topology, fence = self._group.board(node).topology, self._group.board(node).fence
        if self.invariants is not None and self._group.is_leader(node) and move in topology.moves:
            self.invariants.goes_on(node, topology, move, fence, lambda name: self._group.is_member(node, name))

    def _needed(self, node: Node, move: Moving) -> list[str]:
        """Return the members that have to know the present state."""
        topology = self._group.board(node).topology
        return [name for name in topology.members if name != move.dead and self._group.is_member(node, name)]

    def _await_all(self, node: Node, move: Moving) -> Steps:
        """Have every member confirm that it has the present state and that its earlier requests have ended."""
        topology = self._group.board(node).topology
        names = self._needed(node, move)
        answers: Answers = yield server_of(node).ask(
            names, "topology-barrier", topology.version, need=len(names), limit_ns=_BARRIER_NS + _DRAIN_NS
        )
        return answers.enough

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, node: Node, message: Message) -> Steps:
        """Handle a barrier or a stream."""
        if message.kind in Streams.kinds:
            return self.streams.receive(node, message)
        return self._confirm(node, message)

    def _confirm(self, node: Node, message: Message) -> Steps:
        """Answer a barrier when this node has that version, and has ended requests of earlier ones."""
        version: int = message.body
        is_there = yield from self._within(
            node, _BARRIER_NS, lambda: self._group.board(node).topology.version >= version
        )
        if is_there and "no-fence" not in self._flaws:
            flights = self._group.flights(node)
            is_there = yield from self._within(
                node, _DRAIN_NS, lambda: not any(count for each, count in flights.items() if each < version)
            )
        server_of(node).answer(message, True if is_there else Failure("not yet"))

    def _within(self, node: Node, limit_ns: int, is_so: Callable[[], bool]) -> Steps:
        ends_ns = node.kernel.heap.now_ns + limit_ns
        while not is_so():
            if node.kernel.heap.now_ns >= ends_ns:
                return False
            yield Sleep(50 * MS)
        return True
