"""Event heap: virtual time, and acts that happen at moments of it, one after another in one thread."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, TypeAlias

__all__ = ["Act", "Event", "EventHeap"]

Act: TypeAlias = Callable[[], None]

_NEVER: Final = 1 << 128
"""A moment, ns, that no run comes to."""


class Event:
    """A scheduled act."""

    __slots__ = ("act",)

    def __init__(self, act: Act) -> None:
        self.act: Act | None = act

    def cancel(self) -> None:
        """Cancel the act; no effect after it has happened."""
        self.act = None


class EventHeap:
    """Acts in order of time, and those of one moment in the order in which they were scheduled.

    An act may run the heap itself, to wait: acts that fall due meanwhile happen before it goes on.
    """

    __slots__ = ("_heap", "now_ns", "scheduled")

    def __init__(self) -> None:
        self.now_ns = 0
        self.scheduled = 0
        """The number of acts that were ever scheduled."""
        self._heap: list[tuple[int, int, Event | Act]] = []

    def at(self, time_ns: int, act: Act) -> Event:
        """Schedule `act`; one whose time is past happens next, at the present moment."""
        event = Event(act)
        self.scheduled += 1
        heappush(self._heap, (time_ns, self.scheduled, event))
        return event

    def post(self, time_ns: int, act: Act) -> None:
        """Schedule `act` as `at` does, without a handle to cancel it by: that is for the thousands of acts that nothing cancels."""
        self.scheduled = number = self.scheduled + 1
        heappush(self._heap, (time_ns, number, act))

    def stamp_ns(self) -> int:
        """Return a unique moment: time advances by a nanosecond, so no two stamps are equal."""
        self.now_ns += 1
        return self.now_ns

    def run(self, is_done: Callable[[], bool], *, until_ns: int | None = None) -> bool:
        """Carry out acts until `is_done`, until that moment, or until none is left. Returns `is_done()`."""
        heap = self._heap
        last_ns = _NEVER if until_ns is None else until_ns
        while not is_done():
            if not heap or heap[0][0] > last_ns:
                if until_ns is not None:
                    self.now_ns = max(self.now_ns, until_ns)
                return is_done()
            time_ns, _, found = heappop(heap)
            act: Act | None
            if isinstance(found, Event):
                act, found.act = found.act, None
                if act is None:
                    continue
            else:
                act = found
            if time_ns > self.now_ns:  # noqa: PLR1730 - a call for each event of a simulation
                self.now_ns = time_ns
            act()
        return True
