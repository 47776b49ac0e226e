"""Every way to decide a register gives the verdict of trying every order; and what must not matter does not."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from schemaquake.checkers.linearizability import frontier, guarded, zones
from schemaquake.checkers.linearizability.register_calls import CAS, FAILED_CAS, NEVER, READ, WRITE, Calls, Values
from schemaquake.checkers.linearizability.search import Limits, Outcome
from schemaquake.harness.compiled import always_plain


@st.composite
def some_calls(draw: st.DrawFn, *, unique: bool, most: int = 7) -> Calls:
    """Calls on one register, most of them as a register would answer, with intervals around the moment of effect."""
    kinds = draw(st.lists(st.sampled_from([READ, READ, WRITE, CAS, FAILED_CAS][: 4 if unique else 5]), max_size=most))
    rows = []
    state, fresh = 0, 10
    for moment, kind in enumerate(kinds):
        begins = 4 * moment - draw(st.integers(0, 12))
        ends = 4 * moment + draw(st.integers(0, 12))
        value = fresh if unique and kind in {WRITE, CAS} else draw(st.integers(0, 2))
        fresh += 1
        old = state if draw(st.booleans()) else draw(st.integers(0, 2))
        if kind == READ and draw(st.integers(0, 5)):
            value = state
        if kind == CAS and old != state and draw(st.integers(0, 5)):
            old = state
        happened = kind == WRITE or (kind == CAS and old == state)
        state = value if happened else state
        certain = kind in {READ, FAILED_CAS} or bool(draw(st.integers(0, 3)))
        rows.append((kind, old, value, begins, ends if certain else NEVER, certain))
    return calls_of(rows)


@st.composite
def crowded(draw: st.DrawFn) -> Calls:
    """Calls on one register of few values, most of them open at once and many of unknown outcome."""
    values = draw(st.integers(1, 3))
    rows, state = [], 0
    for moment, kind in enumerate(
        draw(st.lists(st.sampled_from([READ, READ, WRITE, CAS, CAS, FAILED_CAS]), max_size=14))
    ):
        value, old = draw(st.integers(0, values)), state if draw(st.booleans()) else draw(st.integers(0, values))
        value = state if kind == READ and draw(st.integers(0, 3)) else value
        state = value if kind == WRITE or (kind == CAS and old == state) else state
        certain = kind in {READ, FAILED_CAS} or draw(st.booleans())
        begins, ends = 4 * moment - draw(st.integers(0, 40)), 4 * moment + draw(st.integers(0, 40))
        rows.append((kind, old, value, begins, ends if certain else NEVER, certain))
    return calls_of(rows)


def calls_of(rows: list[tuple[int, int, int, int, int, bool]]) -> Calls:
    """Make calls on one register of (kind, old, value, begins, ends, required)."""
    rows.sort(key=lambda row: row[3])
    columns = list(zip(*rows, strict=True)) or [()] * 6
    return Calls(
        index=np.arange(len(rows)),
        key=np.zeros(len(rows), np.int32),
        kind=np.array(columns[0], np.int8),
        old=np.array(columns[1], np.int64),
        value=np.array(columns[2], np.int64),
        begins=np.array(columns[3], np.int64),
        ends=np.array(columns[4], np.int64),
        required=np.array(columns[5], bool),
        keys=(None,),
        values=Values(),
    )


def every_order(calls: Calls, initial: int = 0) -> bool:
    """Whether any order works, by trying all of them."""
    required = [at for at in range(len(calls)) if calls.required[at]]

    def follows(done: frozenset[int], state: int) -> bool:
        if all(at in done for at in required):
            return True
        return any(
            following(calls, at, state) is not None and follows(done | {at}, following(calls, at, state))
            for at in range(len(calls))
            if at not in done and not any(calls.ends[o] < calls.begins[at] for o in required if o not in done)
        )

    return follows(frozenset(), initial)


def following(calls: Calls, at: int, state: int) -> int | None:
    old, value = int(calls.old[at]), int(calls.value[at])
    match int(calls.kind[at]):
        case 0:
            return state if state == value else None
        case 1:
            return value
        case 2:
            return value if state == old else None
        case _:
            return state if state != old else None


def limits() -> Limits:
    return Limits(deadline=time.monotonic() + 60)


def compiled(calls: Calls) -> object:
    found = [outcome.linearizable for _, outcome in guarded.decide_compiled(calls, 0, limits())]
    return found[0] if found else True


@settings(max_examples=examples(300))
@given(some_calls(unique=True))
def test_zones_decide_as_every_order_does(calls):
    assert zones.with_unique_writes(calls, 0).all()
    assert (not zones.refuted(calls, 0)) is every_order(calls)


@settings(max_examples=examples(200), deadline=None)
@given(some_calls(unique=False))
def test_both_searches_decide_as_every_order_does(calls):
    expected = every_order(calls)
    outcome = guarded.decide_one(calls, 0, 0, limits())
    assert outcome.linearizable is expected
    assert compiled(calls) is expected


@settings(max_examples=examples(100), deadline=None)
@given(some_calls(unique=True, most=12))
def test_zones_and_searches_agree_on_longer_histories(calls):
    expected = not zones.refuted(calls, 0)
    assert guarded.decide_one(calls, 0, 0, limits()).linearizable is expected
    assert compiled(calls) is expected


@settings(max_examples=examples(100))
@given(some_calls(unique=False))
def test_an_order_that_is_given_is_one(calls):
    outcome = guarded.decide_one(calls, 0, 0, limits())
    assert_is_an_order(calls, outcome)
    if outcome.linearizable is True:
        assert all(at in outcome.order for at in range(len(calls)) if calls.required[at])


def assert_is_an_order(calls: Calls, outcome: Outcome) -> None:
    """The calls of the outcome's order work one after another, none before one that had its answer when it began."""
    state: int | None = 0
    for at in outcome.order:
        assert state is not None
        state = following(calls, at, state)
    assert state is not None
    assert not outcome.states or state in outcome.states
    place = {at: position for position, at in enumerate(outcome.order)}
    if outcome.stuck is not None:
        answered = np.flatnonzero(calls.ends < calls.ends[outcome.stuck])
        assert set(answered.tolist()) <= place.keys()
    if not outcome.lenient:
        assert len(place) == len(outcome.order)
        for one, first in place.items():
            assert all(first < second for other, second in place.items() if calls.ends[one] < calls.begins[other])


