"""Properties: what is serial is valid by every model, names mean nothing, and knowing less never makes valid invalid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from serial_store import executed
from small_histories import Transaction, renamed, shifted, table

from schemaquake.checkers.elle.list_append import check_list_append
from schemaquake.checkers.elle.models import MODELS
from schemaquake.checkers.elle.rw_register import check_rw_register
from schemaquake.checkers.weak_isolation.isolation import check_weak_isolation
from schemaquake.harness import compiled
from schemaquake.harness.history.lean_mops import narrow
from schemaquake.harness.model.records import LEAN_MOPS
from schemaquake.harness.model.verdict import Verdict

SEEDS = st.integers(0, 1 << 32)
KINDS = st.sampled_from(["list-append", "rw-register"])
EVERY_PROMISE = {"sequential_keys": True, "linearizable_keys": True, "wfr_keys": True}


def judged(kind: Any, transactions: list[Transaction], **options: Any) -> Verdict:
    if kind == "list-append":
        return check_list_append(table(transactions), models=options.get("models", ["strict-serializable"]))
    return check_rw_register(table(transactions), **{"models": ["strict-serializable"], **options})


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, kind=KINDS)
def test_what_is_serial_is_valid_by_every_model(seed: int, kind: Any) -> None:
    verdict = judged(kind, executed(seed, kind=kind), models=list(MODELS), **EVERY_PROMISE)
    assert verdict.valid is True
    assert verdict.figures["found"] == {}
    assert verdict.figures["not"] == []


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, kind=KINDS, share=st.floats(0.05, 0.4))
def test_knowing_less_makes_nothing_invalid(seed: int, kind: Any, share: float) -> None:
    random = Random(seed)
    transactions = executed(seed, kind=kind)
    forgotten = [_forgotten(one, 1000 + at) if random.random() < share else one for at, one in enumerate(transactions)]
    assert judged(kind, _retired(forgotten), **EVERY_PROMISE).valid is not False


def _forgotten(one: Transaction, _: int) -> Transaction:
    return replace(one, type="info", completed=None) if one.type == "ok" else one


def _retired(transactions: list[Transaction]) -> list[Transaction]:
    """A process whose transaction was never completed goes on under another number."""
    retired: dict[int, int] = {}
    found = []
    for one in sorted(transactions, key=lambda one: one.invoked):
        number = one.process + 100 * retired.get(one.process, 0)
        found.append(replace(one, process=number))
        if one.type == "info":
            retired[one.process] = retired.get(one.process, 0) + 1
    return found


def disturbed(seed: int, kind: Any) -> list[Transaction]:
    """A serial history in which some reads were replaced by what other reads of the key found."""
    random = Random(seed)
    transactions = executed(seed, kind=kind)
    reads = [(key, value) for one in transactions if one.type == "ok" for f, key, value in one.mops if f == "r"]
    found = []
    for one in transactions:
        mops = []
        for f, key, value in one.mops:
            others = [other for k, other in reads if k == key]
            stale = f == "r" and one.type == "ok" and others and random.random() < 0.15
            mops.append((f, key, random.choice(others) if stale else value))
        found.append(replace(one, mops=tuple(mops)))
    return found


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, kind=KINDS)
def test_names_and_clocks_mean_nothing(seed: int, kind: Any) -> None:
    transactions = disturbed(seed, kind)
    random = Random(seed)
    keys = random.sample(range(-(1 << 40), 1 << 40), 3)
    seen = {(key, one) for t in transactions for _, key, value in t.mops for one in _each(value)}
    others = {
        "keys": dict(enumerate(keys)),
        "values": dict(zip(sorted(seen), random.sample(range(-(1 << 61), 1 << 61), len(seen)), strict=True)),
        "processes": {one.process: 7 * one.process + 3 for one in transactions},
    }
    before = judged(kind, transactions)
    after = judged(kind, shifted(renamed(transactions, **others), later=123_456_789))
    assert after.valid == before.valid
    assert after.figures["found"] == before.figures["found"]
    assert [one.type for one in after.anomalies] == [one.type for one in before.anomalies]


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, threads=st.integers(2, 5), rows=st.integers(1, 40))
def test_loops_that_threads_share_find_the_same(seed: int, threads: int, rows: int) -> None:
    history = table(disturbed(seed, "list-append"))
    mops = history["mops"].combine_chunks()
    chunks = pa.chunked_array([mops.slice(begin, rows) for begin in range(0, len(mops), rows)])
    history = history.set_column(history.schema.get_field_index("mops"), "mops", chunks)
    alone = check_list_append(history)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compiled, "_SHARED_FROM", 1)
        patched.setattr(compiled, "_THREADS", threads)
        shared = check_list_append(history)
    assert _untimed(shared.to_json()) == _untimed(alone.to_json())


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, kind=KINDS, rows=st.integers(1, 40))
def test_lean_micro_operations_are_judged_alike(seed: int, kind: Any, rows: int) -> None:
    history = table(disturbed(seed, kind))
    check = {"list-append": check_list_append, "rw-register": check_rw_register}[kind]
    levels = ["read-committed", "read-atomic", "causal"]
    wide = check(history), check_weak_isolation(history, models=levels)
    # Lists then lie in several places of memory.
    chunks = [narrow(history["mops"].slice(begin, rows)) for begin in range(0, len(history), rows)]
    mops = pa.chunked_array([chunk for part in chunks for chunk in part.chunks])
    lean = history.set_column(history.schema.get_field_index("mops"), "mops", mops)
    assert mops.type == LEAN_MOPS
    for one, other in zip(wide, (check(lean), check_weak_isolation(lean, models=levels)), strict=True):
        assert _untimed(other.to_json()) == _untimed(one.to_json())


def _untimed(document: Any) -> Any:
    """Leave out how long parts of a check took."""
    if isinstance(document, dict):
        return {name: _untimed(value) for name, value in document.items() if not name.endswith("_s")}
    return [_untimed(one) for one in document] if isinstance(document, list) else document


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, kind=KINDS, models=st.lists(st.sampled_from(sorted(MODELS)), min_size=1, max_size=3))
def test_whatever_is_found_is_explained_and_rules_models_out(seed: int, kind: Any, models: list[str]) -> None:
    verdict = judged(kind, disturbed(seed, kind), models=models)
    out = {*verdict.figures["not"], *verdict.figures["also-not"]}
    assert (verdict.valid is False) == bool(set(models) & out)
    assert {one.type for one in verdict.anomalies} == set(verdict.figures["anomaly-types"])
    for one in verdict.anomalies:
        assert one.explanation.startswith("Let ")
        assert "\nThen " in one.explanation
        assert "\n     But " in one.explanation
        assert one.ops


@pytest.mark.parametrize("kind", ["list-append", "rw-register"])
def test_the_time_limit_gives_unknown_with_the_reason(kind: Any) -> None:
    seeds = (seed for seed in range(200) if judged(kind, disturbed(seed, kind), models=["serializable"]).valid is False)
    check: Callable[..., Verdict] = check_list_append if kind == "list-append" else check_rw_register
    verdicts = [check(table(disturbed(seed, kind)), models=["serializable"], limit_s=0) for seed in seeds]
    late = [verdict for verdict in verdicts if verdict.valid == "unknown"]
    assert late
    assert all("time limit" in (verdict.reason or "") for verdict in late)
    assert not any(verdict.valid is True for verdict in verdicts)
