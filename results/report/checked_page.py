"""Checked page: the verdict on one history file as a self-contained HTML page, with findings and pictures of cycles."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Verdict
from schemaquake.results.report.findings import reasons_of
from schemaquake.results.report.html import CheckerView, FindingView, checker_view, finding_views, render
from schemaquake.results.report.material import Material, anomalies_of, checkers_of, counts
from schemaquake.results.wording import VERDICT_MARK, counted, joined, shortened, verdict_name, verdict_word

__all__ = ["render_checked_html"]

_FACTS: Final[Mapping[str, str]] = {
    "transactions": "Transactions",
    "calls": "Calls",
    "keys": "Keys",
    "models": "Asked for",
    "not": "Ruled out, weakest",
    "not-decided": "Not decided",
    "promises": "Relied on",
}
"""Checker statistics shown in the page's header: name in the verdict → label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    name: str
    word: str
    mark: str
    version: str
    file: str
    headline: str
    facts: Sequence[tuple[str, str]]
    findings: Sequence[FindingView]
    nothing_found: str
    reasons: Sequence[str]
    checkers: Sequence[CheckerView]
    command: str


def render_checked_html(verdict: Verdict, file: Path, *, version: str, command: Sequence[str]) -> str:
    """Render the page of one history file. `command` is the command line that judges the file again."""
    material = Material(run=file.name, plan={}, verdict=verdict)
    name = verdict_name(verdict.valid)
    page = _Page(
        name=name,
        word=verdict_word(verdict.valid),
        mark=VERDICT_MARK[name],
        version=version,
        file=file.name,
        headline=_headline(material),
        facts=_facts(verdict),
        findings=finding_views(material),
        nothing_found=_nothing_found(verdict),
        reasons=reasons_of(material),
        checkers=[checker_view(part, counts=counts(verdict, part)) for part in checkers_of(verdict)],
        command=shlex.join(command),
    )
    return render("checked.html.j2", charts=False, page=page)


def _headline(material: Material) -> str:
    verdict = material.verdict
    models = joined(_stat(verdict, "models"), last="or")
    if verdict.valid is False:
        ways = len({anomaly.type for anomaly in anomalies_of(verdict)})
        return f"Not {models or 'what was promised'}: it is broken in {counted(ways, 'way')}."
    if verdict.valid == "unknown":
        return f"Not decided: {shortened('; '.join(reasons_of(material)) or 'no checker gave a reason', 300)}."
    undecided = joined(_stat(verdict, "not-decided"))
    doubt = f", as far as the order of versions is known ({undecided})" if undecided else ""
    return f"{models or 'What was promised'} holds{doubt}: no checker found an anomaly."


def _nothing_found(verdict: Verdict) -> str:
    if verdict.valid is True:
        return "No checker found an anomaly."
    if verdict.valid == "unknown":
        return "No anomaly was proven, but this history cannot be called valid: some checks could not decide."
    return "The history is invalid, but no checker described an anomaly; see the checkers below."


def _facts(verdict: Verdict) -> list[tuple[str, str]]:
    facts = [("Checkers", joined(part.checker for part in checkers_of(verdict)))]
    events = verdict.figures.get("events")
    if isinstance(events, int):
        facts.append(("Events", f"{events:,}"))
    for stat, title in _FACTS.items():
        known = [part.stats[stat].value for part in checkers_of(verdict) if stat in part.stats]
        words = list(dict.fromkeys(word for value in known if (word := _in_words(value))))
        if words:
            facts.append((title, "; ".join(words)))
    return facts


def _in_words(value: JSON) -> str:
    if isinstance(value, list):
        return joined(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _stat(verdict: Verdict, name: str) -> list[str]:
    """Collect a statistic that is a list of names from all checkers."""
    found: dict[str, Any] = {}
    for part in checkers_of(verdict):
        value = part.figures.get(name)
        if isinstance(value, list):
            found |= dict.fromkeys(map(str, value))
    return list(found)
