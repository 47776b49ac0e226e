"""Speed at which transactions are judged: `python -m benchmarks.elle [--transactions MILLIONS]... [--processes P]... [--info SHARE]...`.

Histories of a simulated store that is strictly serializable, written to Parquet and judged by processes of their own:
seconds of CPU of the check alone and the most memory its process took, then the whole command, which starts, reads the
file and loads what was compiled. `python -m benchmarks elle` asks how all of it grows, besides.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figures import Figure, machine, print_table
from schemaquake.harness.compiled import compiled
from schemaquake.harness.model.records import HISTORY, MOPS
from schemaquake.results.store.parquet_options import parquet_options

_ACTIVE = 10  # keys in use at any time
_WRITES = 32  # of one key, before another one takes its place
_MOPS = 4  # of one transaction at most
_TYPES = ("invoke", "ok", "fail", "info")
_F = ("r", "append", "w")
_ROW_GROUP = 1 << 17  # rows, as a run of our own has them


@dataclass(frozen=True)
class Goal:
    """Goals: seconds of CPU for the check, GB, seconds of the wall for the whole command."""

    cpu_s: float
    memory_gb: float
    wall_s: float | None = None


GOALS = {
    ("list-append serializable", 1): Goal(1.0, 1.5, 3.0),
    ("list-append strict-serializable", 1): Goal(1.0, 1.5, 3.0),
    ("list-append strict-serializable", 10): Goal(12, 8),
    ("rw-register serializable", 1): Goal(1.5, 1.5),
    ("rw-register strict-serializable, linearizable keys", 1): Goal(3.0, 3.0),
}
"""By question and millions of transactions."""

_CHILD = """
import json, re, sys, time
from schemaquake.harness.history.lean_arrow import lean_arrow
lean_arrow()
from pathlib import Path
from schemaquake.results.formats.reading import read_history
began = time.process_time()
history = read_history(Path(sys.argv[1]))
read = time.process_time()
from schemaquake.checkers.elle.list_append import check_list_append
from schemaquake.checkers.elle.rw_register import check_rw_register
options = json.loads(sys.argv[3])
check = {"list-append": check_list_append, "rw-register": check_rw_register}[sys.argv[2]]
check(history.slice(0, 1000), limit_s=600, **options)
loaded = time.process_time()
verdict = check(history, limit_s=600, **options)
done = time.process_time()
# Not by getrusage, which has the peak of the process that started this one, too.
peak = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())
print(json.dumps({
    "valid": verdict.valid, "reason": verdict.reason, "anomalies": verdict.figures["anomaly-types"],
    "parts": {name: value for name, value in verdict.figures.items() if name.endswith("_s")},
    "read_cpu_s": read - began, "load_cpu_s": loaded - read, "check_cpu_s": done - loaded,
    "memory_gb": int(peak[1]) / 2**20,
}))
"""


@dataclass(frozen=True)
class Simulated:
    """History of a strictly serializable store: rows are events, `first` and `read_from` delimit what belongs to what."""

    lists: bool
    process: npt.NDArray[np.int32]
    type: npt.NDArray[np.int8]
    transaction: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    f: npt.NDArray[np.int8]
    key: npt.NDArray[np.int32]
    value: npt.NDArray[np.int64]
    read_from: npt.NDArray[np.int64]
    elements: npt.NDArray[np.int64]

    def events(self, begin: int, end: int) -> pa.Table:
        """Some of the rows as a history (`HISTORY`)."""
        kind, transaction = self.type[begin:end], self.transaction[begin:end]
        # Each event's micro-operations: of an invocation without what was read.
        lengths = np.diff(self.first)[transaction]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        mop = np.repeat(self.first[:-1][transaction] - starts[:-1], lengths) + np.arange(starts[-1])
        asks = np.repeat((kind == 0) | (kind == 3), lengths)
        reads = self.f[mop] == 0
        empty = asks | ~reads if self.lists else np.ones(len(mop), bool)
        sizes = np.where(empty, 0, self.read_from[mop + 1] - self.read_from[mop])
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        chosen = np.repeat(self.read_from[:-1][mop] - offsets[:-1], sizes) + np.arange(offsets[-1])
        lists = pa.ListArray.from_arrays(
            pa.array(offsets.astype(np.int32)), pa.array(self.elements[chosen]), mask=pa.array(empty)
        )
        parts = [
            pa.DictionaryArray.from_arrays(pa.array(self.f[mop].astype(np.int32)), pa.array(_F)).cast(pa.string()),
            pa.array(self.key[mop].astype(np.int64)),
            pa.array(self.value[mop], mask=reads if self.lists else reads & (asks | (self.value[mop] < 0))),
            lists,
        ]
        struct = pa.StructArray.from_arrays(parts, fields=list(MOPS.value_type))
        rows = np.arange(begin, end)
        columns = {
            "index": pa.array(rows),
            "time": pa.array(rows * 1000),
            "process": pa.array(self.process[begin:end]),
            "type": pa.DictionaryArray.from_arrays(pa.array(kind.astype(np.int32)), pa.array(_TYPES)),
            "f": pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), pa.array(["txn"])),
            "mops": pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), struct).cast(MOPS),
        }
        filled = [columns.get(field.name, pa.nulls(len(rows), field.type)) for field in HISTORY]
        return pa.Table.from_arrays(filled, schema=HISTORY)


def simulated(kind: str, transactions: int, *, processes: int, seed: int = 1, info: float = 0.0) -> Simulated:
    """Transactions of a strictly serializable store; a share of `info` of them never learn their outcome."""
    return Simulated(kind == "list-append", *_simulate(transactions, processes, seed, info, kind == "list-append"))


def history(kind: str, transactions: int, *, processes: int, seed: int = 1, info: float = 0.0) -> pa.Table:
    """The same as one table (`HISTORY`)."""
    store = simulated(kind, transactions, processes=processes, seed=seed, info=info)
    return store.events(0, len(store.process))


def write_history(path: Path, kind: str, transactions: int, *, processes: int, info: float = 0.0) -> None:
    """The same as Parquet, a row group at a time: of ten million transactions the table would not fit in memory twice."""
    store = simulated(kind, transactions, processes=processes, info=info)
    with pq.ParquetWriter(path, HISTORY, **parquet_options(HISTORY)) as writer:
        for begin in range(0, len(store.process), _ROW_GROUP):
            writer.write_table(store.events(begin, min(begin + _ROW_GROUP, len(store.process))))


@compiled
def _simulate(transactions, processes, seed, info, lists):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, C901, PLR0912, PLR0915 - a compiled loop
    np.random.seed(seed)  # noqa: NPY002 - what the compiler knows
    rows = 2 * transactions
    row_process = np.empty(rows, np.int32)
    row_type = np.empty(rows, np.int8)
    row_txn = np.empty(rows, np.int64)
    first = np.zeros(transactions + 1, np.int64)
    most = transactions * _MOPS
    f = np.empty(most, np.int8)
    key = np.empty(most, np.int32)
    value = np.full(most, -1, np.int64)
    read_from = np.zeros(most + 1, np.int64)
    active = np.arange(_ACTIVE)
    written = np.zeros(most + _ACTIVE, np.int64)  # values handed out, by key
    count = np.zeros(most + _ACTIVE, np.int64)  # values there, by key
    state = np.empty((most // 8 + 64) * _WRITES if lists else most + _ACTIVE, np.int64)
    state[:] = -1
    next_key = _ACTIVE
    phase = np.zeros(processes, np.int8)
    open_txn = np.empty(processes, np.int64)
    name = np.arange(processes)
    length = np.zeros(most, np.int64)
    row = 0
    txn = 0
    mops = 0
    names = processes
    while row < rows:
        p = np.random.randint(processes)  # noqa: NPY002
        if phase[p] == 0:
            if txn == transactions:
                continue
            first[txn] = mops
            for _ in range(np.random.randint(1, _MOPS + 1)):  # noqa: NPY002
                place = np.random.randint(_ACTIVE)  # noqa: NPY002
                k = active[place]
                key[mops] = k
                f[mops] = 0
                if np.random.random() < 0.5:  # noqa: NPY002
                    f[mops] = 1 if lists else 2
                    written[k] += 1
                    value[mops] = written[k]
                    if written[k] == _WRITES:
                        active[place] = next_key
                        next_key += 1
                mops += 1
            first[txn + 1] = mops
            open_txn[p] = txn
            row_process[row], row_type[row], row_txn[row] = name[p], 0, txn
            row += 1
            txn += 1
            phase[p] = 1
        elif phase[p] == 1:
            for at in range(first[open_txn[p]], first[open_txn[p] + 1]):
                k = key[at]
                if f[at] == 0:
                    if lists:
                        length[at] = count[k]
                    else:
                        value[at] = state[k]
                elif lists:
                    state[k * _WRITES + count[k]] = value[at]
                    count[k] += 1
                else:
                    state[k] = value[at]
            phase[p] = 2
        else:
            unknown = np.random.random() < info  # noqa: NPY002
            row_process[row], row_type[row], row_txn[row] = name[p], 3 if unknown else 1, open_txn[p]
            row += 1
            phase[p] = 0
            if unknown:
                name[p] = names
                names += 1
    for at in range(mops):
        read_from[at + 1] = read_from[at] + (length[at] if f[at] == 0 else 0)
    elements = np.empty(read_from[mops], np.int64)
    for at in range(mops):
        for n in range(read_from[at + 1] - read_from[at]):
            elements[read_from[at] + n] = state[key[at] * _WRITES + n]
    return (
        row_process, row_type, row_txn, first, f[:mops].copy(), key[:mops].copy(), value[:mops].copy(),
        read_from[: mops + 1].copy(), elements,
    )  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A question about a history. `info`: the share of transactions of unknown outcome."""

    question: str
    millions: float = 1
    processes: int = 20
    info: float = 0

    @property
    def kind(self) -> str:
        """list-append or rw-register."""
        return self.question.split()[0]

    @property
    def models(self) -> str:
        return "strict-serializable" if "strict" in self.question else "serializable"

    @property
    def linearizable_keys(self) -> bool:
        return self.question.endswith("linearizable keys")

    def __str__(self) -> str:
        unknown = f", {self.info:.0%} of unknown outcome" if self.info else ""
        return f"{self.question}: {self.millions:g} M transactions, {self.processes} processes{unknown}"


