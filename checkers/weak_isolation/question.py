"""The question: which level is asked of which transactions, how long it took, and the verdict either way."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from schemaquake.checkers.weak_isolation.causality import TooMuch
from schemaquake.checkers.weak_isolation.levels import LEVELS, Level, ruled_out
from schemaquake.harness.compiled import working_time
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Doubt

__all__ = ["CHECKER", "MEMORY_BYTES", "Kind", "Question"]

CHECKER: Final = "weak-isolation"
MEMORY_BYTES: Final = 2 << 30
"""What clocks may take."""

Kind: TypeAlias = Literal["rw-register", "list-append"]


@dataclass(slots=True)
class Question:
    """A level asked of some transactions, and the time each part took."""

    kind: Kind
    level: Level
    limit_s: float
    began: float = field(default_factory=working_time)
    seconds: dict[str, JSON] = field(default_factory=dict)

    def lap(self, part: str, since: float) -> float:
        """Note how long something took; return the time."""
        now = time.monotonic()
        self.seconds[f"{part}_s"] = round(now - since, 4)
        return now

    def late(self) -> bool:
        """Tell whether the time is up."""
        return working_time() > self.began + self.limit_s

    def too_much(self, limit: TooMuch) -> Doubt:
        """Name the limit that was reached."""
        if str(limit) == "time":
            return Doubt(
                "time", f"the time limit of {self.limit_s:g} s passed before it was known what happened before what"
            )
        text = f"to know what happened before what would take more than {MEMORY_BYTES >> 30} GiB of memory"
        return Doubt("memory", text)

    def stats(self, transactions: int, counts: Mapping[str, int], weakest: Level | None) -> dict[str, JSON]:
        """Make the statistics of a verdict: how often each anomaly was found, and the weakest level that this rules out."""
        out, stronger = ruled_out(weakest)
        return {
            "kind": self.kind,
            "transactions": transactions,
            "models": list(LEVELS[: LEVELS.index(self.level) + 1]),
            "anomaly-types": sorted(counts),
            "found": {name: counts[name] for name in sorted(counts)},
            "not": list(out),
            "also-not": list(stronger),
            **self.seconds,
        }
