"""Conditions: the fault that is under way while statements meet, and the phase of a node's restart.

A pair of statements that met on a healthy cluster has not met while a node was coming back. The *foreseen* condition of a round follows from the
plan, since faults are planned from the seed: it is where a round is expected to fall, and decides which meetings are new there.
What was met under which condition is read from the history afterwards (`schemaquake.results.tables.meetings`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from schemaquake.harness.model.foresight import planned_faults
from schemaquake.harness.model.protocols import Context

__all__ = ["BACK_S", "HEALTHY", "STOPPING", "Condition", "Conditions", "conditions_of"]

BACK_S: Final = 5.0
"""For so long (s) after a restart its node counts as just back."""
STOPPING: Final = frozenset({"kill", "stop", "restart", "rolling-restart"})
"""Faults that end a node's process."""


class Condition(NamedTuple):
    """The faults under way, by name with `+` between them, and the phase of a restart: `` (none), down, starting or back."""

    faults: str = ""
    restart: str = ""


HEALTHY: Final = Condition()


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions under which rounds are expected to fall: windows as (begins, ends, condition's part) in s."""

    round_s: float
    windows: Sequence[tuple[float, float, str]] = field(default=())

    def foreseen(self, number: int) -> Condition:
        """Return the condition under which round `number` is expected to fall."""
        at = number * self.round_s
        under = sorted({name for begins, ends, name in self.windows if begins <= at < ends})
        back = any(name in STOPPING and ends <= at < ends + BACK_S for _, ends, name in self.windows)
        stopped = any(name in STOPPING for name in under)
        return Condition("+".join(under), "down" if stopped else "back" if back else "")


def conditions_of(context: Context, *, requested: Sequence[str] = (), round_s: float) -> Conditions:
    """Return the conditions that the plan of a run lets expect, for rounds that take so long (s).

    `requested` are the faults that the workload itself asked for, which last for the whole main phase.
    """
    windows = [(fault.begins_s, fault.ends_s, fault.nemesis) for fault in planned_faults(context)]
    return Conditions(round_s, (*windows, *((0.0, math.inf, name) for name in requested)))
