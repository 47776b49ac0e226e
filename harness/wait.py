"""Waiting: for a condition, with a deadline, and the last thing seen in the message. The only place that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["pause_for", "until"]

T = TypeVar("T")


def until(condition: Callable[[], T | None], *, deadline_s: float, what: str, every_s: float = 0.05) -> T:
    """The first truthy value of `condition`, asked every `every_s`.

    Raises TimeoutError after `deadline_s`, naming `what` and the last value seen.
    """
    ends = time.monotonic() + deadline_s
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() >= ends:
            raise TimeoutError(f"{what} did not come about within {deadline_s:g} s (last seen: {seen!r})")
        time.sleep(min(every_s, max(0.0, ends - time.monotonic())))


def pause_for(seconds: float) -> None:
    """Let a scheduled time pass: an offset between two racing statements, the length of a fault."""
    time.sleep(max(0.0, seconds))
