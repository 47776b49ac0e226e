"""Placeless facts: what a matrix or a grid keeps of a run names no folder of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import orjson

__all__ = ["StoredFacts", "without_folder"]


class StoredFacts(Protocol):
    """Facts of a run that are stored as JSON."""

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON."""
        ...

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Parse what `to_json` returned."""
        ...


Facts = TypeVar("Facts", bound=StoredFacts)


def without_folder(facts: Facts, folder: Path) -> Facts:
    """Return the facts as they are stored, with paths in texts relative to the folder of the work: servers write their own into their logs."""
    text = orjson.dumps(facts.to_json()).replace(f"{folder.resolve()}/".encode(), b"")
    return type(facts).from_json(orjson.loads(text))
