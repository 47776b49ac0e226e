"""Legal runs: whatever a correct cluster may do, made from a seed.

Schema changes overlap, and each takes effect in one moment between its two ends; one whose outcome is unknown does so at
any later moment, also between the readings of two nodes or in the middle of one, or never. Nodes are down, slow, and
skewed. Rows are written, deleted and read at all levels, by last timestamp. No checker may accuse such a run.

    legal_run(17)            # always the same records
    legal_run(17, rich=True) # another plan: two keyspaces, static columns, ids and drops dated by skewed clocks
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import orjson
import pyarrow as pa
from described import described
from legal_replicas import NODES, Copy, Replicas, needed, replicas_of
from perfect_cluster import PerfectCluster

from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.rows import delete_row, insert, read_rows
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS, Records, plain
from schemaquake.harness.model.steps import Invoke

__all__ = ["legal_run"]

_MS = 1_000_000
_SETTLED_MS = 4_000
_RESTARTED_MS = 8_000
_FATES = ("answered",) * 7 + ("took effect", "never", "late", "too late", "too late")
"""Too late: an unanswered change that takes effect while the cluster is read, or not before it is restarted."""


def legal_run(seed: int, *, without: frozenset[int] = frozenset(), rich: bool = False) -> Records:
    """The records of the legal run of that seed; `without` these of its operations, by their place in the plan."""
    return _Run(Random(f"rich {seed}") if rich else Random(seed), rich=rich).records(without)


@dataclass(frozen=True)
class _Asked:
    """One operation: its moment, how long before and after it (ms) it was asked and answered, and its fate."""

    operation: Invoke
    moment: int
    before: int
    after: int
    node: str
    fate: str


class _Observer:
    """What the nodes show while the run goes on: every state that the schema had, and how far each node is."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.states: list[list[dict[str, Any]]] = []
        self.known: list[tuple[int, str, int]] = []
        """(when it was acknowledged, the node that did so, how many states there were then)."""
        self._shown: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}
        self._at: dict[str, int] = {}

    def changes(self, node: str, now: int) -> Iterator[dict[str, Any]]:
        """The rows that are others than in the node's reading before."""
        acknowledged = [count for ends, by, count in self.known if by == node and ends <= now]
        at = self._at[node] = self.random.randint(max([self._at.get(node, 0), *acknowledged]), len(self.states))
        before = self._shown.get(node, {})
        state = self.states[at - 1] if at else []
        shown = self._shown[node] = {_place(row): row for row in state if row["kind"] != "version"}
        yield from (row for place, row in shown.items() if _said(row) != _said(before.get(place)))
        gone = (row for place, row in before.items() if place not in shown)
        yield from ({**row, "id": None, "definition": None} for row in gone)


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["kind"], row["keyspace"], row["name"]


