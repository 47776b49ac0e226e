"""Descriptions of statements: the objects that each one needs, makes, removes, changes and names.

A statement has *slots*, one for each object it is about. The first slot is its subject. From slots alone follow which
pairs of statements are related, and what must exist before they race (`schemaquake.workloads.statements.meetings`): a
new statement is one entry here, and every pair with it is raced.

`LEFT_OUT` lists the statements that are not described here, each with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from schemaquake.harness.ddl.rows import WriteForm, delete_row, insert, read_rows, truncate
from schemaquake.harness.ddl.schema_changes import (
    add_column,
    add_field,
    alter_keyspace,
    alter_options,
    alter_view,
    create_aggregate,
    create_function,
    create_index,
    create_keyspace,
    create_table,
    create_type,
    create_view,
    drop_aggregate,
    drop_column,
    drop_function,
    drop_index,
    drop_keyspace,
    drop_table,
    drop_type,
    drop_view,
    rename_column,
    rename_field,
)
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.steps import Invoke

__all__ = [
    "ANY",
    "DATA",
    "FROZEN_LIST",
    "INT",
    "LEFT_OUT",
    "LIST",
    "MAP",
    "NEW",
    "SCHEMA",
    "SECONDARY",
    "STATIC",
    "STORAGE_ATTACHED",
    "VALUE",
    "Kind",
    "Names",
    "Role",
    "Slot",
    "Statement",
    "clustering_columns",
    "create",
    "declared",
]

Kind: TypeAlias = Literal[
    "keyspace", "table", "column", "clustering", "type", "field", "function", "aggregate", "view", "index"
]
"""Kinds of objects. `clustering` is a column of the primary key, which can be renamed but neither added nor dropped."""
Role: TypeAlias = Literal["makes", "removes", "changes", "names"]
"""The way in which a statement is about an object: all but `makes` need it to exist."""

INT: Final = "int"
TEXT: Final = "text"
NEW: Final = "new"
"""The part of a slot for what a RENAME makes."""
ANY: Final = ""
"""The shape of a column of any type and kind."""
LIST: Final = "list<int>"
FROZEN_LIST: Final = "frozen<list<int>>"
MAP: Final = "map<int,int>"
STATIC: Final = "int static"
CLUSTERING: Final = "int clustering"
STORAGE_ATTACHED: Final = "sai"
SECONDARY: Final = "secondary"
"""Shapes of indexes, by their class."""
VALUE: Final = 7
"""The value of every cell of an integer column: what lookups by index and view ask for."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One object that a statement is about."""

    name: str
    kind: Kind
    role: Role
    inside: tuple[str, ...] = ()
    """Slots of the objects without which this one cannot exist: the table of a column, table and column of an index."""
    shape: str = ""
    """The CQL type of a column, a field or a function's result, the kind of a column that is not regular, or the class of an index; `{type}` stands for the name of the slot `type`. Empty: any will do."""
    exact: bool = False
    """True if the statement is refused for an object of another shape."""
    part: str = ""
    """What tells this object from another one of its kind that the statement is about: the `inner` of two types."""

    @property
    def types(self) -> Sequence[str]:
        """The slots whose names stand in the shape."""
        return re.findall(r"\{(\w+)\}", self.shape)

    @property
    def about(self) -> str:
        """The object in names of cells: `table`, `inner-type`."""
        return f"{self.part}-{self.kind}" if self.part else self.kind


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a statement's objects in one race, and what makes its definition different from the other side's."""

    keyspace: str
    slots: Mapping[str, str]
    """Slot → name."""
    side: int = 0
    shapes: Mapping[str, str] = field(default_factory=dict)
    """Slot → CQL type of a column, a field or a function's result, or class of an index."""
    parts: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    """Name of a table or a type → the columns or fields (name, CQL type) that it has beside those of its kind, because a statement is about them."""
    tag: int | None = None
    """A number that no other change of the run has; None: only the sides of one race need to differ."""

    @property
    def number(self) -> int:
        """The number that stands in what a statement defines: a comment, a constant, an option's value, the name of a field."""
        return self.side if self.tag is None else self.tag

    def __getitem__(self, slot: str) -> str:
        """Return the name of the slot's object."""
        return self.slots[slot]


