"""CQL: schema changes and row operations as statements.

Used by the CQL eras to execute, and by checkers and reports to explain. Pure text; nothing here talks to a server.
A name can be anything that a file contains, so none can break out of its place: one that is no identifier is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from schemaquake.harness.model.operation import JSON

__all__ = ["identifier", "indexed_column", "is_identifier", "is_type", "literal", "plain_name", "statement"]

_IDENTIFIER: Final = re.compile(r'[A-Za-z][A-Za-z0-9_]*|"(?:[^"]|"")+"')
_TYPE: Final = re.compile(r"""(?:[A-Za-z0-9_<>,. ]|'[A-Za-z0-9_$.,()=> ]*'|"(?:[^"]|"")+")+""")
_COUNTED: Final = re.compile(rf"[a-zA-Z]+\(({_IDENTIFIER.pattern})\)")
"""A function of a column: `writetime(v)`, `keys(m)`."""


_WHOLE: Final = re.compile(r"-?[0-9]+")


def statement(f: str, value: Mapping[str, JSON]) -> str:
    """Render the CQL text of one operation of `schemaquake.harness.ddl.schema_changes` or `schemaquake.harness.ddl.rows`.

    Raises KeyError if `f` has no CQL form.
    """
    return _RENDERERS[f](value)


def is_identifier(text: str) -> bool:
    """Return True for a name that needs no quotes, and for one that has them already."""
    return _IDENTIFIER.fullmatch(text) is not None


def plain_name(name: str) -> str:
    """Return the name that an identifier stands for: without its quotes, or in lower case where it has none."""
    return (
        name[1:-1].replace('""', '"') if name.startswith('"') and name.endswith('"') and len(name) > 1 else name.lower()
    )


def indexed_column(text: str) -> str:
    """Return the column that an index is on: `m` of `keys(m)`, and of `m`."""
    found = _COUNTED.fullmatch(text)
    return text if found is None else plain_name(found[1])


def is_type(text: str) -> bool:
    """Return True for a text that can only be a type, such as `map<text, frozen<u>>`: it has no brackets, marks or comments."""
    return _TYPE.fullmatch(text) is not None


def identifier(name: object) -> str:
    """Render a name; one that is no identifier is quoted, with its quotes doubled."""
    text = str(name)
    return text if is_identifier(text) else '"' + text.replace('"', '""') + '"'


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


def _type(text: object) -> str:
    """Render a type; a text that is none becomes the quoted name of one."""
    return str(text) if is_type(str(text)) else identifier(text)


def _column(text: object) -> str:
    """Render a column, or a function of one."""
    return str(text) if _COUNTED.fullmatch(str(text)) else identifier(text)


def _names(names: Iterable[object]) -> str:
    return ", ".join(map(identifier, names))


def _typed(pairs: Iterable[tuple[object, object]]) -> str:
    return ", ".join(f"{identifier(name)} {_type(cql_type)}" for name, cql_type in pairs)


def _body(text: str) -> str:
    """Render the body of a function between dollars, unless it has some that would end it early."""
    return literal(text) if "$$" in text or text.endswith("$") else f"$${text}$$"


def _user_type_literal(value: JSON) -> str:
    """Render a row's cell: a map is a user-defined type's value, whose field names are bare, or, with whole numbers as keys, a map."""
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(
                f"{name if _WHOLE.fullmatch(name) else identifier(name)}: {_user_type_literal(entry)}"
                for name, entry in value.items()
            )
            + "}"
        )
    return literal(value)


def _keyspace(value: Mapping[str, Any]) -> str:
    return identifier(value["keyspace"])


def _qualified(value: Mapping[str, Any], name: str = "name") -> str:
    return f"{_keyspace(value)}.{identifier(value[name])}"


def _guard(value: Mapping[str, Any]) -> str:
    if value.get("if_not_exists"):
        return "IF NOT EXISTS "
    return "IF EXISTS " if value.get("if_exists") else ""


def _options(options: Mapping[str, JSON]) -> str:
    return " AND ".join(f"{identifier(name)} = {literal(entry)}" for name, entry in options.items())


def _create_table(value: Mapping[str, Any]) -> str:
    columns = value["columns"]
    partition = [identifier(name) for name, _, kind in columns if kind == "partition_key"]
    clustering = [identifier(name) for name, _, kind in columns if kind == "clustering"]
    declared = [
        f"{identifier(name)} {_type(cql_type)}{' static' if kind == 'static' else ''}"
        for name, cql_type, kind in columns
    ]
    primary = ", ".join([f"({', '.join(partition)})" if len(partition) > 1 else partition[0], *clustering])
    text = f"CREATE TABLE {_guard(value)}{_qualified(value)} ({', '.join(declared)}, PRIMARY KEY ({primary}))"
    options = value.get("options")
    return f"{text} WITH {_options(options)}" if options else text


def _drop_column(value: Mapping[str, Any]) -> str:
    text = f"ALTER TABLE {_qualified(value)} DROP {identifier(value['column'])}"
    timestamp = value.get("timestamp")
    return text if timestamp is None else f"{text} USING TIMESTAMP {literal(timestamp)}"


def _create_function(value: Mapping[str, Any]) -> str:
    return (
        f"CREATE {'OR REPLACE ' if value.get('or_replace') else ''}FUNCTION {_guard(value)}{_qualified(value)} ({_typed(value['arguments'])}) CALLED ON NULL INPUT "
        f"RETURNS {_type(value['returns'])} LANGUAGE java AS {_body(str(value['body']))}"
    )


