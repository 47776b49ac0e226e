"""Metadata log: every schema change is an entry of one log, and every node carries the entries out in their order.

Cassandra 6.0 (CEP-21; `tcm/ClusterMetadataService.java`, `tcm/log/LocalLog.java`). The cluster metadata service (CMS), the
first three nodes that registered, appends entries; an epoch is the number of one. Table ids are epochs, too.

**Commit** from a node N:

- t1 a dry run on N's own metadata; refusals and no-ops end here
- t3 N is in the CMS, or sends the change to a member, then to another, until the deadline
- t4 N enacts up to the committed epoch

on a member:

- k1 entries that it has but did not enact are enacted
- k3 the change is carried out on its metadata; k4 if that is refused, or the epoch was taken, it fetches the log and tries again
- k5 the entry is appended at the next epoch: a majority of the CMS must answer
- k6 its own log; k7 replicated to all who live, not repeated; k8 answered with the entries that N lacks

**Follower** on every node, one entry after the other:

- l1 what comes is buffered
- l2 the next epoch, or a snapshot above the own one
- l3 carried out
- l4 the entry to disk
- l5 the copy of the schema in `system_schema`, stamped with the local wall clock
- l6 published: memory, version, epoch
- l7 every hundredth epoch is a snapshot, and what is before it is forgotten
- l8 after a DROP, when what was dropped is flushed, the commit log that has its rows is released

Epochs are on every message; a node that hears of a higher one fetches what it lacks from the sender, then from the CMS. A
**start** replays the log on disk, copies what was not copied, and asks the CMS for the rest.

`append` is a linearizable register an epoch, kept by a majority: it answers applied, taken, or, if too few members answer,
not at all; an entry left so may still be completed by a later proposer. (Paxos itself is not modelled.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from schemaquake.clusters.simulated.faces import Answers, Node, Server, Steps
from schemaquake.clusters.simulated.messages import Failure, Message
from schemaquake.clusters.simulated.models.requests import Requests
from schemaquake.clusters.simulated.models.serving import answer_from_disk, serve_schema
from schemaquake.clusters.simulated.models.steps import numbered
from schemaquake.clusters.simulated.processes import Died, Sleep, Sync
from schemaquake.clusters.simulated.ring import Ring
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.changes import Making, carry_out
from schemaquake.clusters.simulated.schema.definitions import Schema, tables_of
from schemaquake.clusters.simulated.schema.mutations import Writing, difference

if TYPE_CHECKING:
    from schemaquake.harness.model.steps import Invoke

__all__ = ["MetadataLog"]

_MS: Final = 1_000_000
_S: Final = 1_000_000_000
_DDL_LIMIT_NS: Final = 10 * _S
_MEMBER_LIMIT_NS: Final = 3 * _S
_APPEND_LIMIT_NS: Final = 2 * _S
_TRIES: Final = 10
_SNAPSHOT_EVERY: Final = 100
_REGISTER: Final = "register"

T1, T3, T4 = numbered("6.0/commit", "t1", "t3", "t4")
K1, K3, K4, K5, K6, K7, K8 = numbered("6.0/commit", "k1", "k3", "k4", "k5", "k6", "k7", "k8")
L1, L2, L3, L4, L5, L6, L7, L8 = numbered("6.0/follow", "l1", "l2", "l3", "l4", "l5", "l6", "l7", "l8")
B1, B2, B3 = numbered("6.0/boot", "b1", "b2", "b3")

_WRITING: Final = Writing()
_REFUSED: Final = (
    "org.apache.cassandra.db.commitlog.CommitLogReadHandler$CommitLogReadException: Unexpected error deserializing mutation. "
    "Exception follows: CoordinatorBehindException: Couldn't find table with id {table}"
)


class Entry(NamedTuple):
    """One entry of the log."""

    epoch: int
    id: tuple[str, int]
    """The node that asked for it, and the number of its request."""
    f: str
    """A schema change's, or `register`."""
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
    """By table id the epoch of its last change."""

    @property
    def cms(self) -> tuple[str, ...]:
        """The members of the metadata service."""
        return self.registered[:3]

    def after(self, entry: Entry) -> Metadata:
        """Return the metadata after an entry. Raises ServerSaid for one that is refused."""
        if entry.f == _REGISTER:
            return replace(self, epoch=entry.epoch, registered=(*self.registered, entry.value))
        made = 0

        def new_id(_keyspace: str, _name: str) -> str:
            nonlocal made
            made += 1
            return f"{entry.epoch:016x}{0x8000000000000000 + made:016x}"

        schema = carry_out(self.schema, entry.f, entry.value, Making(new_id, entry.now_us))
        before = {table.id: table for table in tables_of(self.schema)}
        changed = {table.id: entry.epoch for table in tables_of(schema) if before.get(table.id) is not table}
        return replace(
            self, epoch=entry.epoch, schema=schema, changed={**self.changed, **changed} if changed else self.changed
        )