@dataclass(frozen=True, slots=True)
class Statement:
    """One kind of statement. `write` renders it for the objects of a race."""

    name: str
    slots: tuple[Slot, ...]
    write: Callable[[Names], Invoke]
    requires: frozenset[str] = frozenset()
    """Features of a system, beside those of its slots' kinds."""
    holds_columns: bool = True
    """False for a table that can have no columns but its own, so that no row of an integer and a text can be written."""
    plain: bool = True
    """False for a form that is left out where one of its kind is enough, as in the plain keyspaces of schema churn."""
    variant_of: str | None = None
    """The statement from which it differs only in IF [NOT] EXISTS, in its consistency level, or in the kind of collection. A quick grid leaves it out."""

    @property
    def subject(self) -> Slot:
        """The object that the statement makes, removes, changes, or reads and writes."""
        return self.slots[0]

    @property
    def features(self) -> frozenset[str]:
        """The features that a system must have for this statement."""
        return self.requires | {_FEATURE[slot.kind] for slot in self.slots}


_FEATURE: Final[Mapping[str, str]] = {
    "keyspace": "keyspaces",
    "table": "tables",
    "column": "columns",
    "clustering": "cql",
    "type": "types",
    "field": "types",
    "function": "functions",
    "aggregate": "functions",
    "view": "views",
    "index": "indexes",
}

LEFT_OUT: Final[Mapping[str, str]] = {
    "CREATE ROLE, GRANT and their like": "roles and permissions are rows of a distributed table, not schema",
    "CREATE TRIGGER": "a trigger needs a jar on every node",
    "ALTER TABLE … ALTER … TYPE": "withdrawn since 3.10 (CASSANDRA-12443)",
    "CREATE FUNCTION and CREATE AGGREGATE of one name": "they have different arguments, and overloads are not modelled",
    "UPDATE of a counter": "the checkers of rows do not know counters; the workload counter does",
    "ADD and DROP of a counter": "its table has no text to write rows with, and is made without one only to be made",
    "IF [NOT] EXISTS of ALTER": "since 4.1 alone; the checkers do not follow an ALTER that does nothing",
    "ADD and DROP of several columns at once": "the histories know one column a change",
    "CREATE INDEX without a name": "the server chooses it, and the checkers know an index by its name",
    "CREATE OR REPLACE AGGREGATE": "the histories have no form for it",
    "SELECT of a function or an aggregate": "its answer is no row that the checkers know",
    "columns of types that are not frozen": "a write of one field is no row that the checkers know",
    "WITH durable_writes": "the checkers follow a keyspace's replication alone, which stands in the same row",
    "CREATE INDEX on values()": "on a collection the same index as one on the column",
    "CREATE AGGREGATE with FINALFUNC": "its function has other arguments than all others, and overloads are not modelled",
    "RENAME of the partition key, and of several columns at once": "every row is written by the key; the histories know one column a change",
    "columns of sets, tuples and vectors": "lists and maps stand for them",
    "CREATE MATERIALIZED VIEW of some columns": "the histories know SELECT * alone",
    "CREATE TABLE … LIKE": "of 6.0 alone; the checkers do not follow what is copied",
    "masks, constraints and comments of columns": "of 5.0 and 6.0 alone; the checkers do not compare them",
}
"""Statements that the grid does not race, with the reason."""


# ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _columns(names: Names, *more: tuple[str, str, str]) -> list[tuple[str, str, str]]:
    """Return the columns of a table: an integer key, those that the statements are about, a text."""
    needed = [(name, *declared(cql_type)) for name, cql_type in names.parts.get(names["table"], ())]
    return [
        ("k", "int", "partition_key"),
        *(column for column in needed if column[2] == "clustering"),
        ("v", "text", "regular"),
        *(column for column in needed if column[2] != "clustering"),
        *more,
    ]


def declared(shape: str) -> tuple[str, str]:
    """Return the CQL type and the kind of a column of this shape."""
    cql_type, _, kind = shape.partition(" ")
    return cql_type, kind or "regular"


