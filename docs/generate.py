"""Rewrites the two pages that say what the code says, anomalies.md and outcomes.md: `python docs/generate.py`."""

from __future__ import annotations

import inspect
from pathlib import Path

from checkers.catalogue import CATALOGUE, AnomalyType
from clusters.outcomes import TABLE
from harness.registry import load_all

__all__ = ["PAGES", "anomalies", "outcomes"]

_DOCS = Path(__file__).parent
_JIRA = "https://issues.apache.org/jira/browse/"


def anomalies() -> str:
    """anomalies.md: its opening as it stands, then every type of the catalogue."""
    finders = {name: inspect.getmodule(type(checker)).__doc__ or "" for name, checker in load_all("checkers").items()}
    return _opening("anomalies.md") + "".join(_anomaly(kind, finders) for kind in CATALOGUE.values())


def outcomes() -> str:
    """outcomes.md: its text as it stands, then every row of the table, in the order in which they are tried."""
    rows = [f"| {_code(row.error)} | {_code(row.text)} | {row.on} | {row.means} | {row.because} |" for row in TABLE]
    head = ["| error | text | on | means | because |", "|---|---|---|---|---|"]
    return _opening("outcomes.md") + "\n".join([*head, *rows]) + "\n"


PAGES = {"anomalies.md": anomalies, "outcomes.md": outcomes}

_MARK = "<!-- From here on written by docs/generate.py. -->\n\n"


def _opening(page: str) -> str:
    """What was written by hand."""
    return (_DOCS / page).read_text(encoding="utf-8").partition(_MARK)[0] + _MARK


def _anomaly(kind: AnomalyType, finders: dict[str, str]) -> str:
    found_by = [f"[{name}](checkers.md#{name})" for name, said in finders.items() if f"`{kind.name}`" in said]
    facts = {
        "Found by": ", ".join(found_by),
        "Seed documents": "; ".join(kind.seeds),
        "Tickets": ", ".join(f"[{ticket}]({_JIRA}{ticket})" for ticket in kind.tickets),
        "Known bugs": ", ".join(f"[{bug}](bugs.md#{bug.lower()})" for bug in kind.bugs),
    }
    told = "\n".join(f"- **{what}:** {text}" for what, text in facts.items() if text)
    return f"## {kind.name}\n\n**{kind.title}.** {kind.description}\n\n{kind.worst}\n\n{told}\n\n"


def _code(text: str) -> str:
    """A name or a regular expression; a bar would end the table's cell."""
    return "`" + text.replace("|", r"\|") + "`" if text else "any"


if __name__ == "__main__":
    for page, render in PAGES.items():
        (_DOCS / page).write_text(render(), encoding="utf-8")
