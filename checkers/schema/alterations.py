"""Alterations: every acknowledged alteration shows in the final schemas.

Each column name of a table, each option of a table or keyspace, and each field of a type is a register of its own. An
acknowledged setting of it must show in every final reading, unless another possible operation that can follow it wrote
the same register, and then the reading must be explained by that one. A later CREATE explains what it declares; an
acknowledged DROP of the object or its keyspace, and a RENAME of the attribute, explain anything. A statement in free text
leaves a doubt.
Finds: `lost-column`, `undead-column`, `lost-option`, `lost-field`.
Source: the ScyllaDB talk, concurrent changes to the same object can be lost; CASSANDRA-10250.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import NodeSchema, Sighting
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.option_values import can_be
from schemaquake.checkers.evidence.schema_changes import (
    SchemaChanges,
    SchemaObject,
    can_follow,
    certainly_applied,
    target,
)
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, names, seconds, where
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.schema.judge import Findings, doubt_free_text, judge
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Verdict

__all__ = ["Alterations"]

_PRESENT: Final = "present"
_ABSENT: Final = "absent"
_LOST: Final = {"column": "lost-column", "option": "lost-option", "field": "lost-field"}
_UNREAD: Final = object()
"""The reading of an attribute whose object the node lacks, or of an option that it does not list."""


class Alterations:
    """Acknowledged columns, options and fields are there; dropped columns are not."""

    name = "alterations"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = ("lost-column", "undead-column", "lost-option", "lost-field")
    vouches: bool = True
    judges_early: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every attribute that an acknowledged operation set. Unknown without final readings."""
        return judge(self.name, records, _find, limit_s=limit_s)


class _Attribute(NamedTuple):
    """One register: `aspect` is column, option or field."""

    subject: SchemaObject
    aspect: str
    name: str


@dataclass(frozen=True, slots=True)
class _Setting:
    """An acknowledged operation, and the value that it gave the attribute."""

    source: PairedOperation
    value: JSON


def _find(case: Evidence) -> Findings:
    registers = _Registers(case.changes)
    sights = _Sights(case)
    for attribute in sorted(registers.judged):
        finding = _judge_attribute(case, registers, attribute, sights)
        yield doubt_free_text(case, attribute.subject.keyspace, finding)


def _judge_attribute(case: Evidence, registers: _Registers, attribute: _Attribute, sights: _Sights) -> Anomaly | None:
    lost: dict[int, _Setting] = {}
    readings: dict[str, dict[str, JSON]] = {}
    for schema in case.readings.schemas:
        found = _reading(schema, attribute)
        if found is _UNREAD:
            continue
        for setting in registers.settings(attribute):
            if not _explained(attribute, found, setting, registers.overwriters(attribute, setting.source)):
                lost[setting.source.index] = setting
                readings.setdefault(schema.phase, {})[schema.node] = found
    if not readings:
        return None
    # Of settings one after another only the last matters: the earlier ones were rightly replaced.
    last = [s for s in lost.values() if not any(s.source.entirely_before(other.source) for other in lost.values())]
    return _anomaly(case, registers, attribute, last, readings, sights.last(attribute, last))


def _explained(
    attribute: _Attribute, found: JSON, setting: _Setting, overwriters: Iterable[tuple[PairedOperation, JSON]]
) -> bool:
    if _matches(attribute, found, setting.value):
        return True
    return any(value is _UNREAD or _matches(attribute, found, value) for _, value in overwriters)


def _matches(attribute: _Attribute, found: JSON, wanted: JSON) -> bool:
    return can_be(found, wanted) if attribute.aspect == "option" else bool(found == wanted)


# ── who wrote what ───────────────────────────────────────────────────────────────────────────────────────────────────


