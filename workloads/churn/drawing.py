"""Drawing: a statement of the grid's description on objects of a small pool, and the cells in which two such statements meet.

A statement's slots are filled with names that exist in the intended schema, or, where it makes something, with free ones.
The cells (`schemaquake.workloads.statements.meetings`) of two filled statements follow from the objects that they share: one pair can
meet in several, the closest first.

In a *plain* keyspace key columns have names of their own, only integer columns are indexed, and no statement is a row's. In the
others every form of the description is drawn (`every_form`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from random import Random
from typing import Final, TypeAlias

from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.churn.intended import IntendedKeyspace
from schemaquake.workloads.statements.description import (
    ANY,
    CLUSTERING,
    DATA,
    INT,
    NEW,
    SCHEMA,
    STATIC,
    Names,
    Slot,
    Statement,
)
from schemaquake.workloads.statements.meetings import Meeting, changed_and_named, meetings

__all__ = [
    "AGGREGATES",
    "CLUSTERINGS",
    "COLUMNS",
    "FIELDS",
    "FUNCTIONS",
    "INDEXES",
    "PLAIN_TABLES",
    "TABLES",
    "TYPES",
    "VIEWS",
    "WIDE_TABLE",
    "Drawn",
    "cells_of",
    "column_shapes",
    "draw",
    "drawable",
    "known_cells",
    "plain_cells",
]

PLAIN_TABLES: Final = ("t0", "t1")
"""Tables of an integer key and a text, into which rows can be written whatever was raced."""
WIDE_TABLE: Final = "t2"
"""The table that has clustering and static columns, or counters, or is a view."""
TABLES: Final = (*PLAIN_TABLES, WIDE_TABLE)
VIEWS: Final = ("w0", "w1", WIDE_TABLE)
TYPES: Final = ("u0", "u1")
FIELDS: Final = ("f0", "f1", "f2")
COLUMNS: Final = ("c0", "c1", "c2", "c3")
CLUSTERINGS: Final = ("q0", "q1")
_KEYS_TO_BE: Final = (*CLUSTERINGS, "q2")
"""Names of key columns where a table may have two of them: RENAME needs one that is free."""
FUNCTIONS: Final = ("fn0", "fn1")
AGGREGATES: Final = ("g0", "g1")
INDEXES: Final = ("i0", "i1", "i2")

_POOLS: Final[Mapping[str, Sequence[str]]] = {
    "table": TABLES,
    "view": VIEWS,
    "type": TYPES,
    "field": FIELDS,
    "column": COLUMNS,
    "clustering": CLUSTERINGS,
    "function": FUNCTIONS,
    "aggregate": AGGREGATES,
    "index": INDEXES,
}
_FORMS: Final[Mapping[str, Sequence[str]]] = {
    **_POOLS,
    "column": (*COLUMNS, *_KEYS_TO_BE),
    "clustering": (*_KEYS_TO_BE, *COLUMNS),
}
"""Pools where every form is drawn: what is a key column's name there may become another column's."""
_RELATIONS: Final[Mapping[str, Sequence[str]]] = {
    "type": (*TABLES, *VIEWS[:2]),
    "index": (*TABLES, *VIEWS[:2]),
    "function": ("t0", "w0", WIDE_TABLE),
    "aggregate": ("t1", "w1"),
}
"""Names of tables and views that objects of other kinds may have, too; none is a function's and an aggregate's, which would be overloads."""
_NAMED_ALIKE: Final = 0.3
"""The share of objects that may be given the name of a table or view."""
_PREFERRED: Final = 0.75
"""The share of slots that are filled with an object of the statements that it is to meet, if one fits."""

_Identity: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A statement with its objects, and the operation that it is."""

    statement: Statement
    names: Names
    change: Invoke

    def identity(self, slot: Slot, beside: Collection[str] | None = None) -> _Identity:
        """Return what is equal for one object: kind, name, and the objects that it lies in, of these slots alone if they are given."""
        if slot.kind == "keyspace":
            return ("keyspace",)
        inside = tuple(
            self.identity(each)
            for each in self.statement.slots
            if each.name in slot.inside and (beside is None or each.name in beside)
        )
        return (slot.kind, self.names[slot.name], inside)


