"""Linearizability of small histories, and of their twins one event away."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from data_histories import data_records

from schemaquake.checkers.linearizability import guarded, linearizable
from schemaquake.checkers.linearizability.linearizable import Linearizable
from schemaquake.checkers.linearizability.models import (
    Mutex,
    Register,
    counter,
    fifo_queue,
    growing_set,
    multi_register,
    unordered_queue,
)
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.verdict import Verdict


def judge(*lines: str, model: object = None, limit_s: float = 20, **options: int) -> Verdict:
    return Linearizable(model=model, **options).check(data_records(*lines), limit_s=limit_s)  # type: ignore[arg-type]


WRITTEN = ("p0 invoke write 1", "p0 ok")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((*WRITTEN, "p1 invoke read", "p1 ok 2"), "unwritten"),
        (("p1 invoke read", "p1 ok 1", *WRITTEN), "early"),
        ((*WRITTEN, "p1 invoke read", "p1 ok null"), "inside"),
        ((*WRITTEN, "p0 invoke write 2", "p0 ok", "p1 invoke read", "p1 ok 1"), "inside"),
        (
            (*WRITTEN, "p0 invoke write 2", "p1 invoke read", "p1 ok 2", "p1 invoke read", "p1 ok 1", "p0 ok"),
            "inside",
        ),
        (
            (
                "p0 invoke write 1",
                "p1 invoke write 2",
                "p2 invoke read",
                "p2 ok 1",
                "p2 invoke read",
                "p2 ok 2",
                "p2 invoke read",
                "p2 ok 1",
                "p2 invoke read",
                "p2 ok 2",
                "p0 ok",
                "p1 ok",
            ),
            "overlap",
        ),
        (
            (*WRITTEN, "p0 invoke cas [1,2]", "p1 invoke cas [1,3]", "p0 ok", "p1 ok"),
            "twice",
        ),
        (("p0 invoke cas [1,2]", "p1 invoke cas [2,1]", "p0 ok", "p1 ok"), "circle"),
        (
            (*WRITTEN, "p0 invoke cas [1,2]", "p0 ok", "p1 invoke read", "p1 ok 1"),
            "backwards",
        ),
    ],
)
def test_a_register_in_which_no_value_is_written_twice_is_refuted_by_its_zones(lines, why):
    verdict = judge(*lines)
    assert verdict.valid is False
    (found,) = verdict.anomalies
    assert found.evidence == {"why": why}
    assert found.type == "non-linearizable"
    assert found.explanation.startswith("Let  T1 = op ")
    assert "\nThen " in found.explanation
    assert "\n     But " in found.explanation
    assert verdict.figures["by_zones"] == 1


@pytest.mark.parametrize(
    "lines",
    [
        (*WRITTEN, "p1 invoke read", "p1 ok 1"),
        ("p0 invoke write 1", "p1 invoke read", "p1 ok 1", "p0 ok"),
        ("p0 invoke write 1", "p1 invoke read", "p1 ok null", "p0 ok"),
        ("p0 invoke write 1", "@2 p1 invoke read", "@2 p0 ok", "@4 p1 ok null"),
        (*WRITTEN, "p0 invoke write 2", "p0 info", "p1 invoke read", "p1 ok 2"),
        (*WRITTEN, "p0 invoke write 2", "p0 info", "p1 invoke read", "p1 ok 1"),
        (*WRITTEN, "p0 invoke write 2", "p1 invoke read", "p1 ok 1"),
        (*WRITTEN, "p0 invoke write 2", "p0 fail", "p1 invoke read", "p1 ok 1"),
        (*WRITTEN, "p0 invoke cas [1,2]", "p0 ok", "p1 invoke read", "p1 ok 2"),
        (*WRITTEN, "p0 invoke cas [7,2]", "p0 fail", "p1 invoke read", "p1 ok 1"),
        (*WRITTEN, "p0 invoke cas [1,2]", "p0 info", "p1 invoke cas [2,3]", "p1 info", "p2 invoke read", "p2 ok 3"),
        (*WRITTEN, "p1 invoke read", "p1 info"),
    ],
)
def test_what_has_an_order_is_valid(lines):
    verdict = judge(*lines)
    assert verdict.valid is True, verdict.anomalies


def test_a_write_that_certainly_failed_cannot_be_read():
    assert judge(*WRITTEN, "p0 invoke write 2", "p0 fail", "p1 invoke read", "p1 ok 2").valid is False


def test_an_explanation_names_the_calls_and_the_contradiction():
    verdict = judge(*WRITTEN, "p0 invoke write 2", "p0 ok", "p1 invoke read", "p1 ok 1")
    assert verdict.anomalies[0].explanation == (
        "Let  T1 = op 0: p0 write 1 -> ok, 0.001000 s to 0.002000 s\n"
        "     T2 = op 4: p1 read 1 -> ok, 0.005000 s to 0.006000 s\n"
        "     T3 = op 2: p0 write 2 -> ok, 0.003000 s to 0.004000 s\n"
        "Then from the answer of T1 to the call of T2 the register held one value, which was written once.\n"
        "     But within that time it held another one, for T3."
    )
    assert verdict.anomalies[0].ops == (0, 2, 4)


REPEATED = (*WRITTEN, "p0 invoke write 2", "p0 ok", "p0 invoke write 1", "p0 ok")


def test_values_that_are_written_twice_are_searched():
    assert judge(*REPEATED, "p1 invoke read", "p1 ok 1").valid is True
    verdict = judge(*REPEATED, "p1 invoke read", "p1 ok 2")
    assert verdict.valid is False
    assert verdict.figures["by_search"] == 1
    evidence = verdict.anomalies[0].evidence
    assert evidence == {"why": "search", "order": [0, 2, 4], "states": ["1"], "stuck": 6}
    assert "The object is then 1." in verdict.anomalies[0].explanation


def test_a_call_of_unknown_outcome_may_take_effect_at_any_later_time_but_once():
    crashed = ("p9 invoke write 3", "p9 info", *REPEATED)
    once = ("p1 invoke read", "p1 ok 3", "p0 invoke write 1", "p0 ok")
    assert judge(*crashed, *once).valid is True
    assert judge(*crashed, *once, "p1 invoke read", "p1 ok 3").valid is False


def test_a_failed_cas_says_something_only_if_it_is_said_to():
    lines = (*REPEATED, "p1 invoke cas [1,5]", "p1 fail")
    assert judge(*lines, model=Register()).valid is True
    assert judge(*lines, model=Register(failed_cas="informative")).valid is False
    assert judge(*WRITTEN, "p1 invoke cas [1,5]", "p1 fail", model=Register(failed_cas="informative")).valid is False


@pytest.mark.parametrize(
    ("old", "error", "valid"),
    [
        (1, "not applied: the condition did not hold", False),
        (2, "not applied: the condition did not hold", True),
        (1, "Unavailable: 1 of 2", True),
    ],
)
@pytest.mark.parametrize("before", [WRITTEN, REPEATED])
def test_a_cas_that_found_another_value_by_its_answer_did_find_one(
    before: tuple[str, ...], old: int, error: str, *, valid: bool
) -> None:
    records = data_records(*before, f"p1 invoke cas [{old},5]", "p1 fail")
    rows = records.history.to_pylist()
    rows[-1]["error"] = error
    history = pa.Table.from_pylist(rows, schema=HISTORY)
    assert Linearizable(model=Register()).check(Records.of(history), limit_s=20).valid is valid


def test_a_read_of_null_says_that_nothing_was_there_unless_it_is_said_to_say_nothing():
    lines = (*WRITTEN, "p1 invoke read", "p1 ok null")
    assert judge(*lines, model=Register()).valid is False
    assert judge(*lines, model=Register(null_reads="unknown")).valid is True


def test_the_initial_value_is_what_one_says():
    lines = ("p1 invoke read", "p1 ok 0", *WRITTEN)
    assert judge(*lines, model=Register(start=0)).valid is True
    assert judge(*lines, model=Register()).valid is False


def test_keys_are_apart_and_the_bad_one_is_named():
    verdict = judge("p0 invoke write k=x 1", "p0 ok", "p0 invoke write k=y 1", "p0 ok", "p1 invoke read k=y", "p1 ok 2")
    assert [found.objects for found in verdict.anomalies] == [("y",)]
    assert verdict.figures["keys"] == 2


def test_values_of_any_kind_are_told_apart_by_their_json():
    for value in ('"1"', "true", "1.5", '{"a":1,"b":[2]}', "[1,2]"):
        written = ("p0 invoke write " + value, "p0 ok")
        assert judge(*written, "p1 invoke read", "p1 ok " + value).valid is True
        assert judge(*written, "p1 invoke read", "p1 ok 1").valid is False
    assert judge('p0 invoke write {"b":[2],"a":1}', "p0 ok", "p1 invoke read", 'p1 ok {"a":1,"b":[2]}').valid is True


def test_a_cas_of_any_values():
    lines = ('p0 invoke write "a,b"', "p0 ok", 'p0 invoke cas ["a,b",{"x":1}]', "p0 ok", "p1 invoke read")
    assert judge(*lines, 'p1 ok {"x":1}').valid is True
    assert judge(*lines, 'p1 ok "a,b"').valid is False


def test_a_cas_that_is_no_pair_is_refused():
    with pytest.raises(HistoryError, match=r"the cas of index 2 wants \[old, new\], and has 5"):
        judge(*WRITTEN, "p0 invoke cas 5", "p0 ok")


def test_there_is_nothing_to_judge_where_nobody_writes():
    verdict = judge("p0 invoke read", "p0 ok [1]", "p0 invoke add 1", "p0 ok")
    assert verdict.valid == "unknown"
    assert verdict.judged_nothing
    assert judge("p0 invoke read", "p0 ok 1", model=Register()).valid is False


# ── other objects ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_mutex_is_held_once():
    held = ("p0 invoke acquire", "p0 ok", "p1 invoke acquire")
    assert judge(*held).valid is True
    verdict = judge(*held, "p1 ok")
    assert verdict.valid is False
    assert verdict.anomalies[0].evidence["states"] == ["held"]
    assert (
        judge("p0 invoke acquire", "p0 ok", "p0 invoke release", "p1 invoke acquire", "p1 ok", model=Mutex()).valid
        is True
    )
    assert judge("p0 invoke release", "p0 ok", model=Mutex()).valid is False


@pytest.mark.parametrize(
    ("model", "lines", "good", "bad"),
    [
        (growing_set(), ("p0 invoke add 1", "p0 ok", "p0 invoke add 2", "p1 invoke read"), "[1]", "[2]"),
        (counter(), ("p0 invoke add 2", "p0 ok", "p0 invoke decrement", "p1 invoke read"), "1", "3"),
        (
            fifo_queue(),
            ("p0 invoke enqueue 1", "p0 ok", "p0 invoke enqueue 2", "p0 ok", "p1 invoke dequeue"),
            "1",
            "2",
        ),
        (
            unordered_queue(),
            ("p0 invoke enqueue 1", "p0 ok", "p0 invoke enqueue 2", "p0 ok", "p1 invoke dequeue"),
            "2",
            "3",
        ),
    ],
)
def test_other_objects_by_search(model, lines, good, bad):
    assert judge(*lines, f"p1 ok {good}", model=model).valid is True
    assert judge(*lines, f"p1 ok {bad}", model=model).valid is False


def test_an_element_leaves_a_queue_once():
    taken = ("p0 invoke enqueue 1", "p0 ok", "p1 invoke dequeue", "p1 ok 1", "p1 invoke dequeue")
    for model in (fifo_queue(), unordered_queue()):
        assert judge(*taken, "p1 ok 1", model=model).valid is False
        assert judge(*taken, "p1 info", model=model).valid is True


def test_several_registers_are_read_together():
    written = ('p0 invoke txn [["w","x",1],["w","y",1]]', "p0 ok", 'p1 invoke txn [["r","x",null],["r","y",null]]')
    model = multi_register({"x": 0, "y": 0})
    assert judge(*written, 'p1 ok [["r","x",1],["r","y",1]]', model=model).valid is True
    assert judge(*written, 'p1 ok [["r","x",1],["r","y",0]]', model=model).valid is False


def test_a_value_that_a_model_cannot_have_is_refused():
    with pytest.raises(HistoryError, match="the add of index 0: a add of a counter has an integer"):
        judge('p0 invoke add "x"', "p0 ok", model=counter())


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def hard(calls: int) -> list[str]:
    """Every value is written and read all the time, and the last read wants what nobody wrote: every subset has to be tried."""
    opened = [f"p{number} invoke write {number}" for number in range(calls)]
    read = [f"p{100 + number} invoke read" for number in range(calls)]
    closed = [f"p{number} ok" for number in range(calls)]
    seen = [f"p{100 + number} ok {number}" for number in range(calls)]
    return [*opened, *read, "p99 invoke write 0", "p98 invoke read", "p98 ok 77", *closed, "p99 ok", *seen]


def test_the_memory_limit_ends_in_unknown():
    verdict = judge(*hard(22), memory_bytes=12 << 20, limit_s=600)  # the first call may have to compile
    assert verdict.valid == "unknown"
    assert [(doubt.kind, doubt.objects) for doubt in verdict.doubts] == [("memory", ())]


def test_the_time_limit_ends_in_unknown_within_twice_the_limit():
    judge(*hard(22), memory_bytes=1 << 20, limit_s=600)  # compiles
    began = time.monotonic()
    verdict = judge(
        *hard(30), limit_s=1, memory_bytes=1 << 36
    )  # a quick machine would meet the usual bound within the second
    assert verdict.valid == "unknown"
    assert [(doubt.kind, doubt.objects) for doubt in verdict.doubts] == [("time", ())]
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("model", [None, growing_set()], ids=["register", "model"])
def test_time_that_runs_out_in_the_easy_search_is_named_and_not_its_memory(model, monkeypatch):
    """On a slow machine the easy search may use up all the time before it meets its own small bound of memory."""
    slow = iter(range(0, 10**9, 100))
    monkeypatch.setattr(time, "monotonic", lambda: next(slow))
    monkeypatch.setattr(guarded, "_EASY_BYTES", 1 << 14)
    monkeypatch.setattr(linearizable, "_EASY_BYTES", 1 << 14)
    lines = hard(17)
    if model:
        lines = [f"p{number} invoke add {number}" for number in range(17)]
        lines += ["p98 invoke read", "p98 ok [77]", *(f"p{number} ok" for number in range(17))]
    verdict = judge(*lines, limit_s=50, **({"model": model} if model else {}))
    assert verdict.valid == "unknown"
    assert [(doubt.kind, doubt.objects) for doubt in verdict.doubts] == [("time", ())]


def test_many_keys_are_decided_by_the_compiled_search(monkeypatch):
    monkeypatch.setattr(guarded, "_CALLS_COMPILED", 1)
    assert judge(*REPEATED, "p1 invoke read", "p1 ok 1").valid is True
    verdict = judge(*REPEATED, "p1 invoke read", "p1 ok 2")
    assert verdict.valid is False
    assert verdict.anomalies[0].evidence == {"why": "search", "order": [0, 2, 4], "states": ["1"], "stuck": 6}


@pytest.mark.parametrize("refuted", [True, False])
def test_once_one_object_is_refuted_hard_ones_are_left_at_that(refuted):
    lines = [
        *(f"p{number} invoke add k=x {number}" for number in range(17)),
        "p98 invoke read k=x",
        "p98 ok [77]",
        *(f"p{number} ok" for number in range(17)),
        "p99 invoke read k=y",
        f"p99 ok [{'5' if refuted else ''}]",
    ]
    verdict = judge(*lines, model=growing_set(), memory_bytes=16 << 20, limit_s=3600)
    assert verdict.valid is (False if refuted else "unknown")
    if refuted:
        assert verdict.anomalies[0].objects == ("y",)
        assert [(doubt.kind, doubt.objects) for doubt in verdict.doubts] == [("undecided", ("x",))]
    else:
        assert [(doubt.kind, doubt.objects) for doubt in verdict.doubts] == [("memory", ("x",))]
