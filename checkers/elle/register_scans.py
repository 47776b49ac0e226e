"""Scans of rw-register transactions: what each did to each key, and what is wrong with its reads.

A version is a number: the slot of a value (`schemaquake.checkers.elle.slots`), or, behind all slots, the initial state of a key.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from schemaquake.checkers.elle.arrays import Bytes, Flags, Ints, Longs, Mask
from schemaquake.checkers.elle.graphs import PASS, RW, WR, WW
from schemaquake.checkers.elle.slots import Slots, Writers, slot_of
from schemaquake.checkers.elle.transactions import FAIL, INFO, OK, READ, WRITE, Ops
from schemaquake.harness.compiled import compiled

__all__ = [
    "ABORTED",
    "FUTURE",
    "GARBAGE",
    "INTERMEDIATE",
    "INTERNAL",
    "LOST",
    "Touches",
    "Zones",
    "dependencies",
    "inspect",
    "junctions",
    "ordered_keys",
    "process_steps",
    "real_time_steps",
    "touches_of",
    "zone_circles",
    "zones_of",
]


ABORTED: Final = 1
INTERMEDIATE: Final = 2
GARBAGE: Final = 4
INTERNAL: Final = 8
FUTURE: Final = 16
LOST: Final = 32
_NEVER: Final = (1 << 31) - 1


class Touches(NamedTuple):
    """One row for every key that a committed transaction touched, by transaction.

    `read` is the version it found, if it read the key before writing it, `write` the one it left; else −1.
    """

    transaction: Ints
    key: Ints
    read: Longs
    write: Longs


@compiled
def touches_of(ops: Ops, slots: Slots, initial: int, keys: int) -> tuple[Touches, Longs]:
    """List every touch, and the version of every committed micro-operation. `initial` is the number of slots."""
    count = len(ops.f)
    transaction = np.empty(count, np.int32)
    of_key = np.empty(count, np.int32)
    read = np.empty(count, np.int64)
    write = np.empty(count, np.int64)
    version = np.full(count, -1, np.int64)
    row = np.full(keys, -1, np.int64)
    rows = 0
    for t in range(len(ops.status)):
        if ops.status[t] != OK:
            continue
        begin = rows
        for at in range(ops.first[t], ops.first[t + 1]):
            k = ops.key[at]
            v = (
                slot_of(slots.dense, slots.base[k], slots.size[k], slots.low[k], slots.sorted, ops.value[at])
                if ops.given[at]
                else initial + k
            )
            version[at] = v
            place = row[k]
            if place < begin:
                place = rows
                row[k] = rows
                rows += 1
                transaction[place] = t
                of_key[place] = k
                read[place] = v if ops.f[at] == READ else -1
                write[place] = -1
            if ops.f[at] == WRITE:
                write[place] = v
    return Touches(transaction[:rows].copy(), of_key[:rows].copy(), read[:rows].copy(), write[:rows].copy()), version


@compiled
def inspect(  # noqa: C901, PLR0912 - a compiled loop has all its parts in sight
    ops: Ops, writers: Writers, version: Longs, initial: int, keys: int, flags: Flags
) -> Longs:
    """Flag what is wrong with the reads of each transaction, in `flags`; for a lost update, return the other transaction (or nothing)."""
    touched = np.full(keys, -1, np.int32)
    state = np.full(keys, -1, np.int64)
    began = np.full(keys, -1, np.int32)
    begin = np.full(keys, -1, np.int64)  # the transaction's first read of the key
    updated = np.full(keys, -1, np.int32)
    of_version = np.full(initial + keys, -1, np.int64)
    partner = np.zeros(0, np.int64)
    for t in range(len(ops.status)):
        if ops.status[t] != OK:
            continue
        for at in range(ops.first[t], ops.first[t + 1]):
            k = ops.key[at]
            v = version[at]
            known = touched[k] == t
            touched[k] = t
            if ops.f[at] == READ:
                if began[k] != t:
                    began[k] = t
                    begin[k] = at
                if known and state[k] != v:
                    flags[at] |= INTERNAL
                if v < initial:
                    w = writers.writer[v]
                    if w < 0:
                        flags[at] |= GARBAGE
                    elif w == t:
                        flags[at] |= FUTURE * (writers.at[v] > at)
                    else:
                        flags[at] |= ABORTED * (ops.status[w] == FAIL) | INTERMEDIATE * (not writers.final[v])
            elif began[k] == t and updated[k] != t:
                updated[k] = t
                read = begin[k]
                other = of_version[version[read]]
                if other < 0:
                    of_version[version[read]] = read
                else:
                    if not len(partner):
                        partner = np.full(len(ops.f), -1, np.int64)
                    flags[read] |= LOST
                    flags[other] |= LOST
                    partner[read] = other
                    partner[other] = read
            state[k] = v
    return partner


# ── what orders versions ─────────────────────────────────────────────────────────────────────────────────────────────


@compiled
def process_steps(touches: Touches, process: Ints, processes: int, keys: int) -> tuple[Longs, Longs]:
    """Link what a process left of a key to what it found there next, if that is another version: (from, to)."""
    recent = np.full(processes * keys, -1, np.int64)
    one = np.empty(len(touches.key), np.int64)
    other = np.empty(len(touches.key), np.int64)
    steps = 0
    for row in range(len(touches.key)):
        read, write = touches.read[row], touches.write[row]
        place = process[touches.transaction[row]] * np.int64(keys) + touches.key[row]
        found = read if read >= 0 else write
        if recent[place] >= 0 and recent[place] != found:
            one[steps], other[steps] = recent[place], found
            steps += 1
        recent[place] = write if write >= 0 else read
    return one[:steps].copy(), other[:steps].copy()


class Zones(NamedTuple):
    """Moments when versions are known and asked for, in rows of the history, and each key's such moments in order of time.

    `known` is the least completion of those that left the version, `asked` the greatest invocation of those that found
    it: who only reads leaves what he found, who only writes finds what he leaves. Without any: never, and −1. The
    initial state is known from the beginning. The moments of key k are `start[k]:start[k + 1]`: there `version` becomes
    known (`leaves` is 1), or is asked for last (0).
    """

    known: Ints
    asked: Ints
    start: Longs
    version: Longs
    leaves: Bytes


@compiled
def zones_of(  # noqa: C901 - as above
    touches: Touches, invoked: Ints, completed: Ints, by_invocation: Longs, initial: int, keys: int
) -> Zones:
    """Compute the zones of every version. `by_invocation` are the transactions in order of their invocation."""
    rows = len(touches.key)
    known = np.full(initial + keys, _NEVER, np.int32)
    known[initial:] = -1
    asked = np.full(initial + keys, -1, np.int32)
    first = np.zeros(len(invoked) + 2, np.int64)
    for row in range(rows):
        t = touches.transaction[row]
        read, write = touches.read[row], touches.write[row]
        first[t + 1] += 1
        found, left = read if read >= 0 else write, write if write >= 0 else read
        known[left] = min(known[left], completed[t])
        asked[found] = max(asked[found], invoked[t])
    for t in range(len(invoked)):
        first[t + 1] += first[t]
    # Both kinds of moments come in order of time; each is put where its key has them, and then they are merged.
    of_key = np.empty(rows, np.int32)
    moments = np.empty(rows, np.int64)
    count = 0
    for row in range(rows):
        left = touches.write[row] if touches.write[row] >= 0 else touches.read[row]
        if known[left] == completed[touches.transaction[row]]:
            of_key[count], moments[count] = touches.key[row], left
            count += 1
    exits, of_exit = _by_key(of_key[:count], moments[:count], keys)
    count = 0
    for t in by_invocation:
        for row in range(first[t], first[t + 1]):
            found = touches.read[row] if touches.read[row] >= 0 else touches.write[row]
            if asked[found] == invoked[t]:
                of_key[count], moments[count] = touches.key[row], found
                count += 1
    entries, of_entry = _by_key(of_key[:count], moments[:count], keys)
    start = exits + entries
    version = np.empty(start[keys], np.int64)
    leaves = np.empty(start[keys], np.int8)
    x, e = 0, 0
    for k in range(keys):
        for m in range(start[k], start[k + 1]):
            out = x < exits[k + 1] and (e == entries[k + 1] or known[of_exit[x]] < asked[of_entry[e]])
            leaves[m] = out
            if out:
                version[m] = of_exit[x]
                x += 1
            else:
                version[m] = of_entry[e]
                e += 1
    return Zones(known, asked, start, version, leaves)


@compiled
def _by_key(key: Ints, values: Longs, keys: int) -> tuple[Longs, Longs]:
    """Sort the values key by key, in their order, and where each key's begin."""
    start = np.zeros(keys + 2, np.int64)
    for n in range(len(key)):
        start[key[n] + 2] += 1
    for k in range(2, keys + 2):
        start[k] += start[k - 1]
    grouped = np.empty(len(key), np.int64)
    for n in range(len(key)):
        grouped[start[key[n] + 1]] = values[n]
        start[key[n] + 1] += 1
    return start[: keys + 1].copy(), grouped


