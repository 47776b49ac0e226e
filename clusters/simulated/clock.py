"""Clock: the wall clock of one simulated node, which may be wrong and may be set, and never shows a process less than before."""

from __future__ import annotations

from typing import Final

from schemaquake.harness.run.event_heap import EventHeap
from schemaquake.harness.units import S

__all__ = ["NodeClock"]

_EPOCH_NS: Final = 946_684_800_000_000_000
"""Midnight of 1 January 2000 UTC, when virtual time begins, in ns since 1970."""


class NodeClock:
    """Wall time = virtual time · (1 + drift) + offset. Timestamps are µs since 1970, and never fall within one process."""

    __slots__ = ("_drift_ppm", "_heap", "is_trusted", "last_us", "offset_ns")

    def __init__(self, heap: EventHeap, *, drift_ppm: int = 0) -> None:
        self._heap = heap
        self._drift_ppm = drift_ppm
        self.offset_ns = 0
        self.is_trusted = True
        """False in designs whose timestamps come from true time, however the wall clock is set."""
        self.last_us = 0
        """The last timestamp that this process gave out."""

    def wall_ns(self) -> int:
        """Return the wall clock's time in ns since 1970."""
        now = self._heap.now_ns
        return _EPOCH_NS + now + now * self._drift_ppm // 1_000_000 + self.offset_ns

    def schema_stamp_us(self) -> int:
        """Return a timestamp for schema rows: whole milliseconds (`FBUtilities.timestampMicros`), equal for two changes in one."""
        self.last_us = max(self.last_us, self._stamp_ns() // 1_000_000 * 1000)
        return self.last_us

    def data_stamp_us(self) -> int:
        """Return a timestamp for a row, later than any before (`ClientState.getTimestamp`)."""
        self.last_us = max(self.last_us + 1, self._stamp_ns() // 1000)
        return self.last_us

    def _stamp_ns(self) -> int:
        return self.wall_ns() if self.is_trusted else _EPOCH_NS + self._heap.now_ns

    def restart(self) -> None:
        """Forget the timestamps that were given out, as a new process does."""
        self.last_us = 0

    def skew(self, offset_s: float) -> None:
        """Shift the wall clock by that from true time."""
        self.offset_ns = round(offset_s * S)
