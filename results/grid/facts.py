"""Facts: what one batch showed, race by race, and the anomalies that no race can be charged with.

A race counts if it began and its cluster still took schema changes. Where nothing but consequences is seen of a race, on a
cluster on which an earlier race left definitions that no node can load, that race is in doubt and is raced again: its node may
have stopped to apply schema changes before. So is every race of a cluster whose schema versions still differed after the setup: what it
raced with is not known. An anomaly that names nothing but a canary says so of its cluster, not of the last race: if a node did not
know canaries, and no race left what stops a node, races that lack the same on a node are in doubt, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.findings.catalogue import CATALOGUE, halts_changes, prominence_of
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import SERVER_DIGEST
from schemaquake.harness.model.records import keyspace_of
from schemaquake.harness.model.verdict import Anomaly, Doubt
from schemaquake.results.findings.description import title_of
from schemaquake.results.findings.finding import Finding
from schemaquake.results.grid.silence import without_silence
from schemaquake.results.matrix.facts import attributed, doubts_at_large
from schemaquake.results.matrix.setup_agreement import BEGUN_APART, setup_agreed
from schemaquake.results.report.material import anomalies_of
from schemaquake.results.runs.execution import FinishedRun
from schemaquake.results.store.store import Store
from schemaquake.results.summary.cell import document_of
from schemaquake.results.summary.run_summary import RunSummary
from schemaquake.results.summary.summarise import read_summary
from schemaquake.results.wording import shortened

__all__ = [
    "BatchFacts",
    "FoundCause",
    "RaceFacts",
    "Symptom",
    "begun_alike",
    "facts_of",
    "is_behind",
    "is_divided",
    "outlived",
    "refused",
    "seen_again",
    "without_consequences",
]

_LAST_PHASE: Final = "final-restarted"
_SILENT: Final = "undecided: nodes gave no answers about tables of several races on its cluster"
_NODE_DIED: Final = "undecided: a node of its cluster ended while it raced, or just after"
_BEHIND: Final = frozenset({"invisible-change", "vanished-object"})
"""What is seen of a node that applies no schema changes any more."""
_STOPPED: Final = "a node of its cluster applied no schema changes any more, for no reason that a race shows"
_NEVER_RESTARTED: Final = "unread: no node of its cluster started again"
_EXPLANATION_MOST: Final = 1500
_DOUBT_MOST: Final = 200
_SYMPTOMS_MOST: Final = 8
_FOLLOWS: Final = frozenset({"non-linearizable-ddl"})
"""What follows from it in the same keyspace, and is no consequence by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """One anomaly of a race: its type, its title and explanation."""

    type: str
    title: str
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCause:
    """The finding that a broken race belongs to (`schemaquake.results.findings`), in short."""

    id: str
    title: str
    tickets: tuple[str, ...] = ()
    page: str | None = None
    """Where our documentation describes it; None for a finding that is on no page."""
    known: bool = False
    """True if the project's list of known findings has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceFacts:
    """One race of a cell that began."""

    cell: str
    keyspace: str
    statements: tuple[str, ...]
    acknowledged: int
    """Number of its schema changes that were acknowledged."""
    unanswered: int = 0
    """Number of those whose outcome is unknown; 0 in facts that were recorded before it was counted."""
    symptoms: tuple[Symptom, ...] = ()
    """At most one of each type, the worst first."""
    finding: FoundCause | None = None
    """None for a race that did not break."""
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
    server: str = ""
    """Digest of the server's software; empty where the cluster's provider tells none, and in facts recorded before it was."""

    def to_json(self) -> dict[str, Any]:
        """Return the facts as progress.jsonl holds them."""
        races = [
            document_of(race)
            | {
                "symptoms": [document_of(one) for one in race.symptoms],
                "finding": None if race.finding is None else document_of(race.finding),
            }
            for race in self.races
        ]
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
                "server": document.get("server") or "",
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
    found, at_large = attributed(store, anomalies_of(finished.verdict))
    named = {
        keyspace: [one for one in some if not one.objects or keyspace in map(keyspace_of, one.objects)]
        for keyspace, some in found.items()
    }
    by_keyspace, shared, silent = without_silence(named)
    at_large = [*at_large, *(one for one in shared if one not in at_large)]
    races = _races(store, summary, by_keyspace, silent)
    notes = Notes(store.read_history())
    agreed = setup_agreed(notes.settles)
    at_once = _at_once(finished.plan, len(races))
    blamed = any(one.type == "node-died" for one in anomalies_of(finished.verdict))
    alive = outlived(races, deaths=len(notes.deaths), blamed=blamed, at_once=at_once)
    decided = seen_again(
        without_consequences(
            list(alive),
            at_once=at_once,
            divided=is_divided(chain(at_large, *found.values())),
            behind=is_behind(at_large),
        ),
        started=finished.plan.restart == "none" or any(phase.name == _LAST_PHASE for phase in summary.phases),
    )
    return BatchFacts(
        run=folder,
        completed=summary.completed,
        error=summary.error or "",
        seconds=round(seconds, 1),
        command=finished.plan.command(),
        races=tuple(begun_alike(decided, agreed=agreed)),
        at_large=() if not agreed else _symptoms([one for one in at_large if one.type not in _everywhere(by_keyspace)]),
        doubts=tuple(_render_doubt(one) for one in doubts_at_large(summary)),
        server=_server(store),
    )


def _render_doubt(doubt: Doubt) -> str:
    return f"{doubt.kind}: {shortened(doubt.text, _DOUBT_MOST)}"


def _races(
    store: Store, summary: RunSummary, by_keyspace: Mapping[str, Sequence[Anomaly]], silent: Collection[str]
) -> list[RaceFacts]:
    """Return the facts of each race that began, as if there were no other. `silent`: keyspaces charged with what several races share."""
    outcomes = _outcomes(store)
    causes = {keyspace: finding for finding in summary.findings for keyspace in finding.races}
    races = []
    for race in store.read_analysis("races").to_pylist():
        keyspace = race["keyspace"]
        about = [doubt for one in summary.checkers for doubt in one.doubts_about({keyspace})]
        cause = causes.get(keyspace)
        symptoms = _symptoms(by_keyspace.get(keyspace, ()), cause)
        races.append(
            RaceFacts(
                cell=race["variant"],
                keyspace=keyspace,
                statements=tuple(text for side in race["sides"] for text in side),
                acknowledged=outcomes[keyspace, "ok"],
                unanswered=outcomes[keyspace, "info"],
                symptoms=symptoms,
                finding=None if cause is None or not symptoms else _found(cause),
                doubts=(
                    *dict.fromkeys(_render_doubt(one) for one in about),
                    *([_SILENT] if keyspace in silent else []),
                ),
            )
        )
    return races


def _server(store: Store) -> str:
    """Return the digest of the software that ran; empty for a run whose provider has none."""
    try:
        environment = orjson.loads(store.path("environment.json").read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return ""
    return str(environment.get(SERVER_DIGEST, "")) if isinstance(environment, dict) else ""


def _at_once(plan: Plan, races: int) -> int:
    """Return the number of races whose changes were spread together: a round of lanes; all of them under a cut, which they cross together."""
    return races if plan.options.get("mode") == "partition" else int(plan.options.get("lanes", 1))


def is_divided(shown: Iterable[Anomaly | Symptom]) -> bool:
    """Tell if nodes still had different schemas when their cluster had settled, by all that it showed."""
    return any(one.type == "schema-disagreement" for one in shown)


def is_behind(at_large: Iterable[Anomaly | Symptom]) -> bool:
    """Tell if a node applied no schema changes any more, by what it lacked of objects that belong to no race: canaries."""
    return any(one.type in _BEHIND for one in at_large)


@cache
def _seen_elsewhere(*, divided: bool) -> frozenset[str]:
    """List what an anomaly that stops a node's changes may show in other keyspaces; `divided`: nodes no longer merge what others have."""
    ways = {"stopped", "divided"} if divided else {"stopped"}
    return frozenset(name for name, known in CATALOGUE.items() if known.elsewhere in ways)


