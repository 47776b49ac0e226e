"""Evidence: the state that a killed node left, and the step of the migration after which it must have died.

Judged from its system tables after the replay of its commit log, from its own log of both starts, and from the
files of a dropped table while the node was dead. Nothing is concluded from the moment of the kill.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["ACKNOWLEDGED", "UNKNOWN_STEP", "Evidence", "Kind", "describe_result", "died_after"]

Kind = Literal["create-table", "drop-table"]

ACKNOWLEDGED = "acknowledged"
"""Every step was done, and the change was acknowledged before the kill."""
UNKNOWN_STEP = "untold"
"""The node did not start again, so its tables could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One try: a change, a kill, a start. Tables are described as they are after the start."""

    number: int
    kind: Kind
    delay_s: float
    """The time in seconds from sending the change to the kill."""
    outcome: Literal["ok", "fail", "info"]
    error: str | None
    snapshot: bool
    """True if a snapshot of the dropped table was on disk while the node was dead."""
    files: bool
    """True if data files of the dropped table, not marked for deletion, were on disk then; always False for a create."""
    flushing: bool
    """True if temporary files of the definitions' own column families were on disk then: their flush was not over."""
    started: bool
    first_error: str | None
    definitions: bool = False
    """True if SCHEMA_CF has a row of a version that it did not have before the change."""
    migration: bool = False
    """True if MIGRATIONS_CF has a column of such a version."""
    moved: bool = False
    """True if "Last Migration" is such a version."""
    loaded: bool = False
    """True if the start loaded such a version, before it replayed the commit log."""
    reapplied: bool = False
    """True if the start applied a migration after it replayed the commit log."""
    applied: bool = False
    """True if the change shows in the schema that the node serves."""
    files_after: bool = False
    """True if data files of a dropped table were still there after the start."""
    changes_again: bool = False
    """True if the node takes another schema change."""
    rows: int | None = None
    """The number of rows written before a drop that can be read: from the table if it exists, else once it is created anew."""
    log: tuple[str, ...] = ()
    """The lines of both starts that mention migrations."""

    def to_json(self) -> dict[str, Any]:
        """Return the try as a document, with the step."""
        evidence = {name: getattr(self, name) for name in self.__slots__}
        return {**evidence, "log": list(self.log), "died_after": died_after(self)}


def died_after(evidence: Evidence) -> str:
    """Return the last step that was certainly done: "1" to "6", "5 or 6" if they cannot be distinguished, ACKNOWLEDGED, UNKNOWN_STEP."""
    if evidence.outcome == "ok":
        return ACKNOWLEDGED
    if not evidence.started:
        return "4" if evidence.flushing else UNKNOWN_STEP
    if not evidence.definitions:
        return "1.1" if evidence.snapshot else "1"
    if not evidence.migration:
        return "2"
    if not evidence.moved:
        return "3"
    if not evidence.loaded:
        return "4"
    if evidence.kind == "create-table":
        return "5 or 6"  # a create's effect on a running node dies with the node
    return "5" if evidence.files else "6"


def describe_result(evidence: Evidence) -> str:
    """Describe the state of node and change in a sentence: tries of one sentence are counted together."""
    if not evidence.started:
        return f"the node does not start: {_cause(evidence.first_error or 'no error in its log')}"
    change = {"create-table": "created", "drop-table": "dropped"}[evidence.kind]
    parts = [f"starts; the table is {change if evidence.applied else f'not {change}'}"]
    if evidence.reapplied:
        parts.append("the migration was applied again after the commit log")
    elif evidence.definitions and not evidence.moved:
        parts.append(f"left over: definitions{' and migration' if evidence.migration else ''}")
    if evidence.kind == "drop-table":
        parts += _describe_rows(evidence)
    if not evidence.changes_again:
        parts.append("refuses every further change")
    return "; ".join(parts)


def _cause(error: str) -> str:
    """Return the root exception, without the parts that differ from try to try: paths, and numbers of files."""
    lines = [line.strip() for line in error.splitlines()]
    root = next((line for line in reversed(lines) if line.startswith("Caused by: ")), lines[-1])
    return re.sub(r"-\d+-", "-N-", re.sub(r"/\S*/", "", root.removeprefix("Caused by: ")))


def _describe_rows(evidence: Evidence) -> list[str]:
    parts = ["an extra snapshot"] if evidence.snapshot and not evidence.applied else []
    if not evidence.applied:
        return parts if evidence.rows else [*parts, "its rows are gone"]
    if evidence.files_after:
        parts.append("its files are left")
    if evidence.rows:
        parts.append("created anew, it has its old rows: an instant database")
    return parts
