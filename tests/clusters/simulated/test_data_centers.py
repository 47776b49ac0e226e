"""Two data centres: replicas, levels, a centre that is cut off whole, and what the designs do then."""

from __future__ import annotations

import orjson
import pytest
from simulated_runs import SCYLLA, SIX, plan_of, simulate, simulate_a_join

from schemaquake.clusters.simulated.ring import Ring, strategy_of, total_of
from schemaquake.clusters.simulated.slow_links import parse_slow_links
from schemaquake.clusters.simulated.topology import Moving, even_topology, factors_of, lacking
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES as DDL
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.context import Context
from schemaquake.harness.placements.ring import Location
from schemaquake.harness.run.runner import refuse_contradictions
from schemaquake.nemeses.network.partition import Partition
from schemaquake.results.swarm.drawing import plan_of_seed
from schemaquake.results.swarm.one_seed import row_of
from schemaquake.results.swarm.reducing import reduced

NAMES = ("n1", "n2", "n3", "n4", "n5", "n6")
CENTERS = {name: f"dc{place % 2 + 1}" for place, name in enumerate(NAMES)}
PLACES = {name: Location(center) for name, center in CENTERS.items()}
TWO_EACH = (("dc1", 2), ("dc2", 2))
CONTEXT = Context(seed=1, nodes=NAMES, data_centers=CENTERS)


def topology():
    return even_topology(NAMES, dict.fromkeys(NAMES, "id"), version=1, locations=PLACES)


# ── replicas ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_range_has_its_replicas_in_each_data_centre():
    ring = Ring(NAMES, PLACES)
    for place in range(len(NAMES)):
        replicas = topology().replicas(place, TWO_EACH)
        assert [CENTERS[name] for name in replicas] == ["dc1", "dc1", "dc2", "dc2"]
        assert set(ring.replicas(place, TWO_EACH)) == set(replicas)
        assert topology().replicas(place, 3) == ring.replicas(place, 3)
    assert total_of(TWO_EACH) == 4


def test_a_node_that_joins_takes_ranges_over_in_its_own_data_centre():
    before = topology().registered(2, "n7", "id", Location("dc2"))
    token = before.tokens[1] // 2
    move = Moving("join", "n7", before.ring, (token,), location=Location("dc2"))
    assert TWO_EACH in factors_of(before.ring)
    assert move.locked()
    now = before.prepare(3, move)
    for version in (4, 5, 6):
        now = now.advance(version, "n7")
    assert {name for place in range(len(now.tokens)) for name in now.replicas(place, TWO_EACH)} == {*NAMES, "n7"}
    afresh = strategy_of(TWO_EACH).replicate(now.ring)
    for place, end in enumerate(now.tokens):
        replicas = now.replicas(place, TWO_EACH)
        assert sorted(replicas) == sorted(replica.node for replica in afresh.at(end))
        assert sum(now.seats[name].location.data_center == "dc2" for name in replicas) == 2


def test_a_node_leaves_only_if_its_data_centre_has_enough_others():
    ring = topology().ring
    assert lacking(ring, "n1", [TWO_EACH]) is None
    assert lacking(ring, "n1", [(("dc1", 3), ("dc2", 1))]) == 3
    assert lacking(ring, "n2", [(("dc1", 3), ("dc2", 1))]) is None
    assert lacking(ring, "n1", [6]) == 6


# ── links, nemeses, plans ────────────────────────────────────────────────────────────────────────────────────────────


def test_all_links_from_one_data_centre_to_another_can_be_slow():
    slow = parse_slow_links({"slow": "dc1-dc2:80,n1-n2:300"}, NAMES, CENTERS)
    assert {pair for pair in slow if CENTERS[pair[0]] == "dc1"} == set(slow)
    assert (len(slow), slow["n1", "n2"], slow["n3", "n2"]) == (9, 300_000_000, 80_000_000)
    with pytest.raises(PlanError, match="no such node"):
        parse_slow_links({"slow": "dc1-dc3:80"}, NAMES, CENTERS)


def test_a_whole_data_centre_is_cut_off():
    context = Context(seed=1, nodes=NAMES, data_centers=CENTERS, options={"partition.targets": "data-center"})
    (first, *_) = Partition().schedule(context, random=context.random("x"))
    grudge = first.parameters["grudge"]
    assert {name: set(dropped) for name, dropped in grudge.items()} == {
        name: {other for other in NAMES if CENTERS[other] != CENTERS[name]} for name in NAMES
    }


