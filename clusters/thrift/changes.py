"""Thrift changes: an abstract schema change as the calls of the interface that changed schema up to 1.1.

Keyspaces and column families are created and dropped by one call. No call adds a column, sets an option or makes an
index: a client reads the whole definition, changes it and sends it back. Every client of that time did so, and so does
this one: `describe_keyspace`, then `system_update_…`, through one coordinator, two round trips inside one operation. A
change by another coordinator between the two is overwritten; that window is part of those versions.

A column that is dropped is dropped from the definition alone: the server keeps its cells, accepts new ones, and returns
both to a client that names the column. A race can lose the declaration, never the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from thriftpy2.thrift import TType

from schemaquake.clusters.thrift.dialects import Dialect
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import JSON

__all__ = ["Call", "NotInThisEra", "RefusedHere", "carry_out", "described_table"]

_LOCATOR: Final = "org.apache.cassandra.locator."
_CASTS: Final[Mapping[int, Callable[[Any], Any]]] = {
    TType.BOOL: bool,
    TType.DOUBLE: float,
    TType.I32: int,
    TType.STRING: str,
    TType.MAP: lambda entries: {str(name): str(entry) for name, entry in entries.items()},
}


class Call(Protocol):
    """A function that makes one call of the interface. Raises `schemaquake.clusters.thrift.connection.CallFailed`."""

    def __call__(self, name: str, *arguments: Any) -> Any:
        """Make the call and return its result."""
        ...


class NotInThisEra(Exception):
    """The interface of this version has no such change: nothing was sent."""


class RefusedHere(Exception):
    """The definition that this coordinator described does not allow the change: it was not sent."""


def carry_out(call: Call, dialect: Dialect, f: str, value: Mapping[str, Any]) -> bool:
    """Make the change. Return False if its IF [NOT] EXISTS, which these servers do not know, made it unnecessary.

    Raises NotInThisEra, RefusedHere, and the errors of `call`.
    """
    change = _CHANGES.get(f)
    if change is None:
        lack = f"no {f}" if f in SCHEMA_CHANGES else f'no operation "{f}"'
        raise NotInThisEra(f"the Thrift interface of Cassandra {dialect.name} has {lack}")
    if (value.get("if_exists") or value.get("if_not_exists")) and _is_done(call, f, value):
        return False
    change(call, dialect, value)
    return True


def described_table(call: Call, keyspace: str, name: str) -> Any | None:
    """Return the CfDef of one column family from this coordinator's memory, None if it has none of that name."""
    tables = call("describe_keyspace", keyspace).cf_defs
    return next((table for table in tables if table.name == name), None)


def _is_done(call: Call, f: str, value: Mapping[str, Any]) -> bool:
    """Return True if this coordinator's own schema already is as the statement wants it."""
    verb, _, kind = f.partition("-")
    described = {keyspace.name: keyspace for keyspace in call("describe_keyspaces")}
    keyspace = described.get(value["keyspace"])
    tables = [] if keyspace is None else keyspace.cf_defs
    exists = {
        "keyspace": keyspace is not None,
        "table": any(table.name == value.get("name") for table in tables),
        "index": any(_indexed(table, value.get("name", "")) for table in tables),
    }
    return exists[kind] == (verb == "create")


# ── keyspaces ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _create_keyspace(call: Call, dialect: Dialect, value: Mapping[str, Any]) -> None:
    definition = dialect.struct("KsDef", name=value["keyspace"], cf_defs=[])
    if dialect.factor_is_an_option:
        definition.durable_writes = True
    _replicate(definition, dialect, value["replication"])
    call("system_add_keyspace", definition)


def _alter_keyspace(call: Call, dialect: Dialect, value: Mapping[str, Any]) -> None:
    definition = call("describe_keyspace", value["keyspace"])
    definition.cf_defs = []  # an update that lists column families is refused
    _replicate(definition, dialect, value["replication"])
    call("system_update_keyspace", definition)


def _replicate(definition: Any, dialect: Dialect, replication: Mapping[str, JSON]) -> None:
    options = {name: str(entry) for name, entry in replication.items() if name != "class"}
    strategy = str(replication["class"])
    definition.strategy_class = strategy if "." in strategy else _LOCATOR + strategy
    if dialect.factor_is_an_option:
        definition.replication_factor = None
    else:
        definition.replication_factor = int(options.pop("replication_factor"))
    definition.strategy_options = options


def _drop_keyspace(call: Call, _dialect: Dialect, value: Mapping[str, Any]) -> None:
    call("system_drop_keyspace", value["keyspace"])


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _create_table(call: Call, dialect: Dialect, value: Mapping[str, Any]) -> None:
    columns = {name: (cql_type, kind) for name, cql_type, kind in value["columns"]}
    unsaid = sorted({kind for _, kind in columns.values()} - {"partition_key", "regular"})
    keys = [name for name, (_, kind) in columns.items() if kind == "partition_key"]
    if unsaid or len(keys) != 1:
        raise NotInThisEra(
            "a column family has one row key and columns: no " + " or ".join(unsaid or ["composite partition key"])
        )
    definition = dialect.struct(
        "CfDef",
        keyspace=value["keyspace"],
        name=value["name"],
        column_type="Standard",
        comparator_type="UTF8Type",
        column_metadata=[
            _column(dialect, name, cql_type)
            for name, (cql_type, kind) in columns.items()
            if kind == "regular" or not dialect.aliases_keys
        ],
    )
    if dialect.aliases_keys:
        definition.key_alias = keys[0].encode()
        definition.key_validation_class = _class_of(dialect, columns[keys[0]][0])
    _set_options(definition, dialect, value.get("options") or {})
    call("set_keyspace", value["keyspace"])
    call("system_add_column_family", definition)


