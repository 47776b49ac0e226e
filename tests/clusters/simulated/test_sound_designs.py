"""Designs without a flaw keep what they acknowledged, on every node, whatever falls in between: looked up in the nodes themselves."""

from __future__ import annotations

import pytest
from simulated_nodes import COLUMNS, script, standing

from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.ddl.rows import insert, read_rows

SYSTEMS = [
    *("cassandra-0.7", "cassandra-1.1", "cassandra-1.2", "cassandra-2.2", "cassandra-3.11"),
    *("cassandra-5.0", "cassandra-6.0", "scylladb-6.2"),
]
VOTED_TWICE = range(20, 29)
REFUSED = (7,)


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


def breaches(bugs, seeds, **named):
    return [breach for seed in seeds for breach in script("simulated:scylladb-6.2", seed, bugs, **named).breaches()]


def test_a_vote_that_is_not_kept_elects_two_leaders_in_one_term():
    assert any("leaders in term" in breach for breach in breaches("vote-not-kept", VOTED_TWICE))


def test_a_change_under_a_new_id_is_refused_though_it_stands():
    assert any("was answered fail" in breach for breach in breaches("retry-new-id", REFUSED))


def test_files_that_a_killed_node_did_not_delete_are_found_by_the_next_table_of_that_name():
    assert [rows_after_a_drop(bugs) for bugs in ("none", "files-stay")] == [[], [{"k": 1, "v": "old"}]]


def rows_after_a_drop(bugs):
    """Drop a table whose coordinator is killed before it deletes files, create it again, read at ALL."""
    options = {"bugs": bugs, "kill.at": "0.7/apply/a6@3"}
    with standing("simulated:cassandra-0.7", 1, options=options) as (cluster, runtime):
        one, other = (cluster.connector().connect(name, request_timeout_s=20) for name in ("n1", "n2"))
        one.invoke(ddl.create_keyspace("ks", replication_factor=3))
        one.invoke(ddl.create_table("ks", "t", columns=COLUMNS))
        other.invoke(insert("ks", "t", {"k": 1, "v": "old"}, consistency="ALL"))
        answers = []
        one.submit(ddl.drop_table("ks", "t"), answers.append)
        runtime.sleep(1)
        assert [answer.type for answer in answers] == ["info"]
        assert other.invoke(ddl.create_table("ks", "t", columns=COLUMNS)).type == "ok"
        runtime.sleep(8)
        read = read_rows("ks", "t", columns=["k", "v"], consistency="ALL", phase="final")
        return other.invoke(read).value["rows"]
