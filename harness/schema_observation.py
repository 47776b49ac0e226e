"""Observations: the vocabulary in which a node's own account of its schema is recorded.

One row an object in `observations.parquet`; `definition` is JSON by `kind`:

| kind | keyspace, name | id | definition |
|---|---|---|---|
| version | null, null | schema version (uuid) | `{"epoch": int or null}`; `memory_error` where memory could not be read |
| keyspace | ks, null | | `{"replication": {…}, "durable_writes": bool}` |
| table | ks, t | table id, 32 hex digits | `{"columns": {name: {"type","kind","position"}}, "dropped_columns": {name: {"type","dropped_time"}}, "options": {name: value}, "indexes": {name: {"kind","target"}}}` |
| view | ks, v | view's id | as table, and `"base_table_id", "base_table_name"` |
| type | ks, u | | `{"fields": [[name, type], …]}` |
| function | ks, f | | `{"arguments": [[name, type], …], "returns": type, "body": text}` |
| aggregate | ks, g | | `{"arguments": [type, …], "state_function","state_type","final_function"}` |
| live | ks, object | | what the node's memory says, in its own words: `{"kind": "table", "statement": "CREATE TABLE …"}` |
| data-directory | ks, t | table id, 32 hex digits | `{"live": bool, "snapshots": [name, …]}`: one row a directory on the node's disk |

A headless table (a row of columns or options without the other half) is observed as it is: a `table` row whose id is
null (columns without a tables row) or whose columns are `{}` (a tables row without columns).

Final readings (phase `settled` and `restarted`) are complete: what has no row is absent. Readings while the run goes on
(`running`) are changes: an object that is gone has one row with a null definition, and an unchanged node only its
`version` row. A node that could not be read has a `version` row with an error and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.operations import JSON

__all__ = ["KINDS", "Observation"]

KINDS: Final = (
    "version",
    "keyspace",
    "table",
    "view",
    "type",
    "function",
    "aggregate",
    "live",
    "data-directory",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One object as one node described it. `time` in ns on the run's clock; `definition` null: it is gone."""

    time: int
    phase: str
    node: str
    sample: int
    kind: str
    keyspace: str | None = None
    name: str | None = None
    id: str | None = None
    definition: JSON = None
    error: str | None = None
