"""Activity: the work of a fault between its injection and its healing, beside everything else.

The work is a generator that yields its pauses in seconds. It is resumed with True after a whole pause, and with False as soon
as it is to end: then it returns soon. So it runs in a thread here, and in virtual time in a simulation.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Generic, TypeAlias, TypeVar

from schemaquake.harness.model.runtime import Sleep, TaskSteps
from schemaquake.harness.units import S
from schemaquake.harness.wait import tasks, until

__all__ = ["Activities", "Activity", "Work"]

R = TypeVar("R")

Work: TypeAlias = Generator[float, bool, R]


class Activity(Generic[R]):
    """Work that goes on until `finish` is called, which also raises the error that ended it."""

    def __init__(self, work: Work[R], *, name: str) -> None:
        """Begin the work now."""
        self._name = name
        self._results: list[R] = []
        self._error: BaseException | None = None
        self._tasks = tasks()
        self._task = self._tasks.spawn(name, self._steps(work))

    @property
    def is_running(self) -> bool:
        """True until the work has ended."""
        return not self._results and self._error is None

    def finish(self, *, deadline_s: float) -> R:
        """End the work, wait for it, and return its result.

        Raises the work's own error, and TimeoutError if it continues.
        """
        self._task.stop()
        try:
            until(lambda: not self.is_running, deadline_s=deadline_s, what=f"the end of {self._name}", every_s=0.01)
        except TimeoutError:
            raise TimeoutError(f"{self._name} did not finish within {deadline_s:g} s") from None
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _steps(self, work: Work[R]) -> TaskSteps:
        try:
            pause_s = next(work)
            while True:
                slept = yield Sleep(self._tasks.clock.now_ns() + round(pause_s * S))
                pause_s = work.send(slept)
        except StopIteration as end:
            self._results.append(end.value)
        except BaseException as error:  # noqa: BLE001 - finish() raises it in the caller's place
            self._error = error


class Activities(Generic[R]):
    """The activities of one nemesis, by fault. Empty in a process that did not inject: there is nothing to finish."""

    def __init__(self) -> None:
        self._running: dict[int, Activity[R]] = {}

    def begin(self, fault_id: int, work: Work[R], *, name: str) -> None:
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
