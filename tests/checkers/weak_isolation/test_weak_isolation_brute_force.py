"""Against the axioms as they are written: the levels are those that some order of commits fulfils."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from commit_orders import LEVELS, allowed, saturated
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from loose_store import loose
from small_histories import Transaction, table

from schemaquake.checkers.weak_isolation.isolation import check_weak_isolation

SEEDS = st.integers(0, 1 << 40)
IN_THEMSELVES = {
    "internal", "future-read", "garbage-read", "G1a", "G1b", "duplicate-elements", "incompatible-order", "dirty-update",
}  # fmt: skip


def kept(transactions: Sequence[Transaction]) -> set[str] | None:
    """The levels that we find kept; None if a read is wrong in itself, or there is nothing to judge."""
    verdicts = {level: check_weak_isolation(table(transactions), models=[level]) for level in LEVELS}
    if any(IN_THEMSELVES & set(verdict.figures.get("found", ())) for verdict in verdicts.values()):
        return None
    if all(verdict.valid == "unknown" for verdict in verdicts.values()):
        return None
    for verdict in verdicts.values():
        assert {anomaly.type for anomaly in verdict.anomalies} == set(verdict.figures["found"])
    assert verdicts["causal"].figures["not"] == [level for level in LEVELS if verdicts[level].valid is False][:1]
    return {level for level in LEVELS if verdicts[level].valid is True}


@settings(max_examples=examples(150), deadline=None)
@given(seed=SEEDS, lists=st.booleans(), count=st.integers(2, 6), processes=st.integers(1, 4), keys=st.integers(1, 3))
def test_a_level_is_kept_if_some_order_of_commits_fulfils_it(
    seed: int, lists: bool, count: int, processes: int, keys: int
) -> None:
    transactions = loose(seed, lists=lists, count=count, processes=processes, keys=keys)
    found = kept(transactions)
    if found is not None:
        assert found == allowed(transactions)


@settings(max_examples=examples(80), deadline=None)
@given(
    seed=SEEDS,
    lists=st.booleans(),
    count=st.sampled_from([12, 30, 60]),
    processes=st.sampled_from([2, 5, 20]),
    keys=st.sampled_from([2, 4, 10]),
    stale=st.sampled_from([0.0, 0.01, 0.1]),
    lost=st.sampled_from([0.0, 0.1, 0.4]),
)
def test_so_it_is_with_many_sessions_that_come_and_go(
    seed: int, lists: bool, count: int, processes: int, keys: int, stale: float, lost: float
) -> None:
    transactions = loose(seed, lists=lists, count=count, processes=processes, keys=keys, stale=stale, lost=lost)
    found = kept(transactions)
    if found is not None:
        assert found == saturated(transactions)


@settings(max_examples=examples(100), deadline=None)
@given(seed=SEEDS, lists=st.booleans(), count=st.integers(2, 5))
def test_two_ways_to_apply_the_axioms_agree(seed: int, lists: bool, count: int) -> None:
    transactions = loose(seed, lists=lists, count=count)
    assert allowed(transactions) == saturated(transactions)


@pytest.mark.parametrize("lists", [False, True], ids=["registers", "lists"])
def test_such_stores_break_every_level_and_keep_every_level(lists: bool) -> None:
    outcomes = {frozenset(found) for seed in range(150) if (found := kept(loose(seed, lists=lists))) is not None}
    assert outcomes == {frozenset(LEVELS[:n]) for n in range(4)}
