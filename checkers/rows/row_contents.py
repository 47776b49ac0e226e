"""Row contents: cells and rows in the final reads of one table, by key or through its indexes and views, that no write explains.

- *changed*: a cell reads as a value that no INSERT of its row wrote, or as null although an acknowledged INSERT wrote
  a value. Not judged: static columns, columns that may have been renamed since, user-defined types with fields that may, and types
  whose values have several spellings. A null counts only in a read by key that overlaps with the write, of a column that was not dropped.
- *revived*: every write of this key had ended before a DROP of the table (or its keyspace, or a
  delete of the key) began, which was acknowledged before the read began; and the table was created anew. A TRUNCATE removes
  for certain only what was acknowledged at ALL: a write that is still on its way to a replica comes after it. What was removed while a reload
  went on (`schemaquake.checkers.evidence.reloads`) may be there again. A lookup that lists a deleted row is a doubt where a replica may have missed
  the delete, which the others do not contradict (CASSANDRA-8272), or where a view may still be behind its table.
- *unwritten*: no INSERT of the history has this key.
- *returned*: a cell of a column that was dropped and added again reads as a value from before: every write of this value to its row had
  ended before a DROP of the column began, which was acknowledged before the read began. Servers go by timestamps: where clocks may have
  been apart by more than lies between the write and the DROP, where a time was named in the DROP, or where files were loaded again, it
  is not decided. Before Cassandra 2.0 a dropped column kept its cells (CASSANDRA-3919); no workload drops any there.

A view of the table's name may be what was read: rows that its base may have had are not unwritten, and the others are doubts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from schemaquake.checkers.evidence.cql_types import canonical, user_types
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, can_follow
from schemaquake.checkers.rows.row_fates import ByWhere, Cause, MatchedRow, TableRows, may_be_dated_later, overlaps
from schemaquake.checkers.rows.row_operations import RowOperations, consistency_of, freeze_columns, looked_up
from schemaquake.checkers.rows.same_values import is_comparable, same_value
from schemaquake.harness.model.operation import JSON

__all__ = [
    "ChangedCell",
    "StrangeRow",
    "find_ambiguous",
    "find_changed_cells",
    "find_returned_cells",
    "find_strange_rows",
    "list_exact_types",
]

_ONE_CLOCK_NS: Final = 100_000_000
_CLOCKS_APART_NS: Final = 60_000_000_000
"""Clocks that nothing shifts on purpose are less apart than this: of nodes that share the harness's clock, and of any."""

_NULLS: Final[tuple[JSON, ...]] = (None, [], {})
"""What a server stores as null."""


@dataclass(frozen=True, slots=True)
class ChangedCell:
    """A cell whose value differs from every written one, or was dropped; `inserts` are those of its row, or those that wrote the value.

    `drop` is the DROP of its column after which the value is back; None: no INSERT wrote it. `doubtful` are operations that may be why, although that is not known.
    """

    read: PairedOperation
    inserts: tuple[PairedOperation, ...]
    column: str
    value: JSON
    doubtful: tuple[Cause, ...] = ()
    drop: PairedOperation | None = None


@dataclass(frozen=True, slots=True)
class StrangeRow:
    """A row that was read and should not exist. `removal` ended it; None: no INSERT has its key.

    `doubtful` are operations that may be why, although that is not known.
    """

    read: PairedOperation
    row: Mapping[str, Any]
    inserts: tuple[PairedOperation, ...]
    removal: PairedOperation | None
    doubtful: tuple[Cause, ...] = ()


