"""Facts: the results of one run of a matrix, race by race, and the anomalies that cannot be attributed to a race.

An anomaly `at large` (`schemaquake.results.tables.attribution`) concerns the cluster as a whole. In a run of one kind of race
it is attributed to that kind. In a run shared by several kinds it cannot be attributed, and it may also have caused what the
other kinds show afterwards. Such a run counts for none of them, and each kind is run alone (`RunFacts.ambiguous`). A run that began
before its nodes had agreed on the setup decides nothing (`schemaquake.results.matrix.setup_agreement`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.notes import Notes
from schemaquake.harness.errors import SchemaquakeError
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, plain
from schemaquake.harness.model.verdict import Anomaly, Doubt
from schemaquake.harness.model.verdict_upgrade import upgrade_doubt
from schemaquake.results.findings.tracking import JudgedRun
from schemaquake.results.matrix.setup_agreement import BEGUN_APART, setup_agreed
from schemaquake.results.report.material import Race, anomalies_of, races_of
from schemaquake.results.runs.execution import FinishedRun
from schemaquake.results.store.store import Store, read_table
from schemaquake.results.summary.cell import Evidence
from schemaquake.results.summary.run_summary import RunSummary
from schemaquake.results.summary.summarise import read_summary
from schemaquake.results.tables.attribution import attribute_all, read_ground
from schemaquake.results.wording import shortened

__all__ = [
    "JUDGE_LIMIT_S",
    "Finding",
    "RaceFacts",
    "RunFacts",
    "attributed",
    "begun_apart",
    "doubts_at_large",
    "facts_of",
    "refused",
]

JUDGE_LIMIT_S: Final = 60
"""Time limit of each checker for one run of a matrix, s."""

_REASON_MOST: Final = 300
_EXPLANATION_MOST: Final = 4000
_LINES_MOST: Final = 5
_LINE_MOST: Final = 400
_RUN: Final = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceFacts:
    """One race that began."""

    keyspace: str
    workload: str
    number: int
    acknowledged: int
    """Number of acknowledged operations. A race without one proves nothing."""
    anomalies: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """The first anomaly of a type among a workload's races. `workload` is None for an anomaly at large."""

    workload: str | None
    anomaly: str
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The results of one run. `run` and the paths of its evidence are relative to the matrix' folder."""

    run: str | None
    """Folder of the run; None if the run was refused before it had one."""
    completed: bool
    applicable: bool = True
    error: str = ""
    seconds: float = 0.0
    races: tuple[RaceFacts, ...] = ()
    at_large: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    """Doubts of checkers that judge the run as a whole."""
    findings: tuple[Finding, ...] = ()
    judged: JudgedRun | None = None
    """The run's anomalies by cause, and what it tried; None for a run that never began, and in matrices of 0.1."""

    @property
    def kinds(self) -> frozenset[str]:
        """Workloads whose races began."""
        return frozenset(race.workload for race in self.races)

    @property
    def ambiguous(self) -> bool:
        """True if the run has an anomaly at large that several kinds of race may have caused."""
        return bool(self.at_large) and len(self.kinds) > 1

    def to_json(self) -> dict[str, Any]:
        """Return the facts as they are stored in progress.jsonl."""
        return {
            "run": self.run,
            "completed": self.completed,
            "applicable": self.applicable,
            "error": self.error,
            "seconds": round(self.seconds, 1),
            "races": [_race_document(race) for race in self.races],
            "at_large": list(self.at_large),
            "doubts": [doubt.to_json() for doubt in self.doubts],
            "findings": [[one.workload, one.anomaly, one.evidence.to_json()] for one in self.findings],
            "judged": None if self.judged is None else self.judged.to_json(),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunFacts:
        """Parse what `to_json` returned."""
        judged = document.get("judged")
        return cls(
            **{
                **document,
                "judged": None if judged is None else JudgedRun.from_json(judged),
                "races": tuple(_race(race) for race in document["races"]),
                "at_large": tuple(document["at_large"]),
                "doubts": tuple(_read_doubt(doubt) for doubt in document["doubts"]),
                "findings": tuple(
                    Finding(workload, anomaly, Evidence.from_json(evidence))
                    for workload, anomaly, evidence in document["findings"]
                ),
            }
        )


def refused(error: str, *, applicable: bool, seconds: float = 0.0, run: str | None = None) -> RunFacts:
    """Return the facts of a run that never began."""
    return RunFacts(run=run, completed=False, applicable=applicable, error=error, seconds=seconds)


def facts_of(finished: FinishedRun, *, folder: str, seconds: float) -> RunFacts:
    """Extract the facts of a judged run. `folder` is the run's folder relative to the matrix' folder. Raises HistoryError."""
    store = finished.store
    if not (store.path("analysis") / "races.parquet").exists():
        return refused(
            finished.error or "the run never began", applicable=finished.applicable, seconds=seconds, run=folder
        )
    summary = read_summary(store)
    anomalies = anomalies_of(finished.verdict)
    raced = races_of(store.read_analysis("races"))
    by_keyspace, at_large = attributed(store, anomalies)
    facts = RunFacts(
        run=folder,
        completed=summary.completed,
        error=summary.error or "",
        seconds=seconds,
        races=tuple(
            RaceFacts(
                keyspace=race.keyspace,
                workload=race.workload,
                number=race.number,
                acknowledged=race.ok,
                anomalies=tuple(sorted({one.type for one in by_keyspace.get(race.keyspace, ())})),
                doubts=_doubts_of(summary, race.keyspace),
            )
            for race in raced
        ),
        at_large=tuple(sorted({one.type for one in at_large})),
        doubts=doubts_at_large(summary),
        findings=_findings(finished, raced, by_keyspace, at_large, folder),
        judged=replace(summary.judged(), run=folder),
    )
    return facts if setup_agreed(Notes(store.read_history()).settles) else begun_apart(facts)


def begun_apart(facts: RunFacts) -> RunFacts:
    """Put a run in doubt whose schema versions had not agreed before its races: they raced with the setup, too."""
    return replace(
        facts,
        races=tuple(replace(race, anomalies=()) for race in facts.races),
        at_large=(),
        findings=(),
        judged=None,
        doubts=(*facts.doubts, Doubt("undecided", BEGUN_APART, checker=_RUN)),
    )


# ── attribution ──────────────────────────────────────────────────────────────────────────────────────────────────────


def attributed(store: Store, anomalies: Sequence[Anomaly]) -> tuple[Mapping[str, list[Anomaly]], list[Anomaly]]:
    """Map each race's keyspace to its anomalies, and list the anomalies at large."""
    notes = read_table(
        store.path("history.parquet"),
        pa.schema([HISTORY.field(name) for name in ("process", "f", "key", "value")]),
        keep=lambda events: events.filter(pc.equal(events["process"], NEMESIS)),
    )
    attributions = attribute_all(anomalies, read_ground(notes), store.read_analysis("operations"))
    by_keyspace: dict[str, list[Anomaly]] = {}
    for anomaly, attribution in zip(anomalies, attributions, strict=True):
        for keyspace in attribution.races:
            by_keyspace.setdefault(keyspace, []).append(anomaly)
    at_large = [one for one, attribution in zip(anomalies, attributions, strict=True) if attribution.at_large]
    return by_keyspace, at_large


def doubts_at_large(summary: RunSummary) -> tuple[Doubt, ...]:
    """Collect the doubts about the run as a whole. A checker that had nothing to judge is a doubt, too."""
    doubts = []
    if not summary.completed:
        doubts.append(Doubt("incomplete-run", f"the run was not completed: {summary.error}", checker=_RUN))
    for one in summary.checkers:
        if one.valid == "unknown" and one.undecided is None:
            doubts += [_in_short(replace(doubt, checker=one.checker)) for doubt in one.doubts]
    if not summary.checkers and summary.valid == "unknown":
        doubts += [_in_short(replace(doubt, checker=_RUN)) for doubt in summary.doubts]
    return tuple(dict.fromkeys(doubts))


def _doubts_of(summary: RunSummary, keyspace: str) -> tuple[Doubt, ...]:
    """Collect the doubts about one race's keyspace, without naming the keyspace."""
    return tuple(_in_short(doubt) for one in summary.checkers for doubt in one.doubts_about({keyspace}))


def _in_short(doubt: Doubt) -> Doubt:
    return replace(doubt, text=shortened(doubt.text, _REASON_MOST))


# ── evidence ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _findings(
    finished: FinishedRun,
    raced: Sequence[Race],
    by_keyspace: Mapping[str, Sequence[Anomaly]],
    at_large: Sequence[Anomaly],
    folder: str,
) -> tuple[Finding, ...]:
    """Select one finding per workload and type, and one per type at large, each with its evidence."""
    logs = _Logs(finished.store)
    found: dict[tuple[str | None, str], Finding] = {}
    for race in raced:
        for anomaly in by_keyspace.get(race.keyspace, ()):
            identity = (race.workload, anomaly.type)
            if identity not in found:
                evidence = _evidence(finished, anomaly, race, logs, folder)
                found[identity] = Finding(race.workload, anomaly.type, evidence)
    # If all races are of one kind, any race is an example of the statements that caused an anomaly at large.
    example = raced[0] if len({race.workload for race in raced}) == 1 else None
    for anomaly in at_large:
        if (None, anomaly.type) not in found:
            evidence = _evidence(finished, anomaly, None, logs, folder)
            if example is not None:
                evidence = replace(evidence, statements=example.sides)
            found[None, anomaly.type] = Finding(None, anomaly.type, evidence)
    return tuple(found.values())


