"""Promises: statements about the schema changes of each line of releases, judged against a matrix.

`promises.toml` beside this file lists every promise and every admitted weakness in our words, with the passage of the seed
document or the ticket it comes from. Certain anomalies break a promise, and decided tries without them keep it. The same
anomalies confirm a weakness. Without a decided try there is no judgement: a version that was not tried has kept nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

from schemaquake.results.matrix.eras import Versions
from schemaquake.results.matrix.matrix_plan import parse_nemesis
from schemaquake.results.matrix.tally import Matrix
from schemaquake.results.summary.cell import Cell
from schemaquake.results.summary.run_summary import CONTROL
from schemaquake.results.wording import system_name

__all__ = [
    "ANY_ANOMALY",
    "DOCUMENTS",
    "PROMISES",
    "Judgement",
    "JudgementState",
    "Kind",
    "OnSystem",
    "Promise",
    "judge",
    "judgements",
    "promises_from",
]

Kind: TypeAlias = Literal["promise", "weakness"]
JudgementState: TypeAlias = Literal["kept", "broken", "confirmed", "not seen", "not judged"]

ANY_ANOMALY: Final = "*"
"""Placeholder for all types: any anomaly contradicts the promise."""

_UNDECIDED: Final = frozenset({"unknown", "not run"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One statement about a line of releases, with the anomalies that refute it (or, for a weakness, confirm it).

    `source` are passages as `seed 1, Concurrency`. `shown_by` are the anomaly types, or `ANY_ANOMALY`, that contradict a
    promise or confirm a weakness. `tried_by` are the workloads whose races test it; empty means all. `modes` are the modes
    whose races test it; empty means all but the controls'. If `faults` is not empty, at least one of them must have been
    active. `unjudged` is the reason why no matrix can judge the promise, or empty.
    """

    id: str
    era: str
    kind: Kind
    versions: Versions
    says: str
    source: tuple[str, ...]
    tickets: tuple[str, ...]
    tried_by: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    shown_by: tuple[str, ...] = ()
    unjudged: str = ""

    def is_tried_by(self, cell: Cell) -> bool:
        """Return True if the cell's races test the promise."""
        if cell.mode not in self.modes if self.modes else cell.mode == CONTROL:
            return False
        if self.faults and not set(self.faults) & {parse_nemesis(text)[0] for text in cell.nemeses}:
            return False
        return not self.tried_by or cell.workload in self.tried_by

    def is_shown_by(self, cell: Cell) -> bool:
        """Return True if the cell contradicts the promise or confirms the weakness."""
        if cell.state != "broke" or not self.is_tried_by(cell):
            return False
        return cell.anomaly is None if ANY_ANOMALY in self.shown_by else cell.anomaly in self.shown_by


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSystem:
    """The judgement of a promise on one system."""

    system: str
    state: JudgementState
    tried: int
    """Number of decided tries of the workloads that test the promise."""
    shown: tuple[Cell, ...] = ()
    """Cells that contradict or confirm it, the highest rate first. Several cells may count the same race."""
    undecided: tuple[str, ...] = ()
    """Workloads that would have tested it, with their states: `drop-type: unknown, the cluster never settled`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The judgement of a promise over all systems of a matrix that it covers."""

    promise: Promise
    state: JudgementState
    systems: tuple[OnSystem, ...] = ()
    reason: str = ""
    """Reason why the promise was not judged, or empty."""

    @property
    def tried(self) -> int:
        """Number of decided tries on all systems."""
        return sum(one.tried for one in self.systems)

    def on(self, state: JudgementState) -> tuple[OnSystem, ...]:
        """Return the systems with that judgement."""
        return tuple(one for one in self.systems if one.state == state)


def promises_from(document: Mapping[str, Any]) -> tuple[Promise, ...]:
    """Parse the promises of a document like `promises.toml`, in its order. Raises KeyError for a missing field."""
    return tuple(
        Promise(
            id=entry["id"],
            era=entry["era"],
            kind=entry["kind"],
            versions=Versions.parse(entry.get("product", "cassandra"), entry["versions"]),
            says=entry["says"],
            source=tuple(entry["source"]),
            tickets=tuple(entry["tickets"]),
            tried_by=tuple(entry.get("tried_by", ())),
            modes=tuple(entry.get("modes", ())),
            faults=tuple(entry.get("faults", ())),
            shown_by=tuple(_shown_by(entry)),
            unjudged=entry.get("unjudged", ""),
        )
        for entry in document["promise"]
    )


