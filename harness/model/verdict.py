"""Verdicts: what a checker says, and how several are combined.

Three values, worst first: `False` outweighs `"unknown"` outweighs `True`. No verdict at all is unknown, and
unknown is never good news: a check that could not decide is not a check that passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from schemaquake.harness.model.operation import JSON

__all__ = ["Anomaly", "Validity", "Verdict", "combine"]

Validity: TypeAlias = Literal[True, False, "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One proven violation: what, on which objects and nodes, by which operations, and why that is impossible otherwise.

    `type` is a stable name of the catalogue; `ops` are indices into the history; `objects` are `keyspace` or
    `keyspace.name`; `explanation` is in the form Let …, Then …, But …; `references` are tickets and seed documents.
    """

    type: str
    title: str
    objects: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    ops: tuple[int, ...] = ()
    evidence: JSON = None
    explanation: str = ""
    references: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The anomaly as verdict.json holds it."""
        return {
            "type": self.type,
            "title": self.title,
            "objects": list(self.objects),
            "nodes": list(self.nodes),
            "ops": list(self.ops),
            "evidence": self.evidence,
            "explanation": self.explanation,
            "references": list(self.references),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Anomaly:
        """Read back what `to_json` wrote."""
        return cls(
            type=document["type"],
            title=document["title"],
            objects=tuple(document["objects"]),
            nodes=tuple(document["nodes"]),
            ops=tuple(document["ops"]),
            evidence=document["evidence"],
            explanation=document["explanation"],
            references=tuple(document["references"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A checker's answer. `reason` says why it is unknown; `parts` are the verdicts it was combined from."""

    valid: Validity
    checker: str
    anomalies: tuple[Anomaly, ...] = ()
    stats: Mapping[str, JSON] = field(default_factory=dict)
    reason: str | None = None
    parts: tuple[Verdict, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The verdict as one JSON document; keys in a fixed order, absent parts left out."""
        document: dict[str, Any] = {
            "valid": self.valid,
            "checker": self.checker,
            "anomalies": [anomaly.to_json() for anomaly in self.anomalies],
            "stats": dict(self.stats),
        }
        if self.reason is not None:
            document["reason"] = self.reason
        if self.parts:
            document["parts"] = [part.to_json() for part in self.parts]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Verdict:
        """Read back what `to_json` wrote."""
        return cls(
            valid=document["valid"],
            checker=document["checker"],
            anomalies=tuple(Anomaly.from_json(anomaly) for anomaly in document["anomalies"]),
            stats=document["stats"],
            reason=document.get("reason"),
            parts=tuple(cls.from_json(part) for part in document.get("parts", ())),
        )


def combine(validities: Iterable[Validity]) -> Validity:
    """False outweighs unknown outweighs true; nothing at all is unknown."""
    seen = set(validities)
    if False in seen:
        return False
    if "unknown" in seen or not seen:
        return "unknown"
    return True
