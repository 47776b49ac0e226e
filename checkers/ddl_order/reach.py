"""Reach: what a change of unknown outcome may still have done, and where and when.

An unanswered schema change may take effect at any time after it was asked for, or never. Whatever it may explain is not
proven, but it explains no more than the schema model says of it (`schemaquake.checkers.ddl_order.model`):

- the facts that it changes: a column, an option, an object with all its parts; and only a value that it leads to;
- from its invocation on, until every process that may have known of it has ended (the conductor's notes of starts);
- not before a final reading in which all nodes show that it has not taken effect, unless it may have been undone since, and not
  after one in which all show that it has, if no other change of the object was open then;
- on nodes that served meanwhile.

A statement in free text is not modelled, and reaches everything in the keyspaces that it may concern. What is within
reach is in doubt; it is never passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import orjson

from schemaquake.checkers.ddl_order.model import model_change
from schemaquake.checkers.ddl_order.variables import ABSENT, OBJECT_KINDS, UNSET, ColumnValue, Value, Variable
from schemaquake.checkers.ddl_order.vocabulary import Vocabulary, read_vocabulary
from schemaquake.checkers.evidence.cql_types import canonical
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import Live, NodeSchema
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.option_values import can_be
from schemaquake.checkers.evidence.schema_changes import SchemaChanges, SchemaObject, target
from schemaquake.checkers.evidence.statements import parse_statement
from schemaquake.harness.model.operation import JSON

__all__ = ["Facts", "Reach", "Reaches", "facts_of_columns", "facts_of_memory", "facts_of_row"]

Facts: TypeAlias = Mapping[tuple[str, str], JSON]
"""An object as one side shows it: (kind of variable, part) → value. None in place of all: there is no such object."""

_PARTS: Final = frozenset({"column", "option", "field", "replication"})
"""The kinds of variables that are parts of an object."""
_PRESENT: Final = "present"
"""A value that no statement leads to, in place of whatever was there."""


@dataclass(frozen=True, slots=True)
class Reach:
    """One change of unknown outcome: what it changes, to what, and the time (ns) in which it may do so.

    `ends` null: no note says that it ever ended. `everything`: its meaning is not known. `decided`: what the final
    readings show, that it took effect (True), or that it had not before `begins` (False); null: they leave it open.
    """

    operation: PairedOperation
    begins: int
    ends: int | None
    results: Mapping[Variable, Value]
    everything: bool = False
    decided: bool | None = None

    def during(self, begins: int, ends: int) -> bool:
        """Tell if the change may take effect within that interval (ns)."""
        return self.begins <= ends and (self.ends is None or self.ends >= begins)

    def touches(self, subject: SchemaObject, parts: Iterable[tuple[str, str]] = ()) -> bool:
        """Tell if the change may create, alter or remove the object, or any of these parts of it."""
        kinds = [(OBJECT_KINDS[subject.kind], ""), *parts]
        return self.everything or any(list(self._values(subject, kind, part)) for kind, part in kinds)

    def creates(self, subject: SchemaObject) -> bool:
        """Tell if the change may create the object."""
        whole = Variable(OBJECT_KINDS[subject.kind], subject.keyspace, subject.name)
        return self.results.get(whole, ABSENT) != ABSENT

    def changes_whole(self, subject: SchemaObject) -> bool:
        """Tell if the change creates or removes the object, and does not only change parts of it."""
        return Variable(OBJECT_KINDS[subject.kind], subject.keyspace, subject.name) in self.results

    def parts_of(self, subject: SchemaObject) -> Sequence[tuple[str, str]]:
        """Return the parts of the object that the change sets, as (kind, part)."""
        return [
            (variable.kind, variable.part)
            for variable in self.results
            if (variable.keyspace, variable.name) == (subject.keyspace, subject.name) and variable.kind in _PARTS
        ]

    def leads_to(self, subject: SchemaObject, fact: tuple[str, str], value: JSON) -> bool:
        """Tell if the change may make a part of the object read as this value; None: as absent."""
        return self.everything or any(_is(value, wanted) for wanted in self._values(subject, *fact))

    def _values(self, subject: SchemaObject, kind: str, part: str) -> Iterable[Value]:
        """Yield the values that the change may give a part: by itself, with its object, or, as absent, with the keyspace."""
        name = part if kind == "index" and part else subject.name  # of a table, or by itself
        own = Variable(kind, subject.keyspace, name, "" if kind == "index" else part)
        whole = Variable(OBJECT_KINDS[subject.kind], subject.keyspace, subject.name)
        keyspace = Variable("keyspace", subject.keyspace)
        owners = [owner for owner in (whole, keyspace) if owner != own and owner in self.results]
        removed = any(self.results[owner] == ABSENT for owner in owners)
        if own == whole and removed:
            yield ABSENT
        if not removed:  # a part that is gone from an object that is there did not go with it
            if whole in owners:  # parts come with their object; nothing comes with a keyspace
                yield _PRESENT
            if own in self.results:
                yield self.results[own]


class Reaches:
    """The changes of unknown outcome of a history, and what each may reach."""

    def __init__(self, evidence: Evidence) -> None:
        """Model every change of unknown outcome. Raises HistoryError."""
        self._evidence = evidence
        self._by_keyspace: dict[str, list[Reach]] = {}
        changes = evidence.changes
        possible: dict[str, list[PairedOperation]] = {}
        for operation in changes.possible:
            possible.setdefault(operation.argument["keyspace"], []).append(operation)
        for keyspace, of_keyspace in possible.items():
            vocabulary = read_vocabulary(keyspace, of_keyspace)
            for operation in of_keyspace:
                change = model_change(operation, vocabulary) if operation.type == "info" else None
                if change is not None:
                    effects = [effect for one in change.alternatives for effect in one.effects]
                    results = {e.variable: r for e in effects if (r := _result(e.variable, e.becomes)) is not None}
                    results |= _in_views(results, vocabulary)
                    reach = Reach(operation, operation.invoked, ends_of(operation, evidence.notes), results)
                    self._by_keyspace.setdefault(keyspace, []).append(_narrowed(reach, evidence))

    def find(self, operation: PairedOperation) -> Reach | None:
        """Find the reach of a change of unknown outcome; None for any other, and for free text."""
        known = self._by_keyspace.get((operation.argument or {}).get("keyspace", ""), ())
        return next((reach for reach in known if reach.operation is operation), None)

    def of(self, keyspace: str) -> Sequence[Reach]:
        """Return the changes that may have reached anything in this keyspace, those in free text last."""
        texts = [
            Reach(text, text.invoked, ends_of(text, self._evidence.notes), {}, everything=True)
            for text in self._evidence.changes.texts(keyspace)
            if text.type == "info"
        ]
        return [*self._by_keyspace.get(keyspace, ()), *texts]

    def any_during(self, begins: int, ends: int) -> Sequence[PairedOperation]:
        """Return the changes of any keyspace that may have taken effect within an interval (ns)."""
        keyspaces = {operation.argument.get("keyspace", "") for operation in self._evidence.changes.all}
        found = {reach.operation.index: reach for keyspace in sorted(keyspaces) for reach in self.of(keyspace)}
        return [reach.operation for _, reach in sorted(found.items()) if reach.during(begins, ends)]

    def touching(self, subject: SchemaObject, begins: int, ends: int) -> Sequence[PairedOperation]:
        """Return the changes that may have created, replaced or removed an object within an interval (ns)."""
        return [r.operation for r in self.of(subject.keyspace) if r.during(begins, ends) and r.touches(subject)]

    def explain(
        self, subject: SchemaObject, sides: Sequence[Facts | None], begins: int, ends: int
    ) -> Sequence[PairedOperation]:
        """Return the changes that explain why sides differ that were read within an interval (ns); empty: none does.

        Of all values that a part has on several sides at most one was there before. Every other one must be where a change
        leads to that may have taken effect meanwhile.
        """
        under_way = [reach for reach in self.of(subject.keyspace) if reach.during(begins, ends)]
        # What is there is not created, unless it is removed before: two ids of a table are not one CREATE's doing.
        whole = (OBJECT_KINDS[subject.kind], "")
        may_be_new = None in sides or any(reach.leads_to(subject, whole, None) for reach in under_way)
        reaches = [reach for reach in under_way if may_be_new or not reach.creates(subject)]
        used: dict[int, PairedOperation] = {}
        for fact, values in _differing(subject, sides).items():
            unexplained = 0
            for value in values:
                leading = [reach for reach in reaches if reach.leads_to(subject, fact, value)]
                unexplained += not leading
                used |= {reach.operation.index: reach.operation for reach in leading}
            if unexplained > 1 or not used:
                return ()
        return tuple(used[index] for index in sorted(used))


def ends_of(operation: PairedOperation, notes: Notes) -> int | None:
    """Return the time (ns) by which every process that may have known of an operation had ended; None: it is not known.

    A request may wait in any node: its coordinator hands it on. A start that is noted had no process before it.
    """
    ended: dict[str, int] = {}
    for start in notes.starts:
        began = start.time - round(start.seconds * 1e9)
        if start.phase != "boot" and began > operation.invoked:
            ended.setdefault(start.node, began)
    for death in notes.deaths:
        if death.time > operation.invoked:
            ended[death.node] = min(death.time, ended.get(death.node, death.time))
    nodes = {start.node for start in notes.starts} | {operation.node}
    return max(ended[str(node)] for node in nodes) if nodes <= ended.keys() else None


def _narrowed(reach: Reach, evidence: Evidence) -> Reach:
    """Bound the time of a change by the final readings that decide whether it had taken effect."""
    subject = target(reach.operation)
    for phase in evidence.readings.phases:
        begins, ends = evidence.interval(phase)
        unread = any(unread.phase == phase for unread in evidence.readings.unread)
        if unread or _is_contested(reach, subject, evidence.changes, begins):
            continue
        shown = {_has_taken_effect(reach, subject, schema) for schema in evidence.readings.of(phase)}
        if shown == {False} and not _may_be_undone(reach, subject, evidence.changes):
            reach = replace(reach, begins=max(reach.begins, begins), decided=False)
        elif shown == {True}:
            return replace(reach, ends=ends if reach.ends is None else min(reach.ends, ends), decided=True)
    return reach


def _is_contested(reach: Reach, subject: SchemaObject, changes: SchemaChanges, time: int) -> bool:
    """Tell if another change of the same, or free text, may have taken effect after that time (ns)."""
    if changes.texts(subject.keyspace):
        return True
    others = [*changes.creates(subject), *changes.drops(subject), *_on_base(subject, changes)]
    if not reach.changes_whole(subject):
        others += changes.on(subject)
    return any(
        change is not reach.operation
        and (change.type == "info" or change.completed is None or change.completed >= time)
        for change in others
    )


def _may_be_undone(reach: Reach, subject: SchemaObject, changes: SchemaChanges) -> bool:
    """Tell if another change may have undone this one since: then no reading tells.

    An object that a DROP removed may have been created again, and one of a CREATE dropped; a part may have been set once more.
    """
    if reach.changes_whole(subject):
        gone = (
            *changes.drops(subject),
            *(change for change in _on_base(subject, changes) if change.f == "drop-column"),
        )
        others = list(changes.creates(subject) if reach.operation.f.startswith("drop-") else gone)
    else:
        parts = {part for _, part in reach.parts_of(subject)}
        setting = (change for change in changes.on(subject) if not parts.isdisjoint(_names_of_parts(change)))
        others = [*changes.creates(subject), *changes.drops(subject), *setting]
    return any(
        change is not reach.operation and (change.completed is None or change.completed > reach.operation.invoked)
        for change in others
    )


def _on_base(subject: SchemaObject, changes: SchemaChanges) -> Sequence[PairedOperation]:
    """Return the changes of the tables that an index or a view may be on, whose columns may take it along."""
    creates = changes.creates(subject) if subject.kind in {"index", "view"} else ()
    bases = [create.argument.get("table") or create.argument["base"] for create in creates]
    return [change for base in bases for change in changes.on(SchemaObject("table", subject.keyspace, base))]


def _names_of_parts(change: PairedOperation) -> Iterator[str]:
    """List the columns, fields and options that a change of an object sets; of a keyspace it is the replication, without a name."""
    argument = change.argument
    for name in ("column", "field"):
        if name in argument:
            yield argument[name] if isinstance(argument[name], str) else argument[name][0]
    if "to" in argument:
        yield argument["to"]
    yield from argument.get("options") or ()
    if "replication" in argument:
        yield ""


def _has_taken_effect(reach: Reach, subject: SchemaObject, schema: NodeSchema) -> bool | None:
    """Tell if a node shows that a change has taken effect; None: its reading does not tell."""
    facts = facts_of_row(subject, schema.stored().get(subject))
    whole = (OBJECT_KINDS[subject.kind], "")
    if subject.kind == "index":
        on = {name for table in schema.tables.values() if table.keyspace == subject.keyspace for name in table.indexes}
        is_there: JSON = {"is": "there"} if subject.name in on else None
        return reach.leads_to(subject, whole, is_there)
    if reach.changes_whole(subject):
        return reach.leads_to(subject, whole, None if facts is None else {"is": "there"})
    parts = reach.parts_of(subject)
    if facts is None or not parts:
        return None
    shown = {reach.leads_to(subject, part, facts.get(part)) for part in parts}
    return shown.pop() if len(shown) == 1 else None


def _in_views(results: Mapping[Variable, Value], vocabulary: Vocabulary) -> Mapping[Variable, Value]:
    """Return what a change of a table's columns does to its views, which have all of them."""
    return {
        variable._replace(name=view): value
        for variable, value in results.items()
        for view, bases in vocabulary.views.items()
        if variable.kind == "column" and variable.name in bases
    }


