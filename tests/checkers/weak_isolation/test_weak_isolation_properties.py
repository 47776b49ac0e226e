"""Properties: clean stores of any size keep every level, planted damage is found by its name, and limits end in unknown."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from loose_store import loose
from serial_store import executed
from small_histories import Transaction, history, parsed, renamed, shifted, table

from schemaquake.checkers.elle.transactions import read_transactions
from schemaquake.checkers.weak_isolation.axioms import of_read_atomic
from schemaquake.checkers.weak_isolation.causality import TooMuch, of_causality
from schemaquake.checkers.weak_isolation.commit_order import commit_order
from schemaquake.checkers.weak_isolation.isolation import check_weak_isolation
from schemaquake.checkers.weak_isolation.readings import of_registers
from schemaquake.harness.model.records import HISTORY

SEEDS = st.integers(0, 1 << 40)
KINDS: Any = st.sampled_from(["rw-register", "list-append"])
LEVELS = ("read-committed", "read-atomic", "causal")


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, kind=KINDS, count=st.sampled_from([20, 120]))
def test_what_is_serial_keeps_every_level(seed: int, kind: Any, count: int) -> None:
    verdict = check_weak_isolation(table(executed(seed, kind=kind, count=count, processes=8)))
    assert verdict.valid is True
    assert verdict.figures["found"] == {}


@pytest.mark.parametrize("kind", ["rw-register", "list-append"])
@pytest.mark.parametrize("processes", [5, 60])
def test_so_does_a_serializable_store_of_many_transactions(kind: Any, processes: int) -> None:
    known = executed(1, kind=kind, count=10_000, processes=processes, keys=400)
    for level in LEVELS:
        verdict = check_weak_isolation(table(known), models=[level])
        assert verdict.valid is True, verdict.anomalies[:1]


@pytest.mark.parametrize("keys", [3, 300])
@pytest.mark.parametrize("lost", [0.0, 0.1])
def test_so_does_a_causal_store_in_which_most_reads_are_stale(keys: int, lost: float) -> None:
    known = loose(1, count=5000, processes=20, keys=keys, stale=0.0, lost=lost)
    for level in LEVELS:
        verdict = check_weak_isolation(table(known), models=[level])
        assert verdict.valid is True, verdict.anomalies[:1]


# ── planted damage ───────────────────────────────────────────────────────────────────────────────────────────────────

DAMAGE: dict[str, tuple[str, list[str]]] = {
    "non-monotonic-read": ("read-committed", ["p{0} 0..1 ok w{k}=1 w{l}=1", "p{1} 2..3 ok r{l}=1 r{k}="]),
    "fractured-read": ("read-atomic", ["p{0} 0..1 ok w{k}=1 w{l}=1", "p{1} 2..3 ok r{k}= r{l}=1"]),
    "causality-violation": (
        "causal",
        ["p{0} 0..1 ok w{k}=1", "p{1} 2..3 ok r{k}=1 w{l}=1", "p{2} 4..5 ok r{l}=1 r{k}="],
    ),
    "G1c": ("read-committed", ["p{0} 0..2 ok w{k}=1 r{l}=1", "p{1} 1..3 ok w{l}=1 r{k}=1"]),
    "G1a": ("read-committed", ["p{0} 0..1 fail w{k}=1", "p{1} 2..3 ok r{k}=1"]),
    "G1b": ("read-committed", ["p{0} 0..1 ok w{k}=1 w{k}=2", "p{1} 2..3 ok r{k}=1"]),
}


@settings(max_examples=examples(30), deadline=None)
@given(seed=SEEDS, name=st.sampled_from(sorted(DAMAGE)))
def test_damage_among_clean_transactions_is_found_by_its_name_and_nothing_else_is(seed: int, name: str) -> None:
    weakest, lines = DAMAGE[name]
    random = Random(seed)
    clean = executed(seed, kind="rw-register", count=60, processes=6)
    # New keys, sessions that are there or new ones, at some moment between the others'.
    names: dict[str, Any] = {"k": 1000, "l": 1001}
    idle = random.sample(range(900, 906), 3)
    planted = [parsed(line.format(*idle, **names)) for line in lines]
    at = random.choice(clean).invoked
    later = [
        replace(one, invoked=one.invoked + 100 * (one.invoked > at), completed=_after(one.completed, at))
        for one in clean
    ]
    verdict = check_weak_isolation(table([*later, *shifted(planted, later=at + 1)]))
    assert verdict.figures["found"] == {name: 1}
    assert verdict.figures["not"] == [weakest]
    assert [anomaly.type for anomaly in verdict.anomalies] == [name]
    assert {at + 1 <= index for index in verdict.anomalies[0].ops}


def _after(moment: int | None, at: int) -> int | None:
    return None if moment is None else moment + 100 * (moment > at)


# ── what means nothing ───────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, lists=st.booleans())
def test_names_and_clocks_mean_nothing(seed: int, lists: bool) -> None:
    found = loose(seed, lists=lists, count=12)
    random = Random(seed)
    seen = {(key, one) for t in found for _, key, value in t.mops for one in _each(value)}
    others: dict[str, Any] = {
        "keys": dict(enumerate(random.sample(range(-(1 << 40), 1 << 40), 2))),
        "values": dict(zip(sorted(seen), random.sample(range(-(1 << 61), 1 << 61), len(seen)), strict=True)),
        "processes": {one.process: 7 * one.process + 3 for one in found},
    }
    before = check_weak_isolation(table(found))
    after = check_weak_isolation(table(shifted(renamed(found, **others), later=123_456_789)))
    assert after.valid == before.valid
    assert after.figures.get("found") == before.figures.get("found")


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, lists=st.booleans(), share=st.floats(0.05, 0.5))
def test_knowing_less_makes_nothing_invalid(seed: int, lists: bool, share: float) -> None:
    random = Random(seed)
    found = loose(seed, lists=lists, count=12)
    for level in LEVELS:
        if check_weak_isolation(table(found), models=[level]).valid is True:
            known = list(_forgetful(found, random, share))
            assert check_weak_isolation(table(known), models=[level]).valid is not False


def _forgetful(found: list[Transaction], random: Random, share: float) -> Iterator[Transaction]:
    """Some outcomes are not known; the process goes on under another number."""
    retired: dict[int, int] = {}
    for one in sorted(found, key=lambda one: one.invoked):
        lost = one.type == "ok" and random.random() < share
        process = one.process + 1000 * retired.get(one.process, 0)
        retired[one.process] = retired.get(one.process, 0) + lost
        yield replace(one, process=process, **({"type": "info", "completed": None} if lost else {}))


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_time_causality_is_unknown_and_what_shows_is_told_all_the_same() -> None:
    late = check_weak_isolation(table(executed(1, kind="rw-register", count=500)), limit_s=0)
    assert late.valid == "unknown"
    assert "time limit of 0 s" in (late.reason or "")
    assert check_weak_isolation(history("p0 0..1 ok w1=1 w2=1", "p1 2..3 ok r1= r2=1"), limit_s=0).valid is False


def test_clocks_take_no_more_memory_than_they_may() -> None:
    known = table(executed(1, kind="rw-register", count=500))
    readings, _ = of_registers(read_transactions(known, "rw-register"))
    order = commit_order(readings, of_read_atomic(readings))
    assert order is not None
    with pytest.raises(TooMuch, match="memory"):
        of_causality(readings, order, late=lambda: False, memory_bytes=100)
    steps = of_causality(readings, order, late=lambda: False, memory_bytes=1 << 20)
    assert commit_order(readings, steps) is not None


def sequential(f: Any, key: Any, value: Any, process: Any, *, each: int) -> pa.Table:
    """Transactions of `each` micro-operations one after another; a value of −1 was not there."""
    count = len(f) // each
    mop = (np.arange(2 * count)[:, None] // 2 * each + np.arange(each)).ravel()
    reads = np.asarray(f)[mop] == "r"
    asked = np.repeat(np.arange(2 * count) % 2 == 0, each)
    known = np.asarray(value)[mop]
    mops = [
        {"f": one, "k": k, "v": None if unknown else v, "vs": None}
        for one, k, v, unknown in zip(
            np.asarray(f)[mop].tolist(),
            np.asarray(key)[mop].tolist(),
            known.tolist(),
            (reads & (asked | (known < 0))),
            strict=True,
        )
    ]
    rows = [
        {
            "index": row, "time": row, "process": int(process[row // 2]), "type": ("invoke", "ok")[row % 2], "f": "txn",
            "mops": mops[row * each : (row + 1) * each],
        }
        for row in range(2 * count)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=HISTORY)


def test_large_transactions_that_read_all_of_each_other_take_no_square_of_their_size() -> None:
    # One writes so many keys, and others read all of them, or all but the last one of which they find in its initial state.
    count = 4000
    keys = np.arange(count)
    f = np.concatenate([np.full(count, "w"), *[np.full(count, "r")] * 4])
    stale = np.where(keys == count - 1, -1, 1)
    clean = sequential(f, np.tile(keys, 5), np.ones(5 * count, int), range(5), each=count)
    torn = sequential(f, np.tile(keys, 5), np.concatenate([np.ones(4 * count, int), stale]), range(5), each=count)
    check_weak_isolation(clean.slice(0, 2))
    began = time.process_time()
    assert [check_weak_isolation(clean, models=[level]).valid for level in LEVELS] == [True] * 3
    assert [check_weak_isolation(torn, models=[level]).valid for level in LEVELS] == [False] * 3
    assert time.process_time() - began < 20


@pytest.mark.parametrize("order", ["one session each", "one session"])
def test_any_number_of_sessions(order: Literal["one session each", "one session"]) -> None:
    # Each writes a register and reads what the one before it wrote to another one.
    count = 5000
    f = np.tile(["r", "w"], count)
    key = np.stack([np.arange(count), np.arange(1, count + 1)], axis=1).ravel()
    value = np.ones(2 * count, int)
    value[0] = -1
    process = np.arange(count) if order == "one session each" else np.zeros(count, int)
    began = time.process_time()
    assert check_weak_isolation(sequential(f, key, value, process, each=2)).valid is True
    assert time.process_time() - began < 20