def test_one_data_centre_cannot_be_cut_off_from_others():
    with pytest.raises(PlanError, match="one data centre"):
        Partition().schedule(
            Context(seed=1, nodes=NAMES, options={"partition.targets": "data-center"}), random=CONTEXT.random("x")
        )


def test_local_clusters_have_one_data_centre():
    plan = plan_of("quorum", nodes=4, data_centers=2)
    with pytest.raises(PlanError, match="--data-centers 2"):
        refuse_contradictions(type(plan)(**{**_fields(plan), "cluster": "local", "system": "cassandra:5.0.9"}))


def _fields(plan):
    return {name: getattr(plan, name) for name in plan.__dataclass_fields__}


def test_spares_and_nodes_are_dealt_to_data_centres_in_turn():
    plan = plan_of("quorum", nodes=5, spares=1, data_centers=2)
    assert plan.context(frozenset()).data_centers == CENTERS
    assert plan.context(frozenset()).replication_factor == 2
    assert (plan.with_nodes(1).data_centers, plan.with_nodes(3).data_centers) == (1, 2)


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def events(run):
    lines = [
        line
        for path in sorted((run.folder / "journals").glob("events-*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    return sorted(map(orjson.loads, lines), key=lambda event: event["time"])


def acknowledged_while_cut(run, functions):
    """By node the number of operations that were asked for and acknowledged within a cut, a second from both its ends."""
    told = events(run)
    spans = [
        (begins["time"] + 10**9, ends["time"] - 10**9)
        for begins in told
        for ends in told
        if (begins["f"], ends["f"]) == ("fault-begins", "fault-ends")
        and orjson.loads(begins["value"])["id"] == orjson.loads(ends["value"])["id"]
    ]
    assert spans
    found = dict.fromkeys(run.notes("membership")[0]["members"], 0)
    asked = {}
    for event in told:
        if event["type"] == "invoke":
            asked[event["process"]] = event["time"]
        elif event["type"] == "ok" and event["f"] in functions:
            found[event["node"]] += any(
                begins < asked[event["process"]] and event["time"] < ends for begins, ends in spans
            )
    return found


def cut_off(folder, system, level, **options):
    return simulate(
        folder,
        "quorum,schema-churn",
        "partition",
        system=system,
        nodes=4,
        data_centers=2,
        time_limit_s=16,
        rate=12,
        seed=2,
        options={"bugs": "none", "consistency": level, "partition.targets": "data-center", **options},
    )


@pytest.mark.parametrize("system", [SIX, SCYLLA])
def test_at_local_quorum_both_sides_of_a_cut_serve_rows(tmp_path, system):
    run = cut_off(tmp_path, system, "LOCAL_QUORUM")
    assert (run.verdict.valid, dict(run.types)) == (True, {})
    assert all(acknowledged_while_cut(run, {"put"}).values())
    if system == SCYLLA:  # neither half of the voters is a majority
        assert not any(acknowledged_while_cut(run, DDL).values())


def test_at_each_quorum_no_side_of_a_cut_takes_a_row(tmp_path):
    run = cut_off(tmp_path, SIX, "EACH_QUORUM")
    assert (run.verdict.valid, dict(run.types)) == (True, {})
    assert not any(acknowledged_while_cut(run, {"put"}).values())
    assert any(event["f"] == "put" and event["type"] == "ok" for event in events(run))


@pytest.mark.parametrize(
    ("bugs", "found"), [({"bug": "unstreamed"}, {"missed-quorum-write"}), ({"bugs": "none"}, set())]
)
def test_a_row_that_is_not_streamed_within_a_data_centre_is_missed_there(tmp_path, bugs, found):
    run = simulate_a_join(tmp_path, system=SIX, data_centers=2, options={"consistency": "LOCAL_QUORUM", **bugs})
    assert set(run.types) == found


# ── swarms ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_swarms_draw_two_data_centres():
    plans = [plan_of_seed(seed, [SIX, SCYLLA], {"bugs": "none"}) for seed in range(200)]
    several = [plan for plan in plans if plan.data_centers == 2]
    assert 10 < len(several) < 60
    assert {plan.options.get("consistency") for plan in several} == {"QUORUM", "LOCAL_QUORUM", "EACH_QUORUM"}
    assert any(plan.options.get("partition.targets") == "data-center" for plan in several)
    assert row_of(several[0])["outcome"] == "valid"


def test_data_centres_are_left_out_of_a_plan_that_does_not_need_them():
    plan = plan_of("quorum", nodes=6, data_centers=2, replication_factor=3, options={"slow": "dc1-dc2:20"})
    small = reduced(plan, lambda _plan: True)
    assert (small.data_centers, small.nodes, dict(small.options)) == (1, 2, {})
