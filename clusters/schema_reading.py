"""Schema reading: one node's own account of its schema, from its local tables and from its memory.

`system_schema.*` and `system.local` are node-local on 3.0 and later, so a session pinned to a node reads what that node
has on disk; `DESCRIBE SCHEMA` (4.0+) is answered from what it has in memory. The two may differ on 4.0–5.0, and no
agreement check sees it: that is why both are read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import orjson

from clusters.data_directories import SYSTEM_KEYSPACES
from harness.operations import JSON
from harness.schema_observation import Observation

__all__ = ["Query", "digest", "read_schema", "read_version"]

Query = Callable[[str], Iterable[Mapping[str, Any]]]
"""Runs one statement on the pinned node at consistency ONE and returns its rows as mappings."""

_IDENTITY: Final = frozenset({"keyspace_name", "table_name", "view_name", "id", "base_table_id", "base_table_name"})


def read_version(query: Query, era: str) -> tuple[str, int | None]:
    """(schema version, epoch of the last schema change); the epoch is null before 6.0.

    On 6.0 the schema version is UUID(0, epoch): its low 64 bits count, and can be ordered.
    """
    for row in query("SELECT schema_version FROM system.local WHERE key = 'local'"):
        version: UUID | None = row["schema_version"]
        if version is not None:
            return str(version), version.int & (2**64 - 1) if era == "tcm" else None
    return "", None


def read_schema(query: Query, *, era: str, phase: str, node: str, sample: int) -> Iterator[Observation]:
    """Every object the node has on disk and in memory, version first; user keyspaces only."""
    version, epoch = read_version(query, era)

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

    # Asked first, told last: a node whose schema stage is stuck does not answer from memory, but still reads its disk.
    memory, silence = _from_memory(query)
    yield observed("version", None, None, id=version, definition={"epoch": epoch, **silence})
    for row in _user(query("SELECT * FROM system_schema.keyspaces")):
        definition = {"replication": dict(row["replication"]), "durable_writes": row["durable_writes"]}
        yield observed("keyspace", row["keyspace_name"], None, definition=definition)
    for kind, keyspace, name, identity, definition in _tables(query):
        yield observed(kind, keyspace, name, id=identity, definition=definition)
    for row in _user(query("SELECT * FROM system_schema.types")):
        fields = [list(pair) for pair in zip(row["field_names"], row["field_types"], strict=False)]
        yield observed("type", row["keyspace_name"], row["type_name"], definition={"fields": fields})
    for row in _user(query("SELECT * FROM system_schema.functions")):
        arguments = [list(pair) for pair in zip(row["argument_names"] or (), row["argument_types"] or (), strict=False)]
        definition = {"arguments": arguments, "returns": row["return_type"], "body": row["body"]}
        yield observed("function", row["keyspace_name"], row["function_name"], definition=definition)
    for row in _user(query("SELECT * FROM system_schema.aggregates")):
        definition = {
            "arguments": list(row["argument_types"] or ()),
            "state_function": row["state_func"],
            "state_type": row["state_type"],
            "final_function": row["final_func"],
        }
        yield observed("aggregate", row["keyspace_name"], row["aggregate_name"], definition=definition)
    for row in memory:
        live = {"kind": row["type"], "statement": row["create_statement"]}
        within = None if row["type"] == "keyspace" else row["name"]
        yield observed("live", row["keyspace_name"], within, definition=live)


def _from_memory(query: Query) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, str]]:
    """What DESCRIBE says of user keyspaces; or nothing, and why not."""
    try:
        return list(_user(query("DESCRIBE SCHEMA"))), {}
    except Exception as error:  # noqa: BLE001 - whatever a broken node answers is what was observed
        return (), {"memory_error": f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]}


def _tables(query: Query) -> Iterator[tuple[str, str, str, str | None, JSON]]:
    """(kind, keyspace, name, id, definition) of every table and view; halves of a headless table as they are."""
    columns = _grouped(query("SELECT * FROM system_schema.columns"))
    # As a number: system tables have drop times beyond every calendar, on which the driver breaks the connection.
    dropped = _grouped(
        query(
            "SELECT keyspace_name, table_name, column_name, type, toUnixTimestamp(dropped_time) AS dropped_ms "
            "FROM system_schema.dropped_columns"
        )
    )
    indexes = _grouped(query("SELECT * FROM system_schema.indexes"))
    heads: dict[tuple[str, str], tuple[str, Mapping[str, Any]]] = {}
    for row in _user(query("SELECT * FROM system_schema.tables")):
        heads[row["keyspace_name"], row["table_name"]] = ("table", row)
    for row in _user(query("SELECT * FROM system_schema.views")):
        heads[row["keyspace_name"], row["view_name"]] = ("view", row)
    for key in sorted(heads.keys() | columns.keys() | indexes.keys()):
        kind, row = heads.get(key, ("table", {}))
        described: dict[str, JSON] = {
            "columns": {
                column["column_name"]: {
                    "type": column["type"],
                    "kind": column["kind"],
                    "position": column["position"],
                }
                for column in columns.get(key, ())
            },
            "dropped_columns": {
                column["column_name"]: {"type": column["type"], "dropped_time": column["dropped_ms"]}
                for column in dropped.get(key, ())
            },
            "options": {
                name: _json(entry) for name, entry in row.items() if name not in _IDENTITY and entry is not None
            },
            "indexes": {
                index["index_name"]: {"kind": index["kind"], "target": dict(index["options"]).get("target")}
                for index in indexes.get(key, ())
            },
        }
        if kind == "view":
            base = row.get("base_table_id")
            described |= {"base_table_id": base.hex if base else None, "base_table_name": row.get("base_table_name")}
        identity = row.get("id")
        yield kind, key[0], key[1], identity.hex if identity is not None else None, described


def _grouped(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in _user(rows):
        groups.setdefault((row["keyspace_name"], row["table_name"]), []).append(row)
    return groups


def _user(rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (row for row in rows if row["keyspace_name"] not in SYSTEM_KEYSPACES)


def _json(value: Any) -> JSON:
    """A schema table's cell as JSON: maps and sets as such, everything else that JSON lacks as text."""
    if isinstance(value, Mapping):
        return {str(key): _json(entry) for key, entry in value.items()}
    if isinstance(value, (set, frozenset)) or type(value).__name__ == "SortedSet":
        return sorted(map(str, value))
    if isinstance(value, (list, tuple)):
        return [_json(entry) for entry in value]
    if isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


def digest(observation: Observation) -> bytes:
    """What makes two observations of one object the same: its id and its definition."""
    return orjson.dumps([observation.id, observation.definition], option=orjson.OPT_SORT_KEYS)
