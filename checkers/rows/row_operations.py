"""Row operations: inserts, reads and deletes of a history, by table, and the primary key of each row.

From operations of `schemaquake.harness.ddl.rows` and the possible CREATEs. The primary key of a row is made of the key
columns of the possible CREATE TABLEs all of whose key columns the row has; the column `k` where no CREATE is known. Where
several definitions of one name were tried, each row has the key of the one it was written for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaChanges, SchemaObject
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import JSON, NEMESIS
from schemaquake.harness.model.records import plain

__all__ = [
    "KEY_KINDS",
    "PHASE_ORDER",
    "LookedUp",
    "RowOperations",
    "consistency_of",
    "find_key_columns",
    "freeze_columns",
    "looked_up",
    "phase_of",
    "table_of",
]

PHASE_ORDER: Final[Mapping[str | None, int]] = {"prepared": 0, "racing": 1, None: 1, "settled": 2, "restarted": 3}
"""The order of the phases in which rows are written and read. Operations without a label belong to the races."""

KEY_KINDS: Final = frozenset({"partition_key", "clustering"})
_FALLBACK_KEY: Final = ("k",)


class LookedUp(NamedTuple):
    """An index or a view, and the table whose rows it finds."""

    subject: SchemaObject
    table: SchemaObject


class RowOperations:
    """The row operations of a history, each kind by table in order of invocation."""

    def __init__(self, evidence: Evidence) -> None:
        """Sort the row operations of a history by kind and table. Raises HistoryError."""
        self.inserts: dict[SchemaObject, list[PairedOperation]] = {}
        self.reads: dict[SchemaObject, list[PairedOperation]] = {}
        self.deletes: dict[SchemaObject, list[PairedOperation]] = {}
        """DELETEs and TRUNCATEs: a TRUNCATE has an empty `where`, which every row matches."""
        self.lookups: dict[SchemaObject, list[PairedOperation]] = {}
        """Reads through an index or of a view, by the table whose rows they find. They are not among `reads`."""
        self.nodes: frozenset[str] = evidence.nodes
        """Every node that the history names."""
        self.strangers = _find_shared_keys(plain(evidence.history.select(["process", "f", "key"])))
        """Keys with operations of other kinds, which may write rows too."""
        kinds = {
            "insert": self.inserts,
            "read-rows": self.reads,
            "delete-row": self.deletes,
            "truncate": self.deletes,
        }
        for operation in evidence.operations(kinds):
            found = looked_up(operation)
            by_table = kinds[operation.f] if found is None else self.lookups
            table = table_of(operation) if found is None else found.table
            by_table.setdefault(table, []).append(operation)

    @property
    def tables(self) -> Sequence[SchemaObject]:
        """Every table with a row operation, sorted."""
        return sorted({*self.inserts, *self.reads, *self.deletes, *self.lookups})


def _find_shared_keys(events: pa.Table) -> frozenset[str]:
    known = pa.array(sorted({"insert", "read-rows", "delete-row", "truncate", "know-table", "cql"} | SCHEMA_CHANGES))
    others = events.filter(
        pc.and_(pc.not_equal(events["process"], NEMESIS), pc.invert(pc.is_in(events["f"], value_set=known)))
    )
    return frozenset(key for key in pc.unique(others["key"]).to_pylist() if key is not None)


def table_of(operation: PairedOperation) -> SchemaObject:
    """Return the table (or view, which is read like one) of a row operation."""
    return SchemaObject("table", operation.argument["keyspace"], operation.argument["table"])


def looked_up(operation: PairedOperation) -> LookedUp | None:
    """Return the index or view through which an operation reads, and the table of its rows; None for any other operation."""
    argument = operation.argument
    keyspace, table = argument["keyspace"], argument["table"]
    if argument.get("base") is not None:
        return LookedUp(SchemaObject("view", keyspace, table), SchemaObject("table", keyspace, argument["base"]))
    if argument.get("index") is not None:
        return LookedUp(SchemaObject("index", keyspace, argument["index"]), SchemaObject("table", keyspace, table))
    return None


def phase_of(operation: PairedOperation) -> str | None:
    """Return the phase in which the operation was invoked; None: without a label."""
    phase: str | None = operation.argument.get("phase")
    return phase


def consistency_of(operation: PairedOperation) -> str:
    """Return the consistency level of the operation, by the driver's name."""
    level: str = operation.argument["consistency"]
    return level


def find_key_columns(changes: SchemaChanges, table: SchemaObject, row: Iterable[str]) -> tuple[str, ...]:
    """Find the primary key of a row with these columns, in order of names; empty: unknown."""
    columns = frozenset(row)
    keys = [key for key in _list_declared_keys(changes, table) if key <= columns]
    if not keys:
        return _FALLBACK_KEY if columns.issuperset(_FALLBACK_KEY) else ()
    # A longer key distinguishes rows that the shorter key of another definition would merge.
    return tuple(sorted(frozenset().union(*keys)))


def _list_declared_keys(changes: SchemaChanges, table: SchemaObject) -> Iterable[frozenset[str]]:
    for create in changes.creates(table):
        yield frozenset(name for name, _, kind in create.argument["columns"] if kind in KEY_KINDS)


def freeze_columns(row: Mapping[str, JSON], columns: Iterable[str]) -> bytes:
    """Serialize these columns of a row into one value that can be compared and looked up."""
    picked: dict[str, Any] = {column: row[column] for column in columns}
    return orjson.dumps(picked, option=orjson.OPT_SORT_KEYS)
