"""Merged definitions: each table is one that a statement declared, and not several put together.

Judges the columns of each node's final reading against every possible CREATE TABLE of that name with the possible
ALTERs that can follow it. Two CREATEs of the same definition are not merged: each explains the table by itself.
Finds: `merged-definitions`.
Source: CEP-21, "Racing CREATE TABLE statements"; the Cassandra 1.1 document, the merge algorithm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from schemaquake.checkers.evidence.cql_types import canonical
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import Column, NodeSchema, Table
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, can_follow
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, where
from schemaquake.checkers.schema.judge import Findings, doubt_free_text, judge
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Verdict

__all__ = ["MergedDefinitions"]

_KEY_KINDS: Final = ("partition_key", "clustering")


class MergedDefinitions:
    """A table's columns come from one CREATE and the ALTERs after it, not from several CREATEs."""

    name = "merged-definitions"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = ("merged-definitions",)
    vouches: bool = True
    judges_early: bool = True
    conflicts: tuple[str, ...] = ("merged-definitions",)

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge the columns of every table. Unknown without final readings."""
        return judge(self.name, records, _find, limit_s=limit_s)


class _Signature(NamedTuple):
    """A column's type and kind, in one spelling. The position counts within the key's kind; elsewhere it is -1."""

    type: str
    kind: str
    position: int


@dataclass(frozen=True, slots=True)
class _Definition:
    """The columns that one possible CREATE TABLE declared."""

    create: PairedOperation
    columns: Mapping[str, _Signature]


def _find(case: Evidence) -> Findings:
    tables: dict[SchemaObject, list[tuple[NodeSchema, Table]]] = {}
    for schema in case.readings.schemas:
        for (keyspace, name), table in schema.tables.items():
            tables.setdefault(SchemaObject("table", keyspace, name), []).append((schema, table))
    for subject in sorted(tables):
        yield doubt_free_text(case, subject.keyspace, _judge_table(case, subject, tables[subject]))


def _judge_table(case: Evidence, subject: SchemaObject, readings: Sequence[tuple[NodeSchema, Table]]) -> Anomaly | None:
    definitions = [_definition(create) for create in case.changes.creates(subject)]
    if len({frozenset(definition.columns.items()) for definition in definitions}) < 2:
        return None
    alterations = [operation for operation in case.changes.on(subject) if "column" in operation.f]
    merged: dict[str, dict[str, Table]] = {}
    for schema, table in readings:
        if table.columns and _is_merged(table, definitions, alterations):
            merged.setdefault(schema.phase, {})[schema.node] = table
    return _anomaly(subject, merged, definitions) if merged else None


def _definition(create: PairedOperation) -> _Definition:
    positions = dict.fromkeys(_KEY_KINDS, 0)
    columns: dict[str, _Signature] = {}
    for name, cql_type, kind in create.argument["columns"]:
        columns[name] = _Signature(canonical(cql_type), kind, positions.get(kind, -1))
        if kind in positions:
            positions[kind] += 1
    return _Definition(create, columns)


def _is_merged(table: Table, definitions: Sequence[_Definition], alterations: Sequence[PairedOperation]) -> bool:
    if any(_explains(definition, table, definitions, alterations) for definition in definitions):
        return False
    # Not one CREATE's table. It is several CREATEs' only if every column is some CREATE's or a possible ALTER's, and no
    # single CREATE gave all those that no ALTER gave; other faults of the table are found by other checkers.
    added = set(_added(alterations))
    foreign = [name for name in table.columns if name not in added]
    givers = [
        {definition.create.index for definition in definitions if _gives(definition, name, column, definitions)}
        for name, column in table.columns.items()
        if name in foreign
    ]
    return bool(givers) and all(givers) and not set.intersection(*givers)


def _explains(
    definition: _Definition,
    table: Table,
    definitions: Sequence[_Definition],
    alterations: Sequence[PairedOperation],
) -> bool:
    """Tell if this CREATE with possible ALTERs after it leads to exactly these columns."""
    later = [operation for operation in alterations if can_follow(operation, definition.create)]
    added = set(_added(later))
    removed = set(_removed(later))
    return all(
        name in added or _gives(definition, name, column, definitions) for name, column in table.columns.items()
    ) and all(name in table.columns or name in removed for name in definition.columns)


def _gives(definition: _Definition, name: str, column: Column, definitions: Iterable[_Definition]) -> bool:
    """Tell if this column can be from this CREATE.

    Columns are compared by name; where CREATEs declare one name differently, by type and kind, too, unless the column is
    like none of them: a server may spell a type in its own way.
    """
    if name not in definition.columns:
        return False
    read = _Signature(canonical(column.type), column.kind, column.position if column.kind in _KEY_KINDS else -1)
    declared = {other.columns[name] for other in definitions if name in other.columns}
    return read not in declared or definition.columns[name] == read


def _added(alterations: Iterable[PairedOperation]) -> Iterable[str]:
    for operation in alterations:
        if operation.f == "add-column":
            yield operation.argument["column"][0]
        elif operation.f == "rename-column":
            yield operation.argument["to"]


def _removed(alterations: Iterable[PairedOperation]) -> Iterable[str]:
    return (operation.argument["column"] for operation in alterations if operation.f != "add-column")


def _anomaly(
    subject: SchemaObject, merged: Mapping[str, Mapping[str, Table]], definitions: Sequence[_Definition]
) -> Anomaly:
    shown = next(iter(next(iter(merged.values())).values()))
    origins = {
        name: [number for number, d in enumerate(definitions, 1) if _gives(d, name, column, definitions)]
        for name, column in shown.columns.items()
    }
    parts = listing(f"{name} ({_kind(column)}) from {_givers(origins[name])}" for name, column in shown.columns.items())
    evidence: dict[str, Any] = {
        "columns": {
            phase: {
                node: {n: [c.type, c.kind, c.position] for n, c in table.columns.items()}
                for node, table in nodes.items()
            }
            for phase, nodes in merged.items()
        },
        "declared_by": {
            name: [definitions[number - 1].create.index for number in numbers] for name, numbers in origins.items()
        },
    }
    return anomaly(
        "merged-definitions",
        objects=[subject.key],
        nodes=[node for nodes in merged.values() for node in nodes],
        ops=[definition.create.index for definition in definitions],
        evidence=evidence,
        explanation=Argument(
            [definition.create for definition in definitions],
            f"{subject.key} must be what one of them declared, with the ALTERs after it.",
            f"{where(merged, 'shows', 'show')} {parts}: no single CREATE, with any possible ALTERs, declares these columns.",
        ),
    )


def _kind(column: Column) -> str:
    return f"{column.kind} {column.position}" if column.kind in _KEY_KINDS else column.kind


def _givers(numbers: Sequence[int]) -> str:
    return " or ".join(f"T{number}" for number in numbers) if numbers else "an ALTER"
