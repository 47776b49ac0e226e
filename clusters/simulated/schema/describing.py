"""Describing: the answer to DESCRIBE SCHEMA, which comes from memory (4.0 and later)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from schemaquake.clusters.simulated.schema.definitions import Keyspace, Schema, Table
from schemaquake.harness.ddl.cql import literal

__all__ = ["describe"]


def describe(schema: Schema) -> Iterator[Mapping[str, str]]:
    """Yield one row an object, with `keyspace_name`, `type`, `name` and `create_statement`."""
    for name in sorted(schema):
        keyspace = schema[name]
        for kind, within, text in _objects(keyspace):
            yield {"keyspace_name": name, "type": kind, "name": within, "create_statement": f"{text};"}


def _objects(keyspace: Keyspace) -> Iterator[tuple[str, str, str]]:
    name = keyspace.name
    replication = literal(dict(keyspace.replication))
    yield "keyspace", name, f"CREATE KEYSPACE {name} WITH replication = {replication} AND durable_writes = true"
    for within, fields in sorted(keyspace.types.items()):
        yield "type", within, f"CREATE TYPE {name}.{within} ({', '.join(' '.join(field) for field in fields)})"
    for within, function in sorted(keyspace.functions.items()):
        arguments = ", ".join(map(" ".join, function.arguments))
        text = (
            f"CREATE FUNCTION {name}.{within}({arguments}) CALLED ON NULL INPUT RETURNS {function.returns} "
            f"LANGUAGE java AS $${function.body}$$"
        )
        yield "function", within, text
    for within, aggregate in sorted(keyspace.aggregates.items()):
        final = f" FINALFUNC {aggregate.final_function}" if aggregate.final_function else ""
        text = (
            f"CREATE AGGREGATE {name}.{within}({', '.join(aggregate.arguments)}) SFUNC {aggregate.state_function} "
            f"STYPE {aggregate.state_type}{final}"
        )
        yield "aggregate", within, text
    for within, table in sorted(keyspace.tables.items()):
        yield "table", within, _table(table)
        for index, target in sorted(table.indexes.items()):
            yield "index", index, f"CREATE INDEX {index} ON {name}.{within} ({target})"
    for within, view in sorted(keyspace.views.items()):
        yield "view", within, _view(view)


def _table(table: Table) -> str:
    declared = ", ".join(
        f"{name} {column.type}{' static' if column.kind == 'static' else ''}"
        for name, column in sorted(
            table.columns.items(), key=lambda each: (_ORDER[each[1].kind], each[1].position, each[0])
        )
    )
    return (
        f"CREATE TABLE {table.keyspace}.{table.name} ({declared}, PRIMARY KEY ({_key(table)})) WITH {_options(table)}"
    )


def _view(view: Table) -> str:
    assert view.base is not None
    columns = ", ".join(sorted(view.columns))
    return (
        f"CREATE MATERIALIZED VIEW {view.keyspace}.{view.name} AS SELECT {columns} FROM {view.keyspace}.{view.base[1]} "
        f"PRIMARY KEY ({_key(view)}) WITH {_options(view)}"
    )


def _key(table: Table) -> str:
    partition = table.partition_key
    head = partition[0] if len(partition) == 1 else f"({', '.join(partition)})"
    return ", ".join([head, *table.clustering])


def _options(table: Table) -> str:
    return " AND ".join(f"{name} = {_option(value)}" for name, value in sorted(table.options.items()))


def _option(value: Any) -> str:
    return literal(dict(sorted(value.items())) if isinstance(value, dict) else value)


_ORDER = {"partition_key": 0, "clustering": 1, "static": 2, "regular": 3}
