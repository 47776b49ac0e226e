"""Metadata log: every schema change is an entry of one log, and every node carries the entries out in their order.

Cassandra 6.0 (CEP-21; `tcm/ClusterMetadataService.java`, `tcm/log/LocalLog.java`). The cluster metadata service (CMS), the
first three nodes that registered, appends entries; an epoch is the number of one. Table ids are epochs, too.

**Commit** from a node N:

- t1 a dry run on N's own metadata; refusals and no-ops end here
- t3 N is in the CMS, or sends the change to a member, then to another, until the deadline
- t4 N enacts up to the committed epoch

on a member:

- k1 entries that it has but did not enact are enacted
- k3 the change is carried out on its metadata; k4 if that is refused, or the epoch was taken, it reads the log and tries again
- k5 the entry is appended at the next epoch: a majority of the CMS must answer
- k6 its own log; k7 replicated to all who live, not repeated; k8 answered with the entries that N lacks

**Follower** on every node, one entry after the other:

- l1 what comes is buffered
- l2 the next epoch, or a snapshot above the own one
- l3 carried out; one that is refused here, though it was committed, ends the follower for good
- l4 the entry to disk
- l5 the copy of the schema in `system_schema`, stamped with the local wall clock
- l6 published: memory, version, epoch
- l7 every hundredth epoch (`-O snapshots=often`: every eighth) is a snapshot, and what is before it is forgotten
- l8 after a DROP, when what was dropped is flushed, the commit log that has its rows is released

Epochs are on every message; a node that hears of a higher one fetches what it lacks from the sender, then from the CMS. A
**start** replays the log on disk, copies what was not copied, and asks the CMS for the rest. A node that takes its own place has lost what it
had promised and accepted with its disk. It waits for a member that has read the log with a majority of the others (`RemoteProcessor.fetchLogAndWait`),
and has no part in what is decided until they take it for alive.

`append` is a linearizable register an epoch, kept by a majority: it answers applied, taken, or, if too few members answer,
not at all; an entry left so may still be completed by a later proposer. With `-O log=paxos` the members decide each epoch by messages
(`schemaquake.clusters.simulated.models.paxos_log`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from schemaquake.clusters.simulated.data import DataPath
from schemaquake.clusters.simulated.faces import Answers, Node, Server, Steps
from schemaquake.clusters.simulated.messages import Failure, Message
from schemaquake.clusters.simulated.models.commit_rules import CommitRules
from schemaquake.clusters.simulated.models.invariants import Breaches, LogInvariants
from schemaquake.clusters.simulated.models.paxos_log import PaxosLog, Slot
from schemaquake.clusters.simulated.models.requests import Requests
from schemaquake.clusters.simulated.models.row_invariants import RowInvariants, looked_at
from schemaquake.clusters.simulated.models.sequences import ADVANCE, CANCEL, PREPARE, Sequences, after_sequence
from schemaquake.clusters.simulated.models.serving import misses_drop, serve_schema
from schemaquake.clusters.simulated.models.steps import numbered
from schemaquake.clusters.simulated.models.tables import answer_from_tables
from schemaquake.clusters.simulated.processes import Died, Sleep, Sync
from schemaquake.clusters.simulated.ring import Ring, even_tokens, token_of
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.changes import Making, carry_out
from schemaquake.clusters.simulated.schema.definitions import Schema, tables_of
from schemaquake.clusters.simulated.schema.mutations import Writing, difference
from schemaquake.clusters.simulated.topology import Topology
from schemaquake.harness.units import MS, US, S

if TYPE_CHECKING:
    from schemaquake.harness.model.steps import Invoke
    from schemaquake.harness.model.topology import TopologyVerb

__all__ = ["MetadataLog"]

_DDL_LIMIT_NS: Final = 10 * S
"""The limit for the commit of one schema change."""
_MEMBER_LIMIT_NS: Final = 3 * S
"""The limit for the answer of one node, to a commit or a fetch."""
_APPEND_LIMIT_NS: Final = 2 * S
"""The limit for the votes of a majority."""
_READ_LIMIT_NS: Final = 5 * S
"""The limit for the answer of a member that reads the log with a majority."""
_READS_AGAIN_NS: Final = 1 * S
_DECIDING: Final = frozenset({"vote", "prepare", "accept"})
"""Messages whose answers are counted when an epoch is decided."""
_COMMIT_TRIES: Final = 10
"""How often a member tries to append one entry."""
_REGISTER: Final = "REGISTER"
_RECONFIGURE: Final = "RECONFIGURE_CMS"
_HELD_UP_NS: Final = 4 * S
"""The time for which a rule that says `pause` or `delay` holds a commit up."""
_NEXT_STEP: Final = {"PREPARE": "START", "START": "MID", "MID": "FINISH"}
_SEQUENCE: Final = frozenset({PREPARE, ADVANCE, CANCEL})
OF_PAXOS: Final = frozenset({"old-ballot", "own-value"})
"""Flaws of a log whose epochs are decided by Paxos."""
_SERVING: Final = frozenset({"normal", "leaving", "moving"})

T1, T3, T4 = numbered("6.0/commit", "t1", "t3", "t4")
K1, K3, K4, K5, K6, K7, K8 = numbered("6.0/commit", "k1", "k3", "k4", "k5", "k6", "k7", "k8")
L1, L2, L3, L4, L5, L6, L7, L8 = numbered("6.0/follow", "l1", "l2", "l3", "l4", "l5", "l6", "l7", "l8")
B1, B2, B3 = numbered("6.0/boot", "b1", "b2", "b3")

_WRITING: Final = Writing()
_REPLAY_REFUSED: Final = (
    "org.apache.cassandra.db.commitlog.CommitLogReadHandler$CommitLogReadException: Unexpected error deserializing mutation. "
    "Exception follows: CoordinatorBehindException: Couldn't find table with id {table}"
)
"""What ends a start that finds rows of a dropped table in the commit log."""


class Entry(NamedTuple):
    """One entry of the log."""

    epoch: int
    id: tuple[str, int]
    """The node that asked for it, and the number of its request."""
    f: str
    """A schema change's, or that of a change of the topology."""
    value: Any
    now_us: int
    """The coordinator's wall clock, which a dropped column remembers."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The cluster's metadata at an epoch."""

    epoch: int = 0
    schema: Schema = field(default_factory=dict)
    registered: tuple[str, ...] = ()
    changed: Mapping[str, int] = field(default_factory=dict)
    """Table id → the epoch of its last change."""
    topology: Topology = field(default_factory=Topology)
    members_most: int = 3
    """The number of members that the metadata service is to have."""
    has_locks: bool = True
    """False in a design in which sequences may overlap."""

    @property
    def cms(self) -> tuple[str, ...]:
        """The members of the metadata service: the first who registered and are still there."""
        seats = self.topology.seats
        return tuple(name for name in self.registered if seats[name].state in _SERVING)[: self.members_most]

    def after(self, entry: Entry) -> Metadata:
        """Return the metadata after an entry. Raises ServerSaid for one that is refused."""
        if entry.f == _REGISTER:
            return self._after_registration(entry)
        if entry.f == _RECONFIGURE:
            return replace(self, epoch=entry.epoch, members_most=entry.value)
        if entry.f in _SEQUENCE:
            topology = after_sequence(self.topology, entry.epoch, entry.f, entry.value, has_locks=self.has_locks)
            return replace(self, epoch=entry.epoch, topology=topology)
        if entry.f == "alter-keyspace" and self.topology.moves:
            # No check whether the replication changes: the model alters nothing else of a keyspace.
            raise ServerSaid("ConfigurationException", "Can't alter replication while the ring is changing")
        made = 0

        def new_id(_keyspace: str, _name: str) -> str:
            nonlocal made
            made += 1
            return f"{entry.epoch:016x}{0x8000000000000000 + made:016x}"

        schema = carry_out(self.schema, entry.f, entry.value, Making(new_id, entry.now_us))
        before = {table.id: table for table in tables_of(self.schema)}
        # Carried out again, a change makes another object of the same definition; servers compare definitions, too.
        altered = [table for table in tables_of(schema) if before.get(table.id) is not table]
        changed = {table.id: entry.epoch for table in altered if before.get(table.id) != table}
        return replace(
            self, epoch=entry.epoch, schema=schema, changed={**self.changed, **changed} if changed else self.changed
        )

    def _after_registration(self, entry: Entry) -> Metadata:
        """Return the metadata with a further node; a founder takes its tokens at once."""
        name, host_id, tokens, location = entry.value
        known = self.topology
        topology = (
            known.settled(entry.epoch, name, host_id, tokens, location)
            if tokens
            else known.registered(entry.epoch, name, host_id, location)
        )
        return replace(self, epoch=entry.epoch, registered=(*self.registered, name), topology=topology)


