"""Completions: the kind of an operation, and the completion of a query's rows. Needs no driver, so simulated clients share it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from schemaquake.clusters.systems.outcome import Kind
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import CONDITION_FALSE, JSON, Completion, MicroOp
from schemaquake.harness.model.queries import READS, Query
from schemaquake.harness.model.steps import Invoke

__all__ = ["completion_of", "kind_of", "of_condition", "reads_only"]

_ROW_READS: Final = frozenset({"read-rows", "know-table", "read-schema"})


def kind_of(operation: Invoke) -> Kind:
    """Return the kind of operation by which the tables of outcomes read an error."""
    if operation.f in _ROW_READS or reads_only(operation):
        return "read"
    if isinstance(operation.query, Query) and operation.query.serial_consistency is not None:
        return "conditional"
    if operation.f == "insert" and operation.value.get("form") == "conditional":
        return "conditional"
    return "schema" if operation.f in SCHEMA_CHANGES or operation.f == "cql" else "write"


def reads_only(operation: Invoke) -> bool:
    """Return True if the operation changes nothing: a failed one then certainly did not happen."""
    return operation.f in READS or (operation.mops is not None and all(mop[0] == "r" for mop in operation.mops))


def completion_of(operation: Invoke, rows: Sequence[Mapping[str, Any]]) -> Completion:
    """Build the completion of an operation from its rows. Raises ValueError if they have another shape."""
    assert isinstance(operation.query, Query)
    value = operation.value
    cells = list(rows[0].values()) if rows else []
    match operation.query.answer:
        case "nothing":
            return _ok(value, mops=operation.mops)
        case "applied":
            if not cells:
                raise ValueError("a conditional write was answered without a row")
            # An unread write of a transaction keeps its micro-operations; a refused one never happened.
            return (
                _ok(value, mops=operation.mops)
                if cells[0]
                else Completion(type="fail", value=value, error=CONDITION_FALSE)
            )
        case "cell":
            return _ok(cells[0] if cells else None)
        case "column":
            return _ok(sorted(next(iter(row.values())) for row in rows))
        case "collection":
            return _ok(sorted(cells[0] or ()) if cells else [])
        case "cell-and-writetime":
            held, written = cells or (None, None)
            return _ok({**value, "value": held, "writetime": written})
        case "lists" | "registers" as held_by_key:
            return _ok(value, mops=tuple(_filled(operation.mops or (), cells, lists=held_by_key == "lists")))


def of_condition(value: Mapping[str, JSON], rows: Sequence[Mapping[str, Any]]) -> Completion:
    """Build the completion of a conditional INSERT of one row. Raises ValueError if the answer has no row."""
    if not rows:
        raise ValueError("a conditional write was answered without a row")
    applied = next(iter(rows[0].values()))
    return _ok(value) if applied else Completion(type="fail", value=value, error=CONDITION_FALSE)


def _ok(value: JSON, *, mops: tuple[MicroOp, ...] | None = None) -> Completion:
    kind: Literal["ok"] = "ok"
    return Completion(type=kind, value=value, mops=mops)


def _filled(mops: Sequence[MicroOp], cells: Sequence[Any], *, lists: bool) -> Iterator[MicroOp]:
    """Yield the micro-operations with the values of their reads. An empty list is null in CQL."""
    left = iter(cells)
    for f, key, value, elements in mops:
        if f != "r":
            yield f, key, value, elements
        elif lists:
            yield f, key, None, list(next(left, None) or ())
        else:
            yield f, key, next(left, None), None
