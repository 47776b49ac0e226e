"""Findings as values: one cause, its symptoms, how often it showed, and what is known of it.

A finding names anomalies by their places in the verdict's `anomalies`, so that none is copied and none is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from schemaquake.results.findings.cause import Cause
from schemaquake.results.findings.known import KnownFinding, known_finding
from schemaquake.results.findings.shapes import Shape, parse_shape
from schemaquake.results.intervals import wilson

__all__ = ["Finding", "Rate", "Symptom", "Unit"]

Unit: TypeAlias = Literal["race", "run"]


@dataclass(frozen=True, slots=True)
class Rate:
    """`broken` of `tried` races or runs. Undecided ones are not tries."""

    broken: int
    tried: int
    unit: Unit

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the rate (Wilson's), within [0, 1]."""
        return wilson(self.broken, self.tried)

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.broken + other.broken, self.tried + other.tried, self.unit)

    def to_json(self) -> dict[str, Any]:
        """Return the rate with its interval, rounded to four places."""
        low, high = self.interval
        return {
            "broken": self.broken,
            "tried": self.tried,
            "unit": self.unit,
            "low": round(low, 4),
            "high": round(high, 4),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Rate:
        """Parse what `to_json` returned. Raises KeyError, TypeError or ValueError for other documents."""
        rate = cls(document["broken"], document["tried"], document["unit"])
        if not 0 <= rate.broken <= rate.tried:
            raise ValueError(f"{rate.broken} of {rate.tried} is no rate")
        return rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """All anomalies of one type and one mechanism that a finding has."""

    type: str
    mechanism: str | None
    """The rule of the log, or the class of the exception; None if the type says it all."""
    anomalies: tuple[int, ...]
    """Places in the verdict's anomalies."""
    races: tuple[str, ...]
    """Keyspaces of the races that show it."""
    nodes: tuple[str, ...]
    follows_from: tuple[str, ...] = ()
    """Types of the same finding that are known to bring this one about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause with everything that it brought about in one run."""

    cause: Cause
    symptoms: tuple[Symptom, ...]
    """The worst first."""
    races: tuple[str, ...]
    """Keyspaces of the races that it broke, in the order in which they began."""
    sides: tuple[tuple[Shape, ...], ...]
    """Shapes of all contested statements of those races; more than the cause's where the sides are long."""
    rate: Rate
    statements: tuple[int, ...] = ()
    """Operations of the plainest example: the contested statements of the first race, or those involved."""
    first_seen: str | None = None
    """UTC, ISO 8601; None if the start of the run is not known."""
    last_seen: str | None = None

    @property
    def id(self) -> str:
        """The id of the cause."""
        return self.cause.id

    @property
    def known(self) -> KnownFinding | None:
        """The entry of `known.toml` that fits; None if the finding is new to Schemaquake."""
        return known_finding(self.cause, {symptom.type for symptom in self.symptoms})

    @property
    def anomalies(self) -> tuple[int, ...]:
        """Places of all its anomalies in the verdict's, each once, in order."""
        return tuple(sorted({place for symptom in self.symptoms for place in symptom.anomalies}))

    def to_json(self) -> dict[str, Any]:
        """Return the finding as verdict.json and summary.json hold it. `known` is for readers; it is null for a new finding."""
        known = self.known
        return {
            "id": self.id,
            "known": None if known is None else known.known_as.to_json(),
            "cause": self.cause.to_json(),
            "symptoms": [asdict(symptom) for symptom in self.symptoms],
            "races": list(self.races),
            "sides": [[str(shape) for shape in side] for side in self.sides],
            "rate": self.rate.to_json(),
            "statements": list(self.statements),
            "first_seen": self.first_seen,
            "last_seen": self.last_seen,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Finding:
        """Parse what `to_json` returned. Raises KeyError, TypeError or ValueError for other documents."""
        if not document["symptoms"]:
            raise ValueError("a finding has a symptom")
        return cls(
            cause=Cause.from_json(document["cause"]),
            symptoms=tuple(map(_read_symptom, document["symptoms"])),
            races=tuple(document["races"]),
            sides=tuple(tuple(map(parse_shape, side)) for side in document["sides"]),
            rate=Rate.from_json(document["rate"]),
            statements=tuple(document["statements"]),
            first_seen=document["first_seen"],
            last_seen=document["last_seen"],
        )


def _read_symptom(document: Mapping[str, Any]) -> Symptom:
    return Symptom(
        type=document["type"],
        mechanism=document["mechanism"],
        anomalies=tuple(document["anomalies"]),
        races=tuple(document["races"]),
        nodes=tuple(document["nodes"]),
        follows_from=tuple(document["follows_from"]),
    )
