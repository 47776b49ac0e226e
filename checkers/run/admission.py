"""Admission: schema changes and statements that the schema certainly admits, whatever else goes on.

Of a few simple changes everything that a server may object to is in the history: the keyspace or table was created with an
acknowledgement, long enough ago for every node to know it, and nothing possible can have taken it away; the new name was
never used; types and options are known to every release. A refusal of any other change may have a reason that is not
known here, and proves nothing. Reads and writes of rows fit their table if they name its key, and columns that it has, with
values of their types.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from schemaquake.checkers.evidence.cql_types import can_hold
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaChanges, SchemaObject, certainly_applied, target
from schemaquake.harness.model.operation import JSON

__all__ = ["Admission"]

_PLAIN: Final = frozenset({"ascii", "bigint", "blob", "boolean", "double", "float", "int", "text", "uuid", "varchar"})
"""Types that every release has, and that name no other object."""
_SPREAD_NS: Final = 5_000_000_000
"""The time after a change in which not every node need know it, beside the delay of a pull."""


class Admission:
    """The schema of a run, as far as it certainly admits changes."""

    def __init__(self, evidence: Evidence) -> None:
        """Take the evidence of the run. Raises HistoryError."""
        self._changes: SchemaChanges = evidence.changes
        self._by_index = {change.index: change for change in evidence.changes.all}
        self._spread_ns = _SPREAD_NS + int((evidence.notes.pull_delay_s or 0) * 1e9)

    def is_certain(self, index: int) -> bool:
        """Tell if the change of this index certainly was admissible when it was refused."""
        change = self._by_index.get(index)
        if change is None or change.completed is None or not isinstance(change.argument, dict):
            return False
        argument: Mapping[str, Any] = change.argument
        match change.f:
            case "create-table":
                keyspace = SchemaObject("keyspace", argument["keyspace"], "")
                return self._stands(keyspace, change) and self._is_new(change) and _is_plain_table(argument)
            case "add-column":
                name, cql_type, *_ = argument["column"]
                is_plain = cql_type in _PLAIN and not argument.get("static")  # some tables take no static columns
                return is_plain and self._takes_columns(change) and not self._names_column(change, name)
            case "alter-options":
                return set(argument["options"]) == {"comment"} and self._stands(target(change), change)
        return False

    def admits(self, statement: PairedOperation) -> bool:
        """Tell if a read or a write certainly fitted its table, which was there all the time and which every node had long known."""
        argument = statement.argument
        if (
            statement.completed is None
            or not isinstance(argument, dict)
            or not {"keyspace", "table"} <= argument.keys()
        ):
            return False
        table = SchemaObject("table", argument["keyspace"], argument["table"])
        return self._stands(table, statement) and self.fits(statement, part=True)

    def fits(self, statement: PairedOperation, *, part: bool) -> bool:
        """Tell if a read or a write fits every table that it may have met; one that names no columns fits any.

        With `part` it is one of a part of the operations, such as those of one table, which may all be in the hands of
        nodes that learn of the table later: then no change of the table may be young.
        """
        argument = statement.argument
        if not isinstance(argument, dict) or not {"keyspace", "table"} <= argument.keys():
            return True
        ended = statement.invoked if statement.completed is None else statement.completed
        changes = [
            change
            for change in self._changes.on(SchemaObject("table", argument["keyspace"], argument["table"]))
            if change.invoked <= ended
        ]
        # One of unknown outcome may come to be at any later time.
        known = [change.completed for change in changes if change.completed is not None and change.type != "info"]
        if part and (len(known) < len(changes) or any(end + self._spread_ns > statement.invoked for end in known)):
            return False
        row, where = argument.get("row") or {}, argument.get("where") or argument.get("key") or {}
        values = {**row, **where} if isinstance(where, dict) else dict(row)
        columns = {*values, *(argument.get("columns") or ())}
        creates = [change for change in changes if change.f == "create-table"]
        removed = {
            change.argument[name]
            for change in changes
            for name in ("column", "to")
            if change.f in {"drop-column", "rename-column"} and name in change.argument
        }
        return removed.isdisjoint(columns) and all(
            _fits(create, changes, columns, values, row=bool(row)) for create in creates
        )

    def _stands(self, subject: SchemaObject, change: PairedOperation) -> bool:
        """Tell if an object was certainly there, for long enough, all the time of a change."""
        assert change.completed is not None
        removals = [*self._changes.drops(subject), *self._changes.texts(subject.keyspace)]
        if any(removal.invoked <= change.completed for removal in removals):
            return False
        return any(
            certainly_applied(create) and (create.completed or 0) + self._spread_ns < change.invoked
            for create in self._changes.creates(subject)
        )

    def _is_new(self, change: PairedOperation) -> bool:
        """Tell if no other possible change names the object to be created, nor a part of its keyspace by that name."""
        assert change.completed is not None
        subject = target(change)
        return not any(
            other.index != change.index
            and other.invoked <= change.completed
            and (target(other).keyspace, target(other).name) == (subject.keyspace, subject.name)
            for other in self._changes.possible
        )

    def _takes_columns(self, change: PairedOperation) -> bool:
        creates = self._changes.creates(target(change))
        return self._stands(target(change), change) and all(_is_plain_table(create.argument) for create in creates)

    def _names_column(self, change: PairedOperation, column: str) -> bool:
        """Tell if any other possible change of the table may have had to do with a column of that name."""
        return any(
            other.index != change.index and column in _words(other.argument)
            for other in self._changes.on(target(change))
        )


def _fits(
    create: PairedOperation,
    changes: Sequence[PairedOperation],
    columns: Collection[str],
    values: Mapping[str, JSON],
    *,
    row: bool,
) -> bool:
    """Tell if a table of that CREATE has these columns, each of one type that can hold its value; a row has its whole key."""
    declared = {name: (cql_type, kind) for name, cql_type, kind in create.argument.get("columns") or ()}
    added = [change for change in changes if change.f == "add-column" and change.argument["column"][0] in columns]
    types = {name: {declared[name][0]} if name in declared else set() for name in columns}
    for change in added:
        types[change.argument["column"][0]].add(change.argument["column"][1])
    acknowledged = {change.argument["column"][0] for change in added if change.acknowledged}
    key = {name for name, (_, kind) in declared.items() if kind in {"partition_key", "clustering"}}
    return (
        all(len(found) == 1 and found <= _PLAIN for found in types.values())
        and all(can_hold(cql_type, value) for name, value in values.items() for cql_type in types[name])
        and all(name in declared or name in acknowledged for name in columns)
        and (not row or key <= set(columns))
    )


def _words(value: Any) -> frozenset[str]:
    """List the texts of a JSON value."""
    if isinstance(value, str):
        return frozenset({value})
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return frozenset(word for part in parts for word in _words(part))


def _is_plain_table(argument: Mapping[str, Any]) -> bool:
    """Tell if a CREATE TABLE has columns of plain types alone, a partition key, and no options but a comment."""
    columns = argument.get("columns") or ()
    kinds = {kind for _, _, kind in columns}
    return (
        "partition_key" in kinds
        and kinds <= {"partition_key", "clustering", "regular"}
        and all(cql_type in _PLAIN for _, cql_type, _ in columns)
        and len({name for name, _, _ in columns}) == len(columns)
        and set(argument.get("options") or ()) <= {"comment"}
    )