@settings(max_examples=examples(150), deadline=None)
@given(crowded(), st.sampled_from([(1, 2), (2, 3), (None, None)]))
def test_many_at_once_and_many_unknown_are_decided_as_by_the_general_search(calls, kept):
    """However few configurations are kept at first, and whichever calls may take effect again on the way."""
    expected = guarded.decide_one(calls, 0, 0, limits()).linearizable
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontier, "_ALIKE_FIRST", kept[0])
        patch.setattr(frontier, "_ALIKE_THEN", kept[1])
        found = [outcome for _, outcome in guarded.decide_compiled(calls, 0, limits())]
        with always_plain():
            assert [outcome for _, outcome in guarded.decide_compiled(calls, 0, limits())] == found
    assert [outcome.linearizable for outcome in found] == ([expected] if found else [])
    assert found or expected is True
    for outcome in found:
        assert_is_an_order(calls, outcome)


def test_a_write_that_has_a_place_already_can_still_be_seen_after_its_answer():
    """The first write of 1 might stand before the write of 2, but the read after both needs it."""
    calls = calls_of(
        [
            (WRITE, 0, 1, 0, 10, True),
            (WRITE, 0, 2, 1, 5, True),
            (READ, 0, 2, 2, 6, True),
            (READ, 0, 1, 12, 14, True),
            (WRITE, 0, 1, 20, 21, True),
        ]
    )
    assert compiled(calls) is every_order(calls) is True
    late = calls_of(
        [(WRITE, 0, 1, 0, 3, True), (WRITE, 0, 2, 4, 5, True), (READ, 0, 1, 12, 14, True), (WRITE, 0, 1, 20, 21, True)]
    )
    assert compiled(late) is every_order(late) is False


def test_writes_can_stand_before_a_write_of_the_value_that_is_there_anyway():
    """From 0: write 2, write 2, write 0, then the swap of 0 for 1, which the read finds."""
    calls = calls_of(
        [
            (WRITE, 0, 2, -4, 13, True),
            (CAS, 0, 1, -2, 4, True),
            (WRITE, 0, 0, 0, 19, True),
            (WRITE, 0, 2, 1, 21, True),
            (FAILED_CAS, 0, 0, 8, 21, True),
            (READ, 0, 1, 18, 23, True),
        ]
    )
    assert compiled(calls) is every_order(calls) is True


@pytest.mark.parametrize("planted", [False, True])
def test_forty_at_once_and_sixty_of_unknown_outcome_are_decided(planted):
    """A register of five values under load. Planted: near the end a read returns what was never written."""
    random = Random(8)
    rows, state = [], 0
    for moment in range(600):
        kind = random.choice([READ, READ, WRITE, CAS])
        value, old = random.randrange(5), state
        happens = random.random() < 0.95 or kind == READ
        certain = kind == READ or (happens and random.random() < 0.8)
        value = state if kind == READ else value
        ends = 4 * moment + random.randint(0, 80) if certain else NEVER
        rows.append((kind, old, value, 4 * moment - random.randint(0, 80), ends, certain))
        state = value if happens else state
    if planted:
        at = max(at for at, row in enumerate(rows[:550]) if row[0] == READ)
        rows[at] = (READ, 0, 9, *rows[at][3:])
    calls = calls_of(rows)
    assert np.count_nonzero(~calls.required) > 60
    ((_, outcome),) = guarded.decide_compiled(calls, 0, limits())
    assert outcome.linearizable is not planted
    if planted:
        assert calls.value[outcome.stuck] == 9
        assert_is_an_order(calls, outcome)


