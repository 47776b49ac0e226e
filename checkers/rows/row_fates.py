"""Row fates: of every row that was written to one table, what the final reads say became of it.

A row whose INSERT was acknowledged is *due* in every later read of a final phase that lists it, unless something
possible may have removed it: a DROP of its table or keyspace, a delete of its key, a DROP of every column it was
written to, a time to live, a statement in free text, a change of the keyspace's replication. Nor is it due in a table
that was dropped and that nobody can have made again.

Which read has to show it:
- one at ALL; and one at QUORUM, if the row was acknowledged by a QUORUM too: any two quorums share a replica;
- where no read at ALL succeeded, the reads at ONE of all nodes together, if every node is a replica: a coordinator that
  is a replica itself answers such a read from its own disk. Only if every node of the cluster answered.
A single read at ONE need not show anything; it tells which node has the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, can_follow
from schemaquake.checkers.rows.row_operations import (
    PHASE_ORDER,
    RowOperations,
    consistency,
    frozen_value,
    key_columns,
    phase,
)
from schemaquake.checkers.schema.judge import Case
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import keyspace_of

__all__ = ["Fate", "TableRows", "overlaps"]

_QUORUMS: Final = frozenset({"QUORUM", "LOCAL_QUORUM", "EACH_QUORUM", "ALL"})
_ALONE: Final = frozenset({"ONE", "LOCAL_ONE"})
_LEAVES_ROWS_ALONE: Final = frozenset({"select", "use", "list", "grant", "revoke", "describe", "desc"})


@dataclass(frozen=True, slots=True)
class Fate:
    """What a phase's reads say of one row: `lost` names the reads that had to show it, `untold` that none could tell."""

    told: Literal["shown", "lost", "untold"]
    reads: tuple[PairedOperation, ...] = ()
    holders: frozenset[str] = frozenset()
    """Nodes whose read at ONE showed the row."""


class _Read:
    """One completed read, its rows looked up by any of their columns."""

    def __init__(self, operation: PairedOperation) -> None:
        self.operation = operation
        self.columns: frozenset[str] | None = (
            None if operation.argument["columns"] is None else frozenset(operation.argument["columns"])
        )
        self.where: Mapping[str, JSON] = operation.argument.get("where") or {}
        self.rows: Sequence[Mapping[str, Any]] = operation.value["rows"] if operation.type == "ok" else ()
        self._by: dict[tuple[str, ...], frozenset[bytes]] = {}

    def shared(self, key: Iterable[str]) -> tuple[str, ...]:
        """The columns of this key that the read names."""
        return tuple(column for column in key if self.columns is None or column in self.columns)

    def lists(self, row: Mapping[str, JSON]) -> bool:
        """Whether the row is among those that were asked for."""
        return all(column in row and row[column] == value for column, value in self.where.items())

    def shows(self, row: Mapping[str, JSON], key: Iterable[str]) -> bool:
        """Whether a row with this key, as far as the read names it, was read."""
        columns = self.shared(key)
        if columns not in self._by:
            whole = (shown for shown in self.rows if shown.keys() >= set(columns))
            self._by[columns] = frozenset(frozen_value(shown, columns) for shown in whole)
        return bool(columns) and frozen_value(row, columns) in self._by[columns]


