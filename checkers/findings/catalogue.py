"""The catalogue: every anomaly type a checker may report, with its sources.

`anomalies.toml` beside this file, and one in each package of checkers that has its own, are the places where types are
described; reports, docs and `schemaquake list anomalies` read them through `CATALOGUE`, and checkers build their findings
with `anomaly`, so a finding cannot bear a name that nobody can look up.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Anomaly

__all__ = ["CATALOGUE", "AnomalyType", "anomaly"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyType:
    """One kind of violation: what is judged, what it does to a user, and who has spoken of it before.

    `seeds` are passages of the four founding documents, `tickets` are Apache JIRA keys, `bugs` are numbers in the
    list of known bugs (B1 …), `papers` define what is judged. Anomalies of data need no founding document.
    """

    name: str
    title: str
    description: str
    worst: str
    seeds: tuple[str, ...]
    tickets: tuple[str, ...]
    bugs: tuple[str, ...]
    papers: tuple[str, ...] = ()

    @property
    def references(self) -> tuple[str, ...]:
        """What a finding of this type cites: tickets, seed documents, papers."""
        return self.tickets + self.seeds + self.papers


_PACKAGES: Final = ("schemaquake.checkers.findings", "schemaquake.checkers.elle", "schemaquake.checkers.weak_isolation")


def _read() -> Mapping[str, AnomalyType]:
    texts = [files(package).joinpath("anomalies.toml").read_text(encoding="utf-8") for package in _PACKAGES]
    document = {name: entry for text in texts for name, entry in tomllib.loads(text).items()}
    return MappingProxyType(
        {
            name: AnomalyType(
                name=name,
                title=entry["title"],
                description=entry["description"],
                worst=entry["worst"],
                seeds=tuple(entry["seeds"]),
                tickets=tuple(entry["tickets"]),
                bugs=tuple(entry["bugs"]),
                papers=tuple(entry.get("papers", ())),
            )
            for name, entry in document.items()
        }
    )


CATALOGUE: Final[Mapping[str, AnomalyType]] = _read()


def anomaly(
    type: str,  # noqa: A002 - the word of the verdict's format
    *,
    objects: Iterable[str] = (),
    nodes: Iterable[str] = (),
    ops: Iterable[int] = (),
    evidence: JSON = None,
    explanation: str,
) -> Anomaly:
    """A finding of that type, with title and references from the catalogue.

    `ops` are indices of invocations. Nodes and ops are sorted and listed once. Raises KeyError for a type that the
    catalogue does not know.
    """
    known = CATALOGUE[type]
    return Anomaly(
        type=type,
        title=known.title,
        objects=tuple(objects),
        nodes=tuple(sorted(set(nodes))),
        ops=tuple(sorted(set(ops))),
        evidence=evidence,
        explanation=explanation,
        references=known.references,
    )
