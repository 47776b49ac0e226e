"""Speed at which races are run and the first anomaly is proven: `python -m benchmarks.races [RUN]`.

Derived from the folder of a run; without one, a run of every racing workload on 5.0.9 is made. An anomaly is proven
at the first moment at which the checkers, given what had been recorded until then and nothing else, say that the
cluster is invalid: to the operation while racing, to the phase elsewhere. Seconds count from the start of the run,
boot included.
"""

from __future__ import annotations

import argparse
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.figures import Figure, machine, print_table
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.records import Records
from schemaquake.results.judging.judge import judge
from schemaquake.results.runs.execution import carry_out
from schemaquake.results.store.store import Store

SYSTEM = "cassandra:5.0.9"
RACES = 4


def figures(folder: Path) -> Iterator[Figure]:
    store = Store(folder)
    records = store.records()
    plan = store.read_plan()
    phases = ends_of_phases(records.history)
    raced = _count(records.history, "race")
    began, ended = phases["main"]
    where = f"{plan.system}, {', '.join(plan.workloads)}"
    yield Figure("races", f"{raced} races, while racing: {where}", raced / ((ended - began) / 60), "races/min")
    last = max(end for _, end in phases.values())
    yield Figure("races", f"the same, boot, restart and readings included: {where}", raced / (last / 60), "races/min")
    proven = first_proof(records, phases)
    if proven is not None:
        phase, second, anomaly = proven
        yield Figure("races", f"start to first proven anomaly ({anomaly}, in {phase}): {where}", second, "s")


def ends_of_phases(history: pa.Table) -> Mapping[str, tuple[float, float]]:
    """phase → (begins, ends), in s since the run started, in the order of the run."""
    spans: dict[str, list[float]] = {}
    notes = history.filter(pc.equal(history["f"], "phase"))
    for time, value in zip(notes["time"].to_pylist(), notes["value"].to_pylist(), strict=True):
        spans.setdefault(_decoded(value)["phase"], []).append(time / 1e9)
    return {name: (span[0], span[1]) for name, span in spans.items() if len(span) == 2}


def first_proof(records: Records, phases: Mapping[str, tuple[float, float]]) -> tuple[str, float, str] | None:
    """(phase, second, type of an anomaly) of the first proof; None if there is none at all."""

    def proof(second: float) -> str | None:
        verdict = judge(until(records, second), engine="local", limit_s=30)
        return verdict.anomalies[0].type if verdict.valid is False else None

    for name, (begins, ends) in phases.items():
        anomaly = proof(ends)
        if anomaly is None:
            continue
        if name != "main":
            return name, ends, anomaly
        times = records.history["time"].to_numpy() / 1e9
        moments = [second for second in times if begins <= second <= ends]
        at = bisect_left(moments, True, key=lambda second: proof(second) is not None)
        second = moments[at] if at < len(moments) else ends
        return name, second, proof(second) or anomaly
    return None


def until(records: Records, second: float) -> Records:
    """Records of a run up to a moment: whole readings only. The logs are left out, since they were read at the end."""
    moment = int(second * 1e9)
    seen = records.observations
    readings = list(zip(*(seen[name].to_pylist() for name in ("node", "phase", "sample")), strict=True))
    finished: dict[tuple[str, str, int], int] = {}
    for reading, time in zip(readings, seen["time"].to_pylist(), strict=True):
        finished[reading] = max(time, finished.get(reading, 0))
    whole = pa.array([finished[reading] <= moment for reading in readings], pa.bool_())
    return Records.of(records.history.filter(pc.less_equal(records.history["time"], moment)), seen.filter(whole))


def _count(history: pa.Table, f: str) -> int:
    return int(pc.sum(pc.equal(history["f"], f)).as_py() or 0)


def _decoded(value: str) -> Any:
    return orjson.loads(value)


def run_of_every_race(runs: Path) -> Path:
    """The folder of a fresh run. Raises EnvironmentLacks if this machine cannot."""
    plan = Plan(
        system=SYSTEM, workloads=("racing-ddl",), options={"races": str(RACES)}, restart="together", settle_limit_s=10
    )
    finished = carry_out(plan, runs, limit_s=60)
    if not finished.completed:
        raise SystemExit(f"the run was not completed: {finished.error}")
    return finished.store.folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?", type=Path, help="the folder of a run")
    options = parser.parse_args()
    facts = machine()
    if options.run is not None:
        print_table(figures(options.run), facts)
        return
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as name:
        print_table(figures(run_of_every_race(Path(name))), facts)


if __name__ == "__main__":
    main()