def _result(variable: Variable, becomes: Any) -> Value | None:
    """Return the value that an effect leads to; None if it changes nothing."""
    if variable.kind == "index":
        created: Value = becomes(ABSENT)
        return created  # a DROP of its table or column removes it
    held: Value = becomes(_PRESENT)
    return None if held == _PRESENT and becomes(ABSENT) == ABSENT else held


# ── facts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def facts_of_row(subject: SchemaObject, row: JSON) -> Facts | None:
    """Divide an object of a node's disk (`NodeSchema.stored`) into facts."""
    if row is None:
        return None
    if subject.kind == "type":
        return {("field", name): cql_type for name, cql_type in row}
    if subject.kind not in {"table", "view", "keyspace"}:
        return {(OBJECT_KINDS[subject.kind], ""): row}
    facts: dict[tuple[str, str], JSON] = {}
    for fact, value in _entries(row):
        facts[fact] = [*(facts.get(fact) or []), value] if fact[0] == "column" else value
    return {**facts, (OBJECT_KINDS[subject.kind], ""): {n: v for n, v in row.items() if n not in _PARTED}}


_PARTED: Final = frozenset({"columns", "dropped_columns", "options", "indexes", "replication"})
"""The parts of a row that are facts of their own."""


def _entries(row: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], JSON]]:
    """Yield (fact, value) of everything in the parts of a row; what speaks of one column comes one entry at a time."""
    for part in ("columns", "dropped_columns"):
        yield from ((("column", name), [part, column]) for name, column in (row.get(part) or {}).items())
    for name, option in (row.get("options") or {}).items():
        named = _columns_named_by(name, option)
        yield from ((("column", column), [name, entry]) for column, entry in named.items())
        if not named:
            yield ("option", name), option
    yield from ((("index", name), index) for name, index in (row.get("indexes") or {}).items())
    if "replication" in row:
        yield ("replication", ""), row["replication"]