def _said(row: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
    return None if row is None else (row["id"], row["definition"])


class _Run:
    def __init__(self, random: Random, *, rich: bool = False) -> None:
        self._random = random
        self._rich = rich
        self._by_log = random.random() < 0.4
        self._cluster = PerfectCluster()
        self._epoch = 3
        self._rows: dict[tuple[str, str], tuple[str, Replicas]] = {}
        self._events: list[tuple[int, int, dict[str, Any]]] = []
        self._observations: list[dict[str, Any]] = []
        self._processes = 0
        self._samples = 0
        self._down: dict[str, tuple[int, int]] = {}
        self._offsets: dict[str, tuple[int, int, float]] = {}
        self._stamps: dict[str, int] = dict.fromkeys(NODES, 0)
        self._late: list[_Asked] = []
        self._values = 0
        self._observer = _Observer(Random(str(random.getstate()[1][:2])))  # the plan of a seed stays what it was

    def records(self, without: frozenset[int]) -> Records:
        for node in NODES:
            self._start(0, node, "boot")
        self._phase("main", 1)
        self._inject_faults()
        planned = [*self._opening(), *self._plan()]
        for number, asked in enumerate(planned):
            if number not in without:
                self._carry_out(asked)
                self._look(asked.moment + 1)
        self._note(_SETTLED_MS - 200, "phase", {"phase": "main", "state": "ends"})
        self._judge("settled", _SETTLED_MS)
        for node in NODES:
            self._start(_RESTARTED_MS - 500, node, "restart", seconds=0.2)
        self._land(10**9)
        self._judge("restarted", _RESTARTED_MS)
        return self._bundle()

    # ── what is done ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _opening(self) -> Iterator[_Asked]:
        columns = [("a", "int", "partition_key"), ("c", "int", "regular"), ("d", "text", "regular")]
        setup = (
            ddl.create_keyspace("k", replication_factor=self._random.choice([3, 3, 3, 1, 2])),
            ddl.create_type("k", "u", fields=[("f0", "int")]),
            ddl.create_table("k", "t", columns=columns),
        )
        for number, change in enumerate([*setup, *(self._rich_opening() if self._rich else ())]):
            yield _Asked(change, 20 + 10 * number, 3, 3, "n1", "answered")

    def _rich_opening(self) -> Iterator[Invoke]:
        yield ddl.create_keyspace("l", replication_factor=self._random.choice([3, 2, 1]))
        yield ddl.create_type("l", "u", fields=[("f0", "int"), ("f1", "text")])
        yield ddl.create_table("l", "t", columns=[("a", "int", "partition_key"), ("c", "int", "regular")])
        yield ddl.create_table("k", "x", columns=_WIDE)

    def _plan(self) -> Iterator[_Asked]:
        random = self._random
        for number in range(random.randint(8, 30) if self._rich else random.randint(3, 14)):
            moment = 100 + 40 * number
            changes = _RICH_CHANGES if self._rich else _CHANGES
            operation = self._row_operation("racing") if random.random() < 0.35 else random.choice(changes)(random)
            if self._rich and random.random() < 0.3:
                operation = _in_keyspace("l", operation)
            span = 400 if random.random() < 0.2 else 60  # a slow node
            node = random.choice(NODES)
            fate = random.choice(_FATES)
            yield _Asked(operation, moment, random.randint(1, span), random.randint(1, span), node, fate)

    def _inject_faults(self) -> None:
        random = self._random
        if random.random() < 0.4:
            node, begins = random.choice(NODES), random.randint(60, 500)
            self._down[node] = (begins, begins + random.randint(50, 600))
            self._fault(1, "x", node, begins, self._down[node][1], {})
            self._start(self._down[node][1] + 20, node, "fault", seconds=0.015)
        if random.random() < 0.4:
            node, begins = random.choice(NODES), random.randint(60, 300)
            offset = round(random.uniform(-5, 5), 3)
            self._offsets[node] = (begins, begins + 400, offset)
            self._fault(2, "y", node, begins, begins + 400, {"offsets": {node: offset}})

    def _row_operation(self, phase: str) -> Invoke:
        random = self._random
        level = random.choice(["ONE", "QUORUM", "QUORUM", "ALL"])
        table, key = random.choice(["t", "t", "s"]), random.randint(1, 3)
        kind = random.random()
        if kind < 0.65:
            self._values += 1
            cells = {"c": self._values, "d": f"v{self._values}"}
            named = random.sample(sorted(cells), random.randint(1, 2))
            return insert("k", table, {"a": key, **{n: cells[n] for n in named}}, consistency=level, phase=phase)
        if kind < 0.8:
            return delete_row("k", table, {"a": key}, consistency=level)
        return read_rows("k", table, consistency=level, phase=phase, columns=["a", "c"])

    def _carry_out(self, asked: _Asked) -> None:
        """One operation of the main phase, with both its ends."""
        self._land(asked.moment)
        begins, ends = max(5, asked.moment - asked.before), asked.moment + asked.after
        down = self._down.get(asked.node, (0, -1))
        fate = asked.fate
        if begins <= down[1] and ends >= down[0] and fate == "answered":
            fate = self._random.choice(["took effect", "never"])
        if fate in {"answered", "took effect"}:
            outcome, value, error = self._do(asked.operation, asked.node, asked.moment)
            if fate != "answered":
                outcome, value, error = "info", None, "OperationTimedOut: it took too long"
            elif outcome == "ok" and asked.operation.f in SCHEMA_CHANGES:
                self._observer.known.append((ends, asked.node, len(self._observer.states)))
            self._both_ends(asked, begins, ends, outcome, value, error)
            return
        if fate in {"late", "too late"} and asked.operation.f in SCHEMA_CHANGES:
            moment = self._random.randint(asked.moment, max(900, asked.moment + 300) if self._rich else 900)
            if fate == "too late":
                moment = self._random.choice([_SETTLED_MS, _SETTLED_MS, _RESTARTED_MS - 800]) + self._random.randint(
                    0, 150
                )
            self._late.append(_Asked(asked.operation, moment, 0, 0, asked.node, fate))
            self._late.sort(key=lambda late: late.moment)
        self._both_ends(asked, begins, ends, "info", None, "OperationTimedOut: it took too long")

    def _land(self, now: int) -> bool:
        """Have unanswered changes take effect whose moment has come; the answer is whether there was any."""
        landed = False
        while self._late and self._late[0].moment <= now:
            asked = self._late.pop(0)
            self._do(asked.operation, asked.node, asked.moment)
            landed = True
        return landed

    def _do(self, operation: Invoke, node: str, moment: int) -> tuple[str, Any, str | None]:
        if operation.f in SCHEMA_CHANGES:
            if self._rich:
                self._cluster.now_ms = self._stamp(node, moment) // 1000
            return self._change(operation)
        return self._touch_rows(operation, node, moment)

    def _change(self, change: Invoke) -> tuple[str, Any, str | None]:
        value = change.value
        is_there = self._is_there(change)
        done = self._cluster.apply(change)
        if done:
            self._epoch += 1
            self._follow(change)
            self._observer.states.append(self._cluster.rows("", "running", 0, 0))
        no_op = (value.get("if_exists") and not is_there) or (value.get("if_not_exists") and is_there)
        # A coordinator that is behind the log compares its schema before and after, and finds what others changed.
        found = done or (self._by_log and self._epoch % 3 == 0)
        if no_op or (done and ("if_exists" in value or "if_not_exists" in value)):
            return "ok", {**value, "applied": found}, None
        return ("ok", value, None) if done else ("fail", None, "InvalidRequest: it cannot be done")

    def _is_there(self, change: Invoke) -> bool:
        """Whether there is an object of the kind and the name of this CREATE or DROP."""
        keyspace = self._cluster.keyspaces.get(change.value["keyspace"])
        kind = change.f.partition("-")[2]
        if keyspace is None or kind == "keyspace":
            return keyspace is not None
        return change.value["name"] in getattr(keyspace, f"{kind}s", ())

    def _follow(self, change: Invoke) -> None:
        """Take rows and cells away with what was dropped."""
        keyspace, name = change.value["keyspace"], change.value.get("name")
        if change.f == "drop-column" and (keyspace, name) in self._rows:
            self._rows[keyspace, str(name)][1].forget(change.value["column"])

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _touch_rows(self, operation: Invoke, node: str, moment: int) -> tuple[str, Any, str | None]:
        value = operation.value
        keyspace, name = value["keyspace"], value["table"]
        there = self._cluster.keyspaces.get(keyspace)
        table = None if there is None else there.tables.get(name)
        if there is None or table is None:
            return "fail", None, f"InvalidRequest: unconfigured table {name}"
        named = value.get("row") or value.get("where") or dict.fromkeys(value.get("columns") or ())
        missing = [column for column in named if column not in table["columns"]]
        if missing:
            return "fail", None, f"InvalidRequest: Undefined column name {missing[0]} in table {keyspace}.{name}"
        (key,) = [column for column, (_, kind) in table["columns"].items() if kind == "partition_key"]
        if key not in named:
            return "fail", None, f"InvalidRequest: Some partition key parts are missing: {key}"
        copies = int(there.replication["replication_factor"])
        rows = self._replicas(keyspace, name, table)
        if operation.f == "read-rows":
            return self._read(operation, rows, node, moment, copies, key)
        lifetime = float(table["options"].get("default_time_to_live", 0))
        stamp = self._stamp(node, moment)
        wanted = value.get("row") or value["where"]
        chosen = self._choose(replicas_of(wanted[key], copies), value["consistency"], moment, copies, spread=True)
        if chosen is None:
            return "fail", None, "Unavailable: Cannot achieve consistency level"
        rows.write(chosen, wanted[key], _copy(operation, key, stamp, moment + lifetime * 1000 if lifetime else None))
        return "ok", value, None

    def _read(
        self, operation: Invoke, rows: Replicas, node: str, moment: int, copies: int, key: str
    ) -> tuple[str, Any, str | None]:
        value = operation.value
        shown: dict[Any, Mapping[str, Any]] = {}
        for wanted in {k for held in rows.nodes.values() for k in held}:
            holders = replicas_of(wanted, copies)
            own = [node] if node in holders else []
            chosen = self._choose([*own, *(h for h in holders if h != node)], value["consistency"], moment, copies)
            if chosen is None:
                return "fail", None, "Unavailable: Cannot achieve consistency level"
            found = rows.read(chosen, moment).get(wanted)
            if found is not None and all(v == wanted for c, v in (value.get("where") or {}).items() if c == key):
                shown[wanted] = found
        answer = [
            {column: wanted if column == key else row.get(column) for column in value["columns"]}
            for wanted, row in sorted(shown.items())
        ]
        return "ok", {**value, "rows": answer}, None

    def _choose(
        self, holders: Sequence[str], level: str, moment: int, copies: int, *, spread: bool = False
    ) -> Sequence[str] | None:
        """The replicas that answer; None: too few are up. A write may reach more than its level needs."""
        up = [node for node in holders if not self._is_down(node, moment)]
        count = needed(level, copies)
        if len(up) < count:
            return None
        if not spread:
            return up[:count]
        self._random.shuffle(up)
        return up[: max(count, self._random.choice([count, len(up), len(up)]))]

    def _is_down(self, node: str, moment: int) -> bool:
        begins, ends = self._down.get(node, (0, -1))
        return begins <= moment <= ends + 20

    def _replicas(self, keyspace: str, name: str, table: Mapping[str, Any]) -> Replicas:
        held = self._rows.get((keyspace, name))
        if held is None or held[0] != table["id"]:  # another life of the table
            held = self._rows[keyspace, name] = (table["id"], Replicas())
        return held[1]

    def _stamp(self, node: str, moment: int) -> int:
        """A timestamp (µs) of the node's clock, which does not go back."""
        begins, ends, offset = self._offsets.get(node, (0, -1, 0.0))
        shift = offset if begins <= moment <= ends else 0.0
        self._stamps[node] = max(self._stamps[node] + 1, moment * 1000 + round(shift * 1e6))
        return self._stamps[node]

    # ── what is read in the end ──────────────────────────────────────────────────────────────────────────────────────

    def _judge(self, phase: str, began: int) -> None:
        agreed = {"phase": phase, "agreed": True, "seconds": 0.1, "versions": {}}
        self._land(began - 100)
        self._note(began - 50, "settle", agreed)
        self._phase(f"final-{phase}", began)
        for number, node in enumerate(NODES):
            at = began + 10 * number
            self._land(at)
            self._final_reading(phase, node, at)
        moment = began + 60
        for node in NODES:
            for operation in self._probes(phase, node):
                moment += 10
                asked = _Asked(operation, moment, 3, 3, node, "answered")
                self._land(moment)
                self._both_ends(asked, moment - 3, moment + 3, *self._do(operation, node, moment))
        self._note(moment + 10, "phase", {"phase": f"final-{phase}", "state": "ends"})

    def _probes(self, phase: str, node: str) -> Iterator[Invoke]:
        for keyspace, table in (("k", "t"), ("k", "s"), *([("l", "t")] if self._rich else ())):
            self._values += 1
            row = {"a": 100 + self._values, "c": self._values}
            yield insert(keyspace, table, row, consistency=self._random.choice(["QUORUM", "ONE"]), phase=phase)
            yield read_rows(
                keyspace, table, consistency="QUORUM", phase=phase, columns=["a", "c"], where={"a": row["a"]}
            )
            yield read_rows(keyspace, table, consistency="ONE", phase=phase, columns=["a", "c"])
            if node == NODES[-1]:
                yield read_rows(
                    keyspace, table, consistency="ALL", phase=phase, columns=["a", "c", "d"][: 2 + (table == "t")]
                )

    def _final_reading(self, phase: str, node: str, at: int) -> None:
        """Read one node; a late change may take effect after its version or its memory was read, before its disk was."""
        self._samples += 1
        version = self._version_row(node, phase, at)
        memory = self._memory_rows(node, phase, at)
        if self._late and self._late[0].moment <= at + 9 and self._random.random() < 0.7:
            self._land(at + 9)
            if self._random.random() < 0.5:
                memory = self._memory_rows(node, phase, at + 1)
        disk = [
            row for row in self._cluster.rows(node, phase, self._samples, (at + 1) * _MS) if row["kind"] not in _OWN
        ]
        self._observations += [version, *disk, *memory]

    def _look(self, now: int) -> None:
        """Read nodes while the run goes on; each may be behind, but not behind what it showed or acknowledged."""
        for node in NODES:
            if self._observer.random.random() < 0.3 and not self._is_down(node, now):
                self._samples += 1
                self._observations.append(self._version_row(node, "running", now))
                place = {"time": now * _MS, "node": node, "sample": self._samples}
                self._observations += [{**row, **place} for row in self._observer.changes(node, now)]

    def _version_row(self, node: str, phase: str, at: int) -> dict[str, Any]:
        definition = {"epoch": self._epoch, "authority": "log"} if self._by_log else {"epoch": None}
        return self._observed(at, node, phase, "version", None, None, definition, f"v{self._epoch}")

    def _memory_rows(self, node: str, phase: str, at: int) -> list[dict[str, Any]]:
        rows = self._cluster.rows(node, phase, self._samples, at * _MS)
        found = []
        for row in rows:
            if row["kind"] not in _OWN:
                found += [
                    self._observed(at, node, phase, "live", row["keyspace"], name, live)
                    for name, live in _describe(row, orjson.loads(row["definition"]))
                ]
        return found

    def _observed(
        self,
        at: int,
        node: str,
        phase: str,
        kind: str,
        keyspace: str | None,
        name: str | None,
        definition: Any,
        identity: str | None = None,
    ) -> dict[str, Any]:
        place = {"time": at * _MS, "phase": phase, "node": node, "sample": self._samples}
        shown = {"kind": kind, "keyspace": keyspace, "name": name, "id": identity, "error": None}
        return {**place, **shown, "definition": orjson.dumps(definition).decode()}

    # ── the history ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _both_ends(self, asked: _Asked, begins: int, ends: int, outcome: str, value: Any, error: str | None) -> None:
        self._processes += 1
        operation = asked.operation
        event = {"process": self._processes, "f": operation.f, "node": asked.node, "key": operation.key, "mops": None}
        told = orjson.dumps(value).decode() if outcome == "ok" else None
        invoked = {**event, "type": "invoke", "value": orjson.dumps(operation.value).decode(), "error": None}
        self._events.append((begins, 0, invoked))
        self._events.append((ends, 1, {**event, "type": outcome, "value": told, "error": error}))

    def _note(self, at: int, f: str, value: Any, node: str | None = None) -> None:
        event = {"process": NEMESIS, "type": "info", "f": f, "node": node, "key": None, "error": None, "mops": None}
        self._events.append((at, 0, {**event, "value": orjson.dumps(value).decode()}))

    def _phase(self, name: str, at: int) -> None:
        self._note(at, "phase", {"phase": name, "state": "begins"})

    def _start(self, at: int, node: str, phase: str, *, seconds: float = 0.0) -> None:
        value = {"phase": phase, "served": True, "seconds": seconds, "exit_code": None, "first_error": None}
        self._note(at, "node-start", value, node)

    def _fault(
        self, number: int, nemesis: str, node: str, begins: int, ends: int, parameters: Mapping[str, Any]
    ) -> None:
        value = {
            "id": number,
            "nemesis": nemesis,
            "nodes": [node],
            "parameters": parameters,
            "effect": {"observed": True},
        }
        self._note(begins, "fault-begins", value)
        self._note(ends, "fault-ends", value)

    def _bundle(self) -> Records:
        self._events.sort(key=lambda event: event[:2])
        history = [{**row, "index": index, "time": at * _MS} for index, (at, _, row) in enumerate(self._events)]
        self._observations.sort(key=lambda row: (row["time"], row["node"]))
        # Plain strings, as engines hand records over (`plain`).
        return Records.of(
            pa.Table.from_pylist(history, schema=_PLAIN_HISTORY),
            pa.Table.from_pylist(self._observations, schema=_PLAIN_OBSERVATIONS),
        )


_OWN = {"version", "live"}
_PLAIN_HISTORY = plain(HISTORY.empty_table()).schema
_PLAIN_OBSERVATIONS = plain(OBSERVATIONS.empty_table()).schema


def _copy(operation: Invoke, key: str, stamp: int, expires: float | None) -> Copy:
    if operation.f == "delete-row":
        return Copy(deleted=stamp)
    cells = {column: (stamp, cell, expires) for column, cell in operation.value["row"].items() if column != key}
    return Copy(born=(stamp, expires), cells=cells)


def _describe(row: Mapping[str, Any], definition: Mapping[str, Any]) -> Iterator[tuple[str | None, Any]]:
    """What DESCRIBE shows of an object of the disk, and of its indexes."""
    keyspace, name, kind = row["keyspace"], row["name"], row["kind"]
    match kind:
        case "type":
            yield name, _live(kind, statement("create-type", {"keyspace": keyspace, "name": name, **definition}))
        case "function":
            value = {"keyspace": keyspace, "name": name, **definition}
            yield f"{name}(int)", _live(kind, statement("create-function", value))
        case "aggregate":
            value = {"keyspace": keyspace, "name": name, **definition}
            yield f"{name}(int)", _live(kind, statement("create-aggregate", value))
        case "keyspace" | "table" | "view":
            for shown_kind, shown_name, text in described(kind, keyspace, name or "", definition):
                yield shown_name, _live(shown_kind, text)


def _live(kind: str, text: str) -> Mapping[str, str]:
    return {"kind": kind, "statement": text}


# ── changes over so few names that they meet all the time ────────────────────────────────────────────────────────────


_WIDE = [
    ("a", "int", "partition_key"),
    ("b", "int", "clustering"),
    ("z", "int", "static"),
    ("c", "int", "regular"),
]


def _in_keyspace(keyspace: str, operation: Invoke) -> Invoke:
    """The same operation in another keyspace."""
    name = operation.value.get("name") or operation.value.get("table")
    key = keyspace if operation.key is None or "." not in operation.key else f"{keyspace}.{name}"
    return replace(operation, key=key, value={**operation.value, "keyspace": keyspace})


def _columns(random: Random) -> list[tuple[str, str, str]]:
    key = "a" if random.random() < 0.85 else "b"
    others = random.sample([("c", "int"), ("d", "text"), ("e", "frozen<u>")], random.randint(0, 3))
    return [(key, "int", "partition_key"), *((name, cql_type, "regular") for name, cql_type in others)]


def _options(random: Random) -> dict[str, Any]:
    choices = ({"comment": "x"}, {"comment": "y"}, {"gc_grace_seconds": 864001}, {"default_time_to_live": 3})
    return dict(random.choice(choices))


def _table(random: Random) -> str:
    return random.choice(["t", "t", "t", "s"])


def _guard(random: Random) -> bool:
    return random.random() < 0.3


_FUNCTION: Mapping[str, Any] = {"arguments": [["s", "int"]], "returns": "int", "body": "return s;"}
_STATE: Mapping[str, Any] = {"arguments": ["int"], "state_function": "f", "state_type": "int"}

_CHANGES: Sequence[Callable[[Random], Invoke]] = (
    lambda r: ddl.create_keyspace("k", replication_factor=r.choice([1, 3]), if_not_exists=_guard(r)),
    lambda r: ddl.alter_keyspace("k", replication_factor=r.choice([1, 2, 3])),
    lambda r: ddl.drop_keyspace("k", if_exists=_guard(r)),
    lambda r: ddl.create_table("k", _table(r), columns=_columns(r), options=_options(r), if_not_exists=_guard(r)),
    lambda r: ddl.create_table("k", _table(r), columns=_columns(r), if_not_exists=_guard(r)),
    lambda r: ddl.drop_table("k", _table(r), if_exists=_guard(r)),
    lambda r: ddl.drop_table("k", "t"),
    lambda r: ddl.add_column("k", _table(r), r.choice(["c", "d", "e", "g"]), r.choice(["int", "text", "frozen<u>"])),
    lambda r: ddl.drop_column("k", _table(r), r.choice(["c", "d", "e"])),
    lambda r: ddl.rename_column("k", _table(r), "a", r.choice(["b", "c"])),
    lambda r: ddl.alter_options("k", _table(r), _options(r)),
    lambda r: ddl.create_type("k", "u", fields=[("f0", "int")], if_not_exists=_guard(r)),
    lambda r: ddl.add_field("k", "u", r.choice(["f1", "f2"]), "int"),
    lambda r: ddl.rename_field("k", "u", "f1", r.choice(["f2", "f3"])),
    lambda r: ddl.drop_type("k", "u", if_exists=_guard(r)),
    lambda r: ddl.create_function("k", "f", **_FUNCTION),
    lambda r: ddl.drop_function("k", "f"),
    lambda r: ddl.create_aggregate("k", "g", **_STATE),
    lambda r: ddl.drop_aggregate("k", "g"),
    lambda r: ddl.create_view("k", "m", base=_table(r), primary_key=["c", "a"]),
    lambda r: ddl.drop_view("k", "m"),
    lambda r: ddl.create_index("k", r.choice(["i", "j"]), table=_table(r), column=r.choice(["c", "d"])),
    lambda r: ddl.drop_index("k", r.choice(["i", "j"])),
)

_RICH_CHANGES: Sequence[Callable[[Random], Invoke]] = (
    *_CHANGES,
    lambda r: ddl.create_table("k", "x", columns=_WIDE[: r.choice([2, 3, 4])], if_not_exists=_guard(r)),
    lambda r: ddl.drop_table("k", "x", if_exists=_guard(r)),
    lambda r: ddl.add_column("k", r.choice(["x", "x", "t"]), r.choice(["y", "z"]), "int", static=True),
    lambda r: ddl.drop_column("k", "x", r.choice(["y", "z", "c"])),
    lambda r: ddl.add_column("k", "x", r.choice(["c", "z"]), "int"),
    lambda r: ddl.rename_column("k", "x", r.choice(["a", "b"]), r.choice(["b", "e"])),
    lambda r: ddl.create_index("k", r.choice(["i", "j"]), table="x", column=r.choice(["z", "c"])),
    lambda r: ddl.alter_view("k", "m", {"comment": r.choice(["x", "y"])}),
    lambda r: ddl.create_view("k", "m", base=r.choice(["x", "s", "t"]), primary_key=["c", "a"]),
    lambda r: ddl.drop_column("k", _table(r), r.choice(["c", "d"])),
    lambda r: ddl.add_column("k", _table(r), r.choice(["c", "d"]), r.choice(["int", "text"])),
)
