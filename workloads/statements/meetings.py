"""Meetings: every way in which two statements can be about related objects, generated from their slots.

Two statements meet if an object of one is an object of the other. The relation is told by the slots that the object
fills: the subject of both, the subject of one that the other names, or an object that both merely name (their subjects
are siblings in it). Two objects of one name, and objects that have nothing but their keyspace in common, are relations too.

What must exist before the race follows from the roles: an object that a statement removes, changes or names exists,
unless the other statement makes it. One that is made by one side and removed by the other may be there or not, and both
are meetings. A meeting in which some statement can succeed in no order is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations_with_replacement, product
from typing import Final, Literal, TypeAlias, get_args

from schemaquake.harness.ddl.schema_changes import NAMESPACES
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.statements.description import (
    DATA,
    FROZEN_LIST,
    INT,
    LIST,
    MAP,
    SCHEMA,
    STATIC,
    Kind,
    Names,
    Role,
    Slot,
    Statement,
    create,
    declared,
)

__all__ = ["RELATIONS", "Meeting", "Relation", "changed_and_named", "meetings"]

Relation: TypeAlias = Literal["same", "names", "crossed", "siblings", "name", "keyspace"]
"""Relations of two statements' objects: one subject; the subject of one is named by the other; each names what the other changes; subjects in one table, type …; two subjects of one name; subjects in one keyspace."""
RELATIONS: Final[tuple[Relation, ...]] = get_args(Relation)
"""All of them, the closest first."""

Node: TypeAlias = tuple[int, str]
"""A slot of a race: side and slot name."""
_KEYSPACE: Final[Node] = (-1, "keyspace")
_PARTS: Final = frozenset({"column", "clustering", "field"})
_LETTERS: Final[Mapping[Kind, str]] = {
    "table": "t",
    "column": "c",
    "clustering": "q",
    "type": "u",
    "field": "f",
    "function": "fn",
    "aggregate": "g",
    "view": "w",
    "index": "i",
}
_ORDER: Final[Sequence[Kind]] = ("type", "table", "function", "aggregate", "index", "view")
"""Order in which existing objects are created: what others are made of first."""


@dataclass(frozen=True, slots=True)
class Object:
    """One object of a race: the slots that it fills, its name, and its state before the race."""

    kind: Kind
    name: str
    nodes: tuple[Node, ...]
    inside: tuple[Node, ...]
    """One slot of each object without which this one cannot exist."""
    shape: str
    exists: bool
    makers: tuple[int, ...]
    """The sides that make it."""
    removed: bool
    """True if a side removes it."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two statements on related objects: one cell of the grid."""

    statements: tuple[Statement, Statement]
    relation: Relation
    about: str
    """Kind of the object in which the statements meet; with `exists` where it may be there before or not."""
    objects: tuple[Object, ...]
    keyspace_exists: bool = True

    @property
    def name(self) -> str:
        """The name of the cell, which options and pages use: `drop-type/add-column-of-type/names-type`."""
        first, second = self.statements
        return f"{first.name}/{second.name}/{self.relation}{'-' + self.about if self.about else ''}"

    @property
    def features(self) -> frozenset[str]:
        """The features that a system must have for both statements."""
        return self.statements[0].features | self.statements[1].features

    @property
    def risk(self) -> float:
        """The likelihood, from 0 to 1, that a race spoils its cluster for others, as far as its statements suggest it.

        Most likely it does if one side takes away, or makes otherwise, what the other one's change rests on: where coordinators
        act alone, definitions may be left that no node can load. A view may keep a node from applying changes while it is built.
        """
        if any(one.subject.kind == "keyspace" and one.subject.role == "removes" for one in self.statements):
            return 1.0
        if any(len(roles) > 1 or roles == {"makes"} for roles in map(self._contested, self.objects)):
            return 1.0
        return 0.5 if any(each.kind == "view" for each in self.objects) else 0.0

    def _contested(self, shared: Object) -> set[Role]:
        """Return the roles that an object of both sides has, if a side makes or removes it."""
        nodes = set(shared.nodes)
        roles: set[Role] = {
            slot.role for side, one in enumerate(self.statements) for slot in one.slots if (side, slot.name) in nodes
        }
        both = {side for side, _ in nodes} >= {0, 1}
        return roles if both and roles & {"makes", "removes"} else set()

    def names(self, keyspace: str, side: int) -> Names:
        """Return the names of one side's objects in a race in `keyspace`."""
        by_node = {node: each for each in self.objects for node in each.nodes}
        mine = {slot.name: by_node[side, slot.name] for slot in self.statements[side].slots if slot.kind != "keyspace"}
        filled = {slot: each.name for slot, each in mine.items()}
        shapes = {
            slot.name: slot.shape.format(**filled) or mine[slot.name].shape
            for slot in self.statements[side].slots
            if slot.name in mine
        }
        return Names(keyspace, filled, side=side, shapes=shapes, parts=self._parts())

    def setup(self, keyspace: str) -> list[Invoke]:
        """Return the statements that create what exists before the race, in order; the keyspace apart."""
        by_node = {node: each for each in self.objects for node in each.nodes}
        made = []
        for kind in _ORDER:
            for each in self.objects:
                if each.kind == kind and each.exists:
                    side = each.nodes[0][0]
                    filled = {other: by_node[side, other].name for (s, other) in by_node if s == side}
                    filled[kind] = each.name
                    shapes = {"index": each.shape} if kind == "index" else {}
                    made.append(create(kind, Names(keyspace, filled, side=2, shapes=shapes, parts=self._parts())))
        return made

    def _parts(self) -> dict[str, list[tuple[str, str]]]:
        """Map each table and type to the columns and fields that it has from its creation on."""
        by_node = {node: each for each in self.objects for node in each.nodes}
        parts: dict[str, list[tuple[str, str]]] = {}
        for each in self.objects:
            if each.kind in _PARTS and each.exists:
                whole = by_node[each.inside[0]]
                parts.setdefault(whole.name, []).append((each.name, each.shape))
        return parts


