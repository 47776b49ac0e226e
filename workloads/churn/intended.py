"""Intended schema: one keyspace as it would be if every change of churn so far had been carried out in turn.

Churn draws its statements from it: what is there can be altered and dropped, and what is not can be made. It follows from
the seed alone, never from an outcome, so that the same seed draws the same statements. Where a race went another way, a
later CREATE or DROP of that name is refused, and both agree again.

A change is refused as 5.0 refuses it: a type that is used is not dropped, an indexed column neither, and a column that
was dropped comes back with its old type alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias

from schemaquake.harness.ddl.cql import indexed_column
from schemaquake.harness.ddl.schema_changes import (
    add_column,
    create_aggregate,
    create_function,
    create_index,
    create_keyspace,
    create_table,
    create_type,
    create_view,
)
from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.statements.description import SECONDARY, STORAGE_ATTACHED

__all__ = ["IntendedIndex", "IntendedKeyspace", "IntendedTable", "column_shape"]

_Carry: TypeAlias = Callable[[], None]
_KEY: Final = "int partition_key"
_NATIVE: Final = frozenset({"int", "list", "set", "map"})
_MULTI_CELL: Final = ("list<", "set<", "map<")
"""Types of more than one cell, which no key can have."""
_FROZEN_COLLECTIONS: Final = ("frozen<list<", "frozen<set<", "frozen<map<")


def column_shape(cql_type: str, kind: str) -> str:
    """Return type and kind of a column as the descriptions of statements have them: `int`, `int static`."""
    return cql_type if kind == "regular" else f"{cql_type} {kind}"


@dataclass(slots=True)
class IntendedTable:
    """A table: columns as name → shape; `dropped` are the shapes of columns that were dropped since it was created."""

    columns: dict[str, str]
    dropped: dict[str, str] = field(default_factory=dict)

    @property
    def clustering(self) -> tuple[str, ...]:
        """The names of its clustering columns."""
        return tuple(name for name, shape in self.columns.items() if shape.endswith(" clustering"))

    @property
    def static(self) -> Mapping[str, str]:
        """The static columns, as name → CQL type."""
        return {
            name: shape.removesuffix(" static") for name, shape in self.columns.items() if shape.endswith(" static")
        }

    @property
    def holds_columns(self) -> bool:
        """False for a table of counters."""
        return "counter" not in self.columns.values()


class IntendedIndex(NamedTuple):
    """An index: its table, what it is on (a column, or a function of one, such as `keys(m)`), and its class if one was asked for."""

    table: str
    target: str
    using: str | None

    @property
    def column(self) -> str:
        """The column that it is on."""
        return indexed_column(self.target)


@dataclass(slots=True)
class IntendedKeyspace:
    """The objects of one keyspace, by kind and name."""

    name: str
    exists: bool = False
    tables: dict[str, IntendedTable] = field(default_factory=dict)
    types: dict[str, dict[str, str]] = field(default_factory=dict)
    functions: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name → the type of its result and its body."""
    aggregates: dict[str, str] = field(default_factory=dict)
    """Name → its function."""
    views: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name → its base and the column that is its partition key."""
    indexes: dict[str, IntendedIndex] = field(default_factory=dict)

    def copied(self) -> IntendedKeyspace:
        """Return a copy that changes apart from this one. It is made for every statement drawn, and so without `copy.deepcopy`."""
        return replace(
            self,
            tables={
                name: replace(table, columns=dict(table.columns), dropped=dict(table.dropped))
                for name, table in self.tables.items()
            },
            types={name: dict(fields) for name, fields in self.types.items()},
            functions=dict(self.functions),
            aggregates=dict(self.aggregates),
            views=dict(self.views),
            indexes=dict(self.indexes),
        )

    def allows(self, change: Invoke) -> bool:
        """Return True if the change would be carried out now."""
        return self._carrying(change) is not None

    def apply(self, change: Invoke) -> bool:
        """Carry the change out; False if it is refused."""
        carry = self._carrying(change)
        if carry is not None:
            carry()
        return carry is not None

    def objects(self, kind: str) -> Iterator[Mapping[str, str]]:
        """List the objects of a kind, each with the objects that it lies in: {"index": "i0", "table": "t0", "column": "c0"}."""
        match kind:
            case "keyspace":
                yield from [{"keyspace": self.name}] if self.exists else []
            case "table":
                yield from ({"table": name} for name in self.tables)
            case "column" | "clustering":
                yield from (
                    {kind: column, "table": name}
                    for name, table in self.tables.items()
                    for column, shape in table.columns.items()
                    if shape.endswith(" clustering") == (kind == "clustering") and column not in {"k", "v", "u", "n"}
                )
            case "type":
                yield from ({"type": name} for name in self.types)
            case "field":
                yield from (
                    {"field": part, "type": name} for name, parts in self.types.items() for part in parts if part != "a"
                )
            case "function":
                yield from ({"function": name} for name in self.functions)
            case "aggregate":
                yield from ({"aggregate": name, "function": used} for name, used in self.aggregates.items())
            case "view":
                yield from ({"view": name, "table": on[0], "column": on[1]} for name, on in self.views.items())
            case "index":
                yield from (
                    {"index": name, "table": on.table, "column": on.column} for name, on in self.indexes.items()
                )

    def shape_of(self, kind: str, names: Mapping[str, str]) -> str:
        """Return the shape of a column, a field, a function or an index; empty for another kind."""
        match kind:
            case "column" | "clustering":
                return self.tables[names["table"]].columns[names[kind]]
            case "field":
                return self.types[names["type"]][names["field"]]
            case "function":
                return self.functions[names["function"]][0]
            case "index":
                return SECONDARY if self.indexes[names["index"]].using is None else STORAGE_ATTACHED
        return ""

    def definitions(self, replication_factor: int) -> Iterator[Invoke]:
        """Yield the statements that create the keyspace as it is, in order; what was dropped before is forgotten."""
        if not self.exists:
            return
        yield create_keyspace(self.name, replication_factor=replication_factor)
        remaining = dict(self.types)
        while remaining:
            ready = next(name for name, parts in remaining.items() if not _mentioned(parts.values()) & remaining.keys())
            yield create_type(self.name, ready, fields=list(remaining.pop(ready).items()))
        bases = {base for base, _ in self.views.values()}
        for name, table in self.tables.items():
            # A view is refused on a table with static columns, which the table may get afterwards.
            later = table.static if name in bases else {}
            columns = [_declared(*column) for column in table.columns.items() if column[0] not in later]
            yield create_table(self.name, name, columns=columns)
        for name, (returns, body) in self.functions.items():
            arguments = [("state", "int"), ("value", "int")]
            yield create_function(self.name, name, arguments=arguments, returns=returns, body=body)
        for name, function in self.aggregates.items():
            yield create_aggregate(self.name, name, arguments=["int"], state_function=function, state_type="int")
        for name, on in self.indexes.items():
            yield create_index(self.name, name, table=on.table, column=on.target, using=on.using)
        for name, (base, column) in self.views.items():
            yield create_view(self.name, name, base=base, primary_key=[column, "k", *self.tables[base].clustering])
        for name in sorted(bases):
            for column, cql_type in self.tables[name].static.items():
                yield add_column(self.name, name, column, cql_type, static=True)

    # ── changes: each returns what carries it out, or None if it is refused ──────────────────────────────────────────

    def _carrying(self, change: Invoke) -> _Carry | None:
        value: Any = change.value
        if change.f == "create-keyspace":
            return self._unless(value, present=self.exists, carry=self._make)
        if not self.exists:
            return None
        if change.f in {"drop-keyspace", "alter-keyspace"}:
            return self._clear if change.f == "drop-keyspace" else _nothing
        verb, _, kind = change.f.partition("-")
        if verb == "create":
            present = self._has(kind, value["name"]) and not self._replaces(value)
            return self._unless(value, present=present, carry=self._creating(kind, value))
        if verb == "drop" and kind != "column":
            return self._dropping(kind, value)
        return self._altering(change.f, value)

    def _make(self) -> None:
        self.exists = True

    def _clear(self) -> None:
        self.exists = False
        for objects in (self.tables, self.types, self.functions, self.aggregates, self.views, self.indexes):
            objects.clear()

    @staticmethod
    def _unless(value: Mapping[str, Any], *, present: bool, carry: _Carry | None) -> _Carry | None:
        """Return what makes an object, unless it is there; IF NOT EXISTS then does nothing."""
        if present:
            return _nothing if value.get("if_not_exists") else None
        return carry

    def _has(self, kind: str, name: str) -> bool:
        match kind:
            case "table" | "view":
                return name in self.tables or name in self.views
            case "function" | "aggregate":
                return name in self.functions or name in self.aggregates
        return name in self._of(kind)

    def _replaces(self, value: Mapping[str, Any]) -> bool:
        """Tell if CREATE OR REPLACE FUNCTION finds a function with the same result."""
        found = self.functions.get(value["name"])
        return bool(value.get("or_replace")) and found is not None and found[0] == value["returns"]

    def _of(self, kind: str) -> dict[str, Any]:
        found: dict[str, dict[str, Any]] = {
            "table": self.tables,
            "type": self.types,
            "function": self.functions,
            "aggregate": self.aggregates,
            "view": self.views,
            "index": self.indexes,
        }
        return found[kind]

    def _creating(self, kind: str, value: Mapping[str, Any]) -> _Carry | None:
        name = value["name"]
        made: Any
        match kind:
            case "table":
                made = IntendedTable({column: column_shape(cql_type, k) for column, cql_type, k in value["columns"]})
                able = self._knows(cql_type for _, cql_type, _ in value["columns"])
            case "type":
                made = dict(value["fields"])
                able = self._knows(made.values())
            case "function":
                made, able = (value["returns"], value["body"]), self._knows([f"frozen<{value['returns']}>"])
            case "aggregate":
                made = value["state_function"]
                able = made in self.functions and self.functions[made][0] == value["state_type"]
            case "view":
                column = value["primary_key"][0]
                made = (value["base"], column)
                base = self.tables.get(value["base"])
                able = (
                    base is not None
                    and base.columns.keys() >= set(value["primary_key"])
                    and not base.static
                    and not base.columns[column].startswith(_MULTI_CELL)
                )
            case _:
                made = IntendedIndex(value["table"], value["column"], value.get("using"))
                table = self.tables.get(value["table"])
                able = table is not None and made not in self.indexes.values() and _can_be_on(made.target, table)
        return (lambda: self._of(kind).update({name: made})) if able else None

    def _dropping(self, kind: str, value: Mapping[str, Any]) -> _Carry | None:
        name = value["name"]
        if name not in self._of(kind):
            return _nothing if value.get("if_exists") else None
        used = {
            "table": lambda: any(base == name for base, _ in self.views.values()),
            "type": lambda: name in _mentioned(self._cql_types()),
            "function": lambda: name in self.aggregates.values(),
        }
        if kind in used and used[kind]():
            return None

        def carry() -> None:
            del self._of(kind)[name]
            if kind == "table":
                self.indexes = {index: on for index, on in self.indexes.items() if on.table != name}

        return carry

    def _altering(self, f: str, value: Mapping[str, Any]) -> _Carry | None:
        name = value["name"]
        if f in {"add-field", "rename-field"}:
            parts = self.types.get(name)
            return None if parts is None else self._altering_type(f, value, parts)
        if f == "alter-view":
            return _nothing if name in self.views else None
        table = self.tables.get(name)
        if table is None:
            return None
        match f:
            case "alter-options":
                return _nothing
            case "add-column":
                return self._adding(table, value)
            case "drop-column":
                return self._dropping_column(table, value)
            case "rename-column":
                return self._renaming(table, value)
        return None

    def _altering_type(self, f: str, value: Mapping[str, Any], parts: dict[str, str]) -> _Carry | None:
        if f == "add-field":
            part, cql_type = value["field"]
            if part in parts or not self._knows([cql_type]) or value["name"] in self._types_within(cql_type):
                return None
            return lambda: parts.update({part: cql_type})
        if value["field"] not in parts or value["to"] in parts:
            return None
        renamed = {value["to"] if part == value["field"] else part: cql_type for part, cql_type in parts.items()}
        return lambda: self.types.update({value["name"]: renamed})

    def _adding(self, table: IntendedTable, value: Mapping[str, Any]) -> _Carry | None:
        column, cql_type = value["column"]
        shape = column_shape(cql_type, "static" if value.get("static") else "regular")
        if column in table.columns or not table.holds_columns or not self._knows([cql_type]):
            return None
        if table.dropped.get(column, shape) != shape or (value.get("static") and not table.clustering):
            return None
        return lambda: table.columns.update({column: shape})

    def _dropping_column(self, table: IntendedTable, value: Mapping[str, Any]) -> _Carry | None:
        column, name = value["column"], value["name"]
        shape = table.columns.get(column)
        if shape is None or shape == _KEY or shape.endswith(" clustering"):
            return None
        if self._is_indexed(name, column) or any(base == name for base, _ in self.views.values()):
            return None

        def carry() -> None:
            table.dropped[column] = table.columns.pop(column)

        return carry

    def _renaming(self, table: IntendedTable, value: Mapping[str, Any]) -> _Carry | None:
        column, to = value["column"], value["to"]
        if column not in table.clustering or to in table.columns or self._is_indexed(value["name"], column):
            return None
        if any(base == value["name"] for base, _ in self.views.values()):
            return None
        renamed = {to if each == column else each: shape for each, shape in table.columns.items()}

        def carry() -> None:
            table.columns = renamed

        return carry

    def _is_indexed(self, table: str, column: str) -> bool:
        return any((on.table, on.column) == (table, column) for on in self.indexes.values())

    def _knows(self, cql_types: Any) -> bool:
        return _mentioned(cql_types) <= self.types.keys()

    def _types_within(self, cql_type: str) -> set[str]:
        """Return the types that a type names, those of their fields and so on included."""
        found: set[str] = set()
        waiting = _mentioned([cql_type])
        while waiting:
            name = waiting.pop()
            waiting |= _mentioned(self.types[name].values()) - found
            found.add(name)
        return found

    def _cql_types(self) -> Iterator[str]:
        """List the types of all columns, fields and functions' results."""
        for table in self.tables.values():
            yield from table.columns.values()
        for parts in self.types.values():
            yield from parts.values()
        # The result of a function is written without frozen<>, and is frozen nevertheless.
        yield from (f"frozen<{returns}>" for returns, _ in self.functions.values())


def _can_be_on(target: str, table: IntendedTable) -> bool:
    """Tell if an index can be on this: keys and entries are a map's, a frozen collection is indexed as a whole and nothing else is."""
    column = indexed_column(target)
    shape = table.columns.get(column)
    match target.removesuffix(f"({column})"):
        case "keys" | "entries":
            return shape is not None and shape.startswith("map<")
        case "values":
            return shape is not None and shape.startswith(_MULTI_CELL)
        case "full":
            return shape is not None and shape.startswith(_FROZEN_COLLECTIONS)
    return shape is not None and shape != _KEY and not shape.startswith(_FROZEN_COLLECTIONS)


def _nothing() -> None:
    """Carry out a change that leaves this schema as it is."""


def _mentioned(cql_types: Any) -> set[str]:
    """Return the user-defined types that these types name: `u0` of `frozen<u0>`."""
    return {name for text in cql_types for name in re.findall(r"frozen<(\w+)>", text) if name not in _NATIVE}


def _declared(name: str, shape: str) -> tuple[str, str, str]:
    cql_type, _, kind = shape.partition(" ")
    return name, cql_type, kind or "regular"
