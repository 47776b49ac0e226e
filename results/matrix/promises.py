"""Promises: what each line of releases said of its schema changes, held against what a matrix found.

`promises.toml` beside this file has every promise and every weakness owned up to, in our words, with the passage of the
seed document or the ticket it comes from. A promise is broken by certain anomalies and kept by tries without any of them;
a weakness is confirmed by them. Where nothing was decided nothing is judged: a version that was not tried kept nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

from schemaquake.results.matrix.eras import Versions
from schemaquake.results.matrix.tally import Matrix
from schemaquake.results.summary.cell import Cell
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
"""In place of a type: whatever is found contradicts the promise."""

_UNDECIDED: Final = frozenset({"unknown", "not run"})

CONTROL: Final = "single"
"""The mode of the controls: no promise is judged by it that does not name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One sentence about a line of releases, and what would show that it is not so (or, of a weakness, that it is).

    `source` are passages as `seed 1, Concurrency`. `shown_by` are anomaly types, or `ANY_ANOMALY`, that contradict a
    promise or confirm a weakness; `tried_by` are the workloads and `modes` the modes whose races try it, all workloads
    and every mode but the controls' where none is named, and of `faults` one must have been at work where any is named.
    With `unjudged` no matrix can judge it, and that is why.
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
        """Whether that cell's races put it to the test."""
        if cell.mode not in self.modes if self.modes else cell.mode == CONTROL:
            return False
        if self.faults and not set(self.faults) & set(cell.nemeses):
            return False
        return not self.tried_by or cell.workload in self.tried_by

    def is_shown_by(self, cell: Cell) -> bool:
        """Whether that cell contradicts the promise, or confirms the weakness."""
        if cell.state != "broke" or not self.is_tried_by(cell):
            return False
        return cell.anomaly is None if ANY_ANOMALY in self.shown_by else cell.anomaly in self.shown_by


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSystem:
    """What became of a promise on one system."""

    system: str
    state: JudgementState
    tried: int
    """Decided tries of the workloads that try it."""
    shown: tuple[Cell, ...] = ()
    """The cells that contradict or confirm it, the highest rate first. A race may be counted in several of them."""
    undecided: tuple[str, ...] = ()
    """Workloads that would have tried it, with what became of them: `drop-type: unknown, the cluster never settled`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What became of a promise on all systems of a matrix that it holds for."""

    promise: Promise
    state: JudgementState
    systems: tuple[OnSystem, ...] = ()
    reason: str = ""
    """Why it was not judged."""

    @property
    def tried(self) -> int:
        """Decided tries on all systems."""
        return sum(one.tried for one in self.systems)

    def on(self, state: JudgementState) -> tuple[OnSystem, ...]:
        """The systems on which that became of it."""
        return tuple(one for one in self.systems if one.state == state)


def promises_from(document: Mapping[str, Any]) -> tuple[Promise, ...]:
    """The promises of a document like `promises.toml`, in its order. Raises KeyError for a field that is missing."""
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
"""The seed documents by the name that sources use, with their titles."""
PROMISES: Final[tuple[Promise, ...]] = promises_from(_DOCUMENT)


def judgements(matrix: Matrix, promises: Iterable[Promise] = PROMISES) -> tuple[Judgement, ...]:
    """Every promise judged, in order."""
    return tuple(judge(promise, matrix) for promise in promises)


def judge(promise: Promise, matrix: Matrix) -> Judgement:
    """Hold one promise against all that was found on the systems it was made for.

    Broken (a weakness: confirmed) if it is so on any of them; kept (not seen) if tries were decided on some and none
    showed it; else not judged, with the reason.
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
    """`cells` are those of the system that try the promise."""
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
    """The cells of the same races that say of one anomaly each whether it shows the promise."""
    return (
        cell
        for cell in cells
        if cell.anomaly in promise.shown_by and (cell.workload, cell.condition) == (whole.workload, whole.condition)
    )


def _why_absent(promise: Promise, matrix: Matrix) -> str:
    product = promise.versions.product
    if any(system.startswith(f"{product}:") for system in matrix.systems):
        return "no version that it holds for is in this matrix"
    return f"no {system_name(product)} is in this matrix"


def _why_not(judged: Iterable[OnSystem]) -> str:
    """Of systems on which nothing was decided."""
    undecided = tuple(dict.fromkeys(why for one in judged for why in one.undecided))
    return f"no try was decided ({'; '.join(undecided)})" if undecided else "nothing that would try it was run"
