"""Manifest: the files of a bundle with their SHA-256, and where the run came from, as an in-toto statement.

`manifest.json` is canonical: sorted keys, no blanks, no fractions. Its SHA-256 is the bundle's id, which does not depend on how the
archive was compressed. Source: in-toto/attestation, spec/v1/statement.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from schemaquake.harness.errors import HistoryError

__all__ = ["FORMAT", "MANIFEST", "SUMS", "Manifest", "sha256_of"]

MANIFEST: Final = "manifest.json"
SUMS: Final = "SHA256SUMS"
FORMAT: Final = 1
"""Version of the bundle's format."""

_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_PREDICATE: Final = "urn:schemaquake:run:1"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The content of `manifest.json`."""

    files: Mapping[str, str]
    """Name in the bundle → SHA-256."""
    predicate: Mapping[str, Any]
    """The run's provenance and findings (`schemaquake.results.bundle.provenance`)."""

    def to_bytes(self) -> bytes:
        """Render the canonical bytes. Raises ValueError for a predicate with fractions, which have no canonical form."""
        if _has_fraction(self.predicate):
            raise ValueError("a manifest holds no fractions")
        document = {
            "_type": _STATEMENT,
            "subject": [{"name": name, "digest": {"sha256": self.files[name]}} for name in sorted(self.files)],
            "predicateType": _PREDICATE,
            "predicate": self.predicate,
        }
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS) + b"\n"

    @property
    def id(self) -> str:
        """The bundle's id."""
        return sha256_of(self.to_bytes())

    def sums(self) -> bytes:
        """Render `SHA256SUMS`, which `sha256sum -c` reads: every file, and the manifest itself."""
        listed = {**self.files, MANIFEST: self.id}
        return "".join(f"{listed[name]}  {name}\n" for name in sorted(listed)).encode()

    @classmethod
    def parse(cls, content: bytes) -> Manifest:
        """Parse what `to_bytes` rendered. Raises HistoryError for anything else, also for the same in another form."""
        try:
            document = orjson.loads(content)
            files = {str(one["name"]): _digest(one["digest"]["sha256"]) for one in document["subject"]}
            manifest = cls(files=files, predicate=dict(document["predicate"]))
            if document["predicateType"] != _PREDICATE or manifest.predicate["format"] != FORMAT:
                raise HistoryError(f"{MANIFEST} is of another format than {FORMAT}, the one that this version reads")
            canonical = manifest.to_bytes()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise HistoryError(f"{MANIFEST} is damaged: {error}") from error
        if canonical != content:
            raise HistoryError(f"{MANIFEST} is not in its canonical form")
        return manifest


def _digest(text: object) -> str:
    if not isinstance(text, str) or _SHA256.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no SHA-256")
    return text


def _has_fraction(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_fraction, value.values()))
    return any(map(_has_fraction, value)) if isinstance(value, list | tuple) else isinstance(value, float)