_LISTS, _LISTS_STRICT, _REGISTERS, _REGISTERS_STRICT = (
    "list-append serializable",
    "list-append strict-serializable",
    "rw-register serializable",
    "rw-register strict-serializable, linearizable keys",
)
CASES = (
    *(Case(question) for question in (_LISTS, _LISTS_STRICT, _REGISTERS, _REGISTERS_STRICT)),
    # How it grows: with length, with concurrency, with what nobody knows.
    *(Case(_LISTS_STRICT, millions) for millions in (2, 5, 10)),
    *(Case(_REGISTERS_STRICT, millions) for millions in (2, 5)),
    *(Case(question, 1, processes) for processes in (5, 100) for question in (_LISTS_STRICT, _REGISTERS_STRICT)),
    *(Case(question, 1, 20, info) for info in (0.01, 0.1) for question in (_LISTS_STRICT, _REGISTERS_STRICT)),
)


def judged(path: Path, case: Case) -> dict[str, object]:
    """Measure a process of its own that judges the file: the check apart from everything else."""
    options: dict[str, object] = {"models": [case.models]}
    if case.linearizable_keys:
        options["linearizable_keys"] = True
    command = [sys.executable, "-c", _CHILD, str(path), case.kind, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def commanded(path: Path, case: Case) -> tuple[float, float]:
    """Seconds of the wall and of CPU that the command takes, from its start to its end."""
    options = ["--model", case.kind, "--consistency-models", case.models, "--engine", "local"]
    options += ["--linearizable-keys"] if case.linearizable_keys else []
    command = [sys.executable, "-m", "schemaquake.harness.cli.command_line", "check", str(path), *options]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, capture_output=True, check=True, cwd=Path(__file__).parents[1])
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def figures(cases: Sequence[Case] = CASES) -> Iterator[Figure]:
    """Every case; histories that several cases share are made once."""
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as folder:
        made: dict[tuple[object, ...], list[Case]] = {}
        for case in cases:
            made.setdefault((case.kind, case.millions, case.processes, case.info), []).append(case)
        for (kind, millions, processes, info), asked in made.items():
            path = Path(folder) / "history.parquet"
            command = [sys.executable, "-m", "benchmarks.elle", "--write", str(path), f"{kind}", f"{millions}"]
            # By a process of its own, whose memory is gone with it.
            subprocess.run([*command, f"{processes}", f"{info}"], check=True, cwd=Path(__file__).parents[1])
            for case in asked:
                yield from _measured(path, case)


