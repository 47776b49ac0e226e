"""Conducting: keep as many units running as the machine allows, until everything wanted is known or time is up."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from schemaquake.results.matrix.executor import Executor
from schemaquake.results.matrix.matrix_folder import Done
from schemaquake.results.matrix.schedule import Schedule

__all__ = ["Ending", "conduct"]

log = logging.getLogger(__name__)

Ending = Literal["known", "time is up", "too little memory"]

_ENOUGH: Final = math.inf


@dataclass(frozen=True, slots=True)
class _Nothing:
    """A callback that does nothing."""

    def __call__(self, done: Done | None) -> None:
        pass


def conduct(
    schedule: Schedule,
    executor: Executor,
    *,
    budget_s: float | None,
    record: Callable[[Done], None],
    look: Callable[[Done | None], None] = _Nothing(),
) -> Ending:
    """Run units until nothing more is wanted, the next would not end within `budget_s`, or no further cluster fits into memory.

    `record` is called with every finished unit before its result is used. `look` is called with every finished unit, and with
    None at every poll in between. When this ends, also by an exception, every run is ended; each is healed and torn down
    first.
    """
    ends = executor.clock() + (_ENOUGH if budget_s is None else budget_s)

    def note(done: Done) -> None:
        record(done)
        schedule.done(done.unit, done.facts)
        look(done)

    try:
        while True:
            _fill(schedule, executor, ends)
            if not schedule.running:
                return _why(schedule, executor)
            for done in executor.wait():
                note(done)
            look(None)
    finally:
        if schedule.running:
            for done in executor.stop():
                note(done)


def _fill(schedule: Schedule, executor: Executor, ends: float) -> None:
    while executor.has_room():
        unit = schedule.next(memory_mb=executor.memory_mb(), seconds_left=ends - executor.clock())
        if unit is None:
            return
        schedule.begun(unit)
        log.debug("run begins", extra={"unit": unit.id, "estimate_s": round(schedule.estimate(unit))})
        executor.begin(unit, memory_mb=schedule.memory_of(unit.system))


def _why(schedule: Schedule, executor: Executor) -> Ending:
    """Return why no unit is running any more."""
    wanted = schedule.candidates()
    if not wanted:
        return "known"
    if all(demand.memory_mb > executor.memory_mb() for demand in wanted):
        return "too little memory"
    return "time is up"