@cache
def meetings() -> tuple[Meeting, ...]:
    """Return every meeting of two schema changes, and of a schema change and a read or write of its objects, on any system."""
    pairs = [*combinations_with_replacement(SCHEMA, 2), *product(SCHEMA, DATA)]
    found: dict[str, Meeting] = {}
    for first, second in pairs:
        able = [meeting for meeting in _meetings(first, second) if not _repeats_an_index(meeting)]
        for meeting in _of_interest(able, first, second):
            found.setdefault(meeting.name, meeting)
    return tuple(found.values())


def _repeats_an_index(meeting: Meeting) -> bool:
    """Tell if an index is like one that is there in every order: of one class, on one thing. Servers refuse it under any name."""
    if sum(each.kind == "index" for each in meeting.objects) < 2:
        return False
    removed = {each.name for each in meeting.objects if each.kind == "index" and each.removed}
    definitions = Counter(_index_of(change) for change in meeting.setup("ks") if change.f == "create-index")
    lasting = {
        _index_of(change)
        for change in meeting.setup("ks")
        if change.f == "create-index" and change.value["name"] not in removed
    }
    made = (one.write(meeting.names("ks", side)) for side, one in enumerate(meeting.statements))
    return max(definitions.values(), default=0) > 1 or any(
        change.f == "create-index" and _index_of(change) in lasting for change in made
    )


def _index_of(change: Invoke) -> tuple[JSON, ...]:
    """Return what an index is beside its name: table, column or function of one, class."""
    return change.value["table"], change.value["column"], change.value.get("using")


def _of_interest(every: Sequence[Meeting], first: Statement, second: Statement) -> Sequence[Meeting]:
    """Leave out what another meeting shows as well.

    Rows are raced against changes of what they are in. A statement that is a variant of another has the closest relation alone.
    """
    if second in DATA and first.subject.kind != "keyspace":
        every = [meeting for meeting in every if meeting.relation not in {"name", "keyspace"}]
    if first.variant_of is None and second.variant_of is None:
        return every
    return [meeting for meeting in every if meeting.relation == every[0].relation]


