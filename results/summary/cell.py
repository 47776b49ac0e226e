"""Cell: the rate of one kind of race, or of one anomaly, on one system, with its confidence interval.

The matrix and the comparison of runs use the same cells. A try is a race that began and was decided, or a whole run where
the cell counts runs. An undecided race is not a try and never counts as a pass; its reason stands beside the cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias

from schemaquake.results.intervals import CONFIDENCE, wilson
from schemaquake.results.wording import counted

__all__ = [
    "COLOURS",
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
    "upgraded_condition",
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
"""State → shape, for readers who cannot distinguish the colours."""
STYLES: Final[Mapping[CellState, str]] = {
    "broke": "fail",
    "held": "ok",
    "unknown": "info",
    "not applicable": "other",
    "not run": "other",
}
"""State → CSS class of the pages."""
COLOURS: Final[Mapping[CellState, str]] = {
    "broke": "bold magenta",
    "held": "blue",
    "unknown": "yellow",
    "not applicable": "dim",
    "not run": "dim",
}
"""State → style on the terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One try in which the anomaly was found, and the command that repeats the run."""

    run: str
    """The run's folder, relative to the matrix' folder."""
    keyspace: str | None
    """Keyspace of the race; None if the anomaly concerns the run as a whole."""
    title: str
    explanation: str
    statements: tuple[tuple[str, ...], ...] = ()
    """Contested statements: one tuple per coordinator, in order of invocation."""
    log_lines: tuple[str, ...] = ()
    """At most five lines, each `node: line`."""
    command: str = ""
    """The `schemaquake run …` that repeats the run."""
    report: str | None = None
    """The run's report.html, relative to the matrix' folder."""

    def to_json(self) -> dict[str, Any]:
        """Return the evidence as it is stored in tally.json."""
        return document_of(self) | {"statements": [list(side) for side in self.statements]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Evidence:
        """Parse what `to_json` returned."""
        return cls(
            **{
                **document,
                "statements": tuple(tuple(side) for side in document["statements"]),
                "log_lines": tuple(document["log_lines"]),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One anomaly (None: any anomaly) of one workload in one mode on one system, found in `broken` of `tried`.

    `low` and `high` bound its rate (`wilson`). A cell is `unknown` if it was run and no try was decided. `reason` is the reason
    why it is unknown, not applicable or not run; for `broke` and `held`, why further runs were not decided.
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
    """Unit of `broken` and `tried`."""
    reason: str = ""
    runs: tuple[str, ...] = ()
    """Folders of the runs, relative to the matrix' folder, in order."""
    evidence: Evidence | None = None

    @property
    def condition(self) -> str:
        """The mode with the active nemeses: `barrier, kill and pause`."""
        return condition_name(self.mode, self.nemeses)

    @property
    def mark(self) -> str:
        """The state as a shape."""
        return MARKS[self.state]

    @property
    def style(self) -> str:
        """The state as a CSS class of the pages."""
        return STYLES[self.state]

    @property
    def half_width(self) -> float:
        """Half the width of the rate's interval; 0.5 without tries."""
        return (self.high - self.low) / 2

    def to_json(self) -> dict[str, Any]:
        """Return the cell as it is stored in tally.json."""
        return document_of(self) | {"evidence": None if self.evidence is None else self.evidence.to_json()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Cell:
        """Parse what `to_json` returned."""
        found = document["evidence"]
        evidence = None if found is None else Evidence.from_json(found)
        mode, nemeses = mode_and_nemeses(document)
        return cls(
            **{**document, "mode": mode, "nemeses": nemeses, "runs": tuple(document["runs"]), "evidence": evidence}
        )


def standing_of(*, broken: int, ok: int, undecided: Sequence[str]) -> Literal["broke", "held", "unknown"]:
    """Judge the races of one workload: held only if every check decided and at least one operation was acknowledged."""
    if broken:
        return "broke"
    return "held" if ok and not undecided else "unknown"


def describe_standing(*, tried: int, broke: Mapping[str, int], broken: int, ok: int, undecided: Sequence[str]) -> str:
    """Describe the standing of a workload's races in a phrase without a full stop; `broke` maps anomaly types to races."""
    counts = f"{broken} of {counted(tried, 'race')} broke"
    if broken:
        return f"{counts}: " + ", ".join(f"{kind} in {count}" for kind, count in broke.items())
    if not ok:
        return f"{counts}, but no operation was acknowledged: nothing to judge"
    return f"{counts}, but not every check could decide: {'; '.join(undecided)}" if undecided else counts


def condition_name(mode: str, nemeses: Sequence[str]) -> str:
    """Return the mode with the active nemeses: `barrier`, `barrier, kill and pause`."""
    return mode if not nemeses else f"{mode}, {' and '.join(nemeses)}"


def mode_and_nemeses(document: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Read the mode and the nemeses of a cell's or row's document, also of one that 0.1 wrote (`upgraded_condition`)."""
    document = upgraded_condition(document)
    return document["mode"], tuple(document["nemeses"])


def upgraded_condition(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the document of a cell or a row of 0.1 as it is written today; a present one is returned as it is.

    0.1 had no field `nemeses`: its `mode` was the name of the condition, `barrier, kill and pause`.
    """
    if "nemeses" in document:
        return document
    mode, _, nemeses = document["mode"].partition(", ")
    return {**document, "mode": mode, "nemeses": nemeses.split(" and ") if nemeses else []}


def document_of(value: Any) -> dict[str, Any]:
    """Convert a dataclass to a mapping of its fields, with tuples as lists."""
    named = {one.name: getattr(value, one.name) for one in fields(value)}
    return {name: list(item) if isinstance(item, tuple) else item for name, item in named.items()}
