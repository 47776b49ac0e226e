"""Quorum versions: which of two values of one key is the later one, as the replicas themselves decide it.

A replica keeps the value with the higher writetime, and of two with the same one the greater value. The writetime of a
value is known once any read has returned it. One that nobody ever saw is bounded by the clock of its coordinator: the
puts through the same node before and after it, whose writetimes are known, tell how far that clock was from ours. They
must agree, and no fault of clocks and no restart may lie between, for then the clock may have been anything. A server
never stamps backwards, so one whose clock was ahead is ahead until it catches up or is restarted: a node that was under
a clock fault is not believed again before its next start.

For the same reason a put is stamped lower than any put that the same server process was asked for after it, however its
clock jumps (since 2.1; before, each connection counted on by itself). That is a *ceiling*, and what a put that is hidden
by a higher writetime is known by; nobody is accused of a broken quorum by it.

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

__all__ = ["Versions", "versions"]

Longs: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_LEAST: Final = np.iinfo(np.int64).min
_MOST: Final = np.iinfo(np.int64).max
_US: Final = 1_000  # ns

_SLACK_US: Final = 2_000
"""Servers stamp whole milliseconds, count on from the last one when they stamp two in one, and round."""
_DRIFT: Final = 1_000
"""A clock that is being corrected gains or loses at most 1 µs in so many ns (0.1 %; NTP slews by half of that)."""
_LEAD_NS: Final = 2_000_000_000
"""Faults and starts are noted when their effect has been seen, so they began earlier than that."""
_HARMLESS: Final = frozenset({"partition", "pause", "packet-loss"})
"""Nemeses that leave a node's clock and process as they are."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Bounds of the place of each version in the order of its key, as ranks; the last element of each is `NOTHING`'s.

    Version a is certainly before version b if `high[a] < low[b]`; it is so by its ceiling if `under[a] < low[b]`.
    `since[v]` and `until[v]` are the bounds of its writetime (µs), `ceiling[v]` is no higher than `until[v]`.
    """

    low: Longs
    high: Longs
    under: Longs
    since: Longs
    until: Longs
    ceiling: Longs


def versions(of: Operations, notes: Notes) -> Versions:
    """The bounds of every version of `of.put`."""
    count = len(of.put)
    since, until = np.full(count, _MOST), np.full(count, _LEAST)
    told = np.flatnonzero((of.version != NOTHING) & (of.writetime >= 0))
    np.minimum.at(since, of.version[told], of.writetime[told])
    np.maximum.at(until, of.version[told], of.writetime[told])
    seen = since <= until
    since[~seen], until[~seen] = _LEAST, _MOST
    _bound_by_clocks(of, notes, seen, since, until)
    exact = since == until
    ceiling = until.copy()
    _bound_by_later_puts(of, notes, exact, since, ceiling)
    # A point is (writetime, value), values as their bytes are compared; of a version whose writetime is only bounded,
    # the value decides nothing.
    value = of.value.view(np.uint64)
    most = np.where(exact, value, np.iinfo(np.uint64).max)
    points = [(since, np.where(exact, value, 0)), (until, most), (ceiling, most)]
    _, ranks = np.unique(np.concatenate([np.rec.fromarrays(point) for point in points]), return_inverse=True)
    low, high, under = (np.append(ranks[n * count : (n + 1) * count], NOTHING) for n in range(3))
    return Versions(low=low, high=high, under=under, since=since, until=until, ceiling=ceiling)


def _bound_by_clocks(of: Operations, notes: Notes, seen: Mask, since: Longs, until: Longs) -> None:
    """Narrow the bounds of versions that nobody saw, whose put was acknowledged, by the puts around them."""
    puts = of.acknowledged_puts
    for node, name in enumerate(of.nodes):
        for mine in _stretches(of, puts[of.node[puts] == node], _disturbances(notes, name)):
            known = mine[seen[of.version[mine]] & (since[of.version[mine]] == until[of.version[mine]])]
            wanted = mine[~seen[of.version[mine]]]
            if len(known) and len(wanted):
                _narrow(of, known, wanted, since, until)


def _bound_by_later_puts(of: Operations, notes: Notes, exact: Mask, since: Longs, ceiling: Longs) -> None:
    """Lower the ceiling of every put to the least writetime of what the same server process was asked for after it."""
    puts = of.acknowledged_puts
    for node, name in enumerate(of.nodes):
        for mine in _stretches(of, puts[of.node[puts] == node], _ends_of_processes(notes, name)):
            known = mine[exact[of.version[mine]]]
            wanted = mine[~exact[of.version[mine]]]
            begun = known[np.argsort(of.invoked[known], kind="stable")]
            after = np.searchsorted(of.invoked[begun], of.completed[wanted], side="right")
            there = after < len(begun)
            least = np.minimum.accumulate(since[of.version[begun]][::-1])[::-1]
            version = of.version[wanted[there]]
            ceiling[version] = np.minimum(ceiling[version], least[after[there]] + _SLACK_US)


def _stretches(of: Operations, puts: Longs, disturbances: Iterable[tuple[int, int]]) -> Iterator[Longs]:
    """The puts of a node in stretches that nothing disturbed."""
    begins = _LEAST
    for start, end in [*sorted(disturbances), (_MOST, _MOST)]:
        inside = puts[(of.invoked[puts] > begins) & (of.completed[puts] < start)]
        if len(inside):
            yield inside
        begins = max(begins, end)


def _ends_of_processes(notes: Notes, node: str) -> Iterator[tuple[int, int]]:
    """(begin, end) in ns of what ends a server process or begins one."""
    for start in notes.starts:
        if start.node == node:
            yield start.time - int(start.seconds * 1e9) - _LEAD_NS, start.time
    for death in notes.deaths:
        if death.node == node:
            yield death.time - _LEAD_NS, death.time
    for fault in notes.faults:
        if node in fault.nodes and fault.nemesis not in _HARMLESS | {"clock"}:
            yield fault.begins - _LEAD_NS, NEVER if fault.ends is None else fault.ends + _LEAD_NS


def _disturbances(notes: Notes, node: str) -> Iterator[tuple[int, int]]:
    """The same, and clock faults up to the node's next start."""
    yield from _ends_of_processes(notes, node)
    for fault in notes.faults:
        if node in fault.nodes and fault.nemesis == "clock":
            starts = (start.time for start in notes.starts if start.node == node and start.time > fault.begins)
            yield fault.begins - _LEAD_NS, min(starts, default=NEVER)