def _meetings(first: Statement, second: Statement) -> Iterator[Meeting]:
    """List the meetings of two statements, the closest relation first."""
    sides = (first, second)
    for a, b in product(first.slots, second.slots):
        if a.kind == b.kind:
            match (a is first.subject, b is second.subject):
                case (True, True):
                    relation: Relation = "same"
                case (False, False):
                    relation = "siblings"
                case _:
                    relation = "names"
            about = max(a.about, b.about, key=len)
            yield from _arranged(sides, relation, about, _joined(sides, a, b))
    for (a, named), (b, other) in product(changed_and_named(first), changed_and_named(second)):
        if a.kind == b.kind:
            joined = [((0, a.name), (1, other.name)), ((0, named.name), (1, b.name))]
            yield from _arranged(sides, "crossed", a.kind, joined)
    yield from _of_one_name(sides)
    if not first.subject.kind == second.subject.kind == "keyspace":
        yield from _arranged(sides, "keyspace", "", [])


def _of_one_name(sides: tuple[Statement, Statement]) -> Iterator[Meeting]:
    """List the meetings in which different objects have one name."""
    first, second = sides
    one, other = first.subject, second.subject
    table = [((0, "table"), (1, "table"))]
    if _may_be_namesakes(one, other):
        yield from _arranged(sides, "name", "", [], namesakes=((0, one.name), (1, other.name)))
        if "table" in one.inside and "table" in other.inside:
            yield from _arranged(sides, "name", "table", table, namesakes=((0, one.name), (1, other.name)))
    for a, b in product(first.slots, second.slots):
        if {a.kind, b.kind} == {"column", "clustering"}:
            about = next(each.about for each in (a, b) if each.kind == "clustering")
            yield from _arranged(sides, "name", about, table, namesakes=((0, a.name), (1, b.name)))


def changed_and_named(statement: Statement) -> Iterator[tuple[Slot, Slot]]:
    """Yield an object that the statement changes and another one of its kind that it names."""
    for one, other in product(statement.slots, repeat=2):
        if one.kind == other.kind and one.role == "changes" and other.role == "names":
            yield one, other


def _may_be_namesakes(one: Slot, other: Slot) -> bool:
    """Tell if two different objects of these kinds can have one name; a function and an aggregate would be overloads."""
    if one.kind not in NAMESPACES or other.kind not in NAMESPACES:
        return False
    if one.kind == other.kind:
        return bool(one.inside)
    return {one.kind, other.kind} != {"function", "aggregate"}


def _joined(sides: tuple[Statement, Statement], a: Slot, b: Slot) -> list[tuple[Node, Node]]:
    """Return the slots that are one object if `a` and `b` are: these, and the objects that both lie in."""
    pairs = [((0, a.name), (1, b.name))]
    for name in a.inside:
        if name in b.inside:
            pairs += _joined(sides, _slot(sides[0], name), _slot(sides[1], name))
    return pairs


def _slot(statement: Statement, name: str) -> Slot:
    return next(slot for slot in statement.slots if slot.name == name)


@dataclass(slots=True)
class _Group:
    """The slots that one object fills."""

    nodes: list[Node]
    slots: list[Slot]

    @property
    def makes(self) -> bool:
        return any(slot.role == "makes" for slot in self.slots)

    @property
    def needs(self) -> bool:
        return any(slot.role != "makes" for slot in self.slots)

    @property
    def removes(self) -> bool:
        return any(slot.role == "removes" for slot in self.slots)


def _arranged(
    sides: tuple[Statement, Statement],
    relation: Relation,
    about: str,
    joined: Sequence[tuple[Node, Node]],
    *,
    namesakes: tuple[Node, Node] | None = None,
) -> Iterator[Meeting]:
    """List the meetings in which these slots are one object: one, two if it may exist before the race or not, or none."""
    groups = _groups(sides, joined)
    if any(_clashes(group) for group in groups):
        return
    doubtful = [group for group in groups if group.makes and group.removes]
    for present in (True, False) if doubtful and not any(map(_comes_back_otherwise, doubtful)) else (False,):
        placed = _placed(sides, groups, present, namesakes)
        if placed is None or (not present and any(map(_is_of_another_class, doubtful))):
            continue
        objects, keyspace_exists = placed
        wording = f"{about}{'-that-exists' if present else ''}" if doubtful else about
        yield Meeting(sides, relation, wording, objects, keyspace_exists)


def _comes_back_otherwise(group: _Group) -> bool:
    """Tell if a column is removed with one type and made with another, which servers refuse before and after it is dropped.

    Whether it is static or frozen is no type: servers take that, and some tables do not survive it.
    """
    types = {declared(slot.shape)[0] for slot in group.slots if slot.kind == "column"}
    return len({LIST if cql_type == FROZEN_LIST else cql_type for cql_type in types}) > 1


