"""Shown parts: what one reading of one object says of each part of it, and which changes can have made it so.

A reading is made of several queries, so its parts may be of different moments: each is judged by itself. Only parts whose
content the history determines are here; `schemaquake.checkers.schema.sightings` judges them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import Live
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.option_values import can_be
from schemaquake.checkers.evidence.schema_changes import SchemaObject
from schemaquake.checkers.evidence.statements import parse_statement
from schemaquake.checkers.schema.matching import (
    find_faults_of_drop,
    is_aggregate,
    is_column,
    is_field,
    is_function,
    is_index,
    is_replication,
    is_type,
    must_precede,
)
from schemaquake.checkers.schema.possible_parts import ABSENT, DEFAULT, Part, PossibleParts, PossibleValue
from schemaquake.checkers.schema.wall_clock import WallClock
from schemaquake.harness.model.operation import JSON

__all__ = ["ShownPart", "ShownParts"]

_KEY: Final = frozenset({"partition_key", "clustering"})
_BY_STRATEGY: Final = frozenset({"bloom_filter_fp_chance", "min_compaction_threshold", "max_compaction_threshold"})
"""Options whose default depends on the strategy of compaction."""
_CONDITION: Final = re.compile(r'"?(\w+)"? IS NOT NULL')


@dataclass(frozen=True, slots=True)
class ShownPart:
    """One part of an object as it was shown.

    `causes` are the values that changes begun by then can have given it, and `fitting` those of them that are the one
    shown. `fault` is a predicate of what no change can bring about; "": whether there is a fitting cause decides.
    `torn`: a reading in the middle of a change may lack it.
    """

    part: Part
    shown: JSON
    causes: Sequence[PossibleValue] = ()
    fitting: Sequence[PossibleValue] = ()
    fault: str = ""
    torn: bool = False
    ages: bool = True
    """False for what another node may have made of an older state: the columns of a view come from its coordinator's table."""

    @property
    def name(self) -> str:
        """The part as findings name it: `column c`."""
        return f"{self.part.aspect} {self.part.name}".rstrip()


_Shown: TypeAlias = Iterator[ShownPart]


