"""Shapes: what contested statements have in common with those of another run: the change, and how their objects relate.

`drop-type(A)` with `create-table(B uses A)` is the shape of every DROP TYPE that met a CREATE TABLE with a column of that
type. Names, nodes, literals, definitions and seeds drop out, and a statement that came more than once is `2+` whatever its
number. A column or field has a letter only if two statements concern the same one. The shape is made from the definitions of the changes (`schemaquake.harness.ddl.schema_changes`), never from CQL text.
A change in free text (f = "cql") has no definition: it is the shape `cql(A)` of its key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from string import ascii_uppercase
from typing import Any, Final, Literal, TypeAlias

from schemaquake.checkers.evidence.cql_types import user_types
from schemaquake.harness.model.records import keyspace_of
from schemaquake.results.tables.statements import Statement

__all__ = ["Relation", "Role", "Shape", "make_shapes", "objects_of", "parse_shape"]

Role: TypeAlias = Literal["in", "of", "on", "uses", "calls", "at"]
"""The relation of a statement's object to another: a keyspace, a view's base, an index's table, a type, a function, a column."""

_SHAPES_MOST: Final = 6
"""Statements of one cause. A cause with more could not be compared with another's."""
_OBJECTS_MOST: Final = 6
"""Objects whose letters are chosen among all orders; further ones keep the order of their first statement."""

_TEXT: Final = re.compile(r"(?P<f>[a-z-]+)\((?P<object>[A-Z])(?P<relations>(?: [a-z]+ [A-Z])*)\)(?P<several> 2\+)?")
_RELATION: Final = re.compile(r" ([a-z]+) ([A-Z])")


@dataclass(frozen=True, slots=True, order=True)
class Relation:
    """A relation to another object of the same cause."""

    role: str
    object: str


@dataclass(frozen=True, slots=True)
class Shape:
    """One contested statement without its names. Objects are letters, equal in all shapes of one cause."""

    f: str
    object: str
    relations: tuple[Relation, ...] = ()
    several: bool = False

    def __str__(self) -> str:
        relations = "".join(f" {one.role} {one.object}" for one in self.relations)
        return f"{self.f}({self.object}{relations}){' 2+' if self.several else ''}"


def parse_shape(text: str) -> Shape:
    """Parse what `str` made of a shape. Raises ValueError for other texts."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is not the shape of a statement, such as "create-table(B uses A) 2+"')
    relations = tuple(Relation(role, letter) for role, letter in _RELATION.findall(match["relations"]))
    return Shape(match["f"], match["object"], relations, several=match["several"] is not None)


def make_shapes(statements: Iterable[Statement]) -> tuple[Shape, ...]:
    """Make the shapes of statements that met, in an order and with letters that depend on nothing but the shapes.

    A relation counts only if another statement concerns the same object. Of more than six different statements, the
    last six to be invoked count.
    """
    counts: dict[Shape, int] = {}
    for one in sorted(statements, key=lambda one: (one.invoked, one.index)):
        named = _named(one)
        counts[named] = counts.pop(named, 0) + 1
    latest = [replace(named, several=counts[named] > 1) for named in list(counts)[-_SHAPES_MOST:]]
    # Statements that differ only in what they do not share become one, and then share less.
    return _with_letters(_folded(_folded(latest)))


def objects_of(one: Statement) -> tuple[str, frozenset[tuple[Role, str]]]:
    """Return a statement's object, and its relations to others. Each has its kind in front: `table k.t`, `type k.u`."""
    return _object(one.f, one.key or ""), frozenset(_relations(one))


def _named(one: Statement) -> Shape:
    """Make a shape whose objects bear their names, with the kind in front where two kinds may share a name."""
    relations = tuple(sorted({Relation(role, name) for role, name in _relations(one)}))
    return Shape(one.f, _object(one.f, one.key or ""), relations)


def _object(f: str, key: str) -> str:
    """Name an object by its kind and key: a type and a table may have one name. Relations name them in the same way."""
    if f.endswith(("-type", "-field")):
        return f"type {key}"
    if f.endswith(("-function", "-aggregate", "-index", "-keyspace")):
        return f"{f.rpartition('-')[2]} {key}"
    return f"table {key}"  # views share the names of tables