def _drop_table(call: Call, _dialect: Dialect, value: Mapping[str, Any]) -> None:
    call("set_keyspace", value["keyspace"])
    call("system_drop_column_family", value["name"])


def _alter_options(call: Call, dialect: Dialect, value: Mapping[str, Any]) -> None:
    definition = _described(call, value["keyspace"], value["name"])
    _set_options(definition, dialect, value["options"])
    _update(call, definition)


def _set_options(definition: Any, dialect: Dialect, options: Mapping[str, JSON]) -> None:
    for name, entry in options.items():
        thrift_type = dialect.options.get(name)
        if thrift_type is None:
            raise NotInThisEra(f"the definition of a column family in Cassandra {dialect.name} has no option {name}")
        setattr(definition, name, _CASTS[thrift_type](entry))


# ── columns and indexes ──────────────────────────────────────────────────────────────────────────────────────────────


def _add_column(call: Call, dialect: Dialect, value: Mapping[str, Any]) -> None:
    name, cql_type = value["column"]
    added = _column(dialect, name, cql_type)
    definition = _described(call, value["keyspace"], value["name"])
    if _declared(definition, name) is not None:
        raise RefusedHere(f"{value['keyspace']}.{value['name']} has a column {name} already")
    definition.column_metadata = [*(definition.column_metadata or ()), added]
    _update(call, definition)


def _drop_column(call: Call, _dialect: Dialect, value: Mapping[str, Any]) -> None:
    if value.get("timestamp") is not None:
        raise NotInThisEra("a column is dropped from the definition, without a timestamp")
    definition = _described(call, value["keyspace"], value["name"])
    dropped = _existing(definition, value["column"])
    definition.column_metadata = [column for column in definition.column_metadata if column is not dropped]
    _update(call, definition)


def _create_index(call: Call, dialect: Dialect, value: Mapping[str, Any]) -> None:
    definition = _described(call, value["keyspace"], value["table"])
    column = _existing(definition, value["column"])
    if column.index_type is not None:
        raise RefusedHere(f"column {value['column']} of {definition.keyspace}.{definition.name} has an index already")
    column.index_type = dialect.idl.IndexType.KEYS
    column.index_name = value["name"]
    _update(call, definition)


def _drop_index(call: Call, _dialect: Dialect, value: Mapping[str, Any]) -> None:
    for definition in call("describe_keyspace", value["keyspace"]).cf_defs:
        column = _indexed(definition, value["name"])
        if column is not None:
            column.index_type = column.index_name = None
            if hasattr(column, "index_options"):
                column.index_options = None
            _update(call, definition)
            return
    raise RefusedHere(f"there is no index {value['name']} in {value['keyspace']}")


def _column(dialect: Dialect, name: str, cql_type: str) -> Any:
    return dialect.struct("ColumnDef", name=name.encode(), validation_class=_class_of(dialect, cql_type))


def _class_of(dialect: Dialect, cql_type: str) -> str:
    found = dialect.class_of(cql_type)
    if found is None:
        raise NotInThisEra(f"Cassandra {dialect.name} has no type {cql_type}")
    return found


def _described(call: Call, keyspace: str, name: str) -> Any:
    definition = described_table(call, keyspace, name)
    if definition is None:
        raise RefusedHere(f"this coordinator knows no column family {keyspace}.{name}")
    return definition


def _declared(definition: Any, name: str) -> Any | None:
    return next((c for c in definition.column_metadata or () if c.name == name.encode()), None)


def _existing(definition: Any, name: str) -> Any:
    column = _declared(definition, name)
    if column is None:
        raise RefusedHere(f"{definition.keyspace}.{definition.name} has no column {name}")
    return column


def _indexed(definition: Any, index: str) -> Any | None:
    return next((c for c in definition.column_metadata or () if c.index_name == index), None)


def _update(call: Call, definition: Any) -> None:
    call("set_keyspace", definition.keyspace)
    call("system_update_column_family", definition)


_CHANGES: Final[Mapping[str, Callable[[Call, Dialect, Mapping[str, Any]], None]]] = {
    "create-keyspace": _create_keyspace,
    "alter-keyspace": _alter_keyspace,
    "drop-keyspace": _drop_keyspace,
    "create-table": _create_table,
    "drop-table": _drop_table,
    "alter-options": _alter_options,
    "add-column": _add_column,
    "drop-column": _drop_column,
    "create-index": _create_index,
    "drop-index": _drop_index,
}
