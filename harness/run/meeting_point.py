"""Meeting point: a barrier across worker processes that survives the death of a waiting one.

The barrier of `multiprocessing` wakes its waiters and waits until each of them has woken: a process that was killed
while it waited (the kernel does that when memory runs out) would hang all others, and even the process that calls
the meeting off. Here the last to arrive leaves a token for every other one, and waits for none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.context import SpawnContext
from typing import Any, Final

from schemaquake.harness.run.interpreter import ONE_HAS_LEFT, MeetingFailed

__all__ = ["MeetingPoint"]

_LOOK_EVERY_S: Final = 0.25


class MeetingPoint:
    """A barrier of `parties` workers, for any number of meetings in a phase. Passed to processes as they are spawned."""

    def __init__(self, spawn: SpawnContext, parties: int) -> None:
        self._parties: Any = spawn.RawValue("q", parties)
        self._lock = spawn.Lock()
        self._arrived: Any = spawn.RawValue("q", 0)
        self._held: Any = spawn.RawValue("q", 0)
        self._gone: Any = spawn.RawValue("q", 0)
        # Two, in turn: a worker that is already at the next meeting cannot take a token left for another one here.
        self._tokens = (spawn.Semaphore(0), spawn.Semaphore(0))

    def reset(self, parties: int) -> None:
        """Begin a phase anew, with so many workers; none may be at work."""
        self._parties.value = parties
        self._arrived.value = self._held.value = self._gone.value = 0
        for tokens in self._tokens:
            while tokens.acquire(block=False):
                pass

    def meet(self, *, limit_s: float, called_off: Callable[[], bool]) -> bool:
        """Wait until all parties are here; False if the meeting was called off.

        Raises MeetingFailed when another party has left for good, or when the limit passes.
        """
        with self._lock:
            number = self._held.value
            self._arrived.value += 1
            if self._arrived.value == self._parties.value:
                self._hold(self._parties.value - 1)
                return True
        tokens = self._tokens[number % 2]
        ends = time.monotonic() + limit_s
        while not tokens.acquire(timeout=_LOOK_EVERY_S):
            if called_off():
                with self._lock:
                    if self._held.value > number:
                        continue
                    self._arrived.value -= 1
                return False
            if self._held.value > number:
                continue  # our token is on its way
            if self._gone.value:
                raise MeetingFailed(ONE_HAS_LEFT)
            if time.monotonic() >= ends:
                raise MeetingFailed(f"they did not meet within {limit_s:g} s")
        return True

    def withdraw(self) -> None:
        """Say that one party is no party any more: the others meet without it."""
        with self._lock:
            self._parties.value -= 1
            if 0 < self._arrived.value == self._parties.value:
                self._hold(self._parties.value)

    def _hold(self, waiting: int) -> None:
        """Hold the present meeting, with the lock held: leave a token for each party that waits at it."""
        tokens = self._tokens[self._held.value % 2]
        self._arrived.value = 0
        self._held.value += 1
        for _ in range(waiting):
            tokens.release()

    def leave(self) -> None:
        """Say that one party comes to no more meetings of this phase."""
        with self._lock:
            self._gone.value += 1