def clustering_columns(names: Names, table: str) -> list[str]:
    """Return the names of a table's clustering columns."""
    return [name for name, shape in names.parts.get(table, ()) if shape == CLUSTERING]


def _table(names: Names) -> Invoke:
    comment = {"comment": f"side {names.number}"}
    return create_table(names.keyspace, names["table"], columns=_columns(names), options=comment)


def _table_of_type(names: Names) -> Invoke:
    columns = _columns(names, ("u", f"frozen<{names['type']}>", "regular"))
    return create_table(names.keyspace, names["table"], columns=columns)


def _counters(names: Names) -> Invoke:
    columns = [("k", "int", "partition_key"), ("n", "counter", "regular")]
    return create_table(names.keyspace, names["table"], columns=columns)


def _clustered_table(names: Names) -> Invoke:
    columns = [("k", "int", "partition_key"), ("q", "int", "clustering"), ("v", "text", "regular")]
    return create_table(names.keyspace, names["table"], columns=columns)


def _table_if_not_exists(names: Names) -> Invoke:
    """Return a CREATE that is the same on both sides, so that the later one has nothing to do."""
    return create_table(names.keyspace, names["table"], columns=_columns(names), if_not_exists=True)


def _type(names: Names, *, if_not_exists: bool = False) -> Invoke:
    fields = [("a", "int"), (f"of_{names.number}", "text"), *names.parts.get(names["type"], ())]
    return create_type(names.keyspace, names["type"], fields=fields, if_not_exists=if_not_exists)


def _function(names: Names, *, or_replace: bool = False, if_not_exists: bool = False) -> Invoke:
    returns = names.shapes.get("function", INT)
    number = 100 + names.number
    return create_function(
        names.keyspace,
        names["function"],
        arguments=[("state", "int"), ("value", "int")],
        returns=returns,
        body=f"return {number};" if returns == INT else f"return null; /* {number} */",
        or_replace=or_replace,
        if_not_exists=if_not_exists,
    )


def _aggregate(names: Names, *, if_not_exists: bool = False) -> Invoke:
    return create_aggregate(
        names.keyspace,
        names["aggregate"],
        arguments=["int"],
        state_function=names["function"],
        state_type="int",
        if_not_exists=if_not_exists,
    )


def _index(names: Names, *, target: str | None = None, if_not_exists: bool = False) -> Invoke:
    """Return CREATE INDEX on a column, or, if the statement names none, on a clustering column; `target` may be a function of it."""
    column = names.slots.get("column") or names["clustering"]
    if target is None:  # a frozen collection can only be indexed as a whole
        target = "full({})" if names.shapes.get("column") == FROZEN_LIST else "{}"
    return create_index(
        names.keyspace,
        names["index"],
        table=names["table"],
        column=target.format(column),
        using="sai" if names.shapes.get("index") == STORAGE_ATTACHED else None,
        if_not_exists=if_not_exists,
    )


def _view(names: Names, *, if_not_exists: bool = False) -> Invoke:
    key = [names["column"], "k", *clustering_columns(names, names["table"])]
    return create_view(names.keyspace, names["view"], base=names["table"], primary_key=key, if_not_exists=if_not_exists)


def _keyspace(names: Names, *, if_not_exists: bool = False) -> Invoke:
    return create_keyspace(names.keyspace, replication_factor=3 - names.side, if_not_exists=if_not_exists)


_MAKERS: Final[Mapping[str, Callable[[Names], Invoke]]] = {
    "table": _table,
    "type": _type,
    "function": _function,
    "aggregate": _aggregate,
    "index": _index,
    "view": _view,
}


def create(kind: str, names: Names) -> Invoke:
    """Return the statement that creates an object which must exist before the race. Raises KeyError for a part of another object."""
    return _MAKERS[kind](names)


# ── slots ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _slot_of_table(role: Role = "names") -> Slot:
    return Slot("table", "table", role)


def _slot_of_column(role: Role, shape: str = INT) -> Slot:
    return Slot("column", "column", role, ("table",), shape)


def _slot_of_clustering(role: Role) -> Slot:
    return Slot("clustering", "clustering", role, ("table",), CLUSTERING)


