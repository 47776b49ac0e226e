"""Whatever a checker answers that is no verdict of three values is a crash of that checker, and of nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from questioners import Says
from small_runs import small_run

from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict
from schemaquake.results.judging.judge import judge

RUN = small_run(11)
FINDING = Anomaly(type="a", title="")


@dataclass(frozen=True)
class Answers:
    """A checker from outside that answers with whatever it is given."""

    answer: Callable[[], Any]
    scope: Literal["keyspace", "run"] = "run"
    vouches: bool = True
    name: str = "answers"
    finds: tuple[str, ...] = ()

    def check(self, records: Records, *, limit_s: float) -> Any:
        return self.answer()


def tampered(valid: object, **more: Any) -> Verdict:
    """A verdict whose frozen field was set after it was made."""
    verdict = Verdict(valid=True, checker="answers", **more)
    object.__setattr__(verdict, "valid", valid)
    return verdict


class Agreeable(str):
    """A text that says it equals every other."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


CRASHES: dict[str, Callable[[], Any]] = {
    "0 set afterwards": lambda: tampered(0),
    "1 set afterwards": lambda: tampered(1),
    "nothing set afterwards": lambda: tampered(None),
    "a NumPy boolean set afterwards": lambda: tampered(np.True_),
    "a misspelt word set afterwards": lambda: tampered("Unknown"),
    "a text that equals everything": lambda: tampered(Agreeable("valid")),
    "a part that is none": lambda: Verdict(valid=True, checker="answers", parts=(tampered("yes"),)),
    "a part that is a document": lambda: Verdict(valid=True, checker="answers", parts=({"valid": True},)),  # type: ignore[arg-type]
    "a look-alike": lambda: SimpleNamespace(valid=True, checker="answers", anomalies=(), stats={}, doubts=(), parts=()),
    "a class": lambda: Verdict,
    "an anomaly that is a text": lambda: Verdict(valid=False, checker="answers", anomalies=("lost-rows",)),  # type: ignore[arg-type]
    "a doubt that is a text": lambda: Verdict(valid="unknown", checker="answers", doubts=("time",)),  # type: ignore[arg-type]
    "an exit of the interpreter": lambda: sys.exit(0),
}


@pytest.mark.parametrize("answer", CRASHES.values(), ids=CRASHES)
@pytest.mark.parametrize("scope", ["run", "keyspace"])
def test_what_is_no_verdict_is_a_crash_of_its_checker_alone(answer, scope):
    verdict = judge(RUN, checkers=[Answers(answer, scope), Says(name="sound")])
    assert verdict.valid == "unknown"
    crashed, sound = verdict.parts
    assert {doubt.kind for doubt in crashed.doubts} == {"crashed"}
    assert sound.valid is True


@pytest.mark.parametrize("answer", CRASHES.values(), ids=CRASHES)
def test_what_is_no_verdict_hides_no_finding_of_another(answer):
    assert judge(RUN, checkers=[Answers(answer), Says(False, anomalies=(FINDING,))]).valid is False


@pytest.mark.parametrize("valid", [True, False, "unknown"])
def test_each_of_the_three_values_is_let_in(valid):
    doubts = (Doubt("undecided", "it may be"),) if valid == "unknown" else ()
    anomalies = (FINDING,) if valid is False else ()
    given = Verdict(valid=valid, checker="answers", doubts=doubts, anomalies=anomalies)
    (part,) = judge(RUN, checkers=[Answers(lambda: given)]).parts
    assert (part.valid, part.doubts, part.anomalies) == (valid, doubts, anomalies)


def test_a_verdict_is_entered_under_the_name_of_its_checker():
    """Combination looks checkers up by name: one must not answer in the name of another."""
    (part,) = judge(RUN, checkers=[Answers(lambda: Verdict(valid=True, checker="observed"))]).parts
    assert part.checker == "answers"
