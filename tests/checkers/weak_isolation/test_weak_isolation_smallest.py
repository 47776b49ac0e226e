"""The smallest history of every anomaly of the weak levels, and its twin, one word away, in which all levels are kept."""

from __future__ import annotations

from typing import Any

import pytest
from small_histories import history

from schemaquake.checkers.weak_isolation.isolation import WeakIsolation, check_weak_isolation
from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.model.records import Records

LEVELS = ("read-committed", "read-atomic", "causal")

# what it is: (anomaly, weakest level that it rules out, lines, (line of the twin, what stands there instead))
SMALLEST: dict[str, tuple[str, str, list[str], tuple[int, str]]] = {
    "its own write is gone": (
        "internal",
        "read-committed",
        ["p0 0..1 ok w1=1", "p1 2..3 ok w1=2 r1=1", "p2 4..5 ok r1=1"],
        (1, "p1 2..3 ok w1=2 r1=2"),
    ),
    "two reads of a key differ": (
        "internal",
        "read-atomic",
        ["p0 0..1 ok w1=1", "p1 2..3 ok w1=2", "p2 4..5 ok r1=1 r1=2"],
        (2, "p2 4..5 ok r1=2 r1=2"),
    ),
    "a write that comes later": ("future-read", "read-committed", ["p0 0..1 ok r1=1 w1=1"], (0, "p0 0..1 ok r1= w1=1")),
    "a value of nobody": ("garbage-read", "read-committed", ["p0 0..1 ok w1=1", "p1 2..3 ok r1=9"], (1, "p1 2..3 ok r1=1")),
    "an aborted write": ("G1a", "read-committed", ["p0 0..1 fail w1=1", "p1 2..3 ok r1=1"], (0, "p0 0..1 ok w1=1")),
    "an intermediate write": (
        "G1b",
        "read-committed",
        ["p0 0..1 ok w1=1 w1=2", "p1 2..3 ok r1=1"],
        (1, "p1 2..3 ok r1=2"),
    ),
    "each read from the other": (
        "G1c",
        "read-committed",
        ["p0 0..2 ok w1=1 r2=1", "p1 1..3 ok w2=1 r1=1"],
        (1, "p1 1..3 ok w2=1 r1="),
    ),
    "each session read from the other's future": (
        "G1c-process",
        "read-committed",
        ["p0 0..4 ok r1=1", "p0 5..6 ok w2=1", "p1 1..2 ok r2=1", "p1 3..7 ok w1=1"],
        (2, "p1 1..2 ok r2="),
    ),
    "seen, and then not": (
        "non-monotonic-read",
        "read-committed",
        ["p0 0..1 ok w1=1 w2=1", "p1 2..3 ok r2=1 r1="],
        (1, "p1 2..3 ok r2=1 r1=1"),
    ),
    "not seen, and then a part of it": (
        "fractured-read",
        "read-atomic",
        ["p0 0..1 ok w1=1 w2=1", "p1 2..3 ok r1= r2=1"],
        (1, "p1 2..3 ok r1=1 r2=1"),
    ),
    "a session does not see its own write": (
        "fractured-read",
        "read-atomic",
        ["p0 0..1 ok w1=1", "p0 2..3 ok r1="],
        (1, "p0 2..3 ok r1=1"),
    ),
    "the answer without the question": (
        "causality-violation",
        "causal",
        ["p0 0..1 ok w1=1", "p1 2..3 ok r1=1 w2=1", "p2 4..5 ok r2=1 r1="],
        (2, "p2 4..5 ok r2=1 r1=1"),
    ),
    "a session forgets what it read": (
        "causality-violation",
        "causal",
        ["p0 0..1 ok w1=1", "p1 2..3 ok r1=1", "p1 4..5 ok r1="],
        (2, "p1 4..5 ok r1=1"),
    ),
    "two sessions saw two writes in opposite orders": (
        "causality-violation",
        "causal",
        ["p0 0..4 ok w1=1", "p1 1..5 ok w1=2", "p2 6..7 ok r1=1", "p2 8..9 ok r1=2", "p3 10..11 ok r1=2", "p3 12..13 ok r1=1"],
        (5, "p3 12..13 ok r1=2"),
    ),
    "elements in opposite orders": (
        "G0",
        "read-committed",
        ["p0 0..2 ok a1=1 a2=1", "p1 1..3 ok a1=2 a2=2", "p2 4..5 ok r1=[1,2] r2=[2,1]"],
        (2, "p2 4..5 ok r1=[1,2] r2=[1,2]"),
    ),
    "elements against their session": (
        "G0-process",
        "read-committed",
        ["p0 0..1 ok a1=2", "p0 2..3 ok a1=1", "p1 4..5 ok r1=[1,2]"],
        (2, "p1 4..5 ok r1=[2,1]"),
    ),
    "an element twice": ("duplicate-elements", "read-committed", ["p0 0..1 ok a1=1", "p1 2..3 ok r1=[1,1]"], (1, "p1 2..3 ok r1=[1]")),
    "lists that are no beginning of each other": (
        "incompatible-order",
        "read-committed",
        ["p0 0..2 ok a1=1", "p1 1..3 ok a1=2", "p2 4..5 ok r1=[1,2]", "p3 6..7 ok r1=[2]"],
        (3, "p3 6..7 ok r1=[1]"),
    ),
    "an element on an aborted one": (
        "dirty-update",
        "read-committed",
        ["p0 0..1 fail a1=1", "p0 2..3 ok a1=2", "p1 4..5 ok r1=[1,2]"],
        (0, "p0 0..1 ok a1=1"),
    ),
    "a list and half of a transaction": (
        "fractured-read",
        "read-atomic",
        ["p0 0..1 ok a1=1 a2=1", "p1 2..3 ok r1= r2=[1]"],
        (1, "p1 2..3 ok r1=[1] r2=[1]"),
    ),
}  # fmt: skip


