"""Schema reading: one node's own account of its schema, from its local tables and from its memory.

`system_schema.*` (before 3.0 `system.schema_*`) and `system.local` are node-local, so a session pinned to a node reads
what that node has on disk. What it has in memory (`schemaquake.clusters.cql.memory`) may be something else, and no agreement
check sees it: that is why both are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

import orjson

from schemaquake.clusters.cql.group0 import group0_log, group0_state, last_change, own_of_tables
from schemaquake.clusters.cql.memory import ColumnsOf, Described, describe, probe
from schemaquake.clusters.cql.schema_tables import read_schema_tables
from schemaquake.clusters.systems.data_directories import SYSTEM_KEYSPACES
from schemaquake.harness.model.observation import Observation, reading
from schemaquake.harness.model.operation import JSON

__all__ = ["Query", "digest", "memory_differs", "read_schema", "read_version"]

Query = Callable[[str], Iterable[Mapping[str, Any]]]
"""Runs one statement on the pinned node at consistency ONE and returns its rows as mappings."""

_IDENTITY: Final = frozenset({"keyspace_name", "table_name", "view_name", "id", "base_table_id", "base_table_name"})


def read_version(query: Query, era: str) -> tuple[str, int | None]:
    """(schema version, epoch of the last change); the epoch is null before 6.0.

    On 6.0 the schema version is UUID(0, epoch): its low 64 bits count, and can be ordered. ScyllaDB's group 0 counts by
    the time of its newest state, which is later than that of the state before it.
    """
    for row in query("SELECT schema_version FROM system.local WHERE key = 'local'"):
        version: UUID | None = row["schema_version"]
        if version is not None:
            return str(version), _epoch(query, version, era)
    return "", None


def _epoch(query: Query, version: UUID, era: str) -> int | None:
    match era:
        case "tcm":
            return version.int & (2**64 - 1)
        case "group0":
            state = last_change(query)
            return None if state is None else state.time
    return None


def read_schema(
    query: Query,
    *,
    era: str,
    phase: str,
    node: str,
    sample: int,
    columns_of: ColumnsOf | None = None,
    barrier: JSON = None,
) -> Iterator[Observation]:
    """Every object the node has on disk and in memory, version first; user keyspaces only.

    Without `columns_of` the memory of a line that has no DESCRIBE is not asked: that takes one statement a table. Of
    group 0 its state is told too, and its log of changes after a `barrier`, which says how that ended.
    """
    version, epoch = read_version(query, era)

    observed = reading(phase=phase, node=node, sample=sample)

    # Asked first, told last: a node whose schema stage is stuck does not answer from memory, but still reads its disk.
    described = None if era == "schema-tables" else describe(query)
    silence = {"memory_error": described.error} if described is not None and described.error is not None else {}
    group0 = {"group0": group0_state(query)} if era == "group0" else {}
    waited = {} if barrier is None else {"barrier": barrier}
    yield observed("version", None, None, id=version, definition={"epoch": epoch, **silence, **group0, **waited})
    if barrier is not None:
        yield observed("log", None, None, definition=group0_log(query))
    relations: list[tuple[str, str, str, Mapping[str, Any]]] = []
    for kind, keyspace, name, identity, definition in _ON_DISK.get(era, _read_system_schema)(query):
        if keyspace not in SYSTEM_KEYSPACES:
            yield observed(kind, keyspace, name, id=identity, definition=definition)
            if kind in {"table", "view"} and name is not None:
                relations.append((kind, keyspace, name, definition["columns"]))
    if described is not None:
        for keyspace, within, live in _live(described):
            yield observed("live", keyspace, within, definition=live)
    elif columns_of is not None:
        for found in probe(columns_of, relations):
            yield observed("live", found.keyspace, found.name, definition=found.definition, error=found.error)


def _live(described: Described) -> Iterator[tuple[str, str | None, JSON]]:
    for row in _user(described.rows):
        within = None if row["type"] == "keyspace" else row["name"]
        yield row["keyspace_name"], within, {"kind": row["type"], "statement": row["create_statement"]}


def _read_system_schema(query: Query) -> Iterator[tuple[str, str, str | None, str | None, JSON]]:
    """(kind, keyspace, name, id, definition) of every object on the node's disk; 3.0 and later."""
    for row in query("SELECT * FROM system_schema.keyspaces"):
        definition = {"replication": dict(row["replication"]), "durable_writes": row["durable_writes"]}
        yield "keyspace", row["keyspace_name"], None, None, definition
    yield from _tables(query)
    for row in query("SELECT * FROM system_schema.types"):
        fields = [list(pair) for pair in zip(row["field_names"], row["field_types"], strict=False)]
        yield "type", row["keyspace_name"], row["type_name"], None, {"fields": fields}
    for row in query("SELECT * FROM system_schema.functions"):
        arguments = [list(pair) for pair in zip(row["argument_names"] or (), row["argument_types"] or (), strict=False)]
        definition = {"arguments": arguments, "returns": row["return_type"], "body": row["body"]}
        yield "function", row["keyspace_name"], row["function_name"], None, definition
    for row in query("SELECT * FROM system_schema.aggregates"):
        definition = {
            "arguments": list(row["argument_types"] or ()),
            "state_function": row["state_func"],
            "state_type": row["state_type"],
            "final_function": row["final_func"],
        }
        yield "aggregate", row["keyspace_name"], row["aggregate_name"], None, definition


def _read_group0(query: Query) -> Iterator[tuple[str, str, str | None, str | None, JSON]]:
    """The same of ScyllaDB: what only it knows of a table stands in a table of its own."""
    own = own_of_tables(query)
    for kind, keyspace, name, identity, definition in _read_system_schema(query):
        told = own.get((keyspace, name or "")) if kind in {"table", "view"} else None
        yield kind, keyspace, name, identity, {**definition, "scylla": _json(told)} if told else definition


_ON_DISK: Final[Mapping[str, Callable[[Query], Iterator[tuple[str, str, str | None, str | None, JSON]]]]] = {
    "schema-tables": read_schema_tables,
    "group0": _read_group0,
}
"""Eras whose disk is not laid out as `system_schema`, or holds more."""


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


def memory_differs(observed: Iterable[Observation]) -> bool:
    """Whether a node, asked table by table, serves other columns than it has on disk."""
    told = list(observed)
    disk = {(o.keyspace, o.name): set(o.definition["columns"]) for o in told if o.kind in {"table", "view"}}
    asked = [o for o in told if o.kind == "live" and o.error is None and "statement" not in o.definition]
    return any(set(o.definition.get("columns", ())) != disk[o.keyspace, o.name] for o in asked)
