"""Random changes of placements keep the invariants, and break them where a rule is left out."""

from __future__ import annotations

import pytest

from schemaquake.harness.placements.changes import Placements, plan_join, plan_move
from schemaquake.harness.placements.ring import Location, Ring
from schemaquake.harness.placements.strategies import Factor, NetworkTopology
from schemaquake.harness.placements.walk import GRID, Cell, Rules, walk

PLAIN = Cell("simple", Factor(3, 1), 5)


def test_the_grid_is_that_of_the_specification():
    assert len(GRID) == 90
    assert len(set(GRID)) == 90


@pytest.mark.parametrize(
    "cell", [cell for cell in GRID if cell.concurrency == 5 and cell.factor in {(2, 1), (3, 0)}], ids=str
)
def test_every_step_keeps_the_invariants(cell):
    done = walk(cell, 3, joins=12)
    assert not done.broken
    assert {"join FINISH", "move FINISH", "replace FINISH", "cancel", "snapshot"} <= done.steps.keys()
    assert "leave FINISH" in done.steps or cell.layout == "racks"  # there, the last node of a rack stays


def test_a_seed_repeats_its_history():
    assert walk(PLAIN, 8, joins=6) == walk(PLAIN, 8, joins=6) != walk(PLAIN, 9, joins=6)


@pytest.mark.parametrize(
    ("rules", "invariants"),
    [
        (Rules(locks="none"), {"lock", "misplaced", "writes"}),
        (Rules(barrier=False), {"read-before-write"}),
    ],
)
def test_a_rule_left_out_is_noticed(rules, invariants):
    broken = [one.invariant for seed in range(3) for one in walk(PLAIN, seed, joins=12, rules=rules).broken[:1]]
    assert len(broken) == 3
    assert set(broken) <= invariants


def test_with_racks_two_changes_of_different_ranges_may_depend_on_each_other():
    """X joins, F moves: no range has other replicas by both, and yet the outcome is not the placement of the ring."""
    racks = {"A": "r4", "B": "r2", "C": "r1", "D": "r1", "E": "r1", "F": "r3"}
    ring = Ring.of(
        {node: [100 * (place + 1)] for place, node in enumerate(racks)},
        {node: Location("dc1", rack) for node, rack in racks.items()},
    )
    strategy = NetworkTopology({"dc1": Factor(3)})
    place = Location("dc1", "r2")
    join, move = plan_join(ring, strategy, "X", [350], place), plan_move(ring, strategy, "F", [150])
    assert not join.conflicts(move)
    placements = Placements.at_rest(strategy.replicate(ring))
    for step in (*join.steps, *move.steps):
        placements = step.apply(placements)
    after = ring.with_node("X", [350], place).with_tokens("F", [150])
    assert placements != Placements.at_rest(strategy.replicate(after))


@pytest.mark.long
def test_locks_of_the_changed_ranges_alone_are_not_enough_with_racks():
    cell = Cell("racks", Factor(5), 5)
    touched = [walk(cell, seed, rules=Rules(locks="touched")).broken for seed in range(30)]
    assert any(broken and broken[0].invariant in {"rest", "misplaced", "reads"} for broken in touched)
    assert not any(walk(cell, seed).broken for seed in range(30))


@pytest.mark.long
@pytest.mark.parametrize("cell", GRID, ids=str)
def test_the_whole_grid_keeps_the_invariants(cell):
    assert not walk(cell, 0).broken
