"""A whole run of a workload on a perfect cluster: what it asked, what it was answered, and what every node told.

Every statement takes effect in the moment it is asked for, on every node; rows go in where the table and all the columns
they name are there, and out of whatever takes them away. Nothing a workload does to such a cluster may break it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson
import pyarrow as pa
from crew_at_work import Done, carry_out
from perfect_cluster import NODES, PerfectCluster
from told_by_eras import told

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.protocols import Context, Phase, Workload
from schemaquake.harness.model.records import HISTORY, LOGS, OBSERVATIONS, Records
from schemaquake.harness.model.steps import Invoke, Note

__all__ = ["perfect_run"]

_S = 1_000_000_000
_PHASES: tuple[tuple[Phase, str], ...] = (("setup", ""), ("prepare", ""), ("main", ""))
_JUDGING: tuple[Phase, ...] = ("probe", "final")


def perfect_run(workload: Workload, context: Context, *, line: str) -> Records:
    """The records of all phases, with the observations in the words of that line (`told_by_eras.LINES`)."""
    run = _Run(line)
    run.boot("boot")
    for phase, label in _PHASES:
        with run.phase_of(phase):
            run.phase(carry_out(workload, phase, context, label=label))
    for label in ("settled", "restarted"):
        if label == "restarted":
            run.boot("restart")
        run.settle(label)
        with run.phase_of(f"final-{label}"):
            run.read(label)
            for phase in _JUDGING:
                run.phase(carry_out(workload, phase, context, label=label))
    return run.records()


def _fits(cell: Any, cql_type: str) -> bool:
    """Tell if a cell of a row is a value of this type, as far as the races' rows differ."""
    match cell:
        case dict():
            return cql_type.startswith("frozen<") and "list" not in cql_type
        case list():
            return cql_type.startswith(("list<", "frozen<list<"))
        case str():
            return cql_type in {"text", "blob", "ascii"}
    return "<" not in cql_type and cql_type != "text"


