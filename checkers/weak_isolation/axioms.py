"""Axioms: what read committed and read atomic say of the order in which transactions commit.

Transaction t3 read key x from t1, and t2 wrote x, too. Then t2 committed before t1 if t3 could see t2:

- read committed: t3 had read something from t2 before it read x from t1,
- read atomic: t3 read something from t2 at any time, or t2 came before t3 in its session.

Causal consistency (`schemaquake.checkers.weak_isolation.causality`) says so of every t2 that happened before t3. What follows from
other steps is left out: for each t2 and x the first read of x that comes after, for each session the last writer of x. Where
t3 found x in its initial state nothing can have committed before: there the axiom is broken at once.
Sources: Biswas and Enea, On the Complexity of Checking Transactional Consistency (OOPSLA 2019); Møldrup and Pavlogiannis,
AWDIT: An Optimal Weak Database Isolation Tester (PLDI 2025), for going over the smaller one of two sets of keys.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from schemaquake.checkers.elle.arrays import Ints
from schemaquake.checkers.weak_isolation.readings import Readings
from schemaquake.harness.compiled import compiled

__all__ = ["EARLIER", "KEY", "LATER", "READER", "by_session", "longer", "of_read_atomic", "of_read_committed", "put"]

EARLIER: Final = 0
LATER: Final = 1
READER: Final = 2
KEY: Final = 3
"""Columns of steps: `EARLIER` committed before `LATER` (or INITIAL: which cannot be), because `READER` saw the one and read
`KEY`, which both wrote, from the other."""


def of_read_committed(readings: Readings) -> Ints:
    """List the steps that read committed asks for, one a row."""
    return _of_reads_in_order(readings)


def of_read_atomic(readings: Readings) -> Ints:
    """List the steps that read atomic asks for, one a row."""
    return np.concatenate([_of_reads(readings), _of_sessions(readings, by_session(readings.before))])


@compiled
def _of_reads_in_order(readings: Readings) -> Ints:  # noqa: C901, PLR0912 - a compiled loop has all its parts in sight
    """Link the source of one read to the source of a later read of the same transaction, whose key the former wrote, too."""
    steps = np.empty((1024, 4), np.int32)
    count = 0
    leads = np.ones(len(readings.read_key), np.bool_)  # whether it is the transaction's first read from its writer
    seen = np.full(len(readings.before), -1, np.int32)
    stamp = np.full(readings.keys, -1, np.int32)
    following = np.empty(readings.keys, np.int32)  # from whom the key is read next
    later = np.empty(readings.keys, np.int32)
    for t in range(len(readings.before)):
        begin, end = readings.read_first[t], readings.read_first[t + 1]
        if end < begin + 2:
            continue
        for at in range(begin, end):
            w = readings.read_from[at]
            if w >= 0:
                leads[at] = seen[w] != t
                seen[w] = t
        keys = 0
        for at in range(end - 1, begin - 1, -1):
            k, w = readings.read_key[at], readings.read_from[at]
            if w >= 0:
                first, last = readings.write_first[w], readings.write_first[w + 1]
                # A key that is read from w again, and then from another one, has the step of that read.
                size = 1 if not leads[at] else min(last - first, keys)
                if count + size > len(steps):
                    steps = longer(steps, count + size)
                if not leads[at]:
                    if stamp[k] == t and following[k] != w:
                        put(steps, count, w, following[k], t, k)
                        count += 1
                elif last - first <= keys:
                    for n in range(first, last):
                        x = readings.write_key[n]
                        if stamp[x] == t and following[x] != w:
                            put(steps, count, w, following[x], t, x)
                            count += 1
                else:
                    for n in range(keys):
                        x = later[n]
                        if following[x] != w and _has(readings.write_key, first, last, x):
                            put(steps, count, w, following[x], t, x)
                            count += 1
            if stamp[k] != t:
                stamp[k] = t
                later[keys] = k
                keys += 1
            following[k] = w
    return steps[:count].copy()


@compiled
def _of_reads(readings: Readings) -> Ints:  # noqa: C901, PLR0912 - as above
    """Link the source of one read to the source of another read of the same transaction, whose key the former wrote, too."""
    steps = np.empty((1024, 4), np.int32)
    count = 0
    seen = np.full(len(readings.before), -1, np.int32)
    stamp = np.full(readings.keys, -1, np.int32)
    source = np.empty(readings.keys, np.int32)
    read = np.empty(readings.keys, np.int32)
    for t in range(len(readings.before)):
        begin, end = readings.read_first[t], readings.read_first[t + 1]
        if end < begin + 2:
            continue
        keys = 0
        for at in range(begin, end):
            if not readings.again[at]:
                k = readings.read_key[at]
                stamp[k] = t
                source[k] = readings.read_from[at]
                read[keys] = k
                keys += 1
        for at in range(begin, end):
            w = readings.read_from[at]
            if w < 0 or seen[w] == t:
                continue
            seen[w] = t
            first, last = readings.write_first[w], readings.write_first[w + 1]
            size = min(last - first, keys)
            if count + size > len(steps):
                steps = longer(steps, count + size)
            if last - first <= keys:
                for n in range(first, last):
                    x = readings.write_key[n]
                    if stamp[x] == t and source[x] != w:
                        put(steps, count, w, source[x], t, x)
                        count += 1
            else:
                for n in range(keys):
                    x = read[n]
                    if source[x] != w and _has(readings.write_key, first, last, x):
                        put(steps, count, w, source[x], t, x)
                        count += 1
    return steps[:count].copy()


@compiled
def _of_sessions(readings: Readings, by_session: Ints) -> Ints:
    """Link the last writer of a key in a session to the writer whose value the same session then read."""
    steps = np.empty((1024, 4), np.int32)
    count = 0
    stamp = np.full(readings.keys, -1, np.int32)
    writer = np.empty(readings.keys, np.int32)
    session = -1
    for t in by_session:
        if readings.before[t] < 0:
            session += 1
        for at in range(readings.read_first[t], readings.read_first[t + 1]):
            k, w = readings.read_key[at], readings.read_from[at]
            if stamp[k] == session and writer[k] != w and not readings.again[at]:
                if count == len(steps):
                    steps = longer(steps, count + 1)
                put(steps, count, writer[k], w, t, k)
                count += 1
        for at in range(readings.write_first[t], readings.write_first[t + 1]):
            stamp[readings.write_key[at]] = session
            writer[readings.write_key[at]] = t
    return steps[:count].copy()


@compiled
def by_session(before: Ints) -> Ints:
    """Sort all transactions by session, each session in its own order."""
    after = np.full(len(before), -1, np.int32)
    for t in range(len(before)):
        if before[t] >= 0:
            after[before[t]] = t
    found = np.empty(len(before), np.int32)
    count = 0
    for root in range(len(before)):
        if before[root] >= 0:
            continue
        t = root
        while t >= 0:
            found[count] = t
            count += 1
            t = int(after[t])
    return found


@compiled
def put(steps: Ints, at: int, earlier: int, later: int, reader: int, key: int) -> None:
    """Set one row."""
    steps[at, 0], steps[at, 1], steps[at, 2], steps[at, 3] = earlier, later, reader, key


@compiled
def longer(steps: Ints, least: int) -> Ints:
    """Copy an array into one with room for more, `least` in all."""
    found = np.empty((max(2 * len(steps), least), 4), np.int32)
    found[: len(steps)] = steps
    return found


@compiled
def _has(keys: Ints, begin: int, end: int, key: int) -> bool:
    """Tell whether the key is among `keys[begin:end]`, which ascend."""
    while begin < end:
        middle = (begin + end) // 2
        if keys[middle] < key:
            begin = middle + 1
        elif keys[middle] > key:
            end = middle
        else:
            return True
    return False
