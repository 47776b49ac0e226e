"""Micro-operations that were laid out are made transactions again, whatever order their parts come in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from damage import damaged
from small_histories import table

from schemaquake.checkers.elle.pieces.projection import MICRO_OPERATIONS, lay_out_micro_operations, nodes_of, restore
from schemaquake.checkers.elle.transactions import Transactions, read_transactions
from schemaquake.harness.history.pairing import ends


def laid_out() -> tuple[Transactions, pa.Table]:
    events = table(damaged(5, "list-append", count=40, share=0.1))
    transactions = read_transactions(events, "list-append")
    invocation, completion = ends(events)
    at = completion[np.searchsorted(invocation, transactions.invoked)]
    ids = np.where(at >= 0, at, len(events) + transactions.invoked)
    nodes = nodes_of(transactions, np.arange(len(events)), ids)
    return transactions, lay_out_micro_operations(transactions, nodes, np.ones(len(transactions.f), np.bool_))


@pytest.mark.parametrize(
    "order", ["as they were laid out", "parts exchanged", "each transaction backwards", "at random"]
)
def test_order_of_rows_does_not_matter(order: str) -> None:
    transactions, rows = laid_out()
    places = np.arange(len(rows))
    if order == "parts exchanged":
        places = np.roll(places, len(rows) // 2)
    elif order == "each transaction backwards":
        places = places[::-1]
    elif order == "at random":
        places = np.random.default_rng(1).permutation(places)
    assert max(np.diff(transactions.first)) > 1
    made = restore(rows.take(pa.array(places)).cast(MICRO_OPERATIONS), by_appearance=False).transactions
    for name in ("status", "process", "index", "first", "f", "value", "given"):
        np.testing.assert_array_equal(getattr(made, name), getattr(transactions, name), name)
    np.testing.assert_array_equal(made.keys[made.key], transactions.keys[transactions.key])
    lists = [made.read(at).tolist() for at in range(len(made.f))]
    assert lists == [transactions.read(at).tolist() for at in range(len(transactions.f))]
