"""Causes: the identity of a finding, made of structure alone.

Two anomalies have one cause if they were found on the same design (product and era), after contested statements of the same
shape, and, where a single coordinator took part, under the same kind of fault. Changes that were made in the middle of an
upgrade, and met no other, have the upgrade as their cause. Where no schema change was contested the cause
is not known, and the symptom itself is what runs can be compared by.

The version, the mode, names and numbers are no part of it. Source: syzbot's titles as identities mix causes (syzkaller #3806);
ClusterFuzz's shared frames glue them (oss-fuzz #8389).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import orjson

from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.errors import PlanError
from schemaquake.results.findings.shapes import Shape, parse_shape

__all__ = ["FINGERPRINT", "Cause", "read_design"]

FINGERPRINT: Final = 1
"""Version of the identity. A new one gives every finding a new id."""

_LETTERS: Final = 8  # base32 characters, 40 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The structure that identifies a finding."""

    product: str
    era: str
    """The label of the system's design; empty for a system that is not installed."""
    statements: tuple[Shape, ...] = ()
    """Shapes of the contested statements; empty if none is known."""
    fault: str | None = None
    """Nemeses in place, joined by `+`, if no second coordinator took part."""
    symptom: str | None = None
    """Type of the worst anomaly, where no statement is known."""
    mechanism: str | None = None
    """Its mechanism, if it has one: the rule of the log, the class of the exception, the error of what was refused, the operation that hangs."""
    upgrade_to: str | None = None
    """The era that nodes were becoming, where schema changes were made while versions were mixed and none of them met another."""

    @property
    def id(self) -> str:
        """The finding's name: `SQ-` and eight characters of a hash of the cause."""
        text = orjson.dumps({"fingerprint": FINGERPRINT, **self.to_json()}, option=orjson.OPT_SORT_KEYS)
        digest = blake2b(text, digest_size=_LETTERS * 5 // 8).digest()
        return f"SQ-{base64.b32encode(digest).decode()}"

    @property
    def known(self) -> bool:
        """False if the anomalies could not be attributed to contested statements."""
        return bool(self.statements) or self.upgrade_to is not None

    @property
    def across_designs(self) -> tuple[object, ...]:
        """The cause without the system's design: what is compared from version to version."""
        return self.product, self.statements, self.fault, self.symptom, self.mechanism, self.upgrade_to

    def to_json(self) -> dict[str, Any]:
        """Return the cause as JSON; its canonical form is what `id` hashes."""
        return {
            "product": self.product,
            "era": self.era,
            "statements": [str(shape) for shape in self.statements],
            "fault": self.fault,
            "symptom": self.symptom,
            "mechanism": self.mechanism,
            **({} if self.upgrade_to is None else {"upgrade_to": self.upgrade_to}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Cause:
        """Parse what `to_json` returned. Raises KeyError or ValueError for other documents."""
        return cls(
            product=document["product"],
            era=document["era"],
            statements=tuple(map(parse_shape, document["statements"])),
            fault=document["fault"],
            symptom=document["symptom"],
            mechanism=document["mechanism"],
            upgrade_to=document.get("upgrade_to"),
        )


def read_design(system: str) -> tuple[str, str]:
    """Return the product and the era of `product:version`; the era is empty if the product is not installed here."""
    product = system.partition(":")[0]
    try:
        return product, parse_system(system).era
    except PlanError:
        return product, ""
