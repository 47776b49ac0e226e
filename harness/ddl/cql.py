"""CQL: schema changes and row operations as statements.

Used by the CQL eras to execute, and by checkers and reports to explain. Pure text; nothing here talks to a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from schemaquake.harness.model.operation import JSON

__all__ = ["literal", "statement"]


def statement(f: str, value: Mapping[str, JSON]) -> str:
    """Render the CQL text of one operation of `schemaquake.harness.ddl.schema_changes` or `schemaquake.harness.ddl.rows`.

    Raises KeyError if `f` has no CQL form.
    """
    return _RENDERERS[f](value)


def literal(value: JSON) -> str:
    """Render a JSON value as a CQL literal: strings quoted, maps and lists in CQL's own brackets."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case Mapping():
            return "{" + ", ".join(f"{literal(key)}: {literal(entry)}" for key, entry in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(literal, value)) + "]"
    raise TypeError(f"no CQL literal for {type(value).__name__}")


def _user_type_literal(value: JSON) -> str:
    """Render a row's cell: a map is a user-defined type's value, whose field names are bare."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_user_type_literal(entry)}" for name, entry in value.items()) + "}"
    return literal(value)


def _qualified(value: Mapping[str, Any]) -> str:
    return f"{value['keyspace']}.{value['name']}"


def _guard(value: Mapping[str, Any]) -> str:
    if value.get("if_not_exists"):
        return "IF NOT EXISTS "
    return "IF EXISTS " if value.get("if_exists") else ""


def _options(options: Mapping[str, JSON]) -> str:
    return " AND ".join(f"{name} = {literal(entry)}" for name, entry in options.items())


def _create_table(value: Mapping[str, Any]) -> str:
    columns = value["columns"]
    partition = [name for name, _, kind in columns if kind == "partition_key"]
    clustering = [name for name, _, kind in columns if kind == "clustering"]
    declared = [f"{name} {cql_type}{' static' if kind == 'static' else ''}" for name, cql_type, kind in columns]
    primary = ", ".join([f"({', '.join(partition)})" if len(partition) > 1 else partition[0], *clustering])
    text = f"CREATE TABLE {_guard(value)}{_qualified(value)} ({', '.join(declared)}, PRIMARY KEY ({primary}))"
    options = value.get("options")
    return f"{text} WITH {_options(options)}" if options else text


def _drop_column(value: Mapping[str, Any]) -> str:
    text = f"ALTER TABLE {_qualified(value)} DROP {value['column']}"
    timestamp = value.get("timestamp")
    return text if timestamp is None else f"{text} USING TIMESTAMP {timestamp}"


def _create_function(value: Mapping[str, Any]) -> str:
    arguments = ", ".join(f"{name} {cql_type}" for name, cql_type in value["arguments"])
    return (
        f"CREATE FUNCTION {_qualified(value)} ({arguments}) CALLED ON NULL INPUT "
        f"RETURNS {value['returns']} LANGUAGE java AS $${value['body']}$$"
    )


def _create_aggregate(value: Mapping[str, Any]) -> str:
    final = value.get("final_function")
    return (
        f"CREATE AGGREGATE {_qualified(value)} ({', '.join(value['arguments'])}) "
        f"SFUNC {value['state_function']} STYPE {value['state_type']}" + (f" FINALFUNC {final}" if final else "")
    )


def _create_view(value: Mapping[str, Any]) -> str:
    key = value["primary_key"]
    present = " AND ".join(f"{name} IS NOT NULL" for name in key)
    return (
        f"CREATE MATERIALIZED VIEW {_guard(value)}{_qualified(value)} AS SELECT * FROM "
        f"{value['keyspace']}.{value['base']} WHERE {present} PRIMARY KEY ({', '.join(key)})"
    )


def _insert(value: Mapping[str, Any]) -> str:
    row = value["row"]
    cells = ", ".join(_user_type_literal(cell) for cell in row.values())
    return f"INSERT INTO {value['keyspace']}.{value['table']} ({', '.join(row)}) VALUES ({cells})"


def _where(where: Mapping[str, JSON]) -> str:
    return " AND ".join(f"{name} = {literal(entry)}" for name, entry in where.items())


def _read_rows(value: Mapping[str, Any]) -> str:
    columns = ", ".join(value["columns"]) if value.get("columns") else "*"
    text = f"SELECT {columns} FROM {value['keyspace']}.{value['table']}"
    where = value.get("where")
    return f"{text} WHERE {_where(where)}" if where else text


_RENDERERS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "create-keyspace": lambda v: (
        f"CREATE KEYSPACE {_guard(v)}{v['keyspace']} WITH replication = {literal(v['replication'])}"
    ),
    "alter-keyspace": lambda v: f"ALTER KEYSPACE {v['keyspace']} WITH replication = {literal(v['replication'])}",
    "drop-keyspace": lambda v: f"DROP KEYSPACE {_guard(v)}{v['keyspace']}",
    "create-table": _create_table,
    "drop-table": lambda v: f"DROP TABLE {_guard(v)}{_qualified(v)}",
    "add-column": lambda v: (
        f"ALTER TABLE {_qualified(v)} ADD {' '.join(v['column'])}{' static' if v.get('static') else ''}"
    ),
    "drop-column": _drop_column,
    "rename-column": lambda v: f"ALTER TABLE {_qualified(v)} RENAME {v['column']} TO {v['to']}",
    "alter-options": lambda v: f"ALTER TABLE {_qualified(v)} WITH {_options(v['options'])}",
    "create-type": lambda v: (
        f"CREATE TYPE {_guard(v)}{_qualified(v)} ({', '.join(' '.join(field) for field in v['fields'])})"
    ),
    "add-field": lambda v: f"ALTER TYPE {_qualified(v)} ADD {' '.join(v['field'])}",
    "rename-field": lambda v: f"ALTER TYPE {_qualified(v)} RENAME {v['field']} TO {v['to']}",
    "drop-type": lambda v: f"DROP TYPE {_guard(v)}{_qualified(v)}",
    "create-function": _create_function,
    "drop-function": lambda v: f"DROP FUNCTION {_guard(v)}{_qualified(v)}",
    "create-aggregate": _create_aggregate,
    "drop-aggregate": lambda v: f"DROP AGGREGATE {_guard(v)}{_qualified(v)}",
    "create-view": _create_view,
    "drop-view": lambda v: f"DROP MATERIALIZED VIEW {_guard(v)}{_qualified(v)}",
    "create-index": lambda v: f"CREATE INDEX {_guard(v)}{v['name']} ON {v['keyspace']}.{v['table']} ({v['column']})",
    "drop-index": lambda v: f"DROP INDEX {_guard(v)}{_qualified(v)}",
    "cql": lambda v: str(v["statement"]),
    "insert": _insert,
    "read-rows": _read_rows,
    "know-table": lambda v: f"SELECT {v['key']} FROM {v['keyspace']}.{v['table']} WHERE {v['key']} IN ()",
    "delete-row": lambda v: f"DELETE FROM {v['keyspace']}.{v['table']} WHERE {_where(v['where'])}",
}
