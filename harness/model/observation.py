"""Observations: the vocabulary in which a node's own account of its schema is recorded.

One row an object in `observations.parquet`; `definition` is JSON by `kind`:

| kind | keyspace, name | id | definition |
|---|---|---|---|
| version | null, null | schema version (uuid) | `{"epoch": int or null}`; `memory` where the system shows its memory: `"statements"` or `"columns"`; `memory_error` where it could not be read; `told_from: "memory"` where the disk cannot be (0.7–1.0); up to 1.1 `versions`, the node's list of all nodes by version, which is empty on simulated ones; `authority` where it is not the disk (`log`, `group0`): the source that decides what the schema is; `group0` and `barrier` where changes go through a Raft group (see below) |
| keyspace | ks, null | | `{"replication": {…}, "durable_writes": bool}` |
| table | ks, t | table id, 32 hex digits | `{"columns": {name: {"type","kind","position"}}, "dropped_columns": {name: {"type","dropped_time"}}, "options": {name: value}, "indexes": {name: {"kind","target"}}}` |
| view | ks, v | view's id | as table, and `"base_table_id", "base_table_name"` |
| type | ks, u | | `{"fields": [[name, type], …]}` |
| function | ks, f | | `{"arguments": [[name, type], …], "returns": type, "body": text}` |
| aggregate | ks, g | | `{"arguments": [type, …], "state_function","state_type","final_function"}` |
| live | ks, object | null; in a row that says that the object is gone, its kind | what the node's memory says, in its own words (see below): `{"kind": "table", "statement": "CREATE TABLE …"}` |
| log | null, null | | `{"changes": [[id, epoch, description], …], "cut": bool}`: the newest entries of the log of changes that the node keeps, oldest first, and whether there may be older ones; `{"error": words}` where it refuses to tell; final readings only |
| ring | null, null | | the node's own account of the members: `{"self": member, "peers": {address: member}, "gossip": {address: status} or null, "directory": {address: {"host_id","state","tokens","sequence"}} or null}`, a member being `{"address","host_id","tokens","dc","rack"}`; final readings only |
| ownership | null, null | | the replicas as the node describes them: `{keyspace: {"ranges": [[start, end, [address, …]], …]}}`, tokens as text, or `{keyspace: {"error": words}}`; final readings of runs that change the topology |
| epochs | null, null | | the entries of the metadata log that the node has, in order: `{"entries": [[epoch, kind, entry id], …]}`; final readings only |
| data-directory | ks, t | table id, 32 hex digits; null up to 2.0 | `{"live": bool, "snapshots": [name, …]}`: one row a directory on the node's disk |

A clustering column has its `"order"` too, `asc` or `desc`, from 3.0 on.

A headless table (a row of columns or options without the other half) is observed as it is: a `table` row whose id is
null and whose options are `{}` (columns without a tables row) or whose columns are `{}` (a tables row without columns).
An id that is null beside options is one that this line does not tell (1.2 and 2.0 compute it from the table's names);
a column's type is empty, and a dropped column's null, where only half of it is known. Its kind is `untold` where
definitions do not say which column is the key (0.7).

Where changes go through a Raft group (ScyllaDB) a `version` row has `"group0"`: `{"id", "upgrade_state", "schema_version", "members": [server id, …], "voters":
[…], "topology": {"version", "fence_version", "transition_state", "upgrade_state"}, "nodes": {host id: state}}`, without what
its release does not tell, and in final readings `"barrier"`: `{"passed": bool, "seconds", "why"}`: whether the node had
first caught up with all that was committed. Its epoch is the time (100 ns) of its newest change; a table's definition has
what only ScyllaDB knows under `"scylla"`. A table or a view that the server keeps for its own ends (behind an index, or for
captured changes) has `"derived_from"`, the name of the object it is kept for: no statement created it.

A node that can describe its memory (4.0 and later, and 1.1) tells every object that it has there, and what has no row is absent.
An earlier one is asked, in final readings only, for each table and view that its disk has, and each has one row:
`{"kind": "table", "columns": {name: type}}` as it serves it (types in the driver's spelling: to be compared with other
nodes' memories, not with disks), `{"kind": "table", "refusal": text}` where it knows no such table, and
`{"kind": "table"}` with an error where its answer says nothing of its memory.

Final readings (phase `settled` and `restarted`) are complete: what has no row is absent. Readings while the run goes on
(`running`) are changes: an object that is gone has one row with a null definition, and an unchanged node only its
`version` row. A node that could not be read has a `version` row with an error and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from schemaquake.harness.model.operation import JSON

__all__ = ["KINDS", "Observation", "kind_in_memory", "reading"]

KINDS: Final = (
    "version",
    "keyspace",
    "table",
    "view",
    "type",
    "function",
    "aggregate",
    "live",
    "log",
    "ring",
    "ownership",
    "epochs",
    "data-directory",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One object as one node described it. `time` in ns on the run's clock; `definition` is null if it is gone."""

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


def kind_in_memory(kind: str, identity: str | None, definition: JSON) -> str | None:
    """Return the kind of the object that a `live` row is about; None for other rows, and where it is not told.

    Objects of different kinds may share a name: a type and a table, say.
    """
    if kind != "live":
        return None
    told = definition.get("kind") if isinstance(definition, Mapping) else identity
    return "view" if str(told).startswith("materialized") else told


def reading(*, phase: str, node: str, sample: int) -> Callable[..., Observation]:
    """Return a function that makes the observations of one reading of one node, each with its own time.

    The function takes kind, keyspace and name by position, and the other fields by name.
    """

    def observed(kind: str, keyspace: str | None, name: str | None, **rest: Any) -> Observation:
        return Observation(
            time=time.monotonic_ns(),
            phase=phase,
            node=node,
            sample=sample,
            kind=kind,
            keyspace=keyspace,
            name=name,
            **rest,
        )

    return observed
