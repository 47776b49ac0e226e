"""Pairs of lies: two facts of a run with a fault, falsified at once, do not hide each other."""

from __future__ import annotations

import pytest
from lies import Lie
from pair_sweep import SYSTEMS, judged_pairs, may_stay_valid
from soundness import clean_run

SEEDS = {"simulated:cassandra-5.0": 1, "simulated:cassandra-6.0": 2, "simulated:scylladb-6.2": 3}
PAIRS = 3


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_sample_of_pairs_of_lies_does_not_pass(system: str) -> None:
    found = list(judged_pairs(SEEDS[system], system, PAIRS))
    assert [one for one in found if one.verdict == "slipped"] == []
    assert len(found) == PAIRS


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("first", range(2000, 2020, 5))
def test_pairs_of_lies_do_not_pass(system: str, first: int) -> None:
    found = [one for seed in range(first, first + 5) for one in judged_pairs(seed, system, 10)]
    assert [one for one in found if one.verdict == "slipped"] == []
    assert sum(one.verdict in {"invalid", "unknown"} for one in found) > len(found) / 2


def test_a_pair_is_that_of_its_seed_and_names_two_classes() -> None:
    (one,) = judged_pairs(1, "simulated:cassandra-5.0", 1)
    (same,) = judged_pairs(1, "simulated:cassandra-5.0", 1)
    assert one == same
    assert len({text.partition(" (")[0] for text in one.lies}) == 2


def test_what_may_stay_valid_is_what_is_listed() -> None:
    by_class: dict[str, Lie] = {lie.kind: lie for lie in clean_run("cassandra-5.0.9").facts()}
    assert may_stay_valid(by_class["note gone: race"], "simulated:cassandra-5.0")
    assert not may_stay_valid(by_class["ack was a refusal: create-table"], "simulated:cassandra-5.0")
