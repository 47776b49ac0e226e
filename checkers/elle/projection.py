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

from schemaquake.checkers.elle.arrays import Ints, Longs, Mask
from schemaquake.checkers.elle.compiled import compiled
from schemaquake.checkers.elle.transactions import INFO, NEVER, Transactions

__all__ = ["MICRO_OPERATIONS", "NODES", "Projection", "laid_out", "nodes_of", "restored"]

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

    of: Transactions
    id: Longs
    invoked: Longs
    completed: Longs
    at: Ints

    @property
    def nodes(self) -> pa.Table:
        """The transactions, as `NODES`."""
        unknown = self.of.status == INFO
        columns = [
            self.id,
            self.invoked,
            pa.array(self.completed, mask=unknown),
            self.of.status,
            self.of.process,
            self.of.index,
        ]
        return pa.table(columns, schema=NODES)


def nodes_of(of: Transactions, rows: Longs, last: Longs) -> pa.Table:
    """The transactions as `NODES`. `rows` says which row of the whole history each row is, `last` is each one's id."""
    completed = pa.array(rows[np.where(of.completed == NEVER, 0, of.completed)], mask=of.completed == NEVER)
    return pa.table([last, rows[of.invoked], completed, of.status, of.process, of.index], schema=NODES)


def laid_out(of: Transactions, nodes: pa.Table, chosen: Mask) -> pa.Table:
    """The chosen micro-operations of transactions that are `nodes`, as `MICRO_OPERATIONS`."""
    places = np.flatnonzero(chosen)
    owner = np.repeat(np.arange(of.count), np.diff(of.first))[places]
    at = (places - of.first[owner]).astype(np.int32)
    begin, end = of.begin[places], of.end[places]
    like = _beginnings(of.key[places], begin, end, of.elements, len(of.keys))
    alone = like < 0
    offsets, values = _lists(begin, np.where(alone, end, begin), of.elements)
    columns = [nodes[name].combine_chunks().take(pa.array(owner)) for name in NODES.names]
    columns += [
        pa.array(at),
        pa.array(of.f[places]),
        pa.array(of.keys[of.key[places]]),
        pa.array(of.value[places], mask=~of.given[places]),
        pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values)),
        pa.array(nodes["id"].to_numpy()[owner[like]], mask=alone),
        pa.array(at[like], mask=alone),
        pa.array(end - begin, mask=alone),
    ]
    return pa.table(columns, schema=MICRO_OPERATIONS)


@compiled
def _beginnings(key: Ints, begin: Longs, end: Longs, elements: Longs, keys: int) -> Longs:
    """For every list the one of its key that is longest, if the list is a beginning of that; −1 for itself and all others."""
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
def _lists(begin: Longs, end: Longs, elements: Longs) -> tuple[Longs, Longs]:
    """The lists one after another: where each begins, and all elements."""
    offsets = np.zeros(len(begin) + 1, np.int64)
    for n in range(len(begin)):
        offsets[n + 1] = offsets[n] + end[n] - begin[n]
    values = np.empty(offsets[-1], np.int64)
    for n in range(len(begin)):
        for place in range(end[n] - begin[n]):
            values[offsets[n] + place] = elements[begin[n] + place]
    return offsets, values


def restored(rows: pa.Table, *, by_appearance: bool) -> Projection:
    """Transactions of rows of `MICRO_OPERATIONS`, in any order.

    `by_appearance`: keys are numbered as they appear, else in their order, as in the history as a whole.
    """
    order = np.lexsort((_numbers(rows, "at"), _numbers(rows, "id")))
    table = rows.take(pa.array(order)).combine_chunks()
    ids = _numbers(table, "id")
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    firsts = table.select(NODES.names).take(pa.array(starts))
    status = _numbers(firsts, "status").copy()
    invoked = _numbers(firsts, "invoked").copy()
    completed = firsts["completed"].fill_null(-1).to_numpy().copy()
    moments = np.unique(np.concatenate([invoked, completed[completed >= 0]]))
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
    of = Transactions(
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
        time=np.zeros(len(moments), np.int64),
        memory=table["vs"],
    )
    return Projection(of, ids[starts], invoked, completed, _numbers(table, "at"))


def _rows_of(table: pa.Table, ids: Longs, likes: pa.Table) -> Longs:
    """Where the micro-operations stand that others are like. The table is in order of transactions, and of their own."""
    width = int(_numbers(table, "at").max()) + 1
    names = np.unique(ids)
    places = np.searchsorted(names, ids) * width + _numbers(table, "at")
    wanted = np.searchsorted(names, _numbers(likes, "like_id")) * width + _numbers(likes, "like_at")
    found: Longs = np.searchsorted(places, wanted)
    return found


def _numbers(table: pa.Table, name: str) -> Any:
    return table[name].to_numpy()


def _numbered(keys: Longs, *, by_appearance: bool) -> tuple[Ints, Longs]:
    """Every key as a number from 0, and what the numbers stand for."""
    names, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if not by_appearance:
        return inverse.astype(np.int32), names
    order = np.argsort(first, kind="stable")
    number = np.empty(len(names), np.int32)
    number[order] = np.arange(len(names), dtype=np.int32)
    return number[inverse], names[order]
