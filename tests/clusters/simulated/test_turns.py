"""Changes one after another, by the protocol of designs without an order of their own (`-O order=turns`): each step is passed, and nothing is found."""

from __future__ import annotations

import pytest
from simulated_runs import FIVE, simulate

from schemaquake.clusters.simulated.provider import list_habits
from schemaquake.harness.errors import PlanError

TURNS = {"bugs": "none", "order": "turns"}
STEPS = {
    "simulated:cassandra-0.7": {"0.7/change/c3", "0.7/apply/a6"},
    "simulated:cassandra-1.1": {"1.1/change/c2", "1.1/merge/m6"},
    "simulated:cassandra-3.11": {"1.1/change/c2", "1.1/merge/m6"},
    FIVE: {"4.0/apply/e8", "4.0/merge/p6"},
}


@pytest.mark.parametrize(
    "system", [pytest.param(each, marks=() if each == FIVE else pytest.mark.long) for each in STEPS]
)
def test_the_protocol_is_carried_out_and_silent(tmp_path, system):
    run = simulate(tmp_path, "schema-churn", "kill", system=system, seed=3, options=TURNS, time_limit_s=12, rate=6)
    assert (run.verdict.valid, dict(run.types)) == (True, {})
    passed = {step for step, *_ in run.books["passages"]}
    assert passed >= STEPS[system]


@pytest.mark.long
def test_both_sides_of_a_cut_do_not_change_the_schema_at_once(tmp_path):
    options = TURNS | {"mode": "partition", "races": "2"}
    run = simulate(tmp_path, "drop-type", system=FIVE, seed=7, options=options)
    assert (run.verdict.valid, dict(run.types)) == (True, {})


def test_a_node_that_joins_has_the_schema_before_rows_are_streamed_to_it(tmp_path):
    run = simulate(
        tmp_path, "quorum", "bootstrap", system=FIVE, seed=1, options=TURNS, spares=1, replication_factor=1, time_limit_s=15, rate=10
    )  # fmt: skip
    assert (run.verdict.valid, dict(run.types)) == (True, {})
    (joined,) = [note for note in run.notes("bootstrap") if "effect" in note]
    assert joined["effect"]["attempts"][-1]["outcome"] == "ok"


def test_swarms_draw_it_where_a_design_has_no_order():
    assert list_habits(FIVE) == {"order": ("sequencer", "turns")}
    assert "order" not in list_habits("simulated:scylladb-6.2")


def test_another_word_is_refused(tmp_path):
    with pytest.raises(PlanError, match="order=chance"):
        simulate(tmp_path, "quorum", system=FIVE, options={"order": "chance"})
