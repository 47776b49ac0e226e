"""Cell: what is known of one kind of race, or of one anomaly, on one system, and how sure one may be of a rate.

The matrix and the comparison of a few runs lay the same cells out. A try is a race that began and was decided, or a whole
run where that is what counts. What was not decided is no try, and is never good news: it stands beside the cell as its reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias

from schemaquake.results.wording import counted

__all__ = [
    "CONFIDENCE",
    "MARKS",
    "STYLES",
    "WORST_FIRST",
    "Cell",
    "CellState",
    "Evidence",
    "Unit",
    "condition_name",
    "describe_standing",
    "document_of",
    "mode_and_nemeses",
    "standing_of",
    "wilson",
]

CellState: TypeAlias = Literal["broke", "held", "unknown", "not applicable", "not run"]
Unit: TypeAlias = Literal["race", "run"]

WORST_FIRST: Final[Sequence[CellState]] = ("broke", "unknown", "held", "not applicable", "not run")
MARKS: Final[Mapping[CellState, str]] = {
    "broke": "✕",
    "held": "✓",
    "unknown": "?",
    "not applicable": "–",
    "not run": "·",
}
"""The state as a shape, for readers who cannot tell the colours apart."""
STYLES: Final[Mapping[CellState, str]] = {
    "broke": "fail",
    "held": "ok",
    "unknown": "info",
    "not applicable": "other",
    "not run": "other",
}
"""The state as the pages' name of a colour."""

CONFIDENCE: Final = 0.95
"""How often an interval of `wilson` holds the true rate."""

_Z: Final = 1.959963984540054  # the normal distribution has 95 % of its mass within so many deviations


def wilson(broken: int, tried: int) -> tuple[float, float]:
    """The 95 % interval for a rate seen `broken` times in `tried`, within [0, 1]; nothing tried: nothing known.

    Wilson's score interval (1927): unlike the usual one it is honest at 0 of m and m of m, which most cells are.
    """
    assert 0 <= broken <= tried
    if not tried:
        return 0.0, 1.0
    rate, spread = broken / tried, _Z * _Z / tried
    centre = (rate + spread / 2) / (1 + spread)
    half = math.sqrt(rate * (1 - rate) * spread + spread * spread / 4) / (1 + spread)
    # At the ends the two terms are equal, and rounding must not leave 0 of m with a lower bound above 0.
    return (0.0 if not broken else max(0.0, centre - half)), (1.0 if broken == tried else min(1.0, centre + half))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One try in which the anomaly was found: enough to believe it, and the command to see it again."""

    run: str
    """The run's folder, relative to the matrix' folder."""
    keyspace: str | None
    """The race's keyspace; None if the anomaly concerns the run as a whole."""
    title: str
    explanation: str
    statements: tuple[tuple[str, ...], ...] = ()
    """What raced: a tuple of statements for each coordinator, in the order in which they begin."""
    log_lines: tuple[str, ...] = ()
    """At most five, each `node: line`."""
    command: str = ""
    """The `schemaquake run …` that repeats the run."""
    report: str | None = None
    """The run's report.html, relative to the matrix' folder."""

    def to_json(self) -> dict[str, Any]:
        """The evidence as matrix.json holds it."""
        return document_of(self) | {"statements": [list(side) for side in self.statements]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Evidence:
        """Read back what `to_json` wrote."""
        return cls(
            **{
                **document,
                "statements": tuple(tuple(side) for side in document["statements"]),
                "log_lines": tuple(document["log_lines"]),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One anomaly (None: any at all) of one workload in one mode on one system: found in `broken` of `tried`.

    `low` and `high` bound its rate (`wilson`). A cell is `unknown` if it was run and no try was decided. `reason` says
    why it is unknown, not applicable or not run; beside `broke` and `held`, why further runs of it were not decided.
    """

    system: str
    workload: str
    mode: str
    nemeses: tuple[str, ...] = ()
    anomaly: str | None = None
    state: CellState
    broken: int = 0
    tried: int = 0
    low: float = 0.0
    high: float = 1.0
    unit: Unit = "race"
    """What `tried` counts."""
    reason: str = ""
    runs: tuple[str, ...] = ()
    """The folders of its runs, relative to the matrix' folder, in the order in which they were run."""
    evidence: Evidence | None = None

    @property
    def condition(self) -> str:
        """The mode, with the nemeses at work: `barrier, kill and pause`."""
        return condition_name(self.mode, self.nemeses)

    @property
    def mark(self) -> str:
        """The state as a shape."""
        return MARKS[self.state]

    @property
    def style(self) -> str:
        """The state as the pages' name of a colour."""
        return STYLES[self.state]

    @property
    def half_width(self) -> float:
        """How far the rate may be from the middle of its interval: 0.5 when nothing is known."""
        return (self.high - self.low) / 2

    def to_json(self) -> dict[str, Any]:
        """The cell as matrix.json holds it."""
        return document_of(self) | {"evidence": None if self.evidence is None else self.evidence.to_json()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Cell:
        """Read back what `to_json` wrote."""
        found = document["evidence"]
        evidence = None if found is None else Evidence.from_json(found)
        mode, nemeses = mode_and_nemeses(document)
        return cls(
            **{**document, "mode": mode, "nemeses": nemeses, "runs": tuple(document["runs"]), "evidence": evidence}
        )


def standing_of(*, broken: int, ok: int, undecided: Sequence[str]) -> Literal["broke", "held", "unknown"]:
    """Judge the races of one workload: held only if every check decided and something was acknowledged."""
    if broken:
        return "broke"
    return "held" if ok and not undecided else "unknown"


def describe_standing(*, tried: int, broke: Mapping[str, int], broken: int, ok: int, undecided: Sequence[str]) -> str:
    """Say the standing of a workload's races in a sentence without a full stop; `broke` maps anomaly types to races."""
    said = f"{broken} of {counted(tried, 'race')} broke"
    if broken:
        return f"{said}: " + ", ".join(f"{kind} in {count}" for kind, count in broke.items())
    if not ok:
        return f"{said}, but no operation of any was acknowledged: nothing to judge"
    return f"{said}, but not every check could decide: {'; '.join(undecided)}" if undecided else said


def condition_name(mode: str, nemeses: Sequence[str]) -> str:
    """Name a mode with the nemeses at work: `barrier`, `barrier, kill and pause`."""
    return mode if not nemeses else f"{mode}, {' and '.join(nemeses)}"


def mode_and_nemeses(document: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Read both from the document of a cell or a row. Version 0.1 wrote the name of the condition as the mode."""
    if "nemeses" in document:
        return document["mode"], tuple(document["nemeses"])
    mode, _, nemeses = document["mode"].partition(", ")
    return mode, tuple(nemeses.split(" and ")) if nemeses else ()


def document_of(value: Any) -> dict[str, Any]:
    """Map a dataclass' fields to their values, tuples as lists."""
    named = {one.name: getattr(value, one.name) for one in fields(value)}
    return {name: list(item) if isinstance(item, tuple) else item for name, item in named.items()}
