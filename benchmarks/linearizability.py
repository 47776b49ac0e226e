"""CPU seconds and memory that linearizability takes: `python -m benchmarks.linearizability [NAME]...`.

Each history is simulated (registers that answer as they should, clients that overlap), written as Parquet, and judged in a
process of its own: reading it, the first check, which loads what is compiled, and a second one. Peers, on two such cores:
Porcupine takes 1.67 s and 0.84 GB for a million calls on 5,000 keys, Knossos 33–51 s; for one key of 10,000 calls with
unique values Porcupine takes 6.5 s and 3.9 GB, and to refute one with repeated values 3.1 s and 1.6 GB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from benchmarks.figures import Figure, machine, print_table
from schemaquake.harness.model.records import HISTORY
from schemaquake.results.store.store import write_table


@dataclass(frozen=True)
class Shape:
    """The shape of a history. `unique`: no value is written twice; `planted`: near the end a read returns a value that was never written.

    `beyond`: it was more than the search of 0.1 could decide, and gets less memory; one that is not decided is measured up to there.
    """

    what: str
    calls: int
    keys: int
    processes: int
    unique: bool
    swaps: float
    goal: str
    unknown: float = 0
    planted: bool = False
    beyond: bool = False


SHAPES: Mapping[str, Shape] = {
    "unique": Shape("1 M calls, 5,000 keys, unique values, with cas", 1_000_000, 5000, 50, True, 0.3, "≤ 0.5"),
    "five": Shape("1 M calls, 5,000 keys, five values, with cas", 1_000_000, 5000, 50, False, 0.3, "≤ 1.6"),
    "one": Shape("10 k calls on one key, unique values", 10_000, 1, 10, True, 0, "≤ 0.05"),
    "refuted": Shape("10 k calls on one key, five values, refuted", 10_000, 1, 10, False, 0.3, "≤ 1", planted=True),
    # How it grows: with length (straight), with calls that are open at once, and with calls of unknown outcome.
    "unique-2": Shape("2 M calls, 10,000 keys, unique values, with cas", 2_000_000, 10_000, 50, True, 0.3, ""),
    "one-100": Shape("100 k calls on one key, unique values", 100_000, 1, 10, True, 0, ""),
    "one-crowd": Shape("100 k calls on one key, unique values, 200 processes", 100_000, 1, 200, True, 0, ""),
    "refuted-20": Shape("20 k calls on one key, five values, refuted", 20_000, 1, 10, False, 0.3, "", planted=True),
    "crowd-5": Shape("10 k calls on one key, five values, 5 processes", 10_000, 1, 5, False, 0.3, "", planted=True),
    "crowd-20": Shape(
        "10 k calls on one key, five values, 20 processes", 10_000, 1, 20, False, 0.3, "≤ 1", planted=True
    ),
    "crowd-40": Shape(
        "10 k calls on one key, five values, 40 processes", 10_000, 1, 40, False, 0.3, "", planted=True, beyond=True
    ),
    "crashes": Shape("200 calls, five values, 5 % of unknown outcome, refuted", 200, 1, 5, False, 0.3, "", 0.05, True),
    "crashes-10": Shape(
        "200 calls, five values, 10 % of unknown outcome", 200, 1, 5, False, 0.3, "", 0.1, planted=True, beyond=True
    ),
    "crashes-30": Shape(
        "200 calls, five values, 30 % of unknown outcome", 200, 1, 5, False, 0.3, "", 0.3, planted=True, beyond=True
    ),
    "crowd-20-unknown": Shape(
        "10 k calls on one key, five values, 20 processes, 150 of unknown outcome",
        10_000,
        1,
        20,
        False,
        0.3,
        "",
        0.025,
        beyond=True,
    ),
    "unknown": Shape(
        "100 k calls on one key, unique values, 10 % of unknown outcome", 100_000, 1, 10, True, 0.3, "", 0.1
    ),
}

_CHILD = """
import json, re, sys, time
from schemaquake.harness.history.lean_arrow import lean_arrow
lean_arrow()
from pathlib import Path
from schemaquake.checkers.linearizability.linearizable import Linearizable
from schemaquake.checkers.linearizability.models import Register
from schemaquake.harness.model.records import Records
from schemaquake.results.formats.reading import read_history
began = time.process_time()
records = Records.of(read_history(Path(sys.argv[1])))
told = {"read": time.process_time() - began}
for number in ("first", "second"):
    began = time.process_time()
    verdict = Linearizable(model=Register(), memory_bytes=int(sys.argv[2])).check(records, limit_s=300)
    told[number] = time.process_time() - began
