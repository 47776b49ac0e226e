"""How fast events are recorded, merged, judged and analysed: `python -m benchmarks.pipeline [--events N] [--spark]`.

Recording is measured with clients that answer at once, two processes (as on a machine of two cores) with one and with
four workers each; what comes after it on a history of that making. Times are of the wall; every figure is of one pass.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.compute as pc

from harness.history import pair
from harness.journal import EVENT_JOURNALS, Journal, merge_history, read_clock, start_clock
from harness.operations import Completion
from harness.records import OBSERVATIONS, Records, plain
from harness.rows import insert
from harness.steps import Invoke
from harness.verdict import Verdict
from results.engine import ENGINES
from results.judge import judge
from results.pipeline import analyse
from results.rates import latencies, rates
from results.schema_timeline import schema_timeline
from results.store import Store
from results.timelines import timelines

PROCESSES = 2
KEYSPACES = 50
T = TypeVar("T")


class NoClient:
    """Answers at once."""

    def invoke(self, operation: Invoke) -> Completion:
        return Completion(type="ok", value=operation.value)


@dataclass(frozen=True)
class Rows:
    """A checker that reads every event of its keyspace once."""

    name: str = "rows"
    scope: str = "keyspace"

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - never late
        history = plain(records.history)
        acknowledged = history.filter(pc.and_(pc.equal(history["f"], "insert"), pc.equal(history["type"], "ok")))
        texts = len(set(acknowledged["value"].to_pylist()))
        return Verdict(valid=True, checker=self.name, stats={"rows": texts})


def work(folder: Path, number: int, workers: int, operations: int) -> None:
    """One worker process: its journals, its threads."""
    started_ns = read_clock(folder)
    client = NoClient()

    def run(worker: int) -> None:
        process = number * workers + worker
        with Journal(folder / f"events-{process:04d}.jsonl", started_ns) as journal:
            for n in range(operations):
                step = insert(f"sq_{n * KEYSPACES // operations:03d}", "t", {"k": n, "v": process}, consistency="ONE")
                journal.event(process, "invoke", step.f, "n1", step.key, step.value, None, step.mops)
                done = client.invoke(step)
                journal.event(process, done.type, step.f, "n1", step.key, done.value, done.error, done.mops)

    threads = [threading.Thread(target=run, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def record(folder: Path, *, workers: int, operations: int) -> float:
    """Operations recorded a second, two events each, by all processes together."""
    start_clock(folder)
    context = multiprocessing.get_context("spawn")
    each = operations // (PROCESSES * workers)
    pool = [context.Process(target=work, args=(folder, n, workers, each)) for n in range(PROCESSES)]
    for process in pool:
        process.start()
    for process in pool:
        process.join()
        assert process.exitcode == 0
    times = merge_history(sorted(folder.glob(EVENT_JOURNALS)), 0)["time"].to_numpy()
    return each * workers * PROCESSES / ((times[-1] - times[0]) / 1e9)  # without the start of the interpreters


def timed(what: str, million: float, action: Callable[[], T]) -> T:
    began = time.perf_counter()
    result = action()
    took = time.perf_counter() - began
    print(f"{what:<58}{took:>10.2f} s{took / million:>12.2f} s", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--spark", action="store_true", help="measure the Spark engine too")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} before, Python {platform.python_version()}\n")
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), options.events, engines=ENGINES[1:] if options.spark else ("local",))


def measure(folder: Path, events: int, *, engines: tuple[str, ...]) -> None:
    print(f"{'recording, ' + str(PROCESSES) + ' processes':<58}{'operations a second':>24}")
    for workers in (4, 1):
        journals = folder / f"{workers}" / "journals"
        rate = record(journals, workers=workers, operations=events // 2)
        print(f"  {workers} worker{'s' * (workers > 1)} each{'':<44}{rate:>24,.0f}")
    store = Store(folder / "1")
    million = events / 1e6
    print(f"\n{f'{events:,} events':<58}{'in all':>12}{'a million':>14}")
    timed("journals -> history.parquet (recover)", million, store.recover)
    store.write_observations(OBSERVATIONS.empty_table())
    history = timed("read history.parquet", million, store.read_history)
    operations = timed("pair", million, lambda: pair(history))
    timed("rates", million, lambda: rates(operations))
    timed("latencies", million, lambda: latencies(operations))
    timed("timelines", million, lambda: timelines(operations))
    timed("schema timeline of nothing", million, lambda: schema_timeline(OBSERVATIONS.empty_table()))
    checker: Any = Rows()
    for engine in engines:
        timed(
            f"judge, one checker, {KEYSPACES} keyspaces, {engine}",
            million,
            lambda e=engine: judge(store, checkers=[checker], engine=e),
        )
        timed(
            f"analyse (all tables, from file to file), {engine}",
            million,
            lambda e=engine: analyse(store, Verdict(valid=True, checker="all"), engine=e),
        )


if __name__ == "__main__":
    main()
