"""Exploration of all orders: the calibration of the specification, and a planted bad order."""

from __future__ import annotations

import pytest

from schemaquake.clusters.simulated.designs import SCOPES, Design, explore_design
from schemaquake.clusters.simulated.exploration import Event, every_state, explore
from schemaquake.harness.errors import PlanError


class Pushes:
    """Changes on nodes A, B, C: each is one step and two pushes; those of one node come one after another."""

    def __init__(self, coordinators):
        self.coordinators = coordinators

    def begin(self):
        self.applied = dict.fromkeys("ABC", ())
        self.taken = set()

    def events(self):
        before = {}
        for number, node in enumerate(self.coordinators):
            own = (number, node)
            yield Event(own, node, (before[node],) if node in before else ())
            before[node] = own
            for peer in "ABC".replace(node, ""):
                yield Event((number, peer), peer, (own,))

    def pending(self):
        return [event for event in self.events() if event.id not in self.taken and self.taken.issuperset(event.causes)]

    def take(self, event):
        self.taken.add(event.id)
        self.applied[event.node] += (event.id[0],)
        return frozenset({event.node})

    def state(self):
        return tuple(self.applied.items())


@pytest.mark.parametrize(
    ("coordinators", "orders", "classes", "states"),
    [("AB", 80, 6, 49), ("ABC", 13_440, 98, 1_008), ("AAB", 6_720, 66, 618)],
)
def test_the_calibration(coordinators, orders, classes, states):
    world = Pushes(coordinators)
    found = every_state(world)
    assert (found.orders, found.states, found.complete) == (orders, states, True)
    explored = explore(world, world.state)
    assert len(explored.ends) == classes == found.ends
    assert explored.executions == classes  # none is carried out twice
    assert (explored.complete, explored.depth) == (True, 3 * len(coordinators))


def test_a_bad_order_is_found_with_the_shortest_way_to_it():
    world = Pushes("AB")
    explored = explore(world, lambda: len(set(world.applied.values())) > 1)
    assert explored.ends == {True: 4, False: 2}
    assert len(explored.shortest[True]) == 6


@pytest.mark.parametrize("coordinators", ["A", "AB", "AA"])
def test_the_reduction_leaves_out_no_end(coordinators):
    world = Pushes(coordinators)
    reduced, whole = (explore(world, world.state, reduces=reduces) for reduces in (True, False))
    assert reduced.ends.keys() == whole.ends.keys()
    assert whole.executions == every_state(world).orders
    assert reduced.executions <= whole.executions
    assert reduced.states <= whole.states
    assert whole.complete


def test_a_limit_makes_it_incomplete():
    world = Pushes("ABC")
    explored = explore(world, world.state, most=5)
    assert (explored.complete, explored.executions + explored.blocked) == (False, 5)
    deep = explore(world, world.state, deepest=8)
    assert (deep.complete, deep.executions) == (False, 0)
    assert deep.cut > 1
    assert not every_state(world, most=20).complete


# ── the models ───────────────────────────────────────────────────────────────────────────────────────────────────────

FIVE, SIX = "simulated:cassandra-5.0", "simulated:cassandra-6.0"


def ends_of(system, scope, **named):
    return {ahead: explored for ahead, _, explored in explore_design(system, SCOPES[scope], **named)}


def test_merged_rows_break_in_some_orders_of_two_creates_and_each_order_is_looked_at_once():
    found = ends_of(FIVE, "create-create")
    assert found.keys() == {("n1", "n2"), ("n2", "n1")}
    for explored in found.values():
        assert (explored.complete, explored.executions, explored.blocked) == (True, 4, 0)
        assert explored.ends == {("non-linearizable-ddl",): 2, (): 2}


@pytest.mark.long
def test_the_reduction_leaves_out_no_end_of_merged_rows():
    reduced, whole = (ends_of(FIVE, "create-create", reduces=reduces, most=400) for reduces in (True, False))
    for ahead, explored in whole.items():
        assert explored.complete
        assert explored.ends.keys() == reduced[ahead].ends.keys()


