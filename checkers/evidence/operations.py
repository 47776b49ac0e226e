"""Paired operations as Python values, for checkers that reason about a few thousand schema changes at most.

Checkers of millions of reads and writes stay in Arrow, and make these values only of what they explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import orjson
import pyarrow as pa

from schemaquake.checkers.evidence.operation_lines import render_operation
from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.history.pairing import pair
from schemaquake.harness.model.operation import JSON

__all__ = ["PairedOperation", "operations"]


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
        return self.type != "info" and self.completed is not None and self.completed < other.invoked

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
    return [
        PairedOperation(
            index=row["index"],
            process=row["process"],
            type=row["type"],
            f=row["f"],
            node=row["node"],
            key=row["key"],
            invoked=row["invoked"],
            completed=row["completed"],
            argument=None if row["argument"] is None else orjson.loads(row["argument"]),
            value=None if row["value"] is None else orjson.loads(row["value"]),
            error=row["error"],
        )
        for row in pair(history).to_pylist()
    ]
