"""Sequences: changes of the ring in Cassandra 6.0, each a few entries of the metadata log (`tcm/sequences`).

- q1 PREPARE: the ranges are locked; refused if another change has one of them
- q2 START: the replicas to come are written to, too. A node that leaves waits for those who know PREPARE before
- q3 a progress barrier: a majority of the readers and writers of every locked range, in each data centre, knows START; a node that is
  removed or replaced does not count (`UnbootstrapAndLeave.barrier`, `BootstrapAndReplace.barrier`)
- q4 rows are streamed to the replicas to come, strictly from those that lose the range
- q5 MID: the replicas to come are read from
- q6 a barrier again, for MID
- q7 FINISH: the former ones are written to no more, and the locks are gone

A barrier is asked for until it is passed: EACH_QUORUM is the level that it begins with and, by default, the least one
(`progress_barrier_min_consistency_level`); the real one gives up after an hour. A node that joins or takes a place goes on at its next
start; one that leaves or moves when it is asked again. What is cancelled is as before PREPARE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from schemaquake.clusters.simulated.faces import Answers, Node, Steps
from schemaquake.clusters.simulated.messages import Failure, Message
from schemaquake.clusters.simulated.models.invariants import LogInvariants
from schemaquake.clusters.simulated.models.serving import server_of
from schemaquake.clusters.simulated.models.steps import numbered
from schemaquake.clusters.simulated.models.streaming import Streams
from schemaquake.clusters.simulated.processes import Died, Sleep
from schemaquake.clusters.simulated.ring import SPACE, Copies
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.topology import Moving, Topology, factors_of, lacking
from schemaquake.harness.model.topology import TopologyVerb
from schemaquake.harness.placements.ring import Location
from schemaquake.harness.units import MS, S

__all__ = ["ADVANCE", "CANCEL", "PREPARE", "Sequences", "after_sequence"]

_BARRIER_NS: Final = 1 * S
_COMMIT_NS: Final = 10 * S
_SYSTEM_FACTOR: Final = 3
"""Replicas of `system_distributed`."""

PREPARE: Final = "PREPARE"
ADVANCE: Final = "ADVANCE"
CANCEL: Final = "CANCEL_SEQUENCE"

Q1, Q2, Q3, Q4, Q5, Q6, Q7 = numbered("6.0/sequence", "q1", "q2", "q3", "q4", "q5", "q6", "q7")
STREAM = numbered("6.0/stream", "s1", "s2")


class Log(Protocol):
    """The metadata log, as sequences use it."""

    def topology(self, node: Node) -> Topology:
        """Return the topology that a node knows."""
        ...

    def epoch(self, node: Node) -> int:
        """Return the epoch that a node has enacted."""
        ...

    def commit(self, node: Node, f: str, value: Any, *, limit_ns: int) -> Steps:
        """Commit an entry and enact it on the node. Raises ServerSaid."""
        ...

    def know(self, node: Node, epoch: int, sender: str) -> Steps:
        """Enact the log's entries up to the epoch that `sender` showed, if they can be fetched."""
        ...


def after_sequence(topology: Topology, epoch: int, f: str, value: Any, *, has_locks: bool) -> Topology:
    """Return the topology after an entry of a sequence. Raises ServerSaid for one that is refused."""
    if f == PREPARE:
        change, node, tokens, replaced, removed = value
        seat = topology.seats.get(node)
        location = Location() if seat is None else seat.location
        move = Moving(change, node, topology.ring, tokens, replaced, removed=removed, location=location)
        reason = topology.obstacle(move, has_locks=has_locks)
        if reason is not None:
            raise _invalid(reason)
        return topology.prepare(epoch, move)
    node, step = value
    under_way = next((move for move in topology.moves if move.node == node), None)
    if under_way is None or (f == ADVANCE and under_way.step != step):
        raise _invalid(f"no sequence of {node} is at that step")
    return topology.cancel(epoch, node) if f == CANCEL else topology.advance(epoch, node)


