"""Routes: how one transaction came to know of another one, by the fewest sessions and reads."""

from __future__ import annotations

import numpy as np

from schemaquake.checkers.elle.arrays import Ints
from schemaquake.checkers.elle.graphs import ORDER, WR
from schemaquake.checkers.weak_isolation.readings import Readings
from schemaquake.harness.compiled import compiled

__all__ = ["route"]


def route(readings: Readings, position: Ints, first: int, last: int) -> list[tuple[int, int, int]] | None:
    """Find the steps from `first` to `last`: (who comes before, who after, ORDER or WR); None if there are none.

    `position` is that of each transaction in an order in which all are behind those that they read from and those before
    them in their session.
    """
    following, kind = _back(readings, position, first, last)
    if following[first] < 0:
        return None
    steps = []
    at = first
    while at != last:
        steps.append((at, int(following[at]), int(kind[at])))
        at = int(following[at])
    return steps


@compiled
def _back(readings: Readings, position: Ints, first: int, last: int) -> tuple[Ints, Ints]:
    """Breadth first from the last one back: of everybody who was reached, who comes next on the way, and how."""
    following = np.full(len(readings.before), -1, np.int32)
    kind = np.full(len(readings.before), -1, np.int32)
    queue = np.empty(len(readings.before), np.int32)
    queue[0] = last
    following[last] = last
    head, tail = 0, 1
    while head < tail and following[first] < 0:
        t = queue[head]
        head += 1
        for at in range(readings.read_first[t], readings.read_first[t + 1]):
            w = readings.read_from[at]
            if w >= 0 and following[w] < 0 and position[w] >= position[first]:
                following[w], kind[w] = t, WR
                queue[tail] = w
                tail += 1
        # Everybody before it in its session is one step away; of those before somebody who was reached so, all are known.
        s = readings.before[t]
        while s >= 0 and position[s] >= position[first]:
            if following[s] < 0:
                following[s], kind[s] = t, ORDER
                queue[tail] = s
                tail += 1
            elif kind[s] == ORDER:
                break
            s = readings.before[s]
    return following, kind
