"""Mutations: the rows that a coordinator writes for the difference between two schemas (`SchemaKeyspace` of 4.0 to 5.0).

A mutation of a keyspace contains the keyspace's own row (CASSANDRA-5631). An ALTER writes the whole row of `tables`, with
every option, and of `columns` only what changed. `Writing` switches both off for designs without these flaws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemaquake.clusters.simulated.schema.definitions import Aggregate, Column, Function, Keyspace, Schema, Table
from schemaquake.clusters.simulated.schema.rows import Path, RowChange

__all__ = ["Writing", "difference", "with_tables_of_now"]


@dataclass(frozen=True, slots=True)
class Writing:
    """The habits of a design when it writes a mutation."""

    keyspace_row: bool = True
    """Every mutation contains its keyspace's row, and so revives it."""
    whole_row: bool = True
    """An ALTER writes the row of its table whole, and so revives it and takes other ALTERs' options back."""
    rows_unite: bool = True
    """A CREATE leaves the rows of another CREATE of that name beside its own."""


def difference(before: Schema, after: Schema, stamp_us: int, writing: Writing) -> list[RowChange]:
    """Return the rows that turn `before` into `after`, stamped so."""
    changes: list[RowChange] = []
    for name in sorted({**before, **after}):
        if before.get(name) is not after.get(name):
            rows = list(_keyspace(before.get(name), after.get(name), writing))
            written = {path[:2] for path, cells in rows if cells}
            for path, cells in rows:
                # What is deleted and made anew in one difference must not hide itself.
                deleted_us = 0 if cells else stamp_us - (path in written)
                changes.append(
                    RowChange(name, path, {cell: (stamp_us, value) for cell, value in cells.items()}, deleted_us)
                )
    return changes


def with_tables_of_now(before: Schema, after: Schema, now: Schema) -> Schema:
    """Return `before` with each table that turns into another one in `after` as it is `now`, if it is there still.

    1.1 to 3.11 take the difference so (`MigrationManager.announceColumnFamilyUpdate`): of a table that was looked at again, not of
    the one that the statement copied and altered. What only one of the two knows as dropped stays known.
    """
    seen = dict(before)
    for name, keyspace in after.items():
        old, found = before.get(name), now.get(name)
        if old is None or found is None or old is keyspace:
            continue
        tables = {
            table.name: replace(
                again, dropped={each: again.dropped[each] for each in again.dropped if each in table.dropped}
            )
            for table in keyspace.tables.values()
            if (former := old.tables.get(table.name)) is not None
            and former is not table
            and (again := found.tables.get(table.name)) is not None
            and former.id == table.id == again.id
        }
        seen[name] = replace(old, tables={**old.tables, **tables})
    return seen


def _keyspace(old: Keyspace | None, new: Keyspace | None, writing: Writing) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the rows of a keyspace that differ; without cells: deleted."""
    if new is None:
        yield (), {}
        return
    if old is None or writing.keyspace_row or old.replication != new.replication:
        yield ("keyspaces",), {"": True, "replication": dict(new.replication), "durable_writes": True}
    if old is None:
        old = Keyspace(new.name, new.replication)
    yield from _relations("tables", old.tables, new.tables, writing)
    yield from _relations("views", old.views, new.views, writing)
    yield from _entries(("types",), old.types, new.types, _type)
    yield from _entries(("functions",), old.functions, new.functions, _function)
    yield from _entries(("aggregates",), old.aggregates, new.aggregates, _aggregate)


def _relations(
    kind: str, old: Mapping[str, Table], new: Mapping[str, Table], writing: Writing
) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for name, table in old.items():
        if name not in new or new[name].id != table.id:
            for part in (kind, "columns", "dropped_columns", "indexes"):
                yield (part, name), {}
    for name, table in new.items():
        former = old.get(name)
        if former is table:
            continue
        if former is None or former.id != table.id:
            former = Table(table.keyspace, name, table.id, {}, {})
            if not writing.rows_unite:
                for part in ("columns", "dropped_columns", "indexes"):
                    yield (part, name), {}
            yield (kind, name), {"": True, **_head(table)}
        elif writing.whole_row:
            yield (kind, name), {"": True, **_head(table)}
        else:
            yield from _rows((kind, name), former.options, table.options)
        yield from _parts(table, former)


def _head(table: Table) -> Mapping[str, Any]:
    base = {} if table.base is None else {"base_table_id": table.base[0], "base_table_name": table.base[1]}
    return {"id": table.id, **table.options, **base}


def _rows(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    changed = {name: value for name, value in new.items() if old.get(name) != value}
    if changed:
        yield path, changed


def _parts(table: Table, former: Table) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the changed columns, dropped columns and indexes of one table."""
    yield from _entries(("columns", table.name), former.columns, table.columns, _column)
    yield from _entries(("dropped_columns", table.name), former.dropped, table.dropped, _dropped)
    yield from _entries(("indexes", table.name), former.indexes, table.indexes, _index)


def _entries(
    within: Path, old: Mapping[str, Any], new: Mapping[str, Any], cells_of: Callable[[Any], Mapping[str, Any]]
) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for entry in old:
        if entry not in new:
            yield (*within, entry), {}
    for entry, definition in new.items():
        if old.get(entry) != definition:
            yield (*within, entry), {"": True, **cells_of(definition)}


def _column(column: Column) -> Mapping[str, Any]:
    return {"type": column.type, "kind": column.kind, "position": column.position}


def _dropped(dropped: tuple[str, int]) -> Mapping[str, Any]:
    return {"type": dropped[0], "dropped_us": dropped[1]}


def _index(target: str) -> Mapping[str, Any]:
    return {"kind": "COMPOSITES", "options": {"target": target}}


def _type(fields: Sequence[tuple[str, str]]) -> Mapping[str, Any]:
    # Field names are one frozen list: of two ALTERs the later one wins whole (B10).
    return {"field_names": [name for name, _ in fields], "field_types": [cql_type for _, cql_type in fields]}


def _function(function: Function) -> Mapping[str, Any]:
    return {
        "argument_names": [name for name, _ in function.arguments],
        "argument_types": [cql_type for _, cql_type in function.arguments],
        "return_type": function.returns,
        "body": function.body,
    }


def _aggregate(aggregate: Aggregate) -> Mapping[str, Any]:
    return {
        "argument_types": list(aggregate.arguments),
        "state_func": aggregate.state_function,
        "state_type": aggregate.state_type,
        "final_func": aggregate.final_function,
    }
