"""Simulated packet filters are read back as real ones are, by the nemeses' own code."""

from __future__ import annotations

from simulated_runs import simulate

from schemaquake.clusters.simulated.shell import Filters, execute


def iptables(filters, *arguments):
    return execute(filters, ["iptables", "-w", "5", *arguments])


def with_rule(source="10.66.0.2", *more):
    filters = Filters()
    for arguments in (("-N", "f"), ("-A", "f", "-s", source, *more, "-j", "DROP"), ("-I", "INPUT", "1", "-j", "f")):
        assert iptables(filters, *arguments).exit_code == 0
    return filters


def test_a_rule_drops_its_source_alone_and_counts():
    filters = with_rule()
    assert [filters.drops("10.66.0.2"), filters.drops("10.66.0.3")] == [True, False]
    listed = iptables(filters, "-v", "-S", "f").stdout.splitlines()
    assert listed == ["-N f", "-A f -s 10.66.0.2/32 -c 1 120 -j DROP"]


def test_a_chain_that_is_not_hooked_in_drops_nothing():
    filters = with_rule()
    assert iptables(filters, "-D", "INPUT", "-j", "f").exit_code == 0
    assert not filters.active
    assert not filters.drops("10.66.0.2")
    assert [iptables(filters, *a).exit_code for a in (("-F", "f"), ("-X", "f"), ("-S", "f"))] == [0, 0, 1]


def test_what_a_simulated_node_does_not_have_is_not_found():
    assert execute(Filters(), ["nft", "--check", "x"]).exit_code == 127
    assert execute(Filters(), ["curl", "http://localhost"]).exit_code == 127


def test_partitions_prove_by_counters_that_they_cut(tmp_path):
    run = simulate(tmp_path, "quorum", "partition", seed=1, rate=10, time_limit_s=30)
    ended = run.notes("fault-ends")
    assert ended
    assert all(fault["effect"]["observed"] and fault["effect"]["packets"] > 0 for fault in ended)
