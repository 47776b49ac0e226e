"""The interpreter of steps, resumed by hand: no runtime, no client, and a clock that is a number."""

from __future__ import annotations

import pytest

from schemaquake.harness.model.operation import NEMESIS, Completion
from schemaquake.harness.model.protocols import Context, Worker
from schemaquake.harness.model.runtime import Sleep
from schemaquake.harness.model.steps import Invoke, Meet, Note, Require, Wait
from schemaquake.harness.registry import load
from schemaquake.harness.run.interpreter import (
    Assignment,
    Call,
    Ending,
    MeetingFailed,
    PhaseOrder,
    Record,
    Script,
    WorkerFailed,
    interpret,
)

S = 1_000_000_000
OK = Completion(type="ok", value=1)
FAIL = Completion(type="fail", error="Refused: no")
INFO = Completion(type="info", error="Timeout: nobody answered")
THERE = Completion(type="fail", error="AlreadyExists: t", already_there=True)
ASKED = Invoke("ask", "ks.t", {"n": 1})
MAIN = PhaseOrder("main", "", None, meetings=True)


@pytest.fixture
def script(scripted):
    return Script(
        load("workloads", "endless"),
        Assignment("endless", Worker(0, "n1"), 0),
        Context(seed=1, nodes=("n1", "n2")),
        worker_count=2,
    )


class Walk:
    """Drives the interpreter: completions come from a list, sleep moves the clock, the phase is over at `ends_ns`."""

    def __init__(self, script, steps, *, completions=(), order=MAIN, ends_ns=None, lasts_ns=0, first_lasts_ns=0):
        self.now = 0
        self.ends = ends_ns
        self.effects = []
        self.written = []
        self.completions = list(completions)
        self.lasts = lasts_ns
        self.first_lasts = first_lasts_ns
        walk = interpret(iter(steps), script, order, now_ns=lambda: self.now, is_over=self.is_over)
        answer = None
        try:
            while True:
                effect = walk.send(answer)
                self.effects.append(effect)
                answer = self.carry_out(effect)
        except StopIteration as end:
            self.ending = end.value

    def is_over(self):
        return self.ends is not None and self.now >= self.ends

    def carry_out(self, effect):
        match effect:
            case Call():
                self.written.append(effect.invocation())
                self.now += self.first_lasts or self.lasts
                self.first_lasts = 0
                found = self.completions.pop(0) if self.completions else OK
                self.written.append(effect.completion(found))
                return found
            case Sleep(until_ns):
                self.now = max(self.now, until_ns)
                return not self.is_over()
            case Meet():
                return not self.is_over()
            case Record():
                self.written.append(effect)
                return None

    def records(self):
        return [(one.process, one.type) for one in self.written]

    def pauses(self):
        return [one.until_ns for one in self.effects if isinstance(one, Sleep)]


def test_a_call_has_its_invocation_and_its_completion(script):
    walk = Walk(script, [ASKED])
    assert walk.effects == [Call(ASKED, 0, "n1")]
    assert walk.written == [
        Record(0, "invoke", "ask", "n1", "ks.t", {"n": 1}),
        Record(0, "ok", "ask", "n1", "ks.t", 1),
    ]
    assert walk.ending == Ending("finished")


def test_a_call_is_carried_out_between_its_two_records(script):
    (call,) = Walk(script, [ASKED]).effects
    order = []
    assert call.carry_out(lambda *event: order.append(Record(*event)), lambda asked: order.append(asked) or OK) is OK
    assert order == [call.invocation(), ASKED, call.completion(OK)]


def test_an_unknown_outcome_retires_the_process_number_for_this_and_every_later_phase(script):
    assert Walk(script, [ASKED, ASKED], completions=[INFO]).records() == [
        (0, "invoke"),
        (0, "info"),
        (2, "invoke"),
        (2, "ok"),
    ]
    assert Walk(script, [ASKED]).records() == [(2, "invoke"), (2, "ok")]


