"""Scans of list-append transactions, one pass each: the order of each key's elements, and what is wrong with each read.

An appended element has a slot (`schemaquake.checkers.elle.slots`), an element of a key's longest read has a position. A finding is a
bit in `flags` of the micro-operation in which it shows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from schemaquake.checkers.elle.arrays import Bytes, Flags, Ints, Longs, Mask, Numbers
from schemaquake.checkers.elle.graphs import PASS, RW, WR, WW
from schemaquake.checkers.elle.slots import Slots, Writers, slot_of
from schemaquake.checkers.elle.transactions import APPEND, FAIL, OK, READ, Ops
from schemaquake.harness.compiled import compiled, in_parts

__all__ = [
    "ABORTED",
    "EMPTY",
    "FUTURE",
    "GARBAGE",
    "INCOMPATIBLE",
    "INTERMEDIATE",
    "INTERNAL",
    "LOST",
    "REPEATED",
    "UNKNOWN",
    "Orders",
    "dependencies",
    "inspect_future",
    "inspect_own",
    "inspect_reads",
    "longest_reads",
    "lost_updates",
    "orders_of",
]


INCOMPATIBLE: Final = 1
ABORTED: Final = 2
INTERMEDIATE: Final = 4
GARBAGE: Final = 8
REPEATED: Final = 16
INTERNAL: Final = 32
FUTURE: Final = 64
LOST: Final = 128

EMPTY: Final = -1  # the version of a read that found nothing
UNKNOWN: Final = -2  # of a read whose last element no transaction appended
_OFF: Final = -3  # of one whose last element, in slot s, is not in the key's order: −3 − s
_NO_WRITER: Final = -1
_AGAIN: Final = -2
_NEVER: Final = (1 << 31) - 1


class Orders(NamedTuple):
    """The order of each key's elements: its longest read, at `start[k]:start[k + 1]`.

    `writer` and `slot` are −1 where no transaction appended the element, `writer` is −2 where it stands there again.
    `position` leads from a slot to the first place of its element, or −1. `aborted`, `garbage` and `repeated` are the
    number of elements a read of the key may have without containing one of that sort.
    """

    start: Longs
    writer: Ints
    slot: Ints
    position: Ints
    dirty: Mask
    aborted: Ints
    garbage: Ints
    repeated: Ints


def longest_reads(ops: Ops, keys: int) -> Longs:
    """Find for every key the committed micro-operation that read most elements, the last of several; −1 without any read."""
    (longest, length), *later = in_parts(ops.first, lambda begin, end: _longest_reads(ops, keys, begin, end))
    for found, of_length in later:
        longer = (of_length >= length) & (found >= 0)
        longest[longer], length[longer] = found[longer], of_length[longer]
    return longest


@compiled
def _longest_reads(ops: Ops, keys: int, begin: int, end: int) -> tuple[Longs, Longs]:
    """Find the same among the transactions from `begin` to `end`, and how long these reads are."""
    longest = np.full(keys, -1, np.int64)
    length = np.full(keys, -1, np.int64)
    for t in range(begin, end):
        if ops.status[t] != OK:
            continue
        for at in range(ops.first[t], ops.first[t + 1]):
            if ops.f[at] == READ and ops.end[at] - ops.begin[at] >= length[ops.key[at]]:
                length[ops.key[at]] = ops.end[at] - ops.begin[at]
                longest[ops.key[at]] = at
    return longest, length


def orders_of(ops: Ops, slots: Slots, writers: Writers, longest: Longs) -> Orders:
    """Take each key's order, from its longest read."""
    lengths = np.where(longest < 0, 0, ops.end[longest] - ops.begin[longest])
    start = np.zeros(len(longest) + 1, np.int64)
    np.cumsum(lengths, out=start[1:])
    elements = int(start[-1])
    orders = Orders(
        start=start,
        writer=np.full(elements, _NO_WRITER, np.int32),
        slot=np.full(elements, -1, np.int32),
        position=np.full(len(writers.writer), -1, np.int32),
        dirty=np.zeros(elements, np.bool_),
        aborted=np.full(len(longest), _NEVER, np.int32),
        garbage=np.full(len(longest), _NEVER, np.int32),
        repeated=np.full(len(longest), _NEVER, np.int32),
    )
    in_parts(start, lambda begin, end: _fill_orders(ops, slots, writers, longest, orders, begin, end))
    return orders


