"""Racks: replicas in as many of them as there are, while nodes come and go, and what is judged of that."""

from __future__ import annotations

import orjson
import pytest
from simulated_runs import FIVE, SCYLLA, SIX, plan_of, simulate, simulate_a_join

from schemaquake.clusters.simulated.ring import Ring, strategy_of
from schemaquake.clusters.simulated.topology import FACTORS, Moving, even_topology, factors_of
from schemaquake.harness.errors import PlanError
from schemaquake.harness.placements.ring import Location
from schemaquake.harness.run.runner import refuse_contradictions
from schemaquake.results.store.store import Store
from schemaquake.results.swarm.drawing import plan_of_seed
from schemaquake.results.swarm.reducing import reduced

NAMES = ("n1", "n2", "n3", "n4", "n5", "n6")
RACKS = {"n1": "rack1", "n2": "rack1", "n3": "rack1", "n4": "rack2", "n5": "rack2", "n6": "rack2"}
PLACES = {name: Location("dc1", rack) for name, rack in RACKS.items()}
TWO = (("dc1", 2),)


def topology():
    return even_topology(NAMES, dict.fromkeys(NAMES, "id"), version=1, locations=PLACES)


def racks_of(ring, place):
    return {ring.seats[name].location.rack for name in ring.replicas(place, TWO)}


# ── replicas ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_replicas_are_in_two_racks_though_the_next_node_is_in_the_same_one():
    for place in range(len(NAMES)):
        replicas = topology().replicas(place, TWO)
        assert {RACKS[name] for name in replicas} == {"rack1", "rack2"}
        assert Ring(NAMES, PLACES).replicas(place, TWO) == replicas
        assert topology().replicas(place, 2) == (NAMES[place], NAMES[(place + 1) % 6])  # SimpleStrategy knows none


@pytest.mark.parametrize("rack", ["rack1", "rack2"])
def test_each_step_of_a_join_has_replicas_in_two_racks_and_the_last_one_those_of_the_ring(rack):
    place = Location("dc1", rack)
    before = topology().registered(2, "n7", "id", place)
    move = Moving("join", "n7", before.ring, (before.tokens[1] // 2,), location=place)
    now = before.prepare(3, move)
    for version in (4, 5, 6):
        now = now.advance(version, "n7")
        assert all(racks_of(now, number) == {"rack1", "rack2"} for number in range(len(now.tokens)))
    afresh = strategy_of(TWO).replicate(now.ring)
    for number, end in enumerate(now.tokens):
        assert sorted(now.replicas(number, TWO)) == sorted(replica.node for replica in afresh.at(end))


def test_rows_of_all_racks_are_streamed():
    assert TWO in factors_of(topology().ring)
    assert factors_of(even_topology(NAMES, dict.fromkeys(NAMES, "id")).ring) == FACTORS


def test_what_a_node_takes_over_comes_from_the_one_of_its_rack_that_loses_it():
    """The next node of the ring loses nothing: it is the first one of its rack still."""
    place = Location("dc1", "rack2")
    before = topology().registered(2, "n7", "id", place)
    move = Moving("join", "n7", before.ring, (before.tokens[1] // 2,), location=place)
    start = before.prepare(3, move).advance(4, "n7")
    sources = {each.sources for each in start.transfers(start.moves[0], TWO)}
    assert sources == {("n4",)}


# ── plans ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nodes_and_spares_are_dealt_to_the_racks_of_their_data_centres_in_turn():
    plan = plan_of("quorum", nodes=7, spares=1, data_centers=2, racks=2)
    assert [rack for _, rack in plan.locations.values()] == ["rack1", "rack1", "rack2", "rack2"] * 2
    assert [center for center, _ in plan.locations.values()] == ["dc1", "dc2"] * 4
    one = plan_of("quorum", nodes=3, racks=2)
    assert one.context(frozenset()).data_centers == dict.fromkeys(("n1", "n2", "n3"), "dc1")
    assert one.with_nodes(1).racks == 1
    assert "--racks 2" in one.command()
    with pytest.raises(PlanError, match="--racks must be at most the nodes of a data centre"):
        plan_of("quorum", nodes=4, data_centers=2, racks=3)


def test_local_clusters_have_one_rack():
    plan = plan_of("quorum", nodes=4, racks=2)
    values = {name: getattr(plan, name) for name in plan.__dataclass_fields__}
    with pytest.raises(PlanError, match="--racks 2"):
        refuse_contradictions(type(plan)(**{**values, "cluster": "local", "system": "cassandra:5.0.9"}))


def test_swarms_draw_racks_where_one_node_comes_or_goes_or_there_are_two_data_centres():
    plans = [plan_of_seed(seed, [FIVE, SIX, SCYLLA], {"bugs": "none"}) for seed in range(400)]
    drawn = [plan for plan in plans if plan.racks > 1]
    assert 20 < len(drawn) < 80
    assert {plan.data_centers for plan in drawn} == {1, 2}
    assert all("overlap" not in plan.options for plan in drawn)
    assert not any("rf-change" in plan.nemeses for plan in drawn)


def test_swarms_draw_racks_for_two_changes_at_once_in_storms_too_and_leave_earlier_seeds_as_they_were():
    def with_both(seeds):
        plans = [plan_of_seed(seed, [FIVE, SIX, SCYLLA], {"bugs": "none"}) for seed in seeds]
        return [plan for plan in plans if plan.racks > 1 and "overlap" in plan.options]

    drawn = with_both(range(40_000, 43_000))
    assert 10 < len(drawn) < 60
    assert {len(plan.nemeses) > 1 for plan in drawn} == {True}
    assert {plan.nodes for plan in drawn} >= {4, 14}
    assert with_both(range(38_000, 40_000)) == []


def test_racks_are_left_out_of_a_plan_that_does_not_need_them():
    assert reduced(plan_of("quorum", nodes=4, racks=2), lambda _plan: True).racks == 1


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


CHANGES = [
    (system, nemesis)
    for system in (FIVE, SIX, SCYLLA)
    for nemesis in ("bootstrap", "decommission", "move", "removenode", "replace")
    if (system, nemesis) != (SCYLLA, "move")  # there is no such command
]
QUICK = {(SIX, "bootstrap"), (SCYLLA, "replace"), (FIVE, "decommission")}


@pytest.mark.parametrize(
    ("system", "nemesis"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.long) for case in CHANGES],
)
def test_placements_follow_racks_while_nodes_come_and_go(tmp_path, system, nemesis):
    run = simulate(
        tmp_path,
        "quorum",
        nemesis,
        system=system,
        nodes=6,
        spares=1,
        racks=2,
        replication_factor=2 if nemesis in {"bootstrap", "decommission", "move"} else 3,
        seed=2,
        rate=20,
        time_limit_s=20,
        options={"bugs": "none", "invariants": "checked"},
    )
    assert (run.verdict.valid, dict(run.types)) == (True, {})
    rows = Store(run.folder).records().observations.to_pylist()
    rings = [orjson.loads(row["definition"]) for row in rows if row["kind"] == "ring"]
    assert {peer["rack"] for ring in rings for peer in ring["peers"].values()} == {"rack1", "rack2"}


@pytest.mark.parametrize(
    ("bugs", "found"), [({"bug": "unstreamed"}, {"missed-quorum-write"}), ({"bugs": "none"}, set())]
)
def test_a_row_that_is_not_streamed_within_a_rack_is_missed(tmp_path, bugs, found):
    run = simulate_a_join(tmp_path, system=SIX, racks=2, options=bugs)
    assert set(run.types) == found
