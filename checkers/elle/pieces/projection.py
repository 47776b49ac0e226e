"""Projection: micro-operations one a row, so that those of some keys can be judged where the others are not.

What one key shows (its order, its reads, its dependencies) needs the micro-operations of that key alone, of every
transaction, and of each transaction when it began and ended among the others. So transactions are laid out one
micro-operation a row, the rows are shared out by key, and of each share transactions are made again: the projection of
the whole history on these keys. Places in time are numbers of any size; only their order counts.

A list is written once: of a read that found the beginning of what another one found, only that is said, and how much of
it. A thousand reads of a list of a million elements take no more room than one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schemaquake.checkers.elle.arrays import Ints, Longs, Mask, Numbers
from schemaquake.checkers.elle.transactions import INFO, NEVER, Transactions
from schemaquake.harness.compiled import compiled
from schemaquake.harness.history.distinct import distinct

__all__ = [
    "MICRO_OPERATIONS",
    "NODES",
    "Projection",
    "lay_out_micro_operations",
    "nodes_as_transactions",
    "nodes_of",
    "restore",
]

NODES: Final = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),  # in order of completion
        pa.field("invoked", pa.int64(), nullable=False),  # row of the whole history
        pa.field("completed", pa.int64()),  # row of the whole history; null if its outcome is unknown
        pa.field("status", pa.int8(), nullable=False),
        pa.field("process", pa.int32(), nullable=False),
        pa.field("index", pa.int64(), nullable=False),  # of the invocation
    ]
)
"""Transactions. An id is the row of the last event, or if there is none, the number of rows and the row of the first."""

MICRO_OPERATIONS: Final = pa.schema(
    [
        *NODES,
        pa.field("at", pa.int32(), nullable=False),  # in its transaction
        pa.field("f", pa.int8(), nullable=False),
        pa.field("key", pa.int64(), nullable=False),
        pa.field("value", pa.int64()),
        pa.field("vs", pa.list_(pa.int64()), nullable=False),
        pa.field("like_id", pa.int64()),  # not null: the list is the beginning of what this transaction read
        pa.field("like_at", pa.int32()),  # in this micro-operation
        pa.field("length", pa.int64()),  # so many elements of it
    ]
)


@dataclass(frozen=True, slots=True)
class Projection:
    """Transactions with their micro-operations of some keys. Arrays have an element a transaction, `at` one a micro-operation."""

    transactions: Transactions
    id: Longs
    invoked: Longs
    completed: Longs
    at: Ints

    @property
    def nodes(self) -> pa.Table:
        """The transactions, as `NODES`."""
        unknown = self.transactions.status == INFO
        columns = [
            self.id,
            self.invoked,
            pa.array(self.completed, mask=unknown),
            self.transactions.status,
            self.transactions.process,
            self.transactions.index,
        ]
        return pa.table(columns, schema=NODES)


def nodes_of(transactions: Transactions, rows: Longs, ids: Longs) -> pa.Table:
    """Write the transactions as `NODES`. `rows` are the rows of the whole history in which theirs stand."""
    unknown = transactions.completed == NEVER
    completed = pa.array(rows[np.where(unknown, 0, transactions.completed)], mask=unknown)
    columns = [ids, rows[transactions.invoked], completed, transactions.status, transactions.process]
    return pa.table([*columns, transactions.index], schema=NODES)


def nodes_as_transactions(nodes: pa.Table) -> Transactions:
    """Read transactions without their micro-operations from `NODES`. Places in time count from 0 here."""
    invoked, completed = nodes["invoked"].to_numpy(), nodes["completed"].fill_null(-1).to_numpy()
    moments = distinct(np.concatenate([invoked, completed[completed >= 0]]))
    unknown = nodes["status"].to_numpy() == INFO
    none: Longs = np.zeros(0, np.int64)
    return Transactions(
        status=nodes["status"].to_numpy().copy(),
        process=nodes["process"].to_numpy().copy(),
        invoked=np.searchsorted(moments, invoked).astype(np.int32),
        completed=np.where(unknown, NEVER, np.searchsorted(moments, completed)).astype(np.int32),
        index=nodes["index"].to_numpy().copy(),
        first=np.zeros(len(nodes) + 1, np.int64),
        f=none.astype(np.int8),
        key=none.astype(np.int32),
        value=none,
        given=none.astype(np.bool_),
        begin=none,
        end=none,
        elements=none,
        keys=none,
        time=pa.chunked_array([], pa.int64()),
        memory=pa.chunked_array([], pa.int64()),
    )


def lay_out_micro_operations(transactions: Transactions, nodes: pa.Table, chosen: Mask) -> pa.Table:
    """Write the chosen micro-operations of transactions that are `nodes` one a row, as `MICRO_OPERATIONS`."""
    places = np.flatnonzero(chosen)
    owner = np.repeat(np.arange(transactions.count), np.diff(transactions.first))[places]
    at = (places - transactions.first[owner]).astype(np.int32)
    begin, end = transactions.begin[places], transactions.end[places]
    like = _beginnings(transactions.key[places], begin, end, transactions.elements, len(transactions.keys))
    alone = like < 0
    offsets, values = _lists(begin, np.where(alone, end, begin), transactions.elements)
    columns = [nodes[name].combine_chunks().take(pa.array(owner)) for name in NODES.names]
    columns += [
        pa.array(at),
        pa.array(transactions.f[places]),
        pa.array(transactions.keys[transactions.key[places]]),
        pa.array(transactions.value[places], mask=~transactions.given[places]),
        pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values)),
        pa.array(nodes["id"].to_numpy()[owner[like]], mask=alone),
        pa.array(at[like], mask=alone),
        pa.array(end - begin, mask=alone),
    ]
    return pa.table(columns, schema=MICRO_OPERATIONS)


@compiled
def _beginnings(key: Ints, begin: Numbers, end: Numbers, elements: Numbers, keys: int) -> Longs:
    """Find for every list the longest one of its key, if the list is a beginning of that; −1 for itself and all others. Linear."""
    longest = np.full(keys, -1, np.int64)
    for n in range(len(key)):
        k = key[n]
        if end[n] > begin[n] and (longest[k] < 0 or end[n] - begin[n] > end[longest[k]] - begin[longest[k]]):
            longest[k] = n
    like = np.full(len(key), -1, np.int64)
    for n in range(len(key)):
        other = longest[key[n]]
        if other < 0 or other == n or end[n] == begin[n]:
            continue
        like[n] = other
        for place in range(end[n] - begin[n]):
            if elements[begin[n] + place] != elements[begin[other] + place]:
                like[n] = -1
                break
    return like


@compiled
def _lists(begin: Numbers, end: Numbers, elements: Numbers) -> tuple[Longs, Longs]:
    """Copy the lists one after another: (where each begins, all elements)."""
    offsets = np.zeros(len(begin) + 1, np.int64)
    for n in range(len(begin)):
        offsets[n + 1] = offsets[n] + end[n] - begin[n]
    values = np.empty(offsets[-1], np.int64)
    for n in range(len(begin)):
        for place in range(end[n] - begin[n]):
            values[offsets[n] + place] = elements[begin[n] + place]
    return offsets, values


def restore(rows: pa.Table, *, by_appearance: bool) -> Projection:
    """Make transactions of rows of `MICRO_OPERATIONS`, in any order.

    `by_appearance`: keys are numbered as they appear, else in their order, as in the history as a whole.
    """
    order = _in_order(_numbers(rows, "id"), _numbers(rows, "at"))
    table = rows.take(pa.array(order)).combine_chunks()
    ids = _numbers(table, "id")
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    firsts = table.select(NODES.names).take(pa.array(starts))
    status = _numbers(firsts, "status").copy()
    invoked = _numbers(firsts, "invoked").copy()
    completed = firsts["completed"].fill_null(-1).to_numpy().copy()
    moments = distinct(np.concatenate([invoked, completed[completed >= 0]]))
    key, keys = _numbered(_numbers(table, "key"), by_appearance=by_appearance)
    lists = table["vs"].combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    offsets = lists.offsets.to_numpy().astype(np.int64)
    elements = np.array(lists.values.to_numpy(), np.int64)
    elements.flags.writeable = False  # as those of a history, so that every loop is compiled once
    begin, end = offsets[:-1].copy(), offsets[1:].copy()
    likes = np.flatnonzero(table["like_id"].is_valid().to_numpy())
    if len(likes):
        said = table.select(["like_id", "like_at", "length"]).take(pa.array(likes))
        whose = _rows_of(table, ids, said)
        begin[likes] = begin[whose]
        end[likes] = begin[whose] + _numbers(said, "length")
    value = table["value"]
    transactions = Transactions(
        status=status,
        process=_numbers(firsts, "process").copy(),
        invoked=np.searchsorted(moments, invoked).astype(np.int32),
        completed=np.where(completed < 0, NEVER, np.searchsorted(moments, completed)).astype(np.int32),
        index=_numbers(firsts, "index").copy(),
        first=np.append(starts, len(ids)).astype(np.int64),
        f=_numbers(table, "f").copy(),
        key=key,
        value=value.fill_null(0).to_numpy().copy(),
        given=np.array(value.is_valid().to_numpy(), np.bool_),
        begin=begin,
        end=end,
        elements=elements,
        keys=keys,
        time=pa.chunked_array([np.zeros(len(moments), np.int64)]),
        memory=table["vs"],
    )
    return Projection(transactions, ids[starts], invoked, completed, _numbers(table, "at"))


def _in_order(ids: Longs, at: Ints) -> Longs:
    """Sort micro-operations by transaction and their place in it. Each part is in that order, and runs are merged fast."""
    order: Longs = np.argsort(ids, kind="stable")
    ids, at = ids[order], at[order]
    if ((ids[1:] == ids[:-1]) & (at[1:] < at[:-1])).any():
        order = order[np.lexsort((at, ids))]
    return order


def _rows_of(table: pa.Table, ids: Longs, likes: pa.Table) -> Longs:
    """Find the rows of the micro-operations that others are like. The table is in order of transactions, and of their own."""
    width = int(_numbers(table, "at").max()) + 1
    names = distinct(ids)
    places = np.searchsorted(names, ids) * width + _numbers(table, "at")
    wanted = np.searchsorted(names, _numbers(likes, "like_id")) * width + _numbers(likes, "like_at")
    found: Longs = np.searchsorted(places, wanted)
    return found


def _numbers(table: pa.Table, name: str) -> Any:
    return table[name].to_numpy()


def _numbered(keys: Longs, *, by_appearance: bool) -> tuple[Ints, Longs]:
    """Number the keys from 0: (the number of each, the key of each number)."""
    names, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if not by_appearance:
        return inverse.astype(np.int32), names
    order = np.argsort(first, kind="stable")
    number = np.empty(len(names), np.int32)
    number[order] = np.arange(len(names), dtype=np.int32)
    return number[inverse], names[order]
