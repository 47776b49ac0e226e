"""Tracking: the same finding in several runs: on which versions it shows, how often, and when it was first and last seen.

Runs of different designs have different findings of one cause; they are one here (`Cause.across_designs`), so that a version
on which the same statements broke nothing stands beside those on which they did. A version is affected if the finding was seen
there; it is called not affected only with the number of decided races that held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from schemaquake.results.findings.finding import Finding, Rate
from schemaquake.results.findings.known import KnownAs

__all__ = [
    "JudgedRace",
    "JudgedRun",
    "Observation",
    "Sighting",
    "SightingState",
    "TrackedFinding",
    "observe_causes",
    "track_findings",
]

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
    started: str | None = None
    """UTC, ISO 8601; None if it is not known."""

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
            "started": self.started,
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
            started=document.get("started"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A finding on one system."""

    system: str
    id: str | None
    """The finding's name on that system's design; None if it was not seen there."""
    rate: Rate
    known: KnownAs | None = None
    """The known finding on that system's design; None if it is new there, or was not seen."""
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
            "known": None if self.known is None else self.known.to_json(),
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
            known=KnownAs.from_json(known) if (known := document.get("known")) else None,
            runs=tuple(document["runs"]),
            symptoms=tuple(document["symptoms"]),
            first_seen=document["first_seen"],
            last_seen=document["last_seen"],
        )


@dataclass(frozen=True, slots=True)
class Observation:
    """One run that tried a cause: how many of its races or runs showed it, of those that were decided."""

    run: str
    started: str | None
    system: str
    broken: int
    tried: int
    finding: Finding | None = None
    """The finding of that run; None if it held."""


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

    def known_otherwise(self, sighting: Sighting) -> bool:
        """Tell if a sighting is known as something else than the example, as designs may break under the same statements in ways of their own."""
        known = self.example.known
        return sighting.state == "affected" and sighting.known != (None if known is None else known.known_as)

    def on(self, system: str) -> Sighting:
        """Return the finding on one of the systems. Raises KeyError for another."""
        for sighting in self.sightings:
            if sighting.system == system:
                return sighting
        raise KeyError(system)

    @classmethod
    def from_observations(cls, observations: Sequence[Observation], systems: Sequence[str]) -> TrackedFinding:
        """Add up the runs that tried one cause, by system. At least one of them must have found it."""
        example = next(one.finding for one in observations if one.finding is not None)
        return cls(
            example=example,
            sightings=tuple(
                _sighting(example, system, [one for one in observations if one.system == system]) for system in systems
            ),
        )

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
    observed = observe_causes(runs)
    tracked = [TrackedFinding.from_observations(observations, systems) for observations in observed.values()]
    return tuple(sorted(tracked, key=lambda one: not one.example.cause.known))


def observe_causes(runs: Iterable[JudgedRun]) -> dict[tuple[object, ...], list[Observation]]:
    """Collect for each cause (`Cause.across_designs`) the runs that tried it, in order. Takes time in proportion to the runs."""
    every = list(runs)
    causes: dict[tuple[object, ...], list[Observation]] = {}
    raced: dict[tuple[str, ...], dict[tuple[object, ...], str | None]] = {}
    conditions: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[tuple[object, ...], None]] = {}
    for run in every:
        for finding in run.findings:
            cause = finding.cause.across_designs
            causes.setdefault(cause, [])
            if finding.rate.unit == "race":
                for side in finding.sides:
                    raced.setdefault(tuple(map(str, side)), {})[cause] = finding.cause.fault
            else:
                conditions.setdefault((run.workloads, run.nemeses), {})[cause] = None
    for run in every:
        mine = {finding.cause.across_designs: finding for finding in run.findings}
        for cause, finding in mine.items():
            rate = finding.rate
            causes[cause].append(Observation(run.run, run.started, run.system, rate.broken, rate.tried, finding))
        for cause, tried in _held_in(run, raced, conditions).items():
            if cause not in mine:
                causes[cause].append(Observation(run.run, run.started, run.system, 0, tried))
    return causes


def _held_in(
    run: JudgedRun,
    raced: Mapping[tuple[str, ...], Mapping[tuple[object, ...], str | None]],
    conditions: Mapping[tuple[tuple[str, ...], tuple[str, ...]], Iterable[tuple[object, ...]]],
) -> dict[tuple[object, ...], int]:
    """Count the tries of each cause that held in a run: its decided races with a finding's statements, or the valid run itself.

    A race is no try of a finding that takes a fault, if the run had no such fault.
    """
    held = Counter(race.statements for race in run.races if race.decided and not race.broken)
    counts: dict[tuple[object, ...], int] = {}
    for statements, count in held.items():
        for cause, fault in raced.get(statements, {}).items():
            if fault is None or {*fault.split("+")} <= {*run.nemeses}:
                counts[cause] = counts.get(cause, 0) + count
    if run.valid:
        counts |= dict.fromkeys(conditions.get((run.workloads, run.nemeses), ()), 1)
    return counts


def _sighting(example: Finding, system: str, observations: Sequence[Observation]) -> Sighting:
    found = [(one.run, one.finding) for one in observations if one.finding is not None]
    broken, tried = sum(one.broken for one in observations), sum(one.tried for one in observations)
    return Sighting(
        system=system,
        id=found[0][1].id if found else None,
        rate=Rate(broken, tried, example.rate.unit),
        known=known.known_as if found and (known := found[0][1].known) else None,
        runs=tuple(run for run, _ in found),
        symptoms=tuple(dict.fromkeys(symptom.type for _, one in found for symptom in one.symptoms)),
        first_seen=min((one.first_seen for _, one in found if one.first_seen), default=None),
        last_seen=max((one.last_seen for _, one in found if one.last_seen), default=None),
    )
