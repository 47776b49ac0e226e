"""Everyday operations: what is asked of which node, and that nothing stays switched off."""

from __future__ import annotations

from dataclasses import replace

import pytest
from changing_cluster import ChangingCluster

from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.context import Context
from schemaquake.harness.model.protocols import OwnLack, TopologyNemesis
from schemaquake.harness.registry import load
from schemaquake.nemeses.everyday import maintenance

NODES = ("n1", "n2", "n3")
CONTEXT = Context(seed=7, nodes=NODES, time_limit_s=100)
KINDS = tuple(load("nemeses", "everyday").kinds)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(maintenance, "pause_for", lambda _seconds: None)


def planned(seed=7, **options):
    nemesis = load("nemeses", "everyday")
    given = {f"everyday.{name}": text for name, text in options.items()}
    context = replace(CONTEXT, seed=seed, options=given)
    return nemesis, nemesis.schedule(context, random=context.random("nemesis", "everyday"))


def carried_out(kind, *, answers=(), lacks=()):
    nemesis, (operation,) = planned(kinds=kind, count="1")
    cluster = ChangingCluster(NODES, answers=answers, lacks=lacks)
    return nemesis.operate(cluster, operation), cluster, operation


def test_it_plans_as_many_operations_as_it_is_told_and_every_kind_in_its_turn():
    nemesis, operations = planned(count=str(2 * len(KINDS)))
    assert isinstance(nemesis, TopologyNemesis)
    assert isinstance(nemesis, OwnLack)
    assert planned(count=str(2 * len(KINDS)))[1] == operations
    kinds = [one.parameters["kind"] for one in operations]
    assert sorted(kinds) == sorted(KINDS * 2)
    assert all(0 < one.begins_s < one.ends_s == 100 for one in operations)
    assert {one.nodes[0] for one in operations} <= set(NODES)
    assert len({tuple(one.parameters["kind"] for one in planned(seed=seed)[1]) for seed in range(20)}) > 10


@pytest.mark.parametrize("options", [{"kinds": "flush,pray"}, {"kinds": ""}, {"count": "0"}])
def test_what_there_is_not_is_refused_beforehand(options):
    with pytest.raises(PlanError):
        planned(**options)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_ok_when_all_of_its_requests_are(kind):
    done, cluster, operation = carried_out(kind)
    assert (done.type, done.error, done.value["kind"]) == ("ok", None, kind)
    assert all(on == operation.nodes[0] for _, on, _ in cluster.asked)
    verbs = [verb for verb, _, _ in cluster.asked]
    assert len(verbs) == (2 if verbs[0].endswith("-off") else 1)
    if len(verbs) == 2:
        assert verbs[1] == verbs[0].replace("-off", "-on")
    assert (operation.parameters.get("takes_down") is True) == (kind in {"drain", "gossip", "binary"})


def test_a_snapshot_has_a_name_of_its_own():
    _, cluster, _ = carried_out("snapshot")
    assert cluster.asked[0][2] == "schemaquake0"


@pytest.mark.parametrize(
    ("answers", "outcome", "asked"),
    [
        (["info"], "info", 2),  # it may be off: it is switched on
        (["fail"], "info", 2),
        (["ok", "info"], "ok", 3),  # switched on by the second try
        (["ok", "info", "info", "info"], "info", 4),
        (["ok", "fail", "fail", "fail"], "info", 4),
    ],
)
def test_a_service_is_switched_on_again_whatever_the_answers_are(answers, outcome, asked):
    done, cluster, _ = carried_out("gossip", answers=answers)
    assert (done.type, len(cluster.asked)) == (outcome, asked)
    assert cluster.asked[-1][0] == "gossip-on"


def test_it_is_switched_on_even_if_the_first_request_breaks_off(monkeypatch):
    nemesis, (operation,) = planned(kinds="binary", count="1")
    cluster = ChangingCluster(NODES)
    ask = cluster.ask

    def breaks_off(verb, **more):
        if verb == "clients-off":
            cluster.asked.append((verb, more["on"], None))
            raise KeyboardInterrupt
        return ask(verb, **more)

    cluster.ask = breaks_off
    with pytest.raises(KeyboardInterrupt):
        nemesis.operate(cluster, operation)
    assert [verb for verb, _, _ in cluster.asked] == ["clients-off", "clients-on"]


def test_a_drained_node_is_restarted_also_if_the_drain_failed():
    for answers in ([], ["info"]):
        done, cluster, operation = carried_out("drain", answers=answers)
        assert cluster.by_name[operation.nodes[0]].started == 1
        assert done.type == (answers or ["ok"])[0]


def test_a_refusal_of_the_only_request_is_a_fail():
    assert carried_out("flush", answers=["fail"])[0].type == "fail"


def test_a_node_that_does_not_run_and_a_system_without_the_command_are_not_asked():
    nemesis, (operation,) = planned(kinds="flush", count="1")
    cluster = ChangingCluster(NODES)
    cluster.by_name[operation.nodes[0]].kill()
    assert (nemesis.operate(cluster, operation).type, cluster.asked) == ("fail", [])
    done, cluster, _ = carried_out("flush", lacks=["flush"])
    assert (done.type, cluster.asked) == ("fail", [])


def test_lines_have_the_commands_or_say_that_they_have_not():
    nemesis = load("nemeses", "everyday")
    assert nemesis.missing(ChangingCluster(NODES)) is None
    everything = [verb for verbs in maintenance._VERBS.values() for verb in verbs]
    assert nemesis.missing(ChangingCluster(NODES, lacks=everything)) is not None
    for system, has in (("cassandra:5.0.9", True), ("cassandra:6.0-alpha2", True), ("cassandra:1.2.19", False)):
        topology = parse_system(system).topology
        assert all(bool(topology.commands(verb, "x")) == has for verb in everything)
    assert [str(c) for c in parse_system("cassandra:5.0.9").topology.commands("snapshot", "s")] == [
        "nodetool snapshot -t s"
    ]