def _columns_named_by(option: str, value: JSON) -> Mapping[str, JSON]:
    """Divide an option that speaks of columns by their names, and so follows a RENAME; empty: it is no such option."""
    if option == "clustering_order" and isinstance(value, Mapping):
        return dict(value)
    clauses = str(value).split(" AND ") if option == "where_clause" else []
    found = [_CONDITION.fullmatch(clause.strip()) for clause in clauses]
    return {clause[1]: "is not null" for clause in found if clause is not None} if all(found) else {}


def facts_of_memory(subject: SchemaObject, live: Live | None) -> Facts | None:
    """Divide an object of a node's memory into facts; a statement that is not understood is one fact."""
    if live is None:
        return None
    if live.columns is not None:
        return {("column", name): cql_type for name, cql_type in live.columns.items()}
    parsed = parse_statement(subject.kind, live.statement or "")
    if parsed is None:
        return {(OBJECT_KINDS[subject.kind], ""): live.statement}
    row = parsed.definition["fields"] if subject.kind == "type" else dict(parsed.definition)
    return facts_of_row(subject, row)


def facts_of_columns(names: Iterable[str]) -> Facts:
    """Make the facts of a table of which the names of columns are compared, and nothing else."""
    return {("column", name): True for name in names}


def _differing(subject: SchemaObject, sides: Sequence[Facts | None]) -> Mapping[tuple[str, str], Sequence[JSON]]:
    """Map each fact that is not the same on all sides to its values, each once; None: the object, or the part, is absent."""
    present = [side for side in sides if side is not None]
    facts: dict[tuple[str, str], list[JSON]] = {}
    if len(present) < len(sides):
        whole = (OBJECT_KINDS[subject.kind], "")
        facts[whole] = [None, *({"is": "there"} for _ in present[:1])]
    for fact in sorted({fact for side in present for fact in side}):
        values = {_text(side.get(fact)): side.get(fact) for side in present}
        if len(values) > 1:
            facts[fact] = [*facts.get(fact, ()), *values.values()]
    return facts


