"""Deadline: a time limit for code that does not check one itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Overdue", "deadline"]


class Overdue(BaseException):
    """Signal that the deadline passed. It is a BaseException, so that handlers in the interrupted code do not catch it."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise Overdue in the block when `seconds` have passed.

    Python code is interrupted anywhere, compiled code when it returns. This works only in the main thread of a process. In any
    other thread, or if an alarm is already set, the block runs without a limit.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getitimer(signal.ITIMER_REAL)[0] > 0:
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise Overdue

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