def verdicts(lines: list[str]) -> dict[str, Any]:
    return {level: check_weak_isolation(history(*lines), models=[level]) for level in LEVELS}


@pytest.mark.parametrize("what", SMALLEST)
def test_the_smallest_history_rules_out_one_level_and_what_is_stronger(what: str) -> None:
    name, weakest, lines, (at, line) = SMALLEST[what]
    found = verdicts(lines)
    out = LEVELS.index(weakest)
    assert [verdict.valid for verdict in found.values()] == [True] * out + [False] * (3 - out)
    for verdict in list(found.values())[out:]:
        assert name in {anomaly.type for anomaly in verdict.anomalies}
        assert set(verdict.figures["found"]) == {anomaly.type for anomaly in verdict.anomalies}
        assert verdict.figures["not"] == [weakest]
        assert all(
            anomaly.explanation.startswith("Let ") and "\n     But " in anomaly.explanation
            for anomaly in verdict.anomalies
        )
    twin = verdicts([*lines[:at], line, *lines[at + 1 :]])
    assert {verdict.valid for verdict in twin.values()} == {True}, [
        anomaly.explanation for anomaly in twin["causal"].anomalies
    ]


def test_two_readers_that_each_could_be_right_cannot_both_be() -> None:
    writes = ["p0 0..1 ok w1=1 w2=1", "p1 2..3 ok w1=2 w2=2"]
    one, other = "p2 4..5 ok r1=1 r2=2", "p3 6..7 ok r1=2 r2=1"
    assert verdicts([*writes, one])["read-committed"].valid is True
    assert verdicts([*writes, other])["read-committed"].valid is True
    (anomaly,) = verdicts([*writes, one, other])["read-committed"].anomalies
    assert anomaly.type == "non-monotonic-read"
    assert anomaly.ops == (0, 2, 4, 6)


