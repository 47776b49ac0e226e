"""Node logs: the log of changes that a node of a group keeps, and the group, as one complete reading has them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

__all__ = ["Change", "NodeLog", "spaced"]

_STATEMENT: Final = re.compile(r'CQL DDL statement: "(?P<text>.*)"', re.DOTALL)


class Change(NamedTuple):
    """One entry of the log. A later one has a higher epoch."""

    epoch: int
    id: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLog:
    """One node's log and group, from its last complete reading of a final phase."""

    phase: str
    node: str
    began: int
    """Time (ns) of the reading's first row: the log was read later."""
    changes: Sequence[Change]
    caught_up: bool
    """True if the node had passed a read barrier before."""
    cut: bool
    """True if there may be older entries."""
    group: Mapping[str, Any]
    epoch: int | None = None
    """The newest change that the node named before its log was read."""

    @property
    def texts(self) -> Sequence[str]:
        """Statements in the log, in its order."""
        return [text for change in self.changes for text in self.statement_of(change)]

    @property
    def statements(self) -> Counter[str]:
        """Statements in the log, with their numbers of entries."""
        return Counter(self.texts)

    @staticmethod
    def statement_of(change: Change) -> Sequence[str]:
        """Return the statement of an entry; empty: it is no change of the schema."""
        match = _STATEMENT.fullmatch(change.description)
        return [] if match is None else [spaced(match["text"])]


def spaced(text: str) -> str:
    """Return a statement with single spaces, and without its semicolon."""
    return " ".join(text.split()).removesuffix(";")