class _Registers:
    """Every attribute that possible operations set, and the operations on its object as a whole."""

    def __init__(self, changes: SchemaChanges) -> None:
        self._changes = changes
        self._writes: dict[_Attribute, list[tuple[PairedOperation, JSON]]] = {}
        for operation in changes.possible:
            for attribute, value in _writes(operation):
                self._writes.setdefault(attribute, []).append((operation, value))
        self.judged = [attribute for attribute in self._writes if self.settings(attribute)]

    def settings(self, attribute: _Attribute) -> Sequence[_Setting]:
        """Return the acknowledged operations that certainly set this attribute, with their values."""
        return [
            _Setting(operation, value)
            for operation, value in self._writes[attribute]
            if value is not _UNREAD and certainly_applied(operation)
        ]

    def overwriters(self, attribute: _Attribute, source: PairedOperation) -> Iterator[tuple[PairedOperation, JSON]]:
        """List other possible operations that can follow `source`, with their values; `_UNREAD`: any value."""
        for operation, value in self._writes[attribute]:
            if operation is not source and can_follow(operation, source):
                yield operation, value
        writers = {operation.index for operation, _ in self._writes[attribute]}
        for operation in self._upheavals(attribute.subject):
            if operation is not source and operation.index not in writers and can_follow(operation, source):
                # Of a new life an option has its default, and a column is there if it was declared.
                anything = attribute.aspect == "option" or operation.f.startswith("drop-")
                yield operation, _UNREAD if anything else _ABSENT

    def _upheavals(self, subject: SchemaObject) -> Iterator[PairedOperation]:
        """List the possible CREATEs, and the DROPs that are known to have been carried out.

        One of unknown outcome explains nothing of an object that is there, unless by a CREATE after it.
        """
        yield from self._changes.creates(subject)
        yield from (drop for drop in self._changes.drops(subject) if drop.type == "ok")

    def writers(self, attribute: _Attribute) -> Sequence[PairedOperation]:
        """Return all possible operations on this attribute."""
        return [operation for operation, _ in self._writes[attribute]]


def _writes(operation: PairedOperation) -> Iterator[tuple[_Attribute, JSON]]:
    """List the attributes that one operation sets; `_UNREAD` for those that it renames."""
    subject, argument = target(operation), operation.argument
    match operation.f:
        case "create-table":
            yield from ((_Attribute(subject, "column", column[0]), _PRESENT) for column in argument["columns"])
            yield from _options(subject, argument.get("options") or {})
        case "alter-options" | "alter-view":
            yield from _options(subject, argument["options"])
        case "create-keyspace" | "alter-keyspace":
            yield from _options(subject, {"replication": argument["replication"]})
        case "create-type":
            yield from ((_Attribute(subject, "field", field[0]), _PRESENT) for field in argument["fields"])
        case "add-column" | "add-field":
            aspect = operation.f.removeprefix("add-")
            yield _Attribute(subject, aspect, argument[aspect][0]), _PRESENT
        case "drop-column":
            yield _Attribute(subject, "column", argument["column"]), _ABSENT
        case "rename-column" | "rename-field":
            aspect = operation.f.removeprefix("rename-")
            yield _Attribute(subject, aspect, argument[aspect]), _UNREAD
            yield _Attribute(subject, aspect, argument["to"]), _UNREAD


def _options(subject: SchemaObject, options: Mapping[str, JSON]) -> Iterator[tuple[_Attribute, JSON]]:
    return ((_Attribute(subject, "option", name), value) for name, value in options.items() if name.lower() != "id")


# ── what was read ────────────────────────────────────────────────────────────────────────────────────────────────────


def _reading(schema: NodeSchema, attribute: _Attribute) -> JSON:
    subject = attribute.subject
    key = (subject.keyspace, subject.name)
    if subject.kind == "keyspace":
        return schema.keyspaces.get(subject.keyspace, {}).get(attribute.name, _UNREAD)
    if subject.kind == "type":
        fields = schema.types.get(key)
        return _UNREAD if fields is None else _presence(attribute.name in dict(fields))
    table = schema.tables.get(key) or schema.views.get(key)
    if table is None or table.residue:
        return _UNREAD
    if attribute.aspect == "option":
        return table.options.get(attribute.name, None if _lists_option(schema, attribute.name) else _UNREAD)
    if not table.columns:
        return _UNREAD  # a DROP of unknown outcome may have taken the columns; `references` finds what is left
    return _presence(attribute.name in table.columns)


def _lists_option(schema: NodeSchema, name: str) -> bool:
    """Tell if this system lists the option under that name: then a table without it has none."""
    return any(name in table.options for table in schema.tables.values())


def _presence(present: bool) -> str:
    return _PRESENT if present else _ABSENT


