"""Checks in pieces need no engine: in memory, too, the verdict on the pieces is the one on the whole."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from damage import damaged
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_verdicts import plainly
from register_histories import registers
from small_histories import history, table

from schemaquake.checkers.elle.list_append import ListAppend
from schemaquake.checkers.elle.rw_register import RwRegister
from schemaquake.checkers.exchange.exchange import Exchange, Piecewise, Rows
from schemaquake.checkers.exchange.memory import MemoryExchange
from schemaquake.checkers.linearizability.linearizable import Linearizable
from schemaquake.checkers.values.bank import Bank
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import Records

SEEDS = st.integers(0, 1 << 32)
ORDERS = st.sampled_from(["strict-serializable", "strong-session-serializable", "serializable"])


def same(checker: Any, events: pa.Table, *, rows: int, shares: int) -> Any:
    """Judge in pieces and as a whole; return the verdict, if it is one."""
    exchange = MemoryExchange(history=events, cuts=range(rows, len(events), rows), shares=shares)
    whole = plainly(checker.check(Records.of(events), limit_s=60))
    assert plainly(checker.check_pieces(exchange, limit_s=60)) == whole
    return whole


@settings(max_examples=examples(20), deadline=None)
@given(
    seed=SEEDS, model=ORDERS, rows=st.integers(2, 30), shares=st.integers(1, 5), share=st.sampled_from([0, 0.1, 0.5])
)
def test_lists(seed: int, model: str, rows: int, shares: int, share: float) -> None:
    same(ListAppend(models=(model,)), table(damaged(seed, "list-append", share=share)), rows=rows, shares=shares)


@settings(max_examples=examples(20), deadline=None)
@given(
    seed=SEEDS,
    model=ORDERS,
    rows=st.integers(2, 30),
    shares=st.integers(1, 5),
    promised=st.booleans(),
    wfr=st.booleans(),
)
def test_registers(seed: int, model: str, rows: int, shares: int, promised: bool, wfr: bool) -> None:
    events = table(damaged(seed, "rw-register", share=0.1))
    same(RwRegister(models=(model,), linearizable_keys=promised, wfr_keys=wfr), events, rows=rows, shares=shares)


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS, rows=st.integers(3, 100), shares=st.integers(1, 5))
def test_keys_of_registers(seed: int, rows: int, shares: int) -> None:
    same(Linearizable(), registers(seed, keys=5, count=60, values=4, damage=0.05), rows=rows, shares=shares)


def test_one_range_and_one_share_are_enough() -> None:
    events = table(damaged(11, "list-append", count=150, keys=5, share=0.1))
    verdict = same(ListAppend(), events, rows=len(events), shares=1)
    assert verdict["valid"] is False
    assert verdict["anomalies"]


def test_a_share_that_does_not_fit_is_refused() -> None:
    events = history("p0 1..2 ok a1=1", "p1 3..4 ok r1=[1]")
    exchange = MemoryExchange(history=events, memory_bytes=1)
    with pytest.raises(HistoryError, match="cannot be judged in pieces"):
        ListAppend().check_pieces(exchange, limit_s=60)


def test_rows_are_read_from_the_part_they_were_shared_out_to() -> None:
    rows = MemoryExchange(history=history("p0 1..2 ok a1=1"))
    given_rows = pa.table({"n": [0, 1, 2, 3]})
    parts = rows.share("numbers", given_rows, np.array([1, 0, 3, 1]), 3)
    assert [rows.read([part], given_rows.schema)["n"].to_pylist() for part in parts] == [[1], [0, 3], []]
    assert parts[2] is None


@pytest.mark.parametrize("checker", [ListAppend(), RwRegister(), Linearizable()], ids=lambda checker: checker.name)
def test_who_can_judge_pieces_declares_it(checker: Any) -> None:
    assert isinstance(checker, Piecewise)
    assert pickle.loads(pickle.dumps(checker)) == checker  # noqa: S301 - ours


def test_who_does_not_declare_it_is_judged_whole() -> None:
    assert not isinstance(Bank(), Piecewise)


def test_a_step_sees_rows_and_its_message() -> None:
    exchange: Exchange = MemoryExchange(history=history("p0 1..2 ok a1=1", "p1 3..4 ok r1=[1]"), cuts=(1,))

    def count(rows: Rows, number: int) -> int:
        return len(rows.events(number))

    assert exchange.each(count, [0, 1]) == [1, 3]
    assert exchange.each_within(60, count, [1, 0]) == [3, 1]