class TableRows:
    """One table's rows: what was written, what may have removed it, and what was read in the end."""

    def __init__(self, case: Case, rows: RowOperations, table: SchemaObject) -> None:
        self.case = case
        self.table = table
        self.inserts: Sequence[PairedOperation] = rows.inserts.get(table, ())
        self.deletes = [delete for delete in rows.deletes.get(table, ()) if delete.possible]
        self.keys = {i.index: key_columns(case.changes, table, i.argument["row"]) for i in self.inserts}
        self.changes = case.changes.on(table)
        self.texts = [text for text in case.changes.all if text.f == "cql" and _may_touch_rows(text, table)]
        finals = [read for read in rows.reads.get(table, ()) if phase(read) in {"settled", "restarted"}]
        self._reads = {p: [_Read(read) for read in finals if phase(read) == p] for p in ("settled", "restarted")}
        self._removals = [*case.changes.drops(table), *self.texts]
        self._nodes = rows.nodes | {schema.node for schema in case.readings.schemas}
        self._certain = self._keeps_rows()

    def reads(self, of: str) -> Sequence[PairedOperation]:
        """The reads of a final phase, failed ones too."""
        return [read.operation for read in self._reads[of]]

    def key(self, insert: PairedOperation) -> bytes:
        """The primary key of what was inserted, with the names of its columns."""
        return frozen_value(insert.argument["row"], self.keys[insert.index])

    def may_be_gone(self, insert: PairedOperation) -> bool:
        """Whether anything possible can have removed this row after it was written."""
        if not self._certain or consistency(insert) == "ANY" or not self.keys[insert.index]:
            return True
        if any(can_follow(removal, insert) for removal in self._removals):
            return True
        row = insert.argument["row"]
        if any(
            can_follow(delete, insert) and all(row.get(c) == v for c, v in delete.argument["where"].items())
            for delete in self.deletes
        ):
            return True
        cells = self._cells(insert)
        return bool(cells) and all(self.may_be_dropped(cell, insert) for cell in cells)

    def may_be_dropped(self, column: str, insert: PairedOperation) -> bool:
        """Whether a possible DROP or RENAME of the column can have come after this row was written."""
        return any(
            can_follow(change, insert)
            for change in self.changes
            if (change.f == "drop-column" and change.argument["column"] == column)
            or (change.f == "rename-column" and column in {change.argument["column"], change.argument["to"]})
        )

    def due(self, of: str) -> Sequence[PairedOperation]:
        """The inserts whose rows must be there in this phase."""
        return [
            insert
            for insert in self.inserts
            if insert.type == "ok"
            and PHASE_ORDER.get(phase(insert), 1) <= PHASE_ORDER[of]
            and not self.may_be_gone(insert)
        ]

    def fate(self, insert: PairedOperation, of: str) -> Fate:
        """What became of a row that is due, as the reads of this phase tell it."""
        row, key = insert.argument["row"], self.keys[insert.index]
        later = [
            read
            for read in self._reads[of]
            if insert.entirely_before(read.operation) and read.lists(row) and read.shared(key)
        ]
        showing = [read for read in later if read.shows(row, key)]
        holders = frozenset(read.operation.node or "" for read in showing if consistency(read.operation) in _ALONE)
        bound = [read for read in later if read.operation.type == "ok" and self._must_list(read, insert)]
        blind = [read.operation for read in bound if overlaps(insert, read.operation) and read not in showing]
        if blind:
            return Fate("lost", tuple(blind), holders)
        if showing:
            return Fate("shown", (), holders)
        alone = [read.operation for read in bound if consistency(read.operation) in _ALONE]
        decided = any(
            read.operation.type == "info" or (consistency(read.operation) == "ALL" and read.operation.type == "ok")
            for read in later
        )
        everybody = bool(self._nodes) and {read.node for read in alone} >= self._nodes
        if everybody and not decided and self._every_node_is_a_replica():
            return Fate("lost", tuple(alone), holders)
        return Fate("untold")

    def _cells(self, insert: PairedOperation) -> Sequence[str]:
        """The columns beside the key that were written."""
        row = insert.argument["row"]
        return [c for c in row if c not in self.keys[insert.index] and row[c] is not None]

    def _must_list(self, read: _Read, insert: PairedOperation) -> bool:
        """Whether the read names something of the row that is still there: by Thrift, a row without it is not read."""
        cells = self._cells(insert)
        named = [c for c in cells if read.columns is None or c in read.columns]
        return not cells or any(not self.may_be_dropped(cell, insert) for cell in named)

    def _keeps_rows(self) -> bool:
        """Whether nothing in the table's own definition makes rows go or move."""
        changes = self.case.changes
        options = (c.argument.get("options") or {} for c in self.changes if c.f in {"create-table", "alter-options"})
        if any(option.get("default_time_to_live") not in (None, 0, "0") for option in options):
            return False
        creates = changes.creates(self.table)
        if any(not any(can_follow(create, drop) for create in creates) for drop in changes.drops(self.table)):
            return False  # nothing has made the table again: whatever was written to it since need not stay
        if any(change.f == "alter-keyspace" for change in changes.on(self._keyspace)):
            return False
        keys = {column for key in self.keys.values() for column in key}
        renames = [change for change in self.changes if change.f == "rename-column"]
        return not any({change.argument["column"], change.argument["to"]} & keys for change in renames)

    def _every_node_is_a_replica(self) -> bool:
        creates = self.case.changes.creates(self._keyspace)
        factors = [create.argument["replication"].get("replication_factor", 0) for create in creates]
        return bool(factors) and all(int(factor) >= len(self._nodes) for factor in factors)

    @property
    def _keyspace(self) -> SchemaObject:
        return SchemaObject("keyspace", self.table.keyspace, "")


def overlaps(write: PairedOperation, read: PairedOperation) -> bool:
    """Whether some replica that acknowledged the one takes part in the other, whichever they were."""
    asked, answered = consistency(write), consistency(read)
    return "ALL" in {asked, answered} or {asked, answered} <= _QUORUMS


def _may_touch_rows(text: PairedOperation, table: SchemaObject) -> bool:
    words = str(text.argument["statement"]).split(None, 1)
    if not text.possible or (words and words[0].lower() in _LEAVES_ROWS_ALONE):
        return False
    keyspace = keyspace_of(text.key)
    return keyspace in {None, table.keyspace} or table.keyspace in str(text.argument["statement"])
