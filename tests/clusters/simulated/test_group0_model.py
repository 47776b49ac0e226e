"""Group 0 is silent in the races that break 5.0, refuses without a majority, and serves rows all the same."""

from __future__ import annotations

import orjson
import pytest
from simulated_runs import SCYLLA, simulate


def answers(run, f):
    paths = sorted((run.folder / "journals").glob("events-0*.jsonl"))
    events = [orjson.loads(line) for path in paths for line in path.read_text().splitlines()]
    return [event for event in events if event["f"] == f and event["type"] != "invoke"]


@pytest.mark.parametrize(("mode", "seed"), [("partition", 7), pytest.param("barrier", 7, marks=pytest.mark.long)])
def test_races_break_nothing(tmp_path, mode, seed):
    run = simulate(tmp_path, "racing-ddl", system=SCYLLA, seed=seed, options={"mode": mode, "races": "1"})
    assert (run.verdict.valid, dict(run.types)) == (True, {})


@pytest.mark.parametrize(
    "nemesis",
    ["kill", *(pytest.param(name, marks=pytest.mark.long) for name in ("partition", "pause", "rolling-restart"))],
)
def test_changes_keep_one_order_under_faults(tmp_path, nemesis):
    run = simulate(tmp_path, "schema-churn", nemesis, system=SCYLLA, seed=3, rate=20, time_limit_s=20)
    assert dict(run.types) == {}
    assert run.notes("fault-begins")
    elected = [step for step, *_ in run.books["passages"] if step == "raft/election/v3"]
    assert elected


def test_the_side_without_a_majority_changes_nothing_and_serves_rows(tmp_path):
    options = {"mode": "partition", "races": "2"}
    run = simulate(tmp_path, "drop-type", system=SCYLLA, seed=2, options=options)
    refused = [event for event in answers(run, "drop-type") if "read_barrier" in (event["error"] or "")]
    assert refused
    assert {event["type"] for event in refused} == {"fail"}
    assert dict(run.types) == {}


def test_readings_wait_for_a_barrier_and_show_the_log(tmp_path):
    run = simulate(tmp_path, "drop-type", system=SCYLLA, seed=1, options={"races": "1"})
    lines = (run.folder / "journals" / "observations-observer.jsonl").read_text().splitlines()
    rows = [orjson.loads(line) for line in lines]
    versions = [
        orjson.loads(row["definition"]) for row in rows if row["kind"] == "version" and row["phase"] == "settled"
    ]
    assert versions
    assert all(version["barrier"]["passed"] and len(version["group0"]["voters"]) == 3 for version in versions)
    assert any(row["kind"] == "log" and "CREATE TYPE" in row["definition"] for row in rows)