def _narrow(of: Operations, known: Longs, wanted: Longs, since: Longs, until: Longs) -> None:
    """Bound each wanted put by the last known one before it and the first known one after it, if they agree."""
    ended = known[np.argsort(of.completed[known], kind="stable")]
    begun = known[np.argsort(of.invoked[known], kind="stable")]
    before = np.searchsorted(of.completed[ended], of.invoked[wanted], side="left") - 1
    after = np.searchsorted(of.invoked[begun], of.completed[wanted], side="right")
    between = np.flatnonzero((before >= 0) & (after < len(known)))
    mine, one, other = wanted[between], ended[before[between]], begun[after[between]]
    gap = (of.completed[other] - of.invoked[one]) // _US // _DRIFT
    # What the server's clock was ahead of ours: stamped no sooner than invoked, and no later than completed.
    least = [since[of.version[put]] - of.completed[put] // _US for put in (one, other)]
    most = [since[of.version[put]] - of.invoked[put] // _US for put in (one, other)]
    agree = np.maximum(*least) <= np.minimum(*most) + _SLACK_US + gap
    found = of.version[mine]
    low = of.invoked[mine] // _US + np.minimum(*least) - _SLACK_US - gap
    high = of.completed[mine] // _US + np.maximum(*most) + _SLACK_US + gap
    since[found[agree]], until[found[agree]] = low[agree], high[agree]
