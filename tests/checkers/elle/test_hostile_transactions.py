"""Hostile histories: a clear answer in bounded time and memory."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

from schemaquake.checkers.elle.list_append import check_list_append
from schemaquake.checkers.elle.rw_register import check_rw_register
from schemaquake.harness.model.records import HISTORY, MOPS

_TYPES = ("invoke", "ok", "fail", "info")


def sequential(f: Any, key: Any, value: Any, lists: dict[int, Any], *, each: int) -> pa.Table:
    """One process' transactions of `each` micro-operations one after another, from flat columns; `lists` by place."""
    count = len(f) // each
    events = np.arange(2 * len(f)) // each
    mop = events // 2 * each + np.arange(2 * len(f)) % each
    sizes = np.zeros(2 * len(f), np.int64)
    places = {int(at): 2 * (at // each) * each + each + at % each for at in lists}
    for at, place in places.items():
        sizes[place] = len(lists[at])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    elements = np.concatenate([np.zeros(0, np.int64), *(np.asarray(lists[at], np.int64) for at in sorted(lists))])
    absent = np.ones(2 * len(f), np.bool_)
    absent[list(places.values())] = False
    parts = [
        pa.array(np.asarray(f)[mop], pa.string()),
        pa.array(np.asarray(key)[mop]),
        pa.array(np.asarray(value)[mop], mask=np.asarray(f)[mop] == "r"),
        pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(elements), mask=pa.array(absent)),
    ]
    struct = pa.StructArray.from_arrays(parts, fields=list(MOPS.value_type))
    rows = 2 * count
    columns = {
        "index": pa.array(np.arange(rows)),
        "time": pa.array(np.arange(rows) * 1000),
        "process": pa.array(np.zeros(rows, np.int32)),
        "type": pa.DictionaryArray.from_arrays(pa.array((np.arange(rows) % 2).astype(np.int32)), _TYPES),
        "f": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), ["txn"]),
        "mops": pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * each), struct).cast(MOPS),
    }
    filled = [columns.get(field.name, pa.nulls(rows, field.type)) for field in HISTORY]
    return pa.Table.from_arrays(filled, schema=HISTORY)


def test_a_million_appends_to_one_key() -> None:
    count = 1_000_000
    f = np.where(np.arange(count) < count - 1, "append", "r")
    lists = {count - 1: np.arange(count - 1)}
    history = sequential(f, np.ones(count, np.int64), np.arange(count), lists, each=1)
    began = time.process_time()
    verdict = check_list_append(history)
    assert verdict.valid is True
    assert time.process_time() - began < 20
    unread = check_list_append(history.slice(0, 2 * count - 2))
    assert unread.valid is True


def test_a_million_writes_of_one_register() -> None:
    count = 1_000_000
    history = sequential(np.full(count, "w"), np.ones(count, np.int64), np.arange(count), {}, each=1)
    assert check_rw_register(history, linearizable_keys=True).valid is True


def test_a_cycle_of_a_hundred_thousand_transactions() -> None:
    # Each reads nothing of a key that the next one appends to, and the last one's next is the first.
    count = 100_000
    n = np.arange(count)
    f = np.tile(["r", "append"], count)
    key = np.stack([n, (n - 1) % count], axis=1).ravel()
    history = sequential(f, key, np.ones(2 * count, np.int64), {}, each=2)
    began = time.process_time()
    verdict = check_list_append(history, models=["serializable"])
    assert verdict.valid is False
    assert time.process_time() - began < 60
    assert [anomaly.type for anomaly in verdict.anomalies] == ["G2-item"]
    cycle = verdict.anomalies[0]
    assert isinstance(cycle.evidence, dict)
    assert cycle.evidence["length"] == count
    assert len(cycle.explanation) < 5000
    assert len(cycle.ops) <= 200


def test_a_transaction_of_a_hundred_thousand_micro_operations() -> None:
    count = 100_000
    f = np.where(np.arange(count) < count - 1, "append", "r")
    lists = {count - 1: np.arange(count - 1)}
    history = sequential(f, np.ones(count, np.int64), np.arange(count), lists, each=count)
    verdict = check_list_append(history)
    assert verdict.valid == "unknown"  # it depends on nobody
    assert verdict.figures["found"] == {}


def test_a_history_cut_short_is_judged_as_far_as_it_goes() -> None:
    count = 1000
    lists = {n: np.arange(0, n, 2) for n in range(1, count, 2)}
    history = sequential(["append", "r"] * (count // 2), np.ones(count, np.int64), np.arange(count), lists, each=1)
    for rows in (1, 2, 3, 500, 501):
        assert check_list_append(history.slice(0, rows)).valid is not False


def test_no_transactions_at_all_in_columns_with_buffers_of_any_length() -> None:
    """As a reader of Parquet may leave them: of no numbers there is a buffer that is no whole number long."""
    of_no_whole_number = pa.py_buffer(b"\0\0\0")
    none = pa.Array.from_buffers(pa.int64(), 0, [None, of_no_whole_number])
    texts = pa.Array.from_buffers(pa.string(), 0, [None, pa.py_buffer(b"\0\0\0\0"), pa.py_buffer(b"")])
    lists = pa.ListArray.from_arrays(pa.array([0], pa.int32()), none)
    parts = pa.StructArray.from_arrays([texts, none, none, lists], fields=list(MOPS.value_type))
    mops = pa.ListArray.from_arrays(pa.array([0, 0, 0], pa.int32()), parts, mask=pa.array([True, True]))
    history = sequential(["r"], [1], [0], {}, each=1).set_column(9, HISTORY.field("mops"), mops)
    for verdict in (check_list_append(history), check_rw_register(history)):
        assert verdict.valid == "unknown"
        assert verdict.judged_nothing
