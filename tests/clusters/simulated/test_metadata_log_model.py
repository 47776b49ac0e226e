"""The metadata log of 6.0 is silent in the races that break 5.0, and refuses on the side without a majority."""

from __future__ import annotations

import orjson
import pytest
from simulated_runs import SIX, carry_out, plan_of, simulate

from schemaquake.harness.errors import PlanError


@pytest.mark.parametrize("mode", ["barrier", "partition"])
def test_races_break_nothing(tmp_path, mode):
    run = simulate(tmp_path, "racing-ddl", system=SIX, seed=7, options={"mode": mode, "races": "1"})
    assert (run.verdict.valid, dict(run.types)) == (True, {})


@pytest.mark.parametrize(
    "nemesis",
    ["partition", "kill", *(pytest.param(name, marks=pytest.mark.long) for name in ("pause", "rolling-restart"))],
)
def test_changes_keep_one_order_under_faults(tmp_path, nemesis):
    run = simulate(tmp_path, "schema-churn", nemesis, system=SIX, seed=3, rate=20, time_limit_s=40)
    assert dict(run.types) == {}
    assert run.notes("fault-begins")


def test_the_side_without_a_majority_does_not_commit(tmp_path):
    run = simulate(tmp_path, "drop-type", system=SIX, seed=2, options={"mode": "partition", "races": "2"})
    history = (run.folder / "journals").glob("events-0*.jsonl")
    errors = [line for path in history for line in path.read_text().splitlines() if "Could not perform commit" in line]
    assert errors
    assert all('"type":"info"' in line for line in errors)


def test_a_clock_that_is_behind_makes_a_copy_stale(tmp_path):
    run = simulate(tmp_path, "schema-churn", "clock", system=SIX, seed=3, rate=20, time_limit_s=60)
    # A copy that is behind shows definitions that nobody declared, too, at the end and on the way.
    assert "stale-schema-copy" in run.types
    assert set(run.types) <= {"stale-schema-copy", "unexplained-definition", "unexplained-sighting"}


def test_without_that_flaw_the_copy_is_right(tmp_path):
    options = {"bugs": "-copy-clock"}
    run = simulate(tmp_path, "schema-churn", "clock", system=SIX, seed=3, rate=20, time_limit_s=60, options=options)
    assert dict(run.types) == {}


@pytest.mark.parametrize("step", ["commit/k6@3", "commit/k7@3", "follow/l2@8", "follow/l4@6"])
def test_changes_go_on_after_a_proposer_died_with_its_entry(tmp_path, step):
    """Raises RunError if what is to be set up is not committed within a minute."""
    place = f"6.0/{step}"
    options = {"bugs": "none", "kill.at": place, "mode": "barrier", "races": "1"}
    plan = plan_of("drop-recreate,quorum", system=SIX, seed=556, nodes=5, time_limit_s=5, rate=4, restart="none", options=options)  # fmt: skip
    books = orjson.loads((carry_out(plan, tmp_path) / "simulation.json").read_bytes())
    assert [place.partition("@")[0], "kill", 1] in books["crashes"]


# ── epochs decided by Paxos ──────────────────────────────────────────────────────────────────────────────────────────

PAXOS = {"bugs": "none", "log": "paxos"}


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        pytest.param(step, fault, marks=() if (step, fault) == ("p3", "kill") else pytest.mark.long)
        for step in ("p1", "p2", "p3", "a1", "a2")
        for fault in ("kill", "pause", "cut")
    ],
)
def test_an_epoch_is_decided_once_whatever_falls_between_its_steps(tmp_path, step, fault):
    place = f"6.0/paxos/{step}"
    options = PAXOS | {f"{fault}.at": f"{place}@14,{place}@30,{place}@31:n2"}
    run = simulate(tmp_path, "schema-churn", system=SIX, seed=2, rate=20, time_limit_s=20, options=options)
    assert dict(run.types) == {}
    assert any(passage[0] == place for passage in run.books["passages"])
    if fault != "cut":
        assert any(crash[:2] == [place, fault] for crash in run.books["crashes"])


def test_a_minority_decides_nothing_by_paxos_either(tmp_path):
    options = PAXOS | {"mode": "partition", "races": "1"}
    run = simulate(tmp_path, "drop-type", system=SIX, seed=2, options=options)
    assert dict(run.types) == {}
    history = (run.folder / "journals").glob("events-0*.jsonl")
    assert any("Could not perform commit" in path.read_text() for path in history)


def test_without_paxos_no_message_of_it_is_sent(tmp_path):
    options = {"bugs": "none", "mode": "barrier", "races": "1"}
    folder = carry_out(plan_of("create-table", system=SIX, options=options, restart="none"), tmp_path)
    assert b"6.0/paxos" not in (folder / "simulation.json").read_bytes()
    with pytest.raises(PlanError, match="a register or paxos"):
        carry_out(plan_of("create-table", system=SIX, options={"log": "raft"}), tmp_path / "raft")
