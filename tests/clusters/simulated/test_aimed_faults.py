"""A kill or a pause between any two steps of a protocol leaves a sound design sound."""

from __future__ import annotations

import re

import pytest
from simulated_runs import FIVE, SCYLLA, SIX, plan_of, simulate

from schemaquake.clusters.simulated.aims import Strike, parse_end, parse_strikes
from schemaquake.clusters.simulated.models.gossiped_ring import GossipedRing
from schemaquake.clusters.simulated.models.group0 import Group0
from schemaquake.clusters.simulated.models.metadata_log import MetadataLog
from schemaquake.clusters.simulated.models.migrations import Migrations
from schemaquake.clusters.simulated.models.rows import Rows
from schemaquake.clusters.simulated.models.sequences import Sequences
from schemaquake.clusters.simulated.models.topology_coordinator import Coordinator
from schemaquake.clusters.simulated.provider import SimulatedProvider, list_steps
from schemaquake.harness.errors import PlanError

QUICK = {"6.0/commit/k4", "4.0/apply/e1", "group0/apply/g7b"}
RING = {*Sequences.steps, *GossipedRing.steps, *Coordinator.steps}
"""Steps that a change of the ring comes to (`test_ring_changes`)."""
CASES = [
    pytest.param(system, step, id=step, marks=() if step in QUICK else pytest.mark.long)
    for system, model in ((FIVE, Rows), (SIX, MetadataLog), (SCYLLA, Group0), ("simulated:cassandra-0.7", Migrations))
    for step in model.steps
    if step not in RING
]


@pytest.mark.parametrize(("system", "step"), CASES)
@pytest.mark.parametrize("fault", ["kill.at", "pause.at"])
def test_a_fault_at_a_step_breaks_nothing(tmp_path, system, step, fault):
    options = {"bugs": "none", fault: f"{step}@7"}
    run = simulate(tmp_path, "schema-churn", system=system, seed=3, options=options, rate=20, time_limit_s=15)
    assert dict(run.types) == {}


def test_the_server_at_the_step_is_the_one_that_falls(tmp_path):
    run = simulate(
        tmp_path, "schema-churn", seed=3, options={"kill.at": "4.0/apply/e5"}, rate=20, time_limit_s=15, restart="none"
    )
    assert ["4.0/apply/e5", "kill", 1] in run.books["crashes"]


def test_another_node_than_the_one_at_the_step_falls(tmp_path):
    options = {"kill.at": "4.0/apply/e5@2:n3"}
    run = simulate(tmp_path, "schema-churn", seed=3, options=options, rate=20, time_limit_s=15, restart="none")
    starts = {node.name: len(list(node.iterdir())) for node in (run.folder / "nodes").iterdir()}
    assert starts == {"n1": 1, "n2": 1, "n3": 2}


def test_a_node_that_is_down_when_a_second_fault_would_take_it_down_comes_back(tmp_path):
    options = {"kill.at": "4.0/apply/e5@2:n3,4.0/apply/e5@3:n3", "fault.seconds": "5"}
    run = simulate(tmp_path, "schema-churn", seed=3, options=options, rate=20, time_limit_s=15, restart="none")
    assert run.notes("node-died") == []
    assert len(list((run.folder / "nodes" / "n3").iterdir())) == 2


@pytest.mark.parametrize("system", [FIVE, SCYLLA])
def test_a_spare_that_has_not_joined_is_not_started_by_a_fault(tmp_path, system):
    step = "4.0/apply/e5" if system == FIVE else "group0/change/g3"
    options = {"kill.at": f"{step}:n4"}
    run = simulate(
        tmp_path,
        "schema-churn",
        system=system,
        seed=3,
        options=options,
        rate=20,
        time_limit_s=15,
        spares=1,
        restart="none",
    )
    starts = {node.name: len(list(node.iterdir())) for node in (run.folder / "nodes").iterdir()}
    assert starts == {"n1": 1, "n2": 1, "n3": 1, "n4": 0}


@pytest.mark.parametrize(
    ("where", "gone"),
    [(":n3", {"n1": {"3"}, "n2": {"3"}, "n3": {"1", "2"}}), (":n1-n3", {"n1": {"3"}, "n2": set(), "n3": {"1"}})],
)
def test_a_node_or_a_link_is_cut_off_until_the_time_is_over(tmp_path, where, gone):
    options = {"bugs": "none", "cut.at": f"6.0/commit/t1{where}", "fault.seconds": "12"}
    run = simulate(
        tmp_path, "schema-churn", system=SIX, seed=3, options=options, rate=10, time_limit_s=30, restart="none"
    )
    logs = {node.name: (node / "system-0.log").read_text() for node in (run.folder / "nodes").iterdir()}
    down = {name: set(re.findall(r"10\.66\.0\.(\d):7000 is now DOWN", text)) for name, text in logs.items()}
    assert down == gone
    assert all(text.count("is now UP") == 2 + len(gone[name]) for name, text in logs.items())
    assert dict(run.types) == {}


@pytest.mark.parametrize(("within", "falls"), [("0", False), ("60", True)])
def test_no_fault_falls_when_its_time_is_over(tmp_path, within, falls):
    options = {"kill.at": "4.0/apply/e5@8", "fault.within": within}
    run = simulate(tmp_path, "schema-churn", seed=3, options=options, rate=10, time_limit_s=8, restart="none")
    assert bool(run.books["crashes"]) is falls


def test_the_time_of_faults_is_read():
    assert parse_end({}) is None
    assert parse_end({"fault.within": "2.5"}) == 2_500_000_000
    with pytest.raises(PlanError, match=r"fault\.within"):
        parse_end({"fault.within": "never"})


def test_aims_are_read():
    steps, nodes = ["a/b/c1", "a/b/c2"], ["n1", "n2", "n3"]
    options = {"kill.at": "a/b/c1@2:n3,a/b/c2", "cut.at": "a/b/c1:n1-n2", "fault.seconds": "1.25"}
    assert parse_strikes(options, steps, nodes) == [
        Strike("kill", "a/b/c1", 2, ("n3",), 1_250_000_000),
        Strike("kill", "a/b/c2", 1, (), 1_250_000_000),
        Strike("cut", "a/b/c1", 1, ("n1", "n2"), 1_250_000_000),
    ]
    assert parse_strikes({}, steps, nodes) == []


@pytest.mark.parametrize(
    "options",
    [
        {"kill.at": "a/b/c3"},
        {"kill.at": "a/b/c1@0"},
        {"kill.at": "a/b/c1@x"},
        {"kill.at": "a/b/c1:n4"},
        {"kill.at": "a/b/c1:n1-n2"},
        {"cut.at": "a/b/c1:n1-n1"},
        {"cut.at": "a/b/c1:n1-n2-n3"},
        {"cut.at": "a/b/c1:"},
        {"fault.seconds": "-1"},
        {"fault.seconds": "soon"},
    ],
)
def test_aims_that_hit_nothing_are_refused(options):
    with pytest.raises(PlanError):
        parse_strikes(options, ["a/b/c1"], ["n1", "n2", "n3"])


def test_an_unknown_step_is_refused(tmp_path):
    plan = plan_of("schema-churn", options={"kill.at": "4.0/apply/e99"})
    provider = SimulatedProvider()
    provider.runtime(plan)
    with pytest.raises(PlanError, match="no such step"):
        provider.create(plan, tmp_path)


def test_steps_are_listed_with_their_model():
    steps = list_steps()
    assert steps["4.0/apply/e5"] == "rows"
    assert steps["group0/apply/g7b"] == "group0"
    assert steps["6.0/commit/k5"] == "metadata_log"
