"""Row operations: inserts, reads and deletes of a history, by table, with what identifies a row in each.

From operations of `schemaquake.harness.ddl.rows` and the possible CREATEs. A row is known by its primary key: the key columns of the
possible CREATE TABLEs that the row has all columns of; where no CREATE tells, the column `k`. Of several definitions of
one name that were all tried, each row has the key of the one it was written for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.operations import PairedOperation, operations
from schemaquake.checkers.evidence.schema_changes import SchemaChanges, SchemaObject
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import JSON, NEMESIS
from schemaquake.harness.model.records import plain

__all__ = [
    "PHASE_ORDER",
    "RowOperations",
    "consistency",
    "frozen_value",
    "key_columns",
    "phase",
    "table_of",
]

PHASE_ORDER: Final[Mapping[str | None, int]] = {"prepared": 0, "racing": 1, None: 1, "settled": 2, "restarted": 3}
"""When a row was written or read; without a label it was while the races went on."""

_KEY_KINDS: Final = frozenset({"partition_key", "clustering"})
_FALLBACK_KEY: Final = ("k",)


class RowOperations:
    """The row operations of a history, each kind by table in order of invocation."""

    def __init__(self, history: pa.Table) -> None:
        """Read them from a history (`schemaquake.harness.model.records.HISTORY`). Raises HistoryError."""
        told = plain(history)
        concerned = pc.is_in(told["f"], value_set=pa.array(["insert", "read-rows", "delete-row"]))
        self.inserts: dict[SchemaObject, list[PairedOperation]] = {}
        self.reads: dict[SchemaObject, list[PairedOperation]] = {}
        self.deletes: dict[SchemaObject, list[PairedOperation]] = {}
        self.nodes: frozenset[str] = frozenset(n for n in pc.unique(told["node"]).to_pylist() if n is not None)
        """Every node that the history names."""
        self.strangers = _otherwise_used(told)
        """Keys on which there are operations of other kinds, which may write rows too."""
        kinds = {"insert": self.inserts, "read-rows": self.reads, "delete-row": self.deletes}
        for operation in operations(told.filter(concerned)):
            kinds[operation.f].setdefault(table_of(operation), []).append(operation)

    @property
    def tables(self) -> Sequence[SchemaObject]:
        """Every table that a row operation is about, sorted."""
        return sorted({*self.inserts, *self.reads, *self.deletes})


def _otherwise_used(told: pa.Table) -> frozenset[str]:
    known = pa.array(sorted({"insert", "read-rows", "delete-row", "know-table", "cql"} | SCHEMA_CHANGES))
    others = told.filter(
        pc.and_(pc.not_equal(told["process"], NEMESIS), pc.invert(pc.is_in(told["f"], value_set=known)))
    )
    return frozenset(key for key in pc.unique(others["key"]).to_pylist() if key is not None)


def table_of(operation: PairedOperation) -> SchemaObject:
    """The table (or view, which is read like one) that a row operation is about."""
    return SchemaObject("table", operation.argument["keyspace"], operation.argument["table"])


def phase(operation: PairedOperation) -> str | None:
    """The phase that the operation says it belongs to."""
    told: str | None = operation.argument.get("phase")
    return told


def consistency(operation: PairedOperation) -> str:
    """The driver's name of the consistency that was asked for."""
    told: str = operation.argument["consistency"]
    return told


def key_columns(changes: SchemaChanges, table: SchemaObject, row: Iterable[str]) -> tuple[str, ...]:
    """The primary key of a row with these columns, in order of names; empty if nothing tells which they are."""
    columns = frozenset(row)
    keys = [key for key in _declared_keys(changes, table) if key <= columns]
    if not keys:
        return _FALLBACK_KEY if columns.issuperset(_FALLBACK_KEY) else ()
    # A longer key tells rows apart that a shorter one of another definition takes for one.
    return tuple(sorted(frozenset().union(*keys)))


def _declared_keys(changes: SchemaChanges, table: SchemaObject) -> Iterable[frozenset[str]]:
    for create in changes.creates(table):
        yield frozenset(name for name, _, kind in create.argument["columns"] if kind in _KEY_KINDS)


def frozen_value(row: Mapping[str, JSON], columns: Iterable[str]) -> bytes:
    """These columns of a row as one value that can be compared and looked up."""
    picked: dict[str, Any] = {column: row[column] for column in columns}
    return orjson.dumps(picked, option=orjson.OPT_SORT_KEYS)