def find_changed_cells(rows: TableRows, phase: str) -> Iterator[ChangedCell]:
    """Yield every changed cell in the reads of this phase, once for each read."""
    types = list_exact_types(rows)
    for matched in rows.matched(phase) if types else ():
        read, row, key, inserts = matched
        for column in sorted(types.keys() & row.keys() - set(key)):
            # A view may have been built of a part of the row.
            is_left_out = row[column] is None and looked_up(read) is not None
            if not is_left_out and not _is_explained(rows, matched, column, types[column]):
                # Rows that were not moved, or deleted with a later timestamp, are read without a value, not with another.
                causes: Sequence[Cause] = rows.texts
                if row[column] is None:
                    lost = (one for insert in inserts for one in rows.find_lost_disks(insert, [read]))
                    causes = [*rows.find_doubtful(inserts[0], phase), *lost]
                yield ChangedCell(read, inserts, column, row[column], (*causes, *rows.find_namesakes(read, row)))


def find_returned_cells(rows: TableRows, phase: str) -> Iterator[ChangedCell]:
    """Yield every cell in the reads of this phase that is back after a DROP of its column, once for each read."""
    drops = rows.certain_column_drops
    types = list_exact_types(rows) if drops else {}
    for matched in rows.matched(phase) if types else ():
        read, row, key, inserts = matched
        for column in sorted(types.keys() & drops.keys() & row.keys() - set(key)):
            value = row[column]
            if value in _NULLS:
                continue
            writers = tuple(
                insert
                for insert in inserts
                if (written := insert.argument["row"].get(column)) is not None
                and same_value(value, written, cql_type=types[column], nulls_match=True)
            )
            drop = _find_drop_of_all(drops[column], read, writers)
            if drop is None or any(rows.may_be_renamed(column, insert) for insert in writers):
                continue
            doubtful = (*find_ambiguous(rows, drop, writers), *rows.texts, *rows.find_namesakes(read, row))
            yield ChangedCell(read, writers, column, value, doubtful, drop)


def _find_drop_of_all(
    drops: Sequence[PairedOperation], read: PairedOperation, writers: Sequence[PairedOperation]
) -> PairedOperation | None:
    """Find the last of these drops that came after every write of a value, of which one was acknowledged, and before its read."""
    if not any(insert.type == "ok" for insert in writers):
        return None
    return next(
        (
            drop
            for drop in reversed(drops)
            if drop.entirely_before(read) and all(insert.entirely_before(drop) for insert in writers)
        ),
        None,
    )


def find_ambiguous(
    rows: TableRows, later: PairedOperation, writers: Sequence[PairedOperation]
) -> Sequence[PairedOperation]:
    """Return a later DROP or write if its timestamp may not be later than those of all these writes, or a reload may have brought them back."""
    notes = rows.evidence.notes
    apart = _CLOCKS_APART_NS if notes.begins_ms is None else _ONE_CLOCK_NS
    is_ambiguous = (
        later.argument.get("timestamp") is not None
        or max(insert.completed or 0 for insert in writers) + apart >= later.invoked
        or rows.may_be_put_back(later)
        or any(may_be_dated_later(insert, later, notes) for insert in writers)
    )
    return [later] if is_ambiguous else []


def find_strange_rows(
    rows: TableRows, operations: RowOperations, evidence: Evidence, phase: str
) -> Iterator[StrangeRow]:
    """Yield every row that the reads of this phase should not show, once for each read."""
    if rows.table.key in operations.strangers or not evidence.changes.creates(rows.table):
        return
    texts = tuple(rows.texts)
    drops = [drop for drop in _list_certain_drops(evidence, rows.table) if not rows.may_be_put_back(drop)]
    deletes = [delete for delete in rows.deletes if delete.type == "ok" and not rows.may_be_put_back(delete)]
    if deletes and rows.forgets_deletes:
        deletes = []
    by_key = ByWhere((delete, delete.argument["where"]) for delete in deletes)
    for read, row, _key, inserts in rows.matched(phase) if drops or deletes else ():
        removal = _find_removal(drops, by_key, read, inserts, row)
        if removal is not None:
            views = rows.find_namesakes(read, row)
            doubtful = (
                *texts,
                *_find_misdated(rows, removal, inserts),
                *_find_moved(rows, removal),
                *(rows.find_lost_disks(removal, [read]) if removal.f == "delete-row" else ()),
                *_find_behind(read, removal),
                *views,
            )
            yield StrangeRow(read, row, inserts, removal, doubtful)
    yield from (replace(one, doubtful=(*one.doubtful, *texts)) for one in _find_unwritten(rows, phase))


