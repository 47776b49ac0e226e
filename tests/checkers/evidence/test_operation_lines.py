"""Operation lines: one renderer of `op N: pX …`."""

from __future__ import annotations

from functools import cache

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
