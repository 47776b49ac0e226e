"""Rolling upgrade: which node becomes what, in which order, and what is done when one fails."""

from __future__ import annotations

from dataclasses import replace

import pytest
from changing_cluster import ChangingCluster

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.context import Context
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import OwnLack, TopologyNemesis
from schemaquake.harness.model.topology import Attempt
from schemaquake.harness.model.upgrade import ChangesVersions, LeadsToSystems, systems_of
from schemaquake.harness.registry import load
from schemaquake.nemeses.topology import attempts
from schemaquake.nemeses.upgrades import rolling_upgrade

OLD, NEW, NEWEST = "made:1", "made:2", "made:3"
NODES = ("n1", "n2", "n3")
CONTEXT = Context(seed=7, nodes=NODES, time_limit_s=100, options={"to": NEW})
PROMISES = {"schema_changes": {"old": "unsupported", "new": "refused"}, "until": "last-steps", "source": "notes"}


class UpgradedCluster(ChangingCluster):
    """`answers` are the outcomes of exchanges and ends in order, `ok` when they are used up."""

    def __init__(self, *, answers=(), refuses=None):
        super().__init__(NODES, answers=answers)
        self.now = dict.fromkeys(NODES, OLD)
        self.refuses = refuses
        self.prepared = [NEW]
        self.keeps = self.waits = None

    def began_as(self):
        return OLD

    def others(self):
        return self.prepared

    def running(self):
        return dict(self.now)

    def cannot_become(self, system):
        return self.refuses

    def cannot_go_back(self, system):
        return self.keeps

    def not_ready(self, system):
        return self.waits

    def promises(self, system):
        return PROMISES

    def become(self, node, system, *, limit_s):
        attempt: Attempt = self._attempt("become", node)
        self.asked.append((node, system))
        self.now[node] = system
        return attempt

    def finish(self, system, *, on, limit_s, insists=False):
        self.asked.append(("insist" if insists else "finish", on))
        return self._attempt("finish", on)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    for module in (attempts, rolling_upgrade):
        monkeypatch.setattr(module, "pause_for", lambda _seconds: None)


def planned(seed=7, **given):
    nemesis = load("nemeses", "rolling-upgrade")
    context = replace(CONTEXT, seed=seed, options={**CONTEXT.options, **given})
    return nemesis, nemesis.schedule(context, random=context.random("nemesis", nemesis.name))


def carried_out(*, answers=(), **given):
    nemesis, operations = planned(**given)
    cluster = UpgradedCluster(answers=answers)
    return [nemesis.operate(cluster, operation) for operation in operations], cluster, operations


def test_it_is_an_operation_on_a_cluster_whose_versions_change():
    nemesis, _ = planned()
    assert isinstance(nemesis, TopologyNemesis)
    assert isinstance(nemesis, OwnLack)
    assert isinstance(nemesis, LeadsToSystems)
    assert isinstance(UpgradedCluster(), ChangesVersions)
    assert nemesis.missing(UpgradedCluster()) is None
    assert nemesis.missing(UpgradedCluster(refuses="no way")) == "no way"
    assert nemesis.missing(ChangingCluster(NODES)) is not None
    same = UpgradedCluster()
    same.prepared = []
    assert OLD in nemesis.missing(same)


def test_every_node_becomes_the_newer_version_once_and_then_the_upgrade_is_ended():
    orders = set()
    for seed in range(30):
        _, operations = planned(seed=seed)
        assert planned(seed=seed)[1] == operations
        assert [one.parameters["stage"] for one in operations] == ["node"] * 3 + ["finish"]
        assert sorted(one.nodes[0] for one in operations[:3]) == list(NODES)
        assert all(0 < one.begins_s < one.ends_s == 100 for one in operations)
        assert [one.begins_s for one in operations] == sorted(one.begins_s for one in operations)
        orders.add(tuple(one.nodes[0] for one in operations[:3]))
    assert len(orders) == 6
    done, cluster, _ = carried_out()
    assert [one.type for one in done] == ["ok"] * 4
    assert set(cluster.now.values()) == {NEW}
    assert [one.value["system"] for one in done] == [NEW] * 4
    assert all(one.value["promises"] == PROMISES for one in done)


