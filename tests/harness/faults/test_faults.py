from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace

import pytest

from schemaquake.harness.errors import ClusterError, HealError, NodeDied, NodeUnreachable, PlanError, StartTimeout
from schemaquake.harness.faults.executor import FaultExecutor, FaultFailed, FaultSkipped
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger, read_ledger
from schemaquake.harness.faults.schedule import FaultSchedule, compose
from schemaquake.harness.model.protocols import Context, Fault, FaultRequest
from schemaquake.harness.wait import until


@dataclass
class Server:
    """A node as far as faults see it."""

    name: str
    now: str = "running"

    def state(self):
        if self.now == "unreachable":
            raise NodeUnreachable(f"{self.name} does not answer")
        return self.now


@dataclass
class Servers:
    nodes: list[Server]


@dataclass
class Blow:
    """A nemesis that writes down what it did, and raises what it is told to."""

    name: str = "blow"
    disturbs: str = "process"
    log: list[str] = field(default_factory=list)
    inject_error: BaseException | None = None
    heal_errors: list[BaseException] = field(default_factory=list)
    plan: tuple[tuple[float, float, tuple[str, ...]], ...] = ()

    def missing(self, cluster):
        return None

    def schedule(self, context, *, random):
        return [
            Fault(id=i, nemesis=self.name, begins_s=begins, ends_s=ends, nodes=nodes, parameters={"r": random.random()})
            for i, (begins, ends, nodes) in enumerate(self.plan)
        ]

    def inject(self, cluster, fault):
        self.log.append(f"inject {fault.id}")
        if self.inject_error is not None:
            raise self.inject_error
        return {"observed": True, "hit": list(fault.nodes)}

    def heal(self, cluster, fault):
        self.log.append(f"heal {fault.id}")
        if self.heal_errors:
            raise self.heal_errors.pop(0)
        return {"observed": True}


class Bench:
    """An executor on five servers with a real ledger; `told` holds the notes as (f, id)."""

    def __init__(self, folder):
        self.cluster = Servers([Server(f"n{i}") for i in range(1, 6)])
        self.ledger = Ledger(folder / FILE_NAME)
        self.notes = []
        self.executor = FaultExecutor(self.cluster, self.ledger, note=self.note)

    def note(self, f, value):
        self.notes.append((f, value))

    @property
    def told(self):
        return [(f, value["id"]) for f, value in self.notes]

    @property
    def states(self):
        return [(entry.fault.id, entry.state) for entry in read_ledger(self.ledger.path)]

    def schedule(self, *nemeses, time_limit_s=1.0, requested=()):
        return FaultSchedule(
            self.cluster, nemeses, context(time_limit_s), ledger=self.ledger, note=self.note, requested=requested
        )


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def context(time_limit_s=1.0, **fields):
    return Context(seed=11, nodes=("n1", "n2", "n3", "n4", "n5"), time_limit_s=time_limit_s, **fields)


def fault(number=0, *nodes, nemesis="blow"):
    return Fault(id=number, nemesis=nemesis, begins_s=0, ends_s=1, nodes=nodes or ("n1",), parameters={"depth": 2})


# ── one fault ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fault_is_on_record_before_it_is_injected_and_told_of_afterwards(bench):
    class Watching(Blow):
        def inject(self, cluster, fault):
            self.seen = (bench.states, bench.told)
            return super().inject(cluster, fault)

    nemesis = Watching()
    assert bench.executor.inject(nemesis, fault(4)) == {"observed": True, "hit": ["n1"]}
    assert nemesis.seen == ([(4, "planned")], [])
    bench.executor.heal(4)
    assert bench.states == [(4, "planned"), (4, "injected"), (4, "healing"), (4, "healed")]
    told = {"id": 4, "nemesis": "blow", "nodes": ["n1"], "parameters": {"depth": 2}}
    assert bench.notes == [
        ("fault-begins", told | {"effect": {"observed": True, "hit": ["n1"]}}),
        ("fault-ends", told | {"effect": {"observed": True}}),
    ]
    assert bench.executor.failures == ()


