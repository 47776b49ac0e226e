"""Eras: the schema design of each line of releases, the changes between them, and the reasons.

`eras.toml` beside this file is the only description of them, from the four seed documents and the tickets named there.
Pages read it through `ERAS`. An era has the same name as in launch recipes.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

__all__ = ["ERAS", "Change", "Era", "Versions", "era_of", "eras_from"]

_SYSTEM: Final = re.compile(r"(?P<product>[a-z]+):(?P<major>\d+)\.(?P<minor>\d+).*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Versions:
    """A half-open range of (major, minor) of one product: `1.1..6.0` excludes 6.0, `6.0..` has no end."""

    product: str
    first: tuple[int, int]
    below: tuple[int, int] | None

    @classmethod
    def parse(cls, product: str, text: str) -> Versions:
        """Parse `1.1..6.0` or `6.0..`. Raises ValueError for other text."""
        first, dots, below = text.partition("..")
        if not dots:
            raise ValueError(
                f'"{text}" is not a range of versions; write 1.1..6.0, or 6.0.. for a range without an end'
            )
        return cls(product, cls._line(first), cls._line(below) if below else None)

    def __contains__(self, system: object) -> bool:
        """Return True if `product:version` is in the range. Text of another form is in no range."""
        found = _SYSTEM.fullmatch(system) if isinstance(system, str) else None
        if found is None or found["product"] != self.product:
            return False
        line = int(found["major"]), int(found["minor"])
        return self.first <= line and (self.below is None or line < self.below)

    @staticmethod
    def _line(text: str) -> tuple[int, int]:
        major, _, minor = text.partition(".")
        return int(major), int(minor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that a release introduced, and its reason. `tickets` are Apache JIRA keys, or issues as `scylladb#9774`."""

    since: str
    what: str
    why: str
    tickets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Era:
    """One schema design: its motivation, its mechanism, and the changes during its lifetime."""

    name: str
    title: str
    short: str
    """Short title for narrow columns."""
    versions: Versions
    span: str
    """Versions for display."""
    why: str
    design: str
    source: tuple[str, ...]
    """Passages of the seed documents, as `seed 1, Concurrency`."""
    tickets: tuple[str, ...]
    changes: tuple[Change, ...]


def eras_from(document: Mapping[str, Any]) -> tuple[Era, ...]:
    """Parse the eras of a document like `eras.toml`, in its order. Raises KeyError for a missing field."""
    return tuple(
        Era(
            name=entry["name"],
            title=entry["title"],
            short=entry["short"],
            versions=Versions.parse(entry["product"], entry["versions"]),
            span=entry["span"],
            why=entry["why"],
            design=entry["design"],
            source=tuple(entry["source"]),
            tickets=tuple(entry["tickets"]),
            changes=tuple(
                Change(since=change["since"], what=change["what"], why=change["why"], tickets=tuple(change["tickets"]))
                for change in entry["change"]
            ),
        )
        for entry in document["era"]
    )


ERAS: Final[tuple[Era, ...]] = eras_from(
    tomllib.loads(files(__package__).joinpath("eras.toml").read_text(encoding="utf-8"))
)


def era_of(system: str) -> Era | None:
    """Return the era of `cassandra:5.0.9`, or None for a system that no era covers."""
    return next((era for era in ERAS if system in era.versions), None)
