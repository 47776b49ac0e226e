"""Row fates: what became of every row written to one table, as the final reads show.

A row whose INSERT was acknowledged is *due* in every later read of a final phase that lists it, unless a possible
operation may have removed it: a DROP of its table or keyspace, unless a reload loaded the row again
(`schemaquake.checkers.evidence.reloads`), a delete of its key, a DROP of every column it was written to, its time to live. A DELETE of some of its cells leaves the
row. A row is not due either in a table that was dropped and cannot have been created again.
A DROP of unknown outcome explains no lost row of a table that a read still finds and nothing can have created again.

A row that is lost is in *doubt* (`TableRows.find_doubtful`) where an operation may explain it whose part in it is not
known: such a DROP, as long as it may take effect; an ALTER KEYSPACE that moves replicas; an earlier delete whose
timestamp skewed clocks may have made the later one; a RENAME of the key; a statement in free text. So it is where operations on the
topology took disks away (`TableRows.find_lost_disks`) that may have had every copy that its level promised and a read had to meet.

Which read has to show it:
- one at ALL; and one at QUORUM, if the row was acknowledged by a QUORUM too: any two quorums share a replica;
- where no read at ALL succeeded, the reads at ONE of all nodes together, if every node is a replica: a coordinator that
  is a replica itself answers such a read from its own disk. Only if every node of the cluster answered.
A single read at ONE need not show a row; one that does shows which node has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import orjson

from schemaquake.checkers.ddl_order.reach import Reaches
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import PHASES
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaChanges, SchemaObject, can_follow
from schemaquake.checkers.evidence.topology_operations import TopologyOperation
from schemaquake.checkers.rows.row_operations import (
    PHASE_ORDER,
    RowOperations,
    consistency_of,
    find_key_columns,
    freeze_columns,
    looked_up,
    phase_of,
)
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import keyspace_of

__all__ = ["ByWhere", "Cause", "Fate", "MatchedRow", "TableRows", "may_be_dated_later", "overlaps"]

T = TypeVar("T")

Cause: TypeAlias = PairedOperation | TopologyOperation
"""An operation that may be why a read does not show what it should."""

_QUORUMS: Final = frozenset({"QUORUM", "LOCAL_QUORUM", "EACH_QUORUM", "ALL"})
_ALONE: Final = frozenset({"ONE", "LOCAL_ONE"})
_ABSENT: Final = object()
_LEAVES_ROWS_ALONE: Final = frozenset({"select", "use", "list", "grant", "revoke", "describe", "desc"})


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of one due row in one phase. `reads` are those that had to show a lost row; `unread`: no read decides."""

    outcome: Literal["shown", "lost", "unread"]
    reads: tuple[PairedOperation, ...] = ()
    holders: frozenset[str] = frozenset()
    """Nodes whose read at ONE showed the row."""


