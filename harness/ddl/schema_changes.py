"""Schema changes: DDL as values, before any dialect.

Every function returns an `Invoke` whose `f` names the change and whose value is its definition; an era's client renders
it (as CQL, or as Thrift calls), and checkers read it back from the history. Identifiers are lower case and need no quotes.

| f | key | value, beside `keyspace` (and `name`) |
|---|---|---|
| create-keyspace, alter-keyspace | ks | `replication` |
| drop-keyspace | ks | |
| create-table | ks.t | `columns: [[name, type, kind], …]` (kind: partition_key, clustering, static, regular), `options` |
| drop-table | ks.t | |
| add-column | ks.t | `column: [name, type]`, `static`? |
| drop-column | ks.t | `column: name`, `timestamp`? (µs) |
| rename-column | ks.t | `column: name`, `to: name` |
| alter-options | ks.t | `options: {name: value}` |
| create-type | ks.u | `fields: [[name, type], …]` |
| add-field | ks.u | `field: [name, type]` |
| rename-field | ks.u | `field: name`, `to: name` |
| drop-type | ks.u | |
| create-function | ks.f | `arguments: [[name, type], …]`, `returns`, `body`, `or_replace`? |
| drop-function | ks.f | |
| create-aggregate | ks.g | `arguments: [type, …]`, `state_function`, `state_type`, `final_function`? |
| drop-aggregate | ks.g | |
| create-view | ks.v | `base`, `primary_key: [name, …]` |
| alter-view | ks.v | `options: {name: value}` |
| drop-view | ks.v | |
| create-index | ks.i | `table`, `column`, `using`? (a class of indexes, such as "sai") |
| drop-index | ks.i | |
| cql | any | `statement`: anything else; checkers that need its meaning leave it out |

`if_exists` / `if_not_exists` may be true on any create or drop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from schemaquake.harness.model.steps import Invoke

__all__ = [
    "ALTERS",
    "CREATES",
    "DROPS",
    "NAMESPACES",
    "RELATIONS",
    "SCHEMA_CHANGES",
    "add_column",
    "add_field",
    "alter_keyspace",
    "alter_options",
    "alter_view",
    "cql",
    "create_aggregate",
    "create_function",
    "create_index",
    "create_keyspace",
    "create_table",
    "create_type",
    "create_view",
    "drop_aggregate",
    "drop_column",
    "drop_function",
    "drop_index",
    "drop_keyspace",
    "drop_table",
    "drop_type",
    "drop_view",
    "rename_column",
    "rename_field",
]

CREATES: Final = frozenset(
    f"create-{kind}" for kind in ("keyspace", "table", "type", "function", "aggregate", "view", "index")
)
DROPS: Final = frozenset(
    f"drop-{kind}" for kind in ("keyspace", "table", "type", "function", "aggregate", "view", "index")
)
ALTERS: Final = frozenset(
    {
        "alter-keyspace",
        "add-column",
        "drop-column",
        "rename-column",
        "alter-options",
        "alter-view",
        "add-field",
        "rename-field",
    }
)
NAMESPACES: Final[Mapping[str, str]] = {
    "table": "relation",
    "view": "relation",
    "type": "type",
    "function": "routine",
    "aggregate": "routine",
    "index": "index",
}
"""Kind of object → those with which it shares the names of a keyspace."""
RELATIONS: Final = frozenset(kind for kind, shared in NAMESPACES.items() if shared == "relation")
"""The kinds of objects that have rows."""

SCHEMA_CHANGES: Final = CREATES | DROPS | ALTERS


def _change(f: str, keyspace: str, name: str | None, **definition: Any) -> Invoke:
    value: dict[str, Any] = {"keyspace": keyspace}
    if name is not None:
        value["name"] = name
    value |= {key: entry for key, entry in definition.items() if entry is not None and entry is not False}
    return Invoke(f, keyspace if name is None else f"{keyspace}.{name}", value)


def create_keyspace(
    keyspace: str, *, replication_factor: int, data_centers: Iterable[str] = (), if_not_exists: bool = False
) -> Invoke:
    """CREATE KEYSPACE with SimpleStrategy, so that racks do not affect the placement of replicas.

    With `data_centers` it is NetworkTopologyStrategy, and each of them has so many replicas.
    """
    replication: dict[str, Any] = {"class": "SimpleStrategy", "replication_factor": replication_factor}
    if names := sorted(set(data_centers)):
        replication = {"class": "NetworkTopologyStrategy", **dict.fromkeys(names, replication_factor)}
    return _change("create-keyspace", keyspace, None, replication=replication, if_not_exists=if_not_exists)


def alter_keyspace(keyspace: str, *, replication_factor: int) -> Invoke:
    """ALTER KEYSPACE … WITH replication."""
    replication = {"class": "SimpleStrategy", "replication_factor": replication_factor}
    return _change("alter-keyspace", keyspace, None, replication=replication)


def drop_keyspace(keyspace: str, *, if_exists: bool = False) -> Invoke:
    """DROP KEYSPACE with everything in it."""
    return _change("drop-keyspace", keyspace, None, if_exists=if_exists)


def create_table(
    keyspace: str,
    name: str,
    *,
    columns: Sequence[tuple[str, str, str]],
    options: Mapping[str, Any] | None = None,
    if_not_exists: bool = False,
) -> Invoke:
    """CREATE TABLE; `columns` are (name, CQL type, kind) in declaration order, at least one `partition_key`."""
    return _change(
        "create-table",
        keyspace,
        name,
        columns=[list(column) for column in columns],
        options=dict(options) if options else None,
        if_not_exists=if_not_exists,
    )


def drop_table(keyspace: str, name: str, *, if_exists: bool = False) -> Invoke:
    """DROP TABLE."""
    return _change("drop-table", keyspace, name, if_exists=if_exists)


def add_column(keyspace: str, table: str, column: str, cql_type: str, *, static: bool = False) -> Invoke:
    """ALTER TABLE … ADD; a `static` column has one value a partition, and needs a table with clustering columns."""
    return _change("add-column", keyspace, table, column=[column, cql_type], static=static)


def drop_column(keyspace: str, table: str, column: str, *, timestamp: int | None = None) -> Invoke:
    """ALTER TABLE … DROP; `timestamp` in µs is CASSANDRA-7190's USING TIMESTAMP."""
    return _change("drop-column", keyspace, table, column=column, timestamp=timestamp)