class _Run:
    def __init__(self, line: str) -> None:
        self._line = line
        self._now = 0.0
        self._cluster = PerfectCluster()
        self._rows: dict[tuple[str, str], dict[Any, dict[str, Any]]] = {}
        self._events: list[dict[str, Any]] = []
        self._observations: list[dict[str, Any]] = []
        self._samples = 0
        self._logs: list[dict[str, Any]] = []

    def boot(self, phase: str) -> None:
        with self.phase_of(phase):
            for node in NODES:
                value = {"phase": phase, "served": True, "seconds": 1.0, "exit_code": None, "first_error": None}
                self._event(self._now, NEMESIS, "info", "node-start", node, None, value)
                first = {"level": "INFO", "thread": "main", "message": "Starting", "timestamp": None, "stack": None}
                self._logs.append({"node": node, "boot": int(phase != "boot"), "line": 1, **first})
            self._now += 1

    @contextmanager
    def phase_of(self, phase: str) -> Iterator[None]:
        """Note that a phase of the conductor begins and ends."""
        self._event(self._now, NEMESIS, "info", "phase", None, None, {"phase": phase, "state": "begins"})
        yield
        self._event(self._now, NEMESIS, "info", "phase", None, None, {"phase": phase, "state": "ends"})

    def settle(self, label: str) -> None:
        """Note that all nodes came to one schema version."""
        with self.phase_of(f"settle-{label}"):
            versions = dict.fromkeys(NODES, self._cluster.version)
            value = {"phase": label, "agreed": True, "seconds": 0.5, "versions": versions}
            self._event(self._now, NEMESIS, "info", "settle", None, None, value)
            self._now += 0.5

    def phase(self, done: list[Done]) -> None:
        for one in done:
            match one.step:
                case Note(f, key, value):
                    self._event(self._now + one.begun, NEMESIS, "info", f, None, key, value)
                case Invoke():
                    self._carry_out(one, one.step)
        self._now += max((one.ended for one in done), default=0.0) + 1

    def read(self, label: str) -> None:
        for node in NODES:
            self._samples += 1
            rows = self._cluster.rows(node, label, self._samples, int(self._now * _S))
            self._observations += told(rows, self._line)
        self._now += 1

    def records(self) -> Records:
        """Everything, in order of time."""
        self._events.sort(key=lambda event: event["time"])  # stable: notes of one moment stay in their order
        history = [{**event, "index": index} for index, event in enumerate(self._events)]
        return Records.of(
            pa.Table.from_pylist(history, schema=HISTORY),
            pa.Table.from_pylist(self._observations, schema=OBSERVATIONS),
            pa.Table.from_pylist(self._logs, schema=LOGS),
        )

    def _carry_out(self, one: Done, step: Invoke) -> None:
        worker = one.worker
        ends = self._now + one.ended - 1e-6  # whoever goes on does so afterwards
        self._event(self._now + one.begun, worker.index, "invoke", step.f, worker.node, step.key, step.value)
        answer = self._answer(one, step)
        if answer is None:
            error = "InvalidRequest: it cannot be done"
            self._event(ends, worker.index, "fail", step.f, worker.node, step.key, None, error)
        else:
            self._event(ends, worker.index, "ok", step.f, worker.node, step.key, answer)

    def _answer(self, one: Done, step: Invoke) -> Any | None:
        value = step.value
        if step.f in SCHEMA_CHANGES:
            self._cluster.now_ms = int((self._now + one.ended) * 1000) - 1
            if not self._cluster.apply(step):
                return None
            self._forget(step.f, value)
            return value
        columns = self._columns(value["keyspace"], value["table"])
        if columns is None:
            return None
        match step.f:
            case "know-table":
                return value
            case "insert":
                return self._insert(value, columns)
            case "read-rows":
                return self._read(value, columns)
            case "delete-row" | "truncate":
                return self._delete(value, columns)
        raise AssertionError(f"a perfect cluster knows no {step.f}")

    def _columns(self, keyspace: str, name: str) -> Mapping[str, Any] | None:
        """The columns of a table, or of the table under a view; None if there is neither."""
        there = self._cluster.keyspaces.get(keyspace)
        if there is None:
            return None
        if name in there.views:
            name = str(there.views[name]["base"])
        table = there.tables.get(name)
        return None if table is None else table["columns"]

    def _insert(self, value: Mapping[str, Any], columns: Mapping[str, Any]) -> Any | None:
        row = value["row"]
        types = self._cluster.keyspaces[value["keyspace"]].types
        if not row.keys() <= columns.keys():
            return None
        for name, cell in row.items():
            used = columns[name][0].removeprefix("frozen<").removesuffix(">")
            if isinstance(cell, dict) and not cell.keys() <= types.get(used, {}).keys():
                return None
        (key,) = [name for name, (_, kind) in columns.items() if kind == "partition_key"]
        if not {name for name, (_, kind) in columns.items() if kind in {"partition_key", "clustering"}} <= row.keys():
            return None
        if not all(_fits(cell, columns[name][0]) for name, cell in row.items()):
            return None
        if value.get("form") == "conditional" and row[key] in self._rows.get((value["keyspace"], value["table"]), {}):
            return None
        self._rows.setdefault((value["keyspace"], value["table"]), {}).setdefault(row[key], {}).update(row)
        return value

    def _read(self, value: Mapping[str, Any], columns: Mapping[str, Any]) -> Any | None:
        wanted = value["columns"]
        keyspace, name = value["keyspace"], value["table"]
        there = self._cluster.keyspaces[keyspace]
        if not set(wanted) <= columns.keys() or ("base" in value and name not in there.views):
            return None
        if "index" in value and value["index"] not in there.tables[name]["indexes"]:
            return None
        base = self._cluster.keyspaces[keyspace].views.get(name, {}).get("base", name)
        where = value.get("where") or {}
        rows = [
            {column: self._cell(keyspace, columns[column][0], row.get(column)) for column in wanted}
            for row in self._rows.get((keyspace, base), {}).values()
            if all(row.get(column) == cell for column, cell in where.items())
        ]
        return {**value, "rows": rows}

    def _delete(self, value: Mapping[str, Any], columns: Mapping[str, Any]) -> Any | None:
        if not {*value["where"], *(value.get("columns") or ())} <= columns.keys():
            return None
        rows = self._rows.get((value["keyspace"], value["table"]), {})
        for key in [key for key, row in rows.items() if row.items() >= value["where"].items()]:
            del rows[key]
        return value

    def _cell(self, keyspace: str, cql_type: str, cell: Any) -> Any:
        """A value of a user-defined type is shown with all its fields."""
        if not isinstance(cell, dict):
            return cell
        fields = self._cluster.keyspaces[keyspace].types[cql_type.removeprefix("frozen<").removesuffix(">")]
        return {name: self._cell(keyspace, used, cell.get(name)) for name, used in fields.items()}

    def _forget(self, f: str, value: Mapping[str, Any]) -> None:
        """The rows, or cells, that go with what was dropped."""
        keyspace, name = value["keyspace"], value.get("name")
        if f in {"drop-keyspace", "drop-table"}:
            for key in [key for key in self._rows if key[0] == keyspace and name in {None, key[1]}]:
                del self._rows[key]
        if f == "drop-column":
            for row in self._rows.get((keyspace, str(name)), {}).values():
                row.pop(value["column"], None)

    def _event(
        self, at: float, process: int, kind: str, f: str, node: str | None, key: str | None, value: Any, error: str = ""
    ) -> None:
        self._events.append(
            {
                "time": int(at * _S),
                "process": process,
                "type": kind,
                "f": f,
                "node": node,
                "key": key,
                "value": None if value is None else orjson.dumps(value).decode(),
                "error": error or None,
                "mops": None,
            }
        )
