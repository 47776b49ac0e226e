"""Faults on a cluster whose nodes outlive the run: armed before they are injected, disarmed after they are healed."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from schemaquake.harness.errors import ClusterError, FaultNotAllowed, HealError, NodeDied, NodeUnreachable
from schemaquake.harness.faults.executor import FaultExecutor, FaultFailed
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger, read_ledger
from schemaquake.harness.faults.schedule import FaultSchedule
from schemaquake.harness.model.protocols import Context, Fault, Undo


@dataclass
class Host:
    name: str

    def state(self):
        return "running"


@dataclass
class Hosts:
    """A guarded cluster that writes down what happens, also what its nemesis does."""

    log: list[str] = field(default_factory=list)
    max_fault_s: float = 10.0
    armed: dict[int, object] = field(default_factory=dict)
    fired: dict[int, dict] = field(default_factory=dict)
    arm_error: BaseException | None = None
    disarm_errors: list[BaseException] = field(default_factory=list)
    expired_errors: list[BaseException] = field(default_factory=list)

    def __post_init__(self):
        self.nodes = [Host(f"n{i}") for i in range(1, 4)]

    def missing(self, means):
        return None

    def arm(self, fault, undo):
        self.log.append(f"arm {fault.id}")
        if self.arm_error is not None:
            raise self.arm_error
        self.armed[fault.id] = undo

    def disarm(self, fault):
        self.log.append(f"disarm {fault.id}")
        if self.disarm_errors:
            raise self.disarm_errors.pop(0)
        self.armed.pop(fault.id, None)

    def expired(self, fault):
        if self.expired_errors:
            raise self.expired_errors.pop(0)
        return self.fired.get(fault.id, {})


@dataclass
class Shake:
    name: str = "shake"
    length_s: float = 5.0
    inject_error: BaseException | None = None
    heal_errors: list[BaseException] = field(default_factory=list)
    during: object = None

    def missing(self, cluster):
        return None

    def schedule(self, context, *, random):
        return [fault(0, length_s=self.length_s)]

    def undo(self, cluster, fault):
        return {name: [Undo(("still", name))] for name in fault.nodes}

    def inject(self, cluster, fault):
        cluster.log.append(f"inject {fault.id}")
        if self.during is not None:
            self.during(cluster)
        if self.inject_error is not None:
            raise self.inject_error
        return {"observed": True}

    def heal(self, cluster, fault):
        cluster.log.append(f"heal {fault.id}")
        if self.heal_errors:
            raise self.heal_errors.pop(0)
        return {"observed": True}


class Bare:
    name = "bare"

    def schedule(self, context, *, random):
        return [Fault(id=0, nemesis="bare", begins_s=0, ends_s=1, nodes=("n1",))]

    def inject(self, cluster, fault):
        raise AssertionError("a nemesis without undo was let loose")


def fault(number=0, *, length_s=5.0, nodes=("n1", "n2")):
    return Fault(id=number, nemesis="shake", begins_s=1.0, ends_s=1.0 + length_s, nodes=nodes)


FIRED = {"n2": {"after_s": 10.02, "done": [{"argv": ["still", "n2"], "exit_code": 0}]}}


class Bench:
    def __init__(self, folder):
        self.hosts = Hosts()
        self.ledger = Ledger(folder / FILE_NAME)
        self.notes = []
        self.executor = FaultExecutor(self.hosts, self.ledger, note=self.note)

    def note(self, f, value):
        self.notes.append((f, value))

    @property
    def told(self):
        return [(f, value.get("stage")) for f, value in self.notes]

    @property
    def states(self):
        return [entry.state for entry in read_ledger(self.ledger.path)]


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    bench.ledger.close()


def test_a_fault_is_on_record_then_armed_then_injected_and_disarmed_when_it_is_healed(bench):
    seen = []

    class Watched(Hosts):
        def arm(self, fault, undo):
            seen.append((bench.states, fault))
            super().arm(fault, undo)

    bench.hosts = Watched()
    executor = FaultExecutor(bench.hosts, bench.ledger, note=bench.note)
    executor.inject(Shake(), fault(4))
    assert bench.hosts.armed == {4: {"n1": [Undo(("still", "n1"))], "n2": [Undo(("still", "n2"))]}}
    executor.heal(4)
    assert bench.hosts.log == ["arm 4", "inject 4", "heal 4", "disarm 4"]
    assert bench.hosts.armed == {}
    assert [states for states, _ in seen] == [["planned"]]
    assert bench.states == ["planned", "injected", "healing", "healed"]
    assert executor.failures == ()
    assert bench.notes[-1][1]["effect"] == {"observed": True}


def test_rules_of_two_runs_on_the_same_hosts_have_names_of_their_own(bench, tmp_path):
    bench.executor.inject(Shake(), fault())
    (tmp_path / "other").mkdir()
    other = Bench(tmp_path / "other")
    other.executor.inject(Shake(), fault())
    tags = [run.ledger.open_faults()[0].fault.parameters["tag"] for run in (bench, other)]
    assert all(len(tag) == 4 and int(tag, 16) >= 0 for tag in tags)
    assert other.notes[0][1]["parameters"]["tag"] == tags[1]
    bench.executor.inject(Shake(name="more"), fault(1))
    assert bench.ledger.open_faults()[1].fault.parameters["tag"] == tags[0]
    other.ledger.close()


@pytest.mark.parametrize("error", [NodeUnreachable("n2 does not answer"), KeyboardInterrupt()], ids=["cut", "ctrl-c"])
def test_what_cannot_be_armed_is_not_injected_and_nothing_stays_open(bench, error):
    bench.hosts.arm_error = error
    with pytest.raises((FaultFailed, KeyboardInterrupt)):
        bench.executor.inject(Shake(), fault())
    assert bench.hosts.log == ["arm 0", "disarm 0"]
    assert bench.told == [("fault-failed", "arm")]
    assert bench.states == ["planned", "failed", "skipped"]
    assert bench.executor.failures == (f"shake (fault 0) on n1, n2: arm: {type(error).__name__}: {error}",)
    bench.executor.heal_all()
    assert bench.hosts.log == ["arm 0", "disarm 0"]


def test_guards_that_stand_on_some_nodes_after_a_failed_arming_stay_on_record_until_they_are_ended(bench):
    bench.hosts.arm_error = NodeUnreachable("n2 does not answer")
    bench.hosts.disarm_errors = [NodeUnreachable("nor now")]
    with pytest.raises(HealError, match=r"shake \(fault 0\) could not be disarmed: nor now"):
        bench.executor.inject(Shake(), fault())
    assert [entry.state for entry in bench.ledger.open_faults()] == ["failed"]
    bench.executor.heal_all()
    assert bench.hosts.log == ["arm 0", "disarm 0", "heal 0", "disarm 0"]
    assert bench.ledger.open_faults() == []


def test_an_injection_that_raises_is_healed_and_then_disarmed(bench):
    with pytest.raises(FaultFailed):
        bench.executor.inject(Shake(inject_error=ClusterError("no such tool")), fault())
    assert bench.hosts.log == ["arm 0", "inject 0", "heal 0", "disarm 0"]
    assert bench.ledger.open_faults() == []


def test_an_injection_that_outlasted_its_guard_is_undone(bench):
    def dawdle(hosts):
        hosts.fired[0] = FIRED

    with pytest.raises(
        FaultFailed, match=r"its guard on n2 undid it after 10\.02 s, while it was still being injected"
    ):
        bench.executor.inject(Shake(during=dawdle), fault())
    assert bench.hosts.log == ["arm 0", "inject 0", "heal 0", "disarm 0"]
    assert bench.told == [("fault-failed", "inject")]


def test_a_fault_that_expired_before_it_was_healed_is_told_once_with_what_the_guard_did(bench):
    bench.executor.inject(Shake(heal_errors=[HealError("not yet")]), fault())
    bench.hosts.fired[0] = FIRED
    with pytest.raises(HealError):
        bench.executor.heal(0)
    assert bench.executor.heal(0) == {"observed": True, "expired": FIRED}
    assert bench.told == [
        ("fault-begins", None), ("fault-failed", "hold"), ("fault-failed", "heal"), ("fault-ends", None)
    ]  # fmt: skip
    assert bench.notes[-1][1]["effect"]["expired"] == FIRED
    assert bench.executor.failures[0] == (
        "shake (fault 0) on n1, n2: hold: ClusterError: its guard on n2 undid it after 10.02 s"
    )
    assert list(read_ledger(bench.ledger.path))[-1].effect["expired"] == FIRED


def test_a_guard_that_fires_while_its_fault_is_being_healed_is_no_failure(bench):
    class SlowToHeal(Shake):
        def heal(self, cluster, fault):
            cluster.fired[0] = FIRED
            return super().heal(cluster, fault)

    bench.executor.inject(SlowToHeal(), fault())
    assert bench.executor.heal(0) == {"observed": True}
    assert bench.executor.failures == ()


def test_a_guard_that_cannot_be_asked_keeps_no_other_node_from_being_healed(bench):
    bench.executor.inject(Shake(), fault())
    bench.hosts.expired_errors = [NodeUnreachable("n1 is cut off"), NodeUnreachable("n1 is cut off")]
    with pytest.raises(HealError, match="n1 is cut off"):
        bench.executor.heal(0)
    assert bench.hosts.log == ["arm 0", "inject 0", "heal 0"]
    bench.hosts.expired_errors = [NodeUnreachable("n1 comes back")]
    bench.hosts.fired[0] = FIRED
    assert bench.executor.heal(0)["expired"] == FIRED
    assert bench.ledger.open_faults() == []


def test_a_fault_whose_guard_goes_on_is_not_called_healed(bench):
    bench.executor.inject(Shake(), fault())
    bench.hosts.disarm_errors = [NodeUnreachable("n1 is gone")]
    with pytest.raises(HealError, match=r"could not be disarmed: n1 is gone"):
        bench.executor.heal(0)
    assert [entry.state for entry in bench.ledger.open_faults()] == ["failed"]
    bench.executor.heal_all()
    assert bench.ledger.open_faults() == []


def test_the_guard_of_a_server_that_does_not_come_back_is_ended_too(bench):
    finding = HealError("n1: it ended")
    finding.__cause__ = NodeDied("it ended", node="n1", exit_code=3, first_error="Unknown type")
    bench.executor.inject(Shake(heal_errors=[finding]), fault())
    with pytest.raises(HealError):
        bench.executor.heal(0)
    assert bench.hosts.log[-1] == "disarm 0"
    assert bench.ledger.open_faults() == []


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_nemesis_without_undo_is_refused_by_name_before_anything(bench):
    with pytest.raises(FaultNotAllowed, match='nemesis "bare" cannot be used on this cluster: it has no `undo`'):
        bench.executor.inject(Bare(), fault())
    assert bench.states == []
    assert bench.hosts.log == []


def test_a_fault_longer_than_the_guards_wait_is_refused(bench):
    bench.executor.inject(Shake(), fault(length_s=10.0))
    with pytest.raises(FaultNotAllowed, match=r"shake \(fault 1\) would last 10\.5 s, but .* longer than 10 s"):
        bench.executor.inject(Shake(), fault(1, length_s=10.5, nodes=("n3",)))
    assert bench.hosts.log == ["arm 0", "inject 0"]


@pytest.mark.parametrize(
    ("nemesis", "complaint"),
    [(Bare(), 'nemesis "bare" cannot be used'), (Shake(length_s=11), r"shake \(fault 0\) would last 11 s")],
    ids=["bare", "long"],
)
def test_a_schedule_is_refused_before_its_first_fault(bench, nemesis, complaint):
    context = Context(seed=1, nodes=("n1", "n2", "n3"), time_limit_s=60)
    with pytest.raises(FaultNotAllowed, match=complaint):
        FaultSchedule(bench.hosts, [nemesis], context, ledger=bench.ledger, note=bench.note)
    assert bench.hosts.log == []


@pytest.mark.parametrize("pieces", [{}, {"argv": ("true",), "verb": "start"}])
def test_an_undo_is_a_command_or_a_verb(pieces):
    with pytest.raises(ValueError, match="either a command or a verb"):
        Undo(**pieces)
