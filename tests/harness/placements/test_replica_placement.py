"""Replicas of token ranges, by both strategies, and the steps in which they change."""

from __future__ import annotations

import pytest

from schemaquake.harness.placements.changes import (
    Misplaced,
    Placements,
    plan_join,
    plan_leave,
    plan_move,
    plan_replace,
)
from schemaquake.harness.placements.ring import Location, Ring, TokenRange
from schemaquake.harness.placements.strategies import Factor, NetworkTopology, Replica, Simple, parse_strategy

TWO = Simple(Factor(2))


def ring_of(*seats):
    """A ring of `name@token` or `name@token:center:rack`."""
    tokens, places = {}, {}
    for seat in seats:
        name, _, rest = seat.partition("@")
        token, _, place = rest.partition(":")
        tokens.setdefault(name, []).append(int(token))
        if place:
            places[name] = Location(*place.split(":"))
    return Ring.of(tokens, places)


ABC = ring_of("A@100", "B@200", "C@300")


def names(placement):
    return {span.end: "".join(node for node, _ in group) for span, group in placement.items()}


def letters(groups):
    return {end: "".join(sorted(node for node, _ in replicas)) for end, replicas in groups.items()}


def states(plan, placements):
    found = {}
    for step in plan.steps:
        placements = step.apply(placements)
        found[step.name] = letters(placements.reads), letters(placements.writes)
    return found


def test_ranges_end_at_tokens_and_the_lowest_one_wraps_around():
    assert list(ABC.ranges()) == [(300, 100), (100, 200), (200, 300)]
    wrapping = TokenRange(300, 100)
    assert [wrapping.has(token) for token in (301, 0, 100, 101, 300)] == [True, True, True, False, False]
    placement = TWO.replicate(ABC)
    assert [placement.at(token)[0].node for token in (100, 101, 300, 301, 0)] == ["A", "B", "C", "A", "A"]


def test_simple_strategy_takes_the_next_distinct_nodes():
    assert names(TWO.replicate(ABC)) == {100: "AB", 200: "BC", 300: "CA"}
    assert names(TWO.replicate(ring_of("A@1", "A@2", "B@3"))) == {1: "AB", 2: "AB", 3: "BA"}
    assert names(Simple(Factor(5)).replicate(ABC)) == {100: "ABC", 200: "BCA", 300: "CAB"}


def test_network_topology_takes_every_rack_before_a_second_node_of_any():
    ring = ring_of("A@1:d:r1", "B@2:d:r1", "C@3:d:r2", "D@4:d:r2", "E@5:d:r3")
    assert names(NetworkTopology({"d": Factor(3)}).replicate(ring)) == {
        1: "ACE",
        2: "BCE",
        3: "CEA",
        4: "DEA",
        5: "EAC",
    }
    assert (
        names(NetworkTopology({"d": Factor(4)}).replicate(ring))[1] == "ABCE"
    )  # one more than racks: the first repeat
    assert names(NetworkTopology({"d": Factor(4)}).replicate(ring))[4] == "DEAB"


def test_each_data_centre_has_its_own_factor():
    ring = ring_of("A@1:d:r", "X@2:e:r", "B@3:d:r", "Y@4:e:r")
    assert names(NetworkTopology({"d": Factor(2), "e": Factor(1)}).replicate(ring)) == {
        1: "ABX", 2: "BAX", 3: "BAY", 4: "ABY",
    }  # fmt: skip
    assert names(NetworkTopology({"d": Factor(1), "nowhere": Factor(3)}).replicate(ring))[2] == "B"


@pytest.mark.parametrize(("nodes", "full"), [(5, [True, True, False]), (2, [True, True])])
def test_transient_replicas_are_the_last_ones_and_the_first_to_be_missing(nodes, full):
    ring = ring_of(*(f"n{number}@{number}" for number in range(nodes)))
    for strategy in (Simple(Factor(3, 1)), NetworkTopology({"datacenter1": Factor(3, 1)})):
        assert [replica.full for replica in strategy.replicate(ring).at(0)] == full


