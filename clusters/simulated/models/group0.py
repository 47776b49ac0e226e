"""Group 0: every schema change is a guarded command in the log of one Raft group, and every node carries the commands out.

ScyllaDB 5.2 and later (`docs/dev/raft-in-scylla.md`, `service/raft/`; K. Osipov, Making Schema Changes Safe with Raft).
The log is `schemaquake.clusters.simulated.models.raft`; this is the state machine, and how a group comes about.

**Discovery** at a node's first start:

- d1 a server id of its own, to disk
- d2 asks all whom it knows, at first the seeds, for those whom they know, until nobody new is named; who is asked writes
  down who asked before it answers
- d3 a group exists: asks to be its member
- d4 all have answered, and its id is the lowest: founds the group
- d5 a member, without a vote: asks for the vote once it has all that was committed

**Change** on its coordinator N, one at a time:

- g1 refusals of the coordinator end here
- g2 a read barrier: the leader has a majority confirm that it leads, and N carries out what was committed then
- g3 the id of the last state, and a later one for the new state
- g4 validated on N's own schema; rows for the difference, stamped with the new state's time
- g5 the command {last state, new state, rows} is sent to the leader; one that was dropped is sent again, unchanged
- g6 committed, and carried out on N
- g8 N's history has the new state: done. It has not: another change came first, and all is done again, ten times at most

on every node, one command after the other:

- g7 a command that starts from another state than the last one changes nothing
- g7a its rows to disk, then the schema is loaded from them
- g7b the new state into the history; a crash before it has the command carried out again, which changes nothing more

The **data path** needs no leader: a replica without a table or a column that a coordinator ahead of it writes to fetches
the definition from there. Without a majority no schema changes, and rows are written and read as before.

Changes of the ring are `schemaquake.clusters.simulated.models.topology_coordinator`; founders hold their ranges from the start.

A **node that takes its own place** has an empty disk and ids of its own. The one that had its address stays in the ring and, without a vote, in the
group, under a name that no node has (`former_of`), until its place is taken over. The new one gossips from when its board has it as another node, and
refuses requests of earlier versions, which are for the dead one.

**Recovery** when a majority is lost for good, by an operator (the documentation's "Manual Recovery Procedure"): all who are left are
stopped, told to give their group up, and started again, first the one that has carried out most of the log:

- y1 the group, its members and its log are forgotten on the disk; tables and history stay
- y2 the one that has most founds a group of itself, whose log begins after what its tables have
- y3 another asks for its new group, of which it becomes a member; it takes the founder's tables over
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from schemaquake.clusters.simulated.data import DataPath, RowRead, RowWrite
from schemaquake.clusters.simulated.faces import Answers, Node, Steps
from schemaquake.clusters.simulated.messages import Failure, Message
from schemaquake.clusters.simulated.models.invariants import Breaches, GroupInvariants, RingInvariants
from schemaquake.clusters.simulated.models.raft import ENTRIES_MOST, Log, Machine, Member, Raft, Role
from schemaquake.clusters.simulated.models.requests import Requests
from schemaquake.clusters.simulated.models.row_invariants import RowInvariants, looked_at
from schemaquake.clusters.simulated.models.serving import misses_drop, serve_schema, server_of, time_id
from schemaquake.clusters.simulated.models.steps import numbered
from schemaquake.clusters.simulated.models.tables import answer_from_tables, founding_topology
from schemaquake.clusters.simulated.models.topology_coordinator import Board, Coordinator, after_order
from schemaquake.clusters.simulated.models.topology_coordinator import Order as TopologyOrder
from schemaquake.clusters.simulated.processes import Died, Sleep, Sync
from schemaquake.clusters.simulated.ring import Ring
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.changes import Making, carry_out
from schemaquake.clusters.simulated.schema.definitions import Table
from schemaquake.clusters.simulated.schema.loading import load_keyspaces
from schemaquake.clusters.simulated.schema.mutations import Writing, difference
from schemaquake.clusters.simulated.schema.rows import RowChange
from schemaquake.clusters.simulated.topology import SeatState, Topology, former_of, is_former, present_of
from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.units import MS, S

if TYPE_CHECKING:
    from schemaquake.harness.model.steps import Invoke
    from schemaquake.harness.model.topology import TopologyVerb

__all__ = ["Group0"]

_CHANGE_LIMIT_NS: Final = 10 * S
"""A minute on real servers (`group0_raft_op_timeout_in_ms`), whose clients gave up long before."""
_ASK_NS: Final = 1 * S
_CATCHES_UP_NS: Final = 5 * S
"""The time for which a node that starts waits for a majority before it serves."""
_TRIES: Final = 10
_SNAPSHOT_EVERY: Final = 24
_TRAILING: Final = 8
_RECOVERED: Final = 1
"""The entry that the log of a group begins after that was founded anew: it stands for all that the tables have."""
_SEEDS: Final = 2

D1, D2, D3, D4, D5 = numbered("group0/start", "d1", "d2", "d3", "d4", "d5")
G1, G2, G3, G4, G5, G6, G8 = numbered("group0/change", "g1", "g2", "g3", "g4", "g5", "g6", "g8")
G7, G7A, G7B = numbered("group0/apply", "g7", "g7a", "g7b")
Y1, Y2, Y3 = numbered("group0/recovery", "y1", "y2", "y3")

_TOPOLOGY_COLUMNS: Final = ("host_id", "node_state", "version", "fence_version", "transition_state")
_EMPTY: Final = UUID(int=0)
"""The version of a schema without a change."""
_WRITING: Final = Writing(keyspace_row=False, whole_row=False)

_ABOUT_MEMBERS: Final = frozenset({"discover", "propose", "barrier", "member", "banned"})


class Command(NamedTuple):
    """A guarded schema change."""

    last_us: int
    """The time of the state that it starts from."""
    new_us: int
    new_id: str
    """The new state: a time UUID, 32 hex digits."""
    rows: tuple[RowChange, ...]
    text: str


class _State(NamedTuple):
    """One row of `system.group0_history`."""

    new_us: int
    id: str
    text: str


class _Image(NamedTuple):
    """The tables of a node, which another takes over instead of commands."""

    rows: list[RowChange]
    history: dict[str, _State]
    board: Board | None
    begun: str
    """As `_Kept.begun`."""


@dataclass(slots=True)
class _Kept:
    """A node's group 0 on its disk."""

    log: Log = field(default_factory=Log)
    server_id: str = ""
    known: dict[str, str] = field(default_factory=dict)
    """Server ids of the nodes that it has heard of, by name, in order."""
    history: dict[str, _State] = field(default_factory=dict)
    """By id, oldest first."""
    last_us: int = 0
    begun: str = ""
    """The state whose rows the tables have, or a part of them, while the history has not got it; empty: none."""
    board: Board | None = None
    """The topology; None: none was looked at yet."""
    since: int = 0
    """The version of the topology from which on a node that takes its own place is meant by what is sent to its address."""
    image: _Image | None = None
    """What a snapshot of a design with `short-snapshot` has."""
    given_up: str = ""
    """The group that an operator has given up; empty: none."""
    founder: str = ""
    """The node that is to found the group anew; empty: nothing is to be recovered."""


