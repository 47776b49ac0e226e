"""Commit order: transactions in an order in which they may have committed, if there is one.

A transaction commits after the one before it in its session, after those from which it read, and after those that steps put
before it.
"""

from __future__ import annotations

import numpy as np

from schemaquake.checkers.elle.arrays import Ints, Longs
from schemaquake.checkers.weak_isolation.axioms import EARLIER, LATER
from schemaquake.checkers.weak_isolation.readings import Readings
from schemaquake.harness.compiled import compiled

__all__ = ["commit_order"]


def commit_order(readings: Readings, steps: Ints) -> Ints | None:
    """Order all transactions that take part, as close to their numbers as may be; None if they come before themselves."""
    start, earlier = _earlier(steps, EARLIER, LATER, len(readings.before))
    order = _depth_first(readings, start, earlier)
    return order if len(order) == np.count_nonzero(readings.takes_part) else None


@compiled
def _earlier(steps: Ints, one: int, other: int, count: int) -> tuple[Longs, Ints]:
    """List the direct predecessors of each transaction by the steps."""
    start = np.zeros(count + 2, np.int64)
    for n in range(len(steps)):
        if steps[n, other] >= 0:
            start[steps[n, other] + 2] += 1
    for t in range(2, count + 2):
        start[t] += start[t - 1]
    earlier = np.empty(start[count + 1], np.int32)
    for n in range(len(steps)):
        if steps[n, other] >= 0:
            place = start[steps[n, other] + 1]
            earlier[place] = steps[n, one]
            start[steps[n, other] + 1] = place + 1
    return start[: count + 1].copy(), earlier


@compiled
def _depth_first(readings: Readings, start: Longs, earlier: Ints) -> Ints:
    """Order every transaction behind all that come before it; cut short where one comes before itself."""
    count = len(readings.before)
    order = np.empty(count, np.int32)
    done = 0
    state = np.zeros(count, np.int8)  # 1: on the path, 2: placed
    looked = np.zeros(count, np.int32)
    path = np.empty(count + 1, np.int32)
    for root in range(count):
        if state[root] == 2 or not readings.takes_part[root]:
            continue
        depth = 0
        path[0] = root
        state[root] = 1
        while depth >= 0:
            t = path[depth]
            reads = readings.read_first[t + 1] - readings.read_first[t]
            most = 1 + reads + start[t + 1] - start[t]
            at = looked[t]
            descended = False
            while at < most:
                if at == 0:
                    other = readings.before[t]
                elif at <= reads:
                    other = readings.read_from[readings.read_first[t] + at - 1]
                else:
                    other = earlier[start[t] + at - 1 - reads]
                at += 1
                if other < 0 or state[other] == 2:
                    continue
                if state[other] == 1:
                    return order[:done].copy()
                looked[t] = at
                state[other] = 1
                depth += 1
                path[depth] = other
                descended = True
                break
            if not descended:
                state[t] = 2
                order[done] = t
                done += 1
                depth -= 1
    return order[:done].copy()
