"""Row contents: what the final reads of one table show that nothing which was written explains.

- *changed*: a cell reads as a value that no INSERT of its row put there, or as null although one that was acknowledged
  did. Not judged: static columns, columns that may have been dropped or renamed since, types whose values have several
  spellings. A null counts only in a read that overlaps with the write.
- *revived*: everything that was ever written under this key had ended before a DROP of the table (or its keyspace, or a
  delete of the key) began, which was acknowledged before the read began; and the table was created anew.
- *unwritten*: nobody ever wrote under this key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemaquake.checkers.evidence.cql_types import canonical
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, can_follow
from schemaquake.checkers.rows.row_fates import TableRows, overlaps
from schemaquake.checkers.rows.row_operations import RowOperations, frozen_value
from schemaquake.checkers.rows.same_values import comparable, same_value
from schemaquake.checkers.schema.judge import Case
from schemaquake.harness.model.operation import JSON

__all__ = ["ChangedCell", "StrangeRow", "changed_cells", "strange_rows"]


@dataclass(frozen=True, slots=True)
class ChangedCell:
    """A cell that reads otherwise than it was written; `inserts` are those of its row."""

    read: PairedOperation
    inserts: tuple[PairedOperation, ...]
    column: str
    value: JSON


@dataclass(frozen=True, slots=True)
class StrangeRow:
    """A row that was read and should not be: `removal` is what ended it, None if nobody wrote it."""

    read: PairedOperation
    row: Mapping[str, Any]
    inserts: tuple[PairedOperation, ...]
    removal: PairedOperation | None


def changed_cells(rows: TableRows, of: str) -> Iterator[ChangedCell]:
    """Every cell that the reads of this phase show changed, once for each read."""
    if rows.texts:
        return
    types = _exact_types(rows)
    for read, row, key, inserts in _matched(rows, of):
        for column in sorted(types.keys() & row.keys() - set(key)):
            if not _explained(rows, read, inserts, column, row[column], types[column]):
                yield ChangedCell(read, inserts, column, row[column])


def strange_rows(rows: TableRows, operations: RowOperations, case: Case, of: str) -> Iterator[StrangeRow]:
    """Every row that the reads of this phase should not show, once for each read."""
    if rows.texts or rows.table.key in operations.strangers or not case.changes.creates(rows.table):
        return
    for read, row, _key, inserts in _matched(rows, of):
        removal = _end(rows, case, read, inserts, row)
        if removal is not None:
            yield StrangeRow(read, row, inserts, removal)
    yield from _unwritten(rows, of)


def _matched(
    rows: TableRows, of: str
) -> Iterator[tuple[PairedOperation, Mapping[str, Any], tuple[str, ...], tuple[PairedOperation, ...]]]:
    """(read, row, key, inserts under this key) of all that was read and somebody tried to write."""
    written: dict[tuple[str, ...], dict[bytes, list[PairedOperation]]] = {}
    for insert in rows.inserts:
        written.setdefault(rows.keys[insert.index], {}).setdefault(rows.key(insert), []).append(insert)
    for read in rows.reads(of):
        for row in read.value["rows"] if read.type == "ok" else ():
            for key, inserts in written.items():
                found = inserts.get(frozen_value(row, key)) if key and row.keys() >= set(key) else None
                if found:
                    yield read, row, key, tuple(found)


# ── changed ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _exact_types(rows: TableRows) -> Mapping[str, str]:
    """The type of every column that was declared with one type only, and whose values can be compared."""
    declared: dict[str, set[str]] = {}
    renamed_fields = any(
        change.f == "rename-field" and change.argument["keyspace"] == rows.table.keyspace
        for change in rows.case.changes.possible
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
        if len(types) == 1 and "static " not in types and all(map(comparable, types)) and not renamed_fields
    }


def _explained(
    rows: TableRows,
    read: PairedOperation,
    inserts: Sequence[PairedOperation],
    column: str,
    value: JSON,
    cql_type: str,
) -> bool:
    """Whether some order of these INSERTs explains that the cell was read so."""
    if any(rows.may_be_dropped(column, insert) for insert in inserts):
        return True
    # One that failed is taken along: if it did write, then its outcome was classed wrongly, not its row damaged.
    values = [insert.argument["row"].get(column) for insert in inserts]
    must_be_there = [
        insert
        for insert, written in zip(inserts, values, strict=True)
        if insert.type == "ok"
        and written not in (None, [], {})
        and insert.entirely_before(read)
        and overlaps(insert, read)
        and not rows.may_be_gone(insert)
    ]
    if value is None:
        nulled = any(column in i.argument["row"] and i.argument["row"][column] in (None, [], {}) for i in inserts)
        return nulled or not must_be_there
    return any(
        same_value(value, written, cql_type=cql_type, nulls_match=not must_be_there)
        for written in values
        if written is not None
    )


# ── revived, unwritten ───────────────────────────────────────────────────────────────────────────────────────────────


def _end(
    rows: TableRows,
    case: Case,
    read: PairedOperation,
    inserts: Sequence[PairedOperation],
    row: Mapping[str, Any],
) -> PairedOperation | None:
    """What certainly removed the row after everything that was written under its key, and before the read."""
    if not any(insert.type == "ok" for insert in inserts):
        return None
    ends = [drop for drop in _certain_ends(case, rows.table) if drop.entirely_before(read)]
    ends += [
        delete
        for delete in (() if _forgets_deletes(rows) else rows.deletes)
        if delete.type == "ok"
        and delete.entirely_before(read)
        and overlaps(delete, read)
        and all(column in row and row[column] == value for column, value in delete.argument["where"].items())
    ]
    return next((end for end in ends if all(insert.entirely_before(end) for insert in inserts)), None)


def _forgets_deletes(rows: TableRows) -> bool:
    """Whether the time for which deletes are remembered was set: then a deleted row may come back by design."""
    return any("gc_grace_seconds" in (change.argument.get("options") or {}) for change in rows.changes)


def _certain_ends(case: Case, table: SchemaObject) -> Sequence[PairedOperation]:
    """The DROPs that certainly removed the table, and after which it was certainly created anew."""
    creates = [create for create in case.changes.creates(table) if create.acknowledged]
    return [
        drop
        for drop in case.changes.drops(table)
        if _certainly_dropped(drop) and any(create.type == "ok" and can_follow(create, drop) for create in creates)
    ]


def _certainly_dropped(drop: PairedOperation) -> bool:
    if not drop.acknowledged:
        return False
    told = drop.value if isinstance(drop.value, dict) else {}
    return not drop.argument.get("if_exists") or told.get("applied") is True


def _unwritten(rows: TableRows, of: str) -> Iterator[StrangeRow]:
    """Only where every row has the same key: the rows of several definitions of one name may be read mixed up."""
    keys = set(rows.keys.values()) | {_declared_key(create) for create in _creates(rows)}
    if len(keys) != 1 or not next(iter(keys)):
        return
    (key,) = keys
    written = {rows.key(insert) for insert in rows.inserts}
    for read in rows.reads(of):
        for row in read.value["rows"] if read.type == "ok" else ():
            if row.keys() >= set(key) and frozen_value(row, key) not in written:
                yield StrangeRow(read, row, (), None)


def _creates(rows: TableRows) -> Sequence[PairedOperation]:
    return [change for change in rows.changes if change.f == "create-table"]


def _declared_key(create: PairedOperation) -> tuple[str, ...]:
    kinds = {"partition_key", "clustering"}
    return tuple(sorted(name for name, _, kind in create.argument["columns"] if kind in kinds))
