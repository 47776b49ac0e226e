"""Speed at which events are recorded, merged, judged and analysed: `python -m benchmarks.pipeline [--events N] [--spark]`.

Recording is measured with clients that answer at once, two processes (as on a machine of two cores) with one and with
four workers each; what comes after it on a history of that making. Times are of the wall; every figure is of one pass.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.compute as pc

from benchmarks.figures import Figure, machine, print_table
from schemaquake.harness.ddl.rows import insert
from schemaquake.harness.history.journal import EVENT_JOURNALS, Journal, read_clock, start_clock
from schemaquake.harness.history.merge import merge_history
from schemaquake.harness.history.pairing import pair
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.records import OBSERVATIONS, Records, plain
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.model.verdict import Verdict, make_stats
from schemaquake.results.engines.engine import ENGINES
from schemaquake.results.judging.judge import judge
from schemaquake.results.store.store import Store
from schemaquake.results.tables.pipeline import analyse
from schemaquake.results.tables.rates import count_rates, measure_latencies
from schemaquake.results.tables.schema_timeline import tabulate_schema_timeline
from schemaquake.results.tables.timelines import tabulate_timelines

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
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - never late
        history = plain(records.history)
        acknowledged = history.filter(pc.and_(pc.equal(history["f"], "insert"), pc.equal(history["type"], "ok")))
        texts = len(set(acknowledged["value"].to_pylist()))
        return Verdict(valid=True, checker=self.name, stats=make_stats({"rows": texts}))


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
    return float(each * workers * PROCESSES / ((times[-1] - times[0]) / 1e9))  # without the start of the interpreters


def timed(action: Callable[[], T]) -> tuple[float, T]:
    """Seconds of the wall, and what came of it."""
    began = time.perf_counter()
    result = action()
    return time.perf_counter() - began, result


def figures(*, events: int = 1_000_000, engines: tuple[str, ...] = ("local",)) -> Iterator[Figure]:
    """Every stage that a history of so many events passes, in order; seconds are of all events together."""
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as name:
        folder = Path(name)
        for workers in (4, 1):
            journals = folder / f"{workers}" / "journals"
            rate = record(journals, workers=workers, operations=events // 2)
            what = f"recorded by {PROCESSES} processes of {workers} worker{'s' * (workers > 1)}, journals alone"
            yield Figure("pipeline", what, rate, "operations/s")
        store = Store(folder / "1")
        for stage, seconds in stages(store, engines):
            yield Figure("pipeline", f"{events:,} events: {stage}", seconds, "s")


def stages(store: Store, engines: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    """(what is done with the events, seconds)."""
    yield "journals -> history.parquet (recover)", timed(store.recover)[0]
    store.write_observations(OBSERVATIONS.empty_table())
    seconds, history = timed(store.read_history)
    yield "read history.parquet", seconds
    seconds, operations = timed(lambda: pair(history))
    yield "pair", seconds
    yield "rates", timed(lambda: count_rates(operations))[0]
    yield "latencies", timed(lambda: measure_latencies(operations))[0]
    yield "timelines", timed(lambda: tabulate_timelines(operations))[0]
    yield "schema timeline of nothing", timed(lambda: tabulate_schema_timeline(OBSERVATIONS.empty_table()))[0]
    checker: Any = Rows()
    for engine in engines:
        yield (
            f"judge, one checker, {KEYSPACES} keyspaces, {engine}",
            timed(partial(judge, store, checkers=[checker], engine=engine))[0],
        )
        yield (
            f"analyse (all tables, from file to file), {engine}",
            timed(partial(analyse, store, Verdict(valid=True, checker="all"), engine=engine))[0],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--spark", action="store_true", help="measure the Spark engine too")
    options = parser.parse_args()
    facts = machine()
    print_table(figures(events=options.events, engines=ENGINES[1:] if options.spark else ("local",)), facts)


if __name__ == "__main__":
    main()