@dataclass(slots=True)
class _Life:
    """The part of one life of a node that has to do with the log."""

    metadata: Metadata = field(default_factory=Metadata)
    buffer: dict[int, Entry] = field(default_factory=dict)
    snapshot: Metadata | None = None
    """A snapshot that was received and not yet taken over."""
    requests: int = 0
    fetching: bool = False


@dataclass(slots=True)
class _Kept:
    """The log on a node's disk."""

    base: Metadata = field(default_factory=Metadata)
    """The snapshot that it begins with."""
    entries: list[Entry] = field(default_factory=list)
    copied: int = 0
    """The epoch up to which `system_schema` is a copy."""
    requests: int = 0
    unreleased: str = ""
    """The id of a dropped table whose rows are still in the commit log; empty: there is none."""


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
    steps = tuple(
        step.name for step in (T1, T3, T4, K1, K3, K4, K5, K6, K7, K8, L1, L2, L3, L4, L5, L6, L7, L8, B1, B2, B3)
    )

    def __init__(self, ring: Ring, flaws: frozenset[str]) -> None:
        self.flaws = flaws
        self._requests = Requests(ring, self.change, late_cells_break="write-meets-drop" in flaws)
        self._register = _Register()

    @property
    def shared_uses(self) -> int:
        """The number of uses of the log itself, which is the one thing that nodes share."""
        return self._register.uses

    # ── a change ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def serve(self, node: Node, request: Invoke) -> Steps:
        """Carry out a client's request."""
        return self._requests.serve(node, request)

    def change(self, node: Node, f: str, value: Mapping[str, Any]) -> Steps:
        """Carry out one schema change; returns whether there was anything to change. Raises ServerSaid."""
        life, kept = _life(node), _kept(node)
        yield T1
        now_us = node.clock.schema_stamp_us()
        dry = life.metadata.after(Entry(life.metadata.epoch + 1, ("", 0), f, value, now_us))
        if dry.schema is life.metadata.schema:
            return False
        yield T3
        kept.requests += 1
        entry = Entry(0, (node.name, kept.requests), f, value, now_us)
        committed = yield from self._commit(node, entry, node.kernel.heap.now_ns + _DDL_LIMIT_NS)
        yield T4
        if life.metadata.epoch < committed:
            yield from self._catch_up(node, life.metadata.cms)
        if life.metadata.epoch < committed:
            raise ServerSaid("InvalidRequest", "Timed out while waiting for the follower to enact the epoch")
        return True

    def _commit(self, node: Node, entry: Entry, deadline_ns: int) -> Steps:
        """Have the CMS commit an entry, and enact what it answers; returns the entry's epoch. Raises ServerSaid."""
        life = _life(node)
        server = _server(node)
        attempts = 0
        while node.kernel.heap.now_ns < deadline_ns:
            cms = life.metadata.cms or self._founders(node)
            member = cms[attempts % len(cms)]
            if node.name in cms:
                member = node.name
            attempts += 1
            if member == node.name:
                committed = yield from self._commit_here(node, entry)
                if committed is not None:
                    return committed
            elif server.gossip.alive(member) or not life.metadata.cms:
                answers: Answers = yield server.ask(
                    [member], "commit", (entry, life.metadata.epoch), need=1, limit_ns=_MEMBER_LIMIT_NS
                )
                if answers.enough:
                    said, epoch, entries, snapshot = answers.answers[member]
                    if said is not None:
                        raise said
                    yield from self._follow(node, entries, snapshot)
                    return epoch
            yield Sleep(node.kernel.cost_ns(50 * _MS, 500 * _MS))
        raise ServerSaid("InvalidRequest", f"Could not perform commit after {attempts} attempts. Time remaining: 0ms")

    def _commit_here(self, node: Node, entry: Entry) -> Steps:
        """Commit an entry on a member; returns its epoch, None if the CMS has no majority. Raises ServerSaid."""
        life = _life(node)
        for _ in range(_TRIES):
            yield K1
            yield from self._follow(node, (), None)
            yield K3
            mine = next((each.epoch for each in self._register.since(0) if each.id == entry.id), None)
            if mine is not None and "own-retry" not in self.flaws and mine <= life.metadata.epoch:
                return mine
            numbered_entry = entry._replace(epoch=life.metadata.epoch + 1)
            try:
                life.metadata.after(numbered_entry)
            except ServerSaid:
                yield K4
                before = life.metadata.epoch
                yield from self._catch_up(node, life.metadata.cms)
                if life.metadata.epoch == before:
                    raise
                continue
            yield K5
            if not (yield from self._reach_majority(node)):
                self._leave(node, numbered_entry)
                return None
            if not self._register.append(numbered_entry) and "double-commit" not in self.flaws:
                yield K4
                yield Sleep(node.kernel.cost_ns(1 * _MS, 500 * _MS))
                yield from self._catch_up(node, life.metadata.cms)
                continue
            yield K6
            yield from self._follow(node, [numbered_entry], None)
            yield K7
            server = _server(node)
            for name in server.gossip.peers_alive():
                server.send(name, "replicate", [numbered_entry])
            return numbered_entry.epoch
        return None

    def _reach_majority(self, node: Node) -> Steps:
        """Ask the members for their vote; returns whether a majority answered."""
        cms = _life(node).metadata.cms
        answers: Answers = yield _server(node).ask(
            cms or [node.name], "vote", None, need=len(cms) // 2 + 1, limit_ns=_APPEND_LIMIT_NS
        )
        return answers.enough

    def _leave(self, node: Node, entry: Entry) -> None:
        """Leave a proposal behind that may have reached a member, for a later proposer to complete or not."""
        if entry.epoch == len(self._register.entries) + 1 and node.kernel.draws.stream("left").chance(0.25):
            self._register.left = entry

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, node: Node, message: Message) -> Steps | None:
        """Handle a message of the log, or one of the data path from a coordinator that may be ahead or behind."""
        server = _server(node)
        match message.kind:
            case "vote":
                server.answer(message, True)
                return None
            case "commit":
                return self._serve_commit(node, message)
            case "replicate":
                return self._follow(node, message.body, None)
            case "fetch":
                server.answer(message, self._entries_since(node, message.body))
                return None
        return self._check_epoch(node, message)

    def _serve_commit(self, node: Node, message: Message) -> Steps:
        """Commit a change for another node, and answer with the entries that it lacks, or with a refusal."""
        entry, epoch = message.body
        said = None
        committed = None
        try:
            committed = yield from self._commit_here(node, entry)
        except ServerSaid as refusal:
            said = refusal
        yield K8
        if committed is None and said is None:
            _server(node).answer(message, Failure("no majority"))
        else:
            _server(node).answer(message, (said, committed, *self._entries_since(node, epoch)))

    def _check_epoch(self, node: Node, message: Message) -> Steps | None:
        """Carry a row operation out at its coordinator's epoch or later; refuse one whose table has changed since."""
        metadata = _life(node).metadata
        table_id = message.body.table_id
        if message.epoch > metadata.epoch and metadata.changed.get(table_id, 0) < message.epoch:
            return self._catch_up_first(node, message)
        if metadata.changed.get(table_id, 0) > message.epoch:
            _server(node).answer(message, Failure("COORDINATOR_BEHIND"))
            return None
        self._requests.data.receive(node, message)
        return None

    def _catch_up_first(self, node: Node, message: Message) -> Steps:
        yield from self._catch_up(node, (message.sender, *_life(node).metadata.cms))
        self._requests.data.receive(node, message)

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
        if epoch < kept.base.epoch or metadata.epoch - epoch > _SNAPSHOT_EVERY:
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
        life, kept = _life(node), _kept(node)
        while True:
            snapshot, life.snapshot = life.snapshot, None
            entry = life.buffer.pop(life.metadata.epoch + 1, None)
            if snapshot is not None and snapshot.epoch > life.metadata.epoch:
                yield L2
                yield Sync()
                kept.base, kept.entries = snapshot, []
                after = snapshot
            elif entry is not None:
                yield L2
                yield L3
                after = life.metadata.after(entry)
                yield L4
                yield Sync()
                kept.entries.append(entry)
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
                yield Sleep(node.kernel.cost_ns(20 * _MS, 120 * _MS))
                yield L8
                kept.unreleased = ""
            if after.epoch % _SNAPSHOT_EVERY == 0:
                yield L7
                kept.base, kept.entries = after, []

    def _copy(self, node: Node, before: Metadata, after: Metadata) -> None:
        """Write the difference into the node's `system_schema`, which is a copy for clients."""
        stamp_us = node.clock.wall_ns() // 1000 if "copy-clock" in self.flaws else after.epoch
        node.disk.schema.merge(difference(before.schema, after.schema, stamp_us, _WRITING))
        _kept(node).copied = after.epoch

    def _publish(self, node: Node, after: Metadata) -> None:
        """Serve this metadata from now on; files of tables that are gone are dropped."""
        server, life = _server(node), _life(node)
        serve_schema(node, after.schema)
        life.metadata = after
        server.epoch = after.epoch
        server.version = UUID(int=after.epoch)

    def answer(self, node: Node, text: str) -> Iterable[Mapping[str, Any]]:
        """Answer a statement by which the node's schema is read."""
        return answer_from_disk(node, text)

    # ── a start ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def boot(self, node: Node) -> Steps:
        """Replay the log on disk, join gossip, register if this is the first start, and ask for what was missed."""
        server = _server(node)
        life = server.state = _Life()
        if node.disk.state is None:
            node.disk.state = _Kept()
        kept = _kept(node)
        node.clock.is_trusted = "wall-clock" in self.flaws
        yield B1
        yield Sleep(node.kernel.cost_ns(400 * _MS, 800 * _MS))
        if kept.unreleased and "replay-refused" in self.flaws:
            raise Died(_REFUSED.format(table=kept.unreleased))
        kept.unreleased = ""
        metadata = kept.base
        self._replay(node, Metadata(), metadata)
        for entry in kept.entries:
            after = metadata.after(entry)
            self._replay(node, metadata, after)
            metadata = after
        life.metadata = metadata
        self._publish(node, metadata)
        yield B2
        server.gossip.begin()
        yield Sleep(node.kernel.cost_ns(1_200 * _MS, 1_400 * _MS))
        yield from self._catch_up(node, life.metadata.cms or self._founders(node))
        yield B3
        if node.name not in life.metadata.registered:
            kept.requests += 1
            entry = Entry(0, (node.name, kept.requests), _REGISTER, node.name, 0)
            committed = yield from self._commit(node, entry, node.kernel.heap.now_ns + 6 * _DDL_LIMIT_NS)
            while life.metadata.epoch < committed:
                yield from self._catch_up(node, life.metadata.cms)
                yield Sleep(100 * _MS)

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