@compiled
def zone_circles(zones: Zones, initial: int) -> tuple[Longs, Longs]:
    """Versions that are before each other in real time, one pair a key at most: (one, the other).

    There are such if two zones from known to asked overlap, or one from asked to known lies within one of those.
    """
    keys = len(zones.start) - 1
    one = np.empty(keys, np.int64)
    other = np.empty(keys, np.int64)
    within = np.full(len(zones.known), -1, np.int64)  # the zone in which the version was asked for
    circles = 0
    for k in range(keys):
        begin = initial + k
        inside = np.int64(begin) if zones.asked[begin] >= 0 else np.int64(-1)
        for m in range(zones.start[k], zones.start[k + 1]):
            v = zones.version[m]
            if zones.leaves[m]:
                if inside == begin:
                    found = inside  # whatever is known comes after the initial state, asked for or not
                elif zones.known[v] < zones.asked[v]:
                    found = inside
                    inside = v
                else:
                    found = within[v] if within[v] == inside else np.int64(-1)
            else:
                found = np.int64(-1)
                if inside == v:
                    inside = np.int64(-1)
                else:
                    within[v] = inside
            if found >= 0:
                one[circles], other[circles] = found, v
                circles += 1
                break
    return one[:circles].copy(), other[:circles].copy()


@compiled
def real_time_steps(zones: Zones, apart: bool) -> tuple[Longs, Longs]:
    """Build the real-time order of each key's versions, as steps along a chain of moments: (from, to).

    Moments are nodes behind the versions. v₁ is before v₂ if it was known before v₂ was asked for. A version that was
    known before it was asked for would be before itself; `apart`: not by these steps, as long as no two versions are
    before each other. The initial state, which is before everything, is left aside.
    """
    base = len(zones.known)
    one = np.empty(3 * len(zones.version), np.int64)
    other = np.empty(3 * len(zones.version), np.int64)
    steps = 0
    for k in range(len(zones.start) - 1):
        inside = np.int64(-1)  # the version known and not yet asked for last; apart, there is one at a time
        last = zones.start[k + 1] - 1
        for m in range(zones.start[k], last + 1):
            v = zones.version[m]
            if m < last:
                one[steps], other[steps] = base + m, base + m + 1
                steps += 1
            if zones.leaves[m]:
                if apart and zones.known[v] < zones.asked[v]:
                    inside = v
                else:
                    one[steps], other[steps] = v, base + m
                    steps += 1
                continue
            one[steps], other[steps] = base + m, v
            steps += 1
            if apart and inside == v:
                inside = np.int64(-1)
                if m < last:
                    one[steps], other[steps] = v, base + m + 1
                    steps += 1
            elif apart and inside >= 0:
                one[steps], other[steps] = inside, v
                steps += 1
    return one[:steps].copy(), other[:steps].copy()


