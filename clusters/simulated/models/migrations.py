"""Ordered migrations: every schema change is a migration that names the one before it, and is applied on top of that alone.

Cassandra 0.7 to 1.0 (seed 1, "Modifying Schema on a Live Cluster"; `db/migration/Migration.java`, `db/DefsTable.java`,
`service/MigrationManager.java`). A version is the time UUID of the last migration. Two coordinators that extend one
version make two chains, and a node that has applied one of them drops all of the other, for good.

**Change** on its coordinator:

- c1 the living nodes are asked for their versions; refused if they differ (0.7.3 and later), nodes that are down are ignored
- c2 a migration: its own time UUID, the version that it goes on top of, and the definition
- c3 applied here, it is announced to the living; c4 gossip tells the version

**Apply**, one migration at a time:

- a0 dropped unless this node's version is the one that it goes on top of
- a1 the files of what is dropped get a snapshot
- a2 the row of `Schema` for the new version: all definitions
- a3 the column of `Migrations`
- a4 the row "Last Migration" names the new version
- a5 the tables of definitions are flushed; until now all of it is in the commit log alone
- a6 directories, memory, version

**Announce** says which version a node has: of two nodes the one with the older version says so to the other, which pushes
all migrations since. A **start** reads "Last Migration" and its row of `Schema` from flushed files, then the commit log; a
migration that is in there alone is applied. What a crash leaves behind:

| after | at the next start |
|---|---|
| c2, a1 | nothing happened |
| a2, a3 | rows that nothing names; they are ignored |
| a4 | the migration is applied from the commit log; with `marker-in-log` (as the seed has it) the node does not start |
| a5 | applied; with `files-stay` the files of what was dropped are still there, and are found by the next of that name |
| a6 | applied |

Without the flaw `no-order` a free sequencer has each change go on top of all before it, and every living node applies it at
once; a node that was down catches up before it serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from schemaquake.clusters.simulated.data import DataPath
from schemaquake.clusters.simulated.disk import TableFiles
from schemaquake.clusters.simulated.faces import Answers, Node, Steps
from schemaquake.clusters.simulated.messages import Message
from schemaquake.clusters.simulated.models.definitions_sent_back import ROUND_TRIP_NS, Sent, definition_of, sent_in
from schemaquake.clusters.simulated.models.invariants import Breaches
from schemaquake.clusters.simulated.models.requests import Requests
from schemaquake.clusters.simulated.models.row_invariants import RowInvariants
from schemaquake.clusters.simulated.models.schema_invariants import ChainInvariants
from schemaquake.clusters.simulated.models.serving import serve_schema, server_of, time_id
from schemaquake.clusters.simulated.models.steps import numbered
from schemaquake.clusters.simulated.models.tables import answer_from_tables
from schemaquake.clusters.simulated.models.turns import Turns
from schemaquake.clusters.simulated.processes import Died, Sleep, Sync
from schemaquake.clusters.simulated.ring import Ring
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.changes import Making
from schemaquake.clusters.simulated.schema.definitions import Schema, Table, tables_of
from schemaquake.harness.units import MS

if TYPE_CHECKING:
    from schemaquake.harness.model.steps import Invoke

__all__ = ["Migrations"]

_AGREEMENT_NS: Final = 2_000 * MS
_PUSHED_MOST: Final = 100
_RECTIFIES_NS: Final = 2_000 * MS
_FIRST_ID: Final = 1000

C1, C2, C3, C4 = numbered("0.7/change", "c1", "c2", "c3", "c4")
A0, A1, A2, A3, A4, A5, A6 = numbered("0.7/apply", "a0", "a1", "a2", "a3", "a4", "a5", "a6")
B1, B2, B3 = numbered("0.7/boot", "b1", "b2", "b3")


class Migration(NamedTuple):
    """One schema change."""

    last: str
    """The version that it goes on top of, 32 hex digits; empty: none."""
    version: str
    sent: Sent


@dataclass(slots=True)
class _Kept:
    """The tables of definitions on a node's disk. What is in the commit log alone is in `unflushed`, too."""

    schemas: dict[str, Schema] = field(default_factory=dict)
    migrations: dict[str, Migration] = field(default_factory=dict)
    marker: str = ""
    unflushed: str = ""
    """The marker of flushed files, while the commit log has a newer one."""
    is_flushed: bool = True


@dataclass(slots=True)
class _Life:
    """A node's chain in its memory."""

    version: str = ""
    next_id: int = _FIRST_ID
    asked_ns: dict[str, int] = field(default_factory=dict)
    is_caught_up: bool = False