def _slot_of_new_name(kind: Kind, whole: str, shape: str) -> Slot:
    """Return the slot of what a RENAME makes of a part of a whole: one that has the new name."""
    return Slot("to", kind, "makes", (whole,), shape, part=NEW)


def _slot_of_type(role: Role = "names") -> Slot:
    return Slot("type", "type", role)


# ── statements ───────────────────────────────────────────────────────────────────────────────────────────────────────

_CQL: Final = frozenset({"cql"})
_OPTIONS: Final = frozenset({"options", "cql"})
_DROPS: Final = frozenset({"column-drops"})
_SAI: Final = frozenset({"sai"})
_LONG_AGO_US: Final = 1_000_000
"""A timestamp older than every cell, so that a DROP by it leaves all of them readable once the column is added again."""


def _adding(
    name: str,
    shape: str,
    *more: Slot,
    requires: frozenset[str] = frozenset(),
    variant_of: str | None = None,
) -> Statement:
    return Statement(
        name,
        (_slot_of_column("makes", shape), _slot_of_table("changes"), *more),
        lambda names: add_column(
            names.keyspace,
            names["table"],
            names["column"],
            declared(names.shapes["column"])[0],
            static=declared(names.shapes["column"])[1] == "static",
        ),
        requires,
        variant_of=variant_of,
    )


def _add_field(names: Names) -> Invoke:
    return add_field(names.keyspace, names["type"], names["field"], names.shapes["field"])


def _setting(
    name: str, options: Callable[[int], Mapping[str, Any]], *, requires: frozenset[str], variant_of: str | None = None
) -> Statement:
    return Statement(
        f"alter-{name}",
        (_slot_of_table("changes"),),
        lambda names: alter_options(names.keyspace, names["table"], options(names.number)),
        requires,
        variant_of=variant_of,
    )


def _indexing(function: str, *, index_class: str = SECONDARY) -> Statement:
    """Describe CREATE INDEX on a map's keys or entries, named by the `function` that CQL has for them."""
    plain = "create-index" if index_class == SECONDARY else "create-sai-index"
    return Statement(
        f"{plain}-on-{function}",
        _slots_of_index("makes", MAP, index_class=index_class),
        lambda names: _index(names, target=f"{function}({{}})"),
        frozenset({"collections"}) | (_CQL if index_class == SECONDARY else _SAI),
        variant_of=plain,
    )


def _dropping(
    name: str,
    shape: str,
    *more: Slot,
    requires: frozenset[str],
    timestamp: int | None = None,
    variant_of: str | None = None,
) -> Statement:
    """Describe ALTER TABLE … DROP of a column. `timestamp`: in microseconds since 1970; None: the server's."""
    return Statement(
        name,
        (_slot_of_column("removes", shape), _slot_of_table("changes"), *more),
        lambda names: drop_column(names.keyspace, names["table"], names["column"], timestamp=timestamp),
        requires,
        variant_of=variant_of,
    )


def _slots_of_view(role: Role) -> tuple[Slot, ...]:
    return (Slot("view", "view", role, ("table", "column")), _slot_of_table(), _slot_of_column("names"))


def _slots_of_index(role: Role, shape: str = INT, *, index_class: str = ANY) -> tuple[Slot, ...]:
    """Return the slots of an index on a column of this shape. Only a lookup is refused for an index of another class."""
    column = Slot("column", "column", "names", ("table",), shape, exact=shape not in {INT, ANY})
    index = Slot("index", "index", role, ("table", "column"), index_class, exact=role == "names" and index_class != ANY)
    return (index, _slot_of_table(), column)


def _slot_of_function(role: Role) -> Slot:
    """Return the slot of a function whose result is an integer, as aggregates need it; one of any can be dropped."""
    return Slot("function", "function", role, shape="" if role == "removes" else INT, exact=role == "names")


def _slots_of_aggregate(role: Role) -> tuple[Slot, ...]:
    return (Slot("aggregate", "aggregate", role, ("function",)), _slot_of_function("names"))


