"""Judgement: three ways of not knowing, for every structure checker alike."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from histories import judged
from known_bugs import CHECKERS

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.schema.judge import judge
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.protocols import Checker
from schemaquake.harness.model.verdict import Anomaly, Verdict
from schemaquake.harness.registry import load

CREATE = ("p0 n1 invoke create-table k.t a:int*", "p0 n1 ok")
NAMES = [checker.name for checker in CHECKERS]


@pytest.mark.parametrize("checker", CHECKERS, ids=NAMES)
def test_without_final_readings_there_is_nothing_to_judge(checker: Checker) -> None:
    verdict = checker.check(judged(CREATE, ["running n1 table k.t id=1 a:int*"]), limit_s=5)
    assert verdict.valid == "unknown"
    assert verdict.judged_nothing
    assert verdict.checker == checker.name


@pytest.mark.parametrize("checker", CHECKERS, ids=NAMES)
def test_a_node_without_a_final_reading_makes_it_unknown(checker: Checker) -> None:
    verdict = checker.check(
        judged(CREATE, ["settled n1 table k.t id=1 a:int*", "settled n2 error NoHostAvailable"]), limit_s=5
    )
    assert verdict.valid == "unknown"
    assert verdict.reason == "n2 could not be read in phase settled: NoHostAvailable"


@pytest.mark.parametrize("checker", CHECKERS, ids=NAMES)
def test_a_quiet_keyspace_that_every_node_was_read_in_is_valid_but_a_quiet_run_is_unknown(checker: Checker) -> None:
    verdict = checker.check(judged((), ["settled n1,n2 keyspace k"]), limit_s=5)
    assert verdict.valid == ("unknown" if checker.scope == "run" else True)


@pytest.mark.parametrize("checker", CHECKERS, ids=NAMES)
def test_it_is_registered_under_its_name(checker: Checker) -> None:
    assert type(load("checkers", checker.name)) is type(checker)


@pytest.mark.parametrize("checker", CHECKERS, ids=NAMES)
def test_a_verdict_survives_being_written_and_read_back(checker: Checker) -> None:
    verdict = checker.check(judged(CREATE, ["settled n1,n2 keyspace k"]), limit_s=5)
    assert Verdict.from_json(verdict.to_json()) == verdict


@pytest.mark.parametrize("checker", CHECKERS, ids=NAMES)
def test_an_impossible_history_is_refused(checker: Checker) -> None:
    history = judged(("p0 n1 invoke drop-table k.t", "p0 n1 invoke drop-table k.t"), ["settled n1 keyspace k"])
    with pytest.raises(HistoryError, match="still open"):
        checker.check(history, limit_s=5)


def slowly(_: Evidence) -> Iterator[Anomaly | None]:
    for _ in range(1000):
        time.sleep(0.01)
        yield None


def test_the_time_limit_gives_unknown_with_the_reason_within_twice_the_limit() -> None:
    judgements = 0

    def counted(case: Evidence) -> Iterator[Anomaly | None]:
        nonlocal judgements
        for judgement in slowly(case):
            judgements += 1
            yield judgement

    verdict = judge("slow", judged(CREATE, ["settled n1 keyspace k"]), counted, limit_s=0.2)
    assert judgements < 40  # each takes 0.01 s, or more on a busy machine, on which fewer are made
    assert verdict.valid == "unknown"
    assert verdict.reason is not None
    assert "the time limit of 0.2 s passed after" in verdict.reason


def test_what_was_found_before_the_time_limit_stands() -> None:
    def findings(case: Evidence) -> Iterator[Anomaly | None]:
        yield anomaly("lost-column", explanation="…")
        yield from slowly(case)

    verdict = judge("slow", judged(CREATE, ["settled n1 keyspace k"]), findings, limit_s=0.05)
    assert verdict.valid is False
    assert len(verdict.anomalies) == 1
    assert verdict.reason is not None


def test_a_check_that_ends_in_time_gives_no_reason() -> None:
    verdict = judge("quick", judged(CREATE, ["settled n1 keyspace k"]), lambda _: iter([None, None]), limit_s=5)
    assert verdict.valid is True
    assert verdict.reason is None
    assert verdict.figures == {"judged": 2, "nodes": 1}
