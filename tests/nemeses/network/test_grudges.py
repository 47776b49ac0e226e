from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.errors import PlanError
from schemaquake.nemeses.network import grudges
from schemaquake.nemeses.network.grudges import BUILDERS, FEWEST_NODES, is_symmetric, visible


def nodes(count: int) -> tuple[str, ...]:
    return tuple(f"n{number}" for number in range(1, count + 1))


sizes = st.integers(3, 12)
randoms = st.integers(0, 2**32).map(Random)


@given(st.sampled_from(sorted(BUILDERS)), sizes, randoms)
def test_a_grudge_is_held_by_nodes_against_others_and_cuts_something(kind, count, random):
    everyone = nodes(max(count, FEWEST_NODES.get(kind, 2)))
    grudge = BUILDERS[kind](everyone, random)
    assert set(grudge) == set(everyone)
    assert all(name not in dropped and dropped <= set(everyone) for name, dropped in grudge.items())
    assert any(grudge.values())


@given(st.sampled_from(sorted(BUILDERS)), sizes, randoms)
def test_only_one_way_is_not_symmetric(kind, count, random):
    grudge = BUILDERS[kind](nodes(max(count, FEWEST_NODES.get(kind, 2))), random)
    assert is_symmetric(grudge) is (kind != "one-way")


@given(sizes, randoms)
def test_one_is_alone_and_the_rest_hear_each_other(count, random):
    everyone = nodes(count)
    grudge = grudges.one(everyone, random)
    views = sorted(len(visible(grudge, name, everyone)) for name in everyone)
    assert views == [1, *[count - 1] * (count - 1)]


@given(sizes, randoms)
def test_a_majority_split_has_one_side_of_more_than_half_unless_the_number_is_even(count, random):
    everyone = nodes(count)
    grudge = grudges.majority(everyone, random)
    sides = {visible(grudge, name, everyone) for name in everyone}
    assert sorted(map(len, sides)) == ([count // 2, count - count // 2] if count % 2 else [count // 2] * len(sides))
    assert frozenset().union(*sides) == frozenset(everyone)
    assert len(sides) == 2


@given(sizes.map(lambda count: max(4, count)), randoms)
def test_a_third_that_is_cut_off_is_fewer_than_a_third(count, random):
    everyone = nodes(count)
    grudge = grudges.minority_third(everyone, random)
    smallest = min(len(visible(grudge, name, everyone)) for name in everyone)
    assert 3 * smallest < count <= 3 * (smallest + 1)


@given(sizes, randoms)
def test_in_a_majorities_ring_every_node_hears_a_majority_and_no_two_the_same(count, random):
    everyone = nodes(count)
    grudge = grudges.majorities_ring(everyone, random)
    views = [visible(grudge, name, everyone) for name in everyone]
    assert all(2 * len(view) > count for view in views)
    assert len(set(views)) == count


@pytest.mark.parametrize(("count", "links"), [(3, 2), (4, 4), (5, 5), (6, 9), (7, 11), (9, 18)])
def test_a_majorities_ring_has_no_link_more_than_it_must(count, links):
    # Every node needs half of the nodes as neighbours; the sum of odd numbers of an odd ring needs one more.
    grudge = grudges.majorities_ring(nodes(count), Random(1))
    heard = sum(len(visible(grudge, name, nodes(count))) - 1 for name in nodes(count))
    assert heard == 2 * links


@given(sizes, randoms)
def test_a_bridge_hears_everybody_and_joins_two_sides_that_do_not_hear_each_other(count, random):
    everyone = nodes(count)
    grudge = grudges.bridge(everyone, random)
    middle = [name for name in everyone if not grudge[name]]
    assert len(middle) == 1
    sides = {visible(grudge, name, everyone) for name in everyone if name != middle[0]}
    assert len(sides) == 2
    assert frozenset.intersection(*sides) == frozenset(middle)


@given(sizes, randoms)
def test_one_way_mutes_one_node_that_hears_everybody(count, random):
    everyone = nodes(count)
    grudge = grudges.one_way(everyone, random)
    mute = next(name for name in everyone if not grudge[name])
    assert all(grudge[name] == {mute} for name in everyone if name != mute)


@given(st.sampled_from(sorted(BUILDERS)), st.integers(4, 12), st.integers())
def test_the_same_seed_gives_the_same_grudge(kind, count, seed):
    assert BUILDERS[kind](nodes(count), Random(seed)) == BUILDERS[kind](nodes(count), Random(seed))


@given(st.sampled_from(sorted(BUILDERS)), st.integers(4, 12), randoms)
def test_a_grudge_survives_being_written_down(kind, count, random):
    grudge = BUILDERS[kind](nodes(count), random)
    read = grudges.from_json(grudges.to_json(grudge))
    assert read == {name: dropped for name, dropped in grudge.items() if dropped}


def test_too_few_nodes_for_a_third_are_refused():
    with pytest.raises(PlanError, match="3 nodes cannot be split into 0 and 3"):
        grudges.minority_third(nodes(3), Random(1))