def _find_misdated(
    rows: TableRows, removal: PairedOperation, inserts: Sequence[PairedOperation]
) -> tuple[PairedOperation, ...]:
    """Return the INSERTs that skewed clocks may have given a later timestamp than the delete that came after them."""
    if removal.f not in {"delete-row", "truncate"}:
        return ()
    return tuple(insert for insert in inserts if may_be_dated_later(insert, removal, rows.evidence.notes))


def _find_behind(read: PairedOperation, removal: PairedOperation) -> Sequence[PairedOperation]:
    """Return the delete if an index or a view may still list, on some replica, the row that it took."""
    through = looked_up(read)
    if through is None or removal.f not in {"delete-row", "truncate"}:
        return ()
    is_everywhere = through.subject.kind == "index" and consistency_of(removal) == "ALL"
    return () if is_everywhere else [removal]


def _find_moved(rows: TableRows, removal: PairedOperation) -> Sequence[PairedOperation]:
    """Return the ALTER KEYSPACEs that may have left the row's replicas to be those that the delete did not have to reach."""
    if removal.f != "delete-row" or consistency_of(removal) == "ALL":
        return ()
    return [move for move in rows.moves if can_follow(move, removal)]


# ── changed ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def list_exact_types(rows: TableRows) -> Mapping[str, str]:
    """Map each column with a single declared type, whose values can be compared, to that type."""
    declared: dict[str, set[str]] = {}
    renamed_fields = any(
        change.f == "rename-field" and change.argument["keyspace"] == rows.table.keyspace
        for change in rows.evidence.changes.possible
    )
    for change in rows.changes:
        if change.f == "create-table":
            for name, cql_type, kind in change.argument["columns"]:
                declared.setdefault(name, set()).add("static " if kind == "static" else canonical(cql_type))
        elif change.f == "add-column":
            name, cql_type = change.argument["column"]
            declared.setdefault(name, set()).add(canonical(cql_type))
    return {
        name: next(iter(types))
        for name, types in declared.items()
        if len(types) == 1
        and "static " not in types
        and all(map(is_comparable, types))
        # A field may be one of a type within the type that is named.
        and not (renamed_fields and any(user_types(one, keyspace=rows.table.keyspace) for one in types))
    }


def _list_binding(rows: TableRows, matched: MatchedRow) -> Sequence[PairedOperation]:
    """List the acknowledged INSERTs whose row the read must show: nothing can have removed it."""
    return [
        insert
        for insert in matched.inserts
        if insert.type == "ok"
        and insert.entirely_before(matched.read)
        and rows.must_meet(insert, matched.read)
        and not rows.may_be_gone(insert)
    ]


def _is_explained(rows: TableRows, matched: MatchedRow, column: str, cql_type: str) -> bool:
    """Check that some order of the INSERTs of this row explains the value of the cell."""
    inserts, value = matched.inserts, matched.row[column]
    # Failed INSERTs count too: if one did write, its outcome was classified wrongly, and the row is not damaged.
    values = [insert.argument["row"].get(column) for insert in inserts]
    is_as_written = all(written in _NULLS for written in values) if value is None else value in values
    if is_as_written or any(rows.may_be_renamed(column, insert) for insert in inserts):
        return True
    required = any(insert.argument["row"].get(column) not in _NULLS for insert in _list_binding(rows, matched))
    if value is None:
        written_as_null = any(column in i.argument["row"] and i.argument["row"][column] in _NULLS for i in inserts)
        # A cell that was written over is not there again when what is over it has expired.
        expired = any(column in i.argument["row"] and rows.may_have_expired(i) for i in inserts)
        dropped = any(rows.may_be_dropped(column, insert) for insert in inserts)
        return written_as_null or expired or dropped or not required
    return any(
        same_value(value, written, cql_type=cql_type, nulls_match=not required)
        for written in values
        if written is not None
    )