def test_an_alter_that_is_stamped_after_the_drop_it_missed_leaves_a_table_without_a_head():
    found = ends_of(FIVE, "drop-alter")
    assert found["n2", "n1"].ends == {(): 5}
    assert found["n1", "n2"].ends == {("schema-disagreement", "node-will-not-start"): 4, (): 1}
    assert not any(
        end
        for explored in ends_of(FIVE, "drop-alter", options={"bugs": "-whole-row"}).values()
        for end in explored.ends
    )  # the order that broke it is there, and the flaw is not


def test_a_log_breaks_in_none_of_those_that_were_looked_at_and_says_that_there_are_more():
    for explored in ends_of(SIX, "create-create", most=10).values():
        assert explored.ends == {(): 10}
        assert not explored.complete


def test_a_planted_second_entry_in_one_epoch_is_found():
    found = ends_of(SIX, "create-create", most=40, options={"bug": "double-commit"})
    assert any(end for explored in found.values() for end in explored.ends)


@pytest.mark.parametrize(
    ("options", "is_sound"), [({"log": "paxos", "bugs": "none"}, True), ({"bug": "old-ballot"}, False)]
)
def test_orders_of_the_messages_of_paxos_are_explored(options, is_sound):
    for explored in ends_of(SIX, "create-create", most=15, options=options).values():
        assert explored.executions == 15
        assert any("prepare" in event for end in explored.shortest.values() for event in end)
        assert all(not end for end in explored.ends) is is_sound


def test_a_crash_is_one_more_event():
    explored = [
        each for _, _, each in explore_design(FIVE, SCOPES["create-create"], crash=True, most=12)
    ]  # fmt: skip
    assert len(explored) == 6
    assert max(each.depth for each in explored) >= 7


def test_the_same_order_has_the_same_end():
    worlds = [Design(FIVE, SCOPES["create-create"], ahead=("n1", "n2"), options={}) for _ in range(2)]
    for world in worlds:
        world.begin()
        while pending := world.pending():
            world.take(pending[-1])
    assert worlds[0].state() == worlds[1].state()
    assert worlds[0].judge() == worlds[1].judge()


def test_a_twin_has_no_messages_to_order():
    with pytest.raises(PlanError, match="nothing to order"):
        ends_of(FIVE, "create-create", options={"bugs": "none"})


# ── a ring that changes ──────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_are_found_in_every_order_looked_at_while_a_node_moves():
    for named in ({"most": 6}, {"drawn": 6}):
        for explored in ends_of(SIX, "move-write", options={"bugs": "none"}, **named).values():
            assert (explored.ends, explored.complete) == ({(): 6}, False)
            assert any("progress-barrier" in event for event in explored.shortest[()])
            assert any("stream" in event for event in explored.shortest[()])


@pytest.mark.parametrize(
    ("bug", "shows"), [("unstreamed", "missed-quorum-write"), ("epoch-skipped", "divided-placements")]
)
def test_a_flaw_of_the_ring_breaks_every_order_looked_at(bug, shows):
    for explored in ends_of(SIX, "move-write", options={"bug": bug}, most=3).values():
        assert explored.ends == {(shows,): 3}


@pytest.mark.long
def test_a_flaw_that_few_orders_show_is_found_among_drawn_ones():
    found = ends_of(SIX, "move-write", options={"bug": "old-replica-only"}, drawn=300)
    assert any(("missed-quorum-write",) in explored.ends for explored in found.values())


def test_draws_repeat():
    once, twice = (ends_of(SIX, "move-write", options={"bugs": "none"}, drawn=3) for _ in range(2))
    assert once == twice


def test_a_ring_that_changes_by_the_clock_is_not_explored():
    with pytest.raises(PlanError, match="by the clock"):
        ends_of(FIVE, "move-write")
