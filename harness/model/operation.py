"""Operations: requests of one process to one coordinator, and their outcomes as far as they are known.

A process invokes, and the same process later completes: `invoke → ok | fail | info`.
`ok` it happened, `fail` it certainly did not, `info` unknown: it may take effect at any later time.
Process −1 is the nemesis (and the conductor's notes): its events are all `info` and come alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

__all__ = [
    "CONDITION_FALSE",
    "HARNESS_PROCESSES",
    "JSON",
    "NEMESIS",
    "Completion",
    "MicroOp",
    "Operation",
    "OperationType",
]

JSON: TypeAlias = Any
"""A value that orjson writes and reads back unchanged."""

OperationType: TypeAlias = Literal["invoke", "ok", "fail", "info"]
MicroOp: TypeAlias = tuple[str, int, int | None, list[int] | None]
"""(f, key, value, values): `("append", 3, 7, None)`, `("r", 3, None, [1, 7])`, `("w", 3, 7, None)`."""

CONDITION_FALSE: Final = "not applied: the condition did not hold"
"""The error of a conditional write that the system answered: it read the condition, as at SERIAL, and found another value."""
NEMESIS: Final = -1
HARNESS_PROCESSES: Final = 1_000_000_000
"""The first number of processes that are sessions of the harness itself. Each asks for one operation; no worker gets that far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One event of a history, before it has been given its index."""

    process: int
    type: OperationType
    f: str
    node: str | None = None
    key: str | None = None
    value: JSON = None
    time: int = 0
    """ns on the run's monotonic clock; the merged history counts from the start of the run."""
    error: str | None = None
    mops: tuple[MicroOp, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The end of an operation: its outcome, the value read, and the server's error message.

    `mops` replaces the invoked micro-operations when the client filled in reads.
    """

    type: Literal["ok", "fail", "info"]
    value: JSON = None
    error: str | None = None
    mops: tuple[MicroOp, ...] | None = None
    already_there: bool = False
    """True if the server answered that the object exists. After an attempt of unknown outcome that may be its effect."""
