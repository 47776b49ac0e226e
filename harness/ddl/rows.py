"""Rows: the reads and writes that show what a schema change did to the data.

| f | key | value when invoked | value when ok |
|---|---|---|---|
| insert | ks.t | `keyspace, table, row: {column: value}, consistency`, `phase`? | the same |
| read-rows | ks.t | `keyspace, table, columns: [..] or null, consistency, phase`, `where`? | the same and `rows: [{column: value}, …]` |
| delete-row | ks.t | `keyspace, table, where: {column: value}, consistency` | the same |
| know-table | ks.t | `keyspace, table, key` | the same |
| read-schema | null | `phase` | `version` (string), `epoch` (int or null), `sample` (of the observations it wrote) |

`phase` is the moment: "prepared" (before the races), "racing", "settled" (after heal and settle), "restarted" (after every
node was restarted). `know-table` asks the coordinator's memory alone whether it has the table, by its partition key: no
replica is asked, so it hurts none. (A row for a table that a replica does not have makes it, up to 2.2, close the
connection, and lose the schema changes that were on their way through it.) `consistency` is the driver's name: ONE, QUORUM, ALL, SERIAL …
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.steps import Invoke

__all__ = ["delete_row", "insert", "know_table", "read_rows"]


def insert(keyspace: str, table: str, row: Mapping[str, JSON], *, consistency: str, phase: str | None = None) -> Invoke:
    """INSERT one row; values are JSON scalars, and a map for a user-defined type."""
    value: dict[str, Any] = {"keyspace": keyspace, "table": table, "row": dict(row), "consistency": consistency}
    if phase is not None:
        value["phase"] = phase
    return Invoke("insert", f"{keyspace}.{table}", value)


def read_rows(
    keyspace: str,
    table: str,
    *,
    consistency: str,
    phase: str,
    columns: Sequence[str] | None = None,
    where: Mapping[str, JSON] | None = None,
) -> Invoke:
    """SELECT `columns` (all when null) FROM the table, every row or those equal to `where` (its partition key)."""
    value: dict[str, Any] = {
        "keyspace": keyspace,
        "table": table,
        "columns": None if columns is None else list(columns),
        "consistency": consistency,
        "phase": phase,
    }
    if where is not None:
        value["where"] = dict(where)
    return Invoke("read-rows", f"{keyspace}.{table}", value)


def know_table(keyspace: str, table: str, *, key: str = "k") -> Invoke:
    """Ask the coordinator whether it knows the table: ok if it does, fail if not."""
    return Invoke("know-table", f"{keyspace}.{table}", {"keyspace": keyspace, "table": table, "key": key})


def delete_row(keyspace: str, table: str, where: Mapping[str, JSON], *, consistency: str) -> Invoke:
    """DELETE the row whose primary key is `where`."""
    value = {"keyspace": keyspace, "table": table, "where": dict(where), "consistency": consistency}
    return Invoke("delete-row", f"{keyspace}.{table}", value)
