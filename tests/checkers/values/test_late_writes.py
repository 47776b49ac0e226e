"""Late writes: a write that was given up and seen not to have happened stays that way."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quorum_store import table

from schemaquake.checkers.values.late_writes import LateWrites
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Verdict

TIMEOUT = "WriteTimeout: Error from server: code=1100"


def call(
    process: int, begins: int, ends: int, f: str, value: Any, kind: str = "ok", error: str | None = None
) -> list[dict[str, Any]]:
    told = None if f == "read" else value
    return [
        {
            "time": time * 1_000_000,
            "process": process,
            "type": of_event,
            "f": f,
            "node": f"n{process}",
            "key": "k.r/1",
            "value": None if document is None else orjson.dumps(document).decode(),
            "error": why,
            "mops": None,
        }
        for time, of_event, document, why in (
            (begins, "invoke", told, None),
            (ends, kind, value if kind == "ok" else None, error),
        )
    ]


def write(
    process: int, begins: int, ends: int, value: int, *, kind: str = "info", error: str | None = TIMEOUT
) -> list[dict[str, Any]]:
    return call(process, begins, ends, "write", value, kind, None if kind == "ok" else error)


def read(process: int, begins: int, ends: int, value: int | None) -> list[dict[str, Any]]:
    return call(process, begins, ends, "read", value)


def judge(*calls: list[dict[str, Any]]) -> Verdict:
    return LateWrites().check(Records.of(table([row for call in calls for row in call])), limit_s=10)


FIRST = write(1, 1, 2, 5, kind="ok")


def test_a_write_that_shows_up_after_a_read_without_it_is_late() -> None:
    verdict = judge(FIRST, write(1, 10, 20, 7), read(2, 30, 32, 5), read(3, 40, 42, 7))
    assert verdict.valid is False
    (found,) = verdict.anomalies
    assert found.type == "late-write"
    assert found.ops == (2, 4, 6)
    assert found.nodes == ("n1", "n2", "n3")
    assert found.explanation == (
        f"Let  T1 = op 2: p1 n1 write 7 -> info ({TIMEOUT}) at 0.020 s\n"
        "     T2 = op 4: p2 n2 read -> ok, 5 at 0.032 s\n"
        "     T3 = op 6: p3 n3 read -> ok, 7 at 0.042 s\n"
        "Then T1's coordinator had given up before T2 began, and T2, a serial read, did not show T1's value: so T1 "
        "must never take effect.\n"
        "     But T3, which began after T2 was answered, shows 7, which T1 alone wrote."
    )
    assert verdict.figures == {"given_up": 1, "seen_later": 1, "late": 1}


@pytest.mark.parametrize(
    "calls",
    [
        [write(1, 10, 20, 7), read(2, 30, 32, 7), read(3, 40, 42, 7)],
        [write(1, 10, 20, 7), read(2, 30, 32, 5), read(3, 40, 42, 5)],
        [write(1, 10, 20, 7), read(2, 19, 32, 5), read(3, 40, 42, 7)],
        [write(1, 10, 20, 7), read(2, 20, 32, 5), read(3, 40, 42, 7)],
        [write(1, 10, 20, 7), read(2, 30, 41, 5), read(3, 40, 42, 7)],
        [write(1, 10, 20, 7), read(2, 30, 32, 7), write(3, 33, 34, 8, kind="ok"), read(2, 40, 42, 8)],
    ],
    ids=[
        "seen at once",
        "never seen",
        "read before the end",
        "read at the end",
        "reads at one time",
        "overwritten later",
    ],
)
def test_what_may_be_is_not_accused(calls: list[list[dict[str, Any]]]) -> None:
    assert judge(FIRST, *calls).valid is True


@pytest.mark.parametrize(
    "other",
    [
        write(2, 33, 34, 7, kind="ok"),
        write(2, 33, 34, 7),
        call(2, 33, 34, "cas", [5, 7]),
        call(2, 33, 39, "cas", [5, 7], "info", TIMEOUT),
    ],
    ids=["written", "perhaps written", "compared and set", "perhaps compared and set"],
)
def test_a_value_that_something_else_may_have_set_accuses_nobody(other: list[dict[str, Any]]) -> None:
    verdict = judge(FIRST, write(1, 10, 20, 7), read(2, 30, 32, 5), other, read(3, 40, 42, 7))
    assert verdict.valid == "unknown"
    assert verdict.judged_nothing


def test_a_second_setter_that_certainly_failed_excuses_nothing() -> None:
    failed = write(2, 33, 34, 7, kind="fail", error="Unavailable")
    assert judge(FIRST, write(1, 10, 20, 7), read(2, 30, 32, 5), failed, read(3, 40, 42, 7)).valid is False


@pytest.mark.parametrize("error", ["OperationTimedOut: …", "ConnectionShutdown: …", None])
def test_a_write_whose_coordinator_may_have_gone_on_is_not_judged(error: str | None) -> None:
    verdict = judge(FIRST, write(1, 10, 20, 7, error=error), read(2, 30, 32, 5), read(3, 40, 42, 7))
    assert verdict.valid == "unknown"
    assert verdict.judged_nothing


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["write", "gives up", "never", "read"]), max_size=40),
    st.randoms(use_true_random=False),
)
def test_a_register_that_decides_at_the_next_operation_is_never_accused(script: list[str], random: Any) -> None:
    """What is left of a write that was given up takes effect with the next operation or not at all."""
    calls, held, left = [], None, None
    for number, what in enumerate(script):
        at = 10 * number
        if left is not None:
            held, left = left if random.random() < 0.5 else held, None
        match what:
            case "write":
                held = number
                calls.append(write(number, at, at + 5, number, kind="ok"))
            case "gives up":
                left = number
                calls.append(write(number, at, at + 5, number))
            case "never":
                calls.append(write(number, at, at + 5, number, kind="fail", error="Unavailable"))
            case "read":
                calls.append(read(number, at, at + 5, held))
    assert judge(*calls).valid in {True, "unknown"}
    assert not judge(*calls).anomalies
