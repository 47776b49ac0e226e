"""Simulated operations a second, and small runs a minute: `python -m benchmarks.simulation`.

A simulated cluster of three nodes carries out the workload `quorum` (reads and writes at QUORUM, replication factor 3), with
journals, observer and final readings, as in any run; one process, one core. A small run has about 100 operations.

`python -m benchmarks.simulation --spark` measures a swarm on one and on two Spark workers, by the wall clock: on a machine that does
nothing else.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import orjson

from benchmarks.figures import Figure, machine, print_table
from schemaquake.harness.history.journal import EVENT_JOURNALS
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.run.conductor import Conductor
from schemaquake.results.engines.engine import choose
from schemaquake.results.swarm.one_seed import row_of
from schemaquake.results.swarm.sweep import Order, Swarm

GOAL_OPERATIONS = 25_000
"""A second and core: 50,000 on two."""
SMALL_RUNS = 40
WARM = range(1000, 1020)
"""Seeds of small runs before those that are measured: a swarm loads its checkers once, and judges thousands."""
SWARM = Order(first=0, last=200, systems=("simulated:cassandra-5.0", "simulated:cassandra-6.0"))


def plan(system: str, *, rate: float, seconds: float, seed: int) -> Plan:
    return Plan(
        system=system,
        workloads=("quorum",),
        cluster="simulated",
        rate=rate,
        time_limit_s=seconds,
        seed=seed,
        restart="none",
    )


def carry_out(one: Plan, folder: Path) -> tuple[int, float]:
    """Return the number of operations of a run, and the CPU seconds that it took."""
    folder.mkdir()
    (folder / "plan.json").write_bytes(orjson.dumps(one.to_json()))
    began = time.process_time()
    Conductor(one, folder).run()
    seconds = time.process_time() - began
    lines = sum(path.read_bytes().count(b"\n") for path in (folder / "journals").glob(EVENT_JOURNALS))
    return lines // 2, seconds


def memory_of(one: Plan) -> float:
    """Return the most memory (MiB) of a process of its own that carries out and judges one run.

    The kernel counts what the process that starts it has as its own, so that comes first, while this one is small.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_memory_of, one).result()


def _memory_of(one: Plan) -> float:
    row_of(one)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def small(seed: int) -> Plan:
    return plan("simulated:cassandra-5.0", rate=50, seconds=1, seed=seed)


def figures() -> Iterator[Figure]:
    memory = memory_of(small(0))
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as name:
        folder = Path(name)
        carry_out(small(0), folder / "warm")
        for system in ("simulated:cassandra-5.0", "simulated:cassandra-6.0"):
            operations, seconds = carry_out(
                plan(system, rate=5000, seconds=8, seed=1), folder / system.partition(":")[2]
            )
            yield Figure(
                "simulation",
                f"{system}: reads and writes at QUORUM, one core",
                operations / seconds,
                "operations/s",
                f"≥ {GOAL_OPERATIONS:,}",
            )
        runs = [carry_out(small(seed), folder / f"small-{seed}") for seed in range(SMALL_RUNS)]
        yield Figure(
            "simulation",
            f"small runs of {sum(count for count, _ in runs) // SMALL_RUNS} operations, not judged, one core",
            60 * SMALL_RUNS / sum(seconds for _, seconds in runs),
            "runs/minute",
            "≥ 1,000",
        )
        for seed in WARM:
            row_of(small(seed))
        rows = [row_of(small(seed)) for seed in range(SMALL_RUNS)]
        yield Figure(
            "simulation",
            "the same, judged by every checker in memory, as a swarm does",
            60_000 * SMALL_RUNS / sum(row["ms"] for row in rows),
            "runs/minute",
            "≥ 1,000",
        )
        yield Figure("simulation", "the most memory of one of them, in a process of its own", memory, "MiB", "≤ 200")


def swarm_figures() -> Iterator[Figure]:
    """Measure a sweep on one Spark worker, then on two, each after a few seeds that load what the workers need."""
    seconds = {}
    for workers in (1, 2):
        with (
            tempfile.TemporaryDirectory(prefix="schemaquake-") as name,
            choose("spark", events=0, master=f"local[{workers}]") as engine,
        ):
            for _ in Swarm.begin(Path(name) / "warm", Order(first=0, last=20, systems=SWARM.systems)).run(engine):
                pass
            began = time.perf_counter()
            for _ in Swarm.begin(Path(name) / "measured", SWARM).run(engine):
                pass
            seconds[workers] = time.perf_counter() - began
        count = SWARM.last - SWARM.first
        yield Figure("swarm", f"seeds judged on {workers} Spark workers", 60 * count / seconds[workers], "seeds/minute")
    yield Figure("swarm", "two workers against one", seconds[1] / seconds[2], "times", "≥ 1.7")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description=__doc__)
    parser.add_argument("--spark", action="store_true", help="measure a swarm on one and on two Spark workers")
    options = parser.parse_args()
    facts = machine()
    print_table(swarm_figures() if options.spark else figures(), facts)


if __name__ == "__main__":
    main()