def _guarded(name: str, slots: tuple[Slot, ...], write: Callable[[Names], Invoke]) -> Statement:
    """Describe the form with IF [NOT] EXISTS of a statement."""
    plain = name.removesuffix("-if-not-exists").removesuffix("-if-exists")
    return Statement(name, slots, write, _CQL, variant_of=plain)


def _not_plain(statement: Statement) -> Statement:
    return replace(statement, plain=False)


SCHEMA: Final[tuple[Statement, ...]] = (
    # A keyspace's slot is the race's own keyspace: whatever the other statement is about lies in it.
    Statement("create-keyspace", (Slot("keyspace", "keyspace", "makes"),), _keyspace),
    _guarded(
        "create-keyspace-if-not-exists",
        (Slot("keyspace", "keyspace", "makes"),),
        lambda names: _keyspace(names, if_not_exists=True),
    ),
    Statement(
        "alter-keyspace",
        (Slot("keyspace", "keyspace", "changes"),),
        lambda names: alter_keyspace(names.keyspace, replication_factor=2 - names.side),
    ),
    Statement("drop-keyspace", (Slot("keyspace", "keyspace", "removes"),), lambda names: drop_keyspace(names.keyspace)),
    _guarded(
        "drop-keyspace-if-exists",
        (Slot("keyspace", "keyspace", "removes"),),
        lambda names: drop_keyspace(names.keyspace, if_exists=True),
    ),
    Statement("create-table", (_slot_of_table("makes"),), _table),
    _guarded("create-table-if-not-exists", (_slot_of_table("makes"),), _table_if_not_exists),
    Statement("create-table-of-type", (_slot_of_table("makes"), _slot_of_type()), _table_of_type),
    Statement("create-counter-table", (_slot_of_table("makes"),), _counters, _CQL, holds_columns=False),
    Statement(
        "create-clustered-table",
        (_slot_of_table("makes"),),
        _clustered_table,
        _CQL,
        holds_columns=False,
        plain=False,
    ),
    Statement("drop-table", (_slot_of_table("removes"),), lambda names: drop_table(names.keyspace, names["table"])),
    _guarded(
        "drop-table-if-exists",
        (_slot_of_table("removes"),),
        lambda names: drop_table(names.keyspace, names["table"], if_exists=True),
    ),
    _adding("add-column", INT),
    _adding("add-text-column", TEXT),
    # A table without a clustering column has no static ones.
    _adding("add-static-column", STATIC, _slot_of_clustering("names"), requires=_CQL),
    _adding("add-list-column", LIST, requires=frozenset({"collections"})),
    _adding("add-frozen-list-column", FROZEN_LIST, requires=frozenset({"collections", "types"})),
    _adding("add-map-column", MAP, requires=frozenset({"collections"}), variant_of="add-list-column"),
    _adding("add-column-of-type", "frozen<{type}>", _slot_of_type()),
    _dropping("drop-column", INT, requires=_DROPS),
    _dropping("drop-static-column", STATIC, _slot_of_clustering("names"), requires=_DROPS),
    _dropping("drop-list-column", LIST, requires=_DROPS | {"collections"}),
    _dropping("drop-map-column", MAP, requires=_DROPS | {"collections"}, variant_of="drop-list-column"),
    _not_plain(_dropping("drop-column-of-type", "frozen<{type}>", _slot_of_type(), requires=_DROPS)),
    _dropping("drop-column-using-timestamp", INT, requires=_DROPS | {"views"}, timestamp=_LONG_AGO_US),
    Statement(
        "rename-column",
        (
            _slot_of_clustering("removes"),
            _slot_of_table("changes"),
            _slot_of_new_name("clustering", "table", CLUSTERING),
        ),
        lambda names: rename_column(names.keyspace, names["table"], names["clustering"], names["to"]),
        frozenset({"rename"}),
    ),
    _setting("comment", lambda number: {"comment": f"altered by {number}"}, requires=frozenset({"options"})),
    _setting("time-to-live", lambda number: {"default_time_to_live": 864_000 + number}, requires=_OPTIONS),
    _not_plain(
        _setting(
            "gc-grace",
            lambda number: {"gc_grace_seconds": 864_000 + number},
            requires=_OPTIONS,
            variant_of="alter-time-to-live",
        )
    ),
    _setting(
        "speculative-retry",
        lambda number: {"speculative_retry": f"{90 + number}p" if number < 10 else f"{number}ms"},
        requires=_OPTIONS | {"views"},
    ),
    _setting(
        "compaction",
        lambda number: {
            "compaction": {
                "class": "SizeTieredCompactionStrategy",
                "min_threshold": str(3 + number),
                "max_threshold": str(max(32, 4 + number)),
            }
        },
        requires=_OPTIONS,
    ),
    _setting(
        "compression",
        # Only powers of two are taken: of four changes in turn two are alike.
        lambda number: {"compression": {"class": "LZ4Compressor", "chunk_length_in_kb": str(16 << number % 4)}},
        requires=_OPTIONS | {"views"},
    ),
    _setting(
        "caching",
        lambda number: {"caching": {"keys": "ALL", "rows_per_partition": str(10 + number)}},
        requires=_OPTIONS | {"views"},
    ),
    Statement("create-type", (_slot_of_type("makes"),), _type),
    _guarded("create-type-if-not-exists", (_slot_of_type("makes"),), lambda names: _type(names, if_not_exists=True)),
    Statement(
        "create-type-of-type",
        (Slot("outer", "type", "makes"), _slot_of_type()),
        lambda names: create_type(
            names.keyspace,
            names["outer"],
            fields=[("b", f"frozen<{names['type']}>"), *names.parts.get(names["outer"], ())],
        ),
    ),
    Statement(
        "add-field",
        (Slot("field", "field", "makes", ("type",), INT), _slot_of_type("changes")),
        _add_field,
    ),
    Statement(
        "add-text-field",
        (Slot("field", "field", "makes", ("type",), TEXT), _slot_of_type("changes")),
        _add_field,
    ),
    Statement(
        "add-field-of-type",
        (
            Slot("field", "field", "makes", ("type",), "frozen<{inner}>"),
            _slot_of_type("changes"),
            Slot("inner", "type", "names", part="inner"),
        ),
        _add_field,
    ),
    Statement(
        "rename-field",
        (
            Slot("field", "field", "removes", ("type",), INT),
            _slot_of_type("changes"),
            _slot_of_new_name("field", "type", INT),
        ),
        lambda names: rename_field(names.keyspace, names["type"], names["field"], names["to"]),
    ),
    Statement("drop-type", (_slot_of_type("removes"),), lambda names: drop_type(names.keyspace, names["type"])),
    _guarded(
        "drop-type-if-exists",
        (_slot_of_type("removes"),),
        lambda names: drop_type(names.keyspace, names["type"], if_exists=True),
    ),
    Statement("create-function", (_slot_of_function("makes"),), _function),
    _guarded(
        "create-function-if-not-exists",
        (_slot_of_function("makes"),),
        lambda names: _function(names, if_not_exists=True),
    ),
    Statement(
        "create-function-of-type",
        (Slot("function", "function", "makes", shape="{type}"), _slot_of_type()),
        _function,
    ),
    Statement("replace-function", (_slot_of_function("changes"),), lambda names: _function(names, or_replace=True)),
    Statement(
        "drop-function",
        (_slot_of_function("removes"),),
        lambda names: drop_function(names.keyspace, names["function"]),
    ),
    _guarded(
        "drop-function-if-exists",
        (_slot_of_function("removes"),),
        lambda names: drop_function(names.keyspace, names["function"], if_exists=True),
    ),
    Statement("create-aggregate", _slots_of_aggregate("makes"), _aggregate),
    _guarded(
        "create-aggregate-if-not-exists",
        _slots_of_aggregate("makes"),
        lambda names: _aggregate(names, if_not_exists=True),
    ),
    Statement(
        "drop-aggregate",
        _slots_of_aggregate("removes"),
        lambda names: drop_aggregate(names.keyspace, names["aggregate"]),
    ),
    _guarded(
        "drop-aggregate-if-exists",
        _slots_of_aggregate("removes"),
        lambda names: drop_aggregate(names.keyspace, names["aggregate"], if_exists=True),
    ),
    Statement("create-view", _slots_of_view("makes"), _view),
    _guarded("create-view-if-not-exists", _slots_of_view("makes"), lambda names: _view(names, if_not_exists=True)),
    Statement(
        "alter-view",
        _slots_of_view("changes"),
        lambda names: alter_view(names.keyspace, names["view"], {"comment": f"altered by {names.number}"}),
    ),
    Statement("drop-view", _slots_of_view("removes"), lambda names: drop_view(names.keyspace, names["view"])),
    _guarded(
        "drop-view-if-exists",
        _slots_of_view("removes"),
        lambda names: drop_view(names.keyspace, names["view"], if_exists=True),
    ),
    Statement("create-index", _slots_of_index("makes", ANY, index_class=SECONDARY), _index),
    _guarded(
        "create-index-if-not-exists",
        _slots_of_index("makes", index_class=SECONDARY),
        lambda names: _index(names, if_not_exists=True),
    ),
    Statement(
        "create-index-on-clustering",
        (
            Slot("index", "index", "makes", ("table", "clustering"), SECONDARY),
            _slot_of_table(),
            _slot_of_clustering("names"),
        ),
        _index,
    ),
    _not_plain(_indexing("keys")),
    _not_plain(_indexing("entries")),
    Statement("create-sai-index", _slots_of_index("makes", ANY, index_class=STORAGE_ATTACHED), _index, _SAI),
    _indexing("keys", index_class=STORAGE_ATTACHED),
    _not_plain(_indexing("entries", index_class=STORAGE_ATTACHED)),
    Statement("drop-index", _slots_of_index("removes"), lambda names: drop_index(names.keyspace, names["index"])),
    _guarded(
        "drop-index-if-exists",
        _slots_of_index("removes"),
        lambda names: drop_index(names.keyspace, names["index"], if_exists=True),
    ),
    Statement(
        "drop-sai-index",
        _slots_of_index("removes", index_class=STORAGE_ATTACHED),
        lambda names: drop_index(names.keyspace, names["index"]),
        _SAI,
        plain=False,
        variant_of="drop-index",
    ),
)
"""Every schema change that the grid races."""


