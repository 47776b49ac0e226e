"""Twins: a loop that runs as Python finds what the compiled one finds, whatever is wrong with the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from damage import damaged
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from loose_store import loose
from plain_verdicts import plainly
from register_histories import registers
from small_histories import renamed, table

from schemaquake.checkers.elle.list_append import check_list_append
from schemaquake.checkers.elle.models import MODELS
from schemaquake.checkers.elle.rw_register import check_rw_register
from schemaquake.checkers.linearizability.linearizable import Linearizable
from schemaquake.checkers.weak_isolation.isolation import check_weak_isolation
from schemaquake.harness import compiled
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import Records
from schemaquake.results.formats.possible import is_possible

SEEDS = st.integers(0, 1 << 32)
KINDS: Any = st.sampled_from(["list-append", "rw-register"])


def found(check: Callable[[], Any]) -> Any:
    try:
        return plainly(check())
    except HistoryError as error:
        return str(error)


def agreed(check: Callable[[], Any]) -> Any:
    """What both twins find."""
    with compiled.always_plain():
        plain = found(check)
    assert found(check) == plain
    return plain


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, kind=KINDS, share=st.sampled_from([0.0, 0.1, 0.4]), far=st.booleans())
def test_transactions(seed: int, kind: Any, share: float, far: bool) -> None:
    known = damaged(seed, kind, share=share)
    if far:  # values and keys at both ends of what 64 bits hold
        known = renamed(
            known,
            keys={key: key * (1 << 60) - (1 << 61) for key in range(4)},
            values={(key, value): value * 997 - (1 << 61) for key in range(4) for value in range(1000)},
            processes={one.process: one.process for one in known},
        )
    history = table(known)
    if kind == "list-append":
        agreed(lambda: check_list_append(history, models=list(MODELS), limit_s=3600))
    else:
        agreed(
            lambda: check_rw_register(
                history,
                models=list(MODELS),
                sequential_keys=True,
                linearizable_keys=True,
                wfr_keys=True,
                limit_s=3600,
            )
        )


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, lists=st.booleans(), level=st.sampled_from(["read-committed", "read-atomic", "causal"]))
def test_weak_levels(seed: int, lists: bool, level: str) -> None:
    history = table(loose(seed, lists=lists, count=60, processes=6, keys=3))
    agreed(lambda: check_weak_isolation(history, models=[level], limit_s=3600))


@settings(max_examples=examples(40), deadline=None)
@given(seed=SEEDS, values=st.sampled_from([2, 5]), damage=st.sampled_from([0.0, 0.05]))
def test_registers_whose_values_repeat(seed: int, values: int, damage: float) -> None:
    records = Records.of(registers(seed, count=80, values=values, damage=damage))
    agreed(lambda: Linearizable().check(records, limit_s=3600))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3), st.integers(0, 2)), max_size=8))
def test_sequences(events: list[tuple[int, int, int]]) -> None:
    columns = np.array(events, np.int64).reshape(-1, 3).T
    with compiled.always_plain():
        plain = is_possible(*columns)
    assert is_possible(*columns) == plain


# ── which twin runs ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A process in which no loop has run yet."""
    mode = type(compiled._mode)()
    monkeypatch.setattr(compiled, "_mode", mode)
    return mode


@compiled.compiled
def _doubled(numbers: Any) -> Any:
    return numbers * 2


def test_small_arrays_are_for_python_until_there_were_many(fresh: Any) -> None:
    small = np.zeros(1 << 12)
    for _ in range(32):
        _doubled(small)
        assert fresh.plain is None
    _doubled(small)
    assert fresh.plain is False


def test_large_arrays_are_for_the_compiler_and_everything_after_them(fresh: Any) -> None:
    _doubled(np.zeros(1 << 15))
    assert fresh.plain is False
    assert not compiled.is_plain(1)


def test_arrays_in_tuples_count(fresh: Any) -> None:
    assert compiled._size(((np.zeros(3), (np.zeros((2, 2)), 5)), np.zeros(1), "x")) == 8
    assert fresh.plain is None
