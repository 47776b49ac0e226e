"""Facts: what one batch showed, race by race, and the anomalies that no race can be charged with.

A race counts if it began and its cluster still took schema changes. `suspects` are the cells of a batch that showed an
anomaly of a node or of the whole cluster while no race broke by itself: they are raced again in smaller batches until the
one to blame is alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.findings.catalogue import prominence_of
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import keyspace_of
from schemaquake.harness.model.verdict import Anomaly
from schemaquake.results.matrix.facts import attributed, doubts_at_large
from schemaquake.results.report.material import anomalies_of
from schemaquake.results.runs.execution import FinishedRun
from schemaquake.results.store.store import Store
from schemaquake.results.summary.cell import document_of
from schemaquake.results.summary.summarise import read_summary
from schemaquake.results.wording import shortened

__all__ = ["BatchFacts", "RaceFacts", "Symptom", "facts_of", "refused"]

_EXPLANATION_MOST: Final = 1500
_DOUBT_MOST: Final = 200
_SYMPTOMS_MOST: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """One anomaly of a race: its type, its title and explanation."""

    type: str
    title: str
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceFacts:
    """One race of a cell that began."""

    cell: str
    keyspace: str
    statements: tuple[str, ...]
    acknowledged: int
    """Number of its schema changes that were acknowledged."""
    symptoms: tuple[Symptom, ...] = ()
    """At most one of each type, the worst first."""
    doubts: tuple[str, ...] = ()
    """Kinds and texts of the doubts about its keyspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """The results of one batch. `run` is the run's folder, relative to the grid's folder."""

    run: str | None
    completed: bool
    applicable: bool = True
    error: str = ""
    seconds: float = 0.0
    command: str = ""
    races: tuple[RaceFacts, ...] = ()
    at_large: tuple[Symptom, ...] = ()
    """Anomalies of nodes and of the whole cluster that name no race."""
    doubts: tuple[str, ...] = ()
    """Doubts of checkers that judge the run as a whole."""

    def to_json(self) -> dict[str, Any]:
        """Return the facts as progress.jsonl holds them."""
        races = [document_of(race) | {"symptoms": [document_of(one) for one in race.symptoms]} for race in self.races]
        return document_of(self) | {"races": races, "at_large": [document_of(one) for one in self.at_large]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> BatchFacts:
        """Parse what `to_json` returned."""
        return cls(
            **{
                **document,
                "races": tuple(_race(race) for race in document["races"]),
                "at_large": tuple(Symptom(**one) for one in document["at_large"]),
                "doubts": tuple(document["doubts"]),
            }
        )


def refused(error: str, *, applicable: bool, seconds: float = 0.0, run: str | None = None) -> BatchFacts:
    """Return the facts of a batch that never began."""
    return BatchFacts(run=run, completed=False, applicable=applicable, error=error, seconds=seconds)


def facts_of(finished: FinishedRun, *, folder: str, seconds: float) -> BatchFacts:
    """Extract the facts of a judged batch. `folder` is the run's folder relative to the grid's. Raises HistoryError."""
    store = finished.store
    if not (store.path("analysis") / "races.parquet").exists():
        return refused(
            finished.error or "the run never began", applicable=finished.applicable, seconds=seconds, run=folder
        )
    summary = read_summary(store)
    by_keyspace, at_large = attributed(store, anomalies_of(finished.verdict))
    acknowledged = _acknowledged(store)
    races = []
    for race in store.read_analysis("races").to_pylist():
        keyspace = race["keyspace"]
        about = [doubt for one in summary.checkers for doubt in one.doubts_about({keyspace})]
        races.append(
            RaceFacts(
                cell=race["variant"],
                keyspace=keyspace,
                statements=tuple(text for side in race["sides"] for text in side),
                acknowledged=acknowledged.get(keyspace, 0),
                symptoms=_symptoms(by_keyspace.get(keyspace, ())),
                doubts=tuple(dict.fromkeys(f"{one.kind}: {shortened(one.text, _DOUBT_MOST)}" for one in about)),
            )
        )
    return BatchFacts(
        run=folder,
        completed=summary.completed,
        error=summary.error or "",
        seconds=round(seconds, 1),
        command=finished.plan.command(),
        races=tuple(races),
        at_large=_symptoms([one for one in at_large if one.type not in _everywhere(by_keyspace)]),
        doubts=tuple(f"{one.kind}: {shortened(one.text, _DOUBT_MOST)}" for one in doubts_at_large(summary)),
    )


def _everywhere(by_keyspace: Mapping[str, Sequence[Anomaly]]) -> frozenset[str]:
    """Collect the types of anomaly that races were charged with."""
    return frozenset(one.type for some in by_keyspace.values() for one in some)


def _symptoms(anomalies: Sequence[Anomaly]) -> tuple[Symptom, ...]:
    worst_first = sorted(anomalies, key=lambda one: (-prominence_of(one.type), one.type))
    first = {one.type: one for one in reversed(worst_first)}
    found = [first[name] for name in dict.fromkeys(one.type for one in worst_first)]
    return tuple(
        Symptom(type=one.type, title=one.title, explanation=shortened(one.explanation, _EXPLANATION_MOST))
        for one in found[:_SYMPTOMS_MOST]
    )


def _acknowledged(store: Store) -> dict[str, int]:
    """Count, by keyspace, the schema changes that were acknowledged after its race began: those of its sides."""
    notes = store.read_history().select(["time", "process", "f", "key"])
    notes = notes.filter(pc.and_(pc.equal(notes["process"], NEMESIS), pc.equal(notes["f"], "race")))
    began = {row["key"]: row["time"] for row in notes.to_pylist()}
    operations = store.read_analysis("operations").select(["key", "f", "type", "invoked"])
    changes = operations.filter(pc.is_in(operations["f"], pa.array(sorted(SCHEMA_CHANGES))))
    counted: dict[str, int] = {}
    for row in changes.to_pylist():
        keyspace = keyspace_of(row["key"])
        if row["type"] == "ok" and row["invoked"] >= began.get(keyspace, math.inf):
            counted[str(keyspace)] = counted.get(str(keyspace), 0) + 1
    return counted


def _race(document: Mapping[str, Any]) -> RaceFacts:
    texts = {name: tuple(document[name]) for name in ("statements", "doubts")}
    return RaceFacts(**{**document, **texts, "symptoms": tuple(Symptom(**one) for one in document["symptoms"])})