def _is_of_another_class(group: _Group) -> bool:
    """Tell if an index is made with another class than it is removed with: unless there is one before, the removal is that of any."""
    return group.slots[0].kind == "index" and len({slot.shape for slot in group.slots if slot.shape}) > 1


def _groups(sides: tuple[Statement, Statement], joined: Sequence[tuple[Node, Node]]) -> list[_Group]:
    """Return the objects of both statements; each slot fills one."""
    partner = {second: first for first, second in joined}
    groups: dict[Node, _Group] = {}
    for side, statement in enumerate(sides):
        for slot in statement.slots:
            node = (side, slot.name)
            place = _KEYSPACE if slot.kind == "keyspace" else partner.get(node, node)
            group = groups.setdefault(place, _Group([], []))
            group.nodes.append(node)
            group.slots.append(slot)
    return list(groups.values())


def _is_on_many_cells(view: _Group, by_node: Mapping[Node, _Group]) -> bool:
    """Tell if the column that is to be the view's key is made with a type of many cells, which no key can have."""
    columns = [by_node[side, "column"] for side, _ in view.nodes]
    return any(slot.shape in {LIST, MAP} for column in columns for slot in column.slots)


def _takes_a_static_column(
    view: _Group, groups: Sequence[_Group], by_node: Mapping[Node, _Group], exists: Mapping[int, bool]
) -> bool:
    """Tell if the view has, or names, a static column of its table: views take all columns, and refuse static ones."""
    sides = {side for side, _ in view.nodes}
    bases = {
        id(by_node[side, name]) for (side, _), slot in zip(view.nodes, view.slots, strict=True) for name in slot.inside
    }
    for column in groups:
        is_static = any(slot.shape == STATIC for slot in column.slots)
        places = zip(column.nodes, column.slots, strict=True)
        if is_static and bases & {id(by_node[side, name]) for (side, _), slot in places for name in slot.inside}:
            if exists[id(view)] and exists[id(column)]:
                return True
            if sides & {
                side for (side, _), slot in zip(column.nodes, column.slots, strict=True) if slot.role == "names"
            }:
                return True
    return False


def _clashes(group: _Group) -> bool:
    """Tell if the slots ask for two shapes of one object that exists, or for one object that a side fills twice.

    What is made has another shape than one slot takes: that statement would be refused in every order.
    """
    exact = any(slot.exact for slot in group.slots)
    shapes = {slot.shape for slot in group.slots if slot.shape and (exact or slot.role != "makes")}
    return len(shapes) > 1 or len({side for side, _ in group.nodes}) < len(group.nodes)


def _placed(
    sides: tuple[Statement, Statement], groups: Sequence[_Group], present: bool, namesakes: tuple[Node, Node] | None
) -> tuple[tuple[Object, ...], bool] | None:
    """Return the objects of a meeting and whether its keyspace exists; None if a statement can succeed in no order."""
    exists = {id(group): group.needs and (present and group.removes if group.makes else True) for group in groups}
    by_node = {node: group for group in groups for node in group.nodes}
    keyspace = next((group for group in groups if group.slots[0].kind == "keyspace"), None)
    keyspace_exists = keyspace is None or exists[id(keyspace)]
    closed = _made_whole(sides, groups)
    objects: list[Object] = []
    numbers: Counter[str] = Counter()
    for group in groups:
        if group is keyspace:
            continue
        slot, (side, _) = group.slots[0], group.nodes[0]
        inside = tuple((side, name) for name in slot.inside)
        if exists[id(group)] and not (keyspace_exists and _can_exist(group, inside, by_node, exists)):
            return None
        if slot.kind in _PARTS and any(id(by_node[node]) in closed for node in inside):
            return None
        letter = _LETTERS[slot.kind]
        objects.append(_object(group, f"{letter}{numbers[letter]}", inside, exists=exists[id(group)]))
        numbers[letter] += 1
    if any(_is_kept_by(each, objects) for each in objects if each.removed):
        return None
    views = [group for group in groups if group.slots[0].kind == "view"]
    if any(_is_on_many_cells(view, by_node) or _takes_a_static_column(view, groups, by_node, exists) for view in views):
        return None
    if namesakes is not None and not _may_share_a_name([by_node[node] for node in namesakes], exists):
        return None
    return tuple(_with_types(list(_renamed(objects, namesakes)), sides)), keyspace_exists