class Sequences:
    """The sequences of a cluster."""

    steps: Final = tuple(step.name for step in (Q1, Q2, Q3, Q4, Q5, Q6, Q7, *STREAM))
    kinds: Final = frozenset({"progress-barrier"}) | Streams.kinds
    verbs: Final[frozenset[TopologyVerb]] = frozenset(
        {"decommission", "remove", "move", "repair", "abort-join", "abort-leave", "abort-move", "abort-remove"}
    )

    def __init__(self, log: Log, flaws: frozenset[str]) -> None:
        self._log = log
        self._flaws = flaws
        self.invariants: LogInvariants | None = None
        """The observer of the log; None: nobody looks."""
        self.streams = Streams(
            flaws,
            STREAM,
            heed=lambda node, message: log.know(node, message.epoch, message.sender),
            is_open=lambda node, session: session is None or log.topology(node).move_of(session) is not None,
        )

    # ── an operator's requests ───────────────────────────────────────────────────────────────────────────────────────

    def reshape(self, node: Node, verb: TopologyVerb, *, about: str | None, argument: str | None) -> Steps:
        """Carry out a change that an operator asked this node for. Raises ServerSaid."""
        topology = self._log.topology(node)
        match verb:
            case "decommission":
                self._refuse_too_few(node, topology)
                yield from self._begin(node, ("leave", node.name, (), None, False))
                yield from self.go_on(node, node.name)
                server_of(node).phase = "left"
                server_of(node).gossip.end()
            case "remove":
                assert about is not None
                if server_of(node).gossip.alive(about):
                    raise ServerSaid("ServerError", f"Node {about} is alive and owns this ID. Use decommission command")
                yield from self._begin(node, ("leave", about, (), None, True))
                yield from self.go_on(node, about)
            case "move":
                token = int(argument or 0) + (SPACE >> 1)
                yield from self._begin(node, ("move", node.name, (token,), None, False))
                yield from self.go_on(node, node.name)
            case "repair":
                yield from self.streams.repair(node, topology)
            case _:
                subject = about or node.name
                if topology.move_of(subject) is None:
                    raise _invalid(f"no sequence of {subject} is under way")
                step = next(move.step for move in topology.moves if move.node == subject)
                yield from self._log.commit(node, CANCEL, (subject, step), limit_ns=_COMMIT_NS)

    def _refuse_too_few(self, node: Node, topology: Topology) -> None:
        if topology.move_of(node.name) is not None:
            return
        factors = [keyspace.replication_factor for keyspace in server_of(node).memory.values()]
        factor = lacking(topology.ring, node.name, [_SYSTEM_FACTOR, *factors])
        if factor is not None:
            raise ServerSaid("ServerError", f"Not enough live nodes to maintain replication factor (RF = {factor})")

    def _begin(self, node: Node, value: tuple[Any, ...]) -> Steps:
        """Commit PREPARE, unless it was before: then the sequence is resumed. Raises ServerSaid."""
        if self._log.topology(node).move_of(value[1]) is None:
            yield Q1
            yield from self._commit(node, PREPARE, value, partial(self._is_under_way, node, value))

    def join(self, node: Node) -> Steps:
        """Have a booting node take the place that it is to have; at once if it has it. Raises Died."""
        joins = node.joins
        topology = self._log.topology(node)
        seat = topology.seats.get(node.name)
        if joins is None or (seat is not None and seat.state == "normal" and joins.replaces != node.name):
            return
        try:
            if joins.replaces == node.name:
                yield from self._take_own_place(node)
                return
            value = ("join", node.name, (joins.token,), None, False)
            if joins.replaces is not None:
                value = ("replace", node.name, (), joins.replaces, False)  # type: ignore[assignment]
            yield from self._begin(node, value)
            yield from self.go_on(node, node.name)
        except ServerSaid as said:
            raise Died(said.stack) from None

    def _take_own_place(self, node: Node) -> Steps:
        """Stream all that a node with an empty disk should have; to others it is dead meanwhile."""
        topology, schema = self._log.topology(node), server_of(node).memory
        yield Q4
        for factor in factors_of(topology.ring):
            yield from self.streams.take_own_place(node, topology, factor)
        self.streams.look_at_own_place(node, topology, schema)
        node.joins = None

    # ── the steps ────────────────────────────────────────────────────────────────────────────────────────────────────

    def go_on(self, node: Node, subject: str) -> Steps:
        """Carry a sequence on to its end from wherever it is. Raises ServerSaid if it was cancelled."""
        move = self._move(node, subject)
        is_again = move.done > 1
        while self._log.topology(node).move_of(subject) is not None:
            move = self._move(node, subject)
            if move.done == 1:
                if move.change == "leave":
                    yield from self._await_barrier(node, subject)
                yield Q2
            elif move.done == 2:
                yield Q3
                yield from self._await_barrier(node, subject)
                yield Q4
                self._look_at_barrier(node, move)
                topology = self._log.topology(node)
                if not (yield from self.streams.move(node, topology, move, subject, again=is_again)):
                    yield Sleep(500 * MS)
                    continue
                self.streams.look_at_targets(node, topology, move)
                yield Q5
            else:
                yield Q6
                yield from self._await_barrier(node, subject)
                yield Q7
            self._look_at_barrier(node, move)
            yield from self._commit(node, ADVANCE, (subject, move.step), partial(self._is_past, node, move))
        if not self._is_finished(node, move):
            raise ServerSaid("ServerError", f"the sequence of {subject} was cancelled")
        if self.invariants is not None:
            self.invariants.ended(node, move, self._log.topology(node))

    def _look_at_barrier(self, node: Node, move: Moving) -> None:
        """Have it looked at whether the last step of a sequence is known to those who need to; not of one that was cancelled meanwhile."""
        topology = self._log.topology(node)
        if self.invariants is not None and move in topology.moves:
            self.invariants.advances(node, move, topology)

    def _commit(self, node: Node, f: str, value: Any, is_done: Callable[[], bool]) -> Steps:
        """Commit an entry; one that is refused because of its own effect is committed. Raises ServerSaid."""
        try:
            yield from self._log.commit(node, f, value, limit_ns=_COMMIT_NS)
        except ServerSaid:
            if not is_done():
                raise

    def _is_under_way(self, node: Node, value: tuple[Any, ...]) -> bool:
        change, subject, tokens, *_ = value
        move = self._log.topology(node).move_of(subject)
        return move is not None and (move.change, move.node, move.tokens) == (change, subject, tokens)

    def _is_past(self, node: Node, move: Moving) -> bool:
        """Return whether the step after that of a change was taken."""
        topology = self._log.topology(node)
        now = topology.move_of(move.node)
        return self._is_finished(node, move) if now is None else now.done > move.done

    def _is_finished(self, node: Node, move: Moving) -> bool:
        """Return whether a change that is under way no more has been carried out, and was not cancelled."""
        seat = self._log.topology(node).seats[move.node]
        match move.change:
            case "leave":
                return seat.state == "left"
            case "move":
                return seat.tokens == move.tokens
        return seat.state == "normal"

    def _move(self, node: Node, subject: str) -> Moving:
        move = next((each for each in self._log.topology(node).moves if each.node == subject), None)
        if move is None:
            raise ServerSaid("ServerError", f"the sequence of {subject} was cancelled")
        return move

    def _await_barrier(self, node: Node, subject: str) -> Steps:
        """Wait until a majority of the replicas of each locked range knows the last step."""
        if "no-barrier" in self._flaws:
            return
        topology = self._log.topology(node)
        epoch = topology.version
        groups = _replicas_of_locked(node, topology, self._move(node, subject))
        names = sorted({name for group in groups for name in group})
        while self._log.topology(node).move_of(subject) is not None:
            answers: Answers = yield server_of(node).ask(
                names, "progress-barrier", epoch, need=len(names), limit_ns=_BARRIER_NS
            )
            known = answers.answers
            if "weak-barrier" in self._flaws:
                if known:
                    return
            elif all(sum(name in known for name in group) > len(group) // 2 for group in groups):
                return
            yield Sleep(node.kernel.cost_ns(100 * MS, 300 * MS))

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, node: Node, message: Message) -> Steps:
        """Handle a barrier or a stream."""
        if message.kind in Streams.kinds:
            return self.streams.receive(node, message)
        return self._know(node, message)

    def _know(self, node: Node, message: Message) -> Steps:
        """Answer a barrier when its epoch is enacted here."""
        yield from self._log.know(node, message.body, message.sender)
        is_known = self._log.epoch(node) >= message.body
        if is_known and self.invariants is not None:
            self.invariants.passes(node, message.body, self._log.epoch(node))
        server_of(node).answer(message, True if is_known else Failure("behind"))


def _replicas_of_locked(node: Node, topology: Topology, move: Moving) -> Sequence[frozenset[str]]:
    """Return the readers and writers of each locked range in each data centre, of the keyspaces there are; but the node that is dead."""
    memory: Mapping[str, Any] = server_of(node).memory
    factors: dict[Copies, None] = {_SYSTEM_FACTOR: None}
    factors |= {keyspace.replication_factor: None for keyspace in memory.values()}
    groups: dict[frozenset[str], None] = {}
    for factor in factors:
        for span in move.plan(factor).locked:
            place = topology.place(span.end)
            names = (*topology.replicas(place, factor), *topology.writes(place, factor))
            living = [name for name in names if name != move.dead]
            groups |= {frozenset(part): None for part in node.by_data_center(living).values()}
    return list(groups)


def _invalid(reason: str) -> ServerSaid:
    return ServerSaid("InvalidRequest", f'Can not commit transformation: "INVALID"(Rejecting this plan: {reason})')
