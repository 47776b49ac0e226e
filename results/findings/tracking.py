"""Tracking: the same finding in several runs: on which versions it shows, how often, and when it was first and last seen.

Runs of different designs have different findings of one cause; they are one here (`Cause.across_designs`), so that a version
on which the same statements broke nothing stands beside those on which they did. A version is affected if the finding was seen
there; it is called not affected only with the number of decided races that held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from schemaquake.results.findings.finding import Finding, Rate

__all__ = ["JudgedRace", "JudgedRun", "Sighting", "SightingState", "TrackedFinding", "track_findings"]

SightingState: TypeAlias = Literal["affected", "held", "not tried"]


@dataclass(frozen=True, slots=True)
class JudgedRace:
    """One race of a run: its contested statements, and its result."""

    statements: tuple[str, ...]
    broken: bool
    decided: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """The findings of one run, and everything that it tried."""

    system: str
    run: str
    valid: bool
    """True if every check decided and found nothing."""
    workloads: tuple[str, ...]
    nemeses: tuple[str, ...]
    findings: tuple[Finding, ...]
    races: tuple[JudgedRace, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the run as a matrix' progress.jsonl holds it."""
        return {
            "system": self.system,
            "run": self.run,
            "valid": self.valid,
            "workloads": list(self.workloads),
            "nemeses": list(self.nemeses),
            "findings": [finding.to_json() for finding in self.findings],
            "races": [[list(race.statements), race.broken, race.decided] for race in self.races],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> JudgedRun:
        """Parse what `to_json` returned."""
        return cls(
            system=document["system"],
            run=document["run"],
            valid=document["valid"],
            workloads=tuple(document["workloads"]),
            nemeses=tuple(document["nemeses"]),
            findings=tuple(map(Finding.from_json, document["findings"])),
            races=tuple(
                JudgedRace(tuple(statements), broken=broken, decided=decided)
                for statements, broken, decided in document["races"]
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A finding on one system."""

    system: str
    id: str | None
    """The finding's name on that system's design; None if it was not seen there."""
    rate: Rate
    runs: tuple[str, ...] = ()
    """Runs in which it was seen."""
    symptoms: tuple[str, ...] = ()
    """Types of its anomalies, the worst first."""
    first_seen: str | None = None
    last_seen: str | None = None

    @property
    def state(self) -> SightingState:
        """`held` only if something was tried and decided."""
        return "affected" if self.rate.broken else "held" if self.rate.tried else "not tried"

    def to_json(self) -> dict[str, Any]:
        """Return the sighting as JSON."""
        return {
            "system": self.system,
            "state": self.state,
            "id": self.id,
            "rate": self.rate.to_json(),
            "runs": list(self.runs),
            "symptoms": list(self.symptoms),
            "first_seen": self.first_seen,
            "last_seen": self.last_seen,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Sighting:
        """Parse what `to_json` returned."""
        return cls(
            system=document["system"],
            id=document["id"],
            rate=Rate.from_json(document["rate"]),
            runs=tuple(document["runs"]),
            symptoms=tuple(document["symptoms"]),
            first_seen=document["first_seen"],
            last_seen=document["last_seen"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedFinding:
    """One cause on several systems."""

    example: Finding
    """The finding in the first run that has it."""
    sightings: tuple[Sighting, ...]
    """One for each system, in the order in which the systems were given."""

    @property
    def affected(self) -> tuple[str, ...]:
        """The systems on which it was seen."""
        return tuple(one.system for one in self.sightings if one.state == "affected")

    @property
    def first_seen(self) -> str | None:
        """The earliest sighting; None if no run says when it began."""
        return min((one.first_seen for one in self.sightings if one.first_seen), default=None)

    @property
    def last_seen(self) -> str | None:
        """The latest sighting."""
        return max((one.last_seen for one in self.sightings if one.last_seen), default=None)

    def on(self, system: str) -> Sighting:
        """Return the finding on one of the systems. Raises KeyError for another."""
        for sighting in self.sightings:
            if sighting.system == system:
                return sighting
        raise KeyError(system)

    def to_json(self) -> dict[str, Any]:
        """Return the finding as comparisons and matrices hold it."""
        return {
            "example": self.example.to_json(),
            "first_seen": self.first_seen,
            "last_seen": self.last_seen,
            "sightings": [sighting.to_json() for sighting in self.sightings],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TrackedFinding:
        """Parse what `to_json` returned."""
        return cls(
            example=Finding.from_json(document["example"]),
            sightings=tuple(map(Sighting.from_json, document["sightings"])),
        )


def track_findings(runs: Iterable[JudgedRun], systems: Sequence[str]) -> tuple[TrackedFinding, ...]:
    """Collect the findings of several runs, in the order in which they first appear, known causes before unknown ones."""
    every = list(runs)
    causes: dict[tuple[object, ...], Finding] = {}
    for run in every:
        for finding in run.findings:
            causes.setdefault(finding.cause.across_designs, finding)
    ordered = sorted(causes.values(), key=lambda finding: not finding.cause.known)
    return tuple(
        TrackedFinding(example=one, sightings=tuple(_sighting(one, system, every) for system in systems))
        for one in ordered
    )


def _sighting(example: Finding, system: str, runs: Sequence[JudgedRun]) -> Sighting:
    cause = example.cause.across_designs
    own = [run for run in runs if run.system == system]
    found = [(run, one) for run in own for one in run.findings if one.cause.across_designs == cause]
    everywhere = [(run, one) for run in runs for one in run.findings if one.cause.across_designs == cause]
    clean = [run for run in own if all(run is not other for other, _ in found)]
    raced = example.rate.unit == "race"
    tried = sum(_races_that_held(run, everywhere) if raced else _is_held_run(run, everywhere) for run in clean)
    rates = [one.rate for _, one in found]
    return Sighting(
        system=system,
        id=found[0][1].id if found else None,
        rate=Rate(sum(rate.broken for rate in rates), sum(rate.tried for rate in rates) + tried, example.rate.unit),
        runs=tuple(run.run for run, _ in found),
        symptoms=tuple(dict.fromkeys(symptom.type for _, one in found for symptom in one.symptoms)),
        first_seen=min((one.first_seen for _, one in found if one.first_seen), default=None),
        last_seen=max((one.last_seen for _, one in found if one.last_seen), default=None),
    )


def _races_that_held(run: JudgedRun, found: Sequence[tuple[JudgedRun, Finding]]) -> int:
    """Count the decided races of a run that had the finding's statements and broke nothing."""
    sides = {tuple(map(str, side)) for _, finding in found for side in finding.sides}
    return sum(race.decided and not race.broken and race.statements in sides for race in run.races)


def _is_held_run(run: JudgedRun, found: Sequence[tuple[JudgedRun, Finding]]) -> bool:
    """Return True if a run tried the same and is valid: the same workloads and nemeses as a run that has the finding."""
    return run.valid and any((run.workloads, run.nemeses) == (other.workloads, other.nemeses) for other, _ in found)
