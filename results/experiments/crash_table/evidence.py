"""Evidence: what a killed node left, and after which step of the migration it must have died.

Judged from what its system tables hold once its commit log was replayed, from its own log of both starts, and from the
files of a dropped table as they lay when it was dead. Nothing is concluded from the moment of the kill.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["ACKNOWLEDGED", "UNTOLD", "Evidence", "Kind", "died_after", "what_happened"]

Kind = Literal["create-table", "drop-table"]

ACKNOWLEDGED = "acknowledged"
"""Every step was done, and the client was told so before the kill."""
UNTOLD = "untold"
"""The node did not start again, so nobody could look into its tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One try: a change, a kill, a start. Tables are told as they are after the start."""

    number: int
    kind: Kind
    delay_s: float
    """From the moment when the change was sent to the kill."""
    outcome: Literal["ok", "fail", "info"]
    error: str | None
    snapshot: bool
    """Whether a snapshot of the dropped table was on disk when the node was dead."""
    files: bool
    """Whether data files of the dropped table were, not marked for deletion; always false for a create."""
    flushing: bool
    """Whether temporary files of the definitions' own column families were: their flush had begun and was not over."""
    started: bool
    first_error: str | None
    definitions: bool = False
    """Whether SCHEMA_CF has a row of a version that it did not have before the change."""
    migration: bool = False
    """Whether MIGRATIONS_CF has a column of such a version."""
    moved: bool = False
    """Whether "Last Migration" is such a version."""
    loaded: bool = False
    """Whether the start loaded such a version, before it replayed the commit log."""
    reapplied: bool = False
    """Whether the start applied a migration after it replayed the commit log."""
    applied: bool = False
    """Whether the change shows in the schema that the node serves."""
    files_after: bool = False
    """Whether data files of a dropped table were still there after the start."""
    changes_again: bool = False
    """Whether the node takes another schema change."""
    rows: int | None = None
    """Of the rows written before a drop, how many are read: from the table if it is there, else once it is created anew."""
    log: tuple[str, ...] = ()
    """The lines of both starts that tell of migrations."""

    def to_json(self) -> dict[str, Any]:
        """As a document, with the step."""
        told = {name: getattr(self, name) for name in self.__slots__}
        return {**told, "log": list(self.log), "died_after": died_after(self)}


def died_after(told: Evidence) -> str:
    """The last step that was certainly done: "1" to "6", "5 or 6" where nothing tells them apart, ACKNOWLEDGED, UNTOLD."""
    if told.outcome == "ok":
        return ACKNOWLEDGED
    if not told.started:
        return "4" if told.flushing else UNTOLD
    if not told.definitions:
        return "1.1" if told.snapshot else "1"
    if not told.migration:
        return "2"
    if not told.moved:
        return "3"
    if not told.loaded:
        return "4"
    if told.kind == "create-table":
        return "5 or 6"  # what a create does to a running node dies with it
    return "5" if told.files else "6"


def what_happened(told: Evidence) -> str:
    """What became of node and change, in a sentence: tries of one sentence are counted together."""
    if not told.started:
        return f"the node does not start: {_cause(told.first_error or 'no error in its log')}"
    change = {"create-table": "created", "drop-table": "dropped"}[told.kind]
    parts = [f"starts; the table is {change if told.applied else f'not {change}'}"]
    if told.reapplied:
        parts.append("the migration was applied again after the commit log")
    elif told.definitions and not told.moved:
        parts.append(f"left over: definitions{' and migration' if told.migration else ''}")
    if told.kind == "drop-table":
        parts += _of_rows(told)
    if not told.changes_again:
        parts.append("refuses every further change")
    return "; ".join(parts)


def _cause(error: str) -> str:
    """The exception at the root of it, without what differs from try to try: paths, and numbers of files."""
    lines = [line.strip() for line in error.splitlines()]
    root = next((line for line in reversed(lines) if line.startswith("Caused by: ")), lines[-1])
    return re.sub(r"-\d+-", "-N-", re.sub(r"/\S*/", "", root.removeprefix("Caused by: ")))


def _of_rows(told: Evidence) -> list[str]:
    parts = ["an extra snapshot"] if told.snapshot and not told.applied else []
    if not told.applied:
        return parts if told.rows else [*parts, "its rows are gone"]
    if told.files_after:
        parts.append("its files are left")
    if told.rows:
        parts.append("created anew, it has its old rows: an instant database")
    return parts