class ShownParts:
    """The parts of objects that a run's readings show."""

    def __init__(self, case: Evidence, parts: PossibleParts) -> None:
        """Learn from the final readings how this system shows its schema."""
        self._parts = parts
        self._clock = WallClock(case)
        self._ids = _ids(case)
        schemas = case.readings.schemas
        columns = [
            column for schema in schemas for table in schema.tables.values() for column in table.columns.values()
        ]
        self._shows_places = any(column.position >= 0 for column in columns)
        self._shows_frozen = any("frozen<" in column.type for column in columns)
        self._shows_drops = any(live.statement for schema in schemas for live in schema.live.values())
        self._kinds = {
            index["kind"]
            for schema in schemas
            for (keyspace, _), table in schema.tables.items()
            for name, index in table.indexes.items()
            if index.get("kind") is not None  # a reading that is told from memory does not say it
            and not any(
                "using" in one.value for one in parts.all_values(Part(SchemaObject("index", keyspace, name), "whole"))
            )
        }
        self._fields = _final_fields(case)
        self._usual: dict[str, set[str]] = {}
        for schema in schemas:
            for key, table in schema.tables.items():
                subject = SchemaObject("table", *key)
                statement = parse_statement("table", (schema.live.get(subject) or Live("table")).statement or "")
                remembered = {} if statement is None else statement.definition["options"]
                for name, value in (*table.options.items(), *remembered.items()):
                    if all(one.value is DEFAULT for one in parts.values(Part(subject, "option", name))):
                        self._usual.setdefault(name, set()).add(_text(value))

    def of(self, subject: SchemaObject, definition: Mapping[str, Any], time: int, *, in_memory: bool) -> _Shown:
        """List the parts of one object that a reading shows which ended at a time (ns)."""
        readers: Mapping[str, Callable[[SchemaObject, Mapping[str, Any], int], _Shown]] = {
            "table": partial(self._table, in_memory=in_memory),
            "view": partial(self._view, in_memory=in_memory),
            "type": self._type,
            "keyspace": self._keyspace,
            "function": partial(self._whole, is_it=is_function),
            "aggregate": partial(self._whole, is_it=is_aggregate),
            "index": self._index,
        }
        return readers[subject.kind](subject, definition, time)

    def _judge(
        self, part: Part, shown: JSON, time: int, is_it: Callable[[Any], bool], *, torn: bool = False
    ) -> ShownPart:
        causes = self._parts.values_by(part, time)
        return ShownPart(part, shown, causes, [one for one in causes if is_it(one.value)], torn=torn)

    # ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _table(self, subject: SchemaObject, definition: Mapping[str, Any], time: int, *, in_memory: bool) -> _Shown:
        columns = definition.get("columns") or {}
        has_body = in_memory or bool(definition.get("options"))
        # The key of an old table is in its own row, and its other columns in rows of theirs, which are read later.
        torn = not in_memory and all(column.get("kind") in _KEY for column in columns.values())
        if not columns:
            torn = not in_memory and "columns" in definition
            yield ShownPart(Part(subject, "columns"), None, fault="are not there", torn=torn)
            yield from self._options(subject, definition.get("options") or {}, time)
            return
        for name in sorted({*columns, *(self._parts.names(subject, "column") if has_body else ())}):
            part = Part(subject, "column", name)
            if name in columns:
                yield self._judge(part, columns[name], time, partial(self._is_column, columns[name]))
            else:
                yield self._judge(part, ABSENT, time, _is_absent, torn=torn)
        yield from self._options(subject, definition.get("options") or {}, time)
        yield from _order(subject, definition)
        for index, shown in (definition.get("indexes") or {}).items():
            on = {"table": subject.name, "target": shown.get("target")}
            yield from self._index(SchemaObject("index", subject.keyspace, index), on, time, kind=shown.get("kind"))
        if not in_memory:
            yield from self._dropped(subject, definition.get("dropped_columns") or {}, time)

    def _is_column(self, shown: Mapping[str, Any], wanted: Any) -> bool:
        seen = {"type": "", "kind": "untold", **shown, "position": _place(shown)}
        return wanted != ABSENT and is_column(
            seen, wanted, shows_places=self._shows_places, shows_frozen=self._shows_frozen
        )

    def _options(self, subject: SchemaObject, options: Mapping[str, JSON], time: int) -> _Shown:
        for name in sorted(self._parts.names(subject, "option") & options.keys()):
            part = Part(subject, "option", name)
            yield self._judge(part, options[name], time, partial(self._is_option, name, options[name]))

    def _is_option(self, name: str, shown: JSON, wanted: JSON) -> bool:
        if wanted is not DEFAULT:
            return can_be(shown, wanted)
        if isinstance(shown, Mapping) or name in _BY_STRATEGY or name not in self._usual:
            return True
        return _text(shown) in self._usual[name]

    def _dropped(self, subject: SchemaObject, shown: Mapping[str, Any], time: int) -> _Shown:
        for name, dropped in shown.items():
            drops = [
                operation
                for operation in self._begun(subject, time)
                if operation.f == "drop-column" and operation.argument["column"] == name
            ]
            values = self._parts.values_by(Part(subject, "column", name), time)
            declared = [one.value for one in values if one.value != ABSENT]
            for text in find_faults_of_drop(dropped, drops, declared, self._clock):
                yield ShownPart(Part(subject, "dropped column", name), dropped, fault=text)
        for name in sorted(self._parts.names(subject, "column") - shown.keys()) if self._shows_drops else ():
            # Every drop leaves an entry since 4.0; without one, the column was not dropped in this life of the table.
            values = self._parts.values_by(Part(subject, "column", name), time)
            kept = [one for one in values if one.operation.f != "drop-column"]
            if len(kept) < len(values):
                yield ShownPart(Part(subject, "dropped column", name), ABSENT, values, kept)

    def _begun(self, subject: SchemaObject, time: int) -> Sequence[PairedOperation]:
        return [operation for operation in self._parts.operations(subject) if operation.invoked <= time]

    # ── the others ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _type(self, subject: SchemaObject, definition: Mapping[str, Any], time: int) -> _Shown:
        fields = [(name, cql_type) for name, cql_type in definition.get("fields") or ()]
        shown = dict(fields)
        for name in sorted({*shown, *self._parts.names(subject, "field")}):
            part = Part(subject, "field", name)
            if name in shown:
                yield self._judge(part, shown[name], time, partial(_is_field, shown[name]))
            else:
                yield self._judge(part, ABSENT, time, _is_absent)
        names = [name for name, _ in fields]
        if len(shown) < len(names):
            yield ShownPart(Part(subject, "fields"), names, fault="have a name twice")
        made = {
            name: [one for one in self._parts.values_by(Part(subject, "field", name), time) if one.value != ABSENT]
            for name in names
        }
        for place, later in enumerate(names):
            for earlier in names[:place]:
                if must_precede(made[later], made[earlier]):
                    text = f"have {earlier} before {later}, which was there first"
                    yield ShownPart(Part(subject, "fields"), names, fault=text)
                elif len(made[later]) == len(made[earlier]) == 1 and self._is_turned(subject, earlier, later):
                    text = (
                        f"have {earlier} before {later}, and fields do not move: it is the other way round in the end"
                    )
                    yield ShownPart(Part(subject, "fields"), names, fault=text)

    def _is_turned(self, subject: SchemaObject, earlier: str, later: str) -> bool:
        """Tell if all final readings of a type of one life have two fields in the other order."""
        places = [
            (names.index(earlier), names.index(later))
            for names in self._fields.get(subject, ())
            if {earlier, later} <= set(names)
        ]
        return bool(places) and all(first > second for first, second in places)

    def _keyspace(self, subject: SchemaObject, definition: Mapping[str, Any], time: int) -> _Shown:
        replication = definition.get("replication")
        if replication is not None:
            part = Part(subject, "whole")
            yield self._judge(
                part, replication, time, lambda wanted: is_replication(replication, wanted["replication"])
            )
        elif "durable_writes" in definition:
            yield ShownPart(Part(subject, "whole"), None, fault="is without a replication")
        if definition.get("durable_writes", True) is not True:
            part = Part(subject, "durable_writes")
            yield ShownPart(part, definition["durable_writes"], fault="is off, which no operation asked for")

    def _whole(
        self, subject: SchemaObject, definition: Mapping[str, Any], time: int, *, is_it: Callable[[Any, Any], bool]
    ) -> _Shown:
        yield self._judge(Part(subject, "whole"), definition, time, partial(is_it, definition))

    def _index(self, subject: SchemaObject, definition: Mapping[str, Any], time: int, *, kind: JSON = None) -> _Shown:
        table = SchemaObject("table", subject.keyspace, str(definition.get("table")))
        renames = [
            (operation.argument["column"], operation.argument["to"])
            for operation in self._begun(table, time)
            if operation.f == "rename-column"
        ]
        found = self._judge(Part(subject, "whole"), definition, time, partial(is_index, renames, definition))
        yield found
        named = any("using" in one.value for one in found.causes)
        if kind is not None and self._kinds and kind not in self._kinds and not named:
            yield ShownPart(Part(subject, "kind"), kind, fault="is one that no index has that was asked for alike")

    # ── views ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _view(self, subject: SchemaObject, definition: Mapping[str, Any], time: int, *, in_memory: bool) -> _Shown:
        creates = self._parts.values_by(Part(subject, "whole"), time)
        bases = {one.value["base"] for one in creates}
        followed = [SchemaObject("table", subject.keyspace, base) for base in sorted(bases)]
        base, columns = definition.get("base_table_name"), definition.get("columns") or {}
        options = definition.get("options") or {}
        if base is not None:
            yield self._piece(subject, "base", base, creates, lambda wanted: wanted["base"] == base)
        if any(operation.f == "rename-column" for one in followed for operation in self._begun(one, time)):
            return  # its key follows the names of its base
        if not columns:
            torn = not in_memory and "columns" in definition
            yield ShownPart(Part(subject, "columns"), None, fault="are not there", torn=torn)
            return
        key = _key(columns)
        yield self._piece(subject, "key", key, creates, lambda wanted: key == _wanted_key(wanted))
        where = options.get("where_clause")
        if where is not None:
            names = [found[1] if found else "" for found in map(_CONDITION.fullmatch, _clauses(where))]
            yield self._piece(subject, "where", where, creates, lambda w: sorted(names) == sorted(w["primary_key"]))
        yield from self._options(subject, options, time)
        yield from _order(subject, definition)
        shown = [one for one in followed if one.name == base] or followed
        if in_memory:
            yield from self._selection_of_view(subject, definition, shown, time)
        else:
            yield from self._marks_of_view(subject, definition, shown)
            yield from self._columns_of_view(subject, definition, shown, time)

    @staticmethod
    def _piece(
        subject: SchemaObject, name: str, shown: JSON, causes: Sequence[PossibleValue], is_it: Callable[[Any], bool]
    ) -> ShownPart:
        return ShownPart(Part(subject, name), shown, causes, [one for one in causes if is_it(one.value)])

    def _selection_of_view(
        self, subject: SchemaObject, definition: Mapping[str, Any], bases: Sequence[SchemaObject], time: int
    ) -> _Shown:
        """List the columns that the statement of a view names: each must be one that its base may have had by then."""
        if not all(self._parts.is_known(base) for base in bases):
            return
        for name in sorted(definition.get("selected") or ()):
            values = [one for base in bases for one in self._parts.values_by(Part(base, "column", name), time)]
            fitting = [one for one in values if one.value != ABSENT]
            yield ShownPart(Part(subject, "column", name), name, values, fitting, ages=False)

    def _marks_of_view(
        self, subject: SchemaObject, definition: Mapping[str, Any], bases: Sequence[SchemaObject]
    ) -> _Shown:
        """List what no view on disk has: a base that never was, a selection of columns, a column that is static or in descending order."""
        base_id = definition.get("base_table_id")
        known = {identity for base in bases for identity in self._ids.get(base, ())}
        if base_id is not None and known and base_id not in known:
            yield ShownPart(Part(subject, "base"), base_id, fault="is an id under which its base was never seen")
        if (definition.get("options") or {}).get("include_all_columns", True) is not True:
            yield ShownPart(Part(subject, "include_all_columns"), False, fault="is not true")
        for name, column in sorted(definition["columns"].items()):
            is_key = column.get("kind") in _KEY
            has_place = self._shows_places and not is_key and _place(column) >= 0
            odd = not (is_key or column.get("kind") == "regular") or has_place or column.get("order", "asc") != "asc"
            if odd:
                yield ShownPart(Part(subject, "column", name), column, fault="is as no view has it")

    def _columns_of_view(
        self, subject: SchemaObject, definition: Mapping[str, Any], bases: Sequence[SchemaObject], time: int
    ) -> _Shown:
        """List the columns that a view has on disk, and those of its base that it lacks."""
        columns: Mapping[str, Any] = definition["columns"]
        # A view that was created on several tables in turn has the columns of the one that it is shown on.
        shown_base = definition.get("base_table_name")
        own = [base for base in bases if base.name == shown_base] or bases
        for name in sorted({*columns, *(one for base in own for one in self._parts.names(base, "column"))}):
            of_bases = [self._parts.values_by(Part(base, "column", name), time) for base in own]
            values = [one for of_base in of_bases for one in of_base]
            if name not in columns and not all(of_bases):
                continue  # one of its possible bases never had that column
            if any(one.value != ABSENT and one.value["kind"] == "static" for one in values):
                continue  # a view has no static columns
            shown = columns.get(name, ABSENT)
            if shown == ABSENT and any(name not in self._parts.names(base, "column") for base in bases):
                continue  # it may be a view of a table that never had the column
            counts = self._shows_frozen and shown != ABSENT and shown.get("kind") not in _KEY
            fitting = [one for one in values if _is_column_of_view(shown, one.value, frozen_counts=counts)]
            # A reading may begin before the view is created anew on another table, and end after it.
            torn = len(own) < len(bases)
            torn |= shown == ABSENT and all(column.get("kind") in _KEY for column in columns.values())
            yield ShownPart(Part(subject, "column", name), shown, values, fitting, torn=torn, ages=False)