# ── revived, unwritten ───────────────────────────────────────────────────────────────────────────────────────────────


def _find_removal(
    drops: Sequence[PairedOperation],
    deletes: ByWhere[PairedOperation],
    read: PairedOperation,
    inserts: Sequence[PairedOperation],
    row: Mapping[str, Any],
) -> PairedOperation | None:
    """Find an operation of these that certainly removed the row, after every write of its key and before the read."""
    if not any(insert.type == "ok" for insert in inserts):
        return None
    of_key = sorted(deletes.of(row), key=lambda delete: delete.index)
    removals = [drop for drop in drops if drop.entirely_before(read)]
    removals += [delete for delete in of_key if delete.entirely_before(read) and overlaps(delete, read)]
    return next((removal for removal in removals if all(_is_removed(insert, removal) for insert in inserts)), None)


def _is_removed(insert: PairedOperation, removal: PairedOperation) -> bool:
    everywhere = removal.f != "truncate" or (insert.type == "ok" and consistency_of(insert) == "ALL")
    return insert.entirely_before(removal) and everywhere


def _list_certain_drops(evidence: Evidence, table: SchemaObject) -> Sequence[PairedOperation]:
    """List the DROPs that certainly removed the table, and after which it was certainly created again."""
    creates = [create for create in evidence.changes.creates(table) if create.acknowledged]
    return [
        drop
        for drop in evidence.changes.drops(table)
        if _is_certain_drop(drop) and any(create.type == "ok" and can_follow(create, drop) for create in creates)
    ]


def _is_certain_drop(drop: PairedOperation) -> bool:
    if not drop.acknowledged:
        return False
    answer = drop.value if isinstance(drop.value, dict) else {}
    return not drop.argument.get("if_exists") or answer.get("applied") is True


def _find_unwritten(rows: TableRows, phase: str) -> Iterator[StrangeRow]:
    """Yield rows whose key no INSERT has, by any definition of the table: the rows of several may be read mixed up, which is doubtful."""
    creates = _list_creates(rows)
    keys = set(rows.keys.values()) | {_find_declared_key(create) for create in creates}
    if not all(keys):
        return
    # A read may name a part of the key; under a name that was given or taken away an INSERT may have written another column.
    renames = (change.argument for change in rows.changes if change.f == "rename-column")
    renamed = {name for rename in renames for name in (rename["column"], rename["to"])}
    written: dict[tuple[str, ...], frozenset[bytes]] = {}
    parts_of: dict[tuple[str, ...], frozenset[tuple[str, ...]]] = {}  # by the columns of a row: most have the same
    for read in rows.listings(phase):
        for row in read.value["rows"]:
            shape = tuple(row)
            if shape not in parts_of:
                shown = {key: tuple(column for column in key if column in row) for key in keys}
                is_named = all(part and (part == key or renamed.isdisjoint(part)) for key, part in shown.items())
                parts_of[shape] = frozenset(shown.values() if is_named else ())
            parts = parts_of[shape]
            for shared in parts - written.keys():
                known = (insert.argument["row"] for insert in rows.inserts)
                written[shared] = frozenset(freeze_columns(one, shared) for one in known if one.keys() >= set(shared))
            if not parts or any(freeze_columns(row, shared) in written[shared] for shared in parts):
                continue
            if not rows.find_namesakes(read, row):
                yield StrangeRow(read, row, (), None, doubtful=tuple(creates) if len(keys) > 1 else ())


def _list_creates(rows: TableRows) -> Sequence[PairedOperation]:
    return [change for change in rows.changes if change.f == "create-table"]


def _find_declared_key(create: PairedOperation) -> tuple[str, ...]:
    kinds = {"partition_key", "clustering"}
    return tuple(sorted(name for name, _, kind in create.argument["columns"] if kind in kinds))
