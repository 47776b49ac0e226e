"""Deadline: a time limit for code that does not check one itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from schemaquake.harness.compiled import working_time

__all__ = ["Overdue", "deadline"]

_RING_AGAIN_S: Final = 0.05


class Overdue(BaseException):
    """Signal that the deadline passed. It is a BaseException, so that handlers in the interrupted code do not catch it."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise Overdue in the block when `seconds` have passed, less those in which something was compiled.

    Python code is interrupted anywhere, compiled code when it returns. This works only in the main thread of a process. In any
    other thread, or if an alarm is already set, the block runs without a limit.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getitimer(signal.ITIMER_REAL)[0] > 0:
        yield
        return

    ends = working_time() + seconds
    has_ended = False

    def ring(_signal: int, _frame: FrameType | None) -> None:
        if has_ended:
            return
        left_s = ends - working_time()
        if left_s <= 0:
            raise Overdue
        signal.setitimer(signal.ITIMER_REAL, max(left_s, _RING_AGAIN_S))

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        yield
    finally:
        has_ended = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
