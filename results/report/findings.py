"""Findings for readers: what pages show of each finding, the races of each workload, and the headline of the run."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.findings.catalogue import CATALOGUE
from schemaquake.harness.model.records import keyspace_of
from schemaquake.harness.model.verdict import Anomaly, describe_doubts
from schemaquake.results.engines.combination import doubts_of, keyspaces_undecided
from schemaquake.results.findings.description import describe_rate, describe_standing, describe_symptom, title_of
from schemaquake.results.findings.finding import Finding, Rate, Symptom
from schemaquake.results.findings.grouping import listed_anomalies
from schemaquake.results.report.material import Material, Race, checkers_of, races_of
from schemaquake.results.report.recipe import Recipe, recipe_of
from schemaquake.results.summary.cell import describe_standing as describe_races
from schemaquake.results.summary.cell import standing_of
from schemaquake.results.tables.statements import read_statements
from schemaquake.results.wording import counted, joined, shortened, system_name

__all__ = [
    "Reference",
    "ReportedFinding",
    "ReportedSymptom",
    "Reproducer",
    "Standing",
    "WorkloadSummary",
    "describe_count",
    "headline",
    "races_begun",
    "report_findings",
    "summarise_workloads",
]


Standing: TypeAlias = Literal["broke", "held", "unknown"]


@dataclass(frozen=True, slots=True)
class Reference:
    """A ticket or a document. `url` is None if it has no page."""

    text: str
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedSymptom:
    """One symptom of a finding, with its texts from the catalogue and its anomalies."""

    symptom: Symptom
    title: str
    description: str
    worst: str
    how_often: str
    anomalies: tuple[Anomaly, ...]
    references: tuple[Reference, ...]

    @property
    def type(self) -> str:
        """The type of its anomalies."""
        return self.symptom.type


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproducer:
    """A recipe that was run, and how often it broke the cluster."""

    rate: Rate
    shrunk: bool
    """True if `schemaquake shrink` made it: the command is in the run's folder, shrunk/reproduce.sh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedFinding:
    """One finding with everything that a page shows of it."""

    finding: Finding
    title: str
    standing: str
    how_often: str
    symptoms: tuple[ReportedSymptom, ...]
    """The worst first."""
    races: tuple[Race, ...]
    recipe: Recipe | None
    """The first race's, or the statements involved; None if the cause is not known."""
    reproducer: Reproducer | None
    tickets: tuple[Reference, ...]
    """Where the finding was reported before."""
    page: str | None
    """The page of our documentation that describes it, below docs/."""

    @property
    def id(self) -> str:
        """The finding's name."""
        return self.finding.id

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its symptoms, each once, the worst first."""
        return tuple(dict.fromkeys(symptom.type for symptom in self.symptoms))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSummary:
    """Counts of one racing workload: races, broken races, and broken races per anomaly type."""

    workload: str
    mode: str
    races: tuple[Race, ...]
    broken: tuple[Race, ...]
    broke: Mapping[str, int]
    """Anomaly type → number of races."""
    ok: int
    fail: int
    info: int
    undecided: tuple[str, ...] = ()
    """Reasons why checks of the run are undecided, each with its checker."""

    @property
    def standing(self) -> Standing:
        """Standing of the workload: `held` only if every check decided and at least one operation was acknowledged."""
        return standing_of(broken=len(self.broken), ok=self.ok, undecided=self.undecided)

    def reason(self) -> str:
        """Describe the standing in a phrase without a full stop."""
        return describe_races(
            tried=len(self.races), broke=self.broke, broken=len(self.broken), ok=self.ok, undecided=self.undecided
        )


def report_findings(material: Material) -> tuple[ReportedFinding, ...]:
    """Describe a run's findings: the worst first, and those of unknown cause last."""
    anomalies = listed_anomalies(material.verdict)
    races = {race.keyspace: race for race in races_of(material.races)}
    return tuple(_report(material, finding, anomalies, races) for finding in material.grouped.findings)


def summarise_workloads(material: Material) -> tuple[WorkloadSummary, ...]:
    """Summarise the racing workloads, in order of name."""
    races = races_of(material.races)
    by_workload = {name: [race for race in races if race.workload == name] for name in {r.workload for r in races}}
    return tuple(
        _summary(workload, mine, _undecided(material, {race.keyspace for race in mine}))
        for workload, mine in sorted(by_workload.items())
    )