def rename_column(keyspace: str, table: str, column: str, to: str) -> Invoke:
    """ALTER TABLE … RENAME (primary-key columns only)."""
    return _change("rename-column", keyspace, table, column=column, to=to)


def alter_options(keyspace: str, table: str, options: Mapping[str, Any]) -> Invoke:
    """ALTER TABLE … WITH name = value AND …; values are strings, numbers, booleans or maps."""
    return _change("alter-options", keyspace, table, options=dict(options))


def create_type(keyspace: str, name: str, *, fields: Sequence[tuple[str, str]], if_not_exists: bool = False) -> Invoke:
    """CREATE TYPE."""
    return _change("create-type", keyspace, name, fields=[list(field) for field in fields], if_not_exists=if_not_exists)


def add_field(keyspace: str, type_name: str, field: str, cql_type: str) -> Invoke:
    """ALTER TYPE … ADD."""
    return _change("add-field", keyspace, type_name, field=[field, cql_type])


def rename_field(keyspace: str, type_name: str, field: str, to: str) -> Invoke:
    """ALTER TYPE … RENAME."""
    return _change("rename-field", keyspace, type_name, field=field, to=to)


def drop_type(keyspace: str, name: str, *, if_exists: bool = False) -> Invoke:
    """DROP TYPE."""
    return _change("drop-type", keyspace, name, if_exists=if_exists)


def create_function(
    keyspace: str,
    name: str,
    *,
    arguments: Sequence[tuple[str, str]],
    returns: str,
    body: str,
    or_replace: bool = False,
    if_not_exists: bool = False,
) -> Invoke:
    """CREATE FUNCTION … CALLED ON NULL INPUT … LANGUAGE java, so that an aggregate on it needs no INITCOND; needs user-defined functions switched on.

    With `or_replace` it is CREATE OR REPLACE FUNCTION, which also changes one that is there.
    """
    return _change(
        "create-function",
        keyspace,
        name,
        arguments=[list(a) for a in arguments],
        returns=returns,
        body=body,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
    )


def drop_function(keyspace: str, name: str, *, if_exists: bool = False) -> Invoke:
    """DROP FUNCTION, by name alone: the harness never overloads."""
    return _change("drop-function", keyspace, name, if_exists=if_exists)


def create_aggregate(
    keyspace: str,
    name: str,
    *,
    arguments: Sequence[str],
    state_function: str,
    state_type: str,
    final_function: str | None = None,
    if_not_exists: bool = False,
) -> Invoke:
    """CREATE AGGREGATE … SFUNC … STYPE …, without INITCOND."""
    return _change(
        "create-aggregate",
        keyspace,
        name,
        arguments=list(arguments),
        state_function=state_function,
        state_type=state_type,
        final_function=final_function,
        if_not_exists=if_not_exists,
    )


def drop_aggregate(keyspace: str, name: str, *, if_exists: bool = False) -> Invoke:
    """DROP AGGREGATE, by name alone."""
    return _change("drop-aggregate", keyspace, name, if_exists=if_exists)


def create_view(
    keyspace: str, name: str, *, base: str, primary_key: Sequence[str], if_not_exists: bool = False
) -> Invoke:
    """CREATE MATERIALIZED VIEW of all columns of `base`; the first of `primary_key` is the partition key."""
    return _change("create-view", keyspace, name, base=base, primary_key=list(primary_key), if_not_exists=if_not_exists)


def alter_view(keyspace: str, name: str, options: Mapping[str, Any]) -> Invoke:
    """ALTER MATERIALIZED VIEW … WITH name = value AND …; values as for `alter_options`."""
    return _change("alter-view", keyspace, name, options=dict(options))


def drop_view(keyspace: str, name: str, *, if_exists: bool = False) -> Invoke:
    """DROP MATERIALIZED VIEW."""
    return _change("drop-view", keyspace, name, if_exists=if_exists)


def create_index(
    keyspace: str, name: str, *, table: str, column: str, using: str | None = None, if_not_exists: bool = False
) -> Invoke:
    """CREATE INDEX, of the class `using` or of the one that the server chooses."""
    return _change("create-index", keyspace, name, table=table, column=column, using=using, if_not_exists=if_not_exists)


def drop_index(keyspace: str, name: str, *, if_exists: bool = False) -> Invoke:
    """DROP INDEX."""
    return _change("drop-index", keyspace, name, if_exists=if_exists)


def cql(key: str, statement: str) -> Invoke:
    """Any statement, as text: recorded and classified, but not interpreted."""
    return Invoke("cql", key, {"statement": statement})
