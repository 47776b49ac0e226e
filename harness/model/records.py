"""Records: the three tables a run leaves behind, as Arrow schemas, and the bundle a checker judges.

- *history*: one row an event, ordered by one monotonic clock (`HISTORY`).
- *observations*: what each node itself said of its schema, and what its data directories hold (`OBSERVATIONS`).
- *logs*: the warnings and errors of every node's own log (`LOGS`).

Columns of few distinct values are dictionaries on disk; engines hand them over as plain strings, so a checker calls
`plain` once at its door.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

__all__ = ["HISTORY", "LEAN_MOPS", "LOGS", "MOPS", "MOP_NAMES", "OBSERVATIONS", "Records", "keyspace_of", "plain"]

_NAME: Final = pa.dictionary(pa.int32(), pa.string())

MOPS: Final = pa.list_(
    pa.struct([("f", pa.string()), ("k", pa.int64()), ("v", pa.int64()), ("vs", pa.list_(pa.int64()))])
)
"""Micro-operations of a transaction: `v` is the element appended or written, `vs` the list that was read."""

MOP_NAMES: Final = ("r", "append", "w")

LEAN_MOPS: Final = pa.list_(
    pa.struct([("f", pa.int8()), ("k", pa.int32()), ("v", pa.int32()), ("vs", pa.list_(pa.int32()))])
)
"""The same in memory, if all numbers fit into 32 bits: `f` is the place in `MOP_NAMES` (`schemaquake.harness.history.lean_mops`)."""

HISTORY: Final = pa.schema(
    [
        pa.field("index", pa.int64(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),  # ns since the run started
        pa.field("process", pa.int32(), nullable=False),  # −1 is the nemesis
        pa.field("type", _NAME, nullable=False),  # invoke, ok, fail, info
        pa.field("f", _NAME, nullable=False),
        pa.field("node", _NAME),
        pa.field("key", pa.string()),  # "keyspace" or "keyspace.name" for schema objects and tables
        pa.field("value", pa.string()),  # JSON
        pa.field("error", pa.string()),
        pa.field("mops", MOPS),
    ]
)

OBSERVATIONS: Final = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),  # ns since the run started, when the read was answered
        pa.field("phase", _NAME, nullable=False),  # running, settled, restarted
        pa.field("node", _NAME, nullable=False),
        pa.field("sample", pa.int64(), nullable=False),  # one number a full or partial reading of one node
        pa.field("kind", _NAME, nullable=False),  # see schemaquake.harness.model.observation
        pa.field("keyspace", pa.string()),  # null: the node as a whole
        pa.field("name", pa.string()),  # within the keyspace; null for the keyspace itself
        pa.field("id", pa.string()),  # table id as 32 hex digits, schema version, epoch
        pa.field("definition", pa.string()),  # JSON; null: the object is absent
        pa.field("error", pa.string()),  # the reading itself failed, in the server's words
    ]
)

LOGS: Final = pa.schema(
    [
        pa.field("node", _NAME, nullable=False),
        pa.field("boot", pa.int32(), nullable=False),  # 0 the first start, 1 after the first restart, …
        pa.field("line", pa.int64(), nullable=False),  # in the node's log, from 1
        pa.field("timestamp", pa.string()),  # as the node wrote it
        pa.field(
            "level", _NAME, nullable=False
        ),  # WARN, ERROR, FATAL; others where a rule names the text, and the first of a start
        pa.field("thread", pa.string()),
        pa.field("message", pa.string(), nullable=False),  # the first line
        pa.field("stack", pa.string()),  # what followed: exception and first frames
    ]
)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Records:
    """The tables that a checker judges. They follow `HISTORY`, `OBSERVATIONS` and `LOGS`, sorted by index, (time, node), (node, line).

    Records are equal only to themselves, so that derived values can be cached by them.
    """

    history: pa.Table
    observations: pa.Table
    logs: pa.Table

    @classmethod
    def of(cls, history: pa.Table, observations: pa.Table | None = None, logs: pa.Table | None = None) -> Records:
        """Bundle a history with empty tables for those not given."""
        return cls(
            history,
            OBSERVATIONS.empty_table() if observations is None else observations,
            LOGS.empty_table() if logs is None else logs,
        )


def plain(table: pa.Table) -> pa.Table:
    """Return the table with dictionary columns as plain strings."""
    for position, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            text = field.type.value_type
            table = table.set_column(position, field.with_type(text), table.column(position).cast(text))
    return table.replace_schema_metadata(None)


def keyspace_of(key: str | None) -> str | None:
    """Return the keyspace of a key: `"ks"` and `"ks.name"` both belong to `ks`; a null key belongs to the run."""
    return None if key is None else key.split(".", 1)[0]