def _shown_by(entry: Mapping[str, Any]) -> Iterable[str]:
    if "unjudged" in entry:
        return ()
    shown_by: Iterable[str] = entry["broken_by" if entry["kind"] == "promise" else "seen_by"]
    return shown_by


_DOCUMENT: Final[Mapping[str, Any]] = tomllib.loads(
    files(__package__).joinpath("promises.toml").read_text(encoding="utf-8")
)
DOCUMENTS: Final[Mapping[str, str]] = _DOCUMENT["documents"]
"""Name of a seed document in sources → its title."""
PROMISES: Final[tuple[Promise, ...]] = promises_from(_DOCUMENT)


def judgements(matrix: Matrix, promises: Iterable[Promise] = PROMISES) -> tuple[Judgement, ...]:
    """Judge every promise, in order."""
    return tuple(judge(promise, matrix) for promise in promises)


def judge(promise: Promise, matrix: Matrix) -> Judgement:
    """Judge one promise against all cells of the systems that it covers.

    It is broken (a weakness: confirmed) if it is on at least one system. It is kept (a weakness: not seen) if at least one
    try was decided and none showed it. Otherwise it is not judged, with the reason.
    """
    if promise.unjudged:
        return Judgement(promise=promise, state="not judged", reason=promise.unjudged)
    systems = [system for system in matrix.systems if system in promise.versions]
    if not systems:
        return Judgement(promise=promise, state="not judged", reason=_why_absent(promise, matrix))
    cells = [cell for cell in (*matrix.cells, *matrix.controls) if promise.is_tried_by(cell)]
    judged = tuple(_on_system(promise, system, [cell for cell in cells if cell.system == system]) for system in systems)
    states = {one.state for one in judged}
    order: tuple[JudgementState, ...] = ("broken", "confirmed", "kept", "not seen")
    state = next((state for state in order if state in states), None)
    if state is None:
        return Judgement(promise=promise, state="not judged", systems=judged, reason=_why_not(judged))
    return Judgement(promise=promise, state=state, systems=judged)


def _on_system(promise: Promise, system: str, cells: Sequence[Cell]) -> OnSystem:
    """Judge a promise on one system. `cells` are the system's cells that test the promise."""
    tried, undecided = 0, []
    for cell in cells:
        if cell.anomaly is not None:
            continue
        doubtful = next((one for one in (cell, *_judging(promise, cell, cells)) if one.state in _UNDECIDED), None)
        if doubtful is None:
            tried += cell.tried
        else:
            because = f", {doubtful.reason}" if doubtful.reason else ""
            undecided.append(f"{cell.workload}: {doubtful.state}{because}")
    shown = sorted((cell for cell in cells if promise.is_shown_by(cell)), key=lambda cell: -cell.broken / cell.tried)
    state: JudgementState
    if shown:
        state = "broken" if promise.kind == "promise" else "confirmed"
    elif tried:
        state = "kept" if promise.kind == "promise" else "not seen"
    else:
        state = "not judged"
    return OnSystem(system=system, state=state, tried=tried, shown=tuple(shown), undecided=tuple(undecided))


def _judging(promise: Promise, whole: Cell, cells: Iterable[Cell]) -> Iterable[Cell]:
    """Select the cells of the same races whose anomalies show the promise."""
    return (
        cell
        for cell in cells
        if cell.anomaly in promise.shown_by and (cell.workload, cell.condition) == (whole.workload, whole.condition)
    )


def _why_absent(promise: Promise, matrix: Matrix) -> str:
    product = promise.versions.product
    if any(system.startswith(f"{product}:") for system in matrix.systems):
        return "no version that it covers is in this matrix"
    return f"no {system_name(product)} is in this matrix"


def _why_not(judged: Iterable[OnSystem]) -> str:
    """Describe why the promise was decided on none of these systems."""
    undecided = tuple(dict.fromkeys(why for one in judged for why in one.undecided))
    return f"no try was decided ({'; '.join(undecided)})" if undecided else "nothing that tests it was run"
