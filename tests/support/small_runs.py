"""Small random runs for tests of what is made of a run: several keyspaces, notes, runs-wide reads, open operations."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pyarrow as pa

from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, LOGS, OBSERVATIONS, Records

NODES = ("n1", "n2", "n3")


def small_run(seed: int, *, operations: int = 120, processes: int = 7, keyspaces: int = 5) -> Records:
    """A run of as many races as keyspaces; the same seed makes the same run."""
    random = Random(seed)
    return Records(history(random, operations, processes, keyspaces), observations(random, keyspaces), logs())


def history(random: Random, operations: int, processes: int, keyspaces: int) -> pa.Table:
    rows: list[dict[str, Any]] = []
    time = 0

    def event(process: int, kind: str, f: str, **rest: Any) -> None:
        nonlocal time
        time += random.randrange(1, 80_000_000)
        row = {"index": len(rows), "time": time, "process": process, "type": kind, "f": f}
        rows.append(dict.fromkeys(HISTORY.names) | row | rest)

    for number in range(keyspaces):
        value = {"workload": "w", "number": number, "mode": "barrier", "sides": [["DROP TYPE u"], ["CREATE TABLE t"]]}
        event(NEMESIS, "info", "race", key=f"ks{number}", value=orjson.dumps(value).decode())
    number_of = list(range(processes))
    open_operations: dict[int, dict[str, Any]] = {}
    begun = 0
    while begun < operations or (open_operations and random.random() < 0.8):
        worker = random.randrange(processes)
        process = number_of[worker]
        if process not in open_operations:
            if begun == operations:
                continue
            begun += 1
            keyspace = f"ks{random.randrange(keyspaces)}"
            f, key = random.choice(
                [("insert", f"{keyspace}.t"), ("create-table", f"{keyspace}.t"), ("drop-keyspace", keyspace), ("read-schema", None)]
            )  # fmt: skip
            mops = [{"f": "append", "k": begun, "v": 1, "vs": None}] if f == "insert" else None
            operation = {"f": f, "key": key, "node": NODES[worker % 3], "value": str(begun), "mops": mops}
            open_operations[process] = operation
            event(process, "invoke", **operation)
            continue
        kind = random.choices(["ok", "fail", "info"], [7, 2, 1])[0]
        event(process, kind, **open_operations.pop(process) | {"error": None if kind == "ok" else "Timeout"})
        if kind == "info":
            number_of[worker] += processes
    return pa.Table.from_pylist(rows, schema=HISTORY)


def observations(random: Random, keyspaces: int) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for sample, (phase, time) in enumerate((("running", 1), ("running", 2), ("settled", 3), ("restarted", 4))):
        for node in NODES:
            base = {"time": time * 10**9, "phase": phase, "node": node, "sample": sample}
            epoch = orjson.dumps({"epoch": sample}).decode()
            rows.append({**base, "kind": "version", "id": f"v{sample}", "definition": epoch})
            rows += [
                {
                    **base,
                    "kind": "table",
                    "keyspace": f"ks{number}",
                    "name": "t",
                    "id": f"{random.randrange(2):032x}",
                    "definition": random.choice(["{}", '{"columns":{}}']),
                }
                for number in range(keyspaces)
                if random.random() < 0.7
            ]
    return pa.Table.from_pylist(rows, schema=OBSERVATIONS)


def logs() -> pa.Table:
    row = {"node": "n1", "boot": 0, "line": 1, "timestamp": None, "level": "WARN", "thread": "main", "message": "slow"}
    return pa.Table.from_pylist([row], schema=LOGS)
