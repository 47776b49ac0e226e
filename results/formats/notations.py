"""Notations: the built-in text formats of histories: EDN as written by Jepsen, and elle-cli's JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import BinaryIO, Final

from schemaquake.harness.model.operation import JSON
from schemaquake.results.formats import edn, elle_json

__all__ = ["EDN", "ELLE_JSON", "Notation"]


@dataclass(frozen=True, slots=True)
class Notation:
    """A `schemaquake.harness.model.protocols.HistoryFormat` that the scanner of large files supports, too."""

    name: str
    suffixes: tuple[str, ...]
    module: ModuleType
    """Parser of the notation: `forms`, and for the scanner `opening`, `ops` and `closing`."""
    about: str
    """What `schemaquake list formats` says of it."""

    def events(self, file: BinaryIO, name: str) -> Iterator[tuple[int, Mapping[str, JSON]]]:
        """Read every operation of the file with its line. Raises HistoryError."""
        return self.module.forms(file, name)  # type: ignore[no-any-return]


EDN: Final = Notation("edn", (".edn",), edn, "EDN: operations as Jepsen writes them, one map each.")
ELLE_JSON: Final = Notation(
    "json", (".json", ".jsonl"), elle_json, "JSON: operations as elle-cli reads them, in one list or one a line."
)
