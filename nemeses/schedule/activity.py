"""Activity: what a fault goes on doing between its injection and its healing, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Activities", "Activity"]

R = TypeVar("R")


class Activity(Generic[R]):
    """A thread that works until it is told to finish; what it raises is kept for whoever tells it."""

    def __init__(self, work: Callable[[threading.Event], R], *, name: str) -> None:
        """Begins at once. `work` looks at the event it is given, or waits on it, and ends soon after it is set."""
        self._finishing = threading.Event()
        self._results: list[R] = []
        self._error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the thread goes on."""
        return self._thread.is_alive()

    def finish(self, *, deadline_s: float) -> R:
        """Tell it to end, wait for that, and return what it returned.

        Raises what it raised, and TimeoutError if it goes on.
        """
        self._finishing.set()
        self._thread.join(deadline_s)
        if self._thread.is_alive():
            raise TimeoutError(f"{self._thread.name} did not finish within {deadline_s:g} s")
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._work(self._finishing))
        except BaseException as error:  # noqa: BLE001 - a thread has nobody to raise to: finish() raises it
            self._error = error


class Activities(Generic[R]):
    """The activities of one nemesis, by fault. Empty in a process that did not inject: there is nothing to finish."""

    def __init__(self) -> None:
        self._running: dict[int, Activity[R]] = {}

    def begin(self, fault_id: int, work: Callable[[threading.Event], R], *, name: str) -> None:
        """Start one for this fault."""
        self._running[fault_id] = Activity(work, name=name)

    def finish(self, fault_id: int, *, deadline_s: float) -> R | None:
        """End the one of this fault and return what it returned; null if there is none. Raises as the activity does."""
        activity = self._running.get(fault_id)
        if activity is None:
            return None
        try:
            return activity.finish(deadline_s=deadline_s)
        finally:
            if not activity.is_running:
                del self._running[fault_id]