@dataclass(slots=True)
class _Life:
    """A node's group 0 in its memory."""

    role: Role
    applying: bool = False
    is_silent: bool = False
    """True while the others take the node for dead, because its address was that of one that died."""
    has_left: bool = False
    """True when the ring has no place for the node any more, by its own wish."""
    is_banned: bool = False
    """True when another node told it that the group is without it."""
    flights: dict[int, int] = field(default_factory=dict)
    """By version of the topology the number of requests for rows that the node coordinates now."""


class Group0:
    """The design of ScyllaDB from 5.2 on."""

    describes_memory: bool = True
    steps = (
        tuple(step.name for step in (D1, D2, D3, D4, D5, G1, G2, G3, G4, G5, G6, G8, G7, G7A, G7B, Y1, Y2, Y3))
        + Raft.steps
        + Coordinator.steps
    )
    recovery: Final = (Y1.name, Y2.name, Y3.name)
    """Steps that only the recovery from a lost majority comes to."""
    verbs = Coordinator.verbs
    takes_own_place = True
    keeps_host_id = False
    steps_shown = ("PREPARE", "START", "MID")

    def __init__(
        self,
        ring: Ring,
        flaws: frozenset[str],
        *,
        snapshot_every: int = _SNAPSHOT_EVERY,
        trailing: int = _TRAILING,
        entries_most: int = ENTRIES_MOST,
    ) -> None:
        """`snapshot_every` is the number of entries between two snapshots, `trailing` how many of them the log keeps then.

        `entries_most` is the number of entries that a leader sends at a time.
        """
        self.flaws = flaws
        self._snapshot_every = snapshot_every
        self._trailing = trailing
        # Not counted anew by another ring: barriers wait for requests of an earlier version.
        data = DataPath(
            ring,
            rechecks=False,
            writes_pending="old-replica-only" not in flaws,
            misses_drop=None if "unordered-rows" in flaws else misses_drop,
        )
        self._requests = Requests(data, self.change)
        self._coordinator = Coordinator(self, flaws)
        self._rows: RowInvariants | None = None
        self._watched: Mapping[str, Node] = {}
        """The nodes that an observer sees, by name; empty: nobody looks."""
        self._raft = Raft(
            Machine(
                role=_role,
                server_id=_server_id,
                committed=self._committed,
                image=self._image,
                take_over=self._take_over,
            ),
            flaws,
            entries_most=entries_most,
        )

    def watch(self, nodes: Sequence[Node]) -> None:
        """Have what must hold of all nodes at once be looked at (`schemaquake.clusters.simulated.models.invariants`)."""
        breaches = Breaches()
        self._watched = {node.name: node for node in nodes}
        self._raft.invariants = GroupInvariants(nodes, _log_of, breaches)
        self._rows = RowInvariants(nodes, breaches)
        self._coordinator.invariants = RingInvariants(
            nodes, self._version_of, self.flights, breaches, under_way=self._rows.under_way
        )
        self._requests.data.invariants = self._coordinator.streams.invariants = self._rows

    # ── a change ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def serve(self, node: Node, request: Invoke) -> Steps:
        """Carry out a client's request."""
        if request.f in SCHEMA_CHANGES:
            return self._requests.serve(node, request)
        return self._counted(node, self._requests.serve(node, request))

    def _counted(self, node: Node, steps: Steps) -> Steps:
        """Carry out a request for rows, which barriers wait for."""
        ring, flights = server_of(node).ring, _life(node).flights
        version = 0 if ring is None else ring.version
        flights[version] = flights.get(version, 0) + 1
        try:
            return (yield from steps)
        finally:
            flights[version] -= 1

    def change(self, node: Node, f: str, value: Mapping[str, Any]) -> Steps:
        """Carry out one schema change; returns whether there was anything to change. Raises ServerSaid."""
        steps = self._change(node, f, value)
        if self._raft.invariants is not None:
            steps = self._look_at_change(node, f, value, steps, self._raft.invariants)
        return server_of(node).staged("group0", steps)

    def _look_at_change(
        self, node: Node, f: str, value: Mapping[str, Any], steps: Steps, invariants: GroupInvariants
    ) -> Steps:
        """Carry a change out, and have it looked at whether the node's history has it when it is acknowledged. Raises ServerSaid."""
        before = set(_kept(node).history)
        has_changed = yield from steps
        if has_changed:
            texts = [state.text for state in _kept(node).history.values() if state.id not in before]
            invariants.acknowledged(node, _describe(f, value), texts)
        return has_changed

    def _change(self, node: Node, f: str, value: Mapping[str, Any]) -> Steps:
        kept = _kept(node)
        ends_ns = node.kernel.heap.now_ns + _CHANGE_LIMIT_NS
        log, invariants = kept.log, self._raft.invariants
        floor = (log.group, 0 if invariants is None else invariants.floor(log))
        yield G1
        for _ in range(_TRIES):
            since_ns = node.kernel.heap.now_ns
            yield G2
            if not (yield from self._read_barrier(node, ends_ns)):
                raise ServerSaid("ServerError", "raft operation [read_barrier] timed out, there is no raft quorum")
            yield G3
            if invariants is not None:
                invariants.begun(node, kept.log, _role(node).applied, floor, since_ns)
            last_us = kept.last_us
            new_us = max(node.clock.schema_stamp_us(), last_us + 1)
            yield G4
            before = server_of(node).memory
            after = carry_out(before, f, value, Making(lambda *_: time_id(node), new_us))
            if after is before:
                return False
            rows = tuple(difference(before, after, new_us, _WRITING))
            command = Command(last_us, new_us, time_id(node, new_us), rows, _describe(f, value))
            if (yield from self._add(node, command, ends_ns)):
                return True
        raise ServerSaid("ServerError", "Failed to apply group 0 change due to concurrent modification")

    def _add(self, node: Node, command: Command, ends_ns: int) -> Steps:
        """Have a command committed and carried out here; returns whether it changed the state. Raises ServerSaid."""
        kept, role = _kept(node), _role(node)
        while node.kernel.heap.now_ns < ends_ns:
            yield G5
            at = yield from self._propose(node, command)
            if at is None:
                if "retry-new-id" in self.flaws and role.leader not in {"", node.name}:
                    return False
                yield role.moved.within(100 * MS)
                continue
            yield G6
            term, index = at
            while role.applied < index and node.kernel.heap.now_ns < ends_ns:
                if index <= role.log.last and role.log.term_at(index) not in {term, -1}:
                    break
                yield role.moved.within(200 * MS)
            if role.applied < index:
                continue
            if index > role.log.index and role.log.term_at(index) != term and command.new_id not in kept.history:
                continue  # another leader's entry stands there: the command was dropped
            yield G8
            return command.new_id in kept.history
        raise ServerSaid("ServerError", "raft operation [add_entry] timed out, there is no raft quorum")

    def _propose(self, node: Node, command: Any) -> Steps:
        """Ask the leader to append a command; returns its (term, index), None if no leader has answered."""
        leader = _role(node).leader
        if leader == node.name:
            return (yield from self._raft.propose(node, command))
        if not leader:
            return None
        answers: Answers = yield server_of(node).ask([leader], "propose", command, need=1, limit_ns=_ASK_NS)
        return answers.answers.get(leader)

    def _read_barrier(self, node: Node, ends_ns: int) -> Steps:
        """Carry out all that was committed before; returns whether a leader with a majority was found in time."""
        role = _role(node)
        while node.kernel.heap.now_ns < ends_ns:
            index = None
            if role.leader == node.name:
                index = yield from self._raft.confirm(node)
            elif role.leader:
                leader = role.leader
                answers: Answers = yield server_of(node).ask([leader], "barrier", None, need=1, limit_ns=2 * _ASK_NS)
                index = answers.answers.get(leader)
            while index is not None and role.applied < index and node.kernel.heap.now_ns < ends_ns:
                yield role.moved.within(200 * MS)
            if index is not None and role.applied >= index:
                self._look_at_barrier(node, index)
                return True
            yield role.moved.within(100 * MS)
        return False

    def _look_at_barrier(self, node: Node, index: int) -> None:
        if self._raft.invariants is not None:
            self._raft.invariants.passed(node, _role(node).applied, index)

    def catch_up(self, node: Node) -> Steps:
        """Wait until the node has applied all that was committed before; returns whether it has."""
        return self._read_barrier(node, node.kernel.heap.now_ns + _CHANGE_LIMIT_NS)

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _committed(self, node: Node) -> None:
        """Begin to carry out what was committed, unless that is under way."""
        life = _life(node)
        if not life.applying:
            life.applying = True
            server_of(node).begin("apply", self._carry_out_all(node))

    def _carry_out_all(self, node: Node) -> Steps:
        life, role = _life(node), _role(node)
        while role.applied < role.commit:
            entry = role.log.entry(role.applied + 1)
            assert entry.number == role.applied + 1
            if self._raft.invariants is not None:
                self._raft.invariants.applies(node, role.log, entry.number)
            if isinstance(entry.command, Command):
                yield G7
                yield from self._carry_out(node, entry.command)
            elif isinstance(entry.command, TopologyOrder) and entry.number > self.board(node).at:
                yield G7
                yield Sync()
                before = self.board(node).topology
                self._pin(node, after_order(self.board(node), entry.command, entry.number))
                self._look_at_order(node, entry.number, entry.command, before)
            role.applied = max(role.applied, entry.number)  # a snapshot may have come meanwhile
            role.moved.notify()
            if role.applied - role.log.index > self._snapshot_every + self._trailing:
                self._take_snapshot(node, role)
        life.applying = False
        self._coordinator.look(node)

    def _look_at_order(self, node: Node, number: int, order: TopologyOrder, before: Topology) -> None:
        if self._coordinator.invariants is not None:
            step = order.value if order.kind == "advance" else None
            after = self.board(node).topology
            self._coordinator.invariants.ordered(node, _kept(node).log.group, number, before, after, step)

    def _carry_out(self, node: Node, command: Command) -> Steps:
        kept = _kept(node)
        if not self._is_next(node, command):
            return
        is_remembered = "history-first" in self.flaws
        if is_remembered:
            yield G7B
            yield Sync()
            self._remember(node, command)
        yield G7A
        yield Sync()
        if not (is_remembered or self._is_next(node, command)):
            return  # a snapshot that has it came meanwhile
        kept.begun = command.new_id
        node.disk.schema.merge(command.rows)
        self._load(node, command)
        yield G7B
        yield Sync()
        if not (is_remembered or self._is_next(node, command)):
            return
        if self._raft.invariants is not None:
            self._raft.invariants.follows(node, kept.last_us, command.new_us)
        self._remember(node, command)
        if self._raft.invariants is not None:
            tables = (node.disk.schema.version(), kept.last_us)
            self._raft.invariants.carried_out(node, command.new_id, tables)
            self._raft.invariants.serves(node, {row.keyspace: None for row in command.rows})

    def _is_next(self, node: Node, command: Command) -> bool:
        """Return whether a command starts from the node's last state, and has not been carried out."""
        kept = _kept(node)
        starts_here = command.last_us == kept.last_us or "no-guard" in self.flaws
        return starts_here and command.new_id not in kept.history

    def _remember(self, node: Node, command: Command) -> None:
        kept = _kept(node)
        kept.history[command.new_id] = _State(command.new_us, command.new_id, command.text)
        kept.last_us = max(kept.last_us, command.new_us)
        kept.begun = ""
        server_of(node).epoch = kept.last_us

    def _load(self, node: Node, command: Command) -> None:
        """Serve what the rows have; rows that cannot be loaded leave the memory as it was."""
        touched = sorted({row.keyspace for row in command.rows})
        try:
            schema = load_keyspaces(node.disk.schema, touched, server_of(node).memory, partial(_warn, node))
        except ServerSaid as said:
            node.console.error("group0", "group0_state_machine.cc:227", "Failed to apply a schema change", said.stack)
            return
        serve_schema(node, schema)
        server_of(node).version = UUID(hex=command.new_id)

    # ── snapshots ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take_snapshot(self, node: Node, role: Role) -> None:
        """Forget entries that the tables have, but for the last few."""
        kept = _kept(node)
        index = role.applied - self._trailing
        if "short-snapshot" in self.flaws:
            index = role.applied
            kept.image = kept.image or self._present(node)
        role.log.forget(index)
        if self._raft.invariants is not None:
            self._raft.invariants.begins_after(node, role.log)

    def _present(self, node: Node) -> _Image:
        return _Image(node.disk.schema.changes(), dict(_kept(node).history), _kept(node).board, _kept(node).begun)

    def _image(self, node: Node) -> _Image:
        """Return the node's present tables; in a design with `short-snapshot` those of its first snapshot."""
        return _kept(node).image or self._present(node)

    def _take_over(self, node: Node, image: _Image, index: int) -> None:
        """Take another node's tables over. Rows merge; states that this node alone has stay in its history."""
        kept = _kept(node)
        node.disk.schema.merge(image.rows)
        kept.begun = "" if kept.begun in image.history else kept.begun
        # A command that either has begun to carry out is in its tables, and not in its history yet.
        is_ahead = kept.history.keys() <= image.history.keys() and not (kept.begun or image.begun)
        states = sorted({**kept.history, **image.history}.values())
        kept.history = {state.id: state for state in states}
        if states:
            kept.last_us = states[-1].new_us
            self._load(node, Command(0, 0, states[-1].id, tuple(image.rows), ""))
            server_of(node).epoch = kept.last_us
            if self._raft.invariants is not None:
                self._raft.invariants.serves(node, {row.keyspace: None for row in image.rows})
                if is_ahead:
                    tables = (node.disk.schema.version(), kept.last_us)
                    self._raft.invariants.carried_out(node, states[-1].id, tables)
        if image.board is not None and image.board.at > self.board(node).at:
            self._pin(node, image.board)
        if self._coordinator.invariants is not None and "short-snapshot" not in self.flaws:
            self._coordinator.invariants.taken_over(node, kept.log.group, index, self.board(node).at)

    # ── the topology ─────────────────────────────────────────────────────────────────────────────────────────────────

    def reshape(self, node: Node, verb: TopologyVerb, *, about: str | None, argument: str | None) -> Steps:
        """Carry out a change of the ring that an operator asked this node for. Raises ServerSaid."""
        steps = self._coordinator.reshape(node, verb, about=about, argument=argument)
        yield from looked_at(self._rows, node, verb, steps)
        if verb == "decommission":
            life = _life(node)
            life.has_left = True
            role = _role(node)
            ends_ns = node.kernel.heap.now_ns + _CHANGE_LIMIT_NS
            while (
                not life.is_banned
                and any(member.name == node.name for member in role.members.now)
                and node.kernel.heap.now_ns < ends_ns
            ):
                yield Sleep(100 * MS)
            self._raft.resign(node)
            server_of(node).phase = "left"
            server_of(node).gossip.end()

    def recovers_from(self, nodes: Sequence[Node]) -> str:
        """Return the node that has carried out most of the log, the first of several."""
        chosen = min if "wrong-founder" in self.flaws else max
        most = chosen(_role(node).commit for node in nodes)
        return next(node.name for node in nodes if _role(node).commit == most)

    def give_up_group(self, node: Node, founder: str) -> None:
        """Have a stopped node forget its group at its next start, and join the one that `founder` founds."""
        kept = _kept(node)
        kept.given_up, kept.founder = kept.log.group, founder
        if self._rows is not None:
            self._rows.forget()

    def founder(self, node: Node) -> str:
        """Return the node that is to found the group of a node anew; empty: its group is not given up."""
        return _kept(node).founder

    def is_member(self, node: Node, name: str) -> bool:
        """Return whether a node is in the group, as another one knows it."""
        return name in _role(node).members.names

    def board(self, node: Node) -> Board:
        """Return the topology that a node has; that of the founders at first."""
        kept = _kept(node)
        if kept.board is None:
            kept.board = Board(replace(founding_topology(node), version=1))
        return kept.board

    def _version_of(self, node: Node) -> int:
        """Return the version of the topology on a node's disk."""
        kept = node.disk.state
        return 0 if kept is None or kept.board is None else kept.board.topology.version

    def _pin(self, node: Node, board: Board) -> None:
        _kept(node).board = board
        server_of(node).ring = board.topology
        if _life(node).is_silent and _has_own_place(node, board.topology):
            _life(node).is_silent = False
            _kept(node).since = board.topology.version
            server_of(node).gossip.begin()
        if self._rows is not None:
            self._rows.turned(node, board.topology, board.topology.version)

    def is_leader(self, node: Node) -> bool:
        """Return whether a node leads."""
        return _role(node).is_leader

    def hears(self, node: Node, name: str) -> bool:
        """Return whether a node takes another for alive."""
        return self._raft.hears(node, name)

    def append(self, node: Node, order: TopologyOrder) -> Steps:
        """Append an order on the leader and carry it out there; returns whether that was done."""
        role = _role(node)
        at = yield from self._raft.propose(node, order)
        while at is not None and role.is_leader and self.board(node).at < at[1]:
            yield role.moved.within(200 * MS)
        return at is not None and self.board(node).at >= at[1]

    def send(self, node: Node, order: TopologyOrder) -> Steps:
        """Have the leader append an order, from any node; returns whether a leader took it."""
        return (yield from self._propose(node, order)) is not None

    def dismiss(self, node: Node, name: str) -> Steps:
        """Have the group go on without a member, on the leader; returns whether it does."""
        role = _role(node)
        for _ in range(_TRIES):
            others = tuple(member for member in role.members.now if member.name != name)
            if len(others) == len(role.members.now) or not role.is_leader:
                return True
            if role.members.before or role.named_at > role.commit:
                yield Sleep(100 * MS)
                continue
            if (yield from self._raft.propose_members(node, others)) is not None:
                return True
        return False

    def flights(self, node: Node) -> Mapping[int, int]:
        """Return how many requests of each version of the topology a node coordinates now."""
        return _life(node).flights

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, node: Node, message: Message) -> Steps | None:
        """Handle a message of the group, or one of the data path from a coordinator that may be ahead."""
        if message.kind in Raft.kinds:
            if self._is_banned(node, message.sender):
                server_of(node).send(message.sender, "banned", node.host_ids[message.sender])
                return None
            return self._raft.receive(node, message)
        if message.kind in _ABOUT_MEMBERS:
            return self._receive_about_members(node, message)
        if message.kind in Coordinator.kinds:
            return self._coordinator.receive(node, message)
        if message.kind == "definition":
            server_of(node).answer(message, server_of(node).table(message.body))
            return None
        if self._is_stale(node, message.body.version):
            server_of(node).answer(message, Failure("stale topology exception"))
            return None
        if message.epoch > server_of(node).epoch and self._lacks(node, message.body):
            return self._fetch_first(node, message)
        self._look_at_request(node, message)
        self._requests.data.receive(node, message)
        return None

    def _receive_about_members(self, node: Node, message: Message) -> Steps | None:
        """Handle a message by which nodes find the group, ask its leader, or learn that they are out of it."""
        match message.kind:
            case "discover":
                return self._meet(node, message)
            case "propose":
                return self._answer_with(node, message, self._raft.propose(node, message.body))
            case "barrier":
                return self._answer_with(node, message, self._raft.confirm(node))
            case "member":
                return self._answer_with(node, message, self._admit(node, message.body))
        if message.body == node.host_ids[node.name]:
            self._leave(node, message.sender)
        return None

    def _is_banned(self, node: Node, name: str) -> bool:
        """Return whether neither the ring nor the group has a place any more for the node at an address."""
        seat = self.board(node).topology.seats.get(name)
        is_gone = seat is not None and seat.state in {"left", "replaced"} and seat.host_id == node.host_ids[name]
        return is_gone and name not in _role(node).members.names

    def _leave(self, node: Node, name: str) -> None:
        """End a node that learns from another one that it is banned; one that has left, and waits to be let go, waits no longer."""
        if _life(node).has_left:
            _life(node).is_banned = True
        elif server_of(node).phase == "serving":
            node.end_itself(f"received notification of being banned from the cluster from {name}, terminating.")

    def _is_stale(self, node: Node, version: int) -> bool:
        """Return whether a request by that version of the topology is refused: by the fence, or because it is for who had this address before."""
        if _life(node).is_silent or version < _kept(node).since:
            return True
        return version < self.board(node).fence and "no-fence" not in self.flaws

    def _look_at_request(self, node: Node, message: Message) -> None:
        """Have a request looked at whose table, or a column, this node lacks and its coordinator, which has a later state, does not."""
        if self._raft.invariants is None:
            return
        own = server_of(node).table(message.body.table_id)
        columns = message.body.cells if isinstance(message.body, RowWrite) else ()
        if own is not None and not any(
            name and name not in own.columns and name not in own.dropped for name in columns
        ):
            return
        sender = self._watched[message.sender]
        known = None if sender.server is None else sender.server.table(message.body.table_id)
        if known is not None and _kept(sender).last_us > _kept(node).last_us:
            self._raft.invariants.lacks(node, message.sender, message.body.table_id)

    def _answer_with(self, node: Node, message: Message, steps: Steps) -> Steps:
        result = yield from steps
        server_of(node).answer(message, Failure("not the leader") if result is None else result)

    def _lacks(self, node: Node, body: RowWrite | RowRead) -> bool:
        """Return whether this node does not know the table, or a column, of a row operation."""
        table = server_of(node).table(body.table_id)
        cells: Iterable[str] = body.cells if isinstance(body, RowWrite) else ()
        return table is None or any(name and name not in table.columns for name in cells)

    def _fetch_first(self, node: Node, message: Message) -> Steps:
        """Fetch a table's definition from the coordinator that writes to it; the schema stays as it is."""
        if self._raft.invariants is not None:
            self._raft.invariants.asks(node, message.sender, message.epoch, _kept(node).last_us)
        answers: Answers = yield server_of(node).ask(
            [message.sender], "definition", message.body.table_id, need=1, limit_ns=_ASK_NS
        )
        table = answers.answers.get(message.sender)
        if table is not None and self._lacks(node, message.body):
            server_of(node).learn(table)
            self._look_at_learnt(node, message, table)
        self._requests.data.receive(node, message)

    def _look_at_learnt(self, node: Node, message: Message, table: Table) -> None:
        """Have it looked at whether this node takes rows of a table as its coordinator has defined it."""
        own = server_of(node).table(table.id)
        if self._raft.invariants is not None and (own is None or own.columns != table.columns):
            self._raft.invariants.lacks(node, message.sender, table.id)

    def gossip(self, node: Node) -> Mapping[str, Any]:
        """Return the node's schema version."""
        return {"version": str(server_of(node).version)}

    def heard(self, node: Node, name: str, state: Mapping[str, Any]) -> None:
        """Take no notice: schema versions travel by the log."""

    # ── a start ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def boot(self, node: Node) -> Steps:
        """Read the disk and go on with the group that is on it; at the first start find or found one."""
        server = server_of(node)
        takes_own_place = node.joins is not None and node.joins.replaces == node.name
        if node.disk.state is None:
            node.disk.state = _Kept()
        kept = _kept(node)
        if self._gives_up(node):
            yield Y1
            yield Sync()
            kept.log, kept.image = Log(), None
            kept.board = self.board(node)._replace(at=0)
        server.state = _Life(Raft.new_role(kept.log))
        node.clock.is_trusted = "wall-clock" in self.flaws
        yield D1
        yield Sleep(node.kernel.cost_ns(400 * MS, 800 * MS))
        if not kept.server_id:
            yield Sync()
            kept.server_id = time_id(node)
            names = sorted((node.name, *node.peers))
            kept.known = dict.fromkeys(names[:_SEEDS], "") | {node.name: kept.server_id}
        try:
            schema = load_keyspaces(node.disk.schema, sorted(node.disk.schema.keyspaces), {}, partial(_warn, node))
        except ServerSaid as said:
            raise Died(said.stack) from None
        serve_schema(node, schema)
        server.epoch = kept.last_us
        server.version = UUID(hex=max(kept.history.values()).id) if kept.history else _EMPTY
        server.ring = self.board(node).topology
        self._begin_gossip(node, takes_own_place=takes_own_place)
        self._raft.begin(node)
        while not kept.log.group:
            if kept.founder == node.name:
                yield from self._found_anew(node)
            else:
                yield from self._discover(node)
        if node.joins is not None and not _has_own_place(node, self.board(node).topology, "normal"):
            yield from self._become_a_member(node, votes=False)
            try:
                yield from self._coordinator.join(node)
            except ServerSaid as said:
                raise Died(said.stack) from None
        yield from self._become_a_member(node)
        kept.founder = ""
        if takes_own_place:
            node.joins = None
        yield from self._await_the_rest(node)
        self._look_at_end_of_start(node)

    def _await_the_rest(self, node: Node) -> Steps:
        """Have clients wait for what was committed while the node was away; without a majority it serves what it has."""
        log, invariants = _kept(node).log, self._raft.invariants
        floor = (log.group, 0 if invariants is None else invariants.floor(log))
        ends_ns = node.kernel.heap.now_ns + _CATCHES_UP_NS
        yield from self._read_barrier(node, ends_ns)
        if invariants is not None:
            invariants.started(node, log, _role(node).applied, floor, ends_ns)

    def _look_at_end_of_start(self, node: Node) -> None:
        if self._raft.invariants is not None:
            self._raft.invariants.goes_up(node)

    def _gives_up(self, node: Node) -> bool:
        """Return whether a node that starts is to forget the group on its disk."""
        kept = _kept(node)
        is_given_up = kept.given_up != "" and kept.log.group == kept.given_up
        return is_given_up and ("group-kept" not in self.flaws or kept.founder == node.name)

    def _begin_gossip(self, node: Node, *, takes_own_place: bool) -> None:
        """Begin to gossip; a node that takes its own place only listens until the others know that it is another one."""
        has_place = not takes_own_place or _has_own_place(node, self.board(node).topology)
        if has_place or "own-place-at-once" in self.flaws:
            server_of(node).gossip.begin()
        else:
            _life(node).is_silent = True
            server_of(node).gossip.listen()

    def _found_anew(self, node: Node) -> Steps:
        """Found a group of this node alone, in place of one whose majority is lost."""
        yield Y2
        yield Sync()
        self._pin(node, self.board(node)._replace(at=_RECOVERED))
        self._raft.found(node, time_id(node), _kept(node).server_id, after=_RECOVERED)

    def _discover(self, node: Node) -> Steps:
        """Ask all whom this node knows, once; found a group if it is this node's turn."""
        kept = _kept(node)
        yield Y3 if kept.founder else D2
        others = [name for name in kept.known if name != node.name]
        answers: Answers = yield server_of(node).ask(
            others, "discover", (kept.server_id, dict(kept.known)), need=len(others), limit_ns=_ASK_NS
        )
        before = dict(kept.known)
        for group, known in answers.answers.values():
            self._write_down(node, known)
            if group and group != kept.given_up and not kept.log.group:
                yield D3
                kept.log.group = group
        if kept.log.group or kept.founder:
            return
        ids = kept.known.values()
        is_closed = answers.enough and kept.known == before
        if is_closed and all(each >= kept.server_id for each in ids if each):
            yield D4
            yield Sync()
            if not kept.log.group:
                self._raft.found(node, time_id(node), kept.server_id)
            return
        yield Sleep(node.kernel.cost_ns(100 * MS, 200 * MS))

    def _meet(self, node: Node, message: Message) -> Steps:
        """Write down who asks and whom it knows, then answer with the group or with whom this node knows."""
        kept = _kept(node)
        server_id, known = message.body
        if "two-founders" not in self.flaws:
            yield Sync()
            self._write_down(node, {**known, message.sender: server_id})
        server_of(node).answer(message, (kept.log.group, dict(kept.known)))

    def _write_down(self, node: Node, known: Mapping[str, str]) -> None:
        kept = _kept(node)
        for name, server_id in known.items():
            kept.known[name] = server_id or kept.known.get(name, "")

    def _become_a_member(self, node: Node, *, votes: bool = True) -> Steps:
        """Ask the leader to be a member, then for the vote; at later starts a node is one already."""
        role = _role(node)
        asked = dict.fromkeys((role.leader, *_kept(node).known))

        def is_member() -> bool:
            return role.members.id_of(node.name) == _kept(node).server_id

        while not (is_member() and (role.members.votes(node.name) or not votes)):
            yield D5
            member = Member(node.name, _kept(node).server_id, votes=votes and is_member())
            for name in [role.leader] if role.leader else [each for each in asked if each not in {"", node.name}]:
                yield server_of(node).ask([name], "member", member, need=1, limit_ns=_ASK_NS)
            yield role.moved.within(node.kernel.cost_ns(100 * MS, 200 * MS))

    def _admit(self, node: Node, member: Member) -> Steps:
        """Make a node a member, or a member that votes; returns where the change is in the log, None if that cannot be now."""
        role = _role(node)
        others = tuple(each for each in role.members.now if each.name != member.name)
        if not role.is_leader or role.members.before or role.named_at > role.commit:
            return None
        seat = self.board(node).topology.seats.get(member.name)
        if seat is not None and seat.state in {"left", "replaced"}:
            return None  # it does not come back
        if member in role.members.now:
            return role.term, role.named_at
        known = role.members.id_of(member.name)
        if known not in {"", member.id}:
            # Another node had this address. It votes no more before the new one is a member: what it voted, and had, is lost.
            former = Member(former_of(member.name), known, votes=False)
            kept = () if former.name in role.members.names else (former,)
            yield from self._raft.propose_members(node, tuple(sorted((*others, *kept))))
            return None
        return (yield from self._raft.propose_members(node, tuple(sorted((*others, member)))))

    def _host_id(self, node: Node, name: str) -> str:
        """Return a member's id; one that began to join, lost its disk and never had a place keeps the id for its next attempt."""
        seats = self.board(node).topology.seats
        present = present_of(name)
        if is_former(name) and (name in seats or present in seats):
            return seats[name if name in seats else present].host_id
        return node.host_ids[present]

    # ── what is shown ────────────────────────────────────────────────────────────────────────────────────────────────

    def answer(self, node: Node, text: str) -> Iterable[Mapping[str, Any]]:
        """Answer a statement by which the node's schema and its part of the group are read."""
        kept, role = _kept(node), _role(node)
        if "system.group0_history" in text:
            newest = sorted(kept.history.values(), reverse=True)[: 1 if text.endswith("LIMIT 1") else None]
            return [{"state_id": UUID(hex=each.id), "description": each.text} for each in newest]
        if "system.scylla_local" in text:
            facts = {
                "raft_group0_id": str(UUID(hex=kept.log.group)),
                "group0_upgrade_state": "use_post_raft_procedures",
            }
            return [{"key": key, "value": value} for key, value in facts.items()]
        if "system.raft_state" in text:
            return [
                {
                    "disposition": "CURRENT",
                    "server_id": UUID(self._host_id(node, member.name)),
                    "can_vote": member.votes,
                }
                for member in role.members.now
            ]
        if "table_name = 'topology'" in text:
            return [{"column_name": name} for name in _TOPOLOGY_COLUMNS]
        board = self.board(node)
        if "FROM system.topology" in text:
            return [
                {
                    "host_id": seat.host_id,
                    "node_state": seat.state,
                    "version": board.topology.version,
                    "fence_version": board.fence,
                    "transition_state": board.transition,
                }
                for seat in board.topology.seats.values()
            ]
        return answer_from_tables(node, text, board.topology)


def _describe(f: str, value: Mapping[str, Any]) -> str:
    """Return the text by which the history names a change."""
    return f'CQL DDL statement: "{statement(f, value)}"'


def _warn(node: Node, text: str) -> None:
    node.console.warn("group0", "view.cc:1", text)


def _log_of(node: Node) -> Log | None:
    return None if node.disk.state is None else _kept(node).log


def _kept(node: Node) -> _Kept:
    kept: _Kept = node.disk.state
    return kept


def _server_id(node: Node) -> str:
    return _kept(node).server_id


def _has_own_place(node: Node, topology: Topology, state: SeatState | None = None) -> bool:
    """Return whether a node's place in a ring, in this state or (None) any, is its own, and not that of who had its address before."""
    seat = topology.seats.get(node.name)
    return seat is not None and seat.host_id == node.host_ids[node.name] and state in {None, seat.state}


def _life(node: Node) -> _Life:
    life: _Life = server_of(node).state
    return life


def _role(node: Node) -> Role:
    return _life(node).role