def test_a_part_of_the_nodes_is_upgraded_without_an_end():
    _, operations = planned(**{"rolling-upgrade.nodes": "2"})
    assert [one.parameters["stage"] for one in operations] == ["node", "node"]


def test_a_node_goes_back_once_and_is_upgraded_again():
    done, cluster, operations = carried_out(**{"rolling-upgrade.back": "true"})
    stages = [one.parameters["stage"] for one in operations]
    at = stages.index("back")
    assert [one.nodes for one in operations[at - 1 : at + 2]] == [operations[at].nodes] * 3
    assert cluster.asked[at] == (operations[at].nodes[0], OLD)
    assert (sorted(stages), {one.type for one in done}) == (["back", "finish", *["node"] * 4], {"ok"})


def test_a_node_that_does_not_go_back_is_left_as_it_is():
    nemesis, operations = planned(**{"rolling-upgrade.back": "true"})
    cluster = UpgradedCluster()
    cluster.keeps = "no way back"
    done = [nemesis.operate(cluster, operation) for operation in operations]
    assert [
        one.type for one, operation in zip(done, operations, strict=True) if operation.parameters["stage"] == "back"
    ] == ["fail"]
    assert OLD not in [system for _, system in cluster.asked]


def test_several_upgrades_follow_one_another_each_with_an_order_of_its_own_and_an_end():
    given = {"to": f"{NEW}, {NEWEST}"}
    orders = set()
    for seed in range(20):
        nemesis, operations = planned(seed=seed, **given)
        assert [one.parameters["stage"] for one in operations] == (["node"] * 3 + ["finish"]) * 2
        assert [one.parameters["to"] for one in operations] == [NEW] * 4 + [NEWEST] * 4
        assert [one.nodes for one in operations[:4]] == [one.nodes for one in planned(seed=seed)[1]]
        assert all(sorted(one.nodes[0] for one in leg) == list(NODES) for leg in (operations[:3], operations[4:7]))
        orders.add([one.nodes for one in operations[:3]] == [one.nodes for one in operations[4:7]])
    assert orders == {True, False}
    assert nemesis.systems(given) == [NEW, NEWEST]
    cluster = UpgradedCluster()
    cluster.prepared = [NEW, NEWEST]
    done = [nemesis.operate(cluster, operation) for operation in operations]
    assert [one.value["system"] for one in done] == [NEW] * 4 + [NEWEST] * 4
    assert set(cluster.now.values()) == {NEWEST}


def test_of_several_upgrades_a_node_goes_back_to_the_version_before():
    nemesis, operations = planned(**{"to": f"{NEW},{NEWEST}", "rolling-upgrade.back": "true"})
    cluster = UpgradedCluster()
    cluster.prepared = [NEW, NEWEST]
    for operation in operations:
        nemesis.operate(cluster, operation)
    back = [
        asked
        for asked, operation in zip(cluster.asked, operations, strict=True)
        if operation.parameters["stage"] == "back"
    ]
    assert [system for _, system in back] == [OLD, NEW]


def test_no_node_is_upgraded_before_the_upgrade_to_the_version_before_has_ended():
    nemesis, operations = planned()
    cluster = UpgradedCluster()
    cluster.waits = "n2 did not become made:1"
    done = nemesis.operate(cluster, operations[0])
    assert (done.type, cluster.asked) == ("fail", [])


@pytest.mark.parametrize(
    ("answers", "way", "outcome", "system"),
    [
        (["info", "ok"], "retry", "ok", NEW),
        (["info"] * 4, "retry", "info", NEW),
        (["info", "ok"], "abort", "fail", OLD),
        (["info"] * 4, "abort", "info", OLD),
    ],
)
def test_a_node_that_fails_is_tried_again_or_taken_back(answers, way, outcome, system):
    nemesis, operations = planned(**{"rolling-upgrade.after_failure": way})
    cluster = UpgradedCluster(answers=answers)
    done = nemesis.operate(cluster, operations[0])
    assert (done.type, done.value["system"], cluster.now[operations[0].nodes[0]]) == (outcome, system, system)


