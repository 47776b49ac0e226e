"""Event heap: virtual time, and acts that happen at moments of it, one after another.

Acts are carried out by whoever runs the heap. Work on a strand (`schemaquake.harness.run.strands`) that runs the heap does not: it
waits, while the run that it interrupted goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import Final, TypeAlias, final

from schemaquake.harness.run.strands import Strand

__all__ = ["Act", "Event", "EventHeap"]

Act: TypeAlias = Callable[[], None]

_NEVER: Final = 1 << 128
"""A moment, ns, that no run comes to."""


@final
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

    An act may run the heap itself, to wait: acts that fall due meanwhile happen before it goes on. Work of which several pieces may
    wait at once is done on strands (`on`).
    """

    __slots__ = ("_heap", "_strand", "_waiting", "now_ns", "scheduled")

    def __init__(self) -> None:
        self.now_ns = 0
        self.scheduled = 0
        """The number of acts that were ever scheduled."""
        self._heap: list[tuple[int, int, Event | Act]] = []
        self._strand: Strand | None = None
        """The strand whose work goes on now."""
        self._waiting: list[_Wait] = []

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
        """Carry out acts until `is_done`, until that moment, or until none is left. Returns `is_done()`.

        On a strand, wait for the same.
        """
        if self._strand is not None:
            return self._wait(self._strand, is_done, until_ns)
        heap, waiting = self._heap, self._waiting
        last_ns = _NEVER if until_ns is None else until_ns
        while not is_done():
            if not heap:
                if waiting and until_ns is None:
                    self._go_on_with(waiting[0])  # what it waits for does not come
                    continue
                return self._stop(is_done, until_ns)
            entry = heappop(heap)
            time_ns, _, found = entry
            if time_ns > last_ns:
                heappush(heap, entry)
                return self._stop(is_done, until_ns)
            act: Act | None
            if type(found) is Event:
                act, found.act = found.act, None
                if act is None:
                    continue
            else:
                act = found
            if time_ns > self.now_ns:  # noqa: PLR1730 - a call for each event of a simulation
                self.now_ns = time_ns
            act()
            if waiting:
                self._look()
        return True

    def _stop(self, is_done: Callable[[], bool], until_ns: int | None) -> bool:
        """Stop at the end of the time, or of all acts."""
        if until_ns is not None:
            self.now_ns = max(self.now_ns, until_ns)
        return is_done()

    # ── strands ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def on(self, strand: Strand, work: Act) -> None:
        """Do some work on a strand, until it ends or waits. Raises what it raises."""
        self._pass_to(strand, partial(strand.do, work))

    def abandon(self) -> None:
        """Break off all work that waits: the heap is not run any more."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._pass_to(each.strand, each.strand.abandon)

    def _pass_to(self, strand: Strand, go_on: Act) -> None:
        before, self._strand = self._strand, strand
        try:
            go_on()
        finally:
            self._strand = before

    def _wait(self, strand: Strand, is_done: Callable[[], bool], until_ns: int | None) -> bool:
        if is_done():
            return True
        wait = _Wait(strand, is_done)
        self._waiting.append(wait)
        if until_ns is not None:
            wait.limit = self.at(until_ns, partial(self._go_on_with, wait))
        strand.wait()
        return is_done()

    def _look(self) -> None:
        """Go on with all work whose wait is over."""
        for wait in tuple(self._waiting):
            if wait.is_done():
                self._go_on_with(wait)

    def _go_on_with(self, wait: _Wait) -> None:
        if wait in self._waiting:
            self._waiting.remove(wait)
            if wait.limit is not None:
                wait.limit.cancel()
            self._pass_to(wait.strand, wait.strand.resume)


class _Wait:
    __slots__ = ("is_done", "limit", "strand")

    def __init__(self, strand: Strand, is_done: Callable[[], bool]) -> None:
        self.strand = strand
        self.is_done = is_done
        self.limit: Event | None = None
