"""Runs on simulated clusters in this process, judged by every checker."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.verdict import Verdict
from schemaquake.harness.run.conductor import Conductor
from schemaquake.results.judging.judge import judge
from schemaquake.results.store.store import Store

FIVE = "simulated:cassandra-5.0"
SIX = "simulated:cassandra-6.0"
SCYLLA = "simulated:scylladb-6.2"
RING_FLAWS = {
    *("gossip-pending", "replaced-from-one", "skip-streamed", "unstreamed", "old-replica-only", "other-placements"),
    "own-place-at-once",
    *(
        "epoch-skipped",
        "stream-any",
        "no-barrier",
        "weak-barrier",
        "no-epoch-check",
        "no-lock",
        "early-stream",
        "no-fence",
    ),
}
"""Flaws that only a change of the ring shows."""
LOSS_FLAWS = {"wrong-founder", "group-kept"}
"""Flaws that only the recovery from a lost majority shows (`test_lost_majority`)."""
OUTCOME = {"completed": True, "error": None, "exit_code": 0}


@dataclass
class SimulatedRun:
    folder: Path
    verdict: Verdict

    @property
    def types(self) -> Counter[str]:
        return Counter(anomaly.type for anomaly in self.verdict.anomalies)

    @property
    def books(self) -> Any:
        return orjson.loads((self.folder / "simulation.json").read_bytes())

    def notes(self, f: str) -> list[Any]:
        lines = (self.folder / "journals" / "events-conductor.jsonl").read_bytes().splitlines()
        events = [orjson.loads(line) for line in lines]
        return [orjson.loads(event["value"]) for event in events if event["f"] == f]


def plan_of(workload: str, *nemeses: str, system: str = FIVE, seed: int = 1, options=None, **named) -> Plan:
    return Plan(
        system=system,
        workloads=tuple(workload.split(",")),
        nemeses=nemeses,
        cluster="simulated",
        seed=seed,
        options=options or {},
        **named,
    )


def carry_out(plan: Plan, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_bytes(orjson.dumps(plan.to_json()))
    Conductor(plan, folder).run()
    (folder / "outcome.json").write_bytes(orjson.dumps(OUTCOME))
    return folder


def simulate(folder: Path, workload: str, *nemeses: str, **named) -> SimulatedRun:
    store = Store(carry_out(plan_of(workload, *nemeses, **named), folder))
    store.recover()
    return SimulatedRun(store.folder, judge(store, engine="local"))


def simulate_a_join(folder: Path, **named) -> SimulatedRun:
    """A fifth node joins four, and takes over rows of one replica each, which are written all the while."""
    return simulate(
        folder,
        "quorum",
        "bootstrap",
        nodes=4,
        spares=1,
        replication_factor=1,
        seed=2,
        rate=60,
        time_limit_s=20,
        **named,
    )
