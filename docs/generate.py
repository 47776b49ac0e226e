"""Rewrites the pages that are made from the code: anomalies.md and outcomes.md (`python docs/generate.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from schemaquake.checkers.findings.catalogue import CATALOGUE, AnomalyType, finders
from schemaquake.clusters.systems.outcome import Outcome
from schemaquake.harness.registry import load_all

__all__ = ["PAGES", "anomalies", "outcomes"]

_DOCS = Path(__file__).parent
_ROOT = _DOCS.parent
_JIRA = "https://issues.apache.org/jira/browse/"
_CLIENTS = {
    "cql": "CQL: Cassandra 1.2 to 6.0",
    "thrift": "Thrift: Cassandra 0.7 to 1.1",
    "group0": "ScyllaDB: before the table of CQL",
}
_MARK = "<!-- From here on written by docs/generate.py. -->\n\n"


def anomalies() -> str:
    """anomalies.md: its opening as it stands, then every type of the catalogue."""
    return _opening("anomalies.md") + "\n".join(map(_anomaly, CATALOGUE.values()))


def outcomes() -> str:
    """outcomes.md: its text as it stands, then every row of each client's table, in the order in which they are tried."""
    tables = (f"### {_CLIENTS[name]}\n\n{_table(rows)}" for name, rows in load_all("outcomes").items())
    return _opening("outcomes.md") + "\n".join(tables)


def _table(outcomes: Sequence[Outcome]) -> str:
    rows = [f"| {_code(row.error)} | {_code(row.text)} | {row.on} | {row.means} | {row.because} |" for row in outcomes]
    head = ["| error | text | on | means | because |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


PAGES = {"anomalies.md": anomalies, "outcomes.md": outcomes}


def _opening(page: str) -> str:
    """Return the hand-written opening of a page."""
    return (_DOCS / page).read_text(encoding="utf-8").partition(_MARK)[0] + _MARK


def _anomaly(kind: AnomalyType) -> str:
    facts = {
        "Found by": ", ".join(f"[{name}](checkers.md#{name})" for name in sorted(finders()[kind.name])),
        "Concerns": {"object": "", "node": "a node as a whole", "cluster": "the cluster as a whole"}[kind.scope],
        "May follow from": ", ".join(f"[{name}](#{name.lower()})" for name in kind.follows_from),
        "Seed documents": "; ".join(kind.seeds),
        "Papers": "; ".join(kind.papers),
        "Tickets": ", ".join(f"[{ticket}]({_JIRA}{ticket})" for ticket in kind.tickets),
        "Known bugs": ", ".join(f"[{bug}](bugs.md#{bug.lower()})" for bug in kind.bugs),
    }
    told = "\n".join(f"- **{what}:** {text}" for what, text in facts.items() if text)
    return f"## {kind.name}\n\n**{kind.title}.** {kind.description}\n\nWhat it does to a user: {kind.worst}\n\n{told}\n"


def _code(text: str) -> str:
    """A name or a regular expression; a bar would end the table's cell."""
    return "`" + text.replace("|", r"\|") + "`" if text else "any"


if __name__ == "__main__":
    for page, render in PAGES.items():
        (_DOCS / page).write_text(render(), encoding="utf-8")
