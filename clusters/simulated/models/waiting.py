"""Waiting: a place where processes of one server wait until something has changed there."""

from __future__ import annotations

from schemaquake.clusters.simulated import faces
from schemaquake.harness.run.event_heap import Event

__all__ = ["Signal"]


class Signal:
    """Resumes all who wait for it, each at most once; what has changed is theirs to look up."""

    __slots__ = ("_waits",)

    def __init__(self) -> None:
        self._waits: dict[_Wait, None] = {}

    def within(self, limit_ns: int) -> _Wait:
        """Return the effect that waits for the next change, or until the limit has passed."""
        return _Wait(self._waits, limit_ns)

    def notify(self) -> None:
        """Resume all who wait."""
        for wait in list(self._waits):
            wait.end()


class _Wait:
    __slots__ = ("_limit", "_limit_ns", "_process", "_waits")

    def __init__(self, waits: dict[_Wait, None], limit_ns: int) -> None:
        self._waits = waits
        self._limit_ns = limit_ns
        self._limit: Event | None = None
        self._process: faces.Process | None = None

    def begin(self, process: faces.Process) -> bool:
        """Wait."""
        self._process = process
        self._waits[self] = None
        self._limit = process.node.kernel.limit(self._limit_ns, self.end)
        return False

    def end(self) -> None:
        """Resume the process in an event of its own, so that the one that notifies is not interrupted."""
        process, self._process = self._process, None
        self._waits.pop(self, None)
        if self._limit is not None:
            self._limit.cancel()
        if process is not None:
            process.node.kernel.after(0, process.resume)
