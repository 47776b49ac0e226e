"""The smallest history of every anomaly, and its twin, one word away, that is valid."""

from __future__ import annotations

from typing import Any

import pytest
from small_histories import history

from schemaquake.checkers.elle.list_append import ListAppend, check_list_append
from schemaquake.checkers.elle.rw_register import RwRegister, check_rw_register
from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.model.records import Records

# anomaly: (models, lines, (line of the twin, what stands there instead))
APPENDS: dict[str, tuple[list[str], list[str], tuple[int, str]]] = {
    "internal": (
        ["snapshot-isolation"],
        ["p0 0..1 ok a1=1", "p0 2..3 ok a1=2 r1=[1]"],
        (1, "p0 2..3 ok a1=2 r1=[1,2]"),
    ),
    "future-read": (
        ["read-committed"],
        ["p0 0..1 ok a1=1", "p0 2..3 ok r1=[1,2] a1=2"],
        (1, "p0 2..3 ok r1=[1] a1=2"),
    ),
    "garbage-read": (["read-uncommitted"], ["p0 0..1 ok a1=1", "p1 2..3 ok r1=[1,9]"], (1, "p1 2..3 ok r1=[1]")),
    "duplicate-elements": (["read-uncommitted"], ["p0 0..1 ok a1=1", "p1 2..3 ok r1=[1,1]"], (1, "p1 2..3 ok r1=[1]")),
    "incompatible-order": (
        ["read-committed"],
        ["p0 0..4 ok a1=1", "p1 1..5 ok a1=2", "p2 2..6 ok r1=[1,2]", "p3 3..7 ok r1=[2]"],
        (3, "p3 3..7 ok r1=[1]"),
    ),
    "G1a": (
        ["read-committed"],
        ["p0 0..1 ok a2=1 r2=[1]", "p0 2..3 fail a1=1", "p1 4..5 ok r1=[1] r2=[1]"],
        (1, "p0 2..3 ok a1=1"),
    ),
    "dirty-update": (
        ["read-committed"],
        ["p0 0..1 fail a1=1", "p0 2..3 ok a1=2", "p1 4..5 ok r1=[1,2]"],
        (0, "p0 0..1 ok a1=1"),
    ),
    "G1b": (["read-committed"], ["p0 0..1 ok a1=1 a1=2", "p1 2..3 ok r1=[1]"], (1, "p1 2..3 ok r1=[1,2]")),
    "lost-update": (
        ["update-atomic"],
        ["p0 0..2 ok r1= a1=1", "p1 1..3 ok r1= a1=2", "p2 4..5 ok r1=[1,2]"],
        (1, "p1 1..3 ok r1=[1] a1=2"),
    ),
    "G0": (
        ["read-uncommitted"],
        ["p0 0..2 ok a1=1 a2=1", "p1 1..3 ok a1=2 a2=2", "p2 4..5 ok r1=[1,2] r2=[2,1]"],
        (2, "p2 4..5 ok r1=[1,2] r2=[1,2]"),
    ),
    "G1c": (
        ["read-committed"],
        ["p0 0..2 ok a1=1 r2=[1]", "p1 1..3 ok a2=1 r1=[1]"],
        (1, "p1 1..3 ok a2=1 r1="),
    ),
    "G-single-item": (
        ["consistent-view"],
        ["p0 0..2 ok a1=1 a2=1", "p1 1..3 ok r1= r2=[1]"],
        (1, "p1 1..3 ok r1=[1] r2=[1]"),
    ),
    "G-nonadjacent-item": (
        ["snapshot-isolation"],
        ["p0 0..4 ok a1=1", "p1 1..5 ok a2=1", "p2 2..6 ok r1=[1] r2=", "p3 3..7 ok r1= r2=[1]"],
        (3, "p3 3..7 ok r1=[1] r2=[1]"),
    ),
    "G2-item": (
        ["repeatable-read"],
        ["p0 0..2 ok r1= a2=1", "p1 1..3 ok r2= a1=1"],
        (1, "p1 1..3 ok r2=[1] a1=1"),
    ),
    "G0-process": (
        ["strong-session-read-uncommitted"],
        ["p0 0..1 ok a1=2", "p0 2..3 ok a1=1", "p1 4..5 ok r1=[1,2]"],
        (2, "p1 4..5 ok r1=[2,1]"),
    ),
    "G1c-process": (
        ["strong-session-read-committed"],
        ["p0 0..4 ok r1=[1] a2=1", "p1 1..2 ok r2=[1]", "p1 3..5 ok a1=1"],
        (0, "p0 0..4 ok r1= a2=1"),
    ),
    "G-single-item-process": (
        ["strong-session-snapshot-isolation"],
        ["p0 0..1 ok a1=1", "p0 2..3 ok r1="],
        (1, "p0 2..3 ok r1=[1]"),
    ),
    "G-nonadjacent-item-process": (
        ["strong-session-snapshot-isolation"],
        ["p0 0..2 ok r1= r2=[1]", "p1 1..3 ok a1=1", "p1 4..6 ok r2=", "p2 5..7 ok a2=1"],
        (2, "p1 4..6 ok r2=[1]"),
    ),
    "G2-item-process": (
        ["strong-session-serializable"],
        ["p0 0..3 ok r1= a2=1", "p1 1..2 ok a1=1", "p1 4..5 ok r2="],
        (2, "p1 4..5 ok r2=[1]"),
    ),
    "G0-realtime": (
        ["strong-read-uncommitted"],
        ["p0 0..1 ok a1=2", "p1 2..3 ok a1=1", "p2 4..5 ok r1=[1,2]"],
        (2, "p2 4..5 ok r1=[2,1]"),
    ),
    "G1c-realtime": (
        ["strong-read-committed"],
        ["p0 0..1 ok r1=[1]", "p1 2..3 ok a1=1"],
        (1, "p1 2..3 ok a2=1"),
    ),
    "G-single-item-realtime": (
        ["strong-snapshot-isolation"],
        ["p0 0..1 ok a1=1", "p1 2..3 ok r1="],
        (1, "p1 2..3 ok r1=[1]"),
    ),
    "G-nonadjacent-item-realtime": (
        ["strong-snapshot-isolation"],
        ["p0 0..8 ok r1= r2=[1]", "p1 1..3 ok a1=1", "p3 4..6 ok r2=", "p2 2..7 ok a2=1"],
        (2, "p3 4..6 ok r2=[1]"),
    ),
    "G2-item-realtime": (
        ["strict-serializable"],
        ["p0 0..6 ok r1= a2=1", "p1 1..2 ok a1=1", "p2 4..5 ok r2="],
        (2, "p2 4..5 ok r2=[1]"),
    ),
}
TWIN_READS_GARBAGE = {"G1c-realtime"}