@compiled
def ordered_keys(zones: Zones) -> Mask:
    """Tell for every key whether real time orders all versions that were committed or found, the initial state aside."""
    ordered = np.ones(len(zones.start) - 1, np.bool_)
    for k in range(len(ordered)):
        before = np.int64(-1)
        endless = np.int64(-1)  # the one version that no transaction left for certain, if it comes last
        for m in range(zones.start[k], zones.start[k + 1]):
            v = zones.version[m]
            if not zones.leaves[m]:
                if zones.known[v] == _NEVER:
                    ordered[k] &= endless < 0
                    endless = v
            else:
                if before >= 0 and zones.known[before] >= zones.asked[v]:
                    ordered[k] = False
                before = v
        if endless >= 0 and before >= 0 and zones.known[before] >= zones.asked[endless]:
            ordered[k] = False
    return ordered


# ── dependencies ─────────────────────────────────────────────────────────────────────────────────────────────────────


@compiled
def dependencies(  # noqa: C901, PLR0912 - as above
    ops: Ops,
    slots: Slots,
    writers: Writers,
    touches: Touches,
    versions: int,
    nodes: int,
    one: Longs,
    other: Longs,
) -> tuple[int, Ints, Ints, Bytes]:
    """Build the dependencies: (number of nodes, transactions and then junctions; source, target and kind of every edge).

    `one` → `other` are the steps of the version order, between `versions` and further `nodes` of it. The initial state
    of a key comes before everything that was or may have been written to it. A version's junction is behind its writer
    and its readers, and before the writers of the next ones.
    """
    initial = len(writers.writer)
    junction, count = junctions(len(ops.status), initial, versions, nodes, touches, one)
    left_by = np.full(nodes, -1, np.int32)  # unless it was aborted, or wrote the key again
    for v in range(initial):
        if writers.writer[v] >= 0 and writers.final[v] and ops.status[writers.writer[v]] != FAIL:
            left_by[v] = writers.writer[v]
    most = 2 * len(touches.key) + 2 * initial + len(one)
    source = np.empty(most, np.int32)
    target = np.empty(most, np.int32)
    kind = np.empty(most, np.int8)
    accessed = np.zeros(versions, np.bool_)
    edges = 0
    for row in range(len(touches.key)):
        t = touches.transaction[row]
        read = touches.read[row]
        if read >= 0:
            accessed[read] = True
            if left_by[read] >= 0 and left_by[read] != t:
                source[edges], target[edges], kind[edges] = left_by[read], t, WR
                edges += 1
            if junction[read] >= 0:
                source[edges], target[edges], kind[edges] = t, junction[read], RW
                edges += 1
        if touches.write[row] >= 0:
            accessed[touches.write[row]] = True
    for k in range(versions - initial):
        start = junction[initial + k]
        for v in range(slots.base[k], slots.base[k] + slots.size[k]):
            w = left_by[v]
            if w < 0:
                continue
            if junction[v] >= 0:
                source[edges], target[edges], kind[edges] = w, junction[v], WW
                edges += 1
            # A version without readers came after the initial state, too, if the transaction took place at all.
            if start >= 0 and (accessed[v] or ops.status[w] == INFO):
                source[edges], target[edges], kind[edges] = start, w, PASS
                edges += 1
    for step in range(len(one)):
        into = left_by[other[step]] if left_by[other[step]] >= 0 else junction[other[step]]
        if into >= 0:
            source[edges], target[edges], kind[edges] = junction[one[step]], into, PASS
            edges += 1
    return count, source[:edges].copy(), target[:edges].copy(), kind[:edges].copy()


@compiled
def junctions(
    transactions: int, initial: int, versions: int, nodes: int, touches: Touches, one: Longs
) -> tuple[Ints, int]:
    """Number the junction of every version that comes before another one (else −1): (junctions, the number of nodes then)."""
    ordered = np.zeros(nodes, np.bool_)
    ordered[versions:] = True
    for step in range(len(one)):
        ordered[one[step]] = True
    for row in range(len(touches.key)):
        if touches.read[row] >= initial:
            ordered[touches.read[row]] = True
    junction = np.full(nodes, -1, np.int32)
    count = transactions
    for node in range(nodes):
        if ordered[node]:
            junction[node] = count
            count += 1
    return junction, count
