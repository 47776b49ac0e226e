"""The plain table of races whose subject is not the table's definition: an integer key and a text."""

from __future__ import annotations

from schemaquake.harness.ddl.schema_changes import create_table
from schemaquake.harness.model.steps import Invoke

__all__ = ["plain_table"]


def plain_table(keyspace: str, name: str, *more: tuple[str, str]) -> Invoke:
    """Return CREATE TABLE name (k int, v text, …, PRIMARY KEY (k)); `more` are (column, CQL type)."""
    columns = [("k", "int", "partition_key"), ("v", "text", "regular")]
    return create_table(keyspace, name, columns=[*columns, *((column, kind, "regular") for column, kind in more)])
