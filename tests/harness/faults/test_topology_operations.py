"""Operations on the topology as the harness carries them out: one at a time, and none that makes no sense any more."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from changing_cluster import ChangingCluster

from schemaquake.harness.errors import HealError, PlanError, StartTimeout
from schemaquake.harness.faults.executor import FaultExecutor, FaultSkipped
from schemaquake.harness.faults.ledger import Ledger
from schemaquake.harness.faults.membership import Roster, TopologyOperations
from schemaquake.harness.faults.rehearsal import rehearse
from schemaquake.harness.model.membership import TopologyChange
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Fault
from schemaquake.harness.registry import load
from schemaquake.harness.run.runner import refuse_contradictions

PLAN = {"system": "cassandra:5.0.9", "workloads": ("set",)}


@pytest.fixture
def operations(tmp_path):
    cluster = ChangingCluster(("n1", "n2", "n3"), ("n4",))
    ledger = Ledger(tmp_path / "ledger.jsonl")
    roster = Roster(cluster)
    yield TopologyOperations(cluster, roster, ledger, note=lambda *_arguments, **_named: None)
    ledger.close()


def operation(*nodes, nemesis="decommission", **parameters):
    return Fault(id=0, nemesis=nemesis, begins_s=1, ends_s=9, nodes=nodes, parameters=parameters)


def test_a_node_cannot_leave_twice(operations):
    decommission = load("nemeses", "decommission")
    assert operations.obstacle(decommission, operation("n2")) is None
    operations.roster.note(1, TopologyChange(becomes={"n2": "left"}, outcome="ok"))
    assert "n2" in operations.obstacle(decommission, operation("n2"))
    assert operations.obstacle(decommission, operation("n3")) is None
    assert operations.obstacle(load("nemeses", "bootstrap"), operation("n4", nemesis="bootstrap")) is None
    assert "n2" in operations.obstacle(load("nemeses", "move"), operation("n2", nemesis="move"))
    assert operations.obstacle(load("nemeses", "move"), operation("n3", nemesis="move")) is None


def test_operations_follow_one_another_unless_they_may_overlap(operations):
    with operations.take_turn(operation("n2")):
        assert operations.take_turn(operation("n3")) is None
        with operations.take_turn(operation("n3", overlaps=True)):
            pass
        assert operations.take_turn(operation("n3")) is None
    with operations.take_turn(operation("n3")):
        pass


@pytest.mark.parametrize(
    ("disturbs", "nodes", "injected"),
    [
        ("process", ("n2",), False),
        ("process", ("n1", "n2"), False),
        ("packets", ("n1", "n2"), True),
        ("packets", ("n2",), False),
    ],
)
def test_a_fault_of_the_network_may_include_a_node_that_left(operations, disturbs, nodes, injected):
    operations.roster.note(1, TopologyChange(becomes={"n2": "left"}, outcome="ok"))
    nemesis = SimpleNamespace(name="some", disturbs=disturbs, inject=lambda *_: {}, heal=lambda *_: {})
    executor = FaultExecutor(operations.cluster, operations.ledger, note=lambda *_: None, roster=operations.roster)
    fault = operation(*nodes, nemesis="some")
    if injected:
        assert executor.inject(nemesis, fault) == {}
    else:
        with pytest.raises(FaultSkipped):
            executor.inject(nemesis, fault)


@pytest.mark.parametrize("left", [True, False])
def test_a_server_that_was_to_be_brought_back_may_have_left_meanwhile(operations, left):
    """Killed while it leaves, started, and the operation went on to its end: it serves nobody, and nothing is wrong with that."""
    healed = []

    def heal(_cluster, fault):
        if "n2" not in fault.nodes:
            healed.append(fault.nodes)
            return {"nodes": list(fault.nodes)}
        if left:
            operations.cluster.states["n2"] = "left"
        raise HealError("n2: it did not serve within 120 s") from StartTimeout("n2")

    nemesis = SimpleNamespace(name="some", disturbs="process", inject=lambda *_: {}, heal=heal)
    notes = []
    executor = FaultExecutor(
        operations.cluster, operations.ledger, note=lambda f, value: notes.append((f, value)), roster=operations.roster
    )
    fault = operation("n2", "n3", nemesis="some")
    executor.inject(nemesis, fault)
    operations.roster.note(1, TopologyChange(becomes={"n2": "left"}, outcome=None))
    if left:
        assert executor.heal(fault.id) == {"nodes": ["n3"], "gone": ["n2"]}
        assert healed == [("n3",)]
        assert "fault-failed" not in [f for f, _ in notes]
    else:
        with pytest.raises(HealError, match="did not serve"):
            executor.heal(fault.id)
        assert "fault-failed" in [f for f, _ in notes]


def test_a_cluster_that_prepares_no_spares_refuses_them(monkeypatch):
    monkeypatch.setattr("schemaquake.harness.run.runner.load", lambda *_: SimpleNamespace(name="bare"))
    with pytest.raises(PlanError, match="--spares"):
        refuse_contradictions(Plan(**PLAN, cluster="ssh", spares=1))


@pytest.mark.parametrize("nemeses", [(), ("kill",)])
def test_a_run_without_operations_cannot_end_after_them(nemeses):
    with pytest.raises(PlanError, match="--ends-after"):
        refuse_contradictions(Plan(**PLAN, nemeses=nemeses, ends_after_s=5))


def test_spares_are_numbered_after_the_nodes_and_typed_as_they_were():
    plan = Plan(**PLAN, nodes=3, spares=2)
    assert (plan.node_names, plan.spare_names) == (("n1", "n2", "n3"), ("n4", "n5"))
    assert "--spares 2" in plan.command()
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.context(frozenset()).spares == ("n4", "n5")
    for wrong in (-1, 249):
        with pytest.raises(PlanError, match="--spares"):
            Plan(**PLAN, spares=wrong)


def test_an_operation_is_rehearsed_without_commands():
    plan = Plan(**PLAN, spares=1, nemeses=("bootstrap",))
    (rehearsed,) = rehearse(plan, addresses={"n4": "192.0.2.4"}, undoing=lambda *_: [])
    assert (rehearsed.nemesis, rehearsed.nodes, rehearsed.injected) == ("bootstrap", ("n4",), {})
    assert rehearsed.incomplete is not None


def test_a_fault_that_two_threads_heal_at_once_is_undone_and_closed_once(operations):
    """An aimed fault may end by itself while the main phase does."""
    began, may_end, undone = threading.Event(), threading.Event(), []

    def heal(_cluster, fault):
        began.set()
        assert may_end.wait(20)
        undone.append(fault.id)
        return {}

    nemesis = SimpleNamespace(name="some", disturbs="packets", inject=lambda *_: {}, heal=heal)
    executor = FaultExecutor(operations.cluster, operations.ledger, note=lambda *_: None)
    executor.inject(nemesis, operation("n2", nemesis="some"))
    with ThreadPoolExecutor() as pool:
        first = pool.submit(executor.heal, 0)
        assert began.wait(20)
        second = pool.submit(executor.heal_all)
        may_end.set()
        assert (first.result(20), second.result(20)) == ({}, None)
    assert undone == [0]
    assert executor.failures == ()