@dataclass(frozen=True, slots=True)
class _Pool:
    """The rules by which one statement's slots are filled in one state of a keyspace."""

    state: IntendedKeyspace
    before: IntendedKeyspace
    random: Random
    preferred: frozenset[str]
    shapes: Sequence[str]
    every_form: bool

    def pick(self, options: Sequence[Mapping[str, str]], kind: str) -> Mapping[str, str] | None:
        """Choose one of the objects, most often one with a preferred name."""
        if not options:
            return None
        liked = [each for each in options if each[kind] in self.preferred]
        return self.random.choice(liked if liked and self.random.random() < _PREFERRED else options)

    def existing(self, statement: Statement, slot: Slot, bound: Mapping[str, str]) -> list[Mapping[str, str]]:
        """List the existing objects that can fill a slot beside those that other slots have already."""
        found = [
            each
            for each in self.state.objects(slot.kind)
            if all(bound.get(name, each.get(name)) == each.get(name, bound.get(name)) for name in slot.inside)
            and not any(
                other.kind == slot.kind and bound.get(other.name) == each[slot.kind] for other in statement.slots
            )
            and self._can_hold(statement, slot, each)
        ]
        if not self.every_form:
            return [each for each in found if not _shape(slot) or self.state.shape_of(slot.kind, each) == _shape(slot)]
        return [{**each, **types} for each in found if (types := self._types_of(statement, slot, each)) is not None]

    def free(self, statement: Statement, slot: Slot, bound: Mapping[str, str]) -> list[Mapping[str, str]]:
        """List the names that an object can be given, whether they are taken or not."""
        names = (_FORMS if self.every_form else _POOLS)[slot.kind]
        if slot.kind == "table" and not statement.holds_columns:
            names = (WIDE_TABLE,)
        if self.every_form and slot.kind in _RELATIONS and self.random.random() < _NAMED_ALIKE:
            names = (*names, *_RELATIONS[slot.kind])
        return [{slot.kind: name} for name in names if name not in bound.values()]

    def _types_of(self, statement: Statement, slot: Slot, found: Mapping[str, str]) -> Mapping[str, str] | None:
        """Return the user-defined types that stand in the shape of this object, by slot; None if it cannot fill the slot.

        What the statements of this round make may have another shape than the slot's, unless the statement is refused for it.
        """
        for other in statement.slots:
            if other.name in slot.inside and other.exact and self.state.shape_of(other.kind, found) != other.shape:
                return None
        if not slot.shape:
            return {}
        matched = _pattern(slot.shape).fullmatch(self.state.shape_of(slot.kind, found))
        if matched is not None:
            return matched.groupdict()
        return {} if not slot.exact and self._is_new(slot, found) else None

    def _is_new(self, slot: Slot, found: Mapping[str, str]) -> bool:
        """Tell if this object is not there before the round."""
        names = (slot.kind, *slot.inside)
        return all(any(each[name] != found[name] for name in names) for each in self.before.objects(slot.kind))

    def _can_hold(self, statement: Statement, slot: Slot, found: Mapping[str, str]) -> bool:
        """Return False for a table of counters where a statement is about its columns."""
        about_columns = any(each.kind in {"column", "clustering"} for each in statement.slots)
        return slot.kind != "table" or not about_columns or self.state.tables[found["table"]].holds_columns


def draw(
    statement: Statement,
    state: IntendedKeyspace,
    random: Random,
    *,
    tag: int,
    preferred: Iterable[str] = (),
    before: IntendedKeyspace | None = None,
    shapes: Sequence[str] = (INT,),
    every_form: bool = False,
) -> Drawn | None:
    """Fill the statement's slots for this state of a keyspace; None if what it needs is not there, or it would be refused.

    `preferred` are names that it should share with other statements; `tag` is a number of this change alone. `before` is the keyspace
    before the round, if that is another one. Reads and writes of rows are drawn with `every_form` alone, and columns of these `shapes` in new tables.
    """
    pool = _Pool(state, before or state, random, frozenset(preferred), shapes, every_form)
    bound: dict[str, str] = {}
    for slot in sorted(statement.slots, key=_order):
        if slot.kind == "keyspace" or slot.name in bound or (slot.part == NEW and not every_form):
            continue
        options = pool.free(statement, slot, bound) if slot.role == "makes" else pool.existing(statement, slot, bound)
        found = pool.pick(options, slot.kind)
        if found is None:
            return None
        bound |= {name: each for name, each in found.items() if name in slot.inside or name in slot.types}
        bound[slot.name] = found[slot.kind]
    names = _named(statement, pool, bound, tag)
    drawn = Drawn(statement, names, statement.write(names))
    if statement in DATA or state.allows(drawn.change) or (every_form and pool.before.allows(drawn.change)):
        return drawn
    return None


