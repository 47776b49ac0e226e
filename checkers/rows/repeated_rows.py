"""Repeated rows: one read that lists one primary key more than once.

Judges each read of a table, and each through an index or of a view, of every phase and level: whatever a replica has, and however far
it is behind, the answer to one read has each primary key once. The key is that of all possible CREATEs together, under
the names that its columns may have been given since. Where it is not known, or the read does not name all of it, a row is
repeated only if two are equal in every column of a read of all columns.
Finds: `repeated-rows`.
Unknown: statements in free text may have made the table anew with another key.
Source: the definition of a primary key; CEP-21, "mismatches between coordinators and replicas" (a coordinator that merges rows by
another definition).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaChanges, SchemaObject
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.rows.row_operations import KEY_KINDS, RowOperations, consistency_of, freeze_columns, looked_up
from schemaquake.harness.counts import counted
from schemaquake.harness.model.verdict import Anomaly, Doubt

__all__ = ["find_repeated"]


@dataclass(frozen=True, slots=True)
class _Repeated:
    """The rows of one read that it lists more than once, each with the number of times; `key` empty: as a whole."""

    read: PairedOperation
    key: tuple[str, ...]
    rows: Sequence[tuple[Mapping[str, Any], int]]


def find_repeated(evidence: Evidence, operations: RowOperations, table: SchemaObject) -> Iterator[Anomaly | Doubt]:
    """Yield the rows of a table that one read lists twice: all reads of it are one finding."""
    reads = [*operations.reads.get(table, ()), *operations.lookups.get(table, ())]
    found = [
        one for read in reads if read.type == "ok" and (one := _find_in(evidence.changes, table, read)) is not None
    ]
    texts = evidence.changes.texts(table.keyspace)
    proven = [one for one in found if not one.key or not texts]
    if proven:
        yield _report(table, proven)
    elif found:
        text = f"reads list a row twice, and op {texts[0].index}, free text whose meaning is not known, may have given the table another key"
        yield Doubt("undecided", text, (table.key,))


def _find_in(changes: SchemaChanges, table: SchemaObject, read: PairedOperation) -> _Repeated | None:
    rows: Sequence[Mapping[str, Any]] = read.value["rows"]
    if len(rows) < 2:
        return None
    columns = frozenset(rows[0])
    through = looked_up(read)
    subject = through.subject if through is not None and through.subject.kind == "view" else table
    key = _find_key(changes, subject, table, columns)
    if not key and read.argument["columns"] is not None:
        return None
    compared = key or tuple(sorted(columns))
    wanted = set(compared)
    alike: dict[bytes, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row.keys() >= wanted:
            alike.setdefault(freeze_columns(row, compared), []).append(row)
    repeated = [(same[0], len(same)) for same in alike.values() if len(same) > 1]
    return _Repeated(read, key, repeated) if repeated else None


def _find_key(
    changes: SchemaChanges, subject: SchemaObject, table: SchemaObject, columns: frozenset[str]
) -> tuple[str, ...]:
    """Find the columns that tell rows of a table or a view apart, among those that were read; empty: not all are known."""
    key: set[str] = set()
    creates = changes.creates(subject)
    # Where there may be a view of the table's name, its rows may be what was read.
    views = changes.creates(SchemaObject("view", subject.keyspace, subject.name)) if creates else ()
    for create in {one.index: one for one in (*creates, *views)}.values():
        argument = create.argument
        declared = argument["primary_key"] if create.f == "create-view" else _list_key(argument["columns"])
        for name in declared:
            names = changes.names_of_column(table, name) & columns
            if not names:
                return ()
            key |= names
    return tuple(sorted(key))


def _list_key(columns: Sequence[Sequence[str]]) -> Sequence[str]:
    return [name for name, _, kind in columns if kind in KEY_KINDS]


def _report(table: SchemaObject, found: Sequence[_Repeated]) -> Anomaly:
    first = found[0]
    row, count = first.rows[0]
    shown = {column: row[column] for column in first.key} if first.key else row
    return anomaly(
        "repeated-rows",
        objects=[table.key],
        nodes=(one.read.node for one in found if one.read.node),
        ops=[one.read.index for one in found[: LIMITS.operations]],
        evidence={
            "rows": sum(len(one.rows) for one in found),
            "reads": len(found),
            "key": list(first.key),
            "examples": [
                {"read": one.read.index, "row": dict(shown), "times": times}
                for one in found
                for shown, times in one.rows[: LIMITS.examples]
            ][: LIMITS.examples],
        },
        explanation=Argument(
            [first.read],
            f"the answer to one read of {table.key} has each "
            f"{'primary key (' + ', '.join(first.key) + ')' if first.key else 'row'} once.",
            f"T1, at {consistency_of(first.read)} through {first.read.node}, lists {dict(shown)} {count} times. "
            f"{counted(len(found), 'read of the table lists', 'reads of the table list')} a row more than once.",
        ),
    )