def test_a_note_is_an_event_of_the_nemesis_process(script):
    (note,) = Walk(script, [Note("race", "ks", {"number": 3})]).effects
    assert note == Record(NEMESIS, "info", "race", None, "ks", {"number": 3})


def test_nothing_is_taken_when_the_phase_is_over(script):
    walk = Walk(script, [ASKED, ASKED, ASKED], ends_ns=2 * S, lasts_ns=S)
    assert len(walk.records()) == 4
    assert walk.ending == Ending("over")


def test_a_wait_that_is_cut_short_ends_the_phase(script):
    walk = Walk(script, [Wait(5.0), ASKED], ends_ns=3 * S)
    assert walk.effects == [Sleep(5 * S)]
    assert walk.ending == Ending("over")


def test_a_meeting_is_left_out_where_not_every_worker_takes_part(script):
    assert Walk(script, [Meet("go")]).effects == [Meet("go")]
    assert Walk(script, [Meet("go")], order=PhaseOrder("final", "settled", None, meetings=False)).effects == []


def test_a_meeting_in_vain_is_a_defect_of_the_workload(script):
    walk = interpret(iter([Meet("go")]), script, MAIN, now_ns=lambda: 0, is_over=lambda: False)
    next(walk)
    with pytest.raises(WorkerFailed, match=r"the workers of endless did not meet \(alone\)"):
        walk.throw(MeetingFailed("alone"))


# ── what is required ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_requirement_is_asked_for_at_growing_intervals_until_it_is_done(script):
    walk = Walk(script, [Require(ASKED, 5.0), Note("next")], completions=[FAIL, INFO, FAIL, FAIL, FAIL, FAIL])
    ms = [pause // 1_000_000 for pause in walk.pauses()]
    assert ms == [20, 60, 140, 300, 550, 800]
    assert [kind for _, kind in walk.records()] == [
        *("invoke", "fail", "invoke", "info", "invoke", "fail", "invoke", "fail"),
        *("invoke", "fail", "invoke", "fail", "invoke", "ok", "info"),
    ]


@pytest.mark.parametrize(("completion", "attempts"), [(THERE, 1), (FAIL, 2)], ids=["already there", "refused"])
def test_a_requirement_is_done_when_the_server_has_it_whatever_its_words(script, completion, attempts):
    walk = Walk(script, [Require(ASKED, 5.0)], completions=[completion])
    assert sum(isinstance(effect, Call) for effect in walk.effects) == attempts
    assert walk.ending == Ending("finished")


def test_a_requirement_that_is_never_met_ends_the_phase_with_a_note(script):
    walk = Walk(script, [Require(ASKED, 1.0), ASKED], completions=[FAIL] * 100)
    because = "ask of ks.t through n1 was not done within 1 s: Refused: no"
    note = {"phase": "main", "because": because, "key": "ks.t"}
    assert walk.effects[-1] == Record(NEMESIS, "info", "phase-ended-early", "n1", "ks.t", note)
    assert walk.ending == Ending("unmet", because)
    assert walk.now == S


# ── pace ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def paced(scripted):
    context = Context(seed=1, nodes=("n1", "n2"), rate=4)
    return Script(load("workloads", "endless"), Assignment("endless", Worker(0, "n1"), 0), context, worker_count=2)


def test_a_rate_is_shared_by_the_crew(paced):
    assert Walk(paced, [ASKED] * 4).pauses() == [S // 2, S, 3 * S // 2]


def test_a_worker_that_was_held_up_makes_up_for_one_second_at_most(paced):
    walk = Walk(paced, [ASKED] * 6, lasts_ns=0, completions=[])
    assert walk.now == 5 * S // 2
    slow = Walk(paced, [ASKED] * 6, first_lasts_ns=20 * S)  # the second to the fifth leave at once: 19, 19.5, 20
    assert slow.pauses() == [41 * S // 2]
    assert Walk(paced, [ASKED] * 50, lasts_ns=20 * S).pauses() == []


def test_only_the_main_phase_is_paced(paced):
    assert Walk(paced, [ASKED] * 3, order=PhaseOrder("final", "settled", None, meetings=True)).pauses() == []