def _shape(slot: Slot) -> str:
    """Return the shape of what fills a slot in a plain keyspace: an integer where any column would do."""
    return INT if slot.kind == "column" and slot.shape == ANY else slot.shape


@cache
def _pattern(shape: str) -> re.Pattern[str]:
    """Return what matches a shape, with a group for each slot whose name stands in it."""
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>\\w+)", re.escape(shape)))


def _order(slot: Slot) -> tuple[bool, int]:
    """Sort slots: what exists before what is made, and objects in others before those others."""
    return slot.role == "makes", -len(slot.inside)


def _named(statement: Statement, pool: _Pool, bound: Mapping[str, str], tag: int) -> Names:
    slots, state = dict(bound), pool.state
    for slot in statement.slots:
        if slot.kind in {"clustering", "field"} and slot.role == "removes" and not pool.every_form:
            slots["to"] = pool.random.choice([name for name in _POOLS[slot.kind] if name != bound[slot.name]])
    shapes = {slot.name: _shape(slot).format(**bound) for slot in statement.slots if _shape(slot)}
    if pool.every_form:
        shapes |= {
            slot.name: state.shape_of(slot.kind, bound)
            for slot in statement.slots
            if slot.kind == "column" and slot.role != "makes"
        }
    parts: dict[str, Sequence[tuple[str, str]]] = {
        name: [(column, CLUSTERING) for column in table.clustering] for name, table in state.tables.items()
    }
    for slot in statement.slots:
        if slot.role == "makes" and slot.kind in {"table", "type"}:
            parts[bound[slot.name]] = list(_parts(slot, bound[slot.name], pool))
    return Names(state.name, slots, side=tag % 2, shapes=shapes, parts=parts, tag=tag)


def _parts(slot: Slot, name: str, pool: _Pool) -> Iterator[tuple[str, str]]:
    """Yield the columns of a new table, or the fields of a new type, beside those that all of them have."""
    if slot.kind == "type":
        yield from [(FIELDS[0], "int")] if pool.random.random() < 0.7 else []
        return
    if name == WIDE_TABLE:
        yield CLUSTERINGS[0], CLUSTERING
        if pool.every_form and pool.random.random() < 0.5:
            yield CLUSTERINGS[1], CLUSTERING
    if not pool.every_form:
        yield from [(COLUMNS[0], INT)] if pool.random.random() < 0.7 else []
        return
    for column in COLUMNS[:2]:
        shape = pool.random.choice([INT, *pool.shapes, *(f"frozen<{each}>" for each in pool.state.types)])
        if pool.random.random() < 0.7 and (name == WIDE_TABLE or shape != STATIC):
            yield column, shape


def column_shapes(statements: Iterable[Statement]) -> tuple[str, ...]:
    """Return the shapes of the columns that these statements make, but for those of user-defined types."""
    made = (slot for statement in statements for slot in statement.slots if slot.role == "makes")
    return tuple(dict.fromkeys(slot.shape for slot in made if slot.kind == "column" and not slot.types))


def drawable(
    features: frozenset[str], *, every_form: bool = True, among: Sequence[Statement] = SCHEMA
) -> tuple[Statement, ...]:
    """Return the statements that can be drawn on a system with these features."""
    return tuple(
        statement
        for statement in among
        if statement.features <= features
        and (every_form or statement.plain)
        and all(slot.kind in {"keyspace", *_POOLS} for slot in statement.slots)
    )


# ── meetings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def known_cells() -> Mapping[str, Meeting]:
    """Map the name of every cell of the grid to it."""
    return {cell.name: cell for cell in meetings()}