told["valid"] = verdict.valid
# Not by getrusage, which has the peak of the process that started this one, too.
told["mib"] = int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024
print(json.dumps(told))
"""


class Clients:
    """Clients that overlap, on registers that take every call at one moment between its call and its answer."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape = shape
        self.random = Random(seed)
        self.rows: list[dict[str, Any]] = []
        self.held: list[Any] = [None] * shape.keys
        self.free = list(range(shape.processes))
        self.following = shape.processes
        self.running: dict[int, dict[str, Any]] = {}
        self.fresh = 0

    def begin(self) -> None:
        process = self.free.pop(self.random.randrange(len(self.free)))
        key = self.random.randrange(self.shape.keys)
        self.fresh += 1
        new = self.fresh if self.shape.unique else self.random.randrange(5)
        f = self.random.choices(("read", "write", "cas"), (0.4, 0.6 - self.shape.swaps, self.shape.swaps))[0]
        old = self.held[key] if self.held[key] is not None else 0
        value = {"read": None, "write": new, "cas": [old, new]}[f]
        call = {"process": process, "f": f, "key": key, "value": value, "type": "invoke"}
        self.rows.append(dict(call))
        self.running[process] = call

    def take_effect(self, call: dict[str, Any]) -> None:
        key, value = call["key"], call["value"]
        call["type"] = "ok"
        if call["f"] == "read":
            call["value"] = self.held[key]
        elif call["f"] == "write":
            self.held[key] = value
        elif self.held[key] == value[0]:
            self.held[key] = value[1]
        else:
            call["type"] = "fail"

    def answer(self, call: dict[str, Any]) -> None:
        if call["type"] == "invoke":
            self.take_effect(call)
        del self.running[call["process"]]
        if call["f"] != "read" and self.random.random() < self.shape.unknown:
            call["type"] = "info"
            self.free.append(self.following)
            self.following += 1
        else:
            self.free.append(call["process"])
        self.rows.append(call)

    def run(self) -> None:
        while self.fresh < self.shape.calls or self.running:
            if self.fresh < self.shape.calls and self.free and (not self.running or self.random.random() < 0.6):
                self.begin()
                continue
            call = self.running[self.random.choice(list(self.running))]
            if call["type"] == "invoke" and self.random.random() < 0.5:
                self.take_effect(call)
            else:
                self.answer(call)


def history(shape: Shape, seed: int = 1) -> pa.Table:
    """The events of clients at work (`schemaquake.harness.model.records.HISTORY`)."""
    clients = Clients(shape, seed)
    clients.run()
    rows = clients.rows
    if shape.planted:
        next(row for row in rows[int(0.9 * len(rows)) :] if row["f"] == "read" and row["type"] == "ok")["value"] = -1
    for at, row in enumerate(rows):
        text = None if row["value"] is None else json.dumps(row["value"], separators=(",", ":"))
        row.update({"index": at, "time": at, "key": str(row["key"]), "value": text})
    return pa.Table.from_pylist(rows, schema=HISTORY)


def measured(shape: Shape, folder: Path) -> dict[str, Any]:
    path = folder / "history.parquet"
    write_table(path, history(shape))
    command = [sys.executable, "-c", _CHILD, str(path), str((128 if shape.beyond else 512) << 20)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["valid"] is not shape.planted or (shape.beyond and told["valid"] == "unknown"), told
    return told


def figures(names: tuple[str, ...] = tuple(SHAPES)) -> Iterator[Figure]:
    """CPU seconds of the first and of the second check, and the peak of the whole process."""
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as folder:
        for name in names:
            shape = SHAPES[name]
            told = measured(shape, Path(folder))
            answer = " (unknown: the limit was reached)" if told["valid"] == "unknown" else ""
            yield Figure("linearizability", shape.what + answer, told["second"], "CPU s", shape.goal)
            yield Figure("linearizability", "the same, in a new process", told["first"], "CPU s")
            goal = {"unique": "≤ 381", "refuted": "≤ 286"}.get(name, "")
            yield Figure("linearizability", "the same, peak of the whole process", told["mib"], "MiB", goal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(SHAPES)}; else all of them")
    chosen = tuple(parser.parse_args().names) or tuple(SHAPES)
    facts = machine()
    print_table(list(figures(chosen)), facts)


if __name__ == "__main__":
    main()
