"""Group 0 is founded anew by those who are left when its majority is lost for good: silent, and named where a step of it is wrong.

While a majority is away for a time, a node that takes its own place waits for it, and nobody decides anything.
"""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from simulated_runs import SCYLLA, SIX, simulate

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.units import S

LOSS = {"lost-majority.nodes": "n2+n3", "lost-majority.begins-s": "8"}
BEHIND = LOSS | {"lost-majority.begins-s": "12", "lost-majority.behind": "true"}
SHORT = {"time_limit_s": 16, "rate": 4}


def lose(folder, *, seed, options, workload="schema-churn", **named):
    sizes = {"nodes": 4, "replication_factor": 4} | SHORT | named
    return simulate(folder, workload, "lost-majority", system=SCYLLA, seed=seed, options=options, **sizes)


def ended(run):
    """Return the outcomes of all attempts, in order, with what each was."""
    attempts = run.notes("lost-majority")[-1]["effect"]["attempts"]
    return [(one["command"].split()[0], one["outcome"]) for one in attempts]


def took_place_beside(run, away, back):
    """Return the moments (s) at which a node was gone and served again, and at which another one served in its own place."""
    logs = {name: [log.read_text() for log in sorted((run.folder / "nodes" / name).iterdir())] for name in (away, back)}
    gone, _ = logged(logs[back][1])
    _, returned = logged(logs[away][1])
    _, served = logged(logs[back][-1])
    return gone, returned, served


def logged(text):
    """Return the first and the last moment (s) of a server's start in its log."""
    found = [line.split()[3] for line in text.splitlines() if "CassandraDaemon" in line]
    return tuple(
        sum(float(part) * unit for part, unit in zip(each.replace(",", ".").split(":"), (3600, 60, 1), strict=True))
        for each in (found[0], found[-1])
    )


def acknowledged(run, begins_s, ends_s):
    """Return the schema changes that were acknowledged in a stretch of time, without those that found nothing to change."""
    history = pq.read_table(run.folder / "history.parquet").to_pylist()
    return [
        (row["f"], row["node"])
        for row in history
        if row["type"] == "ok" and row["f"] in SCHEMA_CHANGES and begins_s < row["time"] / S < ends_s
    ]


@pytest.mark.parametrize(
    ("system", "options"),
    [
        (SIX, {"kill.at": "6.0/boot/b1@1:n2"}),
        (SIX, {"kill.at": "6.0/boot/b1@1:n2", "log": "paxos"}),
        (SCYLLA, {"kill.at": "group0/start/d1@1:n2"}),
    ],
    ids=["register", "paxos", "group0"],
)
def test_a_node_that_takes_its_own_place_waits_for_a_majority_of_the_others(tmp_path, system, options):
    own = {"replace.node": "n3", "replace.address": "same", "replace.begins-s": "6", "replace.limit-s": "60"}
    lasting = {"bugs": "none", "invariants": "checked", "fault.seconds": "14"}
    run = simulate(
        tmp_path,
        "schema-churn",
        "replace",
        system=system,
        nodes=3,
        rate=8.0,
        time_limit_s=30.0,
        restart="none",
        options={**own, **lasting, **options},
    )
    assert (run.verdict.valid, dict(run.types)) == (True, {})
    gone, returned, served = took_place_beside(run, "n2", "n3")
    assert gone < gone + 10 < returned < served
    assert acknowledged(run, 0, gone)
    assert acknowledged(run, gone + 1, returned - 2) == []  # one of three members has its log


def test_a_node_that_came_back_before_a_majority_heard_of_its_removal_stays(tmp_path):
    # One of two voters is dead: the request waits for the other one, and must not end with it.
    run = simulate(
        tmp_path,
        "schema-churn",
        "removenode",
        system=SCYLLA,
        nodes=2,
        replication_factor=2,
        options={"bugs": "none", "invariants": "checked", "removenode.limit-s": "20"},
        time_limit_s=20.0,
        rate=6.0,
        restart="none",
    )
    assert (run.verdict.valid, dict(run.types)) == (True, {})
    attempts = run.notes("removenode")[-1]["effect"]["attempts"]
    assert [(one["command"], one["outcome"]) for one in attempts] == [("remove n2", "info"), ("restart", "ok")]


def test_those_who_are_left_go_on_as_one_group(tmp_path):
    run = lose(tmp_path, seed=1, options=LOSS | {"bugs": "none", "lost-majority.behind": "false"})
    assert (run.verdict.valid, dict(run.types)) == (True, {})
    assert ended(run) == [("recover-group", "ok"), ("remove", "ok"), ("remove", "ok")]
    assert {step for step, *_ in run.books["passages"]} >= {f"group0/recovery/{step}" for step in ("y1", "y2", "y3")}


@pytest.mark.long
def test_one_alone_goes_on(tmp_path):
    run = lose(tmp_path, seed=1, options=LOSS | {"bugs": "none"}, nodes=3, replication_factor=3)
    assert (run.verdict.valid, dict(run.types)) == (True, {})


@pytest.mark.long
@pytest.mark.parametrize("step", ["y1", "y2", "y3"])
def test_a_kill_at_a_step_of_the_recovery_has_it_go_on(tmp_path, step):
    run = lose(tmp_path, seed=2, options=LOSS | {"bugs": "none", "kill.at": f"group0/recovery/{step}"})
    assert (run.verdict.valid, dict(run.types)) == (True, {})
    assert ended(run)[-3:] == [("recover-group", "ok"), ("remove", "ok"), ("remove", "ok")]
    assert [how for at, how, _ in run.books["crashes"] if at == f"group0/recovery/{step}"] == ["kill"]


def test_a_node_that_keeps_the_lost_group_is_named(tmp_path):
    run = lose(tmp_path, seed=1, options=LOSS | {"bug": "group-kept", "lost-majority.limit-s": "10"})
    assert "divided-group" in run.types


@pytest.mark.long
def test_a_founder_that_lacks_a_change_is_named(tmp_path):
    named = {"time_limit_s": 40, "rate": 6}
    run = lose(tmp_path / "bug", seed=4, options=BEHIND | {"bug": "wrong-founder"}, **named)
    assert run.types.keys() >= {"forgotten-change", "unlogged-change"}
    twin = lose(tmp_path / "none", seed=4, options=BEHIND | {"bugs": "none"}, **named)
    assert (twin.verdict.valid, dict(twin.types)) == (True, {})
