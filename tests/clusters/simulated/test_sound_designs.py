"""Designs without a flaw keep what they acknowledged, on every node, whatever falls in between: looked up in the nodes themselves."""

from __future__ import annotations

import pytest
from simulated_nodes import script

SYSTEMS = [
    *("cassandra-0.7", "cassandra-1.1", "cassandra-1.2", "cassandra-2.2", "cassandra-3.11"),
    *("cassandra-5.0", "cassandra-6.0", "scylladb-6.2"),
]


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_was_answered_is_so_on_every_node(system):
    for seed in range(1, 6):
        assert (seed, script(f"simulated:{system}", seed).breaches()) == (seed, [])


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
def test_what_was_answered_is_so_on_every_node_for_two_thousand_seeds(system):
    for seed in range(100, 2100):
        assert (seed, script(f"simulated:{system}", seed).breaches()) == (seed, [])


@pytest.mark.long
@pytest.mark.parametrize("nodes", [1, 2, 4, 5])
def test_a_group_of_any_size_elects_one_leader_a_term(nodes):
    for seed in range(1, 300):
        assert (seed, script("simulated:scylladb-6.2", seed, nodes=nodes).breaches()) == (seed, [])


def test_the_script_does_fail_changes_and_leave_some_unknown():
    runs = [script("simulated:scylladb-6.2", seed) for seed in range(1, 6)]
    outcomes = [outcome for run in runs for outcome in run.outcomes.values()]
    assert {"ok", "info"} <= set(outcomes)
    assert sum(len(run.leaders) for run in runs) > len(runs)


@pytest.mark.parametrize(("system", "bugs"), [("cassandra-0.7", "default"), ("scylladb-6.2", "two-founders")])
def test_the_same_script_breaks_a_design_with_a_flaw(system, bugs):
    assert any(script(f"simulated:{system}", seed, bugs).breaches() for seed in range(1, 30))
