"""Quorum versions: the order of the values of one key, as the replicas themselves decide it.

A replica keeps the value with the higher writetime, and of two with the same one the greater value. The writetime of a
value is known once any read has returned it. An unknown writetime is bounded by the clock of its coordinator: the puts
through the same node before and after it, whose writetimes are known, show the offset of that clock from the harness's.
Both offsets must agree, and no clock fault and no restart may lie between, for these may set the clock to any time. A
server never stamps backwards, so a clock that was ahead stays ahead until it catches up or the server is restarted: the
clock of a node that was under a clock fault is not trusted before the node's next start.

For the same reason a put is stamped lower than any later put of the same server process, however its clock jumps (since
2.1; before, each connection counted on by itself). That is a *ceiling*. It shows which puts a higher writetime hides,
and is never used to accuse a quorum.

Source: `schemaquake.harness.model.queries` (timestamps are the coordinator's); CASSANDRA-6106 (timestamps that collide or go back).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.quorum.operations import NEVER, NOTHING, Operations
from schemaquake.checkers.quorum.processes import LEAD_NS, ends_of_processes
from schemaquake.harness.units import US

__all__ = ["Versions", "bound_versions"]

Longs: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_LEAST: Final = np.iinfo(np.int64).min
_MOST: Final = np.iinfo(np.int64).max

_SLACK_US: Final = 2_000
"""The rounding of a stamp (µs): servers stamp whole milliseconds, and count on within one."""
_DRIFT: Final = 1_000
"""The time (ns) in which a clock under correction gains or loses at most 1 µs (0.1 %; NTP slews by half of that)."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Bounds of the rank of each version in the order of its key; the last element of each array is that of `NOTHING`.

    Version a is certainly before version b if `high[a] < low[b]`, and by its ceiling if `under[a] < low[b]`.
    `since[v]` and `until[v]` bound the writetime of version v (µs); `ceiling[v]` is no higher than `until[v]`.
    """

    low: Longs
    high: Longs
    under: Longs
    since: Longs
    until: Longs
    ceiling: Longs


def bound_versions(operations: Operations, notes: Notes) -> Versions:
    """Bound the rank and the writetime of every version."""
    count = len(operations.put)
    since, until = np.full(count, _MOST), np.full(count, _LEAST)
    has_writetime = np.flatnonzero((operations.version != NOTHING) & (operations.writetime >= 0))
    np.minimum.at(since, operations.version[has_writetime], operations.writetime[has_writetime])
    np.maximum.at(until, operations.version[has_writetime], operations.writetime[has_writetime])
    seen = since <= until
    since[~seen], until[~seen] = _LEAST, _MOST
    _bound_by_clocks(operations, notes, seen, since, until)
    exact = since == until
    ceiling = until.copy()
    _bound_by_later_puts(operations, notes, exact, since, ceiling)
    # A point is (writetime, value), values as their bytes are compared; of a version whose writetime is only bounded,
    # the value decides nothing.
    value = operations.value.view(np.uint64)
    most = np.where(exact, value, np.iinfo(np.uint64).max)
    points = [(since, np.where(exact, value, 0)), (until, most), (ceiling, most)]
    _, ranks = np.unique(np.concatenate([np.rec.fromarrays(point) for point in points]), return_inverse=True)
    low, high, under = (np.append(ranks[n * count : (n + 1) * count], NOTHING) for n in range(3))
    return Versions(low=low, high=high, under=under, since=since, until=until, ceiling=ceiling)


def _bound_by_clocks(operations: Operations, notes: Notes, seen: Mask, since: Longs, until: Longs) -> None:
    """Narrow the bounds of versions that no read returned, whose put was acknowledged, by the puts around them."""
    puts = operations.acknowledged_puts
    for node, name in enumerate(operations.nodes):
        for stretch in _stretches(operations, puts[operations.node[puts] == node], _disturbances(notes, name)):
            known = stretch[
                seen[operations.version[stretch]]
                & (since[operations.version[stretch]] == until[operations.version[stretch]])
            ]
            wanted = stretch[~seen[operations.version[stretch]]]
            if len(known) and len(wanted):
                _narrow(operations, known, wanted, since, until)


def _bound_by_later_puts(operations: Operations, notes: Notes, exact: Mask, since: Longs, ceiling: Longs) -> None:
    """Lower the ceiling of every put to the least writetime of the later puts of the same server process."""
    puts = operations.acknowledged_puts
    for node, name in enumerate(operations.nodes):
        for stretch in _stretches(operations, puts[operations.node[puts] == node], ends_of_processes(notes, name)):
            known = stretch[exact[operations.version[stretch]]]
            wanted = stretch[~exact[operations.version[stretch]]]
            begun = known[np.argsort(operations.invoked[known], kind="stable")]
            after = np.searchsorted(operations.invoked[begun], operations.completed[wanted], side="right")
            bounded = after < len(begun)
            least = np.minimum.accumulate(since[operations.version[begun]][::-1])[::-1]
            version = operations.version[wanted[bounded]]
            ceiling[version] = np.minimum(ceiling[version], least[after[bounded]] + _SLACK_US)


def _stretches(operations: Operations, puts: Longs, disturbances: Iterable[tuple[int, int]]) -> Iterator[Longs]:
    """Yield the puts of a node in stretches between disturbances."""
    begins = _LEAST
    for start, end in [*sorted(disturbances), (_MOST, _MOST)]:
        inside = puts[(operations.invoked[puts] > begins) & (operations.completed[puts] < start)]
        if len(inside):
            yield inside
        begins = max(begins, end)


def _disturbances(notes: Notes, node: str) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) in ns of the ends of processes, and of clock faults up to the node's next start."""
    yield from ends_of_processes(notes, node)
    for fault in notes.faults:
        if node in fault.nodes and fault.effect == "clocks":
            starts = (start.time for start in notes.starts if start.node == node and start.time > fault.begins)
            yield fault.begins - LEAD_NS, min(starts, default=NEVER)


def _narrow(operations: Operations, known: Longs, wanted: Longs, since: Longs, until: Longs) -> None:
    """Bound each wanted put by the last known put before it and the first known put after it, if these agree."""
    ended = known[np.argsort(operations.completed[known], kind="stable")]
    begun = known[np.argsort(operations.invoked[known], kind="stable")]
    before = np.searchsorted(operations.completed[ended], operations.invoked[wanted], side="left") - 1
    after = np.searchsorted(operations.invoked[begun], operations.completed[wanted], side="right")
    between = np.flatnonzero((before >= 0) & (after < len(known)))
    stretch, one, other = wanted[between], ended[before[between]], begun[after[between]]
    gap = (operations.completed[other] - operations.invoked[one]) // US // _DRIFT
    # The offset (µs) of the server's clock: a put is stamped no sooner than invoked, and no later than completed.
    least = [since[operations.version[put]] - operations.completed[put] // US for put in (one, other)]
    most = [since[operations.version[put]] - operations.invoked[put] // US for put in (one, other)]
    agree = np.maximum(*least) <= np.minimum(*most) + _SLACK_US + gap
    found = operations.version[stretch]
    low = operations.invoked[stretch] // US + np.minimum(*least) - _SLACK_US - gap
    high = operations.completed[stretch] // US + np.maximum(*most) + _SLACK_US + gap
    since[found[agree]], until[found[agree]] = low[agree], high[agree]
