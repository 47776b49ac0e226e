"""Readings: which transaction read which key from which other one, and what each wrote.

That is all that the axioms of the weak levels speak of. A transaction takes part if it committed, or if its outcome is
unknown and a committed one read from it: then it did commit. Reads of unknown outcome, reads of a transaction's own writes
and reads of uncommitted values say nothing about others; what is wrong with them shows in themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from schemaquake.checkers.elle import append_order
from schemaquake.checkers.elle.append_scans import EMPTY
from schemaquake.checkers.elle.arrays import Bytes, Ints, Longs, Mask
from schemaquake.checkers.elle.slots import Slots, Writers, slot_of, slots_and_writers
from schemaquake.checkers.elle.transactions import FAIL, OK, READ, WRITE, Ops, Transactions
from schemaquake.harness.compiled import compiled

__all__ = ["INITIAL", "Found", "Readings", "of_lists", "of_registers", "sessions_of"]

INITIAL: Final = -1
"""From whom the state before all transactions is read."""

_OWN: Final = -2  # what a transaction reads of itself, or of no transaction that counts
_INTERNAL: Final = 1
_REPEATED: Final = 2
_FUTURE: Final = 4
_GARBAGE: Final = 8
_ABORTED: Final = 16
_INTERMEDIATE: Final = 32


class Readings(NamedTuple):
    """Reads and writes of n transactions, as columns that compiled loops read.

    The reads of transaction t from others are `read_first[t]:read_first[t + 1]`, in its own order; `again` marks those of
    a key that it had read before. The keys it wrote are `write_first[t]:write_first[t + 1]`, ascending and each once.
    `before[t]` is the transaction that came before t in its session, −1 if there is none.
    """

    takes_part: Mask
    before: Ints
    read_first: Longs
    read_key: Ints
    read_from: Ints
    again: Mask
    write_first: Longs
    write_key: Ints
    keys: int


@dataclass(frozen=True, slots=True)
class Found:
    """Anomalies that show in single operations → the micro-operations in which they do.

    `repeated` are reads that contradict an earlier read of the same transaction, and no write of its own: read committed
    allows them.
    """

    places: Mapping[str, Longs]
    repeated: Longs


def of_registers(transactions: Transactions) -> tuple[Readings, Found]:
    """Extract the readings of transactions on registers. Raises HistoryError if a value was written twice."""
    slots, writers = slots_and_writers(transactions, WRITE)
    source, flags = _register_sources(transactions.ops, slots, writers, len(transactions.keys))
    return _readings(transactions, source, shown=np.zeros(0, np.int32)), _found(flags)


def of_lists(transactions: Transactions) -> tuple[Readings, Found, append_order.Appends, Ints]:
    """Extract the readings of transactions on lists: a read is from who appended its last element. Raises HistoryError.

    The last part are the steps (as of `schemaquake.checkers.weak_isolation.axioms`, without reader) that the order of elements tells.
    """
    appends = append_order.analyse(transactions)
    source, flags = _list_sources(transactions.ops, appends.version, appends.orders.writer, len(transactions.keys))
    own = (flags & _INTERNAL) != 0
    internal = appends.found.get("internal", np.zeros(0, np.int64))
    places = {**appends.found, "internal": internal[own[internal]]}
    places = {name: at for name, at in places.items() if len(at) and name != "lost-update"}
    found = Found(places, internal[~own[internal]])
    slots, writers, orders = appends.slots, appends.writers, appends.orders
    readings = _readings(transactions, source, shown=orders.writer[orders.writer >= 0])
    known = _list_steps(slots.base, slots.size, writers.writer, orders.start, orders.writer, orders.position, readings)
    return readings, found, appends, known


def sessions_of(transactions: Transactions) -> tuple[Ints, int]:
    """Number the session of every transaction, its process, from 0: (the numbers, how many there are)."""
    most = int(transactions.process.max(initial=-1)) + 1
    if most <= 16 * transactions.count + 1024:
        return transactions.process, most
    names, numbers = np.unique(transactions.process, return_inverse=True)
    return numbers.astype(np.int32), len(names)


def _found(flags: Bytes) -> Found:
    names = {
        "internal": _INTERNAL,
        "future-read": _FUTURE,
        "garbage-read": _GARBAGE,
        "G1a": _ABORTED,
        "G1b": _INTERMEDIATE,
    }
    if not flags.any():
        return Found({}, np.zeros(0, np.int64))
    places = {name: np.flatnonzero(flags & flag) for name, flag in names.items()}
    return Found({name: at for name, at in places.items() if len(at)}, np.flatnonzero(flags & _REPEATED))


def _readings(transactions: Transactions, source: Ints, *, shown: Ints) -> Readings:
    """`shown` are transactions of which something was read, though not last."""
    sessions, count = sessions_of(transactions)
    takes_part = transactions.status == OK
    takes_part[shown] = transactions.status[shown] != FAIL
    before = _gathered(transactions.ops, source, sessions, count, takes_part)
    read_first = np.zeros(transactions.count + 1, np.int64)
    write_first = np.zeros(transactions.count + 1, np.int64)
    reads = int(np.count_nonzero(source != _OWN))
    read_key = np.empty(reads, np.int32)
    read_from = np.empty(reads, np.int32)
    again = np.empty(reads, np.bool_)
    write_key = np.empty(int(np.count_nonzero(transactions.f != READ)), np.int32)
    kept = _fill(
        transactions.ops,
        source,
        takes_part,
        len(transactions.keys),
        read_first,
        read_key,
        read_from,
        again,
        write_first,
        write_key,
    )
    return Readings(
        takes_part,
        before,
        read_first,
        read_key,
        read_from,
        again,
        write_first,
        write_key[:kept],
        len(transactions.keys),
    )


@compiled
def _register_sources(  # noqa: C901, PLR0912 - a compiled loop has all its parts in sight
    ops: Ops, slots: Slots, writers: Writers, keys: int
) -> tuple[Ints, Bytes]:
    """Find the transaction that each micro-operation of a committed transaction read from, or −2; and what is wrong with it."""
    source = np.full(len(ops.f), _OWN, np.int32)
    flags = np.zeros(len(ops.f), np.int8)
    touched = np.full(keys, -1, np.int32)
    wrote = np.full(keys, -1, np.int32)
    recent = np.full(keys, -1, np.int64)
    for t in range(len(ops.status)):
        if ops.status[t] != OK:
            continue
        for at in range(ops.first[t], ops.first[t + 1]):
            k = ops.key[at]
            own = wrote[k] == t
            known = touched[k] == t
            last = recent[k]
            touched[k] = t
            recent[k] = at
            if ops.f[at] != READ:
                wrote[k] = t
                continue
            if known and (ops.given[at] != ops.given[last] or (ops.given[at] and ops.value[at] != ops.value[last])):
                flags[at] |= _INTERNAL if own else _REPEATED
            if not ops.given[at]:
                if not own:
                    source[at] = INITIAL
                continue
            slot = slot_of(slots.dense, slots.base[k], slots.size[k], slots.low[k], slots.sorted, ops.value[at])
            w = writers.writer[slot]
            if w < 0:
                flags[at] |= _GARBAGE
            elif ops.status[w] == FAIL:
                flags[at] |= _ABORTED
            elif w == t:
                if not own or writers.at[slot] > at:
                    flags[at] |= _FUTURE
            else:
                if not writers.final[slot]:
                    flags[at] |= _INTERMEDIATE
                if not own:
                    source[at] = w
    return source, flags


@compiled
def _list_sources(ops: Ops, version: Ints, writer: Ints, keys: int) -> tuple[Ints, Bytes]:
    """Find sources as for registers; the one flag says that the transaction had appended to the key before it read it."""
    source = np.full(len(ops.f), _OWN, np.int32)
    flags = np.zeros(len(ops.f), np.int8)
    wrote = np.full(keys, -1, np.int32)
    for t in range(len(ops.status)):
        if ops.status[t] != OK:
            continue
        for at in range(ops.first[t], ops.first[t + 1]):
            k = ops.key[at]
            if ops.f[at] != READ:
                wrote[k] = t
            elif wrote[k] == t:
                flags[at] |= _INTERNAL
            elif version[at] == EMPTY:
                source[at] = INITIAL
            elif version[at] >= 0:
                w = writer[version[at]]
                if w >= 0 and w != t and ops.status[w] != FAIL:
                    source[at] = w
    return source, flags


@compiled
def _list_steps(
    base: Longs, size: Longs, writers: Ints, start: Longs, order: Ints, position: Ints, readings: Readings
) -> Ints:
    """Link the writer of an element to the writer of the next one, and the last one to writers whose element no read shows."""
    steps = np.full((len(order) + len(writers), 4), -1, np.int32)
    count = 0
    for k in range(len(base)):
        before = np.int32(-1)
        for at in range(start[k], start[k + 1]):
            w = order[at]
            if w < -1:
                continue  # it stands there again
            # Values of aborted transactions, or without a writer, order nothing.
            if w >= 0 and not readings.takes_part[w]:
                w = np.int32(-1)
            if w >= 0 and before >= 0 and w != before:
                steps[count, 0], steps[count, 1], steps[count, 3] = before, w, k
                count += 1
            before = w
        for slot in range(base[k], base[k] + size[k]):
            w = writers[slot]
            if before >= 0 and w >= 0 and w != before and position[slot] < 0 and readings.takes_part[w]:
                steps[count, 0], steps[count, 1], steps[count, 3] = before, w, k
                count += 1
    return steps[:count].copy()


@compiled
def _gathered(ops: Ops, source: Ints, session: Ints, sessions: int, takes_part: Mask) -> Ints:
    """List the predecessors of each transaction in its session; `takes_part` is completed by the sources of reads."""
    for at in range(len(source)):
        if source[at] >= 0:
            takes_part[source[at]] = True
    before = np.full(len(ops.status), -1, np.int32)
    last = np.full(sessions, -1, np.int32)
    # Numbers follow completion, so those of one session are in its order.
    for t in range(len(ops.status)):
        if takes_part[t]:
            before[t] = last[session[t]]
            last[session[t]] = t
    return before


@compiled
def _fill(
    ops: Ops,
    source: Ints,
    takes_part: Mask,
    keys: int,
    read_first: Longs,
    read_key: Ints,
    read_from: Ints,
    again: Mask,
    write_first: Longs,
    write_key: Ints,
) -> int:
    """Fill the columns; return how many writes there are."""
    read = np.full(keys, -1, np.int32)
    wrote = np.full(keys, -1, np.int32)
    to = 0
    kept = 0
    for t in range(len(ops.status)):
        read_first[t], write_first[t] = to, kept
        if not takes_part[t]:
            continue
        for at in range(ops.first[t], ops.first[t + 1]):
            k = ops.key[at]
            if ops.f[at] == READ:
                if source[at] != _OWN:
                    read_key[to] = k
                    read_from[to] = source[at]
                    again[to] = read[k] == t
                    read[k] = t
                    to += 1
            elif wrote[k] != t:
                wrote[k] = t
                write_key[kept] = k
                kept += 1
        if kept > write_first[t] + 1:
            write_key[write_first[t] : kept].sort()
    read_first[len(ops.status)], write_first[len(ops.status)] = to, kept
    return kept