@compiled
def _fill_orders(
    ops: Ops, slots: Slots, writers: Writers, longest: Longs, orders: Orders, begin: int, end: int
) -> None:
    """Fill in the orders of the keys from `begin` to `end`."""
    start, position, writer = orders.start, orders.position, orders.writer
    for k in range(begin, end):
        after_aborted = False
        first, read = start[k], ops.begin[longest[k]]
        base, size, low = slots.base[k], slots.size[k], slots.low[k]
        for place in range(start[k + 1] - first):
            at = first + place
            of = slot_of(slots.dense, base, size, low, slots.sorted, ops.elements[read + place])
            if of < 0 or writers.writer[of] < 0:
                orders.garbage[k] = min(orders.garbage[k], place)
                continue
            orders.slot[at] = of
            if position[of] >= 0:
                writer[at] = _AGAIN
                orders.repeated[k] = min(orders.repeated[k], place)
                continue
            position[of] = at
            writer[at] = writers.writer[of]
            status = ops.status[writer[at]]
            if status == FAIL:
                orders.aborted[k] = min(orders.aborted[k], place)
                after_aborted = True
            elif status == OK:
                orders.dirty[at] = after_aborted
                after_aborted = False


def inspect_reads(ops: Ops, slots: Slots, writers: Writers, orders: Orders, longest: Longs, flags: Flags) -> Ints:
    """Find the version of every committed read (a position, or EMPTY …), and flag what is wrong with it, in `flags`."""
    version = np.empty(len(ops.f), np.int32)
    in_parts(
        ops.first,
        lambda begin, end: _inspect_reads(ops, slots, writers, orders, longest, flags, version, begin, end),
    )
    return version


@compiled
def _inspect_reads(
    ops: Ops,
    slots: Slots,
    writers: Writers,
    orders: Orders,
    longest: Longs,
    flags: Flags,
    version: Ints,
    begin: int,
    end: int,
) -> None:
    """Do the same for the transactions from `begin` to `end`."""
    seen = np.full(1, -1, np.int64)
    for t in range(begin, end):
        for at in range(ops.first[t], ops.first[t + 1]):
            version[at] = EMPTY
        if ops.status[t] != OK:
            continue
        for at in range(ops.first[t], ops.first[t + 1]):
            length = ops.end[at] - ops.begin[at]
            if ops.f[at] != READ or length == 0:
                continue
            k = ops.key[at]
            if not _equal(ops.elements, ops.begin[at], ops.begin[longest[k]], length):
                if len(seen) == 1:
                    seen = np.full(len(writers.writer), -1, np.int64)
                of = _inspect_other(ops, slots, writers, k, at, seen, flags)
                version[at] = UNKNOWN if of < 0 else orders.position[of] if orders.position[of] >= 0 else _OFF - of
            else:
                place = orders.start[k] + length - 1
                of = orders.slot[place]
                version[at] = place if orders.writer[place] != _AGAIN else orders.position[of]
                flags[at] |= (
                    ABORTED * (length > orders.aborted[k])
                    | GARBAGE * (length > orders.garbage[k])
                    | REPEATED * (length > orders.repeated[k])
                )
            if of >= 0 and not writers.final[of] and writers.writer[of] != t:
                flags[at] |= INTERMEDIATE


@compiled
def _equal(elements: Numbers, one: int, other: int, length: int) -> bool:
    """Tell whether two lists are equal, which begin there. To its end without a branch: so the machine compares several at once."""
    this, that = elements[one : one + length], elements[other : other + length]
    differing = np.int64(0)
    for n in range(length):
        differing |= this[n] ^ that[n]
    return bool(differing == 0)


