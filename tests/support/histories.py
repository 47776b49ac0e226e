"""A little language for histories and observations in tests: one line an event, one line an object.

Events (the n-th line happens at n ms and has index n - 1):

    p0 n1 invoke create-table k.t a:int* x:int      words declare columns: * partition key, + clustering, ! static
    p0 n1 ok                                        the completion of p0's open operation; {json} adds to its value
    p1 n2 fail AlreadyExists: k.t                   words after fail and info are the error
    p1 n2 invoke add-column k.t c:int               … drop-column k.t c · rename-column k.t a>b · alter-options k.t comment=x
    p2 n3 invoke create-type k.u f0:int             … add-field k.u f1:int · drop-type k.u
    p3 n1 invoke insert k.t {"row": {"a": 1}}       a JSON object at the end of a line adds to the value
    -- info settle {"agreed": true}                 an event of the nemesis (process -1, no node, no key)
    -- n1 info node-start {"served": true}          … that is about a node
    @250 p0 n1 ok                                   at 250 ms; the lines after it go on from there, indices follow time

Observations (phase, nodes, kind, object, words; several phases and nodes are separated by commas without a space):

    settled n1,n2 table k.t id=aa a:int* x:int {"options": {"comment": "x"}}
    settled,restarted n1,n2,n3 keyspace k           replication factor 3 unless JSON says otherwise
    settled n1 type k.u f0:int
    settled n1 live k.t CREATE TABLE k.t (a int PRIMARY KEY)
    settled n1 live k.t {"kind": "table", "columns": {"a": "int"}}
    settled n1 version v1 {"epoch": 7}              every reading that has no such line gets version v
    settled n1 log {"changes": [["id", 7, "…"]]}    the log of changes that the node keeps
    settled n1 error NoHostAvailable                the node could not be read
    @7 running n1 live k.t gone table               (without its kind in runs of 0.1)
    @7 running n1 table k.t gone                    read at 7 ms (running lines else at 500 ms and on, settled at 10 s …)
    settled#2 n1 table k.t id=aa a:int*             a second reading, apart from the first

Logs: `n1 boot0 ERROR main: Unknown type k.u | java.lang.Exception at …` (after the bar: the stack).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa

from schemaquake.harness.model.records import HISTORY, LOGS, OBSERVATIONS, Records

__all__ = ["events", "judged", "logged", "observed", "with_other_names"]

_KIND_OF_MARK: Final = {"*": "partition_key", "+": "clustering", "!": "static"}
_ROW_OPERATIONS: Final = frozenset({"insert", "read-rows", "delete-row", "truncate"})
_FIRST_RUNNING_MS: Final = 500
_PHASE_MS: Final = {"settled": 10_000, "restarted": 20_000}


def events(*lines: str) -> pa.Table:
    """A history (`schemaquake.harness.model.records.HISTORY`) from one line an event."""
    rows: list[dict[str, Any]] = []
    open_operations: dict[int, dict[str, Any]] = {}
    time_ms = 0
    for line in lines:
        at, text = _time(line)
        time_ms = time_ms + 1 if at is None else at
        row = _nemesis_event(text) if text.startswith("-- ") else _event(text, open_operations)
        rows.append({"time": time_ms * 1_000_000, "error": None, "mops": None, **row})
    rows.sort(key=lambda row: row["time"])
    return pa.Table.from_pylist([{**row, "index": index} for index, row in enumerate(rows)], schema=HISTORY)


def observed(*lines: str) -> pa.Table:
    """Observations (`schemaquake.harness.model.records.OBSERVATIONS`) from one line an object."""
    rows: list[dict[str, Any]] = []
    running_ms = _FIRST_RUNNING_MS
    for line in lines:
        at, text = _time(line)
        phases, nodes, kind, *words = text.split(" ", 3)
        described = _observation(kind, words[0] if words else "")
        for label in phases.split(","):
            phase, _, number = label.partition("#")
            if phase == "running" and at is None:
                running_ms += 1
            time_ms = at if at is not None else _PHASE_MS.get(phase, running_ms) + int(number or 0)
            for node in nodes.split(","):
                sample = int(number or 0) if phase in _PHASE_MS else time_ms
                rows.append({"time": time_ms * 1_000_000, "phase": phase, "node": node, "sample": sample, **described})
    rows += _missing_versions(rows)
    rows.sort(key=lambda row: (row["time"], row["node"]))
    return pa.Table.from_pylist(rows, schema=OBSERVATIONS)


def logged(*lines: str) -> pa.Table:
    """Log lines (`schemaquake.harness.model.records.LOGS`), numbered from 1 in each node and boot."""
    rows: list[dict[str, Any]] = []
    for line in lines:
        node, boot, level, rest = line.split(" ", 3)
        thread, _, text = rest.partition(": ")
        message, _, stack = text.partition(" | ")
        number = 1 + sum(row["node"] == node and row["boot"] == int(boot.removeprefix("boot")) for row in rows)
        rows.append(
            {
                "node": node,
                "boot": int(boot.removeprefix("boot")),
                "line": number,
                "timestamp": None,
                "level": level,
                "thread": thread,
                "message": message,
                "stack": stack or None,
            }
        )
    rows.sort(key=lambda row: (row["node"], row["boot"], row["line"]))
    return pa.Table.from_pylist(rows, schema=LOGS)


def judged(history: Iterable[str] = (), observations: Iterable[str] = (), logs: Iterable[str] = ()) -> Records:
    """The bundle a checker judges, from lines."""
    return Records.of(events(*history), observed(*observations), logged(*logs))


def with_other_names(records: Records) -> Records:
    """The same history and observations with other names for nodes n1 to n3, processes and keyspace k."""

    def renamed(table: pa.Table, schema: pa.Schema) -> pa.Table:
        rows = table.to_pylist()
        for row in rows:
            for name in ("node", "key", "value", "keyspace"):
                if row.get(name) is not None:
                    row[name] = re.sub(r"\bn([123])\b", r"host\1", row[name])
                    row[name] = re.sub(r'(?<!")\bk(?=\.|$)|(?<="keyspace":")k(?=")', "other", row[name])
            if "process" in row:
                row["process"] += 1000
        return pa.Table.from_pylist(rows, schema=schema)

    return Records.of(renamed(records.history, HISTORY), renamed(records.observations, OBSERVATIONS))


def _time(line: str) -> tuple[int | None, str]:
    match = re.match(r"@(\d+) +(.*)", line)
    return (int(match[1]), match[2]) if match else (None, line.strip())


def _json(value: object) -> str | None:
    return None if value is None else orjson.dumps(value).decode()


def _words(text: str) -> tuple[list[str], dict[str, Any]]:
    """The words of a line and the JSON object at its end."""
    before, brace, after = text.partition("{")
    return before.split(), orjson.loads(brace + after) if brace else {}


def _nemesis_event(text: str) -> dict[str, Any]:
    (_, *words), value = _words(text)
    node = None if words[0] in {"invoke", "ok", "fail", "info"} else words.pop(0)
    outcome, f, *key = words
    return {
        "process": -1,
        "type": outcome,
        "f": f,
        "node": node,
        "key": key[0] if key else None,
        "value": _json(value),
    }


def _event(text: str, open_operations: dict[int, dict[str, Any]]) -> dict[str, Any]:
    process_text, node, outcome, *rest = text.split(" ", 3)
    process = int(process_text.removeprefix("p"))
    if outcome == "invoke":
        f, _, definition = rest[0].partition(" ")
        row = {"process": process, "type": outcome, "f": f, "node": node, **_invocation(f, definition)}
        open_operations[process] = row
        return row
    invoked = open_operations.pop(process)
    assert invoked["node"] == node, f"{text!r} completes an operation of {invoked['node']}"
    completed: dict[str, Any] = {**invoked, "type": outcome}
    tail = rest[0] if rest else ""
    if outcome == "ok":
        _, more = _words(tail)
        value = orjson.loads(invoked["value"]) if invoked["value"] else None
        completed["value"] = _json({**(value or {}), **more} if more else value)
        return completed
    return {**completed, "value": None, "error": tail or None}


def _invocation(f: str, definition: str) -> dict[str, Any]:
    words, more = _words(definition)
    key = words.pop(0) if words and not ("=" in words[0] or ":" in words[0]) else None
    value: dict[str, Any] = {}
    if key is not None:
        keyspace, _, name = key.partition(".")
        value["keyspace"] = keyspace
        if name:
            value["table" if f in _ROW_OPERATIONS else "name"] = name
    value |= _arguments(f, words) | more
    if f == "cql":
        value = {"statement": more["statement"]}
    return {"key": key, "value": _json(value or None)}


def _arguments(f: str, words: Sequence[str]) -> dict[str, Any]:
    """What the words of one invocation declare."""
    if f in _ARGUMENTS:
        return dict(_ARGUMENTS[f](words))
    assert not words, f"{f} takes no words: {words}"
    return {}


def _renamed(words: Sequence[str], attribute: str) -> dict[str, str]:
    old, _, new = words[0].partition(">")
    return {attribute: old, "to": new}


def _replication(_: Sequence[str]) -> dict[str, Any]:
    return {"replication": {"class": "SimpleStrategy", "replication_factor": 3}}


def _column(word: str) -> tuple[str, str, str]:
    name, _, cql_type = word.partition(":")
    if cql_type[-1] in _KIND_OF_MARK:
        return name, cql_type[:-1], _KIND_OF_MARK[cql_type[-1]]
    return name, cql_type, "regular"


_ARGUMENTS: Final[Mapping[str, Callable[[Sequence[str]], Mapping[str, Any]]]] = {
    "create-keyspace": _replication,
    "alter-keyspace": _replication,
    "create-table": lambda words: {"columns": [list(_column(word)) for word in words]},
    "add-column": lambda words: {"column": words[0].split(":", 1)},
    "drop-column": lambda words: {"column": words[0]},
    "rename-column": lambda words: _renamed(words, "column"),
    "alter-options": lambda words: {"options": dict(word.split("=", 1) for word in words)} if words else {},
    "create-type": lambda words: {"fields": [word.split(":", 1) for word in words]},
    "add-field": lambda words: {"field": words[0].split(":", 1)},
    "rename-field": lambda words: _renamed(words, "field"),
    "create-index": lambda words: {"table": words[0], "column": words[1]},
}


def _observation(kind: str, text: str) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": kind, "keyspace": None, "name": None, "id": None, "definition": None, "error": None}
    if kind == "error":
        return {**row, "kind": "version", "error": text}
    if kind == "live":
        key, _, statement = text.partition(" ")
        named = _named(key)
        if statement == "gone" or statement.startswith("gone "):
            return row | named | {"id": statement[5:] or None}
        if statement.startswith("{"):
            probed = orjson.loads(statement)
            return row | named | {"error": probed.pop("error", None), "definition": _json(probed)}
        name = "table" if named["name"] else "keyspace"
        found = re.match(r"CREATE (?:MATERIALIZED )?(\w+)", statement)
        definition = {"kind": found[1].lower() if found else name, "statement": statement}
        return row | named | {"definition": _json(definition)}
    words, more = _words(text)
    if kind in {"log", "ring", "ownership", "epochs"}:
        return row | ({"error": " ".join(words)} if words else {"definition": _json(more)})
    if kind == "version":
        return row | {"id": words[0] if words else "v", "definition": _json({"epoch": None, **more})}
    row |= _named(words.pop(0))
    if words and words[0].startswith("id="):
        row["id"] = words.pop(0).removeprefix("id=")
    if words == ["gone"]:
        return row
    return row | {"definition": _json(_definition(kind, words) | more)}


def _named(key: str) -> dict[str, str | None]:
    keyspace, _, name = key.partition(".")
    return {"keyspace": keyspace, "name": name or None}


def _definition(kind: str, words: Sequence[str]) -> dict[str, Any]:
    match kind:
        case "table" | "view":
            return {"columns": _columns(words), "dropped_columns": {}, "options": {}, "indexes": {}}
        case "type":
            return {"fields": [word.split(":", 1) for word in words]}
        case "keyspace":
            return {"replication": {"class": "SimpleStrategy", "replication_factor": "3"}, "durable_writes": True}
        case "function":
            return {"arguments": [], "returns": "int", "body": "return 1;"}
        case "aggregate":
            return {"arguments": [], "state_function": None, "state_type": "int", "final_function": None}
    return {}


def _columns(words: Sequence[str]) -> dict[str, Any]:
    """Key columns get the next position of their kind, as a well-made table has them; others -1."""
    positions = {"partition_key": 0, "clustering": 0}
    columns: dict[str, Any] = {}
    for name, cql_type, kind in map(_column, words):
        columns[name] = {"type": cql_type, "kind": kind, "position": positions.get(kind, -1)}
        if kind in positions:
            positions[kind] += 1
    return columns


def _missing_versions(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    schema_rows = [row for row in rows if row["kind"] != "data-directory"]
    readings = {(row["phase"], row["node"], row["sample"]): row["time"] for row in schema_rows}
    versioned = {(row["phase"], row["node"], row["sample"]) for row in rows if row["kind"] == "version"}
    return [
        {
            "time": time,
            "phase": phase,
            "node": node,
            "sample": sample,
            **_observation("version", ""),
        }
        for (phase, node, sample), time in readings.items()
        if (phase, node, sample) not in versioned and phase in _PHASE_MS
    ]
