"""Loading: from the rows on a disk to definitions in memory, which fails on what does not fit together.

Errors are in the words of `SchemaKeyspace.fetch…` of Cassandra 4.0 to 5.0: a reference that leads nowhere makes the load of
the whole keyspace fail, at every merge and at the start. A view without its table is a warning of the view manager: it is not maintained, but
it is in memory and can be read (seen on 5.0.9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.definitions import (
    Aggregate,
    Column,
    Function,
    Keyspace,
    Schema,
    Table,
    user_types,
)
from schemaquake.clusters.simulated.schema.rows import Cell, KeyspaceRows, Path, SchemaRows

__all__ = ["Warn", "load_keyspace", "load_keyspaces"]

Warn: TypeAlias = Callable[[str], None]
_Live: TypeAlias = Mapping[Path, Mapping[str, Cell]]

_HEADLESS = (
    "No partition columns found for table {table} in system_schema.columns. This may be due to corruption or concurrent "
    "dropping and altering of a table. If this table is supposed to be dropped, {{run the following query to cleanup}}"
)
_NOT_OPTIONS = frozenset({"", "id", "base_table_id", "base_table_name"})


def load_keyspaces(rows: SchemaRows, names: Iterable[str], schema: Schema, warn: Warn) -> Schema:
    """Return the schema with these keyspaces as the rows have them. Raises ServerSaid."""
    loaded = dict(schema)
    for name in names:
        keyspace = load_keyspace(name, rows.keyspaces[name], warn)
        if keyspace is None:
            loaded.pop(name, None)
        else:
            loaded[name] = keyspace
    return loaded


def load_keyspace(name: str, rows: KeyspaceRows, warn: Warn) -> Keyspace | None:
    """Return the keyspace in these rows, None if it has no row of its own. Raises ServerSaid with the server's words."""
    live = rows.live()
    head = live.get(("keyspaces",))
    if head is None or "replication" not in head:
        return None
    types = {path[1]: _type(cells) for path, cells in live.items() if path[0] == "types"}
    for fields in types.values():
        _require_types(name, types, (cql_type for _, cql_type in fields))
    tables = {path[1]: _table(name, "tables", path[1], live) for path in live if path[0] == "tables"}
    views = {path[1]: _table(name, "views", path[1], live) for path in live if path[0] == "views"}
    for table in (*tables.values(), *views.values()):
        _require_types(name, types, (column.type for column in table.columns.values()))
    functions = {path[1]: _function(cells) for path, cells in live.items() if path[0] == "functions"}
    aggregates = {path[1]: _aggregate(cells) for path, cells in live.items() if path[0] == "aggregates"}
    for aggregate_name, aggregate in aggregates.items():
        for function in (aggregate.state_function, aggregate.final_function):
            if function is not None and function not in functions:
                raise ServerSaid(
                    "ConfigurationException",
                    f"Unable to find function {name}.{function} referenced by UDA {name}.{aggregate_name}",
                    flaw="function-race",
                )
    ids = {table.id for table in tables.values()}
    for view in views.values():
        if view.base is not None and view.base[0] not in ids:
            warn(f"Not adding view {view.name} because the base table {view.base[0]} is unknown")
    return Keyspace(name, head["replication"][1], tables, views, types, functions, aggregates)


def _table(keyspace: str, kind: str, name: str, live: _Live) -> Table:
    head = live[kind, name]
    columns = {
        path[2]: Column(cells["type"][1], cells["kind"][1], cells["position"][1])
        for path, cells in live.items()
        if path[0] == "columns" and path[1] == name
    }
    if "id" not in head or not any(column.kind == "partition_key" for column in columns.values()):
        raise ServerSaid("MissingColumns", _HEADLESS.format(table=f"{keyspace}.{name}"), flaw="whole-row")
    dropped = {
        path[2]: (cells["type"][1], cells["dropped_us"][1])
        for path, cells in live.items()
        if path[0] == "dropped_columns" and path[1] == name
    }
    indexes = {
        path[2]: cells["options"][1]["target"]
        for path, cells in live.items()
        if path[0] == "indexes" and path[1] == name
    }
    for index, target in indexes.items():
        if target not in columns:
            text = f"Unable to parse targets for index {index} ({target})"
            raise ServerSaid("ConfigurationException", text, flaw="target-race")
    base = (head["base_table_id"][1], head["base_table_name"][1]) if "base_table_id" in head else None
    options = {option: value for option, (_, value) in head.items() if option not in _NOT_OPTIONS}
    return Table(keyspace, name, head["id"][1], columns, options, dropped, indexes, base)


def _type(cells: Mapping[str, Cell]) -> tuple[tuple[str, str], ...]:
    return tuple(zip(cells["field_names"][1], cells["field_types"][1], strict=False))


def _function(cells: Mapping[str, Any]) -> Function:
    arguments = tuple(zip(cells["argument_names"][1], cells["argument_types"][1], strict=True))
    return Function(arguments, cells["return_type"][1], cells["body"][1])


def _aggregate(cells: Mapping[str, Any]) -> Aggregate:
    return Aggregate(
        tuple(cells["argument_types"][1]), cells["state_func"][1], cells["state_type"][1], cells["final_func"][1]
    )


def _require_types(keyspace: str, types: Mapping[str, Any], cql_types: Iterable[str]) -> None:
    for cql_type in cql_types:
        for used in user_types(cql_type):
            if used not in types:
                raise ServerSaid("InvalidRequest", f"Unknown type {keyspace}.{used}", flaw="type-race")
