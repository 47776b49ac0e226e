"""Merged rows: a change is rows that every node merges by their timestamps, and then loads what it has on its disk.

Cassandra 1.1 to 3.11 (seed 2, "The Schema Management Renaissance in Cassandra 1.1"; `db/DefsTable.java`,
`schema/SchemaKeyspace.java`, `service/MigrationManager.java`). A version is the digest of the rows. The coordinator merges
its own change as all others do; what it serves is what it loaded (4.0 to 5.0 are otherwise: `rows`).

**Change** on its coordinator:

- c1 validated against its memory; 1.1 asks the living nodes for their versions, too, and refuses if they differ
- c2 rows for the difference, stamped with the wall clock; pushed to all who live while they are merged here. The flaw `second-look`
  takes the difference from the table as it is by then, so what another change added since c1 is removed

**Merge** of rows that are its own, or were pushed or pulled, one at a time:

- m1 the rows to disk
- m2 the schema tables are flushed (3.x: d2; a half of them at m2h)
- m3 the keyspaces that they touch are loaded from disk; up to 2.0 all of them are
- m4 compared with the memory by name: another id for one name, or one id for two names (1.1), is refused; else memory,
  directories and files of what is gone
- m5 version = digest of the disk
- m6 gossip tells the version

What is refused leaves the disk new, memory and version old. A **pull** asks a node whose version differs for all rows, after
60 s, or at once if this server is young or empty. A **start** loads all keyspaces from flushed files, or dies, and only then
replays the commit log.

Table ids are counted by each node (1.1), made from the names (1.2 to 2.0), or time UUIDs of the coordinator (2.1 to 3.11):
flaws, each of its versions. Without the flaw `no-order` a free sequencer decides, as in `rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from schemaquake.clusters.simulated.data import DataPath
from schemaquake.clusters.simulated.disk import TableFiles
from schemaquake.clusters.simulated.faces import Answers, Node, Steps
from schemaquake.clusters.simulated.messages import Message
from schemaquake.clusters.simulated.models.definitions_sent_back import ROUND_TRIP_NS, definition_of, sent_in
from schemaquake.clusters.simulated.models.invariants import Breaches
from schemaquake.clusters.simulated.models.merging import Order, Pulls, id_of_its_past, log_failed_merge, recheck
from schemaquake.clusters.simulated.models.old_schema_tables import answer_from_old_tables
from schemaquake.clusters.simulated.models.requests import Requests
from schemaquake.clusters.simulated.models.row_invariants import RowInvariants
from schemaquake.clusters.simulated.models.schema_invariants import MergeInvariants
from schemaquake.clusters.simulated.models.serving import misses_drop, serve_schema, server_of, time_id
from schemaquake.clusters.simulated.models.steps import numbered
from schemaquake.clusters.simulated.models.tables import answer_from_tables
from schemaquake.clusters.simulated.models.turns import Turns
from schemaquake.clusters.simulated.processes import Died, Sleep, Sync
from schemaquake.clusters.simulated.ring import Ring
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.changes import Making, carry_out
from schemaquake.clusters.simulated.schema.definitions import Schema, tables_of
from schemaquake.clusters.simulated.schema.loading import load_keyspaces
from schemaquake.clusters.simulated.schema.mutations import Writing, difference, with_tables_of_now
from schemaquake.clusters.simulated.schema.rows import RowChange, SchemaRows
from schemaquake.harness.units import MS

if TYPE_CHECKING:
    from schemaquake.harness.model.steps import Invoke

__all__ = ["MergedRows", "Release"]

_AGREEMENT_NS: Final = 2_000 * MS
_FIRST_ID: Final = 1000
_PURGES_US: Final = 3_000_000
"""Age at which a design with the flaw `purge` forgets deletions: days on real servers (`gc_grace_seconds`)."""

C1, C2 = numbered("1.1/change", "c1", "c2")
M1, M2, M2H, M3, M4, M5, M6 = numbered("1.1/merge", "m1", "m2", "m2h", "m3", "m4", "m5", "m6")
B1, B2, B3 = numbered("1.1/boot", "b1", "b2", "b3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The differences between lines of releases."""

    speaks_thrift: bool = False
    """1.1: clients send whole definitions back, and stamp their rows."""
    old_tables: bool = False
    """1.2 to 2.2: clients read `system.schema_*`."""
    shows_ids: bool = True
    """False in 1.2 and 2.0."""
    loads_all: bool = False
    """Up to 2.0 a merge loads every keyspace."""