def _create_aggregate(value: Mapping[str, Any]) -> str:
    final = value.get("final_function")
    return (
        f"CREATE AGGREGATE {_guard(value)}{_qualified(value)} ({', '.join(map(_type, value['arguments']))}) "
        f"SFUNC {identifier(value['state_function'])} STYPE {_type(value['state_type'])}"
        + (f" FINALFUNC {identifier(final)}" if final else "")
    )


def _create_view(value: Mapping[str, Any]) -> str:
    key = value["primary_key"]
    present = " AND ".join(f"{identifier(name)} IS NOT NULL" for name in key)
    return (
        f"CREATE MATERIALIZED VIEW {_guard(value)}{_qualified(value)} AS SELECT * FROM "
        f"{_qualified(value, 'base')} WHERE {present} PRIMARY KEY ({_names(key)})"
    )


def _create_index(value: Mapping[str, Any]) -> str:
    text = f"CREATE INDEX {_guard(value)}{identifier(value['name'])} ON {_qualified(value, 'table')} ({_column(value['column'])})"
    return f"{text} USING {literal(value['using'])}" if value.get("using") else text


def _insert(value: Mapping[str, Any]) -> str:
    row, table = value["row"], _qualified(value, "table")
    if value.get("form") == "update":
        key = {name: row[name] for name in value["key"]}
        cells = ", ".join(f"{identifier(n)} = {_user_type_literal(cell)}" for n, cell in row.items() if n not in key)
        return f"UPDATE {table} SET {cells} WHERE {_where(key)}"
    cells = ", ".join(_user_type_literal(cell) for cell in row.values())
    text = f"INSERT INTO {table} ({_names(row)}) VALUES ({cells})"
    match value.get("form"):
        case "conditional":
            return f"{text} IF NOT EXISTS"
        case "batch":
            return f"BEGIN BATCH {text}; DELETE FROM {table} WHERE {_where(value['beside'])}; APPLY BATCH"
    return text


def _where(where: Mapping[str, JSON]) -> str:
    return " AND ".join(f"{identifier(name)} = {literal(entry)}" for name, entry in where.items())


def _read_rows(value: Mapping[str, Any]) -> str:
    columns = ", ".join(map(_column, value["columns"])) if value.get("columns") else "*"
    text = f"SELECT {columns} FROM {_qualified(value, 'table')}"
    where = value.get("where")
    return f"{text} WHERE {_where(where)}" if where else text


_RENDERERS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "create-keyspace": lambda v: (
        f"CREATE KEYSPACE {_guard(v)}{_keyspace(v)} WITH replication = {literal(v['replication'])}"
    ),
    "alter-keyspace": lambda v: f"ALTER KEYSPACE {_keyspace(v)} WITH replication = {literal(v['replication'])}",
    "drop-keyspace": lambda v: f"DROP KEYSPACE {_guard(v)}{_keyspace(v)}",
    "create-table": _create_table,
    "drop-table": lambda v: f"DROP TABLE {_guard(v)}{_qualified(v)}",
    "add-column": lambda v: (
        f"ALTER TABLE {_qualified(v)} ADD {_typed([v['column']])}{' static' if v.get('static') else ''}"
    ),
    "drop-column": _drop_column,
    "rename-column": lambda v: f"ALTER TABLE {_qualified(v)} RENAME {identifier(v['column'])} TO {identifier(v['to'])}",
    "alter-options": lambda v: f"ALTER TABLE {_qualified(v)} WITH {_options(v['options'])}",
    "create-type": lambda v: f"CREATE TYPE {_guard(v)}{_qualified(v)} ({_typed(v['fields'])})",
    "add-field": lambda v: f"ALTER TYPE {_qualified(v)} ADD {_typed([v['field']])}",
    "rename-field": lambda v: f"ALTER TYPE {_qualified(v)} RENAME {identifier(v['field'])} TO {identifier(v['to'])}",
    "drop-type": lambda v: f"DROP TYPE {_guard(v)}{_qualified(v)}",
    "create-function": _create_function,
    "drop-function": lambda v: f"DROP FUNCTION {_guard(v)}{_qualified(v)}",
    "create-aggregate": _create_aggregate,
    "drop-aggregate": lambda v: f"DROP AGGREGATE {_guard(v)}{_qualified(v)}",
    "create-view": _create_view,
    "drop-view": lambda v: f"DROP MATERIALIZED VIEW {_guard(v)}{_qualified(v)}",
    "alter-view": lambda v: f"ALTER MATERIALIZED VIEW {_qualified(v)} WITH {_options(v['options'])}",
    "create-index": _create_index,
    "drop-index": lambda v: f"DROP INDEX {_guard(v)}{_qualified(v)}",
    "cql": lambda v: str(v["statement"]),
    "insert": _insert,
    "read-rows": _read_rows,
    "know-table": lambda v: (
        f"SELECT {identifier(v['key'])} FROM {_qualified(v, 'table')} WHERE {identifier(v['key'])} IN ()"
    ),
    "delete-row": lambda v: (
        f"DELETE {_names(v['columns']) + ' ' if v.get('columns') else ''}FROM {_qualified(v, 'table')} WHERE {_where(v['where'])}"
    ),
    "truncate": lambda v: f"TRUNCATE {_qualified(v, 'table')}",
}
