"""Timetable: when faults begin and end, with quiet between them in which the cluster may recover, and which nodes they hit."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Context, Fault
from schemaquake.nemeses.schedule.targets import choose

__all__ = ["spells", "targeted"]

_FAULT_S: Final = (5.0, 15.0)
_QUIET_S: Final = (4.0, 10.0)
_FULL_SIZE_FROM_S: Final = 60.0
"""The run length in seconds from which faults have their full size; shorter runs have them in proportion."""


def spells(
    random: Random,
    limit_s: float,
    *,
    fault_s: tuple[float, float] = _FAULT_S,
    quiet_s: tuple[float, float] = _QUIET_S,
) -> list[tuple[float, float]]:
    """Return (begins, ends) in seconds of as many faults as fit into `limit_s`, at least one, apart and in order.

    Lengths of faults and of the quiet before each are drawn evenly from the given ranges (s). The last one ends a
    twentieth of the limit before it, so that the run also ends in quiet.
    """
    scale = min(1.0, limit_s / _FULL_SIZE_FROM_S)
    last_s = 0.95 * limit_s
    found: list[tuple[float, float]] = []
    now = 0.0
    while True:
        begins = now + scale * random.uniform(*quiet_s)
        now = begins + scale * random.uniform(*fault_s)
        if now > last_s:
            break
        found.append((round(begins, 3), round(now, 3)))
    return found or [(round(0.1 * limit_s, 3), round(last_s, 3))]


def targeted(
    nemesis: str,
    context: Context,
    random: Random,
    *,
    targets: Sequence[str],
    fault_s: tuple[float, float] = _FAULT_S,
    quiet_s: tuple[float, float] = _QUIET_S,
    **parameters: JSON,
) -> list[Fault]:
    """Plan a fault for every spell, each on nodes of a target drawn from `targets` (a parameter too). Raises PlanError."""
    faults = []
    for number, (begins_s, ends_s) in enumerate(spells(random, context.time_limit_s, fault_s=fault_s, quiet_s=quiet_s)):
        target = random.choice(targets)
        faults.append(
            Fault(
                id=number,
                nemesis=nemesis,
                begins_s=begins_s,
                ends_s=ends_s,
                nodes=choose(target, context, random),
                parameters={"target": target, **parameters},
            )
        )
    return faults