def test_the_end_is_not_begun_while_a_node_is_the_older_version():
    nemesis, operations = planned()
    cluster = UpgradedCluster()
    assert nemesis.operate(cluster, operations[-1]).type == "fail"
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("answers", "insist", "outcome", "asked"),
    [
        (["fail", "ok"], "true", "ok", ["finish", "insist"]),
        (["fail", "fail"], "true", "fail", ["finish", "insist"]),
        (["fail", "info", "ok"], "true", "ok", ["finish", "insist", "insist"]),
        (["ok"], "true", "ok", ["finish"]),
        (["info", "fail"], "true", "info", ["finish", "finish"]),
        (["fail", "ok"], "false", "fail", ["finish"]),
    ],
)
def test_a_refused_end_is_insisted_on_only_where_that_is_asked_for(answers, insist, outcome, asked):
    nemesis, operations = planned(**{"rolling-upgrade.insist": insist})
    cluster = UpgradedCluster(answers=answers)
    cluster.now = dict.fromkeys(NODES, NEW)
    done = nemesis.operate(cluster, operations[-1])
    assert (done.type, [verb for verb, _ in cluster.asked]) == (outcome, asked)
    assert len(done.value["attempts"]) == len(asked)
    assert done.value["seconds"] == pytest.approx(sum(attempt["seconds"] for attempt in done.value["attempts"]))


def test_no_node_is_taken_down_while_another_is_down():
    nemesis, operations = planned()
    cluster = UpgradedCluster()
    cluster.by_name[operations[1].nodes[0]].kill()
    assert nemesis.operate(cluster, operations[0]).type == "fail"
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("aim", "stage"), [("kill@drain", "node"), ("pause@start:peer", "node"), ("kill@initialize", "finish")]
)
def test_a_fault_is_aimed_at_the_operation_that_has_the_step(aim, stage):
    for seed in range(10):
        _, operations = planned(seed=seed, aim=aim)
        (aimed,) = [one for one in operations if "aim" in one.parameters]
        assert aimed.parameters["stage"] == stage
        assert aimed.parameters["aim"]["step"] == aim.split("@")[1].split(":")[0]
        assert (aimed.parameters["aim"]["nodes"] == list(aimed.nodes)) == (":" not in aim)


def test_any_aim_is_one_of_the_operations_own_steps():
    for seed in range(30):
        _, operations = planned(seed=seed, aim="any")
        (aimed,) = [one for one in operations if "aim" in one.parameters]
        last = aimed.parameters["aim"]["step"] in {"initialize", "rewrite"}
        assert last == (aimed.parameters["stage"] == "finish")


@pytest.mark.parametrize(
    "given",
    [
        {"to": ""},
        {"to": " , "},
        {"to": f"{NEW},{NEW}"},
        {"to": f"{NEW},{NEWEST}", "rolling-upgrade.nodes": "2"},
        {"aim": "kill@PREPARE"},
        {"rolling-upgrade.begins_s": "100"},
    ],
)
def test_what_cannot_be_is_refused_beforehand(given):
    with pytest.raises(PlanError):
        planned(**given)


def test_the_systems_of_a_plan_are_known_before_there_is_a_cluster():
    plan = Plan(system=OLD, workloads=("set",), nemeses=("rolling-upgrade", "kill"), options={"to": NEW})
    assert systems_of(plan) == (OLD, NEW)
    assert systems_of(replace(plan, options={"to": OLD})) == (OLD,)
    assert systems_of(replace(plan, nemeses=(), options={})) == (OLD,)
    with pytest.raises(PlanError, match="to="):
        systems_of(replace(plan, options={}))