@compiled
def _inspect_other(ops: Ops, slots: Slots, writers: Writers, k: int, at: int, seen: Longs, flags: Flags) -> int:
    """Inspect a read that is no beginning of its key's order, element by element; return the slot of the last one."""
    flags[at] |= INCOMPATIBLE
    of = np.int64(-1)
    for place in range(ops.begin[at], ops.end[at]):
        of = np.int64(
            slot_of(slots.dense, slots.base[k], slots.size[k], slots.low[k], slots.sorted, ops.elements[place])
        )
        if of < 0 or writers.writer[of] < 0:
            flags[at] |= GARBAGE
            of = np.int64(-1)
            continue
        if seen[of] == at:
            flags[at] |= REPEATED
        seen[of] = at
        if ops.status[writers.writer[of]] == FAIL:
            flags[at] |= ABORTED
    return of  # type: ignore[return-value] # a whole number of NumPy's


def inspect_own(ops: Ops, keys: int, flags: Flags) -> Mask:
    """INTERNAL where a read contradicts what its own transaction read of the key and appended to it before.

    Returns which transactions appended to a key after they had read it.
    """
    appended = np.zeros(len(ops.status), np.bool_)
    in_parts(ops.first, lambda begin, end: _inspect_own(ops, keys, flags, appended, begin, end))
    return appended


@compiled
def _inspect_own(ops: Ops, keys: int, flags: Flags, appended: Mask, begin: int, end: int) -> None:
    """Do the same for the transactions from `begin` to `end`; note in `appended` which appended to what they had read."""
    recent = np.full(keys, -1, np.int64)  # the last micro-operation of the key so far
    read = np.full(keys, -1, np.int64)  # and the last that read it
    previous = np.empty(_longest(ops), np.int64)  # of each of the transaction, its one before of the same key, or −1
    for t in range(begin, end):
        first, last = ops.first[t], ops.first[t + 1]
        if ops.status[t] != OK or last - first < 2:  # of one micro-operation there is nothing to compare
            continue
        for at in range(first, last):
            k = ops.key[at]
            before = recent[k] if recent[k] >= first else np.int64(-1)
            previous[at - first] = before
            recent[k] = at
            if ops.f[at] == APPEND:
                appended[t] |= read[k] >= first
                continue
            read[k] = at
            if before >= 0 and not _continues(ops, at, previous, first):
                flags[at] |= INTERNAL


@compiled
def _longest(ops: Ops) -> int:
    """Count the micro-operations of the transaction that has most."""
    most = 0
    for t in range(len(ops.status)):
        most = max(most, ops.first[t + 1] - ops.first[t])
    return most


@compiled
def _continues(ops: Ops, at: int, previous: Longs, first: int) -> bool:
    """Tell whether a read ends with its transaction's appends since it last read the key, and begins with what it then read.

    The transaction's micro-operations begin at `first`; `previous` has an element for each.
    """
    place = ops.end[at]
    before = previous[at - first]
    while before >= 0 and ops.f[before] == APPEND:
        place -= 1
        if place < ops.begin[at] or ops.elements[place] != ops.value[before]:
            return False
        before = previous[before - first]
    if before < 0:
        return True
    length = ops.end[before] - ops.begin[before]
    return length == place - ops.begin[at] and _equal(ops.elements, ops.begin[at], ops.begin[before], length)