def _text(value: JSON) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _is(value: JSON, wanted: Value) -> bool:
    """Tell if a value that was read can be the one that a change leads to."""
    if wanted == ABSENT:
        return value is None or (isinstance(value, list) and all(_was_dropped(entry) for entry in value))
    if value is None:
        return False
    if isinstance(wanted, ColumnValue):
        return wanted.type is None or _type_of(value) in (None, wanted.type)
    if isinstance(wanted, str) and wanted not in (_PRESENT, UNSET):
        if isinstance(value, dict) and "replication_factor" in value:
            return str(value["replication_factor"]) == wanted
        return _option_is(value, wanted)
    return True


def _option_is(value: JSON, wanted: str) -> bool:
    """Compare with an option, which is JSON text, or with a field's type."""
    try:
        return can_be(value, orjson.loads(wanted))
    except orjson.JSONDecodeError:
        return not isinstance(value, str) or canonical(value) == canonical(wanted) or wanted in _WORDS


_WORDS: Final = frozenset({"keyspace", "type", "renamed", "unknown"})


_CONDITION: Final = re.compile(r'"?(\w+)"? IS NOT NULL', re.IGNORECASE)


def _was_dropped(entry: JSON) -> bool:
    return isinstance(entry, list) and bool(entry) and entry[0] == "dropped_columns"


def _type_of(value: JSON) -> str | None:
    """Return the type of a column in one spelling; None: it is not shown as CQL."""
    entries = value if isinstance(value, list) else []
    for entry in entries:
        if isinstance(entry, list) and entry and entry[0] == "columns" and isinstance(entry[1], dict):
            text = str(entry[1].get("type"))
            return None if "org.apache" in text else canonical(text)
    return None
