"""Observations: a node's final reading as guards on every variable of a keyspace.

Judged: the existence of objects, the columns of tables (types only where the reading spells one of those that were asked for),
options that a statement of the history set, the fields of types, the columns of indexes, the replication factor. Where a
reading is not clear, it has no guard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

import orjson

from schemaquake.checkers.ddl_order.variables import (
    ABSENT,
    RENAMED,
    UNKNOWN,
    UNSET,
    Alternative,
    Change,
    ColumnValue,
    Guard,
    Value,
    Variable,
    exists,
    is_a,
    lacks,
    title,
)
from schemaquake.checkers.ddl_order.vocabulary import Vocabulary
from schemaquake.checkers.evidence.cql_types import canonical
from schemaquake.checkers.evidence.node_schemas import NodeSchema, Table
from schemaquake.checkers.evidence.option_values import can_be
from schemaquake.harness.model.operation import JSON

__all__ = ["model_reading"]


def model_reading(schema: NodeSchema, vocabulary: Vocabulary) -> Change:
    """Model one node's reading as a single alternative without effects."""
    guards = [
        guard
        for variable in sorted(vocabulary.variables())
        if (guard := _shown(variable, schema, vocabulary)) is not None
    ]
    return Change(required=True, alternatives=(Alternative(tuple(guards)),))


def _shown(variable: Variable, schema: NodeSchema, vocabulary: Vocabulary) -> Guard | None:
    reader = _READERS[variable.kind]
    return reader(variable, schema, vocabulary)


def _keyspace_shown(variable: Variable, schema: NodeSchema, _: Vocabulary) -> Guard:
    return _presence(variable, shown=variable.keyspace in schema.keyspaces)


def _replication_shown(variable: Variable, schema: NodeSchema, _: Vocabulary) -> Guard | None:
    replication = (schema.keyspaces.get(variable.keyspace) or {}).get("replication") or {}
    factor = replication.get("replication_factor")
    if factor is None:
        return None
    return Guard(
        variable,
        lambda held: held in (UNKNOWN, UNSET, str(factor)),
        f"the replication factor of {variable.keyspace} is {factor}",
    )


def _relation_shown(variable: Variable, schema: NodeSchema, _: Vocabulary) -> Guard:
    key = (variable.keyspace, variable.name)
    if key in schema.views:
        return is_a(variable, "view")
    table = schema.tables.get(key)
    if table is None:
        return _presence(variable, shown=False)
    if _bodiless(table, schema):
        return Guard(variable, lambda held: held == UNKNOWN, f"{variable.object} has columns but no row of its own")
    return is_a(variable, "table")


def _bodiless(table: Table, schema: NodeSchema) -> bool:
    """Tell if the table's own row is missing, in an era whose tables have one."""
    return not table.has_own_row and any(other.has_own_row for other in schema.tables.values())


def _column_shown(variable: Variable, schema: NodeSchema, vocabulary: Vocabulary) -> Guard | None:
    if (variable.keyspace, variable.name) in schema.views:
        return None
    table = schema.tables.get((variable.keyspace, variable.name))
    column = None if table is None else table.columns.get(variable.part)
    if column is None:
        return _presence(variable, shown=False)
    written = vocabulary.written.get(variable, set())
    shown = canonical(column.type)

    def allows(held: Value) -> bool:
        if not isinstance(held, ColumnValue):
            return held == UNKNOWN
        other_kind = held.kind is not None and column.kind in _COLUMN_KINDS and held.kind != column.kind
        other_type = held.type is not None and shown in written and held.type != shown
        return not other_kind and not other_type

    return Guard(variable, allows, f"{title(variable)} is {column.type} ({column.kind})")


_COLUMN_KINDS: Final = frozenset({"partition_key", "clustering", "static", "regular"})


def _option_shown(variable: Variable, schema: NodeSchema, _: Vocabulary) -> Guard | None:
    place = (variable.keyspace, variable.name)
    table = schema.tables.get(place) or schema.views.get(place)
    shown = None if table is None else table.options.get(variable.part)
    if shown is None:
        return None

    def allows(held: Value) -> bool:
        return held in (UNKNOWN, UNSET, ABSENT) or can_be(shown, orjson.loads(str(held)))

    return Guard(variable, allows, f"{title(variable)} is {orjson.dumps(shown).decode()}")


def _type_shown(variable: Variable, schema: NodeSchema, _: Vocabulary) -> Guard:
    return _presence(variable, shown=(variable.keyspace, variable.name) in schema.types)


def _field_shown(variable: Variable, schema: NodeSchema, vocabulary: Vocabulary) -> Guard:
    fields = dict(schema.types.get((variable.keyspace, variable.name), ()))
    if variable.part not in fields:
        return _presence(variable, shown=False)
    written = vocabulary.written.get(variable, set())
    shown = canonical(fields[variable.part])
    return Guard(
        variable,
        lambda held: held in (UNKNOWN, RENAMED, shown) or (held != ABSENT and shown not in written),
        f"{title(variable)} is {fields[variable.part]}",
    )


def _routine_shown(variable: Variable, schema: NodeSchema, _: Vocabulary) -> Guard:
    key = (variable.keyspace, variable.name)
    return _presence(variable, shown=key in schema.functions or key in schema.aggregates)


def _index_shown(variable: Variable, schema: NodeSchema, vocabulary: Vocabulary) -> Guard:
    on = {
        table.name: table.indexes[variable.name].get("target")
        for table in schema.tables.values()
        if table.keyspace == variable.keyspace and variable.name in table.indexes
    }
    if not on:
        return _presence(variable, shown=False)

    def allows(held: Value) -> bool:
        if not isinstance(held, tuple):
            return held in (UNKNOWN, "index")
        table, column = held
        return table in on and _is_on(on[table], column, vocabulary.renames.get(table, ()))

    places = (table if target is None else f"{table} ({target})" for table, target in sorted(on.items()))
    return Guard(variable, allows, f"{title(variable)} is on {', '.join(places)}")


def _is_on(target: JSON, column: str, renames: Collection[tuple[str, str]]) -> bool:
    """Tell if what a node shows as an index's target may name this column, by its first or any later name."""
    if not isinstance(target, str):
        return True
    names = [column]
    for name in names:  # grows while it is walked
        names += {new for old, new in renames if old == name} - set(names)
    # The column stands within what is indexed of it, values(c), or in a map of lists of columns.
    return not set(names).isdisjoint(re.findall(r"\w+", target)) or any(not name.isidentifier() for name in names)


def _presence(variable: Variable, *, shown: bool) -> Guard:
    return exists(variable) if shown else lacks(variable)


_READERS: Final[Mapping[str, Callable[[Variable, NodeSchema, Vocabulary], Guard | None]]] = {
    "keyspace": _keyspace_shown,
    "replication": _replication_shown,
    "relation": _relation_shown,
    "column": _column_shown,
    "option": _option_shown,
    "type": _type_shown,
    "field": _field_shown,
    "routine": _routine_shown,
    "index": _index_shown,
}
