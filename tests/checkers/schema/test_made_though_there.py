"""A function that CREATE … IF NOT EXISTS made although another one was there, and its legal twins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from histories import judged

from schemaquake.checkers.schema.definitions import Definitions

KEYSPACE = ("@1 p0 n1 invoke create-keyspace k", "@2 p0 n1 ok")


def function(constant: int, **more: Any) -> str:
    return orjson.dumps({"arguments": [], "returns": "int", "body": f"return {constant};", **more}).decode()


def create(at: int, constant: int, *, answer: str = "ok", ends: int = 0, **more: Any) -> list[str]:
    asked = function(constant, **more)
    if answer == "ok" and more:
        answer = f"ok {function(constant, **more, applied=True)}"
    return [f"@{at} p{at} n1 invoke create-function k.f {asked}", f"@{ends or at + 1} p{at} n1 {answer}"]


def drop(at: int, answer: str) -> list[str]:
    return [f"@{at} p{at} n2 invoke drop-function k.f", f"@{at + 1} p{at} n2 {answer}"]


def judge(shown: int, *lines: Sequence[str]) -> tuple[int, int]:
    """The numbers of doubts about the function, and of anomalies."""
    history = [*KEYSPACE, *(line for some in lines for line in some)]
    readings = ("settled n1,n2 keyspace k", f"settled n1,n2 function k.f {function(shown)}")
    verdict = Definitions().check(judged(history, readings), limit_s=5)
    return sum(doubt.objects == ("k.f",) for doubt in verdict.doubts), len(verdict.anomalies)


FIRST, SECOND = create(10, 1), create(20, 2, if_not_exists=True)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([FIRST, SECOND], id="it was there"),
        pytest.param([drop(5, "ok"), FIRST, SECOND], id="dropped before it was there"),
        pytest.param([FIRST, SECOND, drop(30, "fail InvalidRequest: in use")], id="a DROP that was refused"),
        pytest.param([FIRST, create(20, 2, answer="info", if_not_exists=True)], id="of unknown outcome"),
    ],
)
def test_a_function_that_was_made_though_another_was_there_is_a_doubt(lines: Sequence[Sequence[str]]) -> None:
    assert judge(2, *lines) == (1, 0)


@pytest.mark.parametrize(
    ("shown", "lines"),
    [
        pytest.param(2, [FIRST, drop(15, "ok"), SECOND], id="it had been dropped"),
        pytest.param(2, [FIRST, drop(15, "info OperationTimedOut: no"), SECOND], id="it may have been dropped"),
        pytest.param(2, [create(10, 1, answer="info"), SECOND], id="the first one may not be there"),
        pytest.param(2, [create(10, 1, ends=40), SECOND], id="both at once"),
        pytest.param(2, [FIRST, create(20, 2, or_replace=True)], id="it was replaced"),
        pytest.param(2, [FIRST, SECOND, create(30, 2, or_replace=True)], id="replaced by the same later"),
        pytest.param(1, [FIRST, create(20, 1, if_not_exists=True)], id="both are the same"),
    ],
)
def test_its_twins_are_legal(shown: int, lines: Sequence[Sequence[str]]) -> None:
    assert judge(shown, *lines) == (0, 0)
