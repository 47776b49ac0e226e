"""One copy: a database that is one dictionary, behind the data workloads; whatever it answers is strictly serializable.

Operations of all workers follow one another; some are refused, and some end in `info`, carried out or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any, cast

import orjson
import pyarrow as pa

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import MicroOp
from schemaquake.harness.model.protocols import Context, Phase, Worker, Workload
from schemaquake.harness.model.records import HISTORY
from schemaquake.harness.model.steps import Invoke, Require, Step
from schemaquake.harness.registry import load

CONTEXT = Context(
    seed=1,
    nodes=("n1", "n2", "n3"),
    features=frozenset(
        {"keyspaces", "tables", "cql", "collections", "counters", "batches", "conditional-writes", "views", "accord"}
    ),
    crew=3,
    time_limit_s=5,
)


class OneCopy:
    """Carries out the phases of some workloads, side by side, and remembers the history."""

    def __init__(self, names: Sequence[str], *, seed: int, trouble: float) -> None:
        self._workloads = [cast("Workload", load("workloads", name)) for name in names]
        self._random = Random(seed)
        self._trouble = trouble
        self._cells: dict[str, Any] = {}
        self._rows: list[dict[str, Any]] = []
        self._processes = iter(range(1, 1_000_000))
        self._process: dict[tuple[int, int], int] = {}
        self._time_ms = 0

    def history(self, steps_each: int = 60) -> pa.Table:
        """A whole run: setup, some of the endless main phase, both final phases."""
        phases: list[tuple[Phase, str, int | None]] = [
            ("setup", "", None),
            ("main", "", steps_each),
            ("final", "settled", None),
            ("final", "restarted", None),
        ]
        for phase, label, most in phases:
            name = f"{phase}-{label}" if label else phase
            self._event(-1, "info", "phase", None, None, {"phase": name, "state": "begins"})
            self._carry_out(phase, label, most)
            self._time_ms += 60_000
        rows = [{**row, "index": index} for index, row in enumerate(self._rows)]
        return pa.Table.from_pylist(rows, schema=HISTORY)

    def _carry_out(self, phase: Phase, label: str, most: int | None) -> None:
        walks: list[tuple[tuple[int, int], Worker, Iterator[Step]]] = [
            ((number, worker.index), worker, islice(workload.steps(phase, worker, CONTEXT, phase_label=label), most))
            for number, workload in enumerate(self._workloads)
            for worker in workload.crew(CONTEXT)
        ]
        while walks:
            chosen = self._random.choice(walks)
            who, worker, steps = chosen
            step = next(steps, None)
            if step is None:
                walks.remove(chosen)
            elif isinstance(step, Invoke | Require):
                asked = step.invoke if isinstance(step, Require) else step
                self._ask(who, worker.node, asked, certain=phase != "main")
            self._time_ms += 1

    def _ask(self, who: tuple[int, int], node: str, asked: Invoke, *, certain: bool) -> None:
        process = self._process.setdefault(who, next(self._processes))
        self._event(process, "invoke", asked.f, node, asked.key, asked.value, asked.mops)
        self._time_ms += 1
        luck = 1.0 if certain else self._random.random()
        if luck < self._trouble:
            self._event(process, "fail", asked.f, node, asked.key, None, None, "Unavailable: …")
            return
        kind, value, mops = "ok", asked.value, asked.mops
        if luck >= 2 * self._trouble or self._random.random() < 0.5:
            kind, value, mops = self._answer(asked)
        self._time_ms += 1
        if luck < 2 * self._trouble:
            self._event(process, "info", asked.f, node, asked.key, None, None, "OperationTimedOut: …")
            self._process[who] = next(self._processes)
        else:
            self._event(process, kind, asked.f, node, asked.key, value, mops)

    def _answer(self, asked: Invoke) -> tuple[str, Any, tuple[MicroOp, ...] | None]:
        key, value = asked.key or "", asked.value
        match asked.f:
            case "cas" if self._cells.get(key) != value[0]:
                return "fail", value, None
            case "read" if "/" in key:
                return "ok", self._cells.get(key), None
            case "read" | "read-batches":
                held = self._cells.get(key, None if key.endswith("counter.c") else [])
                return "ok", sorted(held) if isinstance(held, list) else held, None
            case "get" | "probe":
                held, written = self._cells.get(key, (None, None))
                return "ok", {**value, "value": held, "writetime": written}, None
            case "txn":
                return "ok", value, tuple(self._micro_operation(key, mop) for mop in asked.mops or ())
        if asked.f not in SCHEMA_CHANGES:
            self._write(asked.f, key, value)
        return "ok", value, None

    def _write(self, f: str, key: str, value: Any) -> None:
        match f:
            case "write":
                self._cells[key] = value
            case "cas":
                self._cells[key] = value[1]
            case "add" if key.endswith(".c"):
                self._cells[key] = self._cells.get(key, 0) + value
            case "add":
                self._cells.setdefault(key, []).append(value)
            case "batch":
                for table in value["tables"]:
                    self._cells.setdefault(f"{key}.{table}", []).append(value["id"])
            case "put":
                self._cells[key] = (value["value"], 1_700_000_000_000_000 + self._time_ms * 1000)

    def _micro_operation(self, table: str, mop: MicroOp) -> MicroOp:
        f, key, value, _ = mop
        cell = f"{table}/{key}"
        match f:
            case "append":
                self._cells.setdefault(cell, []).append(value)
            case "w":
                self._cells[cell] = value
            case "r" if table.endswith(".a"):
                return f, key, None, list(self._cells.get(cell, []))
            case "r":
                return f, key, self._cells.get(cell), None
        return mop

    def _event(
        self,
        process: int,
        kind: str,
        f: str,
        node: str | None,
        key: str | None,
        value: Any,
        mops: tuple[MicroOp, ...] | None = None,
        error: str | None = None,
    ) -> None:
        self._rows.append(
            {
                "time": self._time_ms * 1_000_000,
                "process": process,
                "type": kind,
                "f": f,
                "node": node,
                "key": key,
                "value": None if value is None else orjson.dumps(value).decode(),
                "error": error,
                "mops": None if mops is None else [dict(zip(("f", "k", "v", "vs"), mop, strict=True)) for mop in mops],
            }
        )
