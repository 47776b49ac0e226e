"""Speed at which weak levels are judged: `python -m benchmarks.weak [--transactions N]... [--processes P]... [--keys K]... [--info SHARE]...`.

Histories of rw-register transactions, written to Parquet and judged by `schemaquake check FILE --model LEVEL` in a process of
its own: seconds of CPU of all of it, from the start of Python to the verdict, and the most memory it took. Two stores: one
that is strictly serializable (the keys are used up one after another), and one of several replicas that take over each
other's state now and then, so that most reads are stale, and that is causal and no more (the keys stay the same).
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import elle
from benchmarks.figures import Figure, machine, print_table
from schemaquake.harness.compiled import compiled
from schemaquake.harness.model.records import HISTORY, MOPS
from schemaquake.results.store.store import write_table

# (seconds of CPU for the process, GB), for a million transactions: what AWDIT needs, parsing included
GOALS = {"read-committed": (2.65, 0.43), "read-atomic": (3.4, 0.71), "causal": (5.9, 1.57)}

_CHILD = """
import json, sys, time
from schemaquake.harness.cli.command_line import main
try:
    main()
finally:
    # What the parent had in memory when it forked counts as the child's in getrusage, and not here.
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(json.dumps({"cpu_s": time.process_time(), "memory_gb": peak / 2**20}), file=sys.stderr)
"""

_MOPS = 4  # of one transaction at most
_REPLICAS = 5
_SYNC = 50  # transactions between two replicas' taking over of state


def causal_history(transactions: int, *, processes: int, keys: int, seed: int = 1) -> pa.Table:
    """A history (`HISTORY`) of a store that is causal and no more; every process keeps to one replica."""
    first, f, key, value = _causal(transactions, processes, keys, seed)
    invoked = np.arange(2 * transactions) % 2 == 0
    lengths = np.repeat(np.diff(first), 2)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    mop = np.repeat(np.repeat(first[:-1], 2) - starts[:-1], lengths) + np.arange(starts[-1])
    unknown = (f[mop] == 0) & (np.repeat(invoked, lengths) | (value[mop] < 0))
    parts = [
        pa.DictionaryArray.from_arrays(pa.array(f[mop].astype(np.int32)), pa.array(("r", "w"))).cast(pa.string()),
        pa.array(key[mop].astype(np.int64)),
        pa.array(value[mop], mask=unknown),
        pa.ListArray.from_arrays(
            pa.array(np.zeros(len(mop) + 1, np.int32)), pa.array([], pa.int64()), mask=pa.array(np.ones(len(mop), bool))
        ),
    ]
    struct = pa.StructArray.from_arrays(parts, fields=list(MOPS.value_type))
    rows = 2 * transactions
    columns = {
        "index": pa.array(np.arange(rows)),
        "time": pa.array(np.arange(rows) * 1000),
        "process": pa.array((np.arange(rows) // 2 % processes).astype(np.int32)),
        "type": pa.DictionaryArray.from_arrays(pa.array((~invoked).astype(np.int32)), pa.array(("invoke", "ok"))),
        "f": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["txn"])),
        "mops": pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), struct).cast(MOPS),
    }
    filled = [columns.get(field.name, pa.nulls(rows, field.type)) for field in HISTORY]
    return pa.Table.from_arrays(filled, schema=HISTORY)


@compiled
def _causal(transactions, processes, keys, seed):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - a compiled loop
    np.random.seed(seed)  # noqa: NPY002 - what the compiler knows
    first = np.zeros(transactions + 1, np.int64)
    f = np.zeros(transactions * _MOPS, np.int8)
    key = np.empty(transactions * _MOPS, np.int32)
    value = np.empty(transactions * _MOPS, np.int64)
    state = np.full((_REPLICAS, keys), -1, np.int64)
    written = np.zeros(keys, np.int64)
    mops = 0
    for txn in range(transactions):
        if txn % _SYNC == 0:
            to, of = np.random.randint(_REPLICAS), np.random.randint(_REPLICAS)  # noqa: NPY002
            # Values are numbered as they are written, so the last one wins everywhere.
            state[to] = np.maximum(state[to], state[of])
        replica = txn % processes % _REPLICAS
        for _ in range(np.random.randint(1, _MOPS + 1)):  # noqa: NPY002
            k = np.random.randint(keys)  # noqa: NPY002
            key[mops] = k
            if np.random.random() < 0.5:  # noqa: NPY002
                f[mops] = 1
                written[k] += 1
                state[replica, k] = written[k]
            value[mops] = state[replica, k]
            mops += 1
        first[txn + 1] = mops
    return first, f[:mops].copy(), key[:mops].copy(), value[:mops].copy()


def judged(path: Path, level: str) -> dict[str, object]:
    """Measure a process of its own that judges the file."""
    options = ["--model", level, "--engine", "local", "--limit", "600", "--json"]
    command = [sys.executable, "-c", _CHILD, "check", str(path), *options]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    wall = time.perf_counter() - began
    return {**json.loads(done.stdout), **json.loads(done.stderr.splitlines()[-1]), "wall_s": wall}


def figures(
    *,
    transactions: Sequence[int] = (1_000_000,),
    processes: Sequence[int] = (20,),
    keys: Sequence[int] = (100,),
    info: Sequence[float] = (0.0,),
) -> Iterator[Figure]:
    """Every level on every history, once to compile and once measured."""
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as folder:
        path = Path(folder) / "history.parquet"
        write_table(path, elle.history("rw-register", 1000, processes=20))
        for level in GOALS:
            judged(path, level)
        for count, crew, share in itertools.product(transactions, processes, info):
            write_table(path, elle.history("rw-register", count, processes=crew, info=share))
            lost = f", {share:.0%} of unknown outcome" if share else ""
            yield from _measured(path, f"serializable store: {count:,} transactions, {crew} processes{lost}", count)
        for count, crew, hot in itertools.product(transactions, processes, keys):
            write_table(path, causal_history(count, processes=crew, keys=hot))
            yield from _measured(path, f"causal store: {count:,} transactions, {crew} processes, {hot} keys", count)


def _measured(path: Path, name: str, count: int) -> Iterator[Figure]:
    for level, (cpu, memory) in GOALS.items():
        took = judged(path, level)
        assert took["valid"] is True, took
        scale = count / 1_000_000
        yield Figure("weak", f"{level}, {name}: process", float(took["cpu_s"]), "s CPU", f"≤ {cpu * scale:g}")  # type: ignore[arg-type]
        yield Figure("weak", f"{level}, {name}: from start to end", float(took["wall_s"]), "s", f"≤ {cpu * scale:g}")  # type: ignore[arg-type]
        yield Figure("weak", f"{level}, {name}: memory", float(took["memory_gb"]), "GB", f"≤ {memory * scale:g}")  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--processes", type=int, nargs="+", default=[20])
    parser.add_argument("--keys", type=int, nargs="+", default=[100])
    parser.add_argument("--info", type=float, nargs="+", default=[0.0])
    options = parser.parse_args()
    facts = machine()
    print_table(
        figures(transactions=options.transactions, processes=options.processes, keys=options.keys, info=options.info),
        facts,
    )


if __name__ == "__main__":
    main()
