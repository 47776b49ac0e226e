"""Owner's limits: no more nodes down at once than allowed, and everything undone when a condition says so."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest
from test_faults import Bench, Blow, Servers, context

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.faults.executor import FaultSkipped
from schemaquake.harness.faults.owners_limits import most_down, nodes_down
from schemaquake.harness.faults.schedule import FaultSchedule
from schemaquake.harness.model.protocols import Fault
from schemaquake.harness.registry import load
from schemaquake.harness.wait import until


def fault(number, nodes, begins_s=0.0, ends_s=10.0, **parameters):
    return Fault(id=number, nemesis="blow", begins_s=begins_s, ends_s=ends_s, nodes=nodes, parameters=parameters)


@dataclass
class Condition:
    """A condition that says stop when it is told to."""

    name: str = "is-unwell"
    every_s: float = 0.01
    says: str | None = None
    error: Exception | None = None
    asked: int = 0
    closed: bool = False

    def ask(self):
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.says

    def close(self):
        self.closed = True


@dataclass
class Limited(Servers):
    max_nodes_down: int | None = None
    conditions: list[Condition] = field(default_factory=list)

    def stop_conditions(self):
        return self.conditions


def bench_of(folder, **limits):
    bench = Bench(folder)
    bench.cluster = Limited(bench.cluster.nodes, **limits)
    bench.executor = type(bench.executor)(bench.cluster, bench.ledger, note=bench.note)
    return bench


# ── max_nodes_down ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("spans", "down"),
    [
        ([], 0),
        ([(0, 5, "a"), (5, 9, "b")], 1),
        ([(0, 6, "a"), (5, 9, "b")], 2),
        ([(0, 6, "a"), (5, 9, "a")], 1),
        ([(0, 9, "a"), (1, 3, "b"), (2, 8, "c")], 3),
        ([(0, 9, "a"), (1, 2, "b"), (2, 8, "c")], 2),
    ],
)
def test_the_most_that_is_down_at_once_is_that_of_the_worst_moment(spans, down):
    blow = Blow()
    planned = [(blow, fault(number, (node,), begins, ends)) for number, (begins, ends, node) in enumerate(spans)]
    assert len(most_down(planned)) == down


def test_what_a_fault_takes_down_is_what_does_not_serve_or_hears_no_majority():
    assert nodes_down(Blow(), fault(0, ("n1", "n2"))) == {"n1", "n2"}
    assert nodes_down(Blow(disturbs="clock"), fault(0, ("n1", "n2"))) == set()
    cut = {"n1": ["n2", "n3"], "n2": ["n1"], "n3": ["n1"]}
    assert nodes_down(load("nemeses", "partition"), fault(0, ("n1", "n2", "n3"), grudge=cut)) == {"n1"}
    chain = {"n1": ["n3"], "n3": ["n1"]}
    assert nodes_down(load("nemeses", "partition"), fault(0, ("n1", "n2", "n3"), grudge=chain)) == set()
    one_way = {"n1": ["n2", "n3"]}
    assert nodes_down(load("nemeses", "partition"), fault(0, ("n1", "n2", "n3"), grudge=one_way)) == {"n1"}
    assert len(nodes_down(load("nemeses", "rolling-restart"), fault(0, ("n1", "n2", "n3")))) == 1


def test_a_fault_that_would_take_down_too_many_now_is_skipped_and_the_next_is_not(tmp_path):
    bench = bench_of(tmp_path, max_nodes_down=1)
    bench.executor.inject(Blow(), fault(0, ("n1",)))
    with pytest.raises(FaultSkipped, match="n1, n2 would be down at once, and max_nodes_down is 1"):
        bench.executor.inject(Blow(disturbs="process"), fault(1, ("n2",)))
    bench.executor.inject(Blow(disturbs="clock"), fault(2, ("n2",)))
    bench.executor.heal(0)
    bench.executor.inject(Blow(), fault(3, ("n2",)))
    bench.executor.heal_all()


def test_a_limit_of_none_down_leaves_faults_that_take_none_down(tmp_path):
    bench = bench_of(tmp_path, max_nodes_down=0)
    with pytest.raises(FaultSkipped):
        bench.executor.inject(Blow(), fault(0, ("n1",)))
    bench.executor.inject(Blow(disturbs="clock"), fault(1, ("n1",)))
    bench.executor.heal_all()


# ── stop_if ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def running(bench, blow, *, halted=lambda _: None):
    schedule = FaultSchedule(bench.cluster, [blow], context(60), ledger=bench.ledger, note=bench.note, halted=halted)
    schedule.start()
    until(lambda: "inject 0" in blow.log, deadline_s=30, what="the injection")
    return schedule


@pytest.mark.parametrize("error", [None, RuntimeError("the watch is broken")])
def test_everything_is_undone_at_once_when_a_condition_says_so(tmp_path, error):
    conditions = [Condition(name="calm"), Condition()]
    bench, blow = bench_of(tmp_path, conditions=conditions), Blow(plan=((0, 50, ("n1",)), (51, 59, ("n2",))))
    ended = threading.Event()
    schedule = running(bench, blow, halted=lambda _: ended.set())
    until(lambda: conditions[0].asked > 2, deadline_s=30, what="questions")
    assert "heal 0" not in blow.log
    conditions[1].says, conditions[1].error = "it is 9000", error
    until(lambda: "heal 0" in blow.log, deadline_s=30, what="the healing")
    assert ended.wait(30)
    until(lambda: "faults-halted" in [f for f, _ in bench.notes], deadline_s=30, what="the note")
    with pytest.raises(ExceptionGroup) as raised:
        until(schedule.stop, deadline_s=1, what="the error")
    assert any("stop_if is-unwell: " in str(each) for each in raised.value.exceptions)
    assert all(isinstance(each, ClusterError) for each in raised.value.exceptions)
    assert blow.log.count("inject 1") == 0
    assert any("every fault was undone" in text for text in schedule.failures)
    until(lambda: all(each.closed for each in conditions), deadline_s=30, what="the end of the threads")
    assert set(dict(bench.states).values()) <= {"healed", "skipped"}


def test_after_the_condition_nothing_is_injected_any_more(tmp_path):
    bench = bench_of(tmp_path)
    bench.executor.halt("is-unwell: now")
    bench.executor.halt("another")
    with pytest.raises(FaultSkipped, match="stop_if is-unwell: now"):
        bench.executor.inject(Blow(), fault(0, ("n1",)))
    assert [f for f, _ in bench.notes] == ["faults-halted", "fault-skipped"]


def test_a_condition_that_says_nothing_changes_nothing(tmp_path):
    condition = Condition()
    bench, blow = bench_of(tmp_path, conditions=[condition]), Blow(plan=((0, 50, ("n1",)),))
    schedule = running(bench, blow)
    until(lambda: condition.asked > 3, deadline_s=30, what="questions")
    schedule.stop()
    assert blow.log == ["inject 0", "heal 0"]
    assert schedule.failures == ()
    until(lambda: condition.closed, deadline_s=30, what="the end of the thread")
