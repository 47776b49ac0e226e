"""Activity: the work of a fault between its injection and its healing, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Activities", "Activity"]

R = TypeVar("R")


class Activity(Generic[R]):
    """A thread that works until `finish` is called, which also raises the error that ended the work."""

    def __init__(self, work: Callable[[threading.Event], R], *, name: str) -> None:
        """Start the thread. `work` polls the given event, or waits on it, and ends soon after it is set."""
        self._finishing = threading.Event()
        self._results: list[R] = []
        self._error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """True until the work has ended."""
        return self._thread.is_alive()

    def finish(self, *, deadline_s: float) -> R:
        """End the work, wait for the thread, and return the work's result.

        Raises the work's own error, and TimeoutError if it continues.
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
        except BaseException as error:  # noqa: BLE001 - finish() raises it in the caller's thread
            self._error = error


class Activities(Generic[R]):
    """The activities of one nemesis, by fault. Empty in a process that did not inject: there is nothing to finish."""

    def __init__(self) -> None:
        self._running: dict[int, Activity[R]] = {}

    def begin(self, fault_id: int, work: Callable[[threading.Event], R], *, name: str) -> None:
        """Start an activity for this fault."""
        self._running[fault_id] = Activity(work, name=name)

    def finish(self, fault_id: int, *, deadline_s: float) -> R | None:
        """End the activity of this fault and return its result; None if there is none. Raises as the activity does."""
        activity = self._running.get(fault_id)
        if activity is None:
            return None
        try:
            return activity.finish(deadline_s=deadline_s)
        finally:
            if not activity.is_running:
                del self._running[fault_id]
