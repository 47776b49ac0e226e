"""Unasked rows: a read that lists rows of another key than was asked for, more of a key than were ever written, or what was refused.

Judges each read of a table, of every phase and level. A row whose column differs from the value that the read, or a lookup through an index
or a view, asked for comes from no table. Of a read that names a part of the primary key alone, no more rows have one value of it than INSERTs may have written; that is
judged where the key is known and nothing but INSERTs can have written rows; there a row, and an integer in it, must also come from an
INSERT that was not refused, and a row from one that had begun before the read was answered. An INSERT IF NOT EXISTS was not applied only
if another INSERT may have written its row by then. Columns of the key go by the names that they were created with, where no two of them can have had one name. All are doubts: an answer shows no cause, and a refusal may have been classified wrongly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import NoneType
from typing import Any

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject
from schemaquake.checkers.rows.row_operations import KEY_KINDS, RowOperations, freeze_columns
from schemaquake.harness.model.operation import CONDITION_FALSE
from schemaquake.harness.model.verdict import Doubt

__all__ = ["find_unasked"]


def find_unasked(evidence: Evidence, operations: RowOperations, table: SchemaObject) -> Iterator[Doubt]:
    """Yield at most one doubt of each kind about a table, for the first such read."""
    reads = [read for read in operations.reads.get(table, ()) if read.type == "ok"]
    lookups = [lookup for lookup in operations.lookups.get(table, ()) if lookup.type == "ok"]
    other = next((read for read in (*reads, *lookups) if _lists_another_key(read)), None)
    if other is not None:
        text = f"op {other.index} asked for {dict(other.argument['where'])} and lists rows that are not"
        yield Doubt("undecided", text, (table.key,))
    born = _find_names(evidence, table)
    inserts = [_with_names(insert, born) for insert in operations.inserts.get(table, ())]
    reads = [_with_names(read, born) for read in reads]
    key = _find_key(evidence, operations, table, inserts)
    yield from _find_refused(inserts, table, key, reads) if key else ()
    yield from islice(_find_baseless(inserts, table, key) if key else (), 1)
    by_part: dict[tuple[str, ...], list[PairedOperation]] = {}
    for read in reads if key else ():
        by_part.setdefault(_shown(read, key), []).append(read)
    parts = sorted(by_part.keys() - {(), key})
    doubts = (doubt for part in parts for doubt in _count(inserts, table, key, by_part[part]))
    yield from islice(doubts, 1)


def _find_names(evidence: Evidence, table: SchemaObject) -> Mapping[str, str]:
    """Map each name that a column of the key may have got to the one that it was created with; those that tell of no single one are left out."""
    changes = evidence.changes
    declared = [column for create in changes.creates(table) for column in create.argument["columns"]]
    others = {name for name, _, kind in declared if kind not in KEY_KINDS}
    others |= {change.argument["column"][0] for change in changes.on(table) if change.f == "add-column"}
    origins: dict[str, set[str]] = {}
    for first in {name for name, _, kind in declared if kind in KEY_KINDS}:
        for name in changes.names_of_column(table, first):
            origins.setdefault(name, set()).add(first)
    return {name: min(firsts) for name, firsts in origins.items() if len(firsts) == 1 and name not in others}


def _with_names(operation: PairedOperation, born: Mapping[str, str]) -> PairedOperation:
    """Return an INSERT or an answered read with the columns of its rows under the names that they were created with."""

    def rename(row: Mapping[str, Any]) -> Mapping[str, Any]:
        return {born.get(name, name): value for name, value in row.items()}

    if all(name == first for name, first in born.items()):
        return operation
    if operation.f == "insert":
        return replace(operation, argument={**operation.argument, "row": rename(operation.argument["row"])})
    return replace(operation, value={**operation.value, "rows": [rename(row) for row in operation.value["rows"]]})


def _find_baseless(inserts: Sequence[PairedOperation], table: SchemaObject, key: tuple[str, ...]) -> Iterator[Doubt]:
    """Yield the INSERTs that were not applied because their row was there, and whose row no other INSERT can have written before they ended."""
    lost = [insert for insert in inserts if (insert.error or "").startswith(CONDITION_FALSE)]
    writers: dict[bytes, list[PairedOperation]] = {}
    for insert in inserts if lost else ():
        if insert not in lost:
            writers.setdefault(freeze_columns(insert.argument["row"], key), []).append(insert)
    for insert in lost:
        others = writers.get(freeze_columns(insert.argument["row"], key), ())
        if all(insert.entirely_before(other) for other in others):
            text = f"op {insert.index} was not applied because its row was there, and no other INSERT can have written it by then"
            yield Doubt("undecided", text, (table.key,))


def _find_refused(
    inserts: Sequence[PairedOperation], table: SchemaObject, key: tuple[str, ...], reads: list[PairedOperation]
) -> Iterator[Doubt]:
    """Yield the first read that lists what refused INSERTs alone, or those that began after it, can have written.

    What a condition refused another one wrote.
    """
    refused: dict[bytes, list[PairedOperation]] = {}
    possible: dict[bytes, list[PairedOperation]] = {}
    for insert in inserts:
        by_key = refused if insert.type == "fail" and insert.argument.get("form") != "conditional" else possible
        by_key.setdefault(freeze_columns(insert.argument["row"], key), []).append(insert)
    for read in reads:
        for row in read.value["rows"]:
            frozen = freeze_columns(row, key) if set(key) <= row.keys() else b""
            early = [insert for insert in possible.get(frozen, ()) if not read.entirely_before(insert)]
            odd = [insert for insert in refused.get(frozen, ()) if _wrote_alone(insert, row, early)]
            if odd:
                text = f"op {read.index} lists what op {odd[0].index} alone can have written, which was refused"
                yield Doubt("undecided", text, (table.key,))
                return
            if frozen in possible and not early:
                first = possible[frozen][0]
                text = f"op {read.index} lists a row of which op {first.index} was the first INSERT, which began only after it was answered"
                yield Doubt("undecided", text, (table.key,))
                return


def _wrote_alone(refused: PairedOperation, row: Mapping[str, Any], possible: Sequence[PairedOperation]) -> bool:
    """Tell if no other INSERT of its key can have written the row, or an integer of it that this one was to write."""
    if not possible:
        return True
    wanted = refused.argument["row"]
    return any(
        type(value) is int
        and wanted.get(name) == value
        and all(type(one.argument["row"].get(name)) in {int, NoneType} for one in possible)
        and all(one.argument["row"].get(name) != value for one in possible)
        for name, value in row.items()
    )


def _lists_another_key(read: PairedOperation) -> bool:
    where = read.argument.get("where")
    if not isinstance(where, Mapping):
        return False
    # Values of other types may be read in another spelling than the one in which they were asked for.
    plain = {name: value for name, value in where.items() if type(value) is int}
    return any(
        type(row.get(name)) is int and row[name] != value for row in read.value["rows"] for name, value in plain.items()
    )


def _find_key(
    evidence: Evidence, operations: RowOperations, table: SchemaObject, inserts: Sequence[PairedOperation]
) -> tuple[str, ...]:
    """Find the primary key, in order of names; empty: not known, or rows may have been written that are no INSERT's."""
    changes = evidence.changes
    keys = {
        tuple(sorted(name for name, _, kind in create.argument["columns"] if kind in KEY_KINDS))
        for create in changes.creates(table)
    }
    if len(keys) != 1 or changes.texts(table.keyspace) or table.key in operations.strangers:
        return ()
    (key,) = keys
    if (
        not {name for first in key for name in changes.names_of_column(table, first)}
        <= _find_names(evidence, table).keys()
    ):
        return ()  # a name that is that of two columns tells of neither
    is_whole = all(set(key) <= insert.argument["row"].keys() for insert in inserts)
    return key if is_whole else ()


def _shown(read: PairedOperation, key: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of the key that all rows of a read have."""
    return tuple(name for name in key if all(name in row for row in read.value["rows"]))


def _count(
    inserts: Sequence[PairedOperation], table: SchemaObject, key: tuple[str, ...], reads: list[PairedOperation]
) -> Iterator[Doubt]:
    """Compare the rows of reads that show the same part of the key with all that may have been written."""
    shown = _shown(reads[0], key)
    written: dict[bytes, set[bytes]] = {}
    for insert in inserts:
        if insert.type != "fail":
            row: Mapping[str, Any] = insert.argument["row"]
            written.setdefault(freeze_columns(row, shown), set()).add(freeze_columns(row, key))
    for read in reads:
        counts = Counter(freeze_columns(row, shown) for row in read.value["rows"])
        more = [frozen for frozen, count in counts.items() if count > max(1, len(written.get(frozen, ())))]
        if more:
            text = f"op {read.index} lists {counts[more[0]]} rows of {more[0].decode()}, and {len(written.get(more[0], ()))} were written"
            yield Doubt("undecided", text, (table.key,))
            return
