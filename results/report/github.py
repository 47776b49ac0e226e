"""GitHub Actions: a job summary, and one annotation an anomaly type.

GitHub shows at most 10 annotations a step and 1 MiB of summary; anomalies of one type are one annotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

from schemaquake.results.report.findings import findings_of, headline
from schemaquake.results.report.markdown import report_markdown
from schemaquake.results.report.material import Material
from schemaquake.results.wording import system_name

__all__ = ["annotation_lines", "step_summary", "tell_github"]

ANNOTATIONS_MAX: Final = 10
SUMMARY_BYTES_MAX: Final = 1_000_000


def step_summary(material: Material) -> str:
    """The Markdown report, cut at a line below GitHub's limit."""
    text = report_markdown(material)
    if len(text.encode()) <= SUMMARY_BYTES_MAX:
        return text
    kept = text.encode()[:SUMMARY_BYTES_MAX].decode(errors="ignore")
    return kept[: kept.rfind("\n")] + "\n\nThe rest is in report.md of the run's folder.\n"


def annotation_lines(material: Material) -> list[str]:
    """Workflow commands, a line each: an error for every anomaly type, or one if the run was not decided; none if valid."""
    if material.verdict.valid is True:
        return []
    system = system_name(str(material.plan.get("system", "")))
    if material.verdict.valid == "unknown":
        return [_command("not decided", headline(material))]
    findings = findings_of(material)
    shown = findings[:ANNOTATIONS_MAX] if len(findings) <= ANNOTATIONS_MAX else findings[: ANNOTATIONS_MAX - 1]
    lines = [
        _command(finding.type, f"{system}: {finding.title}, {finding.how_often()}.\n{finding.anomalies[0].explanation}")
        for finding in shown
    ]
    if len(shown) < len(findings):
        rest = ", ".join(finding.type for finding in findings[len(shown) :])
        lines.append(_command(f"{len(findings) - len(shown)} more", f"{system}: {rest}"))
    return lines or [_command("invalid", headline(material))]


def tell_github(material: Material, environment: Mapping[str, str], stream: TextIO) -> bool:
    """Write summary and annotations where GitHub asks for them; whether this is GitHub Actions at all.

    `stream` is standard error: the runner reads workflow commands from there too, and `--json` needs standard output.
    """
    summary = environment.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(step_summary(material))
    if environment.get("GITHUB_ACTIONS") == "true":
        stream.writelines(f"{line}\n" for line in annotation_lines(material))
    return bool(summary) or environment.get("GITHUB_ACTIONS") == "true"


def _command(title: str, message: str) -> str:
    return f"::error title={_property('schemaquake: ' + title)}::{_data(message)}"


def _data(text: str) -> str:
    """A message as the runner reads it back: otherwise a line of a log could end it and begin a command of its own."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