@dataclass(slots=True)
class _Life:
    pulls: Pulls
    last_us: int = 0


@dataclass(slots=True)
class _Kept:
    """The rest of a node's disk."""

    in_log: dict[str, TableFiles] = field(default_factory=dict)
    """Rows of dropped tables that are still in the commit log, by id, in designs with `name-id`."""
    half: SchemaRows | None = None
    """The flushed files while a flush is half done, in designs with `partial-flush`."""


class MergedRows:
    """The design of 1.1 to 3.11."""

    describes_memory: bool = False
    steps = tuple(step.name for step in (C1, C2, M1, M2, M2H, M3, M4, M5, M6, B1, B2, B3))

    def __init__(
        self, ring: Ring, flaws: frozenset[str], release: Release, *, pull_delay_s: float, by_turns: bool = False
    ) -> None:
        """`by_turns`: without the flaw `no-order` changes come one after another, each by the protocol."""
        self.flaws = flaws
        self._release = release
        # Where changes have no order, and where ids are counted or made from names, the id of a dropped table comes again.
        is_ordered = flaws.isdisjoint({"unordered-rows", "no-order", "counter-id", "name-id"})
        data = DataPath(
            ring,
            knows_columns=not release.speaks_thrift,
            says_why=False,
            misses_drop=misses_drop if is_ordered else None,
        )
        self._requests = Requests(data, self.change)
        self._order = None if "no-order" in flaws or by_turns else Order()
        gives_up_with = "TimedOutException" if release.speaks_thrift else "OperationTimedOut"
        self._turns = Turns(gives_up_with=gives_up_with) if by_turns and "no-order" not in flaws else None
        self._writing = Writing(
            keyspace_row="keyspace-row" in flaws, whole_row="whole-row" in flaws, rows_unite="row-union" in flaws
        )
        self._invariants: MergeInvariants | None = None
        self._pull_delay_ns = round(pull_delay_s * 1000) * MS

    def watch(self, nodes: Sequence[Node]) -> None:
        """Have what must hold of all nodes at once be looked at (`schemaquake.clusters.simulated.models.invariants`)."""
        breaches = Breaches()
        self._requests.data.invariants = RowInvariants(nodes, breaches, reuses_ids=self._release.speaks_thrift)
        self._invariants = None if self.flaws else MergeInvariants(breaches)
        if self._order is not None:
            self._order.invariants = self._invariants

    # ── a change ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def serve(self, node: Node, request: Invoke) -> Steps:
        """Carry out a client's request."""
        return self._requests.serve(node, request)

    def change(self, node: Node, f: str, value: Mapping[str, Any]) -> Steps:
        """Carry out one schema change; returns whether there was anything to change. Raises ServerSaid."""
        steps = self._change(node, f, value)
        return steps if self._turns is None else self._turns.in_turn(node, steps)

    def _change(self, node: Node, f: str, value: Mapping[str, Any]) -> Steps:
        if self._order is not None:
            yield C1
            return self._order.change(node, f, value, partial(self._new_id, node), self._writing)
        making = Making(partial(self._new_id, node), self._stamp_us(node))
        sent = None
        if self._release.speaks_thrift:
            sent = definition_of(server_of(node).memory, f, value, making)
            if sent is None:
                return False
            yield Sleep(node.kernel.cost_ns(*ROUND_TRIP_NS))
        living, since_ns = server_of(node).gossip.peers_alive(), node.kernel.heap.now_ns
        yield C1
        asked: Mapping[str, UUID | None] = {}
        if self._release.speaks_thrift:
            asked = yield from self._require_agreement(node)
        if self._invariants is not None and self._release.speaks_thrift:
            self._invariants.agreed(node, server_of(node).version, asked, living, since_ns)
        before = server_of(node).memory
        after = carry_out(before, f, value, making) if sent is None else sent_in(before, sent)
        if after is before:
            return False
        yield C2
        rows = self._rows_of(node, before, after)
        for name in server_of(node).gossip.peers_alive():
            server_of(node).send(name, "push", rows)
        try:
            yield from server_of(node).staged("migration", self._merge_rows(node, rows))
        except ServerSaid as said:
            log_failed_merge(node, said)
            text = f"java.lang.RuntimeException: java.util.concurrent.ExecutionException: {said.stack}"
            raise ServerSaid("ServerError", text) from None
        if self._invariants is not None:
            self._invariants.changed(node, after, rows)
        return True

    def _rows_of(self, node: Node, before: Schema, after: Schema) -> list[RowChange]:
        """Return the rows of a change from `before` to `after`."""
        if "second-look" in self.flaws:
            before = with_tables_of_now(before, after, server_of(node).memory)
        return difference(before, after, self._stamp_us(node), self._writing)

    def _require_agreement(self, node: Node) -> Steps:
        """Refuse a change while living nodes have other versions. Returns the versions of those who were asked, None of who did not answer. Raises ServerSaid."""
        alive = server_of(node).gossip.peers_alive()
        answers: Answers = yield server_of(node).ask(alive, "version", None, need=len(alive), limit_ns=_AGREEMENT_NS)
        if any(version != server_of(node).version for version in answers.answers.values()):
            raise ServerSaid("SchemaDisagreementException", "")
        return {name: answers.answers.get(name) for name in alive}

    def _stamp_us(self, node: Node) -> int:
        """Return the timestamp of rows: whole milliseconds of the wall clock; where CREATEs must not unite, different on every node."""
        own = 0 if self._writing.rows_unite else 2 * sorted((node.name, *node.peers)).index(node.name)
        if "nanotime" in self.flaws:
            return _FIRST_ID + server_of(node).uptime_ns // MS * 1000 + own
        if self._release.speaks_thrift and "wall-clock" in self.flaws:
            life = _life(node)
            life.last_us = max(life.last_us, node.clock.wall_ns() // MS * 1000)
            return life.last_us + own
        return node.clock.schema_stamp_us() + own

    def _new_id(self, node: Node, keyspace: str, name: str) -> str:
        """Make a table's id as this release does; without a flaw, one that depends on the past of its name alone."""
        if "counter-id" in self.flaws:
            tables = tables_of(server_of(node).memory)
            return f"{max([_FIRST_ID - 1, *(int(table.id, 16) for table in tables if table.id < 'f')]) + 1:032x}"
        if "name-id" in self.flaws:
            return blake2b(f"{keyspace}.{name}".encode(), digest_size=16).hexdigest()
        return time_id(node) if "time-id" in self.flaws else id_of_its_past(node, keyspace, name)

    # ── a merge ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, node: Node, message: Message) -> Steps | None:
        """Handle a message: rows that were pushed, a pull, a version that is asked for, or one of the data path."""
        match message.kind:
            case "push":
                return self._merge(node, message.body)
            case "pull":
                server_of(node).answer(message, node.disk.schema.changes())
            case "version":
                server_of(node).answer(message, server_of(node).version)
            case _:
                self._requests.data.receive(node, message)
        return None

    def _merge(self, node: Node, rows: Iterable[RowChange]) -> Steps:
        """Merge rows; what is refused is logged."""
        try:
            yield from server_of(node).staged("migration", self._merge_rows(node, list(rows)))
        except ServerSaid as said:
            log_failed_merge(node, said)

    def _merge_rows(self, node: Node, rows: Sequence[RowChange]) -> Steps:
        server = server_of(node)
        yield M1
        yield Sync()
        recheck(node, rows, self.flaws)
        yield M2
        yield from self._flush(node, rows)
        if "purge" in self.flaws:
            node.disk.schema.purge(node.clock.wall_ns() // 1000 - _PURGES_US)
        yield M3
        names = sorted(node.disk.schema.keyspaces if self._release.loads_all else {row.keyspace for row in rows})
        loaded = load_keyspaces(node.disk.schema, names, server.memory, partial(_warn, node))
        yield M4
        self._compare_ids(server.memory, loaded)
        self._install(node, loaded)
        yield M5
        server.version = node.disk.schema.version()
        if self._invariants is not None:
            self._invariants.merged(node, rows)
        yield M6
        server.gossip.tell()

    def _flush(self, node: Node, rows: Sequence[RowChange]) -> Steps:
        """Flush the schema tables: all at once, or, in designs with that flaw, first those of columns."""
        if "partial-flush" not in self.flaws:
            node.disk.schema.merge(rows)
            return
        kept = _kept(node)
        kept.half = node.disk.schema.copy()
        kept.half.merge(row for row in rows if row.path[:1] != ("columns",))
        node.disk.schema.merge(rows)
        yield M2H
        yield Sync()
        kept.half = None

    def _compare_ids(self, before: Schema, after: Schema) -> None:
        """Refuse another id for one name, and one id for two names. Raises ServerSaid."""
        known: dict[str, str] = {}
        for table in tables_of(after):
            keyspace = before.get(table.keyspace)
            old = None if keyspace is None else keyspace.relation(table.name)
            if old is not None and old.id != table.id and "time-id" in self.flaws:
                text = f"Column family ID mismatch (found {UUID(hex=table.id)}; expected {UUID(hex=old.id)})"
                raise ServerSaid("ConfigurationException", text, flaw="time-id")
            if known.setdefault(table.id, table.name) != table.name:
                raise ServerSaid("java.lang.IllegalArgumentException", f"value already present: {int(table.id, 16)}")

    def _install(self, node: Node, schema: Schema) -> None:
        """Serve this schema from now on."""
        if "name-id" in self.flaws:
            self._leave_in_log(node, schema)
        serve_schema(node, schema)

    def _leave_in_log(self, node: Node, schema: Schema) -> None:
        """Remember the rows of dropped tables that the commit log has still."""
        now = {table.id for table in tables_of(schema)}
        for table in tables_of(server_of(node).memory):
            files = node.disk.tables.get(table.id)
            if table.id not in now and files is not None and files.partitions:
                rows = _kept(node).in_log[table.id] = TableFiles(files.keyspace, files.name, files.id)
                rows.partitions, rows.deleted_us = dict(files.partitions), dict(files.deleted_us)

    # ── gossip, pulls ────────────────────────────────────────────────────────────────────────────────────────────────

    def gossip(self, node: Node) -> Mapping[str, Any]:
        """Return the node's schema version."""
        return {"version": str(server_of(node).version)}

    def heard(self, node: Node, name: str, state: Mapping[str, Any]) -> None:
        """Pull from a node whose version differs."""
        version = state["version"]
        if self._order is None and server_of(node).phase != "booting" and version != str(server_of(node).version):
            _life(node).pulls.consider(node, name, version)

    def answer(self, node: Node, text: str) -> Iterable[Mapping[str, Any]]:
        """Answer a statement by which the node's schema is read."""
        if self._release.old_tables and "system.schema_" in text:
            return answer_from_old_tables(node.disk.schema, text, shows_ids=self._release.shows_ids)
        return answer_from_tables(node, text)

    # ── a start ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def boot(self, node: Node) -> Steps:
        """Load all keyspaces from flushed files, replay the commit log, join gossip. Raises Died."""
        server = server_of(node)
        if node.disk.state is None:
            node.disk.state = _Kept()
        server.state = _Life(Pulls(self._pull_delay_ns, self._merge, repeats=self._turns is not None))
        node.clock.is_trusted = "wall-clock" in self.flaws and not self._release.speaks_thrift
        node.disk.shows_ids = not (
            self._release.speaks_thrift or (self._release.old_tables and not self._release.shows_ids)
        )
        if self._order is not None:
            self._order.meet(node)
        if self._turns is not None:
            self._turns.meet(node)
        yield B1
        yield Sleep(node.kernel.cost_ns(300 * MS, 600 * MS))
        flushed = _kept(node).half or node.disk.schema
        try:
            schema = load_keyspaces(flushed, sorted(flushed.keyspaces), {}, partial(_warn, node))
            self._compare_ids({}, schema)
        except ServerSaid as said:
            raise Died(said.stack) from None
        yield B2
        self._install(node, schema)
        self._replay(node)
        server.version = node.disk.schema.version()
        if self._order is not None:
            self._order.catch_up(node)
        if self._invariants is not None:
            self._invariants.started(node)
        yield B3
        server.gossip.begin()
        yield Sleep(node.kernel.cost_ns(200 * MS, 400 * MS))

    def _replay(self, node: Node) -> None:
        """Replay the commit log: rows of a dropped table find one that has its id again."""
        kept = _kept(node)
        kept.half = None
        for table_id, rows in kept.in_log.items():
            if server_of(node).table(table_id) is not None:
                files = node.disk.tables[table_id]
                for partition in rows.partitions.values():
                    for key, cells in partition.items():
                        files.write(key, cells, rows.deleted_us.get(key, 0))
        kept.in_log = {}


def _warn(node: Node, text: str) -> None:
    node.console.warn("MigrationStage:1", "ViewManager.java:122", text)


def _kept(node: Node) -> _Kept:
    kept: _Kept = node.disk.state
    return kept


def _life(node: Node) -> _Life:
    life: _Life = server_of(node).state
    return life
