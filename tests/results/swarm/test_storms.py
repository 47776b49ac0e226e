"""Storms: what a share of the seeds draws, and that it leaves the others as they were."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from schemaquake.clusters.simulated.draws import Draws
from schemaquake.clusters.simulated.provider import list_recovery_steps, list_ring_steps
from schemaquake.results.swarm.drawing import CHANGES, plan_of_seed, steps_of, storm_of_seed
from schemaquake.results.swarm.storms import draw_storm

SIX, SCYLLA, ELEVEN, THRIFT = (
    f"simulated:{name}" for name in ("cassandra-6.0", "scylladb-6.2", "cassandra-3.11", "cassandra-0.7")
)
LOG = ("raft/replicate/r1", "raft/replicate/f2")
RING = ("group0/topology/o2", "group0/topology/o5")


def storms(log_steps=LOG, ring_steps=RING, *, has_rows=True):
    drawn = (draw_storm(Draws(seed), log_steps, ring_steps, has_rows=has_rows) for seed in range(400))
    return [storm for storm in drawn if storm is not None]


@pytest.mark.parametrize(
    ("log_steps", "ring_steps", "has_rows", "kinds"),
    [
        (LOG, RING, True, {"log", "ring", "rows"}),
        (LOG, RING, False, {"log"}),
        ((), RING, True, {"ring", "rows"}),
        ((), (), True, {"rows"}),
        ((), (), False, set()),
    ],
)
def test_a_storm_is_of_what_a_system_has(log_steps, ring_steps, has_rows, kinds):
    found = storms(log_steps, ring_steps, has_rows=has_rows)
    assert {storm.kind for storm in found} == kinds
    assert len(found) < 0.5 * 400


def test_faults_of_a_storm_of_the_log_fall_on_its_steps_and_end_before_the_run():
    for storm in storms():
        aimed = {name: text for name, text in storm.options.items() if name.endswith(".at")}
        steps = {place.partition("@")[0] for text in aimed.values() for place in text.split(",")}
        if storm.kind == "log":
            assert steps
            assert steps <= set(LOG)
        elif storm.kind == "ring":
            assert steps <= set(RING)
        else:
            assert not steps
        if aimed:
            assert int(storm.options["fault.within"]) + int(storm.options["fault.seconds"]) <= storm.time_limit_s + 5


@pytest.mark.parametrize("system", [SIX, SCYLLA, ELEVEN, THRIFT])
def test_plans_of_storms_can_be_carried_out(system):
    for seed in range(200):
        plan = plan_of_seed(seed, [system], {"bugs": "none"})
        plan.check_options()
        for verb in ("kill", "pause", "cut"):
            for place in filter(None, plan.options.get(f"{verb}.at", "").split(",")):
                step, _, rest = place.partition("@")
                assert step in steps_of(system)
                nodes = set(rest.partition(":")[2].split("-")) - {""}
                assert nodes <= {*plan.node_names, *plan.spare_names}


@pytest.mark.parametrize("system", [SIX, SCYLLA, ELEVEN, THRIFT, "simulated:cassandra-5.0", "simulated:cassandra-1.1"])
def test_faults_are_aimed_at_the_steps_of_every_system(system):
    plans = [plan_of_seed(seed, [system], {"bugs": "none"}) for seed in range(200)]
    aimed = [
        place
        for plan in plans
        for name, text in plan.options.items()
        if name.endswith(".at")
        for place in text.split(",")
    ]
    assert len(aimed) > 40
    assert len({place.partition("@")[0] for place in aimed}) > len(steps_of(system)) // 2


def test_no_fault_at_a_step_falls_when_servers_are_started_for_the_last_readings():
    for system in (SIX, SCYLLA, THRIFT):
        for seed in range(200):
            plan = plan_of_seed(seed, [system])
            aimed = [name for name in plan.options if name.endswith(".at")]
            assert bool(aimed) == ("fault.within" in plan.options)
            assert not ("kill.at" in aimed and "rolling-restart" in plan.nemeses)


def test_storms_of_the_ring_change_it_and_recover_nothing():
    plans = [plan_of_seed(seed, [SCYLLA], {"bugs": "none"}) for seed in range(300)]
    changing = [plan for plan in plans if "fault.seconds" in plan.options and {*plan.nemeses} & {*CHANGES}]
    assert changing
    for plan in changing:
        aimed = " ".join(text for name, text in plan.options.items() if name.endswith(".at"))
        assert not any(step in aimed for step in list_recovery_steps())
        assert any(step in aimed for step in list_ring_steps())


def test_some_storms_of_the_log_fall_on_who_has_an_entry_alone():
    alone = ("raft/replicate/r2", "raft/election/v3")
    steps = tuple(step for step in steps_of(SCYLLA) if step.startswith(("raft/", "group0/")))
    of_log = [storm for storm in storms(steps) if storm.kind == "log"]
    aims = [[text for name, text in storm.options.items() if name.endswith(".at")] for storm in of_log]
    on_deciders = [
        storm
        for storm, texts in zip(of_log, aims, strict=True)
        if all(place.startswith(alone) and ":" not in place for text in texts for place in text.split(","))
    ]
    assert len(of_log) / 5 < len(on_deciders) < len(of_log) / 2
    assert all(storm.follows_on and int(storm.options["fault.seconds"]) >= 2 for storm in on_deciders)


def places_of(storm):
    aims = [text for name, text in storm.options.items() if name.endswith(".at")]
    return [place for text in aims for place in text.split(",")]


def test_faults_of_some_storms_of_the_log_follow_on_one_another():
    steps = ("raft/replicate/r2",)
    passages = [
        sorted(int(place.partition("@")[2]) for place in places_of(storm) if ":" not in place)
        for storm in storms(steps)
    ]
    in_a_row = [each for each in passages if any(0 < later - first <= 3 for first, later in pairwise(each))]
    assert len(in_a_row) > 10


def test_some_storms_of_the_log_fall_when_some_others_have_an_entry():
    of_log = [storm for storm in storms((*LOG, "raft/replicate/r2")) if storm.kind == "log"]
    halfway = [storm for storm in of_log if storm.options.get("append") == "single"]
    assert 1 < len(halfway) < len(of_log) / 5
    for storm in halfway:
        assert all(place.startswith("raft/replicate/f2@") and ":" in place for place in places_of(storm))


def test_faults_of_some_storms_of_the_ring_fall_on_first_passages():
    aims = [places_of(storm) for storm in storms() if storm.kind == "ring"]
    at_first = [places for places in aims if places and all("@1" in place for place in places)]
    assert len(aims) / 3 < len(at_first) < len(aims)


def test_some_storms_have_several_clients_at_a_node():
    plans = [plan_of_seed(seed, [SCYLLA], {"bugs": "none"}) for seed in range(300)]
    stormy = [plan for plan in plans if storm_of_seed(plan.seed, [SCYLLA]) is not None]
    assert {(plan.concurrency or plan.nodes) // plan.nodes for plan in stormy} == {1, 3}
    assert all(plan.concurrency is None for plan in plans if plan not in stormy)


def test_storms_of_the_ring_have_few_keys_or_many():
    assert {storm.options.get("keys") for storm in storms() if storm.kind == "ring"} == {None, "6", "40", "200"}


def test_rows_are_deleted_in_some():
    assert {storm.has_deletions for storm in storms() if storm.kind == "rows"} == {True, False}


def test_a_seed_without_a_storm_is_drawn_as_if_there_were_none(monkeypatch):
    drawn = {seed: plan_of_seed(seed, [SIX]) for seed in range(60)}
    monkeypatch.setattr("schemaquake.results.swarm.drawing.draw_storm", lambda *_args, **_named: None)
    calm = {seed: plan_of_seed(seed, [SIX]) for seed in range(60)}
    same = [seed for seed in drawn if drawn[seed] == calm[seed]]
    assert 20 < len(same) < 60
    assert all(replace(drawn[seed], seed=0) != replace(calm[seed], seed=0) for seed in drawn if seed not in same)
