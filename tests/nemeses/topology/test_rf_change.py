"""A changed replication factor: the ALTER is a request that the history has, and repairs follow only where it was made."""

from __future__ import annotations

from dataclasses import replace

import pytest
from changing_cluster import ChangingCluster

from schemaquake.harness.errors import NodeUnreachable, PlanError
from schemaquake.harness.model.context import Context
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import TopologyNemesis
from schemaquake.harness.model.topology import AsksAsClient
from schemaquake.harness.registry import load
from schemaquake.nemeses.topology import replication

NODES = ("n1", "n2", "n3")
CONTEXT = Context(seed=7, nodes=NODES, time_limit_s=100)
THREE = {"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "3"}


class Asked:
    """Requests that are answered as a test scripts them."""

    def __init__(self, shown, answers=()):
        self.shown, self.answers, self.asked = dict(shown), list(answers), []
        self.deaf = ()
        self.known = self.shown

    def ask(self, node, operation):
        self.asked.append((node, operation.f, operation.value["replication"]["replication_factor"]))
        outcome = self.answers.pop(0) if self.answers else "ok"
        if outcome == "unreachable":
            raise NodeUnreachable(f"{node} does not answer")
        if outcome == "ok":
            self.known = {**self.shown, operation.key: operation.value["replication"]}
        return Completion(type=outcome, error=None if outcome == "ok" else "words")

    def replications(self, node):
        return self.shown if node in self.deaf else self.known


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(replication, "pause_for", lambda _seconds: None)
    monkeypatch.setattr(replication, "_SHOWN_LIMIT_S", 0.0)


def planned(seed=7, **options):
    nemesis = load("nemeses", "rf-change")
    given = {f"rf-change.{name}": text for name, text in options.items()}
    context = replace(CONTEXT, seed=seed, options=given)
    (operation,) = nemesis.schedule(context, random=context.random("nemesis", "rf-change"))
    return nemesis, operation


def carried_out(shown=None, *, answers=(), repairs=(), seed=7, **options):
    nemesis, operation = planned(seed, **options)
    cluster, requests = ChangingCluster(NODES, answers=repairs), Asked(shown or {"sq_set": THREE}, answers)
    return nemesis.operate_as_client(cluster, operation, requests), cluster, requests


def test_the_keyspace_is_altered_once_and_then_every_node_is_repaired():
    done, cluster, requests = carried_out()
    assert isinstance(load("nemeses", "rf-change"), TopologyNemesis)
    assert isinstance(load("nemeses", "rf-change"), AsksAsClient)
    assert (done.type, done.error, done.value["keyspace"], done.value["from"], done.value["to"]) == (
        "ok",
        None,
        "sq_set",
        3,
        2,
    )
    assert requests.asked == [("n1", "alter-keyspace", 2)]
    assert cluster.asked == [("repair", name, "sq_set") for name in NODES]


def test_the_factor_becomes_one_more_or_one_less_and_never_more_than_nodes_serve():
    two = {**THREE, "replication_factor": "2"}
    drawn = {carried_out({"sq_a": two}, seed=seed)[0].value["to"] for seed in range(30)}
    assert drawn == {1, 3}
    drawn = {carried_out({"sq_a": THREE, "sq_b": two}, seed=seed)[0].value["keyspace"] for seed in range(30)}
    assert drawn == {"sq_a", "sq_b"}
    assert carried_out({"sq_a": two}, factor="3")[0].value["to"] == 3


@pytest.mark.parametrize(
    ("shown", "options"),
    [
        ({}, {}),
        ({"sq_a": {"class": "NetworkTopologyStrategy", "dc1": "3"}}, {}),
        ({"sq_a": THREE}, {"factor": "4"}),
        ({"sq_a": THREE}, {"factor": "3"}),
        ({"sq_a": THREE}, {"keyspace": "sq_b"}),
    ],
)
def test_where_nothing_can_be_changed_nothing_is_asked(shown, options):
    nemesis, operation = planned(**options)
    cluster, requests = ChangingCluster(NODES), Asked(shown)
    assert nemesis.operate_as_client(cluster, operation, requests).type == "fail"
    assert (requests.asked, cluster.asked) == ([], [])


@pytest.mark.parametrize(
    ("answers", "outcome", "alters", "repaired"),
    [
        (["fail"], "fail", 1, False),
        (["info", "ok"], "ok", 2, True),
        (["unreachable", "ok"], "ok", 2, True),
        # Whether the first attempt was made, the refusal of the second does not say.
        (["info", "fail"], "info", 2, False),
        (["info"] * 9, "info", 3, False),
    ],
)
def test_an_alter_without_an_answer_is_asked_again(answers, outcome, alters, repaired):
    done, cluster, requests = carried_out(answers=answers)
    assert (done.type, len(requests.asked), bool(cluster.asked)) == (outcome, alters, repaired)


def test_a_repair_that_fails_is_repeated_and_leaves_the_outcome_open_in_the_end():
    done, cluster, _ = carried_out(repairs=["ok", "info", "ok"])
    assert (done.type, [on for _, on, _ in cluster.asked]) == ("ok", ["n1", "n2", "n2", "n3"])
    done, cluster, _ = carried_out(repairs=["ok", "fail", "fail", "fail"])
    assert (done.type, [on for _, on, _ in cluster.asked]) == ("info", ["n1", "n2", "n2", "n2"])
    assert carried_out(repair="false")[1].asked == []


def test_a_change_that_nothing_would_record_is_not_made():
    nemesis, operation = planned()
    cluster = ChangingCluster(NODES)
    assert (nemesis.operate(cluster, operation).type, cluster.asked) == ("fail", [])
    assert nemesis.missing(ChangingCluster(NODES, lacks=["repair"])) == "no repair"
    with pytest.raises(PlanError):
        planned(factor="-1")


def test_the_nodes_that_showed_the_new_factor_before_the_repairs_are_named():
    assert carried_out()[0].value["shown_by"] == list(NODES)
    nemesis, operation = planned()
    cluster, requests = ChangingCluster(NODES), Asked({"sq_set": THREE})
    requests.deaf = ("n2",)
    done = nemesis.operate_as_client(cluster, operation, requests)
    assert (done.type, done.value["shown_by"]) == ("ok", ["n1", "n3"])
    assert cluster.asked == [("repair", name, "sq_set") for name in NODES]
    assert carried_out(answers=["info"] * 9)[0].value["shown_by"] == []
