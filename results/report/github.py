"""GitHub Actions: a job summary, and one annotation per finding.

GitHub shows at most 10 annotations per step and 1 MiB of summary.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

from schemaquake.results.report.findings import headline, report_findings
from schemaquake.results.report.markdown import render_report_markdown
from schemaquake.results.report.material import Material
from schemaquake.results.wording import system_name

__all__ = ["publish_to_github", "render_annotations", "render_step_summary"]

ANNOTATIONS_MAX: Final = 10
SUMMARY_BYTES_MAX: Final = 1_000_000


def render_step_summary(material: Material) -> str:
    """Render the Markdown report, cut at the last line below GitHub's size limit."""
    text = render_report_markdown(material)
    if len(text.encode()) <= SUMMARY_BYTES_MAX:
        return text
    kept = text.encode()[:SUMMARY_BYTES_MAX].decode(errors="ignore")
    return kept[: kept.rfind("\n")] + "\n\nThe rest is in report.md in the run's folder.\n"


def render_annotations(material: Material) -> list[str]:
    """Return workflow commands, one per line: an error per finding, one error for an undecided run, none for a valid run."""
    if material.verdict.valid is True:
        return []
    system = system_name(str(material.plan.get("system", "")))
    if material.verdict.valid == "unknown":
        return [_command("not decided", headline(material))]
    findings = report_findings(material)
    shown = findings[:ANNOTATIONS_MAX] if len(findings) <= ANNOTATIONS_MAX else findings[: ANNOTATIONS_MAX - 1]
    lines = [
        _command(
            f"{finding.id} {finding.symptoms[0].type}",
            f"{system}: {finding.title}, {finding.how_often}.\n{finding.symptoms[0].anomalies[0].explanation}",
        )
        for finding in shown
    ]
    if len(shown) < len(findings):
        rest = ", ".join(f"{finding.id} {finding.symptoms[0].type}" for finding in findings[len(shown) :])
        lines.append(_command(f"{len(findings) - len(shown)} more", f"{system}: {rest}"))
    return lines or [_command("invalid", headline(material))]


def publish_to_github(material: Material, environment: Mapping[str, str], stream: TextIO) -> bool:
    """Write the summary and the annotations where GitHub expects them. Returns False outside GitHub Actions.

    `stream` is standard error: the runner reads workflow commands from there too, and `--json` needs standard output.
    """
    summary = environment.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(render_step_summary(material))
    if environment.get("GITHUB_ACTIONS") == "true":
        stream.writelines(f"{line}\n" for line in render_annotations(material))
    return bool(summary) or environment.get("GITHUB_ACTIONS") == "true"


def _command(title: str, message: str) -> str:
    return f"::error title={_property('schemaquake: ' + title)}::{_data(message)}"


def _data(text: str) -> str:
    """Escape a message for the runner. Without this a line of a log could end the message and begin a command of its own."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