def test_an_explanation_in_full() -> None:
    lines = ["p0 0..1 ok w1=1", "p0 2..3 ok w1=2 w2=2", "p1 4..5 ok r2=2 r1=1"]
    verdict = verdicts(lines)["read-committed"]
    explanation = (
        "Let  T1 = op 2: p0 w 1 2, w 2 2 -> ok at 0.000 s\n"
        "     T2 = op 0: p0 w 1 1 -> ok at 0.000 s\n"
        "     T3 = op 4: p1 r 2 2, r 1 1 -> ok at 0.000 s\n"
        "Then T1 committed before T2, because T3 first read 2 of key 2, which T1 wrote, and then T3 read 1 of key 1, "
        "which T2 wrote, although T1 wrote 2 to it.\n"
        "     But T2 came before T1 in process 0: no order of commits is like that, and read committed asks for one."
    )
    assert [anomaly.explanation for anomaly in verdict.anomalies] == [explanation]
    evidence = verdict.anomalies[0].evidence
    assert isinstance(evidence, dict)
    assert evidence["length"] == 2
    assert evidence["shortest"] is True


def test_what_happened_before_is_told_step_by_step() -> None:
    lines = ["p0 0..1 ok w1=1", "p1 2..3 ok r1=1", "p1 4..5 ok w2=1", "p2 6..7 ok r2=1 r1="]
    (anomaly,) = verdicts(lines)["causal"].anomalies
    assert (
        "Then T2 happened before T1 (T3 read 1 of key 1, which T2 wrote; T3 came before T4 in process 1; "
        "T1 read 1 of key 2, which T4 wrote)." in anomaly.explanation
    )
    assert anomaly.ops == (0, 2, 4, 6)


def test_a_long_circle_is_shown_by_its_shortest_way() -> None:
    """However many transactions a session had in between, that is one step."""
    between = [f"p0 {n}..{n + 1} ok w9={n}" for n in range(10, 60, 2)]
    lines = ["p0 0..1 ok w1=1", *between, "p0 70..71 ok w1=2 w2=2", "p1 80..81 ok r2=2 r1=1"]
    (anomaly,) = verdicts(lines)["causal"].anomalies
    assert isinstance(anomaly.evidence, dict)
    assert anomaly.evidence["length"] == 2


@pytest.mark.parametrize("level", LEVELS)
def test_a_write_of_unknown_outcome_counts_once_it_is_read(level: str) -> None:
    lines = ["p0 0.. info w1=1 w2=1", "p1 2..3 ok r2=1 r1="]
    assert check_weak_isolation(history(*lines), models=[level]).valid is False
    assert check_weak_isolation(history(lines[0], "p1 2..3 ok r2= r1="), models=[level]).valid is True


def test_what_an_aborted_transaction_read_says_nothing() -> None:
    assert verdicts(["p0 0..1 ok w1=1 w2=1", "p1 2..3 fail r2=1 r1=", "p2 4..5 ok r1=1"])["causal"].valid is True


def test_real_time_says_nothing() -> None:
    assert verdicts(["p0 0..1 ok w1=1", "p1 2..3 ok r1="])["causal"].valid is True


def test_registers_and_lists_are_judged_apart() -> None:
    lines = ["p0 0..1 ok w1=1 w2=1", "p1 2..3 ok r1= r2=1", "p2 4..5 ok a3=1", "p3 6..7 ok r3=[1]"]
    verdict = verdicts(lines)["causal"]
    assert verdict.valid is False
    assert verdict.figures["rw-register"]["not"] == ["read-atomic"]
    assert verdict.figures["list-append"]["not"] == []


@pytest.mark.parametrize("lines", [[], ["p0 0..1 ok w1=1"], ["p0 0..1 ok r1="], ["p0 0..1 ok a1=1"]])
def test_where_nobody_read_of_anybody_there_is_nothing_to_judge(lines: list[str]) -> None:
    verdict = WeakIsolation().check(Records.of(history(*lines)), limit_s=10)
    assert verdict.valid == "unknown"
    assert verdict.judged_nothing


def test_another_level_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PlanError, match='Did you mean "read-committed"'):
        check_weak_isolation(history(), models=["read-comitted"])
    with pytest.raises(PlanError, match="one level at least"):
        check_weak_isolation(history(), models=[])


def test_a_value_that_is_written_twice_is_refused() -> None:
    with pytest.raises(HistoryError, match="value 1 is written to key 1 twice"):
        check_weak_isolation(history("p0 0..1 ok w1=1", "p1 2..3 ok w1=1"))
