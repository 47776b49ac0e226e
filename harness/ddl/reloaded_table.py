"""The table that the nemesis `reload-table` drops, creates anew and loads: what it and the workload of its rows both know of it."""

from __future__ import annotations

from typing import Final

from schemaquake.harness.ddl.schema_changes import create_table
from schemaquake.harness.model.context import Context
from schemaquake.harness.model.steps import Invoke

__all__ = ["RELOADED_ROWS", "TABLE", "WANING", "create_reloaded", "reloaded_keyspace"]

RELOADED_ROWS: Final = "reloaded-rows"
"""The workload that creates the table and writes its rows."""
TABLE: Final = "r"
WANING: Final = "w"
"""The column that the table may lose before its files are taken up."""


def reloaded_keyspace(context: Context) -> str:
    """Return the keyspace of the table."""
    return f"{context.keyspace_prefix}_{RELOADED_ROWS.replace('-', '_')}"


def create_reloaded(context: Context) -> Invoke:
    """CREATE the table, as it was and as it is again."""
    columns = [("k", "int", "partition_key"), ("v", "int", "regular"), (WANING, "int", "regular")]
    return create_table(reloaded_keyspace(context), TABLE, columns=columns)