class _Sights:
    """Every reading, in all phases, of the objects whose attributes were lost; read on first use."""

    def __init__(self, case: Evidence) -> None:
        self._case = case
        self._by_object: dict[str, dict[SchemaObject, list[Sighting]]] = {}

    def last(self, attribute: _Attribute, settings: Sequence[_Setting]) -> tuple[int, str] | None:
        """Find the last time (ns), and its node, at which the attribute had one of these values; null: never since it was set."""
        asked = min(setting.source.invoked for setting in settings)
        for sighting in reversed(self._of(attribute.subject)):
            if sighting.time < asked:
                return None
            found = _SHOWN[attribute.subject.kind](sighting.definition, attribute)
            if found is not _UNREAD and any(_matches(attribute, found, setting.value) for setting in settings):
                return sighting.time, sighting.node
        return None

    def _of(self, subject: SchemaObject) -> Sequence[Sighting]:
        if subject.kind not in self._by_object:
            found = self._by_object[subject.kind] = {}
            for sighting in self._case.sightings(subject.kind):
                if sighting.definition is not None:
                    seen = SchemaObject(subject.kind, sighting.keyspace, sighting.name)
                    found.setdefault(seen, []).append(sighting)
        return self._by_object[subject.kind].get(subject, ())


def _shown_of_table(definition: Mapping[str, Any], attribute: _Attribute) -> JSON:
    if attribute.aspect == "option":
        return (definition.get("options") or {}).get(attribute.name, _UNREAD)
    return _presence(attribute.name in (definition.get("columns") or {}))


def _shown_of_type(definition: Mapping[str, Any], attribute: _Attribute) -> JSON:
    return _presence(any(field[0] == attribute.name for field in definition.get("fields") or ()))


def _shown_of_keyspace(definition: Mapping[str, Any], attribute: _Attribute) -> JSON:
    return definition.get(attribute.name, _UNREAD)


_SHOWN: Final[Mapping[str, Callable[[Mapping[str, Any], _Attribute], JSON]]] = {
    "keyspace": _shown_of_keyspace,
    "table": _shown_of_table,
    "type": _shown_of_type,
    "view": _shown_of_table,
}


# ── the finding ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _anomaly(
    case: Evidence,
    registers: _Registers,
    attribute: _Attribute,
    lost: Sequence[_Setting],
    readings: Mapping[str, Mapping[str, JSON]],
    last_seen: tuple[int, str] | None,
) -> Anomaly:
    sources = [setting.source for setting in lost]
    rivals = _rivals(case, registers, attribute, sources)
    kind = "undead-column" if all(setting.value == _ABSENT for setting in lost) else _LOST[attribute.aspect]
    subject = f"{attribute.aspect} {attribute.name} of {attribute.subject.kind} {attribute.subject.key}"
    required = listing(dict.fromkeys(_render_value(attribute, setting.value) for setting in lost))
    return anomaly(
        kind,
        objects=[attribute.subject.key],
        nodes=[node for nodes in readings.values() for node in nodes],
        ops=[operation.index for operation in (*sources, *rivals)],
        evidence={
            attribute.aspect: attribute.name,
            "readings": readings,
            "last_seen": {"time_ns": last_seen[0], "node": last_seen[1]} if last_seen else None,
        },
        explanation=Argument(
            [*sources, *rivals],
            f"{names(len(sources))} {'was' if len(sources) == 1 else 'were'} acknowledged, and nothing that can have "
            f"come later set it otherwise, so {subject} must be {required}.",
            f"{_render_readings(attribute, readings)}. {_render_sight(last_seen)}",
        ),
    )


def _rivals(
    case: Evidence, registers: _Registers, attribute: _Attribute, sources: Sequence[PairedOperation]
) -> Sequence[PairedOperation]:
    """Return other possible changes of the object at the same time as the lost ones: likely causes, and no excuse."""
    changes = [
        other
        for other in case.changes.on(attribute.subject)
        if other not in sources and any(can_follow(other, source) for source in sources)
    ]
    own = registers.writers(attribute)
    return sorted(changes, key=lambda other: (other not in own, other.index))[: LIMITS.named]


def _render_value(attribute: _Attribute, value: JSON) -> str:
    return str(value) if attribute.aspect != "option" else repr(value)


def _render_readings(attribute: _Attribute, readings: Mapping[str, Mapping[str, JSON]]) -> str:
    groups: dict[str, dict[str, list[str]]] = {}
    for phase, nodes in readings.items():
        for node, found in nodes.items():
            groups.setdefault(_render_value(attribute, found), {}).setdefault(phase, []).append(node)
    return "; ".join(f"{where(phases, 'shows', 'show')} it {value}" for value, phases in groups.items())


def _render_sight(last: tuple[int, str] | None) -> str:
    if last is None:
        return "No reading since then showed it so."
    time, node = last
    return f"It was last seen so on {node} at {seconds(time)}."
