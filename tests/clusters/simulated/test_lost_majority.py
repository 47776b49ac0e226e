"""Group 0 is founded anew by those who are left when its majority is lost for good: silent, and named where a step of it is wrong."""

from __future__ import annotations

import pytest
from simulated_runs import SCYLLA, simulate

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