_DATA_KEY: Final = 900_000_000
"""Keys of rows without a tag are this one and the side's number: those of the workloads' own rows are lower."""
_NO_ROW: Final = 800_000_000
"""A key that no row has, which a batch deletes."""
_TAGGED_KEY: Final = -1_000_000
"""Keys of rows with a tag are below this one, apart from all others of a run."""
_CONDITIONAL: Final = frozenset({"conditional-writes"})


def _data_key(names: Names) -> int:
    """Return the key of the row that a side is about: one that no other side of the race, and with a tag no other of the run, has."""
    return _DATA_KEY + names.side if names.tag is None else _TAGGED_KEY - names.tag


def _row(names: Names) -> dict[str, Any]:
    """Return the row that a side writes while it races: a key of its own, and a value of the column that it names."""
    clustering = dict.fromkeys(clustering_columns(names, names["table"]), 0)
    return {"k": _data_key(names), **clustering, "v": "raced", names["column"]: _value(names.shapes["column"])}


def _value(shape: str) -> JSON:
    """Return a value of a column of this shape; of a type, one with the field that all of them have."""
    cql_type, _ = declared(shape)
    if cql_type in {LIST, FROZEN_LIST}:
        return [VALUE]
    if cql_type.startswith("frozen<"):
        return {"a": VALUE}
    values: dict[str, JSON] = {INT: VALUE, TEXT: "seven", MAP: {str(VALUE): VALUE}}
    return values[cql_type]


