"""Definitions: what nodes show of an object is what the changes that may have happened can have made of it.

Judges the content of every final reading that the history determines: columns (type, kind, place in the key, order of
clustering), fields (type, order), functions with their bodies, aggregates, targets of indexes, bases and keys of views,
replication, the columns that were dropped, and what a statement in memory says beside all that (masks, constraints, comments, options of indexes),
which no operation asks for. A value must be that of a possible change which can have been the last
(`schemaquake.checkers.schema.possible_parts`); a refused change, and one that never was, gives none. That nodes agree is not
enough: all of them may show what no operation asked for.
Finds: `unexplained-definition`, `shared-index-name`.
Source: CEP-21, "strict linearizability of metadata changes"; the ScyllaDB talk; CASSANDRA-7190 on times of drops.

What is left open on purpose, because a false accusation is worse than a miss:
- An object, or a keyspace, that may be older than the history; a keyspace that a statement in free text may have changed.
- A type that CQL has no word for, and a place in the key where the system shows no places.
- What is missing: `alterations` and `objects` judge that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import orjson

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import NodeSchema, Table
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, certainly_applied
from schemaquake.checkers.evidence.statements import parse_statement
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, where
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.schema.judge import Findings, judge
from schemaquake.checkers.schema.matching import (
    find_faults_of_drop,
    find_missing_words,
    find_unasked_words,
    is_aggregate,
    is_column,
    is_field,
    is_function,
    is_index,
    is_replication,
    must_precede,
)
from schemaquake.checkers.schema.possible_parts import ABSENT, Part, PossibleParts, PossibleValue, list_possible_parts
from schemaquake.checkers.schema.wall_clock import WallClock
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["Definitions"]


class Definitions:
    """The content of every object comes from a change that was asked for."""

    name = "definitions"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = ("unexplained-definition", "shared-index-name")
    vouches: bool = True
    judges_early: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every object of every node. Unknown without final readings."""
        return judge(self.name, records, _find, limit_s=limit_s)


@dataclass(frozen=True, slots=True)
class _Strange:
    """A part that no possible change explains: its name, what is shown, and the possible values with their changes."""

    part: str
    shown: JSON
    possible: Sequence[PossibleValue] = ()
    text: str = ""
    """A predicate that says what is wrong; by default that the part is as shown."""


_Strangers: TypeAlias = Iterator[_Strange]
_Reader: TypeAlias = Callable[[NodeSchema, SchemaObject, PossibleParts, WallClock], _Strangers]


@dataclass(slots=True)
class _Found:
    """One strange part of one object, and the nodes that show it, by phase."""

    strange: _Strange
    places: dict[str, list[str]] = field(default_factory=dict)


def _find(case: Evidence) -> Findings:
    parts = case.derive(list_possible_parts)
    clock = WallClock(case)
    if clock.is_contradicted():
        yield Doubt("incomplete-run", "the note of the plan and the ids of tables are of different times of day")
    found: dict[tuple[SchemaObject, str], _Found] = {}
    judged: set[SchemaObject] = set()
    readers: Mapping[str, _Reader] = {**_READERS, "table": partial(_table, shows_frozen=_shows_frozen(case))}
    for schema in case.readings.schemas:
        for subject in map(SchemaObject._make, schema.objects()):
            judged.add(subject)
            if parts.is_known(subject):
                for strange in (*readers[subject.kind](schema, subject, parts, clock), *_words(schema, subject)):
                    key = f"{strange.part} {orjson.dumps(strange.shown).decode()} {strange.text}"
                    one = found.setdefault((subject, key), _Found(strange))
                    one.places.setdefault(schema.phase, []).append(schema.node)
    for subject, key in sorted(found):
        yield _anomaly(case, subject, found[subject, key])
    yield from dict.fromkeys(_made_though_there(case, parts))
    yield from _shared_names(case)
    yield from [None] * len(judged - {subject for subject, _ in found})