@compiled
def inspect_future(  # noqa: C901 - a compiled loop has all its parts in sight
    ops: Ops, slots: Slots, writers: Writers, orders: Orders, suspects: Longs, flags: Flags
) -> None:
    """FUTURE where a read of a transaction of `suspects` shows what the same transaction appends only later."""
    keys = len(orders.aborted)
    appended = np.full(keys, -1, np.int32)
    least = np.full(keys, _NEVER, np.int64)  # the first place of an element that the transaction appends later
    for t in suspects:
        for at in range(ops.first[t + 1] - 1, ops.first[t] - 1, -1):
            k = ops.key[at]
            if ops.f[at] == APPEND:
                if appended[k] != t:
                    appended[k] = t
                    least[k] = _NEVER
                slot = slot_of(slots.dense, slots.base[k], slots.size[k], slots.low[k], slots.sorted, ops.value[at])
                if orders.position[slot] >= 0:
                    least[k] = min(least[k], orders.position[slot] - orders.start[k])
            elif appended[k] != t:
                continue
            elif not flags[at] & INCOMPATIBLE:
                if ops.end[at] - ops.begin[at] > least[k]:
                    flags[at] |= FUTURE
            else:
                for place in range(ops.begin[at], ops.end[at]):
                    slot = slot_of(
                        slots.dense, slots.base[k], slots.size[k], slots.low[k], slots.sorted, ops.elements[place]
                    )
                    if slot >= 0 and writers.writer[slot] == t and writers.at[slot] > at:
                        flags[at] |= FUTURE
                        break


@compiled
def lost_updates(ops: Ops, orders: Orders, version: Ints, suspects: Longs, flags: Flags) -> Longs:
    """LOST at the first read of a key, by a transaction that then appended to it, of a version that another one did so with.

    `suspects` are the transactions that appended to a key after they had read it. Returns for every such
    micro-operation another one of that version, and nothing at all if there is none.
    """
    keys = len(orders.aborted)
    positions = orders.start[keys]
    of_version = np.full(keys + positions + len(orders.position), -1, np.int32)
    partner = np.zeros(0, np.int64)
    touched = np.full(keys, -1, np.int32)
    read = np.full(keys, -1, np.int64)
    updated = np.full(keys, -1, np.int32)
    for t in suspects:
        for at in range(ops.first[t], ops.first[t + 1]):
            k = ops.key[at]
            if ops.f[at] == READ:
                if touched[k] != t:
                    touched[k] = t
                    read[k] = at
            elif touched[k] == t and updated[k] != t:
                updated[k] = t
                v = version[read[k]]
                if v == UNKNOWN:
                    continue
                place = k if v == EMPTY else keys + v if v >= 0 else keys + positions + _OFF - v
                other = of_version[place]
                if other < 0:
                    of_version[place] = read[k]
                elif not (flags[read[k]] | flags[other]) & (INCOMPATIBLE | REPEATED) or _same(ops, read[k], other):
                    if not len(partner):
                        partner = np.full(len(ops.f), -1, np.int64)
                    flags[read[k]] |= LOST
                    flags[other] |= LOST
                    partner[read[k]] = other
                    partner[other] = read[k]
    return partner


@compiled
def _same(ops: Ops, one: int, other: int) -> bool:
    """Tell whether two reads found the same list."""
    length = ops.end[one] - ops.begin[one]
    return length == ops.end[other] - ops.begin[other] and _equal(
        ops.elements, ops.begin[one], ops.begin[other], length
    )


# ── dependencies ─────────────────────────────────────────────────────────────────────────────────────────────────────


def dependencies(
    ops: Ops, slots: Slots, writers: Writers, orders: Orders, version: Ints
) -> tuple[int, list[tuple[Ints, Ints, Bytes]]]:
    """Build the dependencies: (number of nodes, transactions and then junctions; stretches of edges: source, target and kind of each).

    Appends that no read shows come after the last element of their key's order; two or more get a junction.
    """
    nodes, unseen, after = _tails(ops, slots, writers, orders)
    edges = in_parts(
        orders.start,
        lambda begin, end: _between_writers(ops, slots, writers, orders, unseen, after, begin, end),
    )
    edges += in_parts(ops.first, lambda begin, end: _around_reads(ops, writers, orders, version, after, begin, end))
    return nodes, edges