@dataclass(slots=True)
class _Life:
    """The part of one life of a node that has to do with the log."""

    metadata: Metadata
    buffer: dict[int, Entry] = field(default_factory=dict)
    snapshot: Metadata | None = None
    """A snapshot that was received and not yet taken over."""
    fetching: bool = False
    """True while what gossip told of is fetched, so that no second fetch begins."""
    is_stopped: bool = False
    """True once an entry was refused here that was committed: none after it is carried out."""
    is_paused: bool = False
    """True while an operator has this node commit nothing that its own clients ask for."""
    is_outside: bool = False
    """True while the node takes its own place: it votes for nothing, as others take it for dead."""


@dataclass(slots=True)
class _Kept:
    """The log on a node's disk."""

    base: Metadata = field(default_factory=Metadata)
    """The snapshot that it begins with."""
    entries: list[Entry] = field(default_factory=list)
    copied: int = 0
    """The epoch up to which `system_schema` is a copy."""
    enacted: dict[tuple[str, int], int] = field(default_factory=dict)
    """The epochs of entries that it has carried out, by their ids: 6.0 keeps them in its table of the log beside its snapshots."""
    unreleased: str = ""
    """The id of a dropped table whose rows are still in the commit log; empty: there is none."""
    slots: dict[int, Slot] = field(default_factory=dict)
    """Epochs that this node had a part in deciding, where they are decided by Paxos."""


