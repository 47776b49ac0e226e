"""report.md: the short report for an issue tracker: findings, statements, evidence, command and versions.

Text from the cluster is untrusted: it is escaped outside of code, and a code fence is longer than any fence inside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from schemaquake.harness.model.verdict import Anomaly
from schemaquake.results.findings.description import describe_rate
from schemaquake.results.mode import mode_of
from schemaquake.results.report.findings import (
    ReportedFinding,
    ReportedSymptom,
    headline,
    races_begun,
    reasons_of,
    report_findings,
    summarise_workloads,
)
from schemaquake.results.report.material import Material, checkers_of, counts
from schemaquake.results.report.recipe import Recipe
from schemaquake.results.report.reproduce import command_lines
from schemaquake.results.tables.statements import Statement
from schemaquake.results.wording import (
    VERDICT_MARK,
    joined,
    length_of_run,
    length_of_time,
    nemesis_names,
    repeats_as,
    shortened,
    system_name,
    verdict_name,
    verdict_word,
)

__all__ = ["code_block", "code_span", "escaped", "render_recipe", "render_report_markdown"]

EVIDENCE_LINES: Final = 30


def render_report_markdown(material: Material) -> str:
    """Render the whole document, ending in a newline."""
    name = verdict_name(material.verdict.valid)
    parts = [
        f"# {VERDICT_MARK[name]} {verdict_word(material.verdict.valid)}: {escaped(headline(material))}",
        _facts(material),
        *_findings(material),
        *_undecided(material),
        *_races(material),
        *_coverage(material),
        *_operations(material),
        "## Repeat it",
        code_block(command_lines(material.plan), "sh"),
        repeats_as(str(material.plan.get("system", ""))),
        "## Checkers",
        _checkers(material),
        *_environment(material),
    ]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Escape text so that Markdown shows it literally: no tag, link, mention or table cell."""
    one_line = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~@&])", r"\\\1", one_line)


