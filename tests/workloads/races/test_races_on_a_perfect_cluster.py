"""Every race of every line, on a cluster that is perfect: whatever checkers then find is their own mistake.

And the twin: the same run, in which a node lost sight of what one race made, is found out by its race.
"""

from __future__ import annotations

import orjson
import pyarrow as pa
import pytest
from perfect_races import perfect_run
from racing_context import racing_context
from told_by_eras import LINES

from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness.history.pairing import pair
from schemaquake.harness.model.records import OBSERVATIONS, Records
from schemaquake.harness.model.verdict import Verdict
from schemaquake.results.judging.judge import judge
from schemaquake.results.tables.races import tabulate_races
from schemaquake.workloads.races.options import Mode
from schemaquake.workloads.races.racing_ddl import RacingDdl

VERSIONS = {"0.7": "0.7.10", "1.0": "1.0.12", "1.1": "1.1.12", "1.2": "1.2.19", "2.0": "2.0.17", "2.2": "2.2.19"}
VERSIONS |= {"3.11": "3.11.19", "5.0": "5.0.9"}


def ran(line: str, mode: Mode, *, number: int = 2, until_poisoned: bool = False) -> Records:
    features = recipe_for(parse_system(f"cassandra:{VERSIONS[line]}")).features
    context = racing_context(
        seed=7,
        nodes=("n1", "n2", "n3"),
        mode=mode,
        races=number,
        first_race=3,
        until_poisoned=until_poisoned,
        features=features,
    )
    return perfect_run(RacingDdl(), context, line=line)


def judged(records: Records) -> Verdict:
    return judge(records, engine="local", limit_s=60)


@pytest.mark.parametrize("mode", ["barrier", "single"])
@pytest.mark.parametrize("line", LINES)
def test_no_race_breaks_a_perfect_cluster_in_any_era(line: str, mode: Mode) -> None:
    records = ran(line, mode, until_poisoned=mode == "barrier")
    verdict = judged(records)
    assert not verdict.anomalies, verdict.anomalies[0].explanation
    assert verdict.valid is True, verdict.reason
    table = tabulate_races(records.history, pair(records.history), verdict.anomalies)
    assert set(table["number"].to_pylist()) == {3, 4}
    assert not any(table["broken"].to_pylist())


@pytest.mark.parametrize("line", LINES)
def test_a_canary_that_a_node_has_lost_is_the_damage_of_the_last_race(line: str) -> None:
    records = ran(line, "barrier", number=1, until_poisoned=True)
    rows = [
        row
        for row in records.observations.to_pylist()
        if (row["node"], row["keyspace"], row["name"]) != ("n2", "sq_canary", "create_table_003")
    ]
    verdict = judged(Records.of(records.history, pa.Table.from_pylist(rows, schema=OBSERVATIONS), records.logs))
    assert verdict.valid is False
    assert {key for anomaly in verdict.anomalies for key in anomaly.objects} == {"sq_canary.create_table_003"}
    table = tabulate_races(records.history, pair(records.history), verdict.anomalies).to_pylist()
    assert [row["broken"] for row in table] == [False] * (len(table) - 1) + [True]


def test_what_is_planted_is_what_the_workload_asked_for() -> None:
    history = ran("2.0", "barrier", until_poisoned=True).history.to_pylist()
    outcomes = {(event["f"], event["type"]) for event in history if event["process"] >= 0}
    assert {("know-table", "ok"), ("insert", "ok"), ("insert", "fail"), ("read-rows", "ok")} <= outcomes
    assert {("create-table", "fail"), ("drop-column", "ok"), ("drop-keyspace", "ok")} <= outcomes
    assert [e for e in history if e["f"] == "read-rows" and e["type"] == "ok" and orjson.loads(e["value"])["rows"]]