def without_consequences(
    races: Sequence[RaceFacts], *, at_once: int = 1, divided: bool = False, behind: bool = False
) -> Iterator[RaceFacts]:
    """Put in doubt each race that shows nothing but what another race, or its cluster, may have brought over it.

    `races` are those of one cluster, in the order in which they began, so many at a time. An earlier race may have brought it, and so may
    any other of the same round. `divided` is True if nodes still had different schemas in the end: they may no longer have merged each
    other's changes. `behind` is True if a node had stopped to apply changes: if no race explains that, any race may have met it,
    but for those that are known to do what they did.
    """
    spreads = _FOLLOWS | _seen_elsewhere(divided=divided)
    may_lack = _seen_elsewhere(divided=divided) - _seen_elsewhere(divided=False)
    types = [{symptom.type for symptom in race.symptoms} for race in races]
    poisonous = [place for place, shown in enumerate(types) if any(map(halts_changes, shown))]
    for place, (race, shown) in enumerate(zip(races, types, strict=True)):
        others = [other for other in poisonous if other != place and other // at_once <= place // at_once]
        is_known = race.finding is not None and race.finding.known
        is_met = behind and not (poisonous or is_known) and shown <= _FOLLOWS | _BEHIND | may_lack
        if (is_met or (others and shown <= spreads)) and shown - _FOLLOWS:
            why = f"{races[others[0]].cell} left what nodes cannot load on this cluster" if others else _STOPPED
            doubt = f"undecided: {', '.join(sorted(shown))}, but {why}"
            yield replace(race, symptoms=(), finding=None, doubts=(*race.doubts, doubt))
        else:
            yield race


def seen_again(races: Iterable[RaceFacts], *, started: bool) -> Iterator[RaceFacts]:
    """Put in doubt each race that broke nothing so far, if no node started again: what a restart would have shown is not known."""
    for race in races:
        yield race if started or race.symptoms else replace(race, doubts=(*race.doubts, _NEVER_RESTARTED))


def outlived(races: Sequence[RaceFacts], *, deaths: int, blamed: bool, at_once: int) -> Iterator[RaceFacts]:
    """Put in doubt the races under way when a node's process ended: those of the last round, for no further one begins without a canary.

    `blamed` is True if the server itself ended it, and so perhaps because of a race: one that broke then counts. It does not if the node was killed from outside.
    """
    for place, race in enumerate(races):
        if not deaths or place // at_once < (len(races) - 1) // at_once or (blamed and race.symptoms):
            yield race
        else:
            yield replace(race, symptoms=(), finding=None, doubts=(*race.doubts, _NODE_DIED))


def begun_alike(races: Iterable[RaceFacts], *, agreed: bool) -> Iterator[RaceFacts]:
    """Put in doubt all races of a cluster that had not agreed on the schema before them: they raced with the setup, too."""
    for race in races:
        yield (
            race
            if agreed
            else replace(race, symptoms=(), finding=None, doubts=(*race.doubts, f"undecided: {BEGUN_APART}"))
        )


def _found(finding: Finding) -> FoundCause:
    known = finding.known
    return FoundCause(
        id=finding.id,
        title=title_of(finding),
        tickets=() if known is None else known.tickets,
        page=None if known is None else known.page,
        known=known is not None,
    )


def _everywhere(by_keyspace: Mapping[str, Sequence[Anomaly]]) -> frozenset[str]:
    """Collect the types of anomaly that races were charged with."""
    return frozenset(one.type for some in by_keyspace.values() for one in some)


def _symptoms(anomalies: Sequence[Anomaly], cause: Finding | None = None) -> tuple[Symptom, ...]:
    """List one symptom of each type, the worst first: in the order of their finding, if they have one."""
    order = {symptom.type: place for place, symptom in enumerate(() if cause is None else reversed(cause.symptoms))}
    worst_first = sorted(anomalies, key=lambda one: (-order.get(one.type, -1), -prominence_of(one.type), one.type))
    first = {one.type: one for one in reversed(worst_first)}
    found = [first[name] for name in dict.fromkeys(one.type for one in worst_first)]
    return tuple(
        Symptom(type=one.type, title=one.title, explanation=shortened(one.explanation, _EXPLANATION_MOST))
        for one in found[:_SYMPTOMS_MOST]
    )


def _outcomes(store: Store) -> Counter[tuple[str, str]]:
    """Count, by keyspace and outcome, the schema changes that were asked for after its race began: those of its sides."""
    notes = store.read_history().select(["time", "process", "f", "key"])
    notes = notes.filter(pc.and_(pc.equal(notes["process"], NEMESIS), pc.equal(notes["f"], "race")))
    began = {row["key"]: row["time"] for row in notes.to_pylist()}
    operations = store.read_analysis("operations").select(["key", "f", "type", "invoked"])
    changes = operations.filter(pc.is_in(operations["f"], pa.array(sorted(SCHEMA_CHANGES))))
    return Counter(
        (str(keyspace_of(row["key"])), row["type"])
        for row in changes.to_pylist()
        if row["invoked"] >= began.get(keyspace_of(row["key"]), math.inf)
    )


def _race(document: Mapping[str, Any]) -> RaceFacts:
    texts = {name: tuple(document[name]) for name in ("statements", "doubts")}
    symptoms = tuple(Symptom(**one) for one in document["symptoms"])
    found = document.get("finding")
    finding = None if found is None else FoundCause(**{**found, "tickets": tuple(found["tickets"])})
    unanswered = document.get("unanswered") or 0
    return RaceFacts(**{**document, **texts, "symptoms": symptoms, "finding": finding, "unanswered": unanswered})
