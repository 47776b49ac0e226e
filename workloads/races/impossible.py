"""Impossible parts of a race that is written down: rows and lookups that no outcome of its statements lets succeed.

A race may lack a statement on purpose, or have lost it while it was shrunk. Rows of a table that nothing creates then show nothing,
and a run without evidence must not pass for one without an anomaly. What some outcome lets succeed is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from schemaquake.harness.ddl.cql import plain_name
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.races.engine import Lookup, Race, RowProbe

__all__ = ["refuse_impossible", "without_vain_probes"]

_PART_OF: Final = re.compile(r"(?:keys|values|entries|full)\((.+)\)", re.IGNORECASE)
"""The part of a collection that an index is on."""


def _is_whole(value: JSON) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: JSON) -> bool:
    return _is_whole(value) or isinstance(value, float)


_FITS: Final[Mapping[str, Callable[[JSON], bool]]] = {
    **dict.fromkeys(("text", "varchar", "ascii"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("int", "bigint", "smallint", "tinyint", "varint"), _is_whole),
    **dict.fromkeys(("float", "double", "decimal"), _is_number),
    "boolean": lambda value: isinstance(value, bool),
}
"""The JSON values whose literals a type takes, of types for which that is certain; null fits everything."""


def refuse_impossible(race: Race) -> None:
    """Refuse rows and lookups that no outcome of the race lets succeed. Raises PlanError."""
    here = f"(race {race.number} of {race.workload})"
    for probe, lack in zip(race.tables, _lacks(race), strict=True):
        if lack is not None:
            raise PlanError(f"the rows of {race.keyspace}.{probe.table} {here} can never be written: {lack}")
    made = _made_by(race)
    for lookup in race.lookups:
        if (lack := _lookup_lack(made, lookup)) is not None:
            raise PlanError(f"the lookup in {race.keyspace}.{lookup.table} {here} can never succeed: {lack}")


def without_vain_probes(race: Race) -> Race:
    """Leave out the rows and lookups that no outcome of the race lets succeed, such as those of a table whose CREATE was left out."""
    made = _made_by(race)
    return replace(
        race,
        tables=tuple(probe for probe, lack in zip(race.tables, _lacks(race), strict=True) if lack is None),
        lookups=tuple(lookup for lookup in race.lookups if _lookup_lack(made, lookup) is None),
    )


@dataclass(slots=True)
class _Made:
    """The objects that a race's statements create or alter, by plain name, whichever of them succeed."""

    columns: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    """Table → column → its types."""
    keys: dict[str, list[set[str]]] = field(default_factory=dict)
    """The primary key of each definition into which rows can be inserted."""
    renamed: set[str] = field(default_factory=set)
    """Tables with a renamed column, whose key may have any of two names."""
    bases: dict[str, str] = field(default_factory=dict)
    """View → its base."""
    indexes: set[tuple[str, str, str]] = field(default_factory=set)
    """(index, table, column)."""

    def add(self, f: str, definition: Mapping[str, Any]) -> None:
        """Take one statement into account."""
        name = plain_name(str(definition.get("name", "")))
        match f:
            case "create-table":
                self._add_table(name, definition["columns"])
            case "add-column":
                column, cql_type = definition["column"]
                self._add_column(name, column, cql_type)
            case "rename-column":
                for cql_type in tuple(self._types(name, plain_name(str(definition["column"])))) or ("?",):
                    self._add_column(name, definition["to"], cql_type)
                self.renamed.add(name)
            case "create-view":
                self.bases[name] = plain_name(str(definition["base"]))
            case "create-index":
                column = str(definition["column"])
                part = _PART_OF.fullmatch(column)
                indexed = plain_name(column if part is None else part[1])
                self.indexes.add((name, plain_name(str(definition["table"])), indexed))

    def _add_table(self, name: str, columns: Any) -> None:
        key = {plain_name(str(column)) for column, _, kind in columns if kind in {"partition_key", "clustering"}}
        for column, cql_type, _ in columns:
            self._add_column(name, column, cql_type)
        if not any(cql_type == "counter" for _, cql_type, _ in columns):
            self.keys.setdefault(name, []).append(key)

    def _add_column(self, table: str, column: object, cql_type: object) -> None:
        types = self.columns.setdefault(table, {}).setdefault(plain_name(str(column)), set())
        types.add(str(cql_type).lower().strip())

    def _types(self, table: str, column: str) -> set[str]:
        return self.columns.get(table, {}).get(column, set())

    def takes(self, table: str, column: str, value: JSON) -> bool:
        """Return False if no definition of the column takes the value."""
        types = self._types(table, column)
        return value is None or any(cql_type not in _FITS or _FITS[cql_type](value) for cql_type in types)


def _steps_of(race: Race) -> Iterator[Invoke]:
    yield from race.setup
    for side in race.sides:
        yield from (step for step in side if isinstance(step, Invoke))


def _made_by(race: Race, *, setup_only: bool = False) -> _Made:
    made = _Made()
    for change in race.setup if setup_only else _steps_of(race):
        made.add(change.f, cast("Mapping[str, Any]", change.value))
    return made


def _lacks(race: Race) -> list[str | None]:
    """Return for each kind of row what the race lacks for it to be written, in words; None if it lacks nothing."""
    before, ever = _made_by(race, setup_only=True), _made_by(race)
    return [_lack(before if probe.phases == {"prepared"} else ever, probe, race) for probe in race.tables]


def _lack(made: _Made, probe: RowProbe, race: Race) -> str | None:
    name = plain_name(probe.table)
    name = made.bases.get(name, name)
    if name not in made.columns:
        by = "the setup" if probe.phases == {"prepared"} else "the race"
        return f"no statement of {by} creates that table"
    mine = {plain_name(column): column for column in probe.columns}
    lacking = sorted(mine.keys() - made.columns[name].keys())
    if lacking:
        return f"no statement of the race gives it a column {mine[lacking[0]]}"
    if name not in made.renamed and not any(key <= mine.keys() for key in made.keys.get(name, ())):
        return "they lack a column of its primary key, or it has counters"
    for column, value in probe.row:
        if not made.takes(name, plain_name(column), value):
            return f"its column {column} takes no value such as {value!r}"
    if probe.phases == {"racing"} and probe.side is not None and not 0 <= probe.side < len(race.sides):
        return f"it is side {probe.side} that writes them, and the race has {len(race.sides)}"
    return None


def _lookup_lack(made: _Made, lookup: Lookup) -> str | None:
    """Return what the race lacks for a lookup to succeed, in words; None if it lacks nothing."""
    table, column = plain_name(lookup.table), plain_name(lookup.column)
    if lookup.base is not None:
        if table not in made.bases:
            return "no statement of the race creates that view"
        table = plain_name(lookup.base)
    elif lookup.index is None:
        return "it names neither an index nor the base of a view"
    elif (plain_name(lookup.index), table, column) not in made.indexes:
        return f"no statement of the race creates an index {lookup.index} on its column {lookup.column}"
    if table not in made.columns:
        return f"no statement of the race creates the table {lookup.base or lookup.table}"
    for name in (lookup.column, lookup.key):
        if plain_name(name) not in made.columns[table]:
            return f"no statement of the race gives it a column {name}"
    return None
