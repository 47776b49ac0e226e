"""Clean runs of data workloads: simulated ones, and ones whose clients' operations a serial store answered.

The simulated cluster knows neither collections, counters nor transactions. So the notes, observations and logs of a simulated run are
kept, and its operations on data replaced by others, one after another, in the phases in which clients ask.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pyarrow as pa
from simulated_runs import SIX, carry_out, plan_of

from schemaquake.harness.descriptors.functions import pd
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.traits import checker_traits
from schemaquake.harness.registry import load_all
from schemaquake.results.store.store import Store

__all__ = ["DATA_RUNS", "data_run"]

_LEVELS = {"consistency": "QUORUM", "additions": "QUORUM"}
_PHASES = ("main", "final-settled", "final-restarted")


@dataclass(frozen=True)
class _Call:
    """One operation: what is asked, and the answer; `seen` are the micro-operations of a transaction with what they saw."""

    f: str
    asked: Any = None
    answer: Any = None
    mops: Sequence[Mapping[str, Any]] | None = None
    seen: Sequence[Mapping[str, Any]] | None = None
    type: str = "ok"
    key: str = ""
    """What is behind the name of the table: `/3` is one of its rows."""
    worker: int | None = None


def _set(phase: str, state: dict[str, Any], random: Random) -> Iterator[_Call]:
    elements = state.setdefault("elements", [])
    for number in range(8 if phase == "main" else 0):
        elements.append(len(elements) + 1)
        yield _Call("add", elements[-1], elements[-1])
        if number % 3 == 2:
            yield _Call("read", _LEVELS, list(elements))
    yield _Call("read", _LEVELS, random.sample(elements, len(elements)))


def _counter(phase: str, state: dict[str, Any], random: Random) -> Iterator[_Call]:
    for _ in range(8 if phase == "main" else 0):
        amount = random.choice([1, 2, 5, -1])
        state["sum"] = state.get("sum", 0) + amount
        yield _Call("add", amount, amount)
        yield _Call("read", _LEVELS, state["sum"])
    yield _Call("read", _LEVELS, state["sum"])


def _bank(phase: str, state: dict[str, Any], random: Random) -> Iterator[_Call]:
    balances = state.setdefault("balances", {"a": 10, "b": 10, "c": 0})
    for _ in range(6 if phase == "main" else 0):
        giver, taker = random.sample(sorted(balances), 2)
        amount = min(balances[giver], random.randint(1, 3))
        balances[giver], balances[taker] = balances[giver] - amount, balances[taker] + amount
        asked = {"from": giver, "to": taker, "amount": amount}
        yield _Call("transfer", asked, asked)
        yield _Call("read", None, dict(balances))
    yield _Call("read", None, dict(balances))


def _ids(phase: str, state: dict[str, Any], _random: Random) -> Iterator[_Call]:
    for _ in range(6 if phase == "main" else 1):
        state["id"] = state.get("id", 0) + 1
        yield _Call("generate", None, state["id"])


def _register(phase: str, state: dict[str, Any], random: Random) -> Iterator[_Call]:
    for number in range(10 if phase == "main" else 0):
        if number % 3 == 2:
            old, state["value"] = state.get("value"), number
            yield _Call("cas", [old, number], [old, number])
        else:
            state["value"] = 100 + number
            yield _Call("write", state["value"], state["value"])
        yield _Call("cas", [-1, 5], None, type="fail") if random.random() < 0.2 else _Call("read", None, state["value"])
    yield _Call("read", None, state["value"])


def _append(phase: str, state: dict[str, Any], random: Random) -> Iterator[_Call]:
    for number in range(10 if phase == "main" else 2):
        mops, seen = [], []
        for key in random.sample(range(3), 2) if phase == "main" else (number, number + 1):
            held = state.setdefault(str(key), [])
            if phase == "main" and random.random() < 0.5:
                held.append(number + 100 * key + 1)
                mops.append({"f": "append", "k": key, "v": held[-1], "vs": None})
                seen.append(mops[-1])
            else:
                mops.append({"f": "r", "k": key, "v": None, "vs": None})
                seen.append({"f": "r", "k": key, "v": None, "vs": list(held)})
        yield _Call("txn", mops=mops, seen=seen)


def _lwt(phase: str, state: dict[str, Any], _random: Random) -> Iterator[_Call]:
    """Unique values in two rows, written and read in turn, as the workload `register` does."""
    for number in range(12 if phase == "main" else 2):
        row = f"/{number % 2}"
        if phase == "main" and number % 4 < 2:
            state[row] = 1_000_000 * (number % 3) + number + 1
            yield _Call("write", state[row], state[row], key=row)
        else:
            yield _Call("read", None, state.get(row), key=row)


def _batches(phase: str, state: dict[str, Any], _random: Random) -> Iterator[_Call]:
    tables = ("a", "b", "c")
    numbers = state.setdefault("numbers", [])
    for _ in range(6 if phase == "main" else 0):
        numbers.append(len(numbers) + 1)
        asked = {"id": numbers[-1], "tables": list(tables), "consistency": "QUORUM"}
        yield _Call("batch", asked, asked, key=":")
    for table in () if phase == "main" else tables:
        yield _Call("read-batches", {"consistency": "ALL"}, list(numbers), key=f":{table}")


_SEED, _PARTITIONS, _ROWS = 3, 3, 8


def _descriptors(phase: str, state: dict[str, Any], random: Random) -> Iterator[_Call]:
    """Bulk writes, deletions and checks of three partitions with a copy on each of three nodes."""
    rows = state.setdefault("rows", {n: [0] * _ROWS for n in range(_PARTITIONS)})
    for number in range(14 if phase == "main" else 0):
        partition, state["lts"] = number % _PARTITIONS, state.get("lts", 0) + 1
        yield _described(rows[partition], number, partition, state["lts"])
        if number % 4 == 3:
            yield _checked(rows, "QUORUM", random.randrange(3))
    for level, worker in [("ONE", 0), ("ONE", 1), ("ONE", 2), ("QUORUM", 0), ("QUORUM", 1), ("ALL", 2)]:
        if phase != "main":
            yield _checked(rows, level, worker)


def _described(rows: list[int], number: int, partition: int, lts: int) -> _Call:
    """One write or deletion; `rows` has the write time of each row of the partition afterwards."""
    asked = {"partition": partition, "lts": lts, "consistency": "ONE" if number % 5 == 4 else "QUORUM"}
    first, count = (0, _ROWS) if number < _PARTITIONS else (number % 3, 4)
    f = "delete-rows" if number % 6 == 5 else "write-rows"
    rows[first : first + count] = [0 if f == "delete-rows" else lts] * count
    asked |= {"first": first, "count": count} | ({} if f == "delete-rows" else {"pd": str(pd(_SEED, partition))})
    return _Call(f, asked, asked, key="")


def _checked(rows: Mapping[int, Sequence[int]], level: str, worker: int) -> _Call:
    runs: list[list[int]] = []
    for times in rows.values():
        runs.append([])
        for lts, places in groupby(range(len(times)), key=times.__getitem__):
            some = list(places)
            runs[-1] += [some[0], len(some), lts] if lts else []
    asked = {"first": 0, "count": len(rows), "consistency": level}
    answer = {**asked, "rows": sum(sum(some[1::3]) for some in runs), "runs": runs}
    return _Call("check-rows", asked, answer, worker=worker)


_GRAFTED: Mapping[str, Callable[[str, dict[str, Any], Random], Iterator[_Call]]] = {
    "set": _set,
    "counter": _counter,
    "bank": _bank,
    "unique-ids": _ids,
    "cas-register": _register,
    "append": _append,
    "register": _lwt,
    "batch": _batches,
    "descriptors": _descriptors,
}
DATA_RUNS: Sequence[str] = ("quorum", "rw-register", *_GRAFTED)


@cache
def data_run(name: str) -> Records:
    """The records of the clean run of a data workload."""
    records = _simulated("rw-register" if name in _GRAFTED else name)
    return records if name not in _GRAFTED else _graft(records, name)


@cache
def _simulated(workload: str) -> Records:
    plan = plan_of(workload, system=SIX, seed=3, time_limit_s=1.0, rate=20.0)
    noted = [pattern for checker in load_all("checkers").values() for pattern in checker_traits(checker).noted]
    with tempfile.TemporaryDirectory(prefix="clean-data-") as folder:
        store = Store(carry_out(plan, Path(folder) / "run"))
        return store.merge(noted=noted)


def _graft(records: Records, name: str) -> Records:
    """The same run, with other operations on data."""
    rows = [row for row in records.history.to_pylist() if row["f"] != "txn"]
    table = next(row["key"] for row in rows if row["f"] == "create-table")
    state: dict[str, Any] = {}
    random = Random(name)
    for phase in _PHASES:
        begins, ends = _span(rows, phase)
        calls = list(_GRAFTED[name](phase, state, random))
        step = (ends - begins) // (len(calls) + 1)
        for number, call in enumerate(calls):
            worker = number % 3 if call.worker is None else call.worker
            rows += _events(call, begins + step * number + 1, step // 2, worker, _key(table, call.key))
    rows.sort(key=lambda row: row["time"])
    history = pa.Table.from_pylist([{**row, "index": index} for index, row in enumerate(rows)], schema=HISTORY)
    return Records.of(history, records.observations, records.logs)


def _key(table: str, place: str) -> str:
    """The key of an operation on one row of the table, on another table of its keyspace, or on the keyspace."""
    if not place.startswith(":"):
        return f"{table}{place}"
    keyspace = table.split(".", maxsplit=1)[0]
    return f"{keyspace}.{place[1:]}" if place[1:] else keyspace


def _span(rows: Sequence[Mapping[str, Any]], phase: str) -> tuple[int, int]:
    times = [
        row["time"]
        for row in rows
        if row["process"] == NEMESIS and row["f"] == "phase" and orjson.loads(row["value"])["phase"] == phase
    ]
    return times[0], times[-1]


def _events(call: _Call, begins: int, lasts: int, worker: int, key: str) -> Iterator[Mapping[str, Any]]:
    event = {"index": 0, "process": 500 + worker, "f": call.f, "node": f"n{worker + 1}", "key": key, "error": None}
    asked = None if call.asked is None else orjson.dumps(call.asked).decode()
    yield {**event, "time": begins, "type": "invoke", "value": asked, "mops": call.mops}
    answer = None if call.answer is None else orjson.dumps(call.answer).decode()
    error = "not applied" if call.type == "fail" else None
    yield {**event, "time": begins + lasts, "type": call.type, "value": answer, "mops": call.seen, "error": error}