def test_replication_is_read_as_it_is_written_in_cql():
    assert parse_strategy({"class": "SimpleStrategy", "replication_factor": "3"}) == Simple(Factor(3))
    long = "org.apache.cassandra.locator.NetworkTopologyStrategy"
    assert parse_strategy({"class": long, "dc1": "3/1"}) == NetworkTopology({"dc1": Factor(3, 1)})
    with pytest.raises(ValueError, match="not modelled"):
        parse_strategy({"class": "EverywhereStrategy"})
    with pytest.raises(ValueError, match="cannot be transient"):
        Factor.parse("3/3")


def test_a_token_has_one_owner():
    with pytest.raises(ValueError, match="token 100 belongs to"):
        ABC.with_node("X", [100], Location())


def test_a_join_goes_through_the_states_of_the_specification():
    """The example of CEP-21: A 100, B 200, C 300, two replicas, X joins at 150."""
    seen = states(plan_join(ABC, TWO, "X", [150], Location()), Placements.at_rest(TWO.replicate(ABC)))
    before = {100: "AB", 150: "BC", 200: "BC", 300: "AC"}
    both = {100: "ABX", 150: "BCX", 200: "BC", 300: "AC"}
    after = {100: "AX", 150: "BX", 200: "BC", 300: "AC"}
    assert seen == {
        "PREPARE": (before, before),
        "START": (before, both),
        "MID": (after, both),
        "FINISH": (after, after),
    }


FOUR = ring_of("A@100", "B@200", "C@300", "D@400")


@pytest.mark.parametrize(
    ("plan", "ring"),
    [
        (plan_leave(FOUR, TWO, "B"), FOUR.without_node("B")),
        (plan_move(FOUR, TWO, "B", [350]), FOUR.with_tokens("B", [350])),
        (plan_move(FOUR, TWO, "B", [250]), FOUR.with_tokens("B", [250])),
        (plan_replace(FOUR, TWO, "B", "X"), FOUR.with_replacement("B", "X")),
    ],
    ids=["leave", "move", "move within its range", "replace"],
)
def test_a_change_ends_where_the_ring_computed_afresh_begins_and_can_be_taken_back(plan, ring):
    before = placements = Placements.at_rest(TWO.replicate(FOUR))
    for step in plan.steps:
        placements = step.apply(placements)
    assert placements == Placements.at_rest(TWO.replicate(ring))
    for step in reversed(plan.steps):
        placements = step.revert(placements)
    assert placements == before


def test_a_replica_is_full_for_writes_before_it_is_so_for_reads():
    strategy = Simple(Factor(2, 1))
    plan = plan_leave(FOUR, strategy, "B")
    placements = Placements.at_rest(strategy.replicate(FOUR))
    for step in plan.steps[:2]:
        placements = step.apply(placements)
    assert Replica("C", full=True) in placements.writes[200]
    assert Replica("C", full=False) in placements.reads[200]


def test_a_step_that_does_not_fit_is_refused():
    at_rest = Placements.at_rest(TWO.replicate(FOUR))
    join = plan_join(FOUR, TWO, "X", [150], Location())
    with pytest.raises(Misplaced, match="no range ends at 150"):
        join.steps[1].apply(at_rest)
    prepared = join.steps[0].apply(at_rest)
    with pytest.raises(Misplaced, match="cannot be cut at 150"):
        join.steps[0].apply(prepared)
    started = join.steps[1].apply(prepared)
    with pytest.raises(Misplaced, match="already"):
        join.steps[1].apply(started)


def test_changes_of_one_range_are_in_conflict_and_others_are_not():
    six = ring_of(*(f"n{number}@{number * 100}" for number in range(1, 7)))
    join = plan_join(six, TWO, "X", [150], Location())
    assert join.conflicts(plan_leave(six, TWO, "n2"))
    assert not join.conflicts(plan_leave(six, TWO, "n5"))
