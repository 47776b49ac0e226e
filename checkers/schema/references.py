"""References: every object that a definition refers to exists on the same node.

Judges each node's final schema reading by itself: types of columns, fields, functions and aggregates; functions of
aggregates; base tables of views; targets of indexes; the two halves of a table, and its primary key.
Finds: `dangling-type`, `dangling-function`, `orphan-view`, `dangling-index-target`, `headless-table`,
`bad-primary-key`.
Source: CEP-21, "Racing DROP X validations"; the ScyllaDB talk; CASSANDRA-13180, CASSANDRA-14379.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from schemaquake.checkers.evidence.cql_types import user_types
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import FinalReadings, NodeSchema, Table
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, target
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, names, where
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.schema.judge import Findings, judge
from schemaquake.harness.ddl.schema_changes import ALTERS
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Verdict

__all__ = ["References"]

_TARGET: Final = re.compile(r"(?:values|keys|entries|full|keys_and_values)\((?P<column>.*)\)", re.IGNORECASE)


class References:
    """Definitions in a node's schema refer only to objects of that schema."""

    name = "references"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = (
        "dangling-type",
        "dangling-function",
        "orphan-view",
        "dangling-index-target",
        "headless-table",
        "bad-primary-key",
    )
    vouches: bool = True
    judges_early: bool = True
    conflicts: tuple[str, ...] = finds

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every definition of every node. Unknown without final readings."""
        return judge(self.name, records, _find, limit_s=limit_s)


@dataclass(frozen=True, slots=True)
class _Flaw:
    """One definition with a broken reference; equal on all nodes that show it.

    `clue` is a word that the ALTERs at fault contain; `must` is the rule, `text` the reading that breaks it.
    """

    type: str
    subject: SchemaObject
    missing: SchemaObject | None
    clue: str
    must: str
    text: str


def _find(case: Evidence) -> Findings:
    keys_are_described = _describes_keys(case)
    found: dict[_Flaw, dict[str, dict[str, Any]]] = {}
    for schema in case.readings.schemas:
        for flaw, evidence in _flaws(schema, keys_are_described=keys_are_described):
            found.setdefault(flaw, {}).setdefault(schema.phase, {})[schema.node] = evidence
    for flaw in sorted(found, key=lambda f: (f.type, f.subject, f.text)):
        yield _anomaly(case, flaw, found[flaw])
    yield from [None] * _sound(case.readings, found)


def _describes_keys(case: Evidence) -> bool:
    """Tell if this system's schema tables describe primary keys at all: those of the Thrift days do not.

    A system that can describe what it has in memory (4.0 and later) does.
    """
    if any(schema.remembers for schema in case.readings.schemas):
        return True
    return any(
        column.get("kind") == "partition_key"
        for sighting in case.sightings("table")
        for column in ((sighting.definition or {}).get("columns") or {}).values()
    )


def _sound(readings: FinalReadings, found: Mapping[_Flaw, object]) -> int:
    subjects = {SchemaObject(*found) for schema in readings.schemas for found in schema.objects()}
    return len(subjects - {flaw.subject for flaw in found})


def _flaws(schema: NodeSchema, *, keys_are_described: bool) -> Iterator[tuple[_Flaw, Any]]:
    yield from _dangling_types(schema)
    yield from _dangling_functions(schema)
    for table in schema.views.values():
        yield from _orphan(schema, table)
    for kind, tables in (("table", schema.tables), ("view", schema.views)):
        for table in tables.values():
            subject = SchemaObject(kind, table.keyspace, table.name)
            yield from _dangling_targets(table)
            if table.headless:
                yield from _headless(subject, table, keys_are_described=keys_are_described)
            elif table.columns:
                yield from _bad_key(subject, table, keys_are_described=keys_are_described)


# ── types and functions ──────────────────────────────────────────────────────────────────────────────────────────────


def _dangling_types(schema: NodeSchema) -> Iterator[tuple[_Flaw, Any]]:
    for subject, part, text in _typed(schema):
        for keyspace, name in sorted(user_types(text, keyspace=subject.keyspace)):
            # This part of the run may have no readings of another keyspace.
            if keyspace == subject.keyspace and (keyspace, name) not in schema.types:
                missing = SchemaObject("type", keyspace, name)
                shown = f"{part} of {subject.key} has type {text}, and there is no type {missing.key}"
                must = f"a type that {subject.key} uses must exist"
                yield _Flaw("dangling-type", subject, missing, name, must, shown), {"part": part, "type": text}


def _typed(schema: NodeSchema) -> Iterator[tuple[SchemaObject, str, str]]:
    """Yield (object, part, type's text) for every part of an object on this node that has a type."""
    for kind, tables in (("table", schema.tables), ("view", schema.views)):
        for (keyspace, name), table in tables.items():
            for name_of_column, column in table.columns.items():
                yield SchemaObject(kind, keyspace, name), f"column {name_of_column}", column.type
    for (keyspace, name), fields in schema.types.items():
        for field, cql_type in fields:
            yield SchemaObject("type", keyspace, name), f"field {field}", cql_type
    yield from _typed_functions(schema)


def _typed_functions(schema: NodeSchema) -> Iterator[tuple[SchemaObject, str, str]]:
    for (keyspace, name), function in schema.functions.items():
        for argument, cql_type in function.arguments:
            yield SchemaObject("function", keyspace, name), f"argument {argument}", cql_type
        yield SchemaObject("function", keyspace, name), "the result", function.returns
    for (keyspace, name), aggregate in schema.aggregates.items():
        for number, cql_type in enumerate(aggregate.arguments, 1):
            yield SchemaObject("aggregate", keyspace, name), f"argument {number}", cql_type
        if aggregate.state_type is not None:
            yield SchemaObject("aggregate", keyspace, name), "the state", aggregate.state_type


def _dangling_functions(schema: NodeSchema) -> Iterator[tuple[_Flaw, Any]]:
    for (keyspace, name), aggregate in schema.aggregates.items():
        subject = SchemaObject("aggregate", keyspace, name)
        for part, function in (("state", aggregate.state_function), ("final", aggregate.final_function)):
            if function is None:
                continue
            owner, _, bare = function.rpartition(".")
            bare = bare.split("(", 1)[0].strip('"')
            if owner in {"", keyspace} and (keyspace, bare) not in schema.functions:
                missing = SchemaObject("function", keyspace, bare)
                shown = (
                    f"the {part} function of aggregate {subject.key} is {bare}, and there is no function {missing.key}"
                )
                must = f"a function that {subject.key} uses must exist"
                yield (
                    _Flaw("dangling-function", subject, missing, bare, must, shown),
                    {"part": part, "function": function},
                )


# ── tables, views and indexes ────────────────────────────────────────────────────────────────────────────────────────


def _orphan(schema: NodeSchema, view: Table) -> Iterator[tuple[_Flaw, Any]]:
    if view.base_table_id is None:
        return
    ids = {table.id for table in schema.tables.values()}
    named = schema.tables.get((view.keyspace, view.base_table_name or ""))
    if named is not None and named.id is None and named.described:
        return  # the table is judged by what memory shows of it, which has no id
    if view.base_table_id not in ids:
        subject = SchemaObject("view", view.keyspace, view.name)
        base = None if view.base_table_name is None else SchemaObject("table", view.keyspace, view.base_table_name)
        evidence = {
            "base_table_id": view.base_table_id,
            "base_table_name": view.base_table_name,
            "table_ids": sorted(table_id for table_id in ids if table_id is not None),
        }
        text = f"the base of {subject.key} is table {view.base_table_name or '?'} with id {view.base_table_id}, and no table has that id"
        yield _Flaw("orphan-view", subject, base, "", "the base table of a view must exist", text), evidence


def _dangling_targets(table: Table) -> Iterator[tuple[_Flaw, Any]]:
    key = f"{table.keyspace}.{table.name}"
    for index, definition in table.indexes.items():
        written = definition.get("target")
        subject = SchemaObject("index", table.keyspace, index)
        owner = SchemaObject("table", table.keyspace, table.name)
        must = "the table and the column that an index is on must exist"
        if table.residue:
            text = f"index {index} is on {key}, and there is no table {key}"
            yield _Flaw("dangling-index-target", subject, owner, "", must, text), {"target": written}
        elif isinstance(written, str) and table.columns:
            for column in _columns_of(written):
                if column not in table.columns:
                    text = f"index {index} is on column {column} of {key}, and there is no such column"
                    evidence = {"target": written, "columns": sorted(table.columns)}
                    yield _Flaw("dangling-index-target", subject, owner, column, must, text), evidence


def _columns_of(written: str) -> Sequence[str]:
    """Parse the columns that an index target names: `c`, `"C"`, `values(c)`, and ScyllaDB's `{"pk": ["a"], "ck": ["c"]}`."""
    if written.startswith("{"):
        parts = orjson.loads(written)
        return [column for columns in parts.values() for column in columns]
    wrapped = _TARGET.fullmatch(written)
    column = wrapped["column"] if wrapped else written
    return [column[1:-1].replace('""', '"') if column.startswith('"') else column]


def _headless(subject: SchemaObject, table: Table, *, keys_are_described: bool) -> Iterator[tuple[_Flaw, Any]]:
    # Where schema tables describe no primary keys, a table without columns is an ordinary one.
    if not keys_are_described:
        return
    must = f"{subject.key} must have both its row of options and its columns, or neither"
    if table.columns:
        text = f"there are columns {listing(sorted(table.columns))} of {subject.key} and no row of the table itself"
    else:
        text = f"there is the row of {subject.key} and none of its columns"
    yield _Flaw("headless-table", subject, None, "", must, text), {"id": table.id, "columns": sorted(table.columns)}


def _bad_key(subject: SchemaObject, table: Table, *, keys_are_described: bool) -> Iterator[tuple[_Flaw, Any]]:
    for kind in ("partition_key", "clustering"):
        members = {name: column.position for name, column in table.columns.items() if column.kind == kind}
        ordered = sorted(members.items(), key=lambda member: (member[1], member[0]))
        label = kind.replace("_", "-")
        if kind == "partition_key" and not members:
            if not keys_are_described:
                continue
            text = f"{subject.key} has columns {listing(sorted(table.columns))} and no partition key"
        elif sorted(members.values()) == list(range(len(members))) or min(members.values()) < 0:
            continue  # below 0: this system does not show positions
        else:
            places = listing(f"{name} at position {position}" for name, position in ordered)
            text = f"the {label} columns of {subject.key} are {places}"
        must = f"the {label} columns of {subject.key} must have the positions 0, 1, 2 …, each once"
        columns = {name: [column.kind, column.position] for name, column in table.columns.items()}
        yield _Flaw("bad-primary-key", subject, None, "", must, text), {"columns": columns}


# ── the finding ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _anomaly(case: Evidence, flaw: _Flaw, readings: Mapping[str, Mapping[str, Any]]) -> Anomaly:
    suspects = _suspects(case, flaw)
    return anomaly(
        flaw.type,
        objects=[flaw.subject.key],
        nodes=[node for nodes in readings.values() for node in nodes],
        ops=[operation.index for operation in suspects],
        evidence={"readings": readings, "missing": None if flaw.missing is None else flaw.missing.key},
        explanation=Argument(
            suspects,
            f"{_order(suspects)}{flaw.must}.",
            f"{where(readings, 'shows', 'show')} that {flaw.text}.",
        ),
    )


def _suspects(case: Evidence, flaw: _Flaw) -> Sequence[PairedOperation]:
    """Return the last possible changes of the object and of the missing one."""
    subjects = {flaw.subject.key} | ({flaw.missing.key} if flaw.missing else set())
    concerned = [operation for operation in case.changes.possible if target(operation).key in subjects]
    return [operation for operation in concerned if _bears_on(operation, flaw)][-LIMITS.suspects :]


def _bears_on(operation: PairedOperation, flaw: _Flaw) -> bool:
    return operation.f not in ALTERS or flaw.clue in orjson.dumps(operation.argument).decode()


def _order(suspects: Sequence[PairedOperation]) -> str:
    """Render the beginning of a sentence: in any order, an operation that breaks the rule would have been refused."""
    return f"whatever the order of {names(len(suspects))}, " if len(suspects) > 1 else ""
