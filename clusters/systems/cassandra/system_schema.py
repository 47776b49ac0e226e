"""System schema (3.0 to 5.0): the schema is last-write-wins rows of the keyspace `system_schema`, spread by push and pull.

Each node has rows of its own, merged in any order; the version is their digest, so it has no epoch. The tables stay the
same in 6.0, and ScyllaDB has them, too: their modules read them through `stored_objects`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from schemaquake.clusters.systems.cassandra.design import Design
from schemaquake.clusters.systems.cassandra.ring import PeersRing
from schemaquake.clusters.systems.data_directories import SYSTEM_KEYSPACES
from schemaquake.clusters.systems.dialect import Query, Stored
from schemaquake.harness.model.operation import JSON

__all__ = [
    "DESIGN",
    "SystemSchema",
    "cell_as_json",
    "keyspace_names",
    "release_version",
    "schema_version",
    "stored_objects",
    "user_rows",
]

_IDENTITY: Final = frozenset({"keyspace_name", "table_name", "view_name", "id", "base_table_id", "base_table_name"})


@dataclass(frozen=True, slots=True)
class SystemSchema:
    """The reading of 3.0 to 5.0."""

    describes_memory = True  # from 4.0 on; earlier releases refuse the statement

    def read_version(self, query: Query) -> tuple[str, int | None]:
        """Read the digest of the schema tables' rows; versions are not ordered, so there is no epoch."""
        version = schema_version(query)
        return ("" if version is None else str(version)), None

    def read_schema(self, query: Query) -> Iterator[Stored]:
        """Read `system_schema`."""
        return stored_objects(query)

    def read_state(self, query: Query) -> Mapping[str, JSON]:  # noqa: ARG002 - other designs ask
        """Read nothing: there is no more than the version."""
        return {}

    def read_log(self, query: Query) -> JSON | None:  # noqa: ARG002 - other designs ask
        """Read no log: changes leave none."""
        return None

    def read_keyspaces(self, query: Query) -> Sequence[str]:
        """Read `system_schema.keyspaces`."""
        return keyspace_names(query)

    def read_release(self, query: Query) -> str:
        """Read `system.local`."""
        return release_version(query)


DESIGN: Final = Design(authority="disk", schema=SystemSchema(), ring=PeersRing())


def schema_version(query: Query) -> UUID | None:
    """Read the version in `system.local`; None if it has none yet."""
    rows = query("SELECT schema_version FROM system.local WHERE key = 'local'")
    return next((row["schema_version"] for row in rows), None)


def keyspace_names(query: Query) -> Sequence[str]:
    """Read the names of all keyspaces."""
    return [str(row["keyspace_name"]) for row in query("SELECT keyspace_name FROM system_schema.keyspaces")]


def release_version(query: Query) -> str:
    """Read the release in `system.local`."""
    rows = query("SELECT release_version FROM system.local WHERE key = 'local'")
    return next((str(row["release_version"]) for row in rows), "unknown")


def stored_objects(query: Query) -> Iterator[Stored]:
    """Read every object on the node's disk from `system_schema`, the server's own keyspaces included."""
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


def _tables(query: Query) -> Iterator[Stored]:
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
    for row in user_rows(query("SELECT * FROM system_schema.tables")):
        heads[row["keyspace_name"], row["table_name"]] = ("table", row)
    for row in user_rows(query("SELECT * FROM system_schema.views")):
        heads[row["keyspace_name"], row["view_name"]] = ("view", row)
    for key in sorted(heads.keys() | columns.keys() | indexes.keys()):
        kind, row = heads.get(key, ("table", {}))
        described: dict[str, JSON] = {
            "columns": {column["column_name"]: _column(column) for column in columns.get(key, ())},
            "dropped_columns": {
                column["column_name"]: {"type": column["type"], "dropped_time": column["dropped_ms"]}
                for column in dropped.get(key, ())
            },
            "options": {
                name: cell_as_json(entry) for name, entry in row.items() if name not in _IDENTITY and entry is not None
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


def _column(row: Mapping[str, Any]) -> dict[str, JSON]:
    """Describe a column; `order` (asc, desc) only of a clustering column."""
    described: dict[str, JSON] = {"type": row["type"], "kind": row["kind"], "position": row["position"]}
    if row["kind"] == "clustering" and row.get("clustering_order") is not None:
        described["order"] = row["clustering_order"]
    return described


def _grouped(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in user_rows(rows):
        groups.setdefault((row["keyspace_name"], row["table_name"]), []).append(row)
    return groups


def user_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Leave out rows of the server's own keyspaces."""
    return (row for row in rows if row["keyspace_name"] not in SYSTEM_KEYSPACES)


def cell_as_json(value: Any) -> JSON:
    """Render a schema table's cell as JSON: maps and sets as such, everything else that JSON lacks as text."""
    if isinstance(value, Mapping):
        return {str(key): cell_as_json(entry) for key, entry in value.items()}
    if isinstance(value, (set, frozenset)) or type(value).__name__ == "SortedSet":
        return sorted(map(str, value))
    if isinstance(value, (list, tuple)):
        return [cell_as_json(entry) for entry in value]
    if isinstance(value, (str, int, float, bool)):
        return value
    return str(value)
