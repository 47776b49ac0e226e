"""Paired operations as Python values, for checkers that reason about a few thousand schema changes at most.

Checkers of millions of reads and writes stay in Arrow, and make these values only of what they explain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.operation_lines import render_operation
from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.history.pairing import OPERATIONS, pair
from schemaquake.harness.model.operation import HARNESS_PROCESSES, JSON, NEMESIS
from schemaquake.harness.model.records import plain

__all__ = ["READ_LEVELS", "PairedOperation", "operations", "select_clients", "select_functions", "values_of"]

READ_LEVELS: Final = ("consistency", "additions")
"""What a read of a set or counter says: the consistency level that it asks, and that at which additions are made."""
_FIELDS: Final = tuple(name for name in OPERATIONS.names if name not in {"completion", "mops"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedOperation:
    """One operation, invocation and answer. `completed` null: it may take effect at any time after `invoked` (ns)."""

    index: int
    process: int
    type: Literal["ok", "fail", "info"]
    f: str
    node: str | None
    key: str | None
    invoked: int
    completed: int | None
    argument: JSON
    value: JSON
    error: str | None

    @property
    def possible(self) -> bool:
        """True unless the operation certainly did nothing."""
        return self.type != "fail"

    @property
    def acknowledged(self) -> bool:
        """True if the answer was ok and no no-op of IF [NOT] EXISTS."""
        return self.type == "ok" and not (isinstance(self.value, dict) and self.value.get("applied") is False)

    def entirely_before(self, other: PairedOperation) -> bool:
        """Tell if this one had certainly taken effect, or failed, before the other began.

        Intervals are closed: at the same nanosecond the clock cannot tell them apart, and they count as concurrent.
        """
        return self.ended_before(other.invoked)

    def ended_before(self, time: int) -> bool:
        """Tell if this one had certainly taken effect, or failed, before a time (ns)."""
        return self.type != "info" and self.completed is not None and self.completed < time

    def text(self, what: str | None = None, *, outcome: str | None = None) -> str:
        """Render the operation as a line of an explanation: `op 412: p3 n1 ALTER TABLE … -> ok at 8.214 s`.

        `what` stands in place of the statement, `outcome` in place of the type; an error follows it in any case.
        """
        when = "" if self.completed is None else f" at {self.completed / 1e9:.3f} s"
        return render_operation(
            self.index,
            self.process,
            self.node or "-",
            self._statement() if what is None else what,
            outcome or self.type,
            error=self.error,
            when=when,
        )

    def _statement(self) -> str:
        try:
            return statement(self.f, self.argument)
        except (KeyError, TypeError):
            return f"{self.f} {self.key or ''}".rstrip()


def operations(history: pa.Table) -> Sequence[PairedOperation]:
    """Pair every operation of the history (`schemaquake.harness.model.records.HISTORY`), ordered by invocation. Raises HistoryError."""
    return list(values_of(pair(history)))


def values_of(paired: pa.Table) -> Iterator[PairedOperation]:
    """Yield the operations of a table of `schemaquake.harness.history.pairing.OPERATIONS` as values."""
    columns = [paired[name].to_pylist() for name in _FIELDS]
    for index, process, kind, f, node, key, invoked, completed, argument, value, error in zip(*columns, strict=True):
        yield PairedOperation(
            index=index,
            process=process,
            type=kind,
            f=f,
            node=node,
            key=key,
            invoked=invoked,
            completed=completed,
            argument=None if argument is None else orjson.loads(argument),
            value=None if value is None else orjson.loads(value),
            error=error,
        )


def select_clients(events: pa.Table) -> pa.Table:
    """Return the events of clients: neither notes, nor requests by which the harness makes or heals faults."""
    process = events["process"]
    return events.filter(pc.and_(pc.not_equal(process, NEMESIS), pc.less(process, HARNESS_PROCESSES)))


def select_functions(history: pa.Table, functions: Collection[str]) -> pa.Table:
    """Return the events of a history whose `f` is among these."""
    names = plain(history.select(["f"]))["f"]
    return history.filter(pc.is_in(names, value_set=pa.array(sorted(functions))))