def code_block(text: str, language: str = "") -> str:
    """Render a fenced block that no line of `text` can close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def code_span(text: str) -> str:
    """Render text as inline code that is safe in a table cell. An empty text becomes a blank."""
    one_line = re.sub(r"\s+", " ", text).replace("|", r"\|") or " "
    longest = max((len(run) for run in re.findall("`+", one_line)), default=0)
    ticks = "`" * (longest + 1)
    edge = " " if one_line[0] == "`" or one_line[-1] == "`" else ""
    return f"{ticks}{edge}{one_line}{edge}{ticks}"


def render_recipe(recipe: Recipe) -> str:
    """Render a recipe as a CQL script with one section per coordinator."""
    lines = []
    if recipe.before:
        lines += ["-- first, then wait until all nodes agree:", *map(_line, recipe.before), ""]
    lines.append(f"-- then {recipe.manner}:")
    for side in recipe.sides:
        lines += [f"-- through {side.heading()}", *map(_line, side.statements)]
        if side.left_out:
            lines.append(f"-- and {side.left_out} more such writes")
    lines += ["", f"-- {recipe.afterwards}"]
    return "\n".join(lines)


def _line(one: Statement) -> str:
    error = f": {shortened(' '.join(one.error.split()), 160)}" if one.error else ""
    return f"{' '.join(one.text.split())};  -- {one.outcome()}{error}"


def _facts(material: Material) -> str:
    plan = material.plan
    rows = [
        ("System", f"{system_name(str(plan.get('system', '')))}, {plan.get('nodes')} nodes, {plan.get('cluster')}"),
        ("Workload", f"{joined(plan.get('workloads', ()))}; mode {mode_of(plan)}; nemesis {nemesis_names(plan)}"),
        ("Seed", str(plan.get("seed"))),
    ]
    if "main" in material.chronicle.ended_early:
        rows.append(("Races", races_begun(material)))
    settling = material.chronicle.settling("settled")
    if settling is not None:
        word = length_of_time(settling.seconds)
        rows.append(("Time to agreement", word if settling.agreed else f"not within {word}"))
    lasted = length_of_run(material.duration / 1e9, str(plan.get("system", "")))
    began = "" if material.started is None else f"{material.started:%Y-%m-%d %H:%M:%S} UTC, "
    rows.append(("Run", f"{began}{lasted}; {material.run}"))
    return _table(("", ""), [(f"**{name}**", escaped(value)) for name, value in rows])


def _findings(material: Material) -> list[str]:
    parts = [part for reported in report_findings(material) for part in _finding(reported)]
    return ["## Findings", *parts] if parts else []


def _finding(reported: ReportedFinding) -> list[str]:
    standing = f", {escaped(reported.standing)}" if reported.standing else ""
    worst = reported.symptoms[0]
    parts = [f"### {code_span(reported.id)} {escaped(reported.title)}: {escaped(reported.how_often)}{standing}"]
    if worst.worst:
        parts.append(worst.worst)  # trusted Markdown from the project's catalogue
    parts.append(_table(("Symptom", "", "How often", "Known to follow from"), map(_symptom_row, reported.symptoms)))
    first = worst.anomalies[0]
    if first.explanation:
        parts.append(code_block(first.explanation))
    parts += _repetition(reported)
    parts += _evidence(first)
    links = [f"[{escaped(ref.text)}]({ref.url})" for ref in reported.tickets if ref.url]
    if links:
        parts.append(f"Reported before: {', '.join(links)}")
    return parts


def _symptom_row(symptom: ReportedSymptom) -> tuple[str, ...]:
    mechanism = "" if symptom.symptom.mechanism is None else f" {code_span(symptom.symptom.mechanism)}"
    causes = ", ".join(map(code_span, symptom.symptom.follows_from)) or "–"
    return f"{code_span(symptom.type)}{mechanism}", escaped(symptom.title), escaped(symptom.how_often), causes


def _repetition(reported: ReportedFinding) -> list[str]:
    """Render the reproducer with its rate, or the statements that are merely involved."""
    parts = []
    if reported.reproducer is not None:
        what = "shrunk/reproduce.sh" if reported.reproducer.shrunk else "these statements"
        parts.append(f"Reproducer: {what}, {escaped(describe_rate(reported.reproducer.rate))}.")
    if reported.recipe is not None:
        if reported.reproducer is None:
            parts.append("Statements involved; nobody has run just these:")
        parts.append(code_block(render_recipe(reported.recipe), "sql"))
    return parts


def _evidence(anomaly: Anomaly) -> list[str]:
    if anomaly.evidence is None:
        return []
    lines = _json(anomaly.evidence).splitlines()
    if len(lines) > EVIDENCE_LINES:
        lines = [*lines[:EVIDENCE_LINES], f"… {len(lines) - EVIDENCE_LINES} more lines in verdict.json"]
    seen = f"Evidence, seen on {joined(anomaly.nodes)}:" if anomaly.nodes else "Evidence:"
    return [escaped(seen), code_block("\n".join(shortened(line, 300) for line in lines), "json")]


def _json(evidence: Any) -> str:
    return json.dumps(evidence, indent=2, ensure_ascii=False, default=str)


def _undecided(material: Material) -> list[str]:
    reasons = reasons_of(material)
    if not reasons:
        return []
    return ["## Not decided", "\n".join(f"- {escaped(reason)}" for reason in reasons)]


def _coverage(material: Material) -> list[str]:
    coverage = material.coverage
    if coverage is None:
        return []
    text = (
        f"{coverage.rounds} rounds, {coverage.statements} statements. "
        f"They met in {coverage.cells} of {coverage.possible} ways in which the grid knows them to be related."
    )
    rows = [
        (escaped(faults) or "none", restart or "–", str(cells), str(count))
        for faults, restart, cells, count in coverage.by_condition
    ]
    if not rows:
        return ["## Coverage", text]
    return ["## Coverage", text, _table(("Faults under way", "Restart", "Pairs and relations", "Meetings"), rows)]


def _operations(material: Material) -> list[str]:
    operations = material.chronicle.operations
    if not operations:
        return []
    rows = [
        (
            escaped(one.name),
            joined(one.nodes) or "–",
            f"{one.begins / 1e9:.1f} s",
            one.took,
            one.outcome or "no outcome",
            "; ".join(map(code_span, one.commands)) or "–",
        )
        for one in operations
    ]
    return ["## Operations on nodes", _table(("Operation", "Nodes", "Began", "Took", "Outcome", "What was done"), rows)]


def _races(material: Material) -> list[str]:
    summaries = summarise_workloads(material)
    if not summaries:
        return []
    rows = [
        (
            code_span(one.workload),
            escaped(one.mode),
            f"{len(one.broken)} of {len(one.races)}",
            ", ".join(f"{code_span(kind)} in {count}" for kind, count in one.broke.items()) or "–",
        )
        for one in summaries
    ]
    return ["## Races", _table(("Workload", "Mode", "Broke", "What broke"), rows)]


def _checkers(material: Material) -> str:
    rows = []
    for part in checkers_of(material.verdict):
        name = verdict_name(part.valid)
        verdict = f"{VERDICT_MARK[name]} {name}" if counts(material.verdict, part) else "– nothing to judge"
        rows.append((code_span(part.checker), verdict, str(len(part.anomalies) or "–")))
    return _table(("Checker", "Verdict", "Anomalies"), rows)


def _environment(material: Material) -> list[str]:
    rows = [(escaped(name), escaped(value)) for name, value in material.environment.items()]
    return ["## Versions", _table(("", ""), rows)] if rows else []


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
