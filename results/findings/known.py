"""Known findings: the tickets and the page of a cause that was seen or reported before, from `known.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from schemaquake.results.findings.cause import Cause
from schemaquake.results.findings.shapes import Shape, parse_shape

__all__ = ["KnownAs", "KnownFinding", "known_finding", "known_findings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAs:
    """The title, the tickets and the page of a known finding, for readers."""

    title: str
    tickets: tuple[str, ...]
    page: str | None
    """Its page below `docs/`; None if it has none."""

    def to_json(self) -> dict[str, Any]:
        """Return it as findings and sightings hold it."""
        return {"title": self.title, "tickets": list(self.tickets), "page": self.page}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> KnownAs:
        """Parse what `to_json` returned. Raises KeyError or TypeError for other documents."""
        return cls(title=document["title"], tickets=tuple(document["tickets"]), page=document["page"])


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFinding:
    """One entry of `known.toml`, which explains the fields."""

    title: str
    statements: tuple[Shape, ...]
    eras: frozenset[str]
    tickets: tuple[str, ...]
    page: str | None = None
    fault: str | None = None
    symptoms: frozenset[str] = frozenset()
    alone: bool = False
    """True if the statements need no others: whatever else raced, they are the cause of these symptoms."""
    upgrade_to: str | None = None
    mechanism: str | None = None

    def fits(self, cause: Cause, types: Iterable[str]) -> bool:
        """Tell if a finding with this cause and these types of anomaly is this one."""
        if cause.era not in self.eras or (self.fault, self.upgrade_to) != (cause.fault, cause.upgrade_to):
            return False
        if self.mechanism not in (None, cause.mechanism):
            return False
        if self.alone:
            raced = {shape.f for shape in cause.statements}
            return {shape.f for shape in self.statements} <= raced and self.symptoms.issuperset(types)
        return self.statements == cause.statements and (not self.symptoms or not self.symptoms.isdisjoint(types))

    @property
    def known_as(self) -> KnownAs:
        """The title, the tickets and the page, for readers."""
        return KnownAs(title=self.title, tickets=self.tickets, page=self.page)


@cache
def known_findings() -> Sequence[KnownFinding]:
    """Read `known.toml`, in its order."""
    text = files(__package__).joinpath("known.toml").read_text(encoding="utf-8")
    return tuple(map(_read_entry, tomllib.loads(text)["known"]))


def known_finding(cause: Cause, types: Iterable[str]) -> KnownFinding | None:
    """Look up what is known of a finding with these types of anomaly; None if it is new to Schemaquake."""
    listed = list(types)
    return next((entry for entry in known_findings() if entry.fits(cause, listed)), None)


def _read_entry(entry: Mapping[str, Any]) -> KnownFinding:
    return KnownFinding(
        title=entry["title"],
        statements=tuple(map(parse_shape, entry["statements"])),
        eras=frozenset(entry["eras"]),
        tickets=tuple(entry["tickets"]),
        page=entry.get("page"),
        fault=entry.get("fault"),
        symptoms=frozenset(entry.get("symptoms", ())),
        alone=entry.get("alone", False),
        upgrade_to=entry.get("upgrade_to"),
        mechanism=entry.get("mechanism"),
    )
