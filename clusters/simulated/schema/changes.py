"""Changes: a schema change as its coordinator validates and carries it out on the definitions in its memory.

Refusals are in the classes and words of Cassandra 4.0 and later. Pure: definitions in, definitions out. A change that
leaves all as it is (`IF EXISTS`, `IF NOT EXISTS`) returns the very schema it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.definitions import (
    DEFAULT_OPTIONS,
    Aggregate,
    Column,
    Function,
    Keyspace,
    Schema,
    Table,
    user_types,
)
from schemaquake.harness.ddl.cql import indexed_column

__all__ = ["Making", "carry_out"]

V = TypeVar("V")
Value: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Making:
    """The choices that a coordinator adds to a statement: ids of new tables and views, and the time of a dropped column."""

    new_id: Callable[[str, str], str]
    """From keyspace and name to 32 hex digits."""
    now_us: int


def carry_out(schema: Schema, f: str, value: Value, making: Making) -> Schema:
    """Return the schema after one change of `schemaquake.harness.ddl.schema_changes`. Raises ServerSaid for a refusal."""
    name = value["keyspace"]
    keyspace = schema.get(name)
    if f == "create-keyspace":
        if keyspace is not None:
            return _unless(value, schema, "AlreadyExists", f"Keyspace '{name}' already exists")
        return {**schema, name: Keyspace(name, value["replication"])}
    if keyspace is None:
        if value.get("if_exists"):
            return schema
        raise _refusal(f"Keyspace '{name}' doesn't exist")
    if f == "drop-keyspace":
        return _without(schema, name)
    if f not in _CHANGES:
        raise _refusal(f"{f} is not modelled: a simulated cluster takes the changes of schema_changes alone")
    changed = _CHANGES[f](keyspace, value, making)
    return schema if changed is keyspace else {**schema, name: changed}


# ── keyspaces and tables ─────────────────────────────────────────────────────────────────────────────────────────────


def _alter_keyspace(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    return replace(keyspace, replication=value["replication"])


def _create_table(keyspace: Keyspace, value: Value, making: Making) -> Keyspace:
    name = value["name"]
    if keyspace.relation(name) is not None:
        return _unless(value, keyspace, "AlreadyExists", f"Table '{keyspace.name}.{name}' already exists")
    columns: dict[str, Column] = {}
    positions = {"partition_key": 0, "clustering": 0}
    for column, cql_type, kind in value["columns"]:
        _require_types(keyspace, cql_type)
        position = positions.get(kind, -1)
        columns[column] = Column(cql_type, kind, position)
        if kind in positions:
            positions[kind] += 1
    table = Table(
        keyspace.name,
        name,
        making.new_id(keyspace.name, name),
        columns,
        {**DEFAULT_OPTIONS, **(value.get("options") or {})},
    )
    return replace(keyspace, tables={**keyspace.tables, name: table})


def _drop_table(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    name = value["name"]
    if name in keyspace.views:
        raise _refusal("Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead.")
    if name not in keyspace.tables:
        return _unless_missing(value, keyspace, f"Table '{keyspace.name}.{name}' doesn't exist")
    views = [view.name for view in keyspace.views.values() if view.base is not None and view.base[1] == name]
    if views:
        raise _refusal(f"Cannot drop a table when materialized views still depend on it ({', '.join(sorted(views))})")
    return replace(keyspace, tables=_without(keyspace.tables, name))


def _add_column(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    table = _table(keyspace, value)
    column, cql_type = value["column"]
    if column in table.columns:
        raise _refusal(f"Column with name '{column}' already exists")
    _require_types(keyspace, cql_type)
    kind = "static" if value.get("static") else "regular"
    if kind == "static" and not any(each.kind == "clustering" for each in table.columns.values()):
        raise _refusal(
            "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
        )
    return _with_table(keyspace, replace(table, columns={**table.columns, column: Column(cql_type, kind)}))


def _drop_column(keyspace: Keyspace, value: Value, making: Making) -> Keyspace:
    table = _table(keyspace, value)
    name = value["column"]
    column = table.columns.get(name)
    if column is None:
        raise _refusal(f"Column {name} was not found in table '{table.keyspace}.{table.name}'")
    if column.kind in {"partition_key", "clustering"}:
        raise _refusal(f"Cannot drop PRIMARY KEY column {name}")
    indexes = [index for index, target in table.indexes.items() if target == name]
    if indexes:
        raise _refusal(f"Cannot drop column {name} because it has dependent secondary indexes ({', '.join(indexes)})")
    if any(view.base is not None and view.base[1] == table.name for view in keyspace.views.values()):
        raise _refusal(f"Cannot drop column {name} on base table {table.name} with materialized views")
    dropped_us = value.get("timestamp") or making.now_us
    return _with_table(
        keyspace,
        replace(
            table,
            columns=_without(table.columns, name),
            dropped={**table.dropped, name: (column.type, dropped_us)},
        ),
    )


def _rename_column(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    table = _table(keyspace, value)
    name, to = value["column"], value["to"]
    column = table.columns.get(name)
    if column is None:
        raise _refusal(f"Column {name} was not found in table '{table.keyspace}.{table.name}'")
    if column.kind not in {"partition_key", "clustering"}:
        raise _refusal(f"Cannot rename non PRIMARY KEY column {name}")
    if to in table.columns:
        raise _refusal(
            f"Cannot rename column {name} to {to} in table '{table.keyspace}.{table.name}'; another column of that name already exists"
        )
    if name in table.indexes.values():
        raise _refusal(f"Can't rename column {name} because it has dependent secondary indexes")
    columns = {to if each == name else each: column for each, column in table.columns.items()}
    return _with_table(keyspace, replace(table, columns=columns))


def _alter_options(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    table = _table(keyspace, value)
    return _with_table(keyspace, replace(table, options={**table.options, **value["options"]}))


# ── types, functions, aggregates ─────────────────────────────────────────────────────────────────────────────────────


def _create_type(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    name = value["name"]
    if name in keyspace.types:
        return _unless(value, keyspace, "InvalidRequest", f"A user type with name '{name}' already exists")
    for _, cql_type in value["fields"]:
        _require_types(keyspace, cql_type)
    fields = tuple((field, cql_type) for field, cql_type in value["fields"])
    return replace(keyspace, types={**keyspace.types, name: fields})


def _drop_type(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    name = value["name"]
    if name not in keyspace.types:
        return _unless_missing(value, keyspace, f"Type '{keyspace.name}.{name}' doesn't exist")
    users = sorted({user for user, cql_type in keyspace.type_uses() if name in user_types(cql_type)})
    if users:
        raise _refusal(f"Cannot drop user type '{keyspace.name}.{name}' as it is still used by {', '.join(users)}")
    return replace(keyspace, types=_without(keyspace.types, name))


def _add_field(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    fields = _fields(keyspace, value)
    name, cql_type = value["field"]
    if name in dict(fields):
        raise _refusal(
            f"Cannot add field {name} to type {keyspace.name}.{value['name']}: a field with name {name} already exists"
        )
    _require_types(keyspace, cql_type)
    if value["name"] in _types_within(keyspace, cql_type):
        raise _refusal(
            f"Cannot add new field {name} of type {cql_type} to user type {keyspace.name}.{value['name']} as it would create a circular reference"
        )
    return replace(keyspace, types={**keyspace.types, value["name"]: (*fields, (name, cql_type))})


def _types_within(keyspace: Keyspace, cql_type: str) -> set[str]:
    """Return the user-defined types that a type has in it, those of its fields and so on included."""
    found: set[str] = set()
    waiting = set(user_types(cql_type))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.update(used for _, text in keyspace.types.get(name, ()) for used in user_types(text))
    return found


def _rename_field(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    fields = _fields(keyspace, value)
    if value["field"] not in dict(fields):
        raise _refusal(f"Unkown field {value['field']} in user type {keyspace.name}.{value['name']}")
    if value["to"] in dict(fields):
        raise _refusal(f"Duplicate field name {value['to']} in type {keyspace.name}.{value['name']}: it already exists")
    renamed = tuple((value["to"] if name == value["field"] else name, cql_type) for name, cql_type in fields)
    return replace(keyspace, types={**keyspace.types, value["name"]: renamed})


def _create_function(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    name = value["name"]
    if name in keyspace.functions and not value.get("or_replace"):
        return _unless(value, keyspace, "InvalidRequest", f"Function '{keyspace.name}.{name}' already exists")
    for cql_type in (value["returns"], *(cql_type for _, cql_type in value["arguments"])):
        _require_types(keyspace, cql_type)
    arguments = tuple((argument, cql_type) for argument, cql_type in value["arguments"])
    function = Function(arguments, value["returns"], value["body"])
    return replace(keyspace, functions={**keyspace.functions, name: function})


def _drop_function(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    name = value["name"]
    if name not in keyspace.functions:
        return _unless_missing(value, keyspace, f"Function '{keyspace.name}.{name}' doesn't exist")
    users = sorted(g for g, each in keyspace.aggregates.items() if name in {each.state_function, each.final_function})
    if users:
        raise _refusal(f"Function '{keyspace.name}.{name}' is still referenced by aggregates {', '.join(users)}")
    return replace(keyspace, functions=_without(keyspace.functions, name))


def _create_aggregate(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    name = value["name"]
    if name in keyspace.aggregates:
        return _unless(value, keyspace, "InvalidRequest", f"Aggregate '{keyspace.name}.{name}' already exists")
    for role, function in (("State", value["state_function"]), ("Final", value.get("final_function"))):
        if function is not None and function not in keyspace.functions:
            raise _refusal(f"{role} function {function} doesn't exist")
    aggregate = Aggregate(
        tuple(value["arguments"]), value["state_function"], value["state_type"], value.get("final_function")
    )
    return replace(keyspace, aggregates={**keyspace.aggregates, name: aggregate})


def _drop_aggregate(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    name = value["name"]
    if name not in keyspace.aggregates:
        return _unless_missing(value, keyspace, f"Aggregate '{keyspace.name}.{name}' doesn't exist")
    return replace(keyspace, aggregates=_without(keyspace.aggregates, name))


# ── views and indexes ────────────────────────────────────────────────────────────────────────────────────────────────


def _create_view(keyspace: Keyspace, value: Value, making: Making) -> Keyspace:
    name = value["name"]
    base = keyspace.tables.get(value["base"])
    if base is None:
        raise _refusal(f"Base table '{value['base']}' doesn't exist")
    if keyspace.relation(name) is not None:
        return _unless(value, keyspace, "AlreadyExists", f"Materialized view '{keyspace.name}.{name}' already exists")
    key = value["primary_key"]
    for column in key:
        if column not in base.columns:
            raise _refusal(f"Unknown column '{column}' referenced in PRIMARY KEY for materialized view '{name}'")
    columns = {
        column: Column(base.columns[column].type, "clustering" if place else "partition_key", max(0, place - 1))
        for place, column in enumerate(key)
    }
    columns |= {c: Column(each.type, "regular") for c, each in base.columns.items() if c not in columns}
    # A view has the options of its own statement, and defaults for the others: none of its base's.
    view = Table(
        keyspace.name, name, making.new_id(keyspace.name, name), columns, DEFAULT_OPTIONS, base=(base.id, base.name)
    )
    return replace(keyspace, views={**keyspace.views, name: view})


def _alter_view(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    name = value["name"]
    view = keyspace.views.get(name)
    if view is None:
        raise _refusal(f"Materialized view '{keyspace.name}.{name}' doesn't exist")
    altered = replace(view, options={**view.options, **value["options"]})
    return replace(keyspace, views={**keyspace.views, name: altered})


def _drop_view(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    name = value["name"]
    if name not in keyspace.views:
        return _unless_missing(value, keyspace, f"Materialized view '{keyspace.name}.{name}' doesn't exist")
    return replace(keyspace, views=_without(keyspace.views, name))


def _create_index(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    name = value["name"]
    table = _table(keyspace, {**value, "name": value["table"]})
    if any(name in each.indexes for each in keyspace.tables.values()):
        return _unless(value, keyspace, "InvalidRequest", f"Index '{name}' already exists")
    wanted = indexed_column(value["column"])
    if wanted not in table.columns:
        raise _refusal(f"Column '{wanted}' doesn't exist")
    same = next((each for each, column in table.indexes.items() if column == wanted), None)
    if same is not None:
        return _unless(value, keyspace, "InvalidRequest", f"Index {name} is a duplicate of existing index {same}")
    return _with_table(keyspace, replace(table, indexes={**table.indexes, name: wanted}))


def _drop_index(keyspace: Keyspace, value: Value, _making: Making) -> Keyspace:
    name = value["name"]
    table = next((each for each in keyspace.tables.values() if name in each.indexes), None)
    if table is None:
        return _unless_missing(value, keyspace, f"Index '{keyspace.name}.{name}' doesn't exist")
    return _with_table(keyspace, replace(table, indexes=_without(table.indexes, name)))


_CHANGES: Final[Mapping[str, Callable[[Keyspace, Value, Making], Keyspace]]] = {
    "alter-keyspace": _alter_keyspace,
    "create-table": _create_table,
    "drop-table": _drop_table,
    "add-column": _add_column,
    "drop-column": _drop_column,
    "rename-column": _rename_column,
    "alter-options": _alter_options,
    "create-type": _create_type,
    "drop-type": _drop_type,
    "add-field": _add_field,
    "rename-field": _rename_field,
    "create-function": _create_function,
    "drop-function": _drop_function,
    "create-aggregate": _create_aggregate,
    "drop-aggregate": _drop_aggregate,
    "create-view": _create_view,
    "alter-view": _alter_view,
    "drop-view": _drop_view,
    "create-index": _create_index,
    "drop-index": _drop_index,
}


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _refusal(text: str) -> ServerSaid:
    return ServerSaid("InvalidRequest", text)


def _unless(value: Value, unchanged: V, error: str, text: str) -> V:
    """Return what is there if the statement says IF NOT EXISTS. Raises ServerSaid otherwise."""
    if value.get("if_not_exists"):
        return unchanged
    raise ServerSaid(error, text)


def _unless_missing(value: Value, unchanged: V, text: str) -> V:
    """Return what is there if the statement says IF EXISTS. Raises ServerSaid otherwise."""
    if value.get("if_exists"):
        return unchanged
    raise _refusal(text)


def _without(entries: Mapping[str, V], name: str) -> dict[str, V]:
    return {key: entry for key, entry in entries.items() if key != name}


def _table(keyspace: Keyspace, value: Value) -> Table:
    table = keyspace.tables.get(value["name"])
    if table is None:
        raise _refusal(f"Table '{keyspace.name}.{value['name']}' doesn't exist")
    return table


def _with_table(keyspace: Keyspace, table: Table) -> Keyspace:
    return replace(keyspace, tables={**keyspace.tables, table.name: table})


def _fields(keyspace: Keyspace, value: Value) -> Iterable[tuple[str, str]]:
    fields = keyspace.types.get(value["name"])
    if fields is None:
        raise _refusal(f"Type '{keyspace.name}.{value['name']}' doesn't exist")
    return fields


def _require_types(keyspace: Keyspace, cql_type: str) -> None:
    for name in user_types(cql_type):
        if name not in keyspace.types:
            raise _refusal(f"Unknown type {keyspace.name}.{name}")