REGISTERS: dict[str, tuple[dict[str, Any], list[str], tuple[int, str]]] = {
    "internal": (
        {"models": ["strict-serializable"]},
        ["p0 0..1 ok w1=1", "p0 2..3 ok w1=2 r1=1"],
        (1, "p0 2..3 ok w1=2 r1=2"),
    ),
    "future-read": (
        {"models": ["read-committed"]},
        ["p0 0..1 ok r1=1 w1=1", "p1 2..3 ok r1=1"],
        (0, "p0 0..1 ok r1= w1=1"),
    ),
    "garbage-read": ({"models": ["read-uncommitted"]}, ["p0 0..1 ok w1=1", "p1 2..3 ok r1=9"], (1, "p1 2..3 ok r1=1")),
    "G1a": ({"models": ["read-committed"]}, ["p0 0..1 fail w1=1", "p1 2..3 ok r1=1"], (0, "p0 0..1 ok w1=1")),
    "G1b": ({"models": ["read-committed"]}, ["p0 0..1 ok w1=1 w1=2", "p1 2..3 ok r1=1"], (1, "p1 2..3 ok r1=2")),
    "lost-update": (
        {"models": ["update-atomic"]},
        ["p0 0..2 ok r1= w1=1", "p1 1..3 ok r1= w1=2"],
        (1, "p1 1..3 ok r1=1 w1=2"),
    ),
    "G0": (
        {"models": ["read-uncommitted"], "sequential_keys": True},
        ["p0 0..2 ok w1=1 w2=1", "p1 1..3 ok w1=2 w2=2", "p0 4..5 ok r1=2", "p1 6..7 ok r2=1"],
        (3, "p1 6..7 ok r2=2"),
    ),
    "G1c": (
        {"models": ["read-committed"]},
        ["p0 0..2 ok w1=1 r2=1", "p1 1..3 ok w2=1 r1=1"],
        (1, "p1 1..3 ok w2=1 r1="),
    ),
    "G-single-item": (
        {"models": ["consistent-view"]},
        ["p0 0..2 ok w1=1 w2=1", "p1 1..3 ok r1= r2=1"],
        (1, "p1 1..3 ok r1=1 r2=1"),
    ),
    "G-nonadjacent-item": (
        {"models": ["snapshot-isolation"]},
        ["p0 0..4 ok w1=1", "p1 1..5 ok w2=1", "p2 2..6 ok r1=1 r2=", "p3 3..7 ok r1= r2=1"],
        (3, "p3 3..7 ok r1=1 r2=1"),
    ),
    "G2-item": (
        {"models": ["repeatable-read"]},
        ["p0 0..2 ok r1= w2=1", "p1 1..3 ok r2= w1=1"],
        (1, "p1 1..3 ok r2=1 w1=1"),
    ),
    "cyclic-versions": (
        {"models": ["read-uncommitted"], "linearizable_keys": True},
        ["p0 0..1 ok w1=1", "p1 2..3 ok w1=2", "p2 4..5 ok r1=1"],
        (2, "p2 4..5 ok r1=2"),
    ),
}


