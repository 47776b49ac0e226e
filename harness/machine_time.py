"""Machine time: the clock of the machine, and work in threads beside the phases."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

from schemaquake.harness.model.runtime import TaskSteps
from schemaquake.harness.units import S

__all__ = ["MachineClock", "ThreadTasks"]


class MachineClock:
    """The machine's monotonic clock, which all its processes share, and its calendar."""

    now_ns = stamp_ns = staticmethod(time.monotonic_ns)
    """No call of Python's own between a record and its time. Two processes may read the same nanosecond."""

    def utc(self) -> datetime:
        """Return the wall clock's time."""
        return datetime.now(UTC)


class ThreadTasks:
    """Tasks that have a thread each, so that one which blocks delays no other."""

    clock = MachineClock()

    def spawn(self, name: str, steps: TaskSteps) -> _ThreadTask:
        """Begin `steps` in a thread of that name."""
        return _ThreadTask(name, steps)


class _ThreadTask:
    def __init__(self, name: str, steps: TaskSteps) -> None:
        self._steps = steps
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        slept: bool | None = None
        try:
            while True:
                pause = self._steps.send(slept)  # type: ignore[arg-type]  # None begins a generator
                slept = not self._stopped.wait(max(0, pause.until_ns - time.monotonic_ns()) / S)
        except StopIteration:
            return

    def stop(self) -> None:
        self._stopped.set()

    def join(self) -> None:
        self._thread.join()
