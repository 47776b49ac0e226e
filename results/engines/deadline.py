"""Deadline: ends what does not end by itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Overdue", "deadline"]


class Overdue(BaseException):
    """The deadline passed. No Exception, so that no handler of the code it ends mistakes it for an error of its own."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise Overdue in the block when `seconds` have passed.

    Python code is ended anywhere, compiled code when it returns. Only a process' main thread can be ended like this;
    in any other thread, or where somebody else has set an alarm, the block takes as long as it takes.
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