def test_an_injection_that_raises_is_undone_at_once_and_remembered(bench):
    nemesis = Blow(inject_error=ClusterError("no such tool"))
    with pytest.raises(FaultFailed, match=r"blow \(fault 0\) could not be injected: no such tool") as raised:
        bench.executor.inject(nemesis, fault())
    assert raised.value.__cause__ is nemesis.inject_error
    assert nemesis.log == ["inject 0", "heal 0"]
    assert [state for _, state in bench.states] == ["planned", "failed", "healing", "healed"]
    assert bench.told == [("fault-failed", 0)]
    assert bench.notes[0][1]["stage"] == "inject"
    assert bench.notes[0][1]["error"] == "ClusterError: no such tool"
    assert bench.executor.failures == ("blow (fault 0) on n1: inject: ClusterError: no such tool",)


def test_an_interrupt_during_an_injection_is_healed_and_goes_on_as_an_interrupt(bench):
    nemesis = Blow(inject_error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        bench.executor.inject(nemesis, fault())
    assert nemesis.log == ["inject 0", "heal 0"]
    assert bench.ledger.open_faults() == []


def test_a_fault_that_cannot_be_undone_stays_open_and_can_be_tried_again(bench):
    nemesis = Blow(heal_errors=[RuntimeError("the rule stays")])
    bench.executor.inject(nemesis, fault())
    with pytest.raises(HealError, match=r"blow \(fault 0\) could not be undone: the rule stays"):
        bench.executor.heal(0)
    assert [entry.state for entry in bench.ledger.open_faults()] == ["failed"]
    assert bench.told == [("fault-begins", 0), ("fault-failed", 0)]
    assert bench.executor.heal(0) == {"observed": True}
    assert bench.ledger.open_faults() == []


@pytest.mark.parametrize(
    "finding",
    [NodeDied("it ended", node="n1", exit_code=3, first_error="Unknown type"), StartTimeout("it did not serve")],
    ids=["died", "hangs"],
)
def test_a_node_that_does_not_come_back_is_a_finding_and_not_a_fault_in_place(bench, finding):
    error = HealError(f"n1: {finding}")
    error.__cause__ = finding
    nemesis = Blow(heal_errors=[error])
    bench.executor.inject(nemesis, fault())
    with pytest.raises(HealError, match=str(finding)):
        bench.executor.heal(0)
    assert bench.told == [("fault-begins", 0), ("fault-failed", 0), ("fault-ends", 0)]
    assert bench.ledger.open_faults() == []
    bench.executor.heal_all()
    assert nemesis.log == ["inject 0", "heal 0"]


def test_healing_what_is_not_in_place_does_nothing(bench):
    assert bench.executor.heal(9) is None
    assert bench.states == []


def test_a_held_fault_lasts_as_long_as_its_block_even_if_that_raises(bench):
    nemesis = Blow()
    log_within = []

    def hold_and_break():
        with bench.executor.hold(nemesis, fault()) as effect:
            log_within.append((effect["hit"], list(nemesis.log)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hold_and_break()
    assert log_within == [(["n1"], ["inject 0"])]
    assert nemesis.log == ["inject 0", "heal 0"]


def test_everything_is_healed_in_reverse_order_and_all_are_tried(bench):
    log = []
    nemeses = [
        Blow(name="a", disturbs="a", log=log),
        Blow(name="b", disturbs="b", log=log, heal_errors=[HealError("b stays")]),
        Blow(name="c", disturbs="c", log=log, heal_errors=[HealError("c stays")]),
    ]
    for number, nemesis in enumerate(nemeses):
        bench.executor.inject(nemesis, fault(number))
    with pytest.raises(ExceptionGroup) as group:
        bench.executor.heal_all()
    assert log[3:] == ["heal 2", "heal 1", "heal 0"]
    assert [str(error) for error in group.value.exceptions] == ["c stays", "b stays"]
    assert [entry.fault.id for entry in bench.ledger.open_faults()] == [1, 2]
    bench.executor.heal_all()
    assert bench.ledger.open_faults() == []


def test_one_id_is_not_given_to_two_faults_in_place(bench):
    bench.executor.inject(Blow(), fault(1, "n1"))
    with pytest.raises(ValueError, match="fault 1 is already in place"):
        bench.executor.inject(Blow(), fault(1, "n2"))


# ── faults that meet ─────────────────────────────────────────────────────────────────────────────────────────────────


def skipped(bench, nemesis, planned):
    with pytest.raises(FaultSkipped) as reason:
        bench.executor.inject(nemesis, planned)
    assert nemesis.log == []
    assert bench.told[-1] == ("fault-skipped", planned.id)
    assert bench.states[-2:] == [(planned.id, "planned"), (planned.id, "skipped")]
    assert bench.notes[-1][1]["reason"] in str(reason.value)
    assert bench.executor.failures == ()
    return bench.notes[-1][1]["reason"]


def test_a_node_is_not_killed_while_it_is_paused(bench):
    bench.executor.inject(Blow(name="pause"), fault(0, "n1", nemesis="pause"))
    assert skipped(bench, Blow(name="kill"), fault(1, "n1", nemesis="kill")) == "n1 is still under pause (fault 0)"
    bench.executor.heal(0)
    bench.executor.inject(Blow(name="kill"), fault(2, "n1", nemesis="kill"))


def test_a_node_that_is_already_down_is_not_killed(bench):
    bench.cluster.nodes[1].now = "stopped"
    assert skipped(bench, Blow(), fault(0, "n2", "n3")) == "n2 is not running, and no fault that goes on stopped it"


def test_a_node_that_does_not_answer_is_not_touched(bench):
    bench.cluster.nodes[1].now = "unreachable"
    assert skipped(bench, Blow(), fault(0, "n2")) == "the state of n2 could not be read: n2 does not answer"


def test_two_small_faults_do_not_take_a_majority_down_together(bench):
    bench.executor.inject(Blow(name="pause"), fault(0, "n1", "n2", nemesis="pause"))
    reason = skipped(bench, Blow(name="kill"), fault(1, "n3", nemesis="kill"))
    assert reason == "with fault 0 it would take down n1, n2, n3, a majority, at once"


def test_two_small_faults_may_spare_a_majority_together(bench):
    bench.executor.inject(Blow(name="pause"), fault(0, "n1", nemesis="pause"))
    bench.executor.inject(Blow(name="kill"), fault(1, "n3", nemesis="kill"))
    assert [entry.state for entry in bench.ledger.open_faults()] == ["injected", "injected"]


def test_a_majority_may_be_taken_down_by_one_fault_that_was_asked_for(bench):
    bench.executor.inject(Blow(), fault(0, "n1", "n2", "n3"))
    assert bench.told == [("fault-begins", 0)]


def test_packets_may_be_dropped_while_a_node_is_paused(bench):
    bench.cluster.nodes[0].now = "paused"
    bench.executor.inject(Blow(name="pause"), fault(0, "n1", nemesis="pause"))
    bench.executor.inject(Blow(name="partition", disturbs="packets"), fault(1, "n1", "n2", "n3", nemesis="partition"))
    assert skipped(bench, Blow(name="loss", disturbs="packets"), fault(2, "n3", nemesis="loss")) == (
        "n3 is still under partition (fault 1)"
    )


def test_a_nemesis_that_does_not_say_what_it_disturbs_collides_with_itself_only(bench):
    class Quiet:
        def __init__(self, name):
            self.name, self.log = name, []

        def inject(self, cluster, fault):
            return None

    bench.cluster.nodes[0].now = "stopped"
    bench.executor.inject(Quiet("disk"), fault(0, "n1", nemesis="disk"))
    bench.executor.inject(Quiet("membership"), fault(1, "n1", nemesis="membership"))
    skipped(bench, Quiet("disk"), fault(2, "n1", nemesis="disk"))


# ── schedules ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_schedules_are_composed_in_time_and_numbered_anew():
    first = Blow(name="first", plan=((0.1, 0.2, ("n1",)), (0.5, 0.6, ("n2",))))
    second = Blow(name="second", plan=((0.1, 0.4, ("n3",)), (0.3, 0.4, ("n3",))))
    faults = compose([first, second], context())
    assert [(fault.id, fault.nemesis, fault.begins_s) for fault in faults] == [
        (0, "first", 0.1), (1, "second", 0.1), (2, "second", 0.3), (3, "first", 0.5)
    ]  # fmt: skip


def test_the_seed_decides_each_schedule_whoever_else_takes_part():
    first = Blow(name="first", plan=((0.1, 0.2, ("n1",)),))
    second = Blow(name="second", plan=((0.3, 0.4, ("n3",)),))
    together = {fault.nemesis: fault.parameters for fault in compose([first, second], context())}
    alone = {fault.nemesis: fault.parameters for fault in compose([second], context())}
    assert alone["second"] == together["second"] != together["first"]
    other_seed = compose([second], replace(context(), seed=12))
    assert other_seed[0].parameters != alone["second"]


@pytest.mark.parametrize(
    ("nemeses", "complaint"),
    [
        ([Blow(), Blow()], '"blow" is named twice'),
        ([Blow(plan=((0.5, 1.5, ("n1",)),))], r"from 0.5 s to 1.5 s does not lie within the 1 s"),
        ([Blow(plan=((0.5, 0.5, ("n1",)),))], r"from 0.5 s to 0.5 s"),
        ([Blow(plan=((0.5, 0.6, ("n1", "n9")),))], "no such node: n9"),
    ],
)
def test_a_plan_that_does_not_fit_the_run_is_refused(nemeses, complaint):
    with pytest.raises(PlanError, match=complaint):
        compose(nemeses, context())


def test_faults_begin_and_end_when_they_are_planned(bench):
    times = []
    bench.note = lambda f, value: times.append((f, value["id"], time.monotonic() - began))
    nemeses = Blow(name="a", plan=((0.1, 2, ("n1",)),)), Blow(name="b", plan=((0.2, 2.1, ("n2",)),))
    schedule = bench.schedule(*nemeses, time_limit_s=60)
    began = time.monotonic()
    schedule.start()
    until(lambda: len(times) == 4, deadline_s=120, what="four notes")
    schedule.stop()
    planned = {("fault-begins", 0): 0.1, ("fault-begins", 1): 0.2, ("fault-ends", 0): 2, ("fault-ends", 1): 2.1}
    assert sorted((f, number) for f, number, _ in times) == sorted(planned)
    assert all(planned[f, number] <= seen for f, number, seen in times)


def test_stopping_ends_what_is_in_place_and_begins_nothing_more(bench):
    early = Blow(name="early", plan=((0.01, 59, ("n1",)),))
    late = Blow(name="late", plan=((50, 59, ("n2",)),))
    schedule = bench.schedule(early, late, time_limit_s=60)
    schedule.start()
    until(lambda: bench.told, deadline_s=120, what="the first fault")
    schedule.stop()
    assert sorted(bench.told) == [("fault-begins", 0), ("fault-ends", 0), ("fault-skipped", 1)]
    assert late.log == []
    schedule.stop()
    assert early.log == ["inject 0", "heal 0"]


def test_a_schedule_that_was_never_started_can_be_stopped(bench):
    bench.schedule(Blow(plan=((0.1, 0.2, ("n1",)),))).stop()
    assert bench.states == []


def test_a_failed_injection_does_not_keep_later_faults_from_their_turn(bench):
    class FailsFirst(Blow):
        def inject(self, cluster, fault):
            self.inject_error = ClusterError("not yet") if fault.id == 0 else None
            return super().inject(cluster, fault)

    schedule = bench.schedule(FailsFirst(plan=((0.01, 1.0, ("n1",)), (0.05, 1.0, ("n1",)))))
    schedule.start()
    until(lambda: len(bench.told) == 3, deadline_s=120, what="both faults")
    schedule.stop()
    assert bench.told == [("fault-failed", 0), ("fault-begins", 1), ("fault-ends", 1)]
    assert schedule.failures == ("blow (fault 0) on n1: inject: ClusterError: not yet",)


def test_a_fault_whose_time_passed_while_the_one_before_was_healed_is_skipped(bench):
    released = threading.Event()

    class Slow(Blow):
        def heal(self, cluster, fault):
            released.wait(120)
            return super().heal(cluster, fault)

    # Each fault lives longer than a busy machine takes to inject it, and the other nemesis ends last.
    nemesis = Slow(plan=((0.01, 1.5, ("n1",)), (1.6, 1.7, ("n2",))))
    other = Blow(name="other", disturbs="packets", plan=((1.65, 3, ("n3",)),))
    schedule = bench.schedule(nemesis, other, time_limit_s=60)
    schedule.start()
    # The slow nemesis keeps nobody else waiting.
    until(lambda: ("fault-ends", 2) in bench.told, deadline_s=120, what="the other nemesis")
    released.set()
    until(lambda: ("fault-skipped", 1) in bench.told, deadline_s=120, what="the late fault")
    schedule.stop()
    assert nemesis.log == ["inject 0", "heal 0"]


@pytest.mark.parametrize("error", [KeyError("n4"), SystemExit(1)], ids=["an error", "an exit"])
def test_a_nemesis_whose_task_ends_before_its_schedule_is_noted_and_its_error_raised(bench, error):
    def fail(_nemesis, _fault):
        raise error

    schedule = bench.schedule(Blow(plan=((0, 50, ("n1",)), (51, 59, ("n1",)))), time_limit_s=60)
    schedule.executor.inject = fail
    schedule.start()
    until(lambda: bench.notes, deadline_s=120, what="the note")
    with pytest.raises(ExceptionGroup):
        schedule.stop()
    assert [(f, value["nemesis"]) for f, value in bench.notes] == [("nemesis-died", "blow")]


def test_what_could_not_be_undone_is_tried_again_at_the_end_and_then_raised(bench):
    stubborn = Blow(plan=((0.01, 0.5, ("n1",)),), heal_errors=[HealError("stays"), HealError("stays")])
    schedule = bench.schedule(stubborn)
    schedule.start()
    until(lambda: ("fault-failed", 0) in bench.told, deadline_s=120, what="the first attempt")
    with pytest.raises(ExceptionGroup) as group:
        schedule.stop()
    assert [str(error) for error in group.value.exceptions] == ["stays"]
    assert stubborn.log == ["inject 0", "heal 0", "heal 0"]
    schedule.stop()
    assert bench.ledger.open_faults() == []


def test_a_note_that_cannot_be_written_ends_the_run_and_the_fault(bench):
    def broken(f, value):
        raise OSError("no space left")

    nemesis = Blow(plan=((0.01, 0.5, ("n1",)),))
    schedule = FaultSchedule(bench.cluster, [nemesis], context(), ledger=bench.ledger, note=broken)
    schedule.start()
    until(lambda: "inject 0" in nemesis.log, deadline_s=120, what="the injection")
    with pytest.raises(ExceptionGroup) as group:
        schedule.stop()
    assert [str(error) for error in group.value.exceptions] == ["no space left", "no space left"]
    assert nemesis.log[:2] == ["inject 0", "heal 0"]


# ── faults that workloads ask for ────────────────────────────────────────────────────────────────────────────────────


def test_a_requested_fault_is_in_place_from_start_to_stop_beside_others_and_in_the_ledger(bench, monkeypatch):
    partition = Blow(name="partition", disturbs="packets")
    monkeypatch.setattr("schemaquake.harness.faults.schedule.load", lambda kind, name: partition)
    killing = Blow(name="kill", plan=((0.01, 0.5, ("n1",)),))
    wanted = FaultRequest(nemesis="partition", nodes=("n1", "n2"), parameters={"ports": "storage"})
    schedule = bench.schedule(killing, requested=[wanted])
    assert partition.log == []
    schedule.start()
    assert partition.log == ["inject 1"]
    until(lambda: ("fault-ends", 0) in bench.told, deadline_s=120, what="the other fault")
    assert partition.log == ["inject 1"]
    (entry,) = [entry for entry in bench.ledger.open_faults() if entry.fault.nemesis == "partition"]
    assert (entry.state, entry.fault.nodes, entry.fault.parameters) == ("injected", ("n1", "n2"), {"ports": "storage"})
    schedule.stop()
    assert partition.log == ["inject 1", "heal 1"]
    assert not bench.ledger.open_faults()


def test_a_requested_fault_that_cannot_be_injected_keeps_the_main_phase_from_beginning(bench, monkeypatch):
    partition = Blow(name="partition", disturbs="packets", inject_error=ClusterError("no packet filter"))
    monkeypatch.setattr("schemaquake.harness.faults.schedule.load", lambda kind, name: partition)
    schedule = bench.schedule(Blow(name="kill"), requested=[FaultRequest(nemesis="partition", nodes=("n1",))])
    with pytest.raises(FaultFailed):
        schedule.start()
