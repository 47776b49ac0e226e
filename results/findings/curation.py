"""Curation: what people decided about findings: names, tickets, merged causes, versions in which one is said to be fixed.

A TOML file that is kept in version control, beside the runs or elsewhere:

    [[finding]]
    ids = ["SQ-E3ZATWYL", "SQ-QP3OQCTL"]    # the second is merged into the first
    title = "A type is dropped under a table"
    tickets = ["CASSANDRA-18330"]
    fixed_in = ["cassandra:6.0"]            # a claim; the runs verify it, or show a regression
    invalid = "expected: the documentation says so"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from schemaquake.harness.errors import PlanError
from schemaquake.harness.named_files import read_named_text

__all__ = ["NOTHING_CURATED", "Curated", "Curation", "read_curation"]

_ID: Final = re.compile(r"SQ-[A-Z2-7]{8}")
_FIELDS: Final = frozenset({"ids", "title", "tickets", "fixed_in", "invalid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Curated:
    """One entry of the file."""

    ids: tuple[str, ...]
    """Ids that are one finding; its page has the first."""
    title: str | None = None
    tickets: tuple[str, ...] = ()
    fixed_in: tuple[str, ...] = ()
    """Systems, `product:version`: that version, and later ones of the product, are said to be free of it."""
    invalid: str | None = None
    """The reason for which it is no defect."""


@dataclass(frozen=True, slots=True)
class Curation:
    """All entries, by id."""

    by_id: Mapping[str, Curated]

    def of(self, ids: Iterable[str]) -> Curated | None:
        """Return the entry that names one of the ids."""
        return next((self.by_id[one] for one in ids if one in self.by_id), None)


NOTHING_CURATED: Final = Curation({})


def read_curation(path: Path) -> Curation:
    """Read the file. Raises PlanError, which names the entry."""
    try:
        document = tomllib.loads(read_named_text(path))
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise PlanError(f"{path} cannot be read: {error}") from error
    entries = document.get("finding", [])
    if document.keys() - {"finding"} or not isinstance(entries, list):
        raise PlanError(f"{path} has [[finding]] entries and nothing else")
    by_id: dict[str, Curated] = {}
    for number, entry in enumerate(entries, start=1):
        curated = _read_entry(entry, f"{path}, entry {number}")
        for one in curated.ids:
            if one in by_id:
                raise PlanError(f"{path}, entry {number}: {one} is in another entry, too")
            by_id[one] = curated
    return Curation(by_id)


def _read_entry(entry: Any, place: str) -> Curated:
    if not isinstance(entry, dict) or (unknown := entry.keys() - _FIELDS):
        raise PlanError(
            f"{place}: unknown fields: {', '.join(sorted(unknown)) if isinstance(entry, dict) else entry!r}"
        )
    texts = {name: _texts(entry.get(name, []), f"{place}: {name}") for name in ("ids", "tickets", "fixed_in")}
    for name in ("title", "invalid"):
        if not isinstance(entry.get(name, ""), str):
            raise PlanError(f"{place}: {name} must be a text")
    wrong = [one for one in texts["ids"] if _ID.fullmatch(one) is None]
    if wrong or not texts["ids"]:
        raise PlanError(f"{place}: ids must be a list of names such as SQ-E3ZATWYL, not {wrong or 'empty'}")
    if any(":" not in system for system in texts["fixed_in"]):
        raise PlanError(f"{place}: fixed_in must be systems such as cassandra:6.0")
    return Curated(
        ids=texts["ids"],
        title=entry.get("title"),
        tickets=texts["tickets"],
        fixed_in=texts["fixed_in"],
        invalid=entry.get("invalid"),
    )


def _texts(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(one, str) for one in value):
        raise PlanError(f"{place} must be a list of texts")
    return tuple(value)
