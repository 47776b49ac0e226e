"""Statements: operations as the statements that a coordinator was given, with their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.records import plain

__all__ = ["Statement", "as_cql", "belongs", "read_changes", "read_statements"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """An operation as a CQL statement, with its outcome as the client saw it. Times in ns; `completed` is None if no answer arrived."""

    index: int
    node: str
    process: int
    f: str
    key: str | None
    text: str
    type: Literal["ok", "fail", "info"]
    error: str | None
    invoked: int
    completed: int | None
    definition: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The operation's argument; empty if it is no object."""

    @property
    def ends(self) -> float:
        """The time from which the statement can have no further effect; infinite for an unknown outcome."""
        return float("inf") if self.completed is None or self.type == "info" else self.completed

    def outcome(self) -> str:
        """Describe the outcome for a comment behind the statement: `ok at 8.214 s`."""
        when = "no answer" if self.completed is None else f"at {self.completed / 1e9:.3f} s"
        return f"{self.type}, {when}" if self.completed is None else f"{self.type} {when}"

    def overlaps(self, other: Statement) -> bool:
        """Return True unless one statement completed before the other was invoked. Intervals are closed."""
        return self.ends >= other.invoked and other.ends >= self.invoked


def read_statements(operations: pa.Table, *, keyspaces: Iterable[str] | None = None) -> tuple[Statement, ...]:
    """Convert operations (`schemaquake.harness.history.pairing.OPERATIONS`) to statements, ordered by invocation; only those of `keyspaces`, if given.

    An operation without a CQL form is given by its name and key.
    """
    table = plain(operations)
    if keyspaces is not None:
        table = table.filter(belongs(table, keyspaces))
    return tuple(_statement(row) for row in table.to_pylist())


def belongs(operations: pa.Table, keyspaces: Iterable[str]) -> pa.ChunkedArray:
    """Return one boolean per operation: True if its key is one of these keyspaces or an object in one."""
    keys = pc.fill_null(operations.column("key"), "")
    owners = pc.list_element(pc.split_pattern(keys, ".", max_splits=1), 0)
    return pc.is_in(owners, value_set=pa.array(sorted(keyspaces), pa.string()))


def read_changes(operations: pa.Table) -> tuple[Statement, ...]:
    """Select the schema changes of a run, in free text too, ordered by invocation."""
    wanted = pc.is_in(plain(operations.select(["f"]))["f"], value_set=pa.array(sorted(SCHEMA_CHANGES | {"cql"})))
    return read_statements(operations.filter(wanted))


def as_cql(f: str, argument: object) -> str | None:
    """Return the CQL of an operation. None if the dialect cannot express it: one of an external workload or history, say."""
    try:
        return statement(f, argument)  # type: ignore[arg-type]  # whatever a history has
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return None


def _statement(row: Mapping[str, Any]) -> Statement:
    argument: Any = None if row["argument"] is None else orjson.loads(row["argument"])
    text = as_cql(row["f"], argument)
    if text is None:
        text = f"{row['f']} {row['key'] or ''}".rstrip()
    return Statement(
        index=row["index"],
        node=row["node"] or "-",
        process=row["process"],
        f=row["f"],
        key=row["key"],
        text=text,
        type=row["type"],
        error=row["error"],
        invoked=row["invoked"],
        completed=row["completed"],
        definition=argument if isinstance(argument, Mapping) else {},
    )