def _made_though_there(case: Evidence, parts: PossibleParts) -> Iterator[Doubt]:
    """Yield a doubt for each routine that is as CREATE … IF NOT EXISTS alone asked for, which found another one of its name there.

    A coordinator that is behind the log may answer such a no-op as a change, but its definition must not come of it.
    """
    for schema in case.readings.schemas:
        routines = [
            *(("function", name, shown.definition, is_function) for name, shown in schema.functions.items()),
            *(("aggregate", name, shown.definition, is_aggregate) for name, shown in schema.aggregates.items()),
        ]
        for kind, name, shown, is_it in routines:
            subject = SchemaObject(kind, *name)
            if not parts.is_known(subject):
                continue
            makers = [v.operation for v in parts.all_values(Part(subject, "whole")) if is_it(shown, v.value)]
            if makers and all(one.argument.get("if_not_exists") and parts.was_there(one) for one in makers):
                text = f"it is as op {makers[0].index} asked for, IF NOT EXISTS, although another one was there all the time"
                yield Doubt("undecided", text, (subject.key,))


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _table(
    schema: NodeSchema, subject: SchemaObject, parts: PossibleParts, clock: WallClock, *, shows_frozen: bool = False
) -> _Strangers:
    table = schema.tables[subject.keyspace, subject.name]
    shows_places = _shows_places(schema)
    shows_frozen = shows_frozen or _is_frozen_shown_by(schema)
    for name, shown in table.columns.items():
        described = table.definition["columns"][name]
        values = parts.values(Part(subject, "column", name))
        if any(value.value == ABSENT and value.operation.f == "drop-column" for value in values):
            continue  # a dropped column that is back: `alterations`
        wanted = [value for value in values if value.value != ABSENT]
        seen = {**described, "position": shown.position}
        if not any(
            is_column(seen, value.value, shows_places=shows_places, shows_frozen=shows_frozen) for value in wanted
        ):
            yield _Strange(f"column {name}", described, wanted)
    yield from _dropped_columns(schema, subject, table, parts, clock)


def _shows_places(schema: NodeSchema) -> bool:
    """Tell if this system says which place a column has in its key."""
    return any(column.position >= 0 for table in schema.tables.values() for column in table.columns.values())


def _shows_frozen(case: Evidence) -> bool:
    """Tell if any node showed at any time that a type is frozen, in a run in which all are of one version."""
    if case.notes.upgrades.operations:
        return False
    tables = (seen.definition for seen in case.sightings("table"))
    columns = (each.get("columns") for each in tables if isinstance(each, dict))
    return any("frozen<" in str(column.get("type")) for some in columns if some for column in some.values())


def _is_frozen_shown_by(schema: NodeSchema) -> bool:
    """Tell if this system says that a type is frozen, as all do that tell their memory in statements."""
    return schema.shows_memory == "statements" or any(
        "frozen<" in column.type for table in schema.tables.values() for column in table.columns.values()
    )


def _dropped_columns(
    schema: NodeSchema, subject: SchemaObject, table: Table, parts: PossibleParts, clock: WallClock
) -> _Strangers:
    drops: dict[str, list[PairedOperation]] = {}
    for operation in parts.operations(subject):
        if operation.f == "drop-column":
            drops.setdefault(operation.argument["column"], []).append(operation)
    shown = table.definition.get("dropped_columns") or {}
    for name, dropped in shown.items():
        declared = [one.value for one in parts.all_values(Part(subject, "column", name)) if one.value != ABSENT]
        for text in find_faults_of_drop(dropped, drops.get(name, ()), declared, clock):
            yield _Strange(f"dropped column {name}", dropped, text=text)
        if _is_described(schema) and None in (dropped.get("type"), dropped.get("dropped_time")):
            yield _Strange(f"dropped column {name}", dropped, text="has no type or no time")
    # A statement that stands in place of a stale row lists no dropped columns.
    for name in drops.keys() - shown.keys() if _is_described(schema) and not table.described else ():
        values = parts.values(Part(subject, "column", name))
        if values and all(one.operation.f == "drop-column" and certainly_applied(one.operation) for one in values):
            yield _Strange(f"dropped column {name}", None, text="is not listed, although it was dropped")


def _is_described(schema: NodeSchema) -> bool:
    """Tell if the node describes its memory in statements: since 4.0, and there every drop of a column leaves an entry."""
    return any(live.statement for live in schema.live.values())


# ── the others ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _type(schema: NodeSchema, subject: SchemaObject, parts: PossibleParts, _clock: WallClock) -> _Strangers:
    fields = schema.types[subject.keyspace, subject.name]
    possible = {name: _present(parts, subject, name) for name, _ in fields}
    for name, cql_type in fields:
        if not any(is_field(cql_type, value.value["type"]) for value in possible[name]):
            yield _Strange(f"field {name}", cql_type, possible[name])
    names = [name for name, _ in fields]
    if len(set(names)) < len(names):
        yield _Strange("fields", names, text="have a name twice")
    for place, later in enumerate(names):
        for earlier in names[:place]:
            if must_precede(possible[later], possible[earlier]):
                yield _Strange("fields", names, text=f"have {earlier} before {later}, which was there first")


def _present(parts: PossibleParts, subject: SchemaObject, name: str) -> Sequence[PossibleValue]:
    return [value for value in parts.values(Part(subject, "field", name)) if value.value != ABSENT]


