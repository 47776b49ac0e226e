"""reproduce.sh: the command that repeats the run, and the result to expect."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, Final

from schemaquake.harness.model.plan import Plan
from schemaquake.results.report.findings import headline, report_findings
from schemaquake.results.report.material import Material
from schemaquake.results.wording import VERDICT_MARK, repeats_as, system_name, verdict_name, verdict_word

__all__ = ["command_line", "command_lines", "one_option_per_line", "render_reproduce_script", "script"]

_EXIT_CODE: Final = {"valid": 0, "invalid": 1, "unknown": 2}


def command_line(plan: Mapping[str, Any]) -> list[str]:
    """Build the `schemaquake run …` command that repeats a plan as stored in `plan.json`. Raises PlanError for an invalid plan."""
    return Plan.from_json(plan).command_line()


def command_lines(plan: Mapping[str, Any]) -> str:
    """Render the same command for a shell, one option per line."""
    return one_option_per_line(map(shlex.quote, command_line(plan)))


def one_option_per_line(arguments: Iterable[str]) -> str:
    """Render quoted arguments as a command: the first two, then each option with its value on a line of its own."""
    first, second, *others = arguments
    lines = [f"{first} {second}"]
    for word in others:
        if word.startswith("-"):
            lines.append(f"  {word}")
        else:
            lines[-1] += f" {word}"
    return " \\\n".join(lines)


def script(comment_lines: Iterable[str], *, version: str, commands: str) -> str:
    """Render a POSIX shell script: the comment, then `commands`. It exits with 254 if schemaquake is not installed."""
    comment = "\n".join(f"# {_one_line(line)}".rstrip() for line in comment_lines)
    return f"""#!/bin/sh
{comment}
set -eu

if ! command -v schemaquake >/dev/null 2>&1; then
  echo "schemaquake is not installed. Install it with: pip install {_plain_version(version)}" >&2
  exit 254
fi

{commands}
"""


def render_reproduce_script(material: Material) -> str:
    """Render a POSIX shell script that repeats the run. Exit codes as `schemaquake run`: 0 valid, 1 invalid, 2 unknown, 254 not installed."""
    plan = material.plan
    expected = verdict_name(material.verdict.valid)
    return script(
        [
            f"Repeats the run {material.run} against {system_name(str(plan.get('system', '')))}.",
            repeats_as(str(plan.get("system", ""))),
            "",
            f"Result of the recorded run (exit code {_EXIT_CODE[expected]}):",
            f"{VERDICT_MARK[expected]} {verdict_word(material.verdict.valid)}: {headline(material)}",
            *(
                f"- {finding.id} {finding.title}, {finding.how_often} ({', '.join(finding.types)})"
                for finding in report_findings(material)
            ),
        ],
        version=str(plan.get("schemaquake_version", "")),
        commands=f"exec {command_lines(plan)}",
    )


def _one_line(text: str) -> str:
    """Join text into one line, so that it cannot end the comment it stands in."""
    return re.sub(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+", " ", text)


def _plain_version(version: str) -> str:
    """Return the requirement to install, without quotes: it stands between double quotes."""
    return f"schemaquake=={version}" if re.fullmatch(r"[0-9A-Za-z.+]+", version) else "schemaquake"