def _made_whole(sides: tuple[Statement, Statement], groups: Sequence[_Group]) -> set[int]:
    """Return the ids of the groups that a statement makes without room for columns of others."""
    return {
        id(group)
        for group in groups
        for (side, _), slot in zip(group.nodes, group.slots, strict=True)
        if slot.role == "makes" and not sides[side].holds_columns
    }


def _object(group: _Group, name: str, inside: tuple[Node, ...], *, exists: bool) -> Object:
    """Return the object that the slots of a group fill. `inside` are the nodes of what it lies in; `exists`: before the race."""
    makers = (side for (side, _), slot in zip(group.nodes, group.slots, strict=True) if slot.role == "makes")
    return Object(
        kind=group.slots[0].kind,
        name=name,
        nodes=tuple(group.nodes),
        inside=inside,
        shape=_shape_before(group),
        exists=exists,
        makers=tuple(makers),
        removed=group.removes,
    )


def _can_exist(
    group: _Group, inside: Sequence[Node], by_node: Mapping[Node, _Group], exists: Mapping[int, bool]
) -> bool:
    """Tell if an object can be there before the race; a part may come with the definition that makes its whole, but not before its type."""
    wholes = [by_node[node] for node in inside]
    if group.slots[0].kind in _PARTS:
        wholes = [
            by_node[side, named]
            for (side, _), slot in zip(group.nodes, group.slots, strict=True)
            if slot.role != "makes"
            for named in slot.types
        ]
    return all(exists[id(whole)] for whole in wholes)


def _is_kept_by(removed: Object, objects: Sequence[Object]) -> bool:
    """Tell if something depends on this object before and after the race, so that it can be removed in no order.

    A view keeps its table and all columns of it, an index its column, a column its type.
    """
    for each in objects:
        types = {(side, name) for side, _ in each.nodes for name in re.findall(r"\{(\w+)\}", each.shape)}
        if each.exists and not each.removed and types & set(removed.nodes):
            return True
        wholes = {node for node in each.inside for other in objects if node in other.nodes for node in other.nodes}
        if each.exists and not each.removed and each.kind in {"view", "index"}:
            parts = removed.inside if each.kind == "view" else ()
            if wholes & {*removed.nodes, *parts} and not (each.kind == "index" and removed.kind == "table"):
                return True
    return False


def _may_share_a_name(namesakes: Sequence[_Group], exists: Mapping[int, bool]) -> bool:
    """Tell if both statements can succeed in some order although their objects have one name."""
    kinds = {group.slots[0].kind for group in namesakes}
    if not kinds <= _PARTS and len({NAMESPACES[kind] for kind in kinds}) > 1:
        return True
    there = [group for group in namesakes if exists[id(group)]]
    if len(there) == 2:
        return False
    return all(group.removes for group in there)


def _shape_before(group: _Group) -> str:
    """Return the shape of an object: as it is before the race, else as it is made first; an integer if it is a column of any.

    What makes an index says nothing of the one that is there before.
    """
    if group.slots[0].kind == "index":
        return next((slot.shape for slot in group.slots if slot.shape and slot.role != "makes"), "")
    given = [slot.shape for slot in sorted(group.slots, key=lambda slot: slot.role == "makes") if slot.shape]
    return given[0] if given else INT if group.slots[0].kind == "column" else ""


def _with_types(objects: Sequence[Object], sides: tuple[Statement, Statement]) -> Iterator[Object]:
    """Write the names of types into the shapes of columns and fields."""
    names = {node: each.name for each in objects for node in each.nodes}
    for each in objects:
        by_side = [
            {name: filled for (side, name), filled in names.items() if side == node[0]}
            for node in each.nodes
            if _slot(sides[node[0]], node[1]).shape == each.shape
        ]
        yield replace(each, shape=each.shape.format(**by_side[0])) if by_side else each


def _renamed(objects: Sequence[Object], namesakes: tuple[Node, Node] | None) -> Iterator[Object]:
    """Give the namesakes one name."""
    for each in objects:
        if namesakes is not None and set(namesakes) & set(each.nodes):
            yield replace(each, name="x0")
        else:
            yield each