def _write(names: Names, form: WriteForm | None, consistency: str) -> Invoke:
    key = ["k", *clustering_columns(names, names["table"])] if form == "update" else None
    return insert(
        names.keyspace,
        names["table"],
        _row(names),
        consistency=consistency,
        phase="racing",
        form=form,
        key=key,
        beside={"k": _NO_ROW} if form == "batch" else None,
    )


def _writing(
    name: str,
    form: WriteForm | None,
    consistency: str,
    *,
    requires: frozenset[str] = frozenset(),
    variant_of: str | None = None,
) -> Statement:
    slots = (_slot_of_table(), _slot_of_column("names", ANY))
    return Statement(name, slots, lambda names: _write(names, form, consistency), requires, variant_of=variant_of)


def _slots_of_typed_column() -> tuple[Slot, ...]:
    return (_slot_of_table(), _slot_of_column("names", "frozen<{type}>"), _slot_of_type())


def _deleting(name: str, consistency: str, *, variant_of: str | None = None) -> Statement:
    return Statement(
        name,
        (_slot_of_table(),),
        lambda names: delete_row(names.keyspace, names["table"], {"k": _data_key(names)}, consistency=consistency),
        variant_of=variant_of,
    )


def _deleting_cell(name: str, consistency: str) -> Statement:
    """Describe a DELETE of one column of a row; of a static one the row is the partition."""

    def write(names: Names) -> Invoke:
        static = declared(names.shapes["column"])[1] == "static"
        key = [] if static else clustering_columns(names, names["table"])
        where = {"k": _data_key(names), **dict.fromkeys(key, 0)}
        return delete_row(names.keyspace, names["table"], where, consistency=consistency, columns=[names["column"]])

    return Statement(name, (_slot_of_table(), _slot_of_column("names", ANY)), write, _CQL)


