"""Steps: the little language in which a workload describes the actions of one worker.

A workload yields steps; the worker carries them out one after another against its own pinned coordinator.
A step is a value, made from the seed alone, so the same plan always asks for the same operations in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from schemaquake.harness.model.operation import JSON, MicroOp
from schemaquake.harness.model.queries import BulkQuery, Query

__all__ = ["Invoke", "Meet", "Note", "Require", "Step", "Wait"]


@dataclass(frozen=True, slots=True)
class Invoke:
    """Ask the worker's coordinator for one operation and record both ends of it."""

    f: str
    key: str | None = None
    value: JSON = None
    mops: tuple[MicroOp, ...] | None = None
    query: Query | BulkQuery | None = None
    """The CQL of a data workload's operation; without it the client renders `f` and `value` in its era's dialect."""


@dataclass(frozen=True, slots=True)
class Require:
    """Ask for an operation until it is done, for at most `limit_s`, because later steps depend on it.

    Every attempt is recorded like an `Invoke`. A first attempt without an answer may have been carried out, so a
    refusal because the object already exists counts as done. An operation that is never done ends the phase for the whole crew
    (`phase-ended-early`). Not for a statement that races: repeated, it is another experiment.
    """

    invoke: Invoke
    limit_s: float


@dataclass(frozen=True, slots=True)
class Meet:
    """Wait until every worker of this crew has reached this step (a barrier)."""

    name: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Let `seconds` pass; part of a schedule (an offset between two racing statements), not a way to wait for a state."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Note:
    """Write one `info` event of process −1 into the history: the race that follows, or another fact of the workload."""

    f: str
    key: str | None = None
    value: JSON = None


Step: TypeAlias = Invoke | Require | Meet | Wait | Note
