"""Rows: the reads and writes that show what a schema change did to the data.

| f | key | value when invoked | value when ok |
|---|---|---|---|
| insert | ks.t | `keyspace, table, row: {column: value}, consistency`, `phase`?, `form`?, `key`?, `beside`? | the same |
| read-rows | ks.t | `keyspace, table, columns: [..] or null, consistency, phase`, `where`?, `index` or `base`? | the same and `rows: [{column: value}, …]` |
| delete-row | ks.t | `keyspace, table, where: {column: value}, consistency`, `columns`? | the same |
| truncate | ks.t | `keyspace, table, where: {}, consistency: "ALL"` | the same |
| know-table | ks.t | `keyspace, table, key` | the same |
| read-schema | null | `phase` | `version` (string), `epoch` (int or null), `sample` (of the observations it wrote) |

`phase` is the moment: "prepared" (before the races), "racing", "settled" (after heal and settle), "restarted" (after every
node was restarted). `know-table` asks the coordinator's memory alone whether it has the table, by its partition key: no
replica is asked, so it hurts none. (A row for a table that a replica does not have makes it, up to 2.2, close the
connection, and lose the schema changes that were on their way through it.) `consistency` is the driver's name: ONE, QUORUM, ALL, SERIAL …

`form` is the statement by which the row is written, if it is no plain INSERT: "update" (`key` names the columns of the primary
key), "conditional" (INSERT … IF NOT EXISTS; a row that was there is a `fail`), or "batch" (a logged batch of the INSERT and of a DELETE of
`beside`, a key that no row has: two partitions, so that the batch log takes part). A read is a *lookup* if it names the `index` or the `base` table
by which it finds rows: it reads the table by an indexed column, or the materialized view of that base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.steps import Invoke

__all__ = ["WriteForm", "delete_row", "insert", "know_table", "read_rows", "truncate"]

WriteForm: TypeAlias = Literal["update", "conditional", "batch"]
"""Statements, beside a plain INSERT, by which one row is written."""


def insert(
    keyspace: str,
    table: str,
    row: Mapping[str, JSON],
    *,
    consistency: str,
    phase: str | None = None,
    form: WriteForm | None = None,
    key: Sequence[str] | None = None,
    beside: Mapping[str, JSON] | None = None,
) -> Invoke:
    """INSERT one row, or write it by another `form`; values are JSON scalars, and a map for a user-defined type."""
    value: dict[str, Any] = {"keyspace": keyspace, "table": table, "row": dict(row), "consistency": consistency}
    more = {"phase": phase, "form": form, "key": key and list(key), "beside": beside and dict(beside)}
    value |= {name: entry for name, entry in more.items() if entry is not None}
    return Invoke("insert", f"{keyspace}.{table}", value)


def read_rows(
    keyspace: str,
    table: str,
    *,
    consistency: str,
    phase: str,
    columns: Sequence[str] | None = None,
    where: Mapping[str, JSON] | None = None,
    index: str | None = None,
    base: str | None = None,
) -> Invoke:
    """SELECT `columns` (all when null) FROM the table, every row or those equal to `where`: its partition key, or the column of `index`.

    With `base` the table is a materialized view of it.
    """
    value: dict[str, Any] = {
        "keyspace": keyspace,
        "table": table,
        "columns": None if columns is None else list(columns),
        "consistency": consistency,
        "phase": phase,
    }
    more = {"where": where and dict(where), "index": index, "base": base}
    value |= {name: entry for name, entry in more.items() if entry is not None}
    return Invoke("read-rows", f"{keyspace}.{table}", value)


def know_table(keyspace: str, table: str, *, key: str = "k") -> Invoke:
    """Ask the coordinator whether it knows the table: ok if it does, fail if not."""
    return Invoke("know-table", f"{keyspace}.{table}", {"keyspace": keyspace, "table": table, "key": key})


def delete_row(
    keyspace: str,
    table: str,
    where: Mapping[str, JSON],
    *,
    consistency: str,
    columns: Sequence[str] | None = None,
) -> Invoke:
    """DELETE the row whose primary key is `where`, or these columns of it, which leaves the row."""
    value: dict[str, Any] = {"keyspace": keyspace, "table": table, "where": dict(where), "consistency": consistency}
    if columns is not None:
        value["columns"] = list(columns)
    return Invoke("delete-row", f"{keyspace}.{table}", value)


def truncate(keyspace: str, table: str) -> Invoke:
    """TRUNCATE the table: remove every row on every node, or fail."""
    value = {"keyspace": keyspace, "table": table, "where": {}, "consistency": "ALL"}
    return Invoke("truncate", f"{keyspace}.{table}", value)
