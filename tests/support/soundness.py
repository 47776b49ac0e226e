"""Soundness: clean runs, and whether a run with one falsified fact is still called valid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
from crew_at_work import FEATURES
from lies import CleanRun, Lie
from perfect_races import perfect_run
from racing_context import racing_context

from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.records import HISTORY, LOGS, OBSERVATIONS, Records
from schemaquake.results.judging.judge import judge
from schemaquake.workloads.races.scenario import Scenario

__all__ = ["RECORDED", "RING", "RUNS", "UPGRADED", "Judge", "clean_run", "plan_of", "scenario_of"]

FOLDER = Path(__file__).parents[1] / "soundness"
RECORDED = Path(__file__).parents[1] / "recorded" / "clean"
UPGRADED = "cassandra-5.0.9-to-6.0-alpha2"
"""A run in which all nodes become another release, and one is killed as it starts as that."""
RING = "cassandra-6.0-alpha2-ring"
"""A run in which a node joins, one moves and one leaves."""
RUNS: Sequence[str] = ("perfect", "cassandra-5.0.9", "cassandra-6.0-alpha2", "cassandra-1.1.12", UPGRADED, RING)


def scenario_of(name: str) -> Path:
    """The file of the races of a run; the Thrift lines lack most kinds of objects."""
    return FOLDER / ("thrift.json" if name == "cassandra-1.1.12" else "rich.json")


def plan_of(name: str) -> Plan:
    """The plan of a run on three real nodes: the races, one after another."""
    races = {"scenario": str(scenario_of(name)), "mode": "single", "races": "1"}
    if name == RING:
        # One race sets a replication factor of 1, so no node may lose its disk.
        sizes = {"partitions": "2", "partition-rows": "4", "bootstrap.begins_s": "60"}
        return Plan(
            system="cassandra:6.0-alpha2",
            workloads=("scenario", "set", "descriptors"),
            nemeses=("bootstrap", "move", "decommission"),
            nodes=4,
            spares=1,
            seed=1,
            time_limit_s=240,
            ends_after_s=10,
            rate=1,
            restart="rolling",
            options=races | sizes,
        )
    if name != UPGRADED:
        return Plan(system=name.replace("-", ":", 1), workloads=("scenario",), nodes=3, seed=1, options=races)
    # Races are over before the first node is taken down; the set, at a slow rate, goes on.
    upgrade = {"to": "cassandra:6.0-alpha2", "aim": "kill@start", "rolling-upgrade.begins_s": "60"}
    return Plan(
        system="cassandra:5.0.9",
        workloads=("scenario", "set"),
        nemeses=("rolling-upgrade",),
        nodes=3,
        seed=1,
        time_limit_s=400,
        ends_after_s=10,
        rate=1,
        restart="rolling",
        options=races | upgrade,
    )


def clean_run(name: str) -> CleanRun:
    """The run of a perfect cluster, or one that a real cluster left."""
    if name == "perfect":
        context = racing_context(
            seed=1,
            nodes=("n1", "n2", "n3"),
            isolated=(),
            mode="single",
            races=1,
            replication_factor=3,
            features=FEATURES,
            options={"scenario": str(scenario_of(name))},
        )
        return CleanRun(perfect_run(Scenario(), context, line="5.0"), retold=True)
    tables = {"history": HISTORY, "observations": OBSERVATIONS, "logs": LOGS}
    read = {table: pq.read_table(RECORDED / name / f"{table}.parquet").cast(schema) for table, schema in tables.items()}
    return CleanRun(Records(**read))


class Judge:
    """Judges lies as a run is judged, by every checker.

    One that says False makes the verdict on the whole run False (`schemaquake.results.engines.combination`). So the checker
    that caught the last lie of a class is asked first, alone; only if it finds nothing, all are.
    """

    def __init__(self) -> None:
        self._caught_by: dict[str, str] = {}

    def valid(self, lie: Lie) -> bool | str:
        """The verdict on the run with that lie: True, False or "unknown". Raises NotThereError."""
        records = lie.tell()
        first = self._caught_by.get(lie.kind)
        if first is not None and judge(records, checkers=[first], engine="local").valid is False:
            return False
        verdict = judge(records, engine="local")
        for part in verdict.parts:
            if part.valid is False:
                self._caught_by[lie.kind] = part.checker
        return verdict.valid
