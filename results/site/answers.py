"""Answers: the shipped questions about the tables of a corpus, asked by Spark and drawn as one page of the site.

They are asked once for each state of the tables: what was answered is kept beside the site's other memory.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import orjson

from schemaquake.harness.errors import EnvironmentLacks, HistoryError
from schemaquake.results.corpus.asking import Question, ask, questions
from schemaquake.results.corpus.building import Corpus
from schemaquake.results.corpus.commits import COMMITS
from schemaquake.results.corpus.files import address_of
from schemaquake.results.engines.spark_session import spark_session
from schemaquake.results.site.records import file_name, system_file_name
from schemaquake.results.site.rendering import render
from schemaquake.results.wording import system_name

__all__ = ["ANSWERS", "ANSWERS_PAGE", "Answered", "answer_pages", "answers_of"]

log = logging.getLogger(__name__)

ANSWERS: Final = "answers"
"""The folder of the answers as JSON, below the site; and of those that are kept, below its memory."""
ANSWERS_PAGE: Final = "answers.html"
_ROWS_SHOWN: Final = 200
_NOT_ASKED: Final = ("tries",)
"""Questions that others build upon, with a row for each run."""
_HEADINGS: Final[Mapping[str, str]] = {
    "system": "Version",
    "f": "Operation",
    "type": "Outcome",
    "kind": "Anomaly",
    "title": "Finding",
    "doubt": "Doubt",
    "name": "Run",
    "seen_at": "Seen again",
    "tried": "Decided tries",
    "needed": "Tries needed",
    "broken_runs": "Runs that broke",
    "ok": "Acknowledged",
    "fail": "Refused",
    "info": "Unknown",
    "low": "At least",
    "high": "At most",
    "fault": "Fault in place",
    "p50_ms": "Median, ms",
    "p99_ms": "99th percentile, ms",
    "max_ms": "Longest, ms",
    "median_s": "Median, s",
    "p99_s": "99th percentile, s",
    "max_s": "Longest, s",
}
"""Column → heading, where the column's own name does not do."""
_LEFT_OUT: Final = ("finding", "unit")
"""Columns that are the address of another one, or its unit."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answers of one corpus."""

    corpus: str
    """The name of its folder."""
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    """Rows by question."""


def answers_of(corpora: Sequence[Path], cache: Path) -> tuple[list[Answered], list[tuple[str, str]]]:
    """Ask every question about some corpora. Returns the answers, and the corpora that could not be asked, with the reason."""
    answered: list[Answered] = []
    unread: list[tuple[str, str]] = []
    kept: set[Path] = set()
    for corpus in corpora:
        memory = cache / ANSWERS / f"{_state(corpus)}.json"
        kept.add(memory)
        try:
            rows = _remembered(memory) or _asked(corpus, memory)
        except (EnvironmentLacks, HistoryError) as error:
            unread.append((corpus.name, f"questions were not asked: {error}"))
            continue
        answered.append(Answered(corpus.name, rows))
    for path in (cache / ANSWERS).glob("*"):
        if path not in kept:
            path.unlink()
    return answered, unread


def answer_pages(
    answered: Sequence[Answered], *, pages_of_runs: Collection[str], findings: Collection[str], systems: Collection[str]
) -> Iterator[tuple[str, bytes]]:
    """Yield the page of all answers, and a JSON file of each with every row; nothing without answers.

    A run, a finding or a version that has a page is linked to it.
    """
    known = questions()
    links = _Links(pages_of_runs, findings, systems)
    shown = []
    for one in answered:
        for name, rows in one.rows.items():
            file = f"{ANSWERS}/{file_name(f'{one.corpus}-{name}')}.json"
            yield file, orjson.dumps(rows, option=orjson.OPT_INDENT_2) + b"\n"
            shown.append({**_section(known[name], rows, links), "corpus": one.corpus, "file": file})
    if answered:
        many = len(answered) > 1
        yield ANSWERS_PAGE, render("answers.html.j2", depth=0, here="answers", sections=shown, many=many).encode()


def _state(corpus: Path) -> str:
    """Name the state of a corpus and of the questions."""
    digest = blake2b(digest_size=16)
    digest.update(str(corpus).encode("utf-8", "surrogateescape"))
    for path in sorted((corpus / COMMITS).glob("*.json")):
        digest.update(path.name.encode() + path.read_bytes())
    for one in questions().values():
        digest.update(one.name.encode() + one.sql.encode())
    return digest.hexdigest()


def _remembered(memory: Path) -> dict[str, list[dict[str, Any]]] | None:
    try:
        kept = orjson.loads(memory.read_bytes())
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) and {*kept} == {one.name for one in _asked_questions()} else None


def _asked(corpus: Path, memory: Path) -> dict[str, list[dict[str, Any]]]:
    with spark_session() as session:
        frames = Corpus(session, address_of(str(corpus))).frames()
        rows = {one.name: ask(frames, one.name) for one in _asked_questions()}
    log.info("questions were asked", extra={"corpus": str(corpus), "questions": len(rows)})
    memory.parent.mkdir(parents=True, exist_ok=True)
    draft = memory.with_suffix(".new")
    draft.write_bytes(orjson.dumps(rows))
    draft.replace(memory)
    return rows


def _asked_questions() -> list[Question]:
    return [one for one in questions().values() if one.name not in _NOT_ASKED]


# ── values for the template ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Links:
    """Names that have a page."""

    runs: Collection[str]
    findings: Collection[str]
    systems: Collection[str]

    def of(self, column: str, row: Mapping[str, Any]) -> str | None:
        """Return the page that a cell leads to, from the root of the site."""
        value = row[column]
        if column == "system" and value in self.systems:
            return f"versions/{system_file_name(value)}.html"
        if column in {"run", "name"} and value and (page := file_name(value)) in self.runs:
            return f"runs/{page}.html"
        if column == "title" and row["finding"] in self.findings:
            return f"findings/{row['finding']}.html"
        return None


def _section(question: Question, rows: Sequence[Mapping[str, Any]], links: _Links) -> dict[str, Any]:
    columns = [name for name in (rows[0] if rows else ()) if name not in _LEFT_OUT]
    return {
        "name": question.name,
        "title": question.name.capitalize(),
        "about": question.about[0].upper() + question.about[1:],
        "headings": [_HEADINGS.get(name, name.replace("_", " ").capitalize()) for name in columns],
        "rows": [[_cell(name, row, links) for name in columns] for row in rows[:_ROWS_SHOWN]],
        "total": len(rows),
    }


def _cell(column: str, row: Mapping[str, Any], links: _Links) -> dict[str, Any]:
    value = row[column]
    return {
        "text": _text(column, value),
        "link": links.of(column, row),
        "is_number": isinstance(value, int | float) and not isinstance(value, bool),
    }


def _text(column: str, value: Any) -> str:
    if value is None:
        return "–"
    if column == "system":
        return system_name(value)
    if column in {"low", "high"}:
        return f"{100 * value:.0f} %"
    if isinstance(value, float):
        return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