@pytest.mark.parametrize("name", APPENDS)
def test_the_smallest_list_append_history(name: str) -> None:
    models, lines, (at, line) = APPENDS[name]
    verdict = check_list_append(history(*lines), models=models)
    found = {anomaly.type for anomaly in verdict.anomalies}
    assert name in found
    assert found <= set(ListAppend().finds)
    assert verdict.valid is False
    twin = check_list_append(history(*[*lines[:at], line, *lines[at + 1 :]]), models=models)
    if name in TWIN_READS_GARBAGE:
        assert {anomaly.type for anomaly in twin.anomalies} == {"garbage-read"}
    else:
        assert twin.valid is True, [anomaly.explanation for anomaly in twin.anomalies] or twin.reason


@pytest.mark.parametrize("name", REGISTERS)
def test_the_smallest_rw_register_history(name: str) -> None:
    options, lines, (at, line) = REGISTERS[name]
    verdict = check_rw_register(history(*lines), **options)
    found = {anomaly.type for anomaly in verdict.anomalies}
    assert name in found
    assert found <= set(RwRegister().finds)
    twin = check_rw_register(history(*[*lines[:at], line, *lines[at + 1 :]]), **options)
    assert twin.valid is True, [anomaly.explanation for anomaly in twin.anomalies] or twin.reason


def test_an_explanation_in_full() -> None:
    verdict = check_list_append(history(*APPENDS["G-single-item"][1]), models=["serializable"])
    explanation = (
        "Let  T1 = op 1: p1 r 1 nothing, r 2 [1] -> ok at 0.000 s\n"
        "     T2 = op 0: p0 append 1 1, append 2 1 -> ok at 0.000 s\n"
        "Then T1 comes before T2, because T1 read key 1 as [], and T2 appended 1 later, since no read shows it.\n"
        "     But T2 comes before T1, because T1 read key 2 as [1], whose last element T2 appended: a contradiction."
    )
    assert [anomaly.explanation for anomaly in verdict.anomalies] == [explanation]


def test_a_write_of_unknown_outcome_counts_once_it_is_read() -> None:
    lines = ["p0 0.. info a1=1 a2=1", "p1 1..2 ok r1=[1] r2="]
    assert check_list_append(history(*lines), models=["serializable"]).valid is False
    assert check_list_append(history(lines[0], "p1 1..2 ok r1= r2="), models=["serializable"]).valid is True