def _undecided(material: Material, keyspaces: Collection[str]) -> tuple[str, ...]:
    """Collect the reasons why a check of these keyspaces, or of the whole run, is undecided. Doubts about other keyspaces are excluded."""
    verdict = material.verdict
    doubts = [doubt for doubt in verdict.doubts if verdict.parts and doubt.checker is None and doubt.weighs]
    for part in checkers_of(verdict):
        if part.undecided is not None:
            undecided = keyspaces_undecided(part, keyspaces)
            doubts += [replace(doubt, objects=(), text=shortened(doubt.text, 300)) for doubt in undecided]
        elif part.valid == "unknown" and not part.judged_nothing:
            doubts += [replace(doubt, checker=doubt.checker or part.checker) for doubt in doubts_of(part)]
    return describe_doubts(dict.fromkeys(doubts))


def races_begun(material: Material) -> str:
    """Describe the number of races, and why no more were begun. Empty if the run had no races."""
    why = material.chronicle.ended_early.get("main")
    if why is None:
        return f"{material.races.num_rows:,}" if material.races.num_rows else ""
    return f"{material.races.num_rows:,}; no more were begun, because the cluster accepted no further schema changes ({why})"


def headline(material: Material) -> str:
    """Summarise the run in one sentence: the anomalies found, the reason for an undecided verdict, or what held."""
    system = system_name(str(material.plan.get("system", "the system")))
    if later := dict.fromkeys(one.becomes for one in material.chronicle.operations if one.becomes):
        system = f"{system}, upgraded to {joined([name.rpartition(':')[2] for name in later])},"
    races = races_of(material.races)
    if material.verdict.valid is False:
        broken = [race for race in races if race.broken]
        where = f" in {len(broken)} of {counted(len(races), 'race')}" if broken else ""
        return f"{system} broke{where}: {describe_count(material.grouped.findings)}."
    if material.verdict.valid == "unknown":
        return f"Not decided: {shortened('; '.join(reasons_of(material)) or 'no checker gave a reason', 300)}."
    judged = f"{counted(len(races), 'race')} and " if races else ""
    return (
        f"{system} held: {judged}{counted(material.operations.num_rows, 'operation')}, and no checker found an anomaly."
    )


def describe_count(findings: Sequence[Finding]) -> str:
    """Count findings: `3 findings (1 new) and 2 of unknown cause`."""
    known = [finding for finding in findings if finding.cause.known]
    new = sum(finding.known is None for finding in known)
    unknown = len(findings) - len(known)
    parts = [counted(len(known), "finding") + (f" ({new} new)" if new else "")] if known else []
    if unknown:
        parts.append(f"{unknown if known else counted(unknown, 'finding')} of unknown cause")
    return joined(parts) or "no anomaly is described"


def reasons_of(material: Material) -> tuple[str, ...]:
    """Collect the reasons why the run is undecided. A checker that had nothing to judge does not count."""
    if material.verdict.doubts:
        return describe_doubts(material.verdict.doubts)
    undecided = [part for part in checkers_of(material.verdict) if part.valid == "unknown" and not part.judged_nothing]
    return describe_doubts(replace(doubt, checker=part.checker) for part in undecided for doubt in doubts_of(part))


def references_of(texts: Iterable[str]) -> tuple[Reference, ...]:
    """Resolve tickets to the addresses of their pages. Other texts stay as they are; each reference appears once."""
    return tuple(_reference(text) for text in dict.fromkeys(texts))


def keyspaces_of(anomaly: Anomaly) -> tuple[str, ...]:
    """Return the keyspaces of an anomaly's objects, in order."""
    return tuple(dict.fromkeys(keyspace_of(name) or name for name in anomaly.objects))


def _report(
    material: Material, finding: Finding, anomalies: Sequence[Anomaly], races: Mapping[str, Race]
) -> ReportedFinding:
    known = finding.known
    recipe = _recipe(material, finding, anomalies)
    return ReportedFinding(
        finding=finding,
        title=title_of(finding),
        standing=describe_standing(finding) if finding.cause.product else "",
        how_often=describe_rate(finding.rate),
        symptoms=tuple(_report_symptom(finding, symptom, anomalies) for symptom in finding.symptoms),
        races=tuple(races[keyspace] for keyspace in finding.races if keyspace in races),
        recipe=recipe,
        reproducer=_reproducer(material, finding, recipe),
        tickets=references_of(known.tickets if known else ()),
        page=known.page if known else None,
    )