def _evidence(finished: FinishedRun, anomaly: Anomaly, race: Race | None, logs: _Logs, folder: str) -> Evidence:
    return Evidence(
        run=folder,
        keyspace=None if race is None else race.keyspace,
        title=anomaly.title,
        explanation=shortened(anomaly.explanation, _EXPLANATION_MOST),
        statements=() if race is None else race.sides,
        log_lines=logs.about(anomaly, None if race is None else race.keyspace),
        command=finished.plan.command(),
        report=f"{folder}/report.html" if finished.report.exists() else None,
    )


class _Logs:
    """The warnings and errors in the logs of a run's nodes, read on first use."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: list[dict[str, Any]] | None = None

    def about(self, anomaly: Anomaly, keyspace: str | None) -> tuple[str, ...]:
        """Return the log lines quoted in the anomaly's evidence, or else those that name its objects or the race's keyspace; each line once."""
        quoted = list(_quoted(anomaly))
        if not quoted:
            names = [name for name in (*anomaly.objects, *([keyspace] if keyspace else ())) if name]
            quoted = [
                (row["node"], f"{row['level']} {row['message']} {_exception(row['stack'])}".strip())
                for row in self._all()
                if any(name in row["message"] or name in (row["stack"] or "") for name in names)
            ]
        each: dict[str, str] = {}
        for node, line in quoted:
            each.setdefault(line, node)
        lines = [f"{node}: {shortened(line, _LINE_MOST)}" for line, node in each.items()]
        return tuple(lines[:_LINES_MOST])

    def _all(self) -> list[dict[str, Any]]:
        if self._rows is None:
            try:
                self._rows = plain(self._store.read_logs()).to_pylist()
            except SchemaquakeError:
                self._rows = []  # the verdict does not depend on the logs, and neither does the page
        return self._rows


def _quoted(anomaly: Anomaly) -> list[tuple[str, str]]:
    """Return the (node, line) pairs of logs quoted in an anomaly's evidence."""
    evidence = anomaly.evidence if isinstance(anomaly.evidence, Mapping) else {}
    first_error = evidence.get("first_error")
    if isinstance(first_error, str) and first_error:
        lines = [line.strip() for line in first_error.splitlines() if line.strip()]
        messages = [line for line in lines if not line.startswith("at ")]
        return [(anomaly.nodes[0] if anomaly.nodes else "-", line) for line in messages]
    first = evidence.get("first")
    if not isinstance(first, Mapping):
        return []
    return [
        (node, f"{entry.get('level', '')} {entry.get('message', '')} {_exception(entry.get('stack'))}".strip())
        for node, entry in first.items()
        if isinstance(entry, Mapping)
    ]


def _exception(stack: str | None) -> str:
    """Return the first line of a stack trace that is not a frame."""
    lines = [line.strip() for line in (stack or "").splitlines()]
    return next((line for line in lines if line and not line.startswith("at ")), "")


# ── as JSON ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _race_document(race: RaceFacts) -> dict[str, Any]:
    return {
        "keyspace": race.keyspace,
        "workload": race.workload,
        "number": race.number,
        "acknowledged": race.acknowledged,
        "anomalies": list(race.anomalies),
        "doubts": [doubt.to_json() for doubt in race.doubts],
    }


def _read_doubt(document: Mapping[str, Any] | Sequence[str]) -> Doubt:
    """Parse what `Doubt.to_json` returned, or the (checker, reason) of version 0.1."""
    if isinstance(document, Mapping):
        return Doubt.from_json(document)
    checker, reason = document
    return Doubt.from_json(upgrade_doubt(reason, checker=checker))


def _race(document: Mapping[str, Any]) -> RaceFacts:
    race = RaceFacts(**{**document, "anomalies": tuple(document["anomalies"]), "doubts": ()})
    return replace(race, doubts=tuple(_read_doubt(doubt) for doubt in document["doubts"]))