class _Register:
    """The log itself: one entry an epoch, decided once."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.left: Entry | None = None
        """A proposal for the next epoch that too few members answered: a later one may complete it."""
        self.uses = 0
        """Counts how often a node read or wrote it: it is the one thing that nodes share."""

    def since(self, epoch: int) -> list[Entry]:
        """Return the entries after an epoch."""
        self.uses += 1
        return self.entries[epoch:]

    def append(self, entry: Entry) -> bool:
        """Append an entry if its epoch is the next one; False: the epoch is taken."""
        self.uses += 1
        left, self.left = self.left, None
        if left is not None and left.epoch == len(self.entries) + 1 and left.id != entry.id:
            self.entries.append(left)
        if entry.epoch != len(self.entries) + 1:
            return False
        self.entries.append(entry)
        return True


class MetadataLog:
    """The design of 6.0."""

    describes_memory: bool = True
    steps = (
        tuple(
            step.name for step in (T1, T3, T4, K1, K3, K4, K5, K6, K7, K8, L1, L2, L3, L4, L5, L6, L7, L8, B1, B2, B3)
        )
        + Sequences.steps
        + PaxosLog.steps
    )
    verbs: Final = Sequences.verbs | {"reconfigure", "pause-commits", "resume-commits"}
    takes_own_place = True
    keeps_host_id = True
    steps_shown = ("PREPARE", "START", "MID")

    def __init__(
        self,
        ring: Ring,
        flaws: frozenset[str],
        rules: CommitRules | None = None,
        *,
        by_paxos: bool = False,
        snapshot_every: int = 100,
    ) -> None:
        """`rules` say which commits are paused, refused and so on. `by_paxos`: epochs are decided by messages, not by a register.

        `snapshot_every` is the number of epochs between two snapshots.
        """
        self.flaws = flaws
        self._paxos = PaxosLog(lambda node: _kept(node).slots, flaws) if by_paxos or flaws & OF_PAXOS else None
        self._rules = rules or CommitRules()
        self._requested: dict[str, int] = {}
        """Node → the number of entries that it has asked for. Not on its disk, so that a node which lost it repeats no id."""
        self._held: list[Entry] = []
        """Entries that a rule had reordered: they are sent after the next one."""
        data = DataPath(
            ring,
            late_cells_break="write-meets-drop" in flaws,
            rechecks="old-replica-only" not in flaws,
            writes_pending="old-replica-only" not in flaws,
            misses_drop=None if "unordered-rows" in flaws else misses_drop,
        )
        self._requests = Requests(data, self.change)
        self._register = _Register()
        self._snapshot_every = snapshot_every
        self._sequences = Sequences(self, flaws)
        self._none = Metadata(has_locks="no-lock" not in flaws)
        self._invariants: LogInvariants | None = None
        self._rows: RowInvariants | None = None
        self._watched: Sequence[Node] = ()
        """All nodes, for those who look at what must hold of them."""

    @property
    def shared_uses(self) -> int:
        """The number of uses of the log itself, which is the one thing that nodes share."""
        return self._register.uses

    def watch(self, nodes: Sequence[Node]) -> None:
        """Have what must hold of all nodes at once be looked at (`schemaquake.clusters.simulated.models.invariants`)."""
        breaches = Breaches()
        self._invariants = self._sequences.invariants = LogInvariants(breaches)
        if self._paxos is not None:
            self._paxos.invariants = self._invariants
        self._requests.data.invariants = self._rows = RowInvariants(nodes, breaches)
        self._sequences.streams.invariants = self._rows
        self._watched = nodes

    # ── a change ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def serve(self, node: Node, request: Invoke) -> Steps:
        """Carry out a client's request."""
        return self._requests.serve(node, request)

    def change(self, node: Node, f: str, value: Mapping[str, Any]) -> Steps:
        """Carry out one schema change; returns whether there was anything to change. Raises ServerSaid."""
        life = _life(node)
        yield T1
        now_us = node.clock.schema_stamp_us()
        dry = life.metadata.after(Entry(life.metadata.epoch + 1, ("", 0), f, value, now_us))
        if dry.schema is life.metadata.schema:
            return False
        yield T3
        entry = Entry(0, self._new_entry_id(node), f, value, now_us)
        committed = yield from self._commit(node, entry, node.kernel.heap.now_ns + _DDL_LIMIT_NS)
        yield T4
        if life.metadata.epoch < committed:
            yield from self._catch_up(node, life.metadata.cms)
        if life.metadata.epoch < committed:
            raise ServerSaid("InvalidRequest", "Timed out while waiting for the follower to enact the epoch")
        if self._invariants is not None:
            self._invariants.acknowledged(node, entry.id, life.metadata.epoch)
        return True

    # ── changes of the ring ──────────────────────────────────────────────────────────────────────────────────────────

    def reshape(self, node: Node, verb: TopologyVerb, *, about: str | None, argument: str | None) -> Steps:
        """Carry out a change of the ring, or of the metadata service, that an operator asked this node for. Raises ServerSaid."""
        if verb in {"pause-commits", "resume-commits"}:
            return self._pause(node, is_paused=verb == "pause-commits")
        if verb == "reconfigure":
            return self.commit(node, _RECONFIGURE, int(argument or 3), limit_ns=_DDL_LIMIT_NS)
        steps = self._sequences.reshape(node, verb, about=about, argument=argument)
        return looked_at(self._rows, node, verb, steps)

    def _pause(self, node: Node, *, is_paused: bool) -> Steps:
        yield Sleep(node.kernel.cost_ns(1 * MS, 20 * MS))
        _life(node).is_paused = is_paused

    def topology(self, node: Node) -> Topology:
        """Return the topology that a node knows."""
        return _life(node).metadata.topology

    def epoch(self, node: Node) -> int:
        """Return the epoch that a node has enacted."""
        return _life(node).metadata.epoch

    def commit(self, node: Node, f: str, value: Any, *, limit_ns: int) -> Steps:
        """Commit an entry that is no schema change, and enact it on the node. Raises ServerSaid."""
        life = _life(node)
        entry = Entry(0, self._new_entry_id(node), f, value, 0)
        committed = yield from self._commit(node, entry, node.kernel.heap.now_ns + limit_ns)
        while life.metadata.epoch < committed:
            yield from self._catch_up(node, life.metadata.cms)
            yield Sleep(100 * MS)

    def _new_entry_id(self, node: Node) -> tuple[str, int]:
        """Return the id of a node's next request."""
        self._requested[node.name] = self._requested.get(node.name, 0) + 1
        return node.name, self._requested[node.name]

    def know(self, node: Node, epoch: int, sender: str) -> Steps:
        """Enact the log's entries up to the epoch that `sender` showed, if they can be fetched."""
        life = _life(node)
        if life.metadata.epoch < epoch:
            yield from self._catch_up(node, (sender, *life.metadata.cms))

    def _commit(self, node: Node, entry: Entry, deadline_ns: int) -> Steps:
        """Have the CMS commit an entry, and enact what it answers; returns the entry's epoch. Raises ServerSaid."""
        life = _life(node)
        server = _server(node)
        if life.is_paused:
            raise ServerSaid("ServerError", "java.lang.IllegalStateException: Commits are paused, not trying to commit")
        attempts = 0
        while node.kernel.heap.now_ns < deadline_ns:
            cms = life.metadata.cms or self._founders(node)
            member = node.name if node.name in cms else cms[attempts % len(cms)]
            attempts += 1
            self._look_at_turn(entry, member, cms)
            if member == node.name:
                committed = yield from self._commit_here(node, entry, deadline_ns)
                if committed is not None:
                    return committed
            elif server.gossip.alive(member) or not life.metadata.cms:
                question = entry, life.metadata.epoch, node.kernel.heap.now_ns + _MEMBER_LIMIT_NS
                answers: Answers = yield server.ask([member], "commit", question, need=1, limit_ns=_MEMBER_LIMIT_NS)
                if answers.enough:
                    said, epoch, entries, snapshot = answers.answers[member]
                    if said is not None:
                        raise said
                    yield from self._follow(node, entries, snapshot)
                    return epoch
            yield Sleep(node.kernel.cost_ns(50 * MS, 500 * MS))
        if self._invariants is not None:
            self._invariants.gives_up(node, entry.id)
        raise ServerSaid("InvalidRequest", f"Could not perform commit after {attempts} attempts. Time remaining: 0ms")

    def _look_at_turn(self, entry: Entry, member: str, cms: Sequence[str]) -> None:
        if self._invariants is not None:
            self._invariants.turns_to(entry.id, member, cms)

    def _commit_here(self, node: Node, entry: Entry, deadline_ns: int) -> Steps:  # noqa: C901 - the steps k1 to k7, in their order
        """Commit an entry on a member; returns its epoch. Raises ServerSaid for one that is refused.

        Returns None if the CMS has no majority, if the epoch was taken at every try, or if nobody waits for it any more: whoever
        asked may have been refused by another member since, and told its client so.
        """
        life = _life(node)
        for _ in range(_COMMIT_TRIES):
            if node.kernel.heap.now_ns >= deadline_ns:
                return None
            yield K1
            yield from self._follow(node, (), None)
            yield K3
            mine = self._committed(node, entry)
            is_mine = mine is not None and mine <= life.metadata.epoch
            if is_mine and not self.flaws & {"own-retry", "repeated-commit"}:
                return mine
            numbered_entry = entry._replace(epoch=life.metadata.epoch + 1)
            try:
                life.metadata.after(numbered_entry)
            except ServerSaid:
                before, since_ns = life.metadata.epoch, node.kernel.heap.now_ns
                yield K4
                yield from self._read_log(node)
                if life.metadata.epoch > before:
                    continue
                if is_mine and "own-retry" not in self.flaws:
                    return mine
                self._look_at_refusal(node, entry, before, since_ns)
                raise
            acts = self._rules.acts(self._kind(life.metadata, entry), entry.id)
            if "refuse" in acts:
                raise ServerSaid("InvalidRequest", "Commits are paused, not trying to commit")
            if "pause" in acts:
                yield Sleep(_HELD_UP_NS)
                deadline_ns += _HELD_UP_NS  # a rule may hold up a change for longer than one member is waited for
            yield K5
            is_appended = yield from self._append(node, numbered_entry)
            if is_appended is None:
                return None
            if not is_appended and "double-commit" not in self.flaws:
                yield K4
                yield Sleep(node.kernel.cost_ns(1 * MS, 500 * MS))
                yield from self._read_log(node)
                continue
            yield K6
            yield from self._follow(node, [numbered_entry], None)
            yield K7
            if "delay" in acts:
                yield Sleep(_HELD_UP_NS)
            self._replicate(node, numbered_entry, acts)
            if "drop" in acts:
                yield Sleep(node.kernel.cost_ns(_DDL_LIMIT_NS, 2 * _DDL_LIMIT_NS))
            return numbered_entry.epoch
        return None

    def _look_at_refusal(self, node: Node, entry: Entry, judged_at: int, since_ns: int) -> None:
        """Have a refusal looked at that a member came to at that epoch and moment."""
        if self._invariants is None:
            return
        metadata = _life(node).metadata
        try:
            metadata.after(entry._replace(epoch=metadata.epoch + 1))
        except ServerSaid:
            is_due = True
        else:
            is_due = False
        self._invariants.refuses(node, metadata.epoch, judged_at, since_ns, is_due=is_due)

    def _committed(self, node: Node, entry: Entry) -> int | None:
        """Return the epoch at which an entry is in the log already, as far as a member can know (`AbstractLocalProcessor.maybeFailure`).

        Another proposer may have completed it.
        """
        if self._paxos is not None:
            return _kept(node).enacted.get(entry.id)
        return next((each.epoch for each in self._register.since(0) if each.id == entry.id), None)

    def _read_log(self, node: Node) -> Steps:
        """Enact what the log has that this member lacks: by a serial read, or without a majority from the others' own logs.

        An entry whose proposer died before it told anybody is in the log alone.
        """
        life = _life(node)
        before = life.metadata.epoch
        yield from self._read_serially(node)
        if life.metadata.epoch == before:
            yield from self._catch_up(node, life.metadata.cms)

    def _read_serially(self, node: Node) -> Steps:
        """Enact what a majority of the members has decided; returns whether there was one."""
        before = _life(node).metadata.epoch
        if self._invariants is not None:
            self._invariants.reads(node)
        if self._paxos is not None:
            found, is_whole = yield from self._paxos.read(node, self._members(node), before)
            yield from self._follow(node, found, None)
            return is_whole
        is_whole = yield from self._reach_majority(node)
        if is_whole:
            yield from self._follow(node, self._register.since(before), None)
        return is_whole

    def _kind(self, metadata: Metadata, entry: Entry) -> str:
        """Return the kind of an entry as rules name it."""
        if entry.f == PREPARE:
            return f"PREPARE_{entry.value[0].upper()}"
        if entry.f in _SEQUENCE:
            move = metadata.topology.move_of(entry.value[0])
            step = "CANCEL" if entry.f == CANCEL else _NEXT_STEP.get(entry.value[1], "")
            return "" if move is None else f"{step}_{move.change.upper()}"
        return entry.f

    def _replicate(self, node: Node, entry: Entry, acts: Collection[str]) -> None:
        """Send an entry to all who live, unless a rule says otherwise."""
        if "reorder" in acts:
            self._held.append(entry)
            return
        batches = [] if "drop" in acts else [entry, entry] if "double" in acts else [entry]
        held, self._held = self._held, []
        server = _server(node)
        for each in (*batches, *held):
            for name in server.gossip.peers_alive():
                server.send(name, "replicate", [each])

    def _append(self, node: Node, entry: Entry) -> Steps:
        """Append an entry to the log itself; False: its epoch is taken, None: not known, there was no majority."""
        if self._paxos is not None:
            return (yield from self._paxos.append(node, self._members(node), entry))
        if not (yield from self._reach_majority(node)):
            self._leave(node, entry)
            return None
        if self._invariants is not None:
            self._invariants.appends(node, entry.epoch)
        return self._register.append(entry)

    def _members(self, node: Node) -> tuple[str, ...]:
        """Return the members of the metadata service as a node knows them; the first node is one before there are any."""
        return _life(node).metadata.cms or (node.name,)

    def _reach_majority(self, node: Node) -> Steps:
        """Ask the members for their vote; returns whether a majority answered."""
        members = self._members(node)
        answers: Answers = yield _server(node).ask(
            members, "vote", None, need=len(members) // 2 + 1, limit_ns=_APPEND_LIMIT_NS
        )
        if answers.enough and self._invariants is not None:
            self._invariants.reached(node, members, answers.answers)
        return answers.enough

    def _leave(self, node: Node, entry: Entry) -> None:
        """Leave a proposal behind that may have reached a member, for a later proposer to complete or not."""
        if entry.epoch == len(self._register.entries) + 1 and node.kernel.draws.stream("left").chance(0.25):
            self._register.left = entry

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, node: Node, message: Message) -> Steps | None:
        """Handle a message of the log, or one of the data path from a coordinator that may be ahead or behind."""
        server = _server(node)
        if _life(node).is_outside and message.kind in _DECIDING:
            return None
        match message.kind:
            case "vote":
                server.answer(message, True)
                return None
            case "read-log":
                return self._serve_log(node, message)
            case "commit":
                return self._serve_commit(node, message)
            case "replicate":
                return self._follow(node, message.body, None)
            case "fetch":
                server.answer(message, self._entries_since(node, message.body))
                return None
        if message.kind in Sequences.kinds:
            return self._sequences.receive(node, message)
        if self._paxos is not None and message.kind in PaxosLog.kinds:
            return self._paxos.receive(node, message)
        return self._check_epoch(node, message)

    def _serve_commit(self, node: Node, message: Message) -> Steps:
        """Commit a change for another node, and answer with the entries that it lacks, or with a refusal."""
        entry, epoch, deadline_ns = message.body
        said = None
        committed = None
        try:
            committed = yield from self._commit_here(node, entry, deadline_ns)
        except ServerSaid as refusal:
            said = refusal
        yield K8
        if committed is None and said is None:
            _server(node).answer(message, Failure("no majority"))
        else:
            _server(node).answer(message, (said, committed, *self._entries_since(node, epoch)))

    def _serve_log(self, node: Node, message: Message) -> Steps:
        """Read the log with a majority for a node that has lost its own, and answer with the entries that it lacks."""
        is_whole = node.name in _life(node).metadata.cms and (yield from self._read_serially(node))
        body = self._entries_since(node, message.body) if is_whole else Failure("no majority")
        _server(node).answer(message, body)

    def _check_epoch(self, node: Node, message: Message) -> Steps | None:
        """Carry a row operation out at its coordinator's epoch or later; refuse one whose table has changed since."""
        metadata = _life(node).metadata
        table_id = message.body.table_id
        if message.epoch > metadata.epoch and metadata.changed.get(table_id, 0) < message.epoch:
            return self._catch_up_first(node, message)
        if metadata.changed.get(table_id, 0) > message.epoch:
            if self._invariants is not None:
                self._invariants.refused(node, table_id, message.epoch, metadata.epoch)
            _server(node).answer(message, Failure("COORDINATOR_BEHIND"))
            return None
        if self._invariants is not None:
            self._invariants.defined(node, table_id, message.epoch, metadata.epoch)
            self._invariants.behind(node, table_id, message.epoch, metadata.epoch)
        self._check_placement(node, message)
        return None

    def _catch_up_first(self, node: Node, message: Message) -> Steps:
        is_alive, since_ns = _server(node).gossip.alive(message.sender), node.kernel.heap.now_ns
        before = _life(node).metadata.epoch
        yield from self._catch_up(node, (message.sender, *_life(node).metadata.cms))
        if self._invariants is not None and is_alive and "peer-gap" not in self.flaws:
            epochs = before, _life(node).metadata.epoch
            self._invariants.caught_up(node, message.sender, message.epoch, epochs, since_ns)
        self._check_placement(node, message)

    def _check_placement(self, node: Node, message: Message) -> None:
        """Refuse a row operation whose coordinator chose its replicas by placements that have changed since."""
        topology = _life(node).metadata.topology
        version = message.body.version
        if version < topology.version and "no-epoch-check" not in self.flaws:
            partition = message.body.key[0] if message.kind == "write" else message.body.partition
            if topology.changed_since(version, None if partition is None else token_of(partition)):
                _server(node).answer(message, Failure("COORDINATOR_BEHIND"))
                return
        if self._invariants is not None and version < topology.version:
            self._look_at_placement(node, message, topology, self._invariants)
        self._requests.data.receive(node, message)

    @staticmethod
    def _look_at_placement(node: Node, message: Message, topology: Topology, invariants: LogInvariants) -> None:
        partition = message.body.key[0] if message.kind == "write" else message.body.partition
        table = _server(node).table(message.body.table_id)
        if partition is not None and table is not None:
            factor = _server(node).memory[table.keyspace].replication_factor
            invariants.served(node, message.kind, token_of(partition), message.body.version, factor, topology)

    def gossip(self, node: Node) -> Mapping[str, Any]:
        """Return the node's epoch."""
        return {"epoch": _life(node).metadata.epoch}

    def heard(self, node: Node, name: str, state: Mapping[str, Any]) -> None:
        """Fetch what this node lacks from one that is ahead."""
        life = _life(node)
        if state["epoch"] > life.metadata.epoch and not life.fetching and _server(node).phase == "serving":
            life.fetching = True
            _server(node).begin("catch-up", self._fetch_once(node, name))

    def _fetch_once(self, node: Node, name: str) -> Steps:
        life = _life(node)
        yield from self._catch_up(node, (name, *life.metadata.cms))
        life.fetching = False

    # ── the local log ────────────────────────────────────────────────────────────────────────────────────────────────

    def _entries_since(self, node: Node, epoch: int) -> tuple[list[Entry], Metadata | None]:
        """Return the entries of this node's log after an epoch, or a snapshot for one that is far behind."""
        kept = _kept(node)
        metadata = _life(node).metadata
        if epoch < kept.base.epoch or metadata.epoch - epoch > self._snapshot_every:
            return [], None if "peer-gap" in self.flaws else metadata
        return kept.entries[epoch - kept.base.epoch :], None

    def _catch_up(self, node: Node, names: Sequence[str]) -> Steps:
        """Fetch the entries that this node lacks from the first of these that answers with any."""
        life = _life(node)
        for name in list(dict.fromkeys(names))[: 1 if "peer-gap" in self.flaws else None]:
            if name == node.name or not _server(node).gossip.alive(name):
                continue
            answers: Answers = yield _server(node).ask(
                [name], "fetch", life.metadata.epoch, need=1, limit_ns=_MEMBER_LIMIT_NS
            )
            if answers.enough:
                entries, snapshot = answers.answers[name]
                before = life.metadata.epoch
                yield from self._follow(node, entries, snapshot)
                if life.metadata.epoch > before:
                    return

    def _follow(self, node: Node, entries: Sequence[Entry], snapshot: Metadata | None) -> Steps:
        """Buffer entries, and enact those whose turn has come."""
        life = _life(node)
        if entries or snapshot is not None:
            yield L1
            for entry in entries:
                if entry.epoch > life.metadata.epoch:
                    life.buffer[entry.epoch] = entry
            if snapshot is not None and snapshot.epoch > life.metadata.epoch:
                life.snapshot = snapshot
        yield from _server(node).staged("log", self._enact(node))

    def _enact(self, node: Node) -> Steps:
        """Carry out what is buffered, l2 to l8, until the next epoch is missing or an entry is refused."""
        life, kept = _life(node), _kept(node)
        while not life.is_stopped:
            snapshot, life.snapshot = life.snapshot, None
            entry = life.buffer.pop(life.metadata.epoch + 1, None)
            if entry is None and "epoch-skipped" in self.flaws and life.buffer:
                entry = life.buffer.pop(min(life.buffer))
            if snapshot is not None and snapshot.epoch > life.metadata.epoch:
                yield L2
                yield Sync()
                kept.base, kept.entries = snapshot, []
                after = snapshot
            elif entry is not None:
                yield L2
                yield L3
                try:
                    after = self._carried_out(life.metadata, entry)
                except ServerSaid as said:
                    life.is_stopped = True
                    where = ("GlobalLogFollower", "LocalLog.java:540")
                    node.console.error(*where, f"Could not process the entry of epoch {entry.epoch}", said.stack)
                    return
                yield L4
                yield Sync()
                if self._invariants is not None:
                    self._invariants.enacted(node, entry.epoch, entry.id, life.metadata.epoch)
                kept.entries.append(entry)
                kept.enacted[entry.id] = entry.epoch
                kept.unreleased = _dropped_rows(node, life.metadata, after)
            else:
                life.buffer = {epoch: each for epoch, each in life.buffer.items() if epoch > life.metadata.epoch}
                return
            yield L5
            self._copy(node, life.metadata, after)
            yield L6
            self._publish(node, after)
            if kept.unreleased:
                # The rows of what was dropped are flushed before the commit log that has them is released.
                yield Sleep(node.kernel.cost_ns(20 * MS, 120 * MS))
                yield L8
                kept.unreleased = ""
            if after.epoch % self._snapshot_every == 0:
                yield L7
                kept.base, kept.entries = after, []
            if self._invariants is not None and "epoch-skipped" not in self.flaws:
                self._invariants.kept(node, kept.base.epoch, [each.epoch for each in kept.entries], after.epoch)

    def _carried_out(self, metadata: Metadata, entry: Entry) -> Metadata:
        """Return the metadata after an entry that was committed; where epochs are skipped, one may not fit any more."""
        try:
            return metadata.after(entry)
        except ServerSaid:
            if "epoch-skipped" not in self.flaws:
                raise
            return replace(metadata, epoch=entry.epoch)

    def _copy(self, node: Node, before: Metadata, after: Metadata) -> None:
        """Write the difference into the node's `system_schema`, which is a copy for clients."""
        stamp_us = node.clock.wall_ns() // US if "copy-clock" in self.flaws else after.epoch
        node.disk.schema.merge(difference(before.schema, after.schema, stamp_us, _WRITING))
        _kept(node).copied = after.epoch
        if self._invariants is not None and "copy-clock" not in self.flaws:
            names = [name for name, each in after.schema.items() if before.schema.get(name) is not each]
            self._invariants.copied(node, after, names)

    def _publish(self, node: Node, after: Metadata) -> None:
        """Serve this metadata from now on; files of tables that are gone are dropped."""
        server, life = _server(node), _life(node)
        if self._invariants is not None and self._rows is not None:
            self._invariants.published(node, after)
            self._rows.turned(node, after.topology, after.topology.version)
        serve_schema(node, after.schema)
        life.metadata = after
        server.epoch = after.epoch
        server.version = UUID(int=after.epoch)
        if after.topology is not server.ring:
            server.ring = self._view(node, after.topology)
        if self._invariants is not None:
            self._invariants.serves(node, after)

    def answer(self, node: Node, text: str) -> Iterable[Mapping[str, Any]]:
        """Answer a statement by which the node's schema is read."""
        if "FROM system.local_metadata_log" in text:
            return [
                {"epoch": entry.epoch, "kind": entry.f, "entry_id": f"{entry.id[0]}-{entry.id[1]}"}
                for entry in _kept(node).entries
            ]
        if "FROM system_views.cluster_metadata_log" in text:
            return [
                {"epoch": entry.epoch, "transformation": _render_transformation(entry)} for entry in _kept(node).entries
            ]
        return answer_from_tables(node, text, _life(node).metadata.topology)

    # ── a start ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def boot(self, node: Node) -> Steps:
        """Replay the log on disk, join gossip, register if this is the first start, and ask for what was missed."""
        server = _server(node)
        life = server.state = _Life(self._none)
        if node.disk.state is None:
            node.disk.state = _Kept()
        kept = _kept(node)
        takes_own_place = life.is_outside = node.joins is not None and node.joins.replaces == node.name
        node.clock.is_trusted = "wall-clock" in self.flaws
        yield B1
        yield Sleep(node.kernel.cost_ns(400 * MS, 800 * MS))
        if kept.unreleased and "replay-refused" in self.flaws:
            raise Died(_REPLAY_REFUSED.format(table=kept.unreleased))
        kept.unreleased = ""
        metadata = kept.base if kept.base.epoch else self._none
        self._replay(node, Metadata(), metadata)
        for entry in kept.entries:
            after = self._carried_out(metadata, entry)
            self._replay(node, metadata, after)
            metadata = after
        life.metadata = metadata
        if self._invariants is not None:
            self._look_at_start(node, metadata, self._invariants)
        self._publish(node, metadata)
        yield B2
        is_silent = takes_own_place and "own-place-at-once" not in self.flaws
        if is_silent:
            # To others it is dead until it has its rows; it has to know who lives before it can ask.
            server.gossip.listen()
        else:
            server.gossip.begin()
        yield Sleep(node.kernel.cost_ns(1_200 * MS, 1_400 * MS))
        if takes_own_place:
            yield from self._await_log(node)
        else:
            yield from self._ask_for_the_rest(node)
        yield B3
        if node.name not in life.metadata.registered and not takes_own_place:
            yield from self._sign_up(node)
        yield from self._sequences.join(node)
        if is_silent:
            server.gossip.begin()
        life.is_outside = False
        self._look_at_end_of_start(node, takes_own_place=takes_own_place)

    def _look_at_end_of_start(self, node: Node, *, takes_own_place: bool) -> None:
        if self._invariants is not None and "peer-gap" not in self.flaws:
            self._invariants.goes_up(node)
            self._invariants.decides(node, is_outside=_life(node).is_outside)
        if self._rows is not None and takes_own_place:
            self._rows.comes_back(node)

    def _look_at_start(self, node: Node, metadata: Metadata, invariants: LogInvariants) -> None:
        """Have it looked at what a node that starts has on its disk."""
        if _life(node).is_outside:
            invariants.begins_anew(node)
        invariants.booted(node, metadata.epoch)
        if "copy-clock" not in self.flaws:
            invariants.copied(node, metadata, list(metadata.schema))

    def _ask_for_the_rest(self, node: Node) -> Steps:
        """Fetch what a node that starts has missed from the members of the service that it knows."""
        life, since_ns = _life(node), node.kernel.heap.now_ns
        names = life.metadata.cms or self._founders(node)
        alive = _server(node).gossip.alive
        before = [
            (each, each.server, _life(each).metadata.epoch)
            for each in self._watched
            if each.name in names and each is not node and each.server is not None and alive(each.name)
        ]
        yield from self._catch_up(node, names)
        if self._invariants is not None and "peer-gap" not in self.flaws:
            # One that was killed since, or is taken for dead, may have answered nothing.
            epochs = {each.name: epoch for each, server, epoch in before if each.server is server and alive(each.name)}
            self._invariants.asked(node, life.metadata.epoch, epochs, since_ns)

    def _sign_up(self, node: Node) -> Steps:
        """Have a node registered at its first start."""
        place = node.founders.index(node.name) if node.name in node.founders else None
        tokens = () if place is None else (even_tokens(len(node.founders))[place],)
        value = (node.name, node.host_ids[node.name], tokens, node.location)
        yield from self.commit(node, _REGISTER, value, limit_ns=6 * _DDL_LIMIT_NS)

    def _await_log(self, node: Node) -> Steps:
        """Fetch the log from a member that has read it with a majority, as soon as there is one: without it, the node does not start."""
        life = _life(node)
        while True:
            # Whoever lives knows the members; what it has of the log may be too little.
            yield from self._catch_up(node, _server(node).gossip.peers_alive())
            for name in _server(node).gossip.living(life.metadata.cms):
                if name == node.name:
                    continue
                answers: Answers = yield _server(node).ask(
                    [name], "read-log", life.metadata.epoch, need=1, limit_ns=_READ_LIMIT_NS
                )
                if answers.enough:
                    yield from self._follow(node, *answers.answers[name])
                    if self._invariants is not None:
                        self._invariants.has_read(node, life.metadata.epoch)
                    return
            yield Sleep(_READS_AGAIN_NS)

    def _view(self, node: Node, topology: Topology) -> Topology:
        """Return the ring by which a node coordinates."""
        before = _server(node).ring
        is_odd = "other-placements" in self.flaws and node.name == max(topology.members, default="")
        if is_odd and isinstance(before, Topology) and len(before.members) >= len(node.founders):
            return before
        return topology

    def _replay(self, node: Node, before: Metadata, after: Metadata) -> None:
        """Copy what a crash between l4 and l5 left uncopied."""
        if after.epoch > _kept(node).copied:
            self._copy(node, before, after)

    def _founders(self, node: Node) -> tuple[str, ...]:
        """Return whom a node without metadata asks: the first node, which founds the CMS alone."""
        return (min((node.name, *node.peers)),)


def _dropped_rows(node: Node, before: Metadata, after: Metadata) -> str:
    """Return the id of a table with rows that a change dropped; empty if there is none."""
    now = {table.id for table in tables_of(after.schema)}
    for table in tables_of(before.schema):
        files = node.disk.tables.get(table.id)
        if table.id not in now and files is not None and files.partitions:
            return table.id
    return ""


def _render_transformation(entry: Entry) -> str:
    """Render an entry as the server's table of its log shows it."""
    asked = entry.value if isinstance(entry.value, Mapping) else {}
    names = ", ".join(str(asked[part]) for part in ("keyspace", "name") if asked.get(part) is not None)
    return f"AlterSchema{{schemaTransformation={entry.f} ({names})}}"


def _server(node: Node) -> Server:
    assert node.server is not None
    return node.server


def _life(node: Node) -> _Life:
    assert node.server is not None
    life: _Life = node.server.state
    return life


def _kept(node: Node) -> _Kept:
    kept: _Kept = node.disk.state
    return kept
