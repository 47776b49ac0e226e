"""Runs of a few schema changes, as the tables that findings are grouped from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.history.pairing import OPERATIONS
from schemaquake.harness.model.records import HISTORY
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.model.verdict import Anomaly, Verdict
from schemaquake.results.findings.grouping import Grouped, group_anomalies
from schemaquake.results.tables.races import tabulate_races
from schemaquake.results.tables.statements import Statement, read_statements

__all__ = ["ContestedRun", "make_statements"]


def make_statements(*changes: Invoke) -> tuple[Statement, ...]:
    """Return changes that overlapped, each through a node of its own."""
    run = ContestedRun()
    for number, change in enumerate(changes, 1):
        run.ask(f"n{number}", change, at=1.0, until=2.0)
    return read_statements(run.operations())


@dataclass
class ContestedRun:
    """A run under construction: operations, and the notes of races and faults."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[tuple[float, str, str | None, Mapping[str, Any]]] = field(default_factory=list)
    types: dict[int, str] = field(default_factory=dict)
    """The type of a note by its place in `notes`, where it is not `info`."""

    def ask(self, node: str, change: Invoke, *, at: float, until: float | None, outcome: str = "ok") -> int:
        """Add an operation, and return its index."""
        index = 2 * len(self.rows)
        self.rows.append(
            dict.fromkeys(OPERATIONS.names)
            | {
                "index": index, "completion": index + 1, "process": int(node[1:]), "node": node, "type": outcome,
                "f": change.f, "key": change.key, "argument": orjson.dumps(change.value).decode(),
                "invoked": int(at * 1e9), "completed": None if until is None else int(until * 1e9),
            }
        )  # fmt: skip
        return index

    def race(
        self, keyspace: str, *sides: Sequence[Invoke], at: float = 1.0, outcome: str = "ok", **note: Any
    ) -> list[int]:
        """Add a race whose sides meet, one node each, and return the indices of its statements."""
        texts = [[statement(change.f, change.value) for change in side] for side in sides]
        self.notes.append((at, "race", keyspace, {"workload": "w", "mode": "barrier", "sides": texts, **note}))
        return [
            self.ask(f"n{number}", change, at=at, until=at + 1, outcome=outcome)
            for number, side in enumerate(sides, 1)
            for change in side
        ]

    def fault(self, nemesis: str, begins: float, ends: float) -> None:
        """Add a fault."""
        name = len(self.notes)
        self.notes.append((begins, "fault-begins", None, {"id": name, "nemesis": nemesis, "nodes": ["n1"]}))
        self.notes.append((ends, "fault-ends", None, {"id": name}))

    def upgrade(
        self, node: str, begins: float, ends: float, *, stage: str = "node", outcome: str = "ok", **promises: str
    ) -> None:
        """Add an operation by which a node of 5.0.9 becomes 6.0-alpha2; what is promised meanwhile is that of 6.0 unless told."""
        to = "cassandra:6.0-alpha2"
        told = {"schema_changes": {"old": "unsupported", "new": "refused"}, "until": "last-steps", **promises}
        value = {"operation": len(self.notes), "nodes": [node], "parameters": {"stage": stage, "to": to}}
        system = to if outcome == "ok" else "cassandra:5.0.9"
        self.notes.append((begins, "rolling-upgrade", None, value))
        self.notes.append((ends, "rolling-upgrade", None, {**value, "effect": {"system": system, "promises": told}}))
        self.types |= {len(self.notes) - 2: "invoke", len(self.notes) - 1: outcome}

    def history(self) -> pa.Table:
        """Return the notes."""
        rows = [
            dict.fromkeys(HISTORY.names)
            | {
                "index": n, "time": int(at * 1e9), "process": -1, "type": self.types.get(place, "info"), "f": f,
                "key": key, "value": orjson.dumps(value).decode(),
            }
            for n, (place, (at, f, key, value)) in enumerate(sorted(enumerate(self.notes), key=lambda note: note[1][0]))
        ]  # fmt: skip
        return pa.Table.from_pylist(rows, schema=HISTORY)

    def operations(self) -> pa.Table:
        """Return the operations."""
        return pa.Table.from_pylist(self.rows, schema=OPERATIONS)

    def group(self, *anomalies: Anomaly, system: str = "cassandra:5.0.9", parts: Sequence[Verdict] = ()) -> Grouped:
        """Group anomalies of this run."""
        verdict = Verdict(valid=False, checker="all", anomalies=anomalies, parts=tuple(parts))
        return group_anomalies(
            verdict,
            system=system,
            history=self.history(),
            operations=self.operations(),
            races=tabulate_races(self.history(), self.operations(), anomalies),
        )