@pytest.mark.parametrize("unique", [True, False])
@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_neither_the_clock_nor_the_names_of_values_matter(unique, data):
    calls = data.draw(some_calls(unique=unique))
    names = dict(zip(range(30), data.draw(st.permutations(range(100, 130))), strict=True))
    renamed = replace(
        calls,
        begins=calls.begins * 7 + 1000,
        ends=np.where(calls.ends == NEVER, NEVER, np.minimum(calls.ends, 1 << 40) * 7 + 1000),
        value=np.array([names[int(value)] for value in calls.value], np.int64),
        old=np.array([names[int(old)] for old in calls.old], np.int64),
    )
    before, after = (decided(some, initial) for some, initial in ((calls, 0), (renamed, names[0])))
    assert before is after


def decided(calls: Calls, initial: int) -> bool:
    if zones.with_unique_writes(calls, initial).all():
        return not zones.refuted(calls, initial)
    outcome = guarded.decide_one(calls, 0, initial, limits())
    assert outcome.linearizable != "unknown"
    return outcome.linearizable


@pytest.mark.parametrize("unique", [True, False])
@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_an_answer_that_is_forgotten_never_makes_a_valid_history_invalid(unique, data):
    calls = data.draw(some_calls(unique=unique).filter(len))
    at = data.draw(st.integers(0, len(calls) - 1))
    if int(calls.kind[at]) in {READ, FAILED_CAS}:
        kept = np.ones(len(calls), bool)
        kept[at] = False
        forgotten = calls.select(kept)
    else:
        forgotten = replace(
            calls,
            required=np.where(np.arange(len(calls)) == at, False, calls.required),
            ends=np.where(np.arange(len(calls)) == at, NEVER, calls.ends),
        )
    if decided(calls, 0):
        assert decided(forgotten, 0)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(some_calls(unique=False), min_size=2, max_size=5))
def test_keys_together_are_decided_as_each_apart(of_keys):
    joined = Calls(
        **{
            name: np.concatenate([getattr(calls, name) for calls in of_keys])
            for name in ("index", "kind", "old", "value", "begins", "ends", "required")
        },
        key=np.concatenate([np.full(len(calls), key, np.int32) for key, calls in enumerate(of_keys)]),
        keys=tuple(map(str, range(len(of_keys)))),
        values=Values(),
    )
    expected = {key: decided(calls, 0) for key, calls in enumerate(of_keys) if len(calls)}
    # A key whose every call is idle is left out of the search: it has an order.
    found = {key: outcome.linearizable for key, outcome in guarded.decide_compiled(joined, 0, limits())}
    assert all(found.get(key, True) is valid for key, valid in expected.items())


@pytest.mark.parametrize(
    "named",
    [
        pytest.param(lambda key, value: value, id="every key has the same values"),
        pytest.param(lambda key, value: np.where(value == 0, 0, value * 3 + key), id="no value is of two keys"),
        pytest.param(lambda key, value: value << 40, id="far apart"),
        pytest.param(lambda key, value: value + (key << 40) * (value != 0), id="close together in each key only"),
    ],
)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_zones_of_several_keys_are_those_of_each_key_however_its_values_are_found(named, data):
    parts = [data.draw(some_calls(unique=True)) for _ in range(3)]
    key = np.repeat(np.arange(3, dtype=np.int32), [len(part) for part in parts])

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])

    calls = replace(
        parts[0],
        **{name: joined(name) for name in ("index", "kind", "begins", "ends", "required")},
        key=key,
        keys=("a", "b", "c"),
        old=named(key.astype(np.int64), joined("old")),
        value=named(key.astype(np.int64), joined("value")),
    )
    calls = calls.select(np.argsort(calls.begins, kind="stable"))
    assert zones.with_unique_writes(calls, 0).all()
    assert {found.key for found in zones.refuted(calls, 0)} == {
        number for number, part in enumerate(parts) if zones.refuted(part, 0)
    }


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=20), st.sampled_from([1, 5, 1 << 40]))
def test_a_value_that_is_written_twice_to_one_key_is_seen_however_far_apart_values_are(writes, factor):
    key, value = (np.array(column, np.int64) for column in (zip(*writes, strict=True) if writes else ((), ())))
    numbers = np.arange(len(writes))
    calls = Calls(
        index=numbers,
        key=key.astype(np.int32),
        kind=np.full(len(writes), WRITE, np.int8),
        old=numbers * 0,
        value=value * factor,
        begins=numbers,
        ends=numbers,
        required=numbers >= 0,
        keys=("a", "b", "c"),
        values=Values(),
    )
    expected = [all(writes.count((k, v)) <= 1 for v in range(5)) for k in range(3)]
    assert zones.with_unique_writes(calls, -7).tolist() == expected