@compiled
def _tails(ops: Ops, slots: Slots, writers: Writers, orders: Orders) -> tuple[int, Mask, Ints]:
    """Find which appends no read shows, and for each key their one transaction, or their junction, or −1; and count the nodes."""
    unseen = np.zeros(len(orders.position), np.bool_)
    for slot in range(len(unseen)):
        w = writers.writer[slot]
        unseen[slot] = w >= 0 and orders.position[slot] < 0 and ops.status[w] != FAIL
    keys = len(orders.aborted)
    nodes = len(ops.status)
    after = np.full(keys, -1, np.int32)
    for k in range(keys):
        tail = 0
        for slot in range(slots.base[k], slots.base[k] + slots.size[k]):
            if unseen[slot]:
                tail += 1
                after[k] = writers.writer[slot]
        if tail > 1:
            after[k] = nodes
            nodes += 1
    return nodes, unseen, after


@compiled
def _between_writers(  # noqa: C901 - as above
    ops: Ops, slots: Slots, writers: Writers, orders: Orders, unseen: Mask, after: Ints, begin: int, end: int
) -> tuple[Ints, Ints, Bytes]:
    """Build ww of the keys from `begin` to `end`: from each element's writer to the next one's. What an aborted transaction left behind orders nothing."""
    most = end - begin + orders.start[end] - orders.start[begin]
    for k in range(begin, end):
        most += slots.size[k]
    source = np.empty(most, np.int32)
    target = np.empty(most, np.int32)
    kind = np.empty(most, np.int8)
    edges = 0
    for k in range(begin, end):
        before = np.int32(-1)
        for place in range(orders.start[k], orders.start[k + 1]):
            w = orders.writer[place]
            if w == _AGAIN:
                continue
            if w < 0 or ops.status[w] == FAIL:
                before = np.int32(-1)
                continue
            if before >= 0 and before != w:
                source[edges], target[edges], kind[edges] = before, w, WW
                edges += 1
            before = w
        if before >= 0 and after[k] >= 0 and after[k] != before:
            source[edges], target[edges], kind[edges] = before, after[k], WW
            edges += 1
        if after[k] >= len(ops.status):
            for slot in range(slots.base[k], slots.base[k] + slots.size[k]):
                if unseen[slot]:
                    source[edges], target[edges], kind[edges] = after[k], writers.writer[slot], PASS
                    edges += 1
    return source[:edges], target[:edges], kind[:edges]


@compiled
def _around_reads(  # noqa: C901 - as above
    ops: Ops, writers: Writers, orders: Orders, version: Ints, after: Ints, begin: int, end: int
) -> tuple[Ints, Ints, Bytes]:
    """Build wr, from whose element was read last, and rw, to whose element comes next, of the transactions from `begin` to `end`.

    Once for equal reads in a row.
    """
    most = 2 * (ops.first[end] - ops.first[begin])
    source = np.empty(most, np.int32)
    target = np.empty(most, np.int32)
    kind = np.empty(most, np.int8)
    edges = 0
    touched = np.full(len(after), -1, np.int32)
    last_version = np.full(len(after), UNKNOWN, np.int64)
    for t in range(begin, end):
        if ops.status[t] != OK:
            continue
        for at in range(ops.first[t], ops.first[t + 1]):
            if ops.f[at] != READ:
                continue
            k = ops.key[at]
            v = version[at]
            if v == UNKNOWN or (touched[k] == t and last_version[k] == v):
                continue
            touched[k] = t
            last_version[k] = v
            w = np.int32(_NO_WRITER) if v == EMPTY else orders.writer[v] if v >= 0 else writers.writer[_OFF - v]
            if w == t:
                continue  # its own append: what comes after it is ordered by ww
            if w >= 0 and ops.status[w] != FAIL:
                source[edges], target[edges], kind[edges] = w, t, WR
                edges += 1
            if v < UNKNOWN:
                continue
            place = v + 1 if v >= 0 else orders.start[k]
            while place < orders.start[k + 1] and orders.writer[place] == _AGAIN:
                place += 1
            w = orders.writer[place] if place < orders.start[k + 1] else after[k]
            if w >= 0 and w != t and (w >= len(ops.status) or ops.status[w] != FAIL):
                source[edges], target[edges], kind[edges] = t, w, RW
                edges += 1
    return source[:edges], target[:edges], kind[:edges]