@cache
def plain_cells() -> frozenset[str]:
    """Return the names of the cells that count where a plain keyspace is at stake."""
    rows = {statement.name for statement in DATA}
    return frozenset(
        name
        for name, cell in known_cells().items()
        if cell.statements[1].name not in rows and not _is_of_key_names(cell)
    )


def _is_of_key_names(cell: Meeting) -> bool:
    """Tell if a cell is about what a RENAME makes, or about a key column and another one: of its name, or with an index of one name."""
    one, other = (statement.subject.inside for statement in cell.statements)
    indexes = cell.relation == "same" and cell.about.startswith("index") and one != other
    return indexes or cell.about.startswith(f"{NEW}-") or (cell.relation == "name" and cell.about == "clustering")


@cache
def _places() -> Mapping[str, int]:
    """Map each statement's name to its place in the descriptions: a cell names the earlier one first."""
    return {statement.name: place for place, statement in enumerate((*SCHEMA, *DATA))}


def cells_of(one: Drawn, other: Drawn, state: IntendedKeyspace) -> tuple[str, ...]:
    """Return the names of the cells in which two statements meet, the closest relation first.

    `state` is the keyspace before both.
    """
    first, second = sorted((one, other), key=lambda each: _places()[each.statement.name])
    pair = f"{first.statement.name}/{second.statement.name}"
    found: list[str] = []
    for relation, exists in (*_shared(first, second, state), *_crossed(first, second)):
        there = f"{pair}/{relation}-that-exists"
        found.append(there if exists and there in known_cells() else f"{pair}/{relation}")
    found += [f"{pair}/{relation}" for relation in (*_namesakes(first, second), "keyspace")]
    return tuple(dict.fromkeys(name for name in found if name in known_cells()))


def _shared(first: Drawn, second: Drawn, state: IntendedKeyspace) -> Iterator[tuple[str, bool]]:
    """Yield the relation and whether the object is there before, for each object that fills a slot of both."""
    for a in first.statement.slots:
        for b in second.statement.slots:
            if a.kind == b.kind and first.identity(a, b.inside) == second.identity(b, a.inside):
                subjects = (a is first.statement.subject) + (b is second.statement.subject)
                about = max(a.about, b.about, key=len)
                yield f"{('siblings', 'names', 'same')[subjects]}-{about}", _exists(first, a, state)


def _crossed(first: Drawn, second: Drawn) -> Iterator[tuple[str, bool]]:
    """Yield the relation of two statements of which each names the object that the other changes; both are there before."""
    pairs = product(changed_and_named(first.statement), changed_and_named(second.statement))
    for (a, named), (b, other) in pairs:
        crosses = first.identity(a) == second.identity(other) and first.identity(named) == second.identity(b)
        if a.kind == b.kind and crosses:
            yield f"crossed-{a.kind}", False


def _exists(drawn: Drawn, slot: Slot, state: IntendedKeyspace) -> bool:
    """Return True if the object is there before the meeting."""
    kind = slot.kind
    wanted = state.name if kind == "keyspace" else drawn.names[slot.name]
    within = {name: drawn.names.slots.get(name) for name in slot.inside}
    return any(
        each[kind] == wanted and all(each.get(name, value) == value for name, value in within.items())
        for each in state.objects(kind)
    )


def _namesakes(first: Drawn, second: Drawn) -> Iterator[str]:
    """Yield the relation of two different subjects of one name, and of a column and a key column of one table that have one."""
    tables = (first.names.slots.get("table"), second.names.slots.get("table"))
    for a, b in product(first.statement.slots, second.statement.slots) if tables[0] == tables[1] else ():
        if {a.kind, b.kind} == {"column", "clustering"} and first.names[a.name] == second.names[b.name]:
            yield f"name-{a.about if a.kind == 'clustering' else b.about}"
    a, b = first.statement.subject, second.statement.subject
    if "keyspace" in (a.kind, b.kind) or first.names[a.name] != second.names[b.name]:
        return
    if first.identity(a) != second.identity(b):
        if "table" in a.inside and "table" in b.inside and tables[0] == tables[1]:
            yield "name-table"
        yield "name"
