"""Run summary: the plan, the races, the anomalies and the doubts of one run, as stored in `summary.json`.

Built by `schemaquake.results.summary.summarise` when the run is judged. Pages of many runs (comparison, matrix) read it
instead of verdicts and histories. The anomalies of a race are those in `analysis/races.parquet`. `anomalies` lists all
anomalies, including those of no race.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from schemaquake.harness.checked_values import require_types
from schemaquake.harness.model.records import keyspace_of
from schemaquake.harness.model.verdict import Doubt, Validity, describe_doubts
from schemaquake.results.findings.finding import Finding
from schemaquake.results.findings.tracking import JudgedRace, JudgedRun

__all__ = [
    "CONTROL",
    "SUMMARY_SCHEMA",
    "CheckerSummary",
    "FoundAnomaly",
    "KindSummary",
    "PhaseSummary",
    "RaceSummary",
    "RunSummary",
]

CONTROL: Final = "single"
"""The mode of controls: the same statements one after another through one coordinator, which cannot race."""

SUMMARY_SCHEMA: Final = 2
"""Version of the format. A reader rebuilds a summary of another version from the verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSummary:
    """A phase of the run, by the conductor's name for it. Times in seconds since the run started."""

    name: str
    begins_s: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceSummary:
    """One race that began. `anomalies` are types, sorted; `ok`, `fail` and `info` count its operations."""

    keyspace: str
    workload: str
    variant: str | None
    number: int
    mode: str
    anomalies: tuple[str, ...]
    ok: int
    fail: int
    info: int
    statements: tuple[str, ...] = ()
    """Shapes of the contested statements (`schemaquake.results.findings.shapes`)."""
    decided: bool = False
    """True if an operation was acknowledged and every check decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckerSummary:
    """The verdict of one checker, without its anomalies and statistics.

    `undecided` are the keyspaces that are unknown in a verdict per keyspace; None for a verdict on the run as a whole.
    """

    checker: str
    valid: Validity
    doubts: tuple[Doubt, ...] = ()
    undecided: tuple[str, ...] | None = None

    @property
    def judged_nothing(self) -> bool:
        """True if the checker's question did not arise."""
        return self.valid == "unknown" and bool(self.doubts) and not any(doubt.weighs for doubt in self.doubts)

    def doubts_about(self, keyspaces: Collection[str]) -> tuple[Doubt, ...]:
        """Return the doubts that leave any of these keyspaces undecided, with the checker's name."""
        concerned = frozenset(keyspaces) & frozenset(self.undecided or ())
        mine = [doubt for doubt in self.doubts if any(keyspace_of(name) in concerned for name in doubt.objects)]
        return tuple(replace(doubt, objects=(), checker=self.checker) for doubt in mine)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAnomaly:
    """All anomalies of one type in the same keyspaces on the same nodes."""

    type: str
    title: str
    keyspaces: tuple[str, ...]
    nodes: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSummary:
    """The races of one workload: begun, broken, and broken per type of anomaly."""

    workload: str
    tried: int
    broken: int
    anomalies: Mapping[str, int]
    ok: int
    """Number of acknowledged operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One judged run. Lists are in the order of the run, and empty if the run had no such entries."""

    run: str
    """Name of the run's folder."""
    schemaquake_version: str
    system: str
    cluster: str
    nodes: int
    workloads: tuple[str, ...]
    mode: str
    nemeses: tuple[str, ...]
    seed: int
    started: str | None
    """UTC, ISO 8601; None if the journals were not kept."""
    seconds: float
    """Time from the start to the last recorded event or observation."""
    completed: bool
    applicable: bool
    """False if the system lacks a feature that a workload needs; the run was then not started."""
    error: str | None
    """Reason why the run was not completed, or None."""
    valid: Validity
    phases: tuple[PhaseSummary, ...] = ()
    operations: Mapping[str, int] = field(default_factory=dict)
    """Outcome (`ok`, `fail`, `info`) → number of operations of the whole run."""
    races: tuple[RaceSummary, ...] = ()
    findings: tuple[Finding, ...] = ()
    """The anomalies by cause, the worst first; they are named by their places in verdict.json."""
    anomalies: tuple[FoundAnomaly, ...] = ()
    checkers: tuple[CheckerSummary, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    """Doubts about the run itself; doubts of checkers are in `checkers`."""
    nodes_not_started: tuple[str, ...] = ()
    """Nodes whose last start failed."""

    @property
    def kinds(self) -> tuple[KindSummary, ...]:
        """The races added up by workload, in order of name."""
        names = sorted({race.workload for race in self.races})
        return tuple(_kind(name, [race for race in self.races if race.workload == name]) for name in names)

    def judged(self) -> JudgedRun:
        """Return what tracking a finding over several runs needs of this one; a control is no try of anything."""
        is_control = self.mode == CONTROL
        return JudgedRun(
            system=self.system,
            run=self.run,
            valid=self.valid is True and not is_control,
            workloads=self.workloads,
            nemeses=self.nemeses,
            findings=self.findings,
            races=tuple(
                JudgedRace(race.statements, broken=bool(race.anomalies), decided=race.decided)
                for race in self.races
                if not is_control
            ),
            started=self.started,
        )

    def reasons(self) -> tuple[str, ...]:
        """Return the reasons why the run, or a check that counts, is undecided."""
        doubts = [doubt for doubt in self.doubts if doubt.weighs]
        for one in self.checkers:
            if one.valid == "unknown" and not one.judged_nothing:
                doubts += [replace(doubt, checker=one.checker) for doubt in one.doubts]
        return describe_doubts(dict.fromkeys(doubts))

    def doubts_about(self, keyspaces: Collection[str]) -> tuple[Doubt, ...]:
        """Return the doubts that keep these keyspaces, or the run as a whole, from being decided, each with its checker.

        A checker that had nothing to judge leaves nothing undecided. Doubts about other keyspaces are excluded.
        """
        found = [doubt for doubt in self.doubts if doubt.weighs]
        for one in self.checkers:
            if one.undecided is not None:
                found += one.doubts_about(keyspaces)
            elif one.valid == "unknown" and not one.judged_nothing:
                found += [replace(doubt, checker=one.checker) for doubt in one.doubts]
        return tuple(dict.fromkeys(found))

    def to_json(self) -> dict[str, Any]:
        """Return the summary as stored in summary.json; `kinds` is derived from `races` for other readers."""
        return {
            "schema": SUMMARY_SCHEMA,
            **asdict(replace(self, findings=(), checkers=(), doubts=())),
            "findings": [finding.to_json() for finding in self.findings],
            "doubts": [doubt.to_json() for doubt in self.doubts],
            "checkers": [
                {**asdict(replace(one, doubts=())), "doubts": [doubt.to_json() for doubt in one.doubts]}
                for one in self.checkers
            ],
            "kinds": [asdict(kind) for kind in self.kinds],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunSummary:
        """Parse what `to_json` returned. Raises KeyError, TypeError or ValueError for other documents."""
        values = {name: value for name, value in document.items() if name not in {"schema", "kinds"}}
        if values["started"] is not None and datetime.fromisoformat(values["started"]).utcoffset() != timedelta(0):
            raise ValueError(f"{values['started']} is no time in UTC")
        for name, kind in _LISTS.items():
            values[name] = tuple(kind(**_frozen(entry)) for entry in values[name])
        values["doubts"] = _doubts(values["doubts"])
        values["findings"] = tuple(map(Finding.from_json, values["findings"]))
        values["checkers"] = tuple(
            CheckerSummary(**{**_frozen(one), "doubts": _doubts(one["doubts"])}) for one in values["checkers"]
        )
        summary = cls(**_frozen(values))
        require_types(summary)
        return summary


_LISTS: Final[Mapping[str, type]] = {
    "phases": PhaseSummary,
    "races": RaceSummary,
    "anomalies": FoundAnomaly,
}


def _doubts(documents: Sequence[Mapping[str, Any]]) -> tuple[Doubt, ...]:
    return tuple(map(Doubt.from_json, documents))


def _frozen(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}


def _kind(workload: str, races: Sequence[RaceSummary]) -> KindSummary:
    found: dict[str, int] = {}
    for race in races:
        for kind in race.anomalies:
            found[kind] = found.get(kind, 0) + 1
    return KindSummary(
        workload=workload,
        tried=len(races),
        broken=sum(bool(race.anomalies) for race in races),
        anomalies=dict(sorted(found.items(), key=lambda entry: (-entry[1], entry[0]))),
        ok=sum(race.ok for race in races),
    )
