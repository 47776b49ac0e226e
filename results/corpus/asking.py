"""Asking: the shipped questions, as SQL on the tables of a corpus, answered by Spark; intervals are added to the few rows that come back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from schemaquake.harness.errors import PlanError
from schemaquake.results.corpus.frames import CorpusFrames
from schemaquake.results.engines.spark_session import pandas_unused
from schemaquake.results.intervals import wilson

__all__ = ["Question", "ask", "questions"]

_FOLDER: Final = Path(__file__).parent / "queries"
_VIEW: Final = "tries"
"""A query that others build upon."""
_RATES: Final[Mapping[str, tuple[str, str]]] = {
    "rates": ("broken", "tried"),
    "findings": ("broken", "tried"),
    "availability": ("ok", "attempts"),
}
"""Question → the columns whose share gets an interval."""


@dataclass(frozen=True, slots=True)
class Question:
    """One shipped question."""

    name: str
    about: str
    sql: str

    @property
    def takes_since(self) -> bool:
        """True if the answer depends on a date."""
        return ":since" in self.sql


def questions() -> dict[str, Question]:
    """Return the questions by name."""
    found = {}
    for path in sorted(_FOLDER.glob("*.sql")):
        sql = path.read_text("utf-8")
        about = " ".join(line.removeprefix("--").strip() for line in sql.splitlines() if line.startswith("--"))
        found[path.stem] = Question(path.stem, re.sub(r"^[A-Z][a-z]+: ", "", about), sql)
    return found


@pandas_unused()
def ask(frames: CorpusFrames, name: str, *, since: str | None = None) -> list[dict[str, Any]]:
    """Answer a question. Rates have `low` and `high`, the ends of their 95 % interval (Wilson's). Raises PlanError for an unknown name."""
    known = questions()
    if name not in known:
        raise PlanError(f"--query is one of {', '.join(known)}, not {name}")
    frames.register()
    frames.session.sql(known[_VIEW].sql).createOrReplaceTempView(_VIEW)
    named = {"since": since} if known[name].takes_since else None
    rows: list[dict[str, Any]] = frames.session.sql(known[name].sql, args=named).toArrow().to_pylist()
    return [_with_interval(row, *_RATES[name]) for row in rows] if name in _RATES else rows


def _with_interval(row: Mapping[str, Any], broken: str, tried: str) -> dict[str, Any]:
    low, high = wilson(int(row[broken]), int(row[tried]))
    return {**row, "low": round(low, 4), "high": round(high, 4)}