def _final_fields(case: Evidence) -> Mapping[SchemaObject, Sequence[Sequence[str]]]:
    """Return the names of fields in each final reading, by type: of types that were made once and whose fields nobody renamed."""
    found: dict[SchemaObject, list[Sequence[str]]] = {}
    for schema in case.readings.schemas:
        for key, fields in schema.types.items():
            subject = SchemaObject("type", *key)
            changes = case.changes
            is_one = (
                len(changes.creates(subject)) == 1
                and not changes.drops(subject)
                and not changes.texts(subject.keyspace)
            )
            if is_one and not any(change.f == "rename-field" for change in changes.on(subject)):
                found.setdefault(subject, []).append([name for name, _ in fields])
    return found


def _ids(case: Evidence) -> Mapping[SchemaObject, set[str]]:
    """Map each table to every id under which any node ever showed it."""
    ids: dict[SchemaObject, set[str]] = {}
    for sighting in case.sightings("table"):
        if sighting.id is not None:
            ids.setdefault(SchemaObject("table", sighting.keyspace, sighting.name), set()).add(sighting.id)
    return ids


def _order(subject: SchemaObject, definition: Mapping[str, Any]) -> _Shown:
    """List the order of clustering in a statement, if no operation asks for it, or it names other columns than the key has."""
    order = (definition.get("options") or {}).get("clustering_order") or {}
    columns = definition.get("columns") or {}
    clustering = {name for name, column in columns.items() if column.get("kind") == "clustering"}
    if any(direction != "asc" for direction in order.values()) or (order and order.keys() != clustering):
        yield ShownPart(Part(subject, "clustering order"), order, fault="is one that no operation asked for")


