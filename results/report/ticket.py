"""Tickets: one finding as the text of an issue, in Markdown or for JIRA: steps, expected, actual, frequency, environment, command.

What Schemaquake concluded is told apart from what it saw, and tickets that may be about the same are asked about, not claimed.
"""

from __future__ import annotations

from collections.abc import Iterable

from schemaquake.results.findings.description import describe_cause
from schemaquake.results.report.findings import ReportedFinding
from schemaquake.results.report.markdown import render_recipe
from schemaquake.results.report.material import Material
from schemaquake.results.report.reproduce import command_lines
from schemaquake.results.report.ticket_markup import MARKDOWN, Markup
from schemaquake.results.wording import counted, joined, shortened, system_name

__all__ = ["render_ticket"]

_SUMMARY_MOST = 250
_EXPLANATION_MOST = 4_000


def render_ticket(material: Material, reported: ReportedFinding, markup: Markup = MARKDOWN) -> str:
    """Render the text: its first line is the summary, and the description follows."""
    worst = reported.symptoms[0]
    system = system_name(str(material.plan.get("system", "")))
    cause = describe_cause(reported.finding.cause)
    # Where no statements are known to be the cause, it is described by its symptom.
    what = cause if cause.startswith(worst.title) else f"{worst.title}: {cause}"
    summary = shortened(f"[{system}] {what}", _SUMMARY_MOST)
    parts = [
        markup.bold(summary),
        *_steps(reported, markup),
        markup.heading("Expected"),
        "Nodes come to agree on one schema that some order of the acknowledged statements explains, and lose nothing that was acknowledged.",
        markup.heading("Actual"),
        *_actual(reported, markup),
        markup.heading("Frequency"),
        f"{reported.how_often} (95 % interval, Wilson).",
        *_questions(reported, markup),
        markup.heading("Environment"),
        markup.bullets(
            f"{markup.escape(name)}: {markup.escape(value)}" for name, value in _environment(material, system)
        ),
        markup.heading("Command"),
        "The run, with other statements beside these; its seed fixes the statements but not their outcome.",
        markup.block(command_lines(material.plan), "sh"),
        f"Found by Schemaquake {markup.escape(str(material.plan.get('schemaquake_version', '')))} as {reported.id}.",
    ]
    return "\n\n".join(_within(parts, markup.most)) + "\n"


def _within(parts: list[str], most: int | None) -> list[str]:
    """Leave out the longest parts until the whole is within `most` characters, and say so where each was."""
    kept = list(parts)
    while most is not None and sum(len(part) + 2 for part in kept) > most:
        longest = max(range(len(kept)), key=lambda place: len(kept[place]))
        kept[longest] = "(Left out here, because it is too long for a ticket: see the run's report.)"
    return kept


def _steps(reported: ReportedFinding, markup: Markup) -> list[str]:
    if reported.recipe is None:
        return [
            markup.heading("Steps"),
            "The statements that caused this are not known; the command below is the whole run.",
        ]
    script = markup.block(render_recipe(reported.recipe), "sql")
    if reported.reproducer is not None:
        return [markup.heading("Steps"), script]
    return [
        markup.heading("Statements involved"),
        "These statements were selected from a longer run and never run alone. Whether they suffice is not known.",
        script,
    ]


def _actual(reported: ReportedFinding, markup: Markup) -> Iterable[str]:
    worst = reported.symptoms[0]
    yield markup.bullets(
        f"{markup.escape(symptom.title)} ({markup.code(symptom.type)}), {symptom.how_often}"
        + (f"; known to follow from {joined(symptom.symptom.follows_from)}" if symptom.symptom.follows_from else "")
        for symptom in reported.symptoms
    )
    first = worst.anomalies[0]
    if first.explanation:
        yield f"The first of {counted(len(worst.anomalies), 'anomaly', 'anomalies')} of the worst kind:"
        yield markup.block(shortened(first.explanation, _EXPLANATION_MOST), "")


def _questions(reported: ReportedFinding, markup: Markup) -> Iterable[str]:
    if reported.tickets:
        yield markup.heading("Reported before?")
        yield f"The statements and the design are those of {joined(markup.escape(ticket.text) for ticket in reported.tickets)}."


def _environment(material: Material, system: str) -> Iterable[tuple[str, str]]:
    yield "System", f"{system}, {material.plan.get('nodes')} nodes"
    yield from material.environment.items()