def _measured(path: Path, case: Case) -> Iterator[Figure]:
    took = judged(path, case)
    assert took["valid"] is True, took
    print(json.dumps(took), file=sys.stderr)
    goal = GOALS.get((case.question, int(case.millions))) if case == Case(case.question, case.millions) else None
    wall, cpu = commanded(path, case)
    yield Figure("elle", f"{case}: check", float(took["check_cpu_s"]), "s CPU", f"≤ {goal.cpu_s:g}" if goal else "")  # type: ignore[arg-type]
    yield Figure("elle", "the same, memory", float(took["memory_gb"]), "GB", f"≤ {goal.memory_gb:g}" if goal else "")  # type: ignore[arg-type]
    yield Figure("elle", "the same, the whole command", wall, "s", f"≤ {goal.wall_s:g}" if goal and goal.wall_s else "")
    yield Figure("elle", "the same, the whole command", cpu, "s CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=float, nargs="+", default=[1], metavar="MILLIONS")
    parser.add_argument("--processes", type=int, nargs="+", default=[20])
    parser.add_argument("--info", type=float, nargs="+", default=[0.0])
    parser.add_argument("--write", nargs=5, metavar=("FILE", "KIND", "MILLIONS", "PROCESSES", "INFO"))
    options = parser.parse_args()
    if options.write:
        file, kind, millions, processes, info = options.write
        count = int(float(millions) * 1e6)
        write_history(Path(file), kind, count, processes=int(processes), info=float(info))
        return
    facts = machine()
    questions = (_LISTS, _LISTS_STRICT, _REGISTERS, _REGISTERS_STRICT)
    shapes = itertools.product(questions, options.transactions, options.processes, options.info)
    print_table(figures([Case(*shape) for shape in shapes]), facts)


if __name__ == "__main__":
    main()