def _keyspace(schema: NodeSchema, subject: SchemaObject, parts: PossibleParts, _clock: WallClock) -> _Strangers:
    shown = schema.keyspaces[subject.keyspace]
    values = parts.values(Part(subject, "whole"))
    replication = shown.get("replication")
    if values and not any(is_replication(replication or {}, value.value["replication"]) for value in values):
        yield _Strange("replication", replication, values)
    if values and shown.get("durable_writes", True) is not True:
        yield _Strange("durable_writes", shown["durable_writes"], text="is off, which no operation asked for")


def _function(schema: NodeSchema, subject: SchemaObject, parts: PossibleParts, _clock: WallClock) -> _Strangers:
    shown = schema.functions[subject.keyspace, subject.name].definition
    yield from _whole(subject, parts, shown, is_function)


def _aggregate(schema: NodeSchema, subject: SchemaObject, parts: PossibleParts, _clock: WallClock) -> _Strangers:
    shown = schema.aggregates[subject.keyspace, subject.name].definition
    yield from _whole(subject, parts, shown, is_aggregate)


def _index(schema: NodeSchema, subject: SchemaObject, parts: PossibleParts, _clock: WallClock) -> _Strangers:
    for table in schema.tables.values():
        if table.keyspace == subject.keyspace and subject.name in table.indexes:
            shown = {"table": table.name, "target": table.indexes[subject.name].get("target")}
            new_names = {
                (operation.argument["column"], operation.argument["to"])
                for operation in parts.operations(SchemaObject("table", table.keyspace, table.name))
                if operation.f == "rename-column"
            }
            yield from _whole(subject, parts, shown, partial(is_index, new_names))
            yield from _kind_of_index(schema, subject, table.indexes[subject.name].get("kind"))


def _kind_of_index(schema: NodeSchema, subject: SchemaObject, kind: JSON) -> _Strangers:
    """Compare the kind of an index on disk with its statement in memory, which says CUSTOM of those that are."""
    live = schema.live.get(subject)
    statement = None if live is None or live.statement is None else parse_statement("index", live.statement)
    is_custom = statement is not None and statement.definition.get("custom", False)
    if statement is not None and kind is not None and (kind == "CUSTOM") != is_custom:
        yield _Strange(
            "kind", kind, text=f"is {kind}, and its statement {'says' if is_custom else 'does not say'} CUSTOM"
        )


def _view(schema: NodeSchema, subject: SchemaObject, parts: PossibleParts, _clock: WallClock) -> _Strangers:
    view = schema.views[subject.keyspace, subject.name]
    base = schema.tables.get((subject.keyspace, view.base_table_name or ""))
    changes = () if base is None else parts.operations(SchemaObject("table", base.keyspace, base.name))
    asked = {value.value["base"] for value in parts.values(Part(subject, "whole"))}
    if any(operation.f == "rename-column" for operation in changes) and (not asked or view.base_table_name in asked):
        return  # its key follows the names of its base
    key = {
        kind: [name for _, name in sorted((c.position, n) for n, c in view.columns.items() if c.kind == kind)]
        for kind in ("partition_key", "clustering")
    }
    shown = {
        "base": view.base_table_name,
        "primary_key": [*key["partition_key"], *key["clustering"]],
        "partition_key": key["partition_key"],
        "where": view.options.get("where_clause"),
    }
    yield from _whole(subject, parts, shown, _is_view)
    for kind, names in key.items():
        places = [view.columns[name].position for name in names]
        if _shows_places(schema) and places != list(range(len(names))):
            yield _Strange(f"{kind} columns", dict(zip(names, places, strict=True)), text=f"have the places {places}")
    if base is not None and view.options.get("where_clause") is not None:
        yield from _view_columns(view, base, shows_places=_shows_places(schema))