def _relations(one: Statement) -> Iterator[tuple[Role, str]]:
    definition, keyspace = one.definition, keyspace_of(one.key) or ""
    if one.key != keyspace:
        yield "in", f"keyspace {keyspace}"
    for text in _types(definition):
        for owner, name in user_types(text, keyspace=keyspace):
            yield "uses", f"type {owner}.{name}"
    for field, role, kind in (("base", "of", "table"), ("table", "on", "table")):
        if isinstance(definition.get(field), str):
            yield role, f"{kind} {keyspace}.{definition[field]}"  # type: ignore[misc]  # a Role each
    if (part := _part(definition)) is not None:
        owner = f"{keyspace}.{definition['table']}" if isinstance(definition.get("table"), str) else one.key or ""
        yield "at", f"part {owner}.{part}"
    for called in ("state_function", "final_function"):
        if isinstance(definition.get(called), str):
            yield "calls", f"function {keyspace}.{definition[called]}"


def _part(definition: Mapping[str, Any]) -> str | None:
    """Return the one column or field that a change is about, None if it is about none or several."""
    part = definition.get("column", definition.get("field"))
    part = part[0] if isinstance(part, list | tuple) and part else part
    return part if isinstance(part, str) else None


def _types(definition: Mapping[str, Any]) -> Iterator[str]:
    """List the texts of all types in a definition."""
    several = {name: definition.get(name) for name in ("columns", "fields", "arguments")}
    listed = {name: entries if isinstance(entries, list) else [] for name, entries in several.items()}
    entries: list[Any] = [definition.get("column"), definition.get("field"), *listed["columns"], *listed["fields"]]
    entries += [entry if isinstance(entry, list) else [None, entry] for entry in listed["arguments"]]
    entries += [[None, definition.get("returns")], [None, definition.get("state_type")]]
    for entry in entries:
        if isinstance(entry, list | tuple) and len(entry) > 1 and isinstance(entry[1], str):
            yield entry[1]


def _folded(shapes: Sequence[Shape]) -> list[Shape]:
    """Leave out relations that are not shared (`_shared`), and fold statements that are then equal."""
    folded: dict[Shape, bool] = {}
    for shape in shapes:
        once = replace(shape, relations=_shared(shape, shapes), several=False)
        folded[once] = once in folded or shape.several
    return [replace(shape, several=several) for shape, several in folded.items()]


def _shared(shape: Shape, shapes: Sequence[Shape]) -> tuple[Relation, ...]:
    """Select the relations to objects that another statement concerns, or to a part that this one concerns again.

    Everything in a keyspace is in it: that relation counts only where the keyspace itself is changed.
    """
    others = [one for one in shapes if one is not shape]
    concerned = {one.object for one in others}
    related = {relation.object for one in others for relation in one.relations if relation.role != "in"}
    return tuple(
        one
        for one in shape.relations
        if one.object in (concerned if one.role == "in" else concerned | related)
        or (shape.several and one.role == "at")
    )


# ── letters ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _with_letters(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    """Replace names by letters: of all ways the one whose sorted shapes come first."""
    names = list(dict.fromkeys(name for shape in shapes for name in _names(shape)))
    ranked = sorted(names, key=lambda name: _signature(name, shapes))
    free, fixed = ranked[:_OBJECTS_MOST], ranked[_OBJECTS_MOST:]
    ways = (
        _sorted(_renamed(shape, dict(zip((*order, *fixed), ascii_uppercase, strict=False))) for shape in shapes)
        for order in permutations(free)
    )
    return min(ways, key=lambda way: [_place(shape) for shape in way], default=())


def _names(shape: Shape) -> Iterator[str]:
    yield shape.object
    yield from (relation.object for relation in shape.relations)


def _signature(name: str, shapes: Sequence[Shape]) -> tuple[tuple[str, str], ...]:
    """Describe an object by the parts it takes in the statements."""
    parts = [(shape.f, "") for shape in shapes if shape.object == name]
    parts += [(shape.f, one.role) for shape in shapes for one in shape.relations if one.object == name]
    return tuple(sorted(parts))


def _renamed(shape: Shape, letters: Mapping[str, str]) -> Shape:
    relations = tuple(sorted(Relation(one.role, letters[one.object]) for one in shape.relations))
    return replace(shape, object=letters[shape.object], relations=relations)


def _sorted(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    return tuple(sorted(shapes, key=_place))


def _place(shape: Shape) -> tuple[int, str]:
    """Sort what removes an object before what changes one, and that before what creates one."""
    verb = shape.f.partition("-")[0]
    return {"drop": 0, "create": 2}.get(verb, 1), str(shape)
