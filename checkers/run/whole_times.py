"""Whole times: when which nodes of a run were whole, and when enough of them were."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from schemaquake.checkers.evidence.notes import Notes

__all__ = ["WholeTimes"]


class WholeTimes:
    """The stretches of time in which enough of the nodes were whole.

    A node is whole unless a fault was active on it, its start failed, its process ended by itself, or it is no member. With
    `recovery_ns` it is whole again only so long after its last fault or start. A majority is enough, with `needs_all` only
    all of them.
    """

    def __init__(self, notes: Notes, nodes: Sequence[str], *, recovery_ns: int = 0, needs_all: bool = False) -> None:
        """Take the conductor's notes, and the nodes of the run."""
        changes = list(_list_harm(notes, nodes, recovery_ns))
        moments = sorted(
            {
                0,
                *(time for time, _, _ in changes),
                *(start.time for start in notes.starts),
                *(d.time for d in notes.deaths),
                *notes.membership.times,
            }
        )
        self._parts: list[tuple[int, int]] = []
        self._whole: list[frozenset[str]] = []
        self._moments = moments
        for begins, until in zip(moments, [*moments[1:], np.iinfo(np.int64).max], strict=True):
            harmed = dict.fromkeys(nodes, 0)
            for time, node, change in changes:
                if time <= begins and node in harmed:
                    harmed[node] += change
            down = notes.down(begins)
            members = [node for node in nodes if notes.membership.serves(node, begins)]
            whole = [node for node in members if harmed[node] == 0 and node not in down]
            self._whole.append(frozenset(whole))
            if (len(whole) == len(members) if needs_all else 2 * len(whole) > len(members)) or not nodes:
                self._parts.append((begins, int(until)))

    def nodes_within(self, begins: int, ends: int) -> frozenset[str]:
        """Return the nodes that were whole all the time between two moments (ns)."""
        first = max(0, bisect_right(self._moments, begins) - 1)
        return frozenset.intersection(*self._whole[first : bisect_right(self._moments, ends)] or [frozenset()])

    def is_enough(self, begins: int, ends: int) -> bool:
        """Return True if enough nodes were whole all the time between two moments (ns)."""
        return any(first <= begins and ends <= last for first, last in self.within((begins, ends + 1)))

    def within(self, window: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Yield the stretches (begin, end) of a window in which a majority was whole, with neighbours joined."""
        joined: tuple[int, int] | None = None
        for begins, until in self._parts:
            begins, until = max(begins, window[0]), min(until, window[1])  # noqa: PLW2901 - the part within the window
            if begins >= until:
                continue
            if joined is not None and joined[1] == begins:
                joined = (joined[0], until)
                continue
            if joined is not None:
                yield joined
            joined = (begins, until)
        if joined is not None:
            yield joined


def _list_harm(notes: Notes, nodes: Sequence[str], recovery_ns: int) -> Iterator[tuple[int, str, int]]:
    """Yield (time, node, +1 or −1) where something begins or ends to act on a node."""
    stretches = [(fault.begins, fault.ends, set(fault.nodes) or set(nodes)) for fault in notes.faults]
    stretches += [(begins, ends, set(down)) for begins, ends, down in notes.membership.taken_down]
    for begins, ends, harmed in stretches:
        for node in harmed:
            yield begins, node, 1
            if ends is not None:
                yield ends + recovery_ns, node, -1
    for start in notes.starts if recovery_ns else ():
        yield start.time, start.node, 1
        yield start.time + recovery_ns, start.node, -1