def _is_view(shown: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    if shown["base"] is not None and shown["base"] != wanted["base"]:
        return False
    if shown["partition_key"] and shown["primary_key"] != list(wanted["primary_key"]):
        return False
    if shown["partition_key"] != wanted["primary_key"][:1]:
        return False
    if shown["where"] is None:
        return True
    clauses = [re.fullmatch(r'"?(\w+)"? IS NOT NULL', clause.strip()) for clause in shown["where"].split(" AND ")]
    return sorted(clause[1] if clause else "" for clause in clauses) == sorted(wanted["primary_key"])


def _view_columns(view: Table, base: Table, *, shows_places: bool) -> _Strangers:
    # Memory shows no ids.
    by_memory = (base.id is None and base.described) or (view.base_table_id is None and view.described)
    if view.base_table_id != base.id and not by_memory:
        yield _Strange(
            "base", view.base_table_id, text=f"has the id {view.base_table_id}, and {base.name} has {base.id}"
        )
    for name, column in view.definition["columns"].items():
        is_key = column["kind"] in {"partition_key", "clustering"}
        has_place = shows_places and not is_key and column["position"] >= 0
        if not (is_key or column["kind"] == "regular") or has_place or column.get("order", "asc") != "asc":
            yield _Strange(f"column {name}", column)
    if view.options.get("include_all_columns", view.described) is not True:
        yield _Strange("include_all_columns", view.options.get("include_all_columns"), text="is not true")
    selected = {name: column for name, column in base.columns.items() if column.kind != "static"}
    for name in sorted(view.columns.keys() ^ selected.keys()):
        side = "the view" if name in view.columns else "its base"
        yield _Strange(
            f"column {name}", None, text=f"is only in {side}, although the view has every column of its base"
        )
    for name in sorted(view.columns.keys() & selected.keys()):
        if view.columns[name].type != selected[name].type:
            yield _Strange(f"column {name}", view.columns[name].type, text=f"is {selected[name].type} in its base")


def _whole(subject: SchemaObject, parts: PossibleParts, shown: Any, is_it: Callable[[Any, Any], bool]) -> _Strangers:
    values = parts.values(Part(subject, "whole"))
    if values and not any(is_it(shown, value.value) for value in values):
        yield _Strange("definition", shown, values)


def _words(schema: NodeSchema, subject: SchemaObject) -> _Strangers:
    """Yield what the statement in memory says beside its definition, and no operation asks for; or what it lacks of what each asks for."""
    live = schema.live.get(subject)
    if live is None or live.statement is None:
        return
    for words in find_missing_words(live.statement) if subject.kind == "function" else ():
        yield _Strange("statement in memory", live.statement, text=f"does not say {words}")
    for words in find_unasked_words(subject.kind, live.statement):
        yield _Strange("statement in memory", live.statement, text=f"says {words}, which no operation asked for")


_READERS: Final[Mapping[str, _Reader]] = {
    "keyspace": _keyspace,
    "table": _table,
    "view": _view,
    "type": _type,
    "function": _function,
    "aggregate": _aggregate,
    "index": _index,
}


# ── one name, two indexes ────────────────────────────────────────────────────────────────────────────────────────────


def _shared_names(case: Evidence) -> Findings:
    holders: dict[tuple[str, str], dict[str, dict[str, list[str]]]] = {}
    for schema in case.readings.schemas:
        tables: dict[tuple[str, str], list[str]] = {}
        for table in schema.tables.values():
            for index in table.indexes:
                tables.setdefault((table.keyspace, index), []).append(table.name)
        for key, names in tables.items():
            if len(names) > 1:
                holders.setdefault(key, {}).setdefault(schema.phase, {})[schema.node] = sorted(names)
    for keyspace, index in sorted(holders):
        subject = SchemaObject("index", keyspace, index)
        readings = holders[keyspace, index]
        creates = case.changes.creates(subject)
        tables_shown = sorted({name for nodes in readings.values() for names in nodes.values() for name in names})
        yield anomaly(
            "shared-index-name",
            objects=[subject.key],
            nodes=[node for nodes in readings.values() for node in nodes],
            ops=[operation.index for operation in creates],
            evidence={"tables": readings},
            explanation=Argument(
                creates,
                f"an index has one name in its keyspace, so {subject.key} must be on one table.",
                f"{where(readings, 'has', 'have')} it on {listing(tables_shown)}.",
            ),
        )


# ── the finding ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _anomaly(case: Evidence, subject: SchemaObject, found: _Found) -> Anomaly:
    strange = found.strange
    asked = list({value.operation.index: value.operation for value in strange.possible}.values())
    refused = [
        operation
        for operation in case.changes.all
        if operation.type == "fail" and operation.key == subject.key and operation.f != "cql"
    ]
    named = [*asked, *refused][-LIMITS.suspects :]
    possible = [value.value for value in strange.possible]
    must = (
        f"{strange.part} of {subject.kind} {subject.key} can only be {listing(map(_text, possible))}"
        if possible
        else f"no change that can have happened explains {strange.part} of {subject.kind} {subject.key}"
    )
    shown = strange.text or f"is {_text(strange.shown)}"
    return anomaly(
        "unexplained-definition",
        objects=[subject.key],
        nodes=[node for nodes in found.places.values() for node in nodes],
        ops=[operation.index for operation in named],
        evidence={"part": strange.part, "shown": strange.shown, "possible": possible, "readings": found.places},
        explanation=Argument(
            named,
            f"{must}." + (f" {len(refused)} changes of it were refused, and change nothing." if refused else ""),
            f"{where(found.places, 'shows', 'show')} that {strange.part} {shown}.",
        ),
    )


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
