"""Operation lines: one renderer of `op N: pX …`."""

from __future__ import annotations

from functools import cache

from data_histories import data_records
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operation_lines import OperationLines, render_operation
from schemaquake.harness.model.records import Records


@cache
def records() -> Records:
    return judged(
        ("@1 p0 n1 invoke drop-table k.t", "@2 p0 n1 info Timeout", "@3 p1 n2 invoke drop-table k.t"),
        [],
    )


def test_a_null_node_is_left_out() -> None:
    assert render_operation(7, 3, None, "read 5", "ok") == "op 7: p3 read 5 -> ok"


def test_an_error_follows_the_outcome() -> None:
    line = render_operation(7, 3, "n1", "read 5", "info", error="Timeout", when=" at 8.214 s")
    assert line == "op 7: p3 n1 read 5 -> info (Timeout) at 8.214 s"


def test_an_operation_may_be_put_into_other_words() -> None:
    first, _ = Evidence.of(records()).changes.all
    assert first.text("put 1", outcome="ok, 7").startswith("op 0: p0 n1 put 1 -> ok, 7 (Timeout) at ")


def test_an_operation_without_an_answer_says_so() -> None:
    first, second = OperationLines(records().history).lines([0, 2])
    assert first.startswith("op 0: p0 n1 drop-table k.t ")
    assert " -> info (Timeout), " in first
    assert second.endswith(" -> never answered")


def test_a_read_is_shown_with_its_answer_and_what_was_not_answered_with_its_question() -> None:
    asked = ("p0 invoke add 1", "p0 ok", "p1 invoke read", "p1 ok [1]", "p2 invoke read", "p2 ok null")
    failed = ("p3 invoke read", "p3 fail Timeout", "p4 invoke add 2", "p4 info", "p5 invoke add 3", "p6 invoke read")
    lines = OperationLines(data_records(*asked, *failed).history).lines([0, 2, 4, 6, 8, 10, 11])
    shown = [line.partition(", ")[0].partition(" (")[0] for line in lines]
    assert shown == [
        "op 0: p0 add 1 -> ok",
        "op 2: p1 read [1] -> ok",
        "op 4: p2 read null -> ok",
        "op 6: p3 read -> fail",
        "op 8: p4 add 2 -> info",
        "op 10: p5 add 3 -> never answered",
        "op 11: p6 read -> never answered",
    ]


def test_the_coordinators_of_operations_are_listed_once_and_those_without_one_are_left_out() -> None:
    history = judged(
        ("p0 n2 invoke drop-table k.t", "-- info settle {}", "p1 n1 invoke drop-table k.t", "p2 n2 invoke x")
    ).history
    assert OperationLines(history).nodes([0, 1, 2, 3]) == ["n1", "n2"]


def test_a_long_value_is_cut_off() -> None:
    texts = [f'"{"x" * length}"' for length in (78, 79)]
    lines = [line for number, text in enumerate(texts) for line in (f"p{number} invoke add {text}", f"p{number} ok")]
    whole, cut = OperationLines(data_records(*lines).history).lines([0, 2])
    assert (texts[0] in whole, f"{texts[1][:79]}… -> ok" in cut) == (True, True)