def _is_absent(wanted: Any) -> bool:
    return bool(wanted == ABSENT)


def _is_field(shown: str, wanted: Any) -> bool:
    return wanted != ABSENT and is_field(shown, wanted["type"])


def _is_column_of_view(shown: Any, wanted: Any, *, frozen_counts: bool) -> bool:
    if ABSENT in (shown, wanted):
        return bool(shown == wanted)
    return is_type(shown.get("type") or "", wanted["type"], frozen_counts=frozen_counts)


def _key(columns: Mapping[str, Any]) -> Sequence[Sequence[str]]:
    """Return the partition key and the clustering columns, each in its order."""
    return [
        [name for _, name in sorted((_place(c), name) for name, c in columns.items() if c.get("kind") == kind)]
        for kind in ("partition_key", "clustering")
    ]


def _place(column: Mapping[str, Any]) -> int:
    """Return a column's place in its key; -1: it has none, or none is known."""
    position = column.get("position")
    return -1 if position is None else int(position)


def _wanted_key(wanted: Mapping[str, Any]) -> Sequence[Sequence[str]]:
    names = list(wanted["primary_key"])
    return [names[:1], names[1:]]


def _clauses(where: str) -> Sequence[str]:
    return [clause.strip() for clause in where.split(" AND ")]


def _text(value: JSON) -> str:
    return json.dumps(value, sort_keys=True)  # whole numbers of a server may exceed 64 bits
