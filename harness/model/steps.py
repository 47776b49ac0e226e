"""Steps: the little language in which a workload tells one worker what to do next.

A workload yields steps; the worker carries them out one after another against its own pinned coordinator.
A step is a value, made from the seed alone, so the same plan always asks for the same operations in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from schemaquake.harness.model.operation import JSON, MicroOp
from schemaquake.harness.model.queries import Query

__all__ = ["Invoke", "Meet", "Note", "Require", "Step", "Wait"]


@dataclass(frozen=True, slots=True)
class Invoke:
    """Ask the worker's coordinator for one operation and record both ends of it."""

    f: str
    key: str | None = None
    value: JSON = None
    mops: tuple[MicroOp, ...] | None = None
    query: Query | None = None
    """The CQL of a data workload's operation; without it the client renders `f` and `value` in its era's dialect."""


@dataclass(frozen=True, slots=True)
class Require:
    """Ask for an operation until it is done, for at most `limit_s`: what comes after it would mean nothing without it.

    Every attempt is recorded like an `Invoke`. A first attempt that nobody answered may have been carried out, so a
    refusal because the object is already there counts as done. What never gets done ends the phase for the whole crew
    (`phase-ended-early`). Never for a statement that races: asked for twice, it is another experiment.
    """

    invoke: Invoke
    limit_s: float


@dataclass(frozen=True, slots=True)
class Meet:
    """Wait until every worker of this crew has come here, then go on together (a barrier)."""

    name: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Let `seconds` pass; part of a schedule (an offset between two racing statements), not a way to wait for a state."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Note:
    """Write one `info` event of process −1 into the history: which race this is, what the workload meant by it."""

    f: str
    key: str | None = None
    value: JSON = None


Step: TypeAlias = Invoke | Require | Meet | Wait | Note