def _reading(
    name: str, consistency: str, through: Kind | None = None, *, index_class: str = ANY, variant_of: str | None = None
) -> Statement:
    """Describe a SELECT of a column: of the whole table, by an index on it, of the view whose key it is, or one of a user-defined type."""

    def write(names: Names) -> Invoke:
        return read_rows(
            names.keyspace,
            names["view" if through == "view" else "table"],
            consistency=consistency,
            phase="racing",
            columns=["k", names["column"]],
            where={names["column"]: VALUE} if through in {"index", "view"} else None,
            index=names["index"] if through == "index" else None,
            base=names["table"] if through == "view" else None,
        )

    slots = {
        "index": _slots_of_index("names", index_class=index_class),
        "view": _slots_of_view("names"),
        "type": _slots_of_typed_column(),
    }
    plain = (_slot_of_table(), _slot_of_column("names", ANY))
    requires = _SAI if index_class == STORAGE_ATTACHED else _CQL if through else frozenset()
    return Statement(name, slots.get(through or "", plain), write, requires, variant_of=variant_of)


DATA: Final[tuple[Statement, ...]] = (
    _writing("insert-at-quorum", None, "QUORUM"),
    _writing("insert-at-one", None, "ONE", variant_of="insert-at-quorum"),
    _writing("update-at-quorum", "update", "QUORUM", requires=_CQL),
    _writing("update-at-one", "update", "ONE", requires=_CQL, variant_of="update-at-quorum"),
    _writing("batch-at-quorum", "batch", "QUORUM", requires=_CQL),
    _writing("batch-at-one", "batch", "ONE", requires=_CQL, variant_of="batch-at-quorum"),
    _writing("insert-if-not-exists", "conditional", "QUORUM", requires=_CONDITIONAL),
    Statement(
        "insert-of-type",
        _slots_of_typed_column(),
        lambda names: _write(names, None, "QUORUM"),
    ),
    _deleting("delete-row", "QUORUM"),
    _deleting("delete-row-at-one", "ONE", variant_of="delete-row"),
    _deleting_cell("delete-column", "QUORUM"),
    Statement("truncate-table", (_slot_of_table(),), lambda names: truncate(names.keyspace, names["table"]), _CQL),
    _reading("read-column", "QUORUM"),
    _reading("read-column-at-one", "ONE", variant_of="read-column"),
    _reading("read-column-of-type", "QUORUM", "type", variant_of="read-column"),
    _reading("read-by-index", "QUORUM", "index"),
    _reading("read-by-index-at-one", "ONE", "index", variant_of="read-by-index"),
    _reading("read-by-sai-index", "QUORUM", "index", index_class=STORAGE_ATTACHED, variant_of="read-by-index"),
    _reading("read-view", "QUORUM", "view"),
    _reading("read-view-at-one", "ONE", "view", variant_of="read-view"),
)
"""Reads and writes that are raced against every schema change they are related to."""
