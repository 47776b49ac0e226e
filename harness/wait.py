"""Waiting: for a condition, with a deadline, and the last value seen in the message. The only module that sleeps.

Time is the machine's, except inside `waiting_by`: there it is that of a simulation, and waiting takes no time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple, TypeVar

from schemaquake.harness.machine_time import ThreadTasks
from schemaquake.harness.model.runtime import Tasks
from schemaquake.harness.units import S

__all__ = ["is_simulated", "pause_for", "tasks", "until", "waiting_by"]

T = TypeVar("T")


class _Time(NamedTuple):
    now_s: Callable[[], float]
    sleep: Callable[[float], None]
    tasks: Tasks
    simulated: bool = False


_TIME: Final[ContextVar[_Time]] = ContextVar("time", default=_Time(time.monotonic, time.sleep, ThreadTasks()))  # noqa: B039 - immutable


def until(condition: Callable[[], T | None], *, deadline_s: float, what: str, every_s: float = 0.05) -> T:
    """Return the first truthy value of `condition`, evaluated every `every_s`.

    Raises TimeoutError after `deadline_s`, naming `what` (a noun phrase) and the last value seen.
    """
    now_s, sleep, *_ = _TIME.get()
    ends = now_s() + deadline_s
    while True:
        seen = condition()
        if seen:
            return seen
        if now_s() >= ends:
            raise TimeoutError(f"{what} did not come about within {deadline_s:g} s (last seen: {seen!r})")
        sleep(min(every_s, max(0.0, ends - now_s())))


def pause_for(seconds: float) -> None:
    """Let a scheduled time pass: an offset between two racing statements, the length of a fault."""
    _TIME.get().sleep(max(0.0, seconds))


def is_simulated() -> bool:
    """Return True inside `waiting_by`: there is one thread, and what would be done in several is done in turn."""
    return _TIME.get().simulated


def tasks() -> Tasks:
    """Return where work beside everything else is done: in threads, or in events of a simulation."""
    return _TIME.get().tasks


@contextmanager
def waiting_by(now_ns: Callable[[], int], sleep: Callable[[float], None], tasks: Tasks) -> Iterator[None]:
    """Wait by another clock than the machine's while the block runs, in this thread."""
    token = _TIME.set(_Time(lambda: now_ns() / S, sleep, tasks, simulated=True))
    try:
        yield
    finally:
        _TIME.reset(token)