def test_transactions_that_touch_are_not_ordered_by_time() -> None:
    lines = ["p0 0..2 ok a1=1", "p1 1..3 ok r1="]
    assert check_list_append(history(*lines)).valid is True


@pytest.mark.parametrize("checker", [ListAppend(), RwRegister()], ids=lambda checker: checker.name)
def test_without_transactions_there_is_nothing_to_judge(checker: Any) -> None:
    verdict = checker.check(Records.of(history()), limit_s=10)
    assert verdict.valid == "unknown"
    assert verdict.judged_nothing


def test_each_kind_of_transactions_is_left_to_its_checker() -> None:
    lines = history("p0 0..1 ok a1=1", "p0 2..3 ok r1=[1]", "p1 4..5 ok w2=1", "p1 6..7 ok r2=1")
    assert check_list_append(lines).figures["transactions"] == 2
    assert check_rw_register(lines).figures["transactions"] == 2


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["p0 0..1 ok a1=1", "p1 2..3 ok a1=1"], "element 1 is appended to key 1 twice"),
        (["p0 0..1 ok a1=1 a1=1"], "element 1 is appended to key 1 twice"),
        (["p0 0..1 ok a1=1 w2=1"], "both lists and registers"),
        (["p0 0..1 ok a1="], "without a value"),
        (["p0 0..3 ok a1=1", "p0 1..2 ok a1=2"], "process 0 invokes at index 1 while"),
        (["p0 0..1 info a1=1", "p0 2..3 ok a1=2"], "although its operation ended in info"),
    ],
)
def test_a_history_that_cannot_be_is_refused_with_the_reason(lines: list[str], reason: str) -> None:
    with pytest.raises(HistoryError, match=reason):
        check_list_append(history(*lines))


def test_a_value_that_is_written_twice_is_refused() -> None:
    with pytest.raises(
        HistoryError, match="value 1 is written to key 1 twice, by the transactions invoked at index 0 and 2"
    ):
        check_rw_register(history("p0 0..1 ok w1=1", "p1 2..3 ok w1=1"))


def test_an_unknown_model_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(PlanError, match='Did you mean "serializable"'):
        check_list_append(history("p0 0..1 ok a1=1"), models=["serialisable"])


@pytest.mark.parametrize(
    ("options", "line", "unordered"),
    [
        ({}, "p1 2..3 ok w1=2", 1),
        ({"linearizable_keys": True}, "p1 2..3 ok w1=2", 0),
        ({"linearizable_keys": True}, "p1 1..3 ok w1=2", 1),
        ({}, "p1 2..3 ok r1=1", 0),
    ],
)
def test_what_an_unknown_order_of_versions_leaves_open_is_said(options: Any, line: str, unordered: int) -> None:
    first = "p0 0..2 ok w1=1" if " 1.." in line else "p0 0..1 ok w1=1"
    verdict = check_rw_register(history(first, line, "p2 4..5 ok r3="), sequential_keys=False, **options)
    assert verdict.valid is True
    assert verdict.figures["unordered-keys"] == unordered
    assert verdict.figures["not-decided"] == (["strong-serializable"] if unordered else [])


def test_a_value_of_one_key_before_its_initial_state_is_told_of_that_key() -> None:
    verdict = check_rw_register(
        history("p0 1..2 ok w1=1", "p0 3..4 ok w2=1", "p1 5..6 ok r1="), linearizable_keys=True, models=["serializable"]
    )
    assert verdict.figures["found"]["cyclic-versions"] == 1
    (told,) = (anomaly for anomaly in verdict.anomalies if anomaly.type == "cyclic-versions")
    assert isinstance(told.evidence, dict)
    assert told.evidence["key"] == 1
    assert told.evidence["versions"] == [1, None]


def test_lists_that_end_with_one_element_are_not_one_version_if_it_stands_twice_in_one() -> None:
    verdict = check_list_append(
        history("p0 1..2 ok a1=1", "p0 3..4 ok r1=[1] a1=2", "p0 5..6 ok r1=[1,2,1] a1=3"), models=["serializable"]
    )
    assert "duplicate-elements" in verdict.figures["found"]
    assert "lost-update" not in verdict.figures["found"]
