"""Runs and events a second into the tables of a corpus: `python -m benchmarks.corpus [COPIES [EVENTS]]`.

One simulated run is carried out, judged, and multiplied: the copies have names, seeds and systems of their own, and share the operations and
the history by links, so that the runs take no space. With EVENTS, the history of the example is made that long before.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.figures import Figure, machine, print_table
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.run.conductor import Conductor
from schemaquake.harness.run.runner import read_outcome
from schemaquake.harness.sealed_json import dump_sealed, load_sealed
from schemaquake.results.corpus.asking import ask, questions
from schemaquake.results.corpus.building import Corpus
from schemaquake.results.engines.spark_session import spark_session
from schemaquake.results.judging.judge import judge
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import write_summary
from schemaquake.results.tables.pipeline import analyse

SYSTEMS = ("simulated:cassandra-5.0", "simulated:cassandra-6.0")
COPIES = 1_000
EVENTS = 10_000
FURTHER = 10


def example(folder: Path, events: int) -> Path:
    """A judged run with about so many events."""
    seconds = max(5.0, events / 2_000)
    plan = Plan(
        system=SYSTEMS[0], workloads=("create-table", "quorum"), nemeses=("partition",), cluster="simulated", seed=1,
        rate=500, time_limit_s=seconds, restart="none", options={"races": "1"},
    )  # fmt: skip
    folder.mkdir(parents=True)
    store = Store(folder)
    store.write_plan(plan)
    Conductor(plan, folder).run()
    store.recover()
    verdict = judge(store, engine="local")
    store.write_verdict(verdict)
    analyse(store, verdict, engine="local")
    write_summary(store, verdict, read_outcome(folder))
    return folder


def multiplied(run: Path, runs: Path, numbers: range) -> int:
    """Make copies of a run. Returns the events of all of them."""
    summary = load_sealed((run / "summary.json").read_bytes())
    plan = load_sealed((run / "plan.json").read_bytes())
    for number in numbers:
        folder = runs / f"run-{number:06}"
        (folder / "analysis").mkdir(parents=True)
        system = SYSTEMS[number % len(SYSTEMS)]
        own = {"system": system, "seed": number}
        day = f"2026-{1 + number // 28 % 12:02}-{1 + number % 28:02}T10:00:00+00:00"
        (folder / "summary.json").write_bytes(dump_sealed(summary | own | {"run": folder.name, "started": day}))
        (folder / "plan.json").write_bytes(dump_sealed(plan | own))
        for name in ("history.parquet", "analysis/operations.parquet"):
            os.link(run / name, folder / name)
    return pq.read_metadata(run / "history.parquet").num_rows * len(numbers)


def figures(copies: int = COPIES, events: int = EVENTS, master: str = "local[2]") -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as name:
        folder = Path(name)
        run = example(folder / "example", events)
        total = multiplied(run, folder / "runs", range(copies))
        with spark_session(master) as session:
            corpus = Corpus(session, f"file:{folder}/tables")
            began = time.perf_counter()
            added = sum(one.commit.runs for one in corpus.add([str(folder / "runs")]))
            took = time.perf_counter() - began
            assert added == copies
            about = f"{copies:,} runs of {total:,} events"
            size = sum(path.stat().st_size for path in (folder / "tables").rglob("*.parquet"))
            yield Figure("corpus", f"{about}, into tables", round(took, 1), "s")
            yield Figure("corpus", f"{about}, an event", round(took / total * 1e6, 2), "µs")
            yield Figure("corpus", f"{about}, an event in the tables", round(size / total, 2), "bytes")
            multiplied(run, folder / "runs", range(copies, copies + FURTHER))
            began = time.perf_counter()
            assert sum(one.commit.runs for one in corpus.add([str(folder / "runs")])) == FURTHER
            yield Figure("corpus", f"{FURTHER} further runs", round(time.perf_counter() - began, 1), "s")
            frames = corpus.frames()
            for question in questions():
                began = time.perf_counter()
                ask(frames, question)
                yield Figure("corpus", f"question {question}", round(time.perf_counter() - began, 1), "s")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        yield Figure("corpus", "peak memory of this process without Java", round(peak), "MiB")


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    print_table(list(figures(*numbers)), machine())