class _Read:
    """One read and an index of its rows by any of their columns."""

    def __init__(self, operation: PairedOperation) -> None:
        self.operation = operation
        self.columns: frozenset[str] | None = (
            None if operation.argument["columns"] is None else frozenset(operation.argument["columns"])
        )
        self.where: Mapping[str, JSON] = operation.argument.get("where") or {}
        self.rows: Sequence[Mapping[str, Any]] = operation.value["rows"] if operation.type == "ok" else ()
        self._by: dict[tuple[str, ...], frozenset[bytes]] = {}

    def shared(self, key: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns of this key that the read names."""
        return key if self.columns is None else tuple(column for column in key if column in self.columns)

    def lists(self, row: Mapping[str, JSON]) -> bool:
        """Check that the row matches the WHERE clause of the read."""
        where = self.where
        return not where or all(column in row and row[column] == value for column, value in where.items())

    def shown(self, columns: tuple[str, ...]) -> frozenset[bytes]:
        """Return what the rows that the read returned have in these columns (`freeze_columns`)."""
        if columns not in self._by:
            whole = (shown for shown in self.rows if shown.keys() >= set(columns))
            self._by[columns] = frozenset(freeze_columns(shown, columns) for shown in whole)
        return self._by[columns]


class ByWhere(Generic[T]):
    """Things with a WHERE clause, found by the rows that match it. Values match as in Python: 1 is 1.0, but not "1"."""

    def __init__(self, things: Iterable[tuple[T, Mapping[str, JSON]]]) -> None:
        self._by: dict[tuple[str, ...], dict[tuple[JSON, ...], list[T]]] = {}
        self._others: list[tuple[T, Mapping[str, JSON]]] = []
        """Those that ask for a list or a map, which are no keys of a dict."""
        for thing, where in things:
            asked = tuple(sorted(where))
            values = tuple(where[column] for column in asked)
            if any(isinstance(value, (list, dict)) for value in values):
                self._others.append((thing, where))
            else:
                self._by.setdefault(asked, {}).setdefault(values, []).append(thing)

    def of(self, row: Mapping[str, JSON]) -> Iterator[T]:
        """Yield the things whose WHERE clause the row matches."""
        for asked, things in self._by.items():
            values = tuple(row.get(column, _ABSENT) for column in asked)
            if not any(isinstance(value, (list, dict)) for value in values):
                yield from things.get(values, ())
        for thing, where in self._others:
            if all(column in row and row[column] == value for column, value in where.items()):
                yield thing


class MatchedRow(NamedTuple):
    """A row that a read shows, and the inserts of its key."""

    read: PairedOperation
    row: Mapping[str, Any]
    key: tuple[str, ...]
    """The columns of the key."""
    inserts: tuple[PairedOperation, ...]


class TableRows:
    """The rows of one table: their inserts, their possible removals, and the final reads."""

    def __init__(self, evidence: Evidence, rows: RowOperations, table: SchemaObject) -> None:
        self.evidence = evidence
        self.table = table
        self.inserts: Sequence[PairedOperation] = rows.inserts.get(table, ())
        possible = [delete for delete in rows.deletes.get(table, ()) if delete.possible]
        self.deletes = [delete for delete in possible if not delete.argument.get("columns")]
        """Possible DELETEs of whole rows, and TRUNCATEs."""
        self.cell_deletes = [delete for delete in possible if delete.argument.get("columns")]
        """Possible DELETEs of some columns of a row, which leave the row itself."""
        self.keys = {i.index: find_key_columns(evidence.changes, table, i.argument["row"]) for i in self.inserts}
        self.changes = evidence.changes.on(table)
        self.texts = [
            statement
            for statement in evidence.changes.all
            if statement.f == "cql" and _may_touch_rows(statement, table)
        ]
        finals = [read for read in rows.reads.get(table, ()) if phase_of(read) in {"settled", "restarted"}]
        self._reads = {
            phase: [_Read(read) for read in finals if phase_of(read) == phase] for phase in ("settled", "restarted")
        }
        self._lookups = [
            lookup
            for lookup in rows.lookups.get(table, ())
            if lookup.type == "ok" and _is_of(evidence.changes, table, lookup)
        ]
        self._on_the_way = [
            read for read in rows.reads.get(table, ()) if read.type == "ok" and phase_of(read) not in self._reads
        ]
        # An INSERT of CQL leaves a marker of its row; those of Thrift are cells alone, and its servers show no memory apart.
        self._leaves_markers = any(schema.shows_memory is not None for schema in evidence.readings.schemas)
        self._nodes = rows.nodes | {schema.node for schema in evidence.readings.schemas}
        self._creates = evidence.changes.creates(table)
        self._drops = evidence.changes.drops(table)
        self._namesakes = evidence.changes.creates(SchemaObject("view", table.keyspace, table.name))
        self._inserts_elsewhere = rows.inserts
        self._reloads = [r for r in evidence.notes.reloads if (r.keyspace, r.table) == (table.keyspace, table.name)]
        self._lifetimes = self._list_lifetimes()
        self.moves = self._list_moves()
        """The possible ALTER KEYSPACEs, if the keyspace may have had another replication."""
        self._reaches = evidence.derive(Reaches)
        self._renames = [change for change in self.changes if change.f == "rename-column"]
        self._column_drops = [change for change in self.changes if change.f == "drop-column"]
        self._parts: dict[tuple[int, tuple[str, ...]], bytes] = {}
        self._gone: dict[int, bool] = {}
        self._matched: dict[str | None, Sequence[MatchedRow]] = {}

    def reads(self, phase: str) -> Sequence[PairedOperation]:
        """Return the reads of a final phase, failed ones included."""
        return [read.operation for read in self._reads[phase]]

    def listings(self, phase: str | None) -> Sequence[PairedOperation]:
        """Return the answered reads of a final phase, and the lookups that list rows of this table and of no other.

        None: the reads before the final phases, without lookups.
        """
        if phase is None:
            return self._on_the_way
        reads = [read for read in self.reads(phase) if read.type == "ok"]
        return [*reads, *(lookup for lookup in self._lookups if phase_of(lookup) == phase)]

    def key(self, insert: PairedOperation) -> bytes:
        """Return the primary key of an inserted row, with the names of its columns."""
        return self._frozen(insert, self.keys[insert.index])

    def _frozen(self, insert: PairedOperation, columns: tuple[str, ...]) -> bytes:
        place = insert.index, columns
        if place not in self._parts:
            self._parts[place] = freeze_columns(insert.argument["row"], columns)
        return self._parts[place]

    def _is_shown(self, insert: PairedOperation, read: _Read) -> bool:
        """Check that the read returned a row with the same key columns, as far as it names them."""
        columns = read.shared(self.keys[insert.index])
        return bool(columns) and self._frozen(insert, columns) in read.shown(columns)

    def matched(self, phase: str | None) -> Sequence[MatchedRow]:
        """Return every row that the listings of this phase show, and whose key some INSERT has."""
        if phase not in self._matched:
            self._matched[phase] = list(self._match_rows(phase))
        return self._matched[phase]

    def _match_rows(self, phase: str | None) -> Iterator[MatchedRow]:
        for read in self.listings(phase):
            for row in read.value["rows"]:
                for key, inserts in self._by_columns.items():
                    found = inserts.get(freeze_columns(row, key)) if key and row.keys() >= set(key) else None
                    if found:
                        yield MatchedRow(read, row, key, tuple(found))

    @cached_property
    def _by_columns(self) -> Mapping[tuple[str, ...], Mapping[bytes, Sequence[PairedOperation]]]:
        """The inserts of each key, by the columns of the key: definitions of the table may differ in them."""
        written: dict[tuple[str, ...], dict[bytes, list[PairedOperation]]] = {}
        for insert in self.inserts:
            written.setdefault(self.keys[insert.index], {}).setdefault(self.key(insert), []).append(insert)
        return written

    def may_be_gone(self, insert: PairedOperation) -> bool:
        """Check whether a possible operation can have removed this row after it was written."""
        if insert.index not in self._gone:
            self._gone[insert.index] = self._may_be_gone(insert)
        return self._gone[insert.index]

    def _may_be_gone(self, insert: PairedOperation) -> bool:
        if consistency_of(insert) == "ANY" or not self.keys[insert.index]:
            return True
        if any(self._is_removed_by(drop, insert) for drop in self._drops):
            return True
        if self.may_have_expired(insert) or self._may_have_expired_with(insert):
            return True
        if any(can_follow(delete, insert) for delete in self.deletes_by_key.of(insert.argument["row"])):
            return True
        cells = self._cells(insert) if self._needs_cells(insert) else ()
        return bool(cells) and all(self.may_be_dropped(cell, insert) for cell in cells)

    def _needs_cells(self, insert: PairedOperation) -> bool:
        """Check whether the row goes with its last cell: an UPDATE leaves no marker, and of Thrift's writes none does."""
        return not self._leaves_markers or insert.argument.get("form") == "update"

    def _is_removed_by(self, drop: PairedOperation, insert: PairedOperation) -> bool:
        """Check whether a DROP can have removed the row although its table can be read afterwards."""
        if any(reload.puts_back(insert, drop, self._copies(insert)) for reload in self._reloads):
            return False
        again = any(can_follow(create, drop) for create in self._creates)
        if drop.type == "ok" and not again:
            return True  # there should be no table; that there is one is for the checkers of the schema
        return again and can_follow(drop, insert)

    def _copies(self, insert: PairedOperation) -> int:
        """Return how many replicas have certainly acknowledged the row."""
        return max(1, {"QUORUM": self._replicas // 2 + 1, "ALL": self._replicas}.get(consistency_of(insert), 1))

    @cached_property
    def _replicas(self) -> int:
        """The number of replicas; 0 if it is not known, or may have changed."""
        creates = self.evidence.changes.creates(self._keyspace)
        factors = {create.argument["replication"].get("replication_factor", 0) for create in creates}
        return int(next(iter(factors))) if len(factors) == 1 and not self.moves else 0

    def must_meet(self, insert: PairedOperation, read: PairedOperation) -> bool:
        """Check that one of the replicas that answered the read must have had the row.

        A row that was written while the nodes took their snapshots may be on one node alone after a reload.
        """
        if not overlaps(insert, read):
            return False
        if consistency_of(read) == "ALL":
            return True
        return not any(
            can_follow(drop, insert) and reload.puts_back(insert, drop, self._copies(insert)) and reload.thins(insert)
            for reload in self._reloads
            for drop in self._drops
        )

    def find_namesakes(self, read: PairedOperation, row: Mapping[str, JSON]) -> Sequence[PairedOperation]:
        """Return the CREATEs of views of this name that the read may have read, and whose base may have had the row."""
        return [
            create
            for create in self._namesakes
            if can_follow(read, create) and self._may_have(str(create.argument["base"]), row)
        ]

    def _may_have(self, base: str, row: Mapping[str, JSON]) -> bool:
        """Check that an INSERT into this table may have written the row, as far as its key is shown."""
        table = SchemaObject("table", self.table.keyspace, base)
        return any(
            all(row[column] == written[column] for column in row.keys() & set(key))
            for written in (insert.argument["row"] for insert in self._inserts_elsewhere.get(table, ()))
            if (key := find_key_columns(self.evidence.changes, table, written))
        )

    def may_be_dropped_as_a_whole(self) -> bool:
        """Check whether a possible DROP concerns the table: coordinators that learn of it late read and write its former life."""
        return bool(self._drops)

    @cached_property
    def forgets_deletes(self) -> bool:
        """True if a `gc_grace_seconds` was set that may be over: then a deleted row may come back by design."""
        options = (change.argument.get("options") or {} for change in self.changes)
        graces = [float(str(one["gc_grace_seconds"])) for one in options if "gc_grace_seconds" in one]
        reads = [read.completed or 0 for phase in PHASES for read in self.reads(phase)]
        first = min((delete.invoked for delete in (*self.deletes, *self.cell_deletes)), default=0)
        ahead = max((fault.skew_s for fault in self.evidence.notes.faults), default=0.0)
        return bool(graces) and first + (min(graces) - ahead) * 1e9 <= max(reads, default=0)

    def may_be_put_back(self, removal: PairedOperation) -> bool:
        """Check whether a reload may have loaded again what this operation removed."""
        return any(reload.may_undo(removal) for reload in self._reloads)

    def find_doubtful(self, insert: PairedOperation, phase: str) -> Sequence[Cause]:
        """Return the operations that may be why this row is not found in this phase, although that is not known."""
        reads = [read.operation for read in self._reads[phase]]
        begins = min((read.invoked for read in reads), default=insert.invoked)
        ends = max((read.completed or read.invoked for read in reads), default=insert.invoked)
        keys = set(self.keys[insert.index])
        under_way = self._reaches.touching(self.table, begins, ends)
        return [
            *(drop for drop in self._drops if drop in under_way),
            *(move for move in self.moves if PHASE_ORDER.get(phase_of(insert), 1) < 2 or can_follow(move, insert)),
            *self._find_dated_later(insert),
            *(change for change in self._renames if {change.argument["column"], change.argument["to"]} & keys),
            *(text for text in self.texts if can_follow(text, insert)),
        ]

    def find_lost_disks(self, write: PairedOperation, reads: Sequence[PairedOperation]) -> Sequence[Cause]:
        """Return the operations that may have taken so many copies of a write away that none of these reads had to meet one; empty if one had to.

        Reads at ONE of all nodes ask all replicas together.
        """
        if not reads or not all(self._may_miss(write, read) for read in reads):
            return ()
        return self.list_disks_lost(write, max(reads, key=lambda read: read.completed or read.invoked))

    def list_disks_lost(self, write: PairedOperation, read: PairedOperation) -> Sequence[Cause]:
        """Return the operations that may have taken a disk away after a write had begun and before a read ended."""
        ends = read.completed or read.invoked
        return [
            one
            for one in self.evidence.notes.operations
            if one.loses_disk and one.invoked < ends and (one.ends_ns is None or one.ends_ns >= write.invoked)
        ]

    def _may_miss(self, write: PairedOperation, read: PairedOperation) -> bool:
        """Check whether disks were taken away that may have had all copies of a write that a read at a level that binds it had to meet."""
        lost = self.evidence.notes.losses.count_between(write.invoked, read.completed or read.invoked)
        if not lost:
            return False
        asked = self._replicas // 2 + 1 if consistency_of(read) in _QUORUMS - {"ALL"} else self._replicas
        return self._copies(write) - lost + asked <= max(self._replicas, 1)

    def _find_dated_later(self, insert: PairedOperation) -> Sequence[PairedOperation]:
        """Return earlier deletes of this row's key that skewed clocks may have given the later timestamp."""
        notes = self.evidence.notes
        row = insert.argument["row"]
        # Of later ones `may_be_dropped` tells which cells they concern.
        earlier = (delete for delete in self.cell_deletes_by_key.of(row) if not can_follow(delete, insert))
        of_key = (*self.deletes_by_key.of(row), *earlier)
        return [delete for delete in of_key if may_be_dated_later(delete, insert, notes)]

    @cached_property
    def deletes_by_key(self) -> ByWhere[PairedOperation]:
        """The possible DELETEs of whole rows, and TRUNCATEs, by the rows that they concern."""
        return ByWhere((delete, delete.argument["where"]) for delete in self.deletes)

    @cached_property
    def cell_deletes_by_key(self) -> ByWhere[PairedOperation]:
        """The possible DELETEs of some columns, by the rows that they concern."""
        return ByWhere((delete, delete.argument["where"]) for delete in self.cell_deletes)

    @cached_property
    def _reads_on_the_way(self) -> ByWhere[_Read]:
        return ByWhere((read, read.where) for read in map(_Read, self._on_the_way))

    def may_be_dropped(self, column: str, insert: PairedOperation) -> bool:
        """Check whether a possible DROP or RENAME of the column, or a DELETE of this cell, can have come after this row was written."""
        return (
            self.may_be_renamed(column, insert)
            or any(can_follow(change, insert) for change in self._column_drops if change.argument["column"] == column)
            or any(
                can_follow(delete, insert)
                for delete in self.cell_deletes_by_key.of(insert.argument["row"])
                if column in delete.argument["columns"]
            )
        )

    def may_be_renamed(self, column: str, insert: PairedOperation) -> bool:
        """Check whether a possible RENAME from or to that name can have come after this row was written."""
        return any(
            can_follow(change, insert)
            for change in self._renames
            if column in {change.argument["column"], change.argument["to"]}
        )

    @cached_property
    def certain_column_drops(self) -> Mapping[str, Sequence[PairedOperation]]:
        """The acknowledged DROPs of each column that an acknowledged ADD can have followed, in the order in which they began."""
        drops: dict[str, list[PairedOperation]] = {}
        for change in sorted(self._column_drops, key=lambda drop: drop.invoked):
            if change.type == "ok" and any(
                can_follow(add, change) for add in self.column_adds(change.argument["column"])
            ):
                drops.setdefault(change.argument["column"], []).append(change)
        return drops

    def column_adds(self, column: str) -> Sequence[PairedOperation]:
        """Return the acknowledged ADDs of a column."""
        return [
            change
            for change in self.changes
            if change.f == "add-column" and change.acknowledged and change.argument["column"][0] == column
        ]

    def due(self, phase: str) -> Sequence[PairedOperation]:
        """Return the inserts whose rows must be there in this phase."""
        return self._written_by(phase, "ok")

    def perhaps_due(self, phase: str) -> Sequence[PairedOperation]:
        """Return the inserts of unknown outcome whose rows must be there in this phase if they took effect."""
        return self._written_by(phase, "info")

    def _written_by(self, phase: str, outcome: str) -> Sequence[PairedOperation]:
        return [
            insert
            for insert in self.inserts
            if insert.type == outcome
            and PHASE_ORDER.get(phase_of(insert), 1) <= PHASE_ORDER[phase]
            and not self.may_be_gone(insert)
        ]

    def is_followed(self, insert: PairedOperation) -> bool:
        """Check that no possible RENAME concerns the key of this row: under another name it is not looked for."""
        keys = set(self.keys[insert.index])
        return not any({change.argument["column"], change.argument["to"]} & keys for change in self._renames)

    def missed_on_the_way(self, insert: PairedOperation) -> PairedOperation | None:
        """Return a read before the final phases that had to list the row of a write acknowledged before it, and did not; None: there is none.

        Left out: rows that anything may have removed, of a table that may have been dropped, or written with skewed clocks beside a DELETE.
        """
        row, key = insert.argument["row"], self.keys[insert.index]
        if insert.type != "ok" or not self.is_followed(insert) or self.moves or self.texts or self.may_be_gone(insert):
            return None
        if any(can_follow(drop, insert) for drop in self._drops):
            return None
        if self._find_dated_later(insert):
            return None
        for read in self._reads_on_the_way.of(row):
            binds = insert.entirely_before(read.operation) and read.shared(key) and self._must_list(read, insert)
            if binds and self.must_meet(insert, read.operation) and not self._is_shown(insert, read):
                return read.operation
        return None

    def went_with_the_table(self, insert: PairedOperation, phase: str) -> bool:
        """Check that a possible DROP can have taken this row, and that no node shows its table in this phase."""
        key = self.table.keyspace, self.table.name
        schemas = self.evidence.shown.of(phase)
        is_shown = any(key in schema.tables or ("table", *key) in schema.live for schema in schemas)
        return bool(schemas) and not is_shown and any(can_follow(drop, insert) for drop in self._drops)

    def fate(self, insert: PairedOperation, phase: str) -> Fate:
        """Decide the fate of a due row from the reads of this phase."""
        row, key = insert.argument["row"], self.keys[insert.index]
        later = [
            read
            for read in self._reads[phase]
            if insert.entirely_before(read.operation) and read.lists(row) and read.shared(key)
        ]
        showing = [read for read in later if self._is_shown(insert, read)]
        holders = frozenset(read.operation.node or "" for read in showing if consistency_of(read.operation) in _ALONE)
        binding = [read for read in later if read.operation.type == "ok" and self._must_list(read, insert)]
        missed = [read.operation for read in binding if self.must_meet(insert, read.operation) and read not in showing]
        if missed:
            return Fate("lost", tuple(missed), holders)
        if showing:
            return Fate("shown", (), holders)
        alone = [read.operation for read in binding if consistency_of(read.operation) in _ALONE]
        decided = any(
            read.operation.type == "info" or (consistency_of(read.operation) == "ALL" and read.operation.type == "ok")
            for read in later
        )
        all_answered = bool(self._nodes) and {read.node for read in alone} >= self._nodes
        if all_answered and not decided and self._every_node_is_a_replica():
            return Fate("lost", tuple(alone), holders)
        return Fate("unread")

    def _cells(self, insert: PairedOperation) -> Sequence[str]:
        """Return the written columns outside the primary key."""
        row = insert.argument["row"]
        return [c for c in row if c not in self.keys[insert.index] and row[c] is not None]

    def _must_list(self, read: _Read, insert: PairedOperation) -> bool:
        """Check that the read names a column of the row that is still there: a row without a marker is not returned without one."""
        if not self._needs_cells(insert):
            return True
        cells = self._cells(insert)
        named = [c for c in cells if read.columns is None or c in read.columns]
        return not cells or any(not self.may_be_dropped(cell, insert) for cell in named)

    def _list_lifetimes(self) -> Sequence[tuple[PairedOperation, float]]:
        """List the possible changes that set a time to live of rows, with its seconds."""
        found: list[tuple[PairedOperation, float]] = []
        for change in self.changes:
            options = (change.argument.get("options") or {}) if change.f in {"create-table", "alter-options"} else {}
            lifetime = options.get("default_time_to_live")
            if lifetime not in (None, 0, "0"):
                found.append((change, float(str(lifetime))))
        return found

    def may_have_expired(self, insert: PairedOperation) -> bool:
        """Check whether a time to live that the row may have got was over at the last read; clocks may be ahead."""
        return any(
            can_follow(insert, change) and insert.invoked + (lifetime - 2 * self._ahead_s) * 1e9 <= self._last_read
            for change, lifetime in self._lifetimes
        )

    @cached_property
    def _ahead_s(self) -> float:
        return max((abs(fault.skew_s) for fault in self.evidence.notes.faults), default=0.0)

    @cached_property
    def _last_read(self) -> int:
        return max((r.operation.completed or 0 for reads in self._reads.values() for r in reads), default=0)

    def _may_have_expired_with(self, insert: PairedOperation) -> bool:
        """Check whether later inserts of the same key may have replaced all of the row, and may have expired themselves."""
        expired = [
            other
            for other in (self._by_key[self.key(insert)] if self._lifetimes else ())
            if other is not insert
            and other.argument.get("form") != "update"  # an UPDATE leaves the row's own marker as it is
            and (can_follow(other, insert) or may_be_dated_later(other, insert, self.evidence.notes))
            and self.may_have_expired(other)
        ]
        replaced = {cell for other in expired for cell in self._cells(other)}
        return bool(expired) and replaced.issuperset(self._cells(insert))

    @cached_property
    def _by_key(self) -> Mapping[bytes, Sequence[PairedOperation]]:
        """The possible inserts of each primary key."""
        found: dict[bytes, list[PairedOperation]] = {}
        for insert in self.inserts:
            if insert.possible:
                found.setdefault(self.key(insert), []).append(insert)
        return found

    def _list_moves(self) -> Sequence[PairedOperation]:
        """List the possible ALTER KEYSPACEs, if the keyspace may have had another replication: rows are not moved by it."""
        changes = self.evidence.changes.on(self._keyspace)
        settings = [change for change in changes if change.f in {"create-keyspace", "alter-keyspace"}]
        moves = [change for change in settings if change.f == "alter-keyspace"]
        values = {orjson.dumps(c.argument["replication"], option=orjson.OPT_SORT_KEYS) for c in settings}
        return [] if len(values) == 1 and len(moves) < len(settings) else moves

    def _every_node_is_a_replica(self) -> bool:
        creates = self.evidence.changes.creates(self._keyspace)
        factors = [create.argument["replication"].get("replication_factor", 0) for create in creates]
        return bool(factors) and all(int(factor) >= len(self._nodes) for factor in factors)

    @property
    def _keyspace(self) -> SchemaObject:
        return SchemaObject("keyspace", self.table.keyspace, "")


def may_be_dated_later(earlier: PairedOperation, later: PairedOperation, notes: Notes) -> bool:
    """Check whether skewed clocks may have given the earlier of two writes the later timestamp, or the same.

    A server's timestamps do not go back while it runs, so a clock that was ahead counts after it was put right, too.
    """
    ended = earlier.completed if earlier.completed is not None and earlier.type != "info" else None
    if ended is None or ended >= later.invoked:
        return True
    begun = [fault for fault in notes.faults if fault.begins <= later.invoked and fault.offsets]
    ahead = max((fault.offsets.get(earlier.node or "", 0.0) for fault in begun), default=0.0)
    behind = min((fault.offsets.get(later.node or "", 0.0) for fault in begun), default=0.0)
    return bool(begun) and ended + max(ahead, 0.0) * 1e9 >= later.invoked + min(behind, 0.0) * 1e9


def overlaps(write: PairedOperation, read: PairedOperation) -> bool:
    """Check that any replicas that acknowledged the write must share one with any that answered the read."""
    written_at, read_at = consistency_of(write), consistency_of(read)
    return written_at == "ALL" or read_at == "ALL" or (written_at in _QUORUMS and read_at in _QUORUMS)


def _is_of(changes: SchemaChanges, table: SchemaObject, lookup: PairedOperation) -> bool:
    """Check that nothing but this table, or a view of it, can have had the name that a lookup reads."""
    through = looked_up(lookup)
    if through is None or through.subject.kind == "index":
        return True
    keyspace, name = through.subject.keyspace, through.subject.name
    bases = {create.argument["base"] for create in changes.creates(through.subject)}
    is_alone = not changes.creates(SchemaObject("table", keyspace, name)) and not changes.texts(keyspace)
    return bases == {table.name} and is_alone


def _may_touch_rows(statement: PairedOperation, table: SchemaObject) -> bool:
    tokens = str(statement.argument["statement"]).split(None, 1)
    if not statement.possible or (tokens and tokens[0].lower() in _LEAVES_ROWS_ALONE):
        return False
    keyspace = keyspace_of(statement.key)
    return keyspace in {None, table.keyspace} or table.keyspace in str(statement.argument["statement"])
