"""Findings: a run's anomalies grouped by type, with the races they broke, and the headline of the run."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias

from schemaquake.checkers.findings.catalogue import CATALOGUE, prominence_of
from schemaquake.harness.model.records import keyspace_of
from schemaquake.harness.model.verdict import Anomaly
from schemaquake.results.engines.combination import doubts_of, keyspaces_undecided
from schemaquake.results.report.material import Material, Race, anomalies_of, checkers_of, races_of
from schemaquake.results.report.recipe import Recipe, recipe_of
from schemaquake.results.summary.cell import describe_standing, standing_of
from schemaquake.results.tables.attribution import attribute_all
from schemaquake.results.wording import counted, joined, shortened, system_name

__all__ = [
    "Finding",
    "Reference",
    "Standing",
    "WorkloadSummary",
    "group_findings",
    "headline",
    "races_begun",
    "summarise_workloads",
]


Standing: TypeAlias = Literal["broke", "held", "unknown"]


@dataclass(frozen=True, slots=True)
class Reference:
    """A ticket or a document. `url` is None if it has no page."""

    text: str
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """All anomalies of one type. `tried` counts every race of the workloads that `races` belong to."""

    type: str
    title: str
    description: str
    worst: str
    anomalies: tuple[Anomaly, ...]
    races: tuple[Race, ...]
    tried: int
    nodes: tuple[str, ...]
    references: tuple[Reference, ...]
    recipe: Recipe | None
    """Recipe of the first race, or None."""

    def how_often(self) -> str:
        """Describe the frequency: `in 5 of 6 drop-type races`, or the number of anomalies if no race is concerned."""
        if not self.races:
            return "once" if len(self.anomalies) == 1 else f"{len(self.anomalies):,} times"
        workloads = sorted({race.workload for race in self.races})
        if len(workloads) > 2:
            return f"in {len(self.races)} of {self.tried} races of {len(workloads)} kinds"
        return f"in {len(self.races)} of {self.tried} {joined(workloads)} races"


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
        return describe_standing(
            tried=len(self.races), broke=self.broke, broken=len(self.broken), ok=self.ok, undecided=self.undecided
        )


def group_findings(material: Material) -> tuple[Finding, ...]:
    """Group a run's anomalies by type: the most prominent first; at equal prominence the type that broke most races."""
    by_type: dict[str, list[Anomaly]] = {}
    for anomaly in anomalies_of(material.verdict):
        by_type.setdefault(anomaly.type, []).append(anomaly)
    races = races_of(material.races)
    found = [_finding(material, kind, anomalies, races) for kind, anomalies in by_type.items()]
    return tuple(sorted(found, key=_place))


def _place(finding: Finding) -> tuple[int, int, int, str]:
    return -prominence_of(finding.type), -len(finding.races), -len(finding.anomalies), finding.type


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
    return tuple(dict.fromkeys(doubt.sentence for doubt in doubts))


def races_begun(material: Material) -> str:
    """Describe the number of races, and why no more were begun. Empty if the run had no races."""
    why = material.chronicle.ended_early.get("main")
    if why is None:
        return f"{material.races.num_rows:,}" if material.races.num_rows else ""
    return f"{material.races.num_rows:,}; no more were begun, because the cluster accepted no further schema changes ({why})"


def headline(material: Material) -> str:
    """Summarise the run in one sentence: the anomalies found, the reason for an undecided verdict, or what held."""
    system = system_name(str(material.plan.get("system", "the system")))
    races = races_of(material.races)
    if material.verdict.valid is False:
        broken = [race for race in races if race.broken]
        where = f" in {len(broken)} of {counted(len(races), 'race')}" if broken else ""
        ways = len({anomaly.type for anomaly in anomalies_of(material.verdict)})
        return f"{system} broke{where}, in {counted(ways, 'way')}." if ways else f"{system} broke{where}."
    if material.verdict.valid == "unknown":
        return f"Not decided: {shortened('; '.join(reasons_of(material)) or 'no checker gave a reason', 300)}."
    judged = f"{counted(len(races), 'race')} and " if races else ""
    return (
        f"{system} held: {judged}{counted(material.operations.num_rows, 'operation')}, and no checker found an anomaly."
    )


def reasons_of(material: Material) -> tuple[str, ...]:
    """Collect the reasons why the run is undecided. A checker that had nothing to judge does not count."""
    if material.verdict.doubts:
        return tuple(doubt.sentence for doubt in material.verdict.doubts)
    undecided = [part for part in checkers_of(material.verdict) if part.valid == "unknown" and not part.judged_nothing]
    return tuple(replace(doubt, checker=part.checker).sentence for part in undecided for doubt in doubts_of(part))


def references_of(texts: Iterable[str]) -> tuple[Reference, ...]:
    """Resolve tickets to the addresses of their pages. Other texts stay as they are; each reference appears once."""
    return tuple(_reference(text) for text in dict.fromkeys(texts))


def keyspaces_of(anomaly: Anomaly) -> tuple[str, ...]:
    """Return the keyspaces of an anomaly's objects, in order."""
    return tuple(dict.fromkeys(keyspace_of(name) or name for name in anomaly.objects))


def _finding(material: Material, kind: str, anomalies: Sequence[Anomaly], races: Sequence[Race]) -> Finding:
    known = CATALOGUE.get(kind)
    attributions = attribute_all(anomalies, material.ground, material.operations)
    concerned = {keyspace for attribution in attributions for keyspace in attribution.races}
    broken = tuple(race for race in races if race.keyspace in concerned)
    workloads = {race.workload for race in broken}
    references = [*(known.references if known else ()), *(ref for anomaly in anomalies for ref in anomaly.references)]
    return Finding(
        type=kind,
        title=known.title if known else anomalies[0].title or kind,
        description=known.description if known else "",
        worst=known.worst if known else "",
        anomalies=tuple(anomalies),
        races=broken,
        tried=sum(race.workload in workloads for race in races),
        nodes=tuple(sorted({node for anomaly in anomalies for node in anomaly.nodes})),
        references=references_of(references),
        recipe=_first_recipe(material, anomalies, broken),
    )


def _first_recipe(material: Material, anomalies: Sequence[Anomaly], races: Sequence[Race]) -> Recipe | None:
    for anomaly in anomalies:
        for keyspace in keyspaces_of(anomaly):
            found = recipe_of(material, keyspace, anomaly)
            if found is not None:
                return found
    recipes = (recipe_of(material, race.keyspace) for race in races)
    return next((recipe for recipe in recipes if recipe is not None), None)


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