class Migrations:
    """The design of 0.7 to 1.0."""

    describes_memory: bool = False
    steps = tuple(step.name for step in (C1, C2, C3, C4, A0, A1, A2, A3, A4, A5, A6, B1, B2, B3))

    def __init__(self, ring: Ring, flaws: frozenset[str], *, by_turns: bool = False) -> None:
        """`by_turns`: without the flaw `no-order` changes come one after another, each by the protocol."""
        self.flaws = flaws
        # An old version is told from a later one where the times of versions follow the chain.
        has_chain = flaws.isdisjoint({"unordered-rows", "no-order", "no-agreement", "out-of-order", "uuid-clock"})
        misses_drop = self._misses_drop if has_chain else None
        self._requests = Requests(DataPath(ring, knows_columns=False, misses_drop=misses_drop), self.change)
        self._is_ordered = "no-order" not in flaws and not by_turns
        self._turns = Turns(gives_up_with="TimedOutException") if by_turns and "no-order" not in flaws else None
        self._chain: list[Migration] = []
        """The migrations that the sequencer has decided, in designs with one."""
        self._dropped: dict[tuple[str, str], int] = {}
        """By keyspace and name the time of the latest version by which a node has dropped a table."""
        self._nodes: dict[str, Node] = {}
        self._invariants: ChainInvariants | None = None

    def watch(self, nodes: Sequence[Node]) -> None:
        """Have what must hold of all nodes at once be looked at (`schemaquake.clusters.simulated.models.invariants`)."""
        breaches = Breaches()
        self._requests.data.invariants = RowInvariants(nodes, breaches, reuses_ids=True)
        self._invariants = None if self.flaws else ChainInvariants(breaches)

    # ── a change ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def serve(self, node: Node, request: Invoke) -> Steps:
        """Carry out a client's request."""
        return self._requests.serve(node, request)

    def change(self, node: Node, f: str, value: Mapping[str, Any]) -> Steps:
        """Carry out one schema change; returns whether there was anything to change. Raises ServerSaid."""
        steps = self._change(node, f, value)
        return steps if self._turns is None else self._turns.in_turn(node, steps)

    def _change(self, node: Node, f: str, value: Mapping[str, Any]) -> Steps:
        life = _life(node)
        while True:
            if self._is_ordered:
                self._take_all(node)
            on_top_of = life.version
            # The sequencer's version may be ahead of the memory for a moment.
            described = _kept(node).schemas.get(on_top_of, {}) if self._is_ordered else server_of(node).memory
            making = Making(lambda *_: self._new_id(node), node.clock.schema_stamp_us())
            sent = definition_of(described, f, value, making)
            if sent is None:
                return False
            if not sent.is_new and sent.definition is not None:
                yield Sleep(node.kernel.cost_ns(*ROUND_TRIP_NS))
            yield from self._begin(node)
            yield C2
            if self._is_ordered and life.version != on_top_of:
                continue
            sent_in(described if self._is_ordered else server_of(node).memory, sent)
            if self._invariants is not None and not self._is_ordered:
                self._invariants.makes(node)
            migration = Migration(life.version, self._new_version(node), sent)
            if (yield from server_of(node).staged("migration", self._apply(node, migration))):
                break
            if not self._is_ordered:
                raise ServerSaid("TApplicationException", "Internal error: Previous version mismatch. cannot apply.")
        yield C3
        for name in () if self._is_ordered else server_of(node).gossip.peers_alive():
            server_of(node).send(name, "announce", life.version)
        yield C4
        server_of(node).gossip.tell()
        return True

    def _begin(self, node: Node) -> Steps:
        """Begin a change, which needs the agreement of all who live where nothing else orders it. Raises ServerSaid."""
        living, since_ns = server_of(node).gossip.peers_alive(), node.kernel.heap.now_ns
        yield C1
        asked: Mapping[str, str | None] = {}
        if "no-agreement" not in self.flaws and not self._is_ordered:
            asked = yield from self._require_agreement(node)
        if self._invariants is not None and not self._is_ordered:
            self._invariants.agreed(node, _life(node).version, asked, living, since_ns)

    def _require_agreement(self, node: Node) -> Steps:
        """Refuse a change while living nodes have other versions. Returns the versions of those who were asked, None of who did not answer. Raises ServerSaid."""
        alive = server_of(node).gossip.peers_alive()
        answers: Answers = yield server_of(node).ask(alive, "version", None, need=len(alive), limit_ns=_AGREEMENT_NS)
        if any(version != _life(node).version for version in answers.answers.values()):
            raise ServerSaid("InvalidRequestException", "Cluster schema does not yet agree")
        return {name: answers.answers.get(name) for name in alive}

    def _new_version(self, node: Node) -> str:
        """Make a migration's version: later than the last one, but for designs that trust their clocks."""
        if "uuid-clock" in self.flaws:
            return time_id(node)
        return time_id(node, max(node.clock.schema_stamp_us(), _time_us(_life(node).version) + 1))

    def _new_id(self, node: Node) -> str:
        life = _life(node)
        life.next_id += 1
        return f"{life.next_id - 1:032x}"

    def _apply(self, node: Node, migration: Migration) -> Steps:
        """Apply a migration; returns whether it was not dropped."""
        life, kept = _life(node), _kept(node)
        yield A0
        if self._is_dropped(node, migration):
            return False
        try:
            after = sent_in(server_of(node).memory, migration.sent)
        except ServerSaid:
            return False
        if migration.sent.definition is None:
            yield A1
        yield A2
        yield Sync()
        kept.schemas[migration.version] = after
        yield A3
        yield Sync()
        kept.migrations[migration.version] = migration
        yield A4
        yield Sync()
        if self._is_ordered and life.version != migration.last:
            del kept.schemas[migration.version], kept.migrations[migration.version]
            return False
        if kept.is_flushed:
            kept.unflushed, kept.is_flushed = kept.marker, False
        kept.marker = migration.version
        if self._is_ordered:
            self._chain.append(migration)
            life.version = migration.version
            for each in self._nodes.values():
                if each is not node and each.server is not None and _life(each).is_caught_up:
                    self._take_all(each)
        elif self._invariants is not None:
            self._invariants.applied(node, life.version, migration)
        yield A5
        yield Sync()
        kept.is_flushed = True
        yield A6
        self._serve(node, kept.marker)
        return True

    def _is_dropped(self, node: Node, migration: Migration) -> bool:
        """Return whether a migration is not for this node's version.

        One that a crash after a3 left without its marker is applied anew: nothing names its rows.
        """
        if "out-of-order" in self.flaws:
            return migration.version in _kept(node).migrations
        return migration.last != _life(node).version

    def _serve(self, node: Node, version: str) -> None:
        """Serve the definitions of a version."""
        life = _life(node)
        schema = _kept(node).schemas.get(version, {})
        if self._invariants is not None:
            self._invariants.served(node, version, _order(version), schema)
        self._note_drops(node, version, schema)
        self._find_files(node, schema)
        serve_schema(node, schema)
        if self._invariants is not None:
            self._invariants.found_files(node)
        life.version = version
        life.next_id = max([life.next_id, *(int(table.id, 16) + 1 for table in tables_of(schema))])
        server_of(node).version = UUID(hex=version) if version else UUID(int=0)

    def _note_drops(self, node: Node, version: str, schema: Schema) -> None:
        """Take note of the tables that a version no longer has: their ids come again after a restart, versions do not."""
        left = {table.id for table in tables_of(schema)}
        for table in tables_of(server_of(node).memory):
            if table.id not in left:
                place = table.keyspace, table.name
                self._dropped[place] = max(self._dropped.get(place, 0), _order(version)[0])

    def _misses_drop(self, node: Node, table: Table) -> bool:
        """Return whether another node has dropped a table by a version that is later than what this one serves."""
        served = server_of(node).version
        assert served is not None
        return served.time < self._dropped.get((table.keyspace, table.name), 0)

    def _find_files(self, node: Node, schema: Schema) -> None:
        """Let each table find the files of its name: they lie in its keyspace's folder, without an id."""
        tables = node.disk.tables
        for table in tables_of(schema):
            place = table.keyspace, table.name
            held = tables.get(table.id)
            if held is not None and (held.keyspace, held.name) != place:
                # An id that another table had, until that was dropped and the node started again.
                _move(tables, held, f"{held.keyspace}/{held.name}")
            if table.id not in tables:
                of_name = next((each for each in tables.values() if (each.keyspace, each.name) == place), None)
                if of_name is not None:
                    _move(tables, of_name, table.id)

    def _take_all(self, node: Node) -> None:
        """Have a node apply at once all that the sequencer has decided."""
        life, kept = _life(node), _kept(node)
        for migration in self._chain:
            if migration.version not in kept.schemas:
                before = kept.schemas.get(migration.last, {})
                kept.schemas[migration.version] = sent_in(before, migration.sent)
                kept.migrations[migration.version] = migration
                # One after the other: a family that was dropped and created again must lose its files in between.
                self._serve(node, migration.version)
        if self._chain and life.version != self._chain[-1].version:
            self._serve(node, self._chain[-1].version)
        if self._chain:
            kept.marker, kept.is_flushed = self._chain[-1].version, True

    # ── announce, push ───────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, node: Node, message: Message) -> Steps | None:
        """Handle a message: a version that is asked for or announced, migrations that are pushed, or one of the data path."""
        match message.kind:
            case "version":
                server_of(node).answer(message, _life(node).version)
            case "announce":
                self._rectify(node, message.sender, message.body)
            case "push":
                return self._apply_all(node, message.body)
            case _:
                self._requests.data.receive(node, message)
        return None

    def _rectify(self, node: Node, name: str, theirs: str) -> None:
        """Push what another node lacks, or say what this one has, so that it pushes."""
        own = _life(node).version
        if theirs == own:
            return
        if _order(theirs) > _order(own):
            server_of(node).send(name, "announce", own)
            return
        since = sorted(
            (each for each in _kept(node).migrations.values() if _order(theirs) < _of(each) <= _order(own)), key=_of
        )
        if "out-of-order" not in self.flaws:
            # What a crash left without its marker (a3) is nobody's: no version that this node served comes of it.
            named = _named(node)
            since = [each for each in since if each.version in named]
        server_of(node).send(name, "push", since[:_PUSHED_MOST])
        if self._invariants is not None:
            self._invariants.pushed(node, theirs, since)

    def _apply_all(self, node: Node, migrations: Sequence[Migration]) -> Steps:
        for migration in migrations:
            yield from server_of(node).staged("migration", self._apply(node, migration))
        server_of(node).gossip.tell()

    def gossip(self, node: Node) -> Mapping[str, Any]:
        """Return the node's version."""
        return {"version": _life(node).version}

    def heard(self, node: Node, name: str, state: Mapping[str, Any]) -> None:
        """Set a difference of versions right, not more often than every two seconds."""
        life = _life(node)
        now_ns = node.kernel.heap.now_ns
        if self._is_ordered or state["version"] == life.version or now_ns < life.asked_ns.get(name, 0):
            return
        life.asked_ns[name] = now_ns + _RECTIFIES_NS
        self._rectify(node, name, state["version"])

    def answer(self, node: Node, text: str) -> Iterable[Mapping[str, Any]]:
        """Answer from `system.local` alone: definitions are records that no client can read."""
        return answer_from_tables(node, text)

    # ── a start ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def boot(self, node: Node) -> Steps:
        """Load the definitions of the last migration, replay the commit log, and join gossip. Raises Died."""
        server = server_of(node)
        if node.disk.state is None:
            node.disk.state = _Kept()
        kept = _kept(node)
        server.state = _Life()
        node.clock.is_trusted = False  # clients stamp their rows
        node.disk.shows_ids = False
        self._nodes[node.name] = node
        if self._turns is not None:
            self._turns.meet(node)
        yield B1
        yield Sleep(node.kernel.cost_ns(200 * MS, 500 * MS))
        if not kept.is_flushed and "marker-in-log" in self.flaws:
            raise Died(f"java.lang.RuntimeException: Could not load the definitions of {UUID(hex=kept.marker)}")
        self._serve(node, kept.marker if kept.is_flushed else kept.unflushed)
        yield B2
        kept.is_flushed = True
        self._serve(node, kept.marker)
        if "files-stay" not in self.flaws:
            self._clear_files(node)
        yield B3
        if self._is_ordered:
            self._take_all(node)
            _life(node).is_caught_up = True
        if self._invariants is not None:
            self._invariants.started(node)
        server.gossip.begin()
        yield Sleep(node.kernel.cost_ns(200 * MS, 400 * MS))

    def _clear_files(self, node: Node) -> None:
        """Delete files of what is no more in the schema, which a crash after a5 leaves behind."""
        for table_id, files in node.disk.tables.items():
            if server_of(node).table(table_id) is None:
                files.drop(f"dropped-{node.clock.wall_ns() // MS}-{files.name}")


def _move(tables: dict[str, TableFiles], files: TableFiles, to: str) -> None:
    del tables[files.id]
    files.id = to
    tables[to] = files


def _time_us(version: str) -> int:
    return (UUID(hex=version).time - UUID(hex=_EPOCH).time) // 10 if version else 0


_EPOCH: Final = "13814000-1dd2-11b2-8080-808080808080"
"""The time UUID of 1 January 1970."""


def _order(version: str) -> tuple[int, str]:
    """Return what versions are compared by: their time."""
    return (UUID(hex=version).time if version else 0), version


def _of(migration: Migration) -> tuple[int, str]:
    return _order(migration.version)


def _named(node: Node) -> Mapping[str, None]:
    """Return the versions that the node's own one goes on top of, one after another, and that one."""
    kept, version = _kept(node), _life(node).version
    named: dict[str, None] = {}
    while version in kept.migrations:
        named[version] = None
        version = kept.migrations[version].last
    return named


def _kept(node: Node) -> _Kept:
    kept: _Kept = node.disk.state
    return kept


def _life(node: Node) -> _Life:
    life: _Life = server_of(node).state
    return life