def _report_symptom(finding: Finding, symptom: Symptom, anomalies: Sequence[Anomaly]) -> ReportedSymptom:
    known = CATALOGUE.get(symptom.type)
    mine = tuple(anomalies[place] for place in symptom.anomalies)
    references = [*(known.references if known else ()), *(ref for anomaly in mine for ref in anomaly.references)]
    return ReportedSymptom(
        symptom=symptom,
        title=known.title if known else mine[0].title or symptom.type,
        description=known.description if known else "",
        worst=known.worst if known else "",
        how_often=describe_symptom(finding, symptom),
        anomalies=mine,
        references=references_of(references),
    )


def _recipe(material: Material, finding: Finding, anomalies: Sequence[Anomaly]) -> Recipe | None:
    """Build the recipe of the first race, with the writes that the worst anomaly in it names, or of the changes involved."""
    if not finding.statements:
        return None
    first = read_statements(
        material.operations.filter(pc.is_in(material.operations["index"], pa.array(finding.statements)))
    )
    keyspace = keyspace_of(first[0].key) if first else None
    if keyspace is None:
        return None
    worst = finding.symptoms[0].anomalies
    mine = next((anomalies[place] for place in worst if keyspace in keyspaces_of(anomalies[place])), None)
    return recipe_of(material, keyspace, mine, named=finding.statements)


def _reproducer(material: Material, finding: Finding, recipe: Recipe | None) -> Reproducer | None:
    """Return the rate of the recipe, if just that was run: the shrunk scenario, or else the race."""
    shrunk = material.shrunk
    if shrunk.get("anomaly") in {symptom.type for symptom in finding.symptoms} and _is_shrunk_from(shrunk, finding):
        return Reproducer(rate=Rate(int(shrunk["broken"]), int(shrunk["tried"]), "run"), shrunk=True)
    if recipe is None or not recipe.raced or not finding.races:
        return None
    return Reproducer(rate=_rate_of_equal_races(material, finding), shrunk=False)


def _rate_of_equal_races(material: Material, finding: Finding) -> Rate:
    """Count the finding's races that had the statements of its first one, and the races with these that held."""
    races = {race.keyspace: race for race in races_of(material.races)}
    first = races.get(finding.races[0])
    if first is None:
        return Rate(1, 1, "race")
    grouped, statements_of_first = material.grouped, _statements_of(first)
    equal = [
        race.keyspace
        for race in races.values()
        if _statements_of(race) == statements_of_first
        and grouped.contested.get(race.keyspace) == grouped.contested.get(first.keyspace)
    ]
    broken = sum(keyspace in finding.races for keyspace in equal)
    held = sum(keyspace in grouped.decided and not races[keyspace].broken for keyspace in equal)
    return Rate(broken, broken + held, "race")


def _statements_of(race: Race) -> tuple[tuple[str, ...], ...]:
    """Return the race's statements by side, without its keyspace and numbers, in which repetitions differ."""
    sides = (tuple(re.sub(r"\d+", "0", text.replace(race.keyspace, "")) for text in side) for side in race.sides)
    return tuple(sorted(sides))


def _is_shrunk_from(shrunk: Mapping[str, Any], finding: Finding) -> bool:
    """Return True if the scenario has a race of the finding, or neither has one."""
    raced = {race.get("keyspace") for race in shrunk.get("scenario", {}).get("races", ())}
    return bool(raced & set(finding.races)) or not (raced or finding.races)


def _summary(workload: str, races: Sequence[Race], undecided: tuple[str, ...]) -> WorkloadSummary:
    broke: dict[str, int] = {}
    for race in races:
        for kind in race.anomalies:
            broke[kind] = broke.get(kind, 0) + 1
    return WorkloadSummary(
        workload=workload,
        mode=joined(sorted({race.mode for race in races})),
        races=tuple(races),
        broken=tuple(race for race in races if race.broken),
        broke=dict(sorted(broke.items(), key=lambda entry: (-entry[1], entry[0]))),
        ok=sum(race.ok for race in races),
        fail=sum(race.fail for race in races),
        info=sum(race.info for race in races),
        undecided=undecided,
    )


@cache
def _trackers() -> Sequence[Mapping[str, str]]:
    trackers: Sequence[Mapping[str, str]] = tomllib.loads(
        files(__package__).joinpath("trackers.toml").read_text(encoding="utf-8")
    )["tracker"]
    return trackers


def _reference(text: str) -> Reference:
    for tracker in _trackers():
        ticket = re.fullmatch(tracker["pattern"], text, re.IGNORECASE)
        if ticket:
            return Reference(tracker.get("name", text).format(ticket[1]), tracker["url"].format(ticket[1]))
    return Reference(text, None)
