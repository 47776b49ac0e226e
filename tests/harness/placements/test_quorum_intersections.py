"""The figures of CEP-21's quorum intersections, and what makes them worse."""

from __future__ import annotations

from fractions import Fraction

import pytest

from schemaquake.harness.placements.changes import Placements, plan_join, plan_leave, plan_move, plan_replace
from schemaquake.harness.placements.intersections import (
    SCENARIOS,
    View,
    guarded,
    interleavings,
    intersect,
    views_of,
)
from schemaquake.harness.placements.ring import Location, Ring
from schemaquake.harness.placements.strategies import Factor, Simple

FACTORS = range(1, 8)
AT_ONCE = [(0, 1), (1, 0)]


def one(factor):
    return SCENARIOS["one"].views(factor)


def cells(name, factor):
    return list(intersect(SCENARIOS[name].views(factor), "majority").cells)


def figures(name, factor):
    found = intersect(SCENARIOS[name].views(factor), "majority")
    return found.pairs, found.violations, len(found.cells)


def test_one_change_in_numbers():
    assert [intersect(one(factor), "majority").pairs for factor in FACTORS] == [16, 32, 168, 448, 2000, 6000, 25480]
    assert [intersect(one(factor), "pending").pairs for factor in FACTORS] == [16, 16, 168, 288, 2000, 4320, 25480]
    assert [intersect(one(factor), "majority", down=1).pairs for factor in FACTORS] == [2, 6, 48, 130, 672, 2000, 9200]


@pytest.mark.parametrize("rule", ["majority", "pending"])
@pytest.mark.parametrize(("factor", "counts"), [(1, (1, 1)), (2, None), (3, (2, 9)), (5, (6, 100)), (7, (20, 1225))])
def test_quorums_miss_each_other_across_two_steps_where_the_factor_is_odd(rule, factor, counts):
    found = intersect(one(factor), rule).cells
    assert found == ({} if counts is None else dict.fromkeys([(0, 3), (1, 3), (2, 0), (3, 0)], counts))
    assert not intersect(one(factor), rule, down=1).cells


def test_barriers_keep_what_would_miss_each_other_apart():
    assert [guarded(one(factor)) for factor in FACTORS] == [
        (count, 0) for count in (30, 62, 318, 864, 3800, 11550, 48510)
    ]
    for changed in ({"barriers": frozenset()}, {"answers": 1}):
        assert [guarded(one(factor), **changed).bad for factor in FACTORS] == [5, 0, 10, 0, 30, 0, 100]
    for left in (1, 2):
        bad = [guarded(one(factor), barriers=frozenset({left})).bad for factor in FACTORS]
        assert bad == [1, 0, 2, 0, 6, 0, 20]


def test_two_changes_in_a_row():
    assert [figures("two in a row", factor) for factor in range(2, 6)] == [
        (105, 12, 12), (525, 56, 22), (1456, 32, 12), (6300, 180, 22),
    ]  # fmt: skip
    found = intersect(SCENARIOS["two in a row"].views(3), "majority")
    worst = [cell for cell, counts in found.cells.items() if Fraction(*counts) == found.worst]
    assert (found.worst, worst) == (Fraction(5, 9), [(0, 6), (1, 6), (5, 0), (6, 0)])
    assert [figures("in and out", factor)[1:] for factor in (3, 5)] == [(20, 10), (60, 10)]
    assert [figures("in, then replaced", factor)[1:] for factor in (3, 5)] == [(44, 22), (132, 22)]


@pytest.mark.parametrize(("rule", "bad"), [("pending", [0] * 5), ("majority", [3, 0, 9, 0, 30])])
def test_a_second_start_has_to_wait_for_the_first_finish(rule, bad):
    two = SCENARIOS["two in a row"].views
    barriers = frozenset({1, 2, 4, 5})
    assert [guarded(two(factor), rule, barriers=barriers).bad for factor in range(2, 7)] == bad
    assert [guarded(two(factor), rule, barriers=barriers | {3}).bad for factor in range(2, 7)] == [0] * 5


@pytest.mark.parametrize(
    ("name", "pairs", "missing"),
    [
        ("all at once", 36, AT_ONCE),
        ("no START", 90, [(0, 2), (1, 0), (2, 0)]),
        ("no MID", 90, [(0, 2), (1, 2), (2, 0)]),
        ("member more, then less", 182, [(0, 3), (1, 3), (3, 0)]),
    ],
)
def test_a_step_left_out_lets_two_of_nine_quorums_miss_each_other(name, pairs, missing):
    found = intersect(SCENARIOS[name].views(3), "majority")
    assert (found.pairs, dict(found.cells)) == (pairs, dict.fromkeys(missing, (2, 9)))


def test_factors_raised_at_once():
    assert [cells("one replica more", factor) for factor in (2, 3, 4)] == [[], [], []]
    for factor, share in ((1, Fraction(1, 3)), (3, Fraction(1, 10))):
        found = intersect(SCENARIOS["two replicas more"].views(factor), "majority")
        assert (list(found.cells), found.worst) == (AT_ONCE, share)


def test_members_of_the_metadata_service_one_by_one():
    assert [figures("member more", count)[:2] for count in range(1, 6)] == [
        (9, 0), (35, 0), (110, 0), (432, 0), (1400, 0),
    ]  # fmt: skip
    assert [figures("member less", count)[:2] for count in range(2, 6)] == [(4, 0), (16, 0), (49, 0), (196, 0)]


def test_plans_of_the_placement_model_have_the_views_that_the_figures_are_of():
    nodes = {f"n{number}": [number * 100] for number in range(1, 7)}
    ring, strategy = Ring.of(nodes), Simple(Factor(3))
    at_rest = Placements.at_rest(strategy.replicate(ring))
    for plan in (
        plan_join(ring, strategy, "X", [150], Location()),
        plan_leave(ring, strategy, "n3"),
        plan_move(ring, strategy, "n3", [550]),
        plan_replace(ring, strategy, "n3", "X"),
    ):
        ranges = views_of(plan, at_rest)
        assert len(ranges) >= 3
        for views in ranges.values():
            found = intersect(views, "majority")
            assert (found.pairs, dict(found.cells)) == (168, dict.fromkeys([(0, 3), (1, 3), (2, 0), (3, 0)], (2, 9)))
            assert guarded(views) == (318, 0)


def test_two_changes_of_a_range_at_once_are_worse_than_one():
    found = [intersect(views, "majority").violations for views in interleavings((1, 8), (2, 16), 7)]
    assert len(found) == 20
    assert min(found) > intersect(one(3), "majority").violations
    assert all(len(set(views)) == 7 for views in interleavings((1, 8), (2, 16), 7))


def test_views_that_do_not_change_always_meet():
    assert not intersect([View(0b111, 0b111)] * 3).cells
