"""Run page: one run in some kilobytes, from its summary alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemaquake.results.findings.description import describe_rate, describe_standing, title_of
from schemaquake.results.site.records import RunRow, system_file_name
from schemaquake.results.site.rendering import render
from schemaquake.results.summary.run_summary import RunSummary
from schemaquake.results.wording import VIRTUAL_TIME, is_simulated

__all__ = ["render_run_page"]

_RACES_SHOWN = 200
_REASONS_SHOWN = 20


def render_run_page(summary: RunSummary, row: RunRow, *, report: bool = False) -> str:
    """Render the page of a run, which lies in `runs/`. With `report` it leads to the run's report in `reports/`."""
    return render(
        "run.html.j2",
        depth=1,
        here="runs",
        run=summary,
        row=row,
        report=report,
        version_page=system_file_name(summary.system),
        facts=_facts(summary),
        findings=[
            {
                "id": finding.id,
                "title": title_of(finding),
                "rate": describe_rate(finding.rate),
                "standing": describe_standing(finding),
                "symptoms": list(dict.fromkeys(symptom.type for symptom in finding.symptoms)),
            }
            for finding in summary.findings
        ],
        races=summary.races[:_RACES_SHOWN],
        more_races=max(0, len(summary.races) - _RACES_SHOWN),
        reasons=[reason[:500] for reason in summary.reasons()[:_REASONS_SHOWN]],
    )


def _began(summary: RunSummary) -> str:
    if summary.started is not None:
        return summary.started[:19].replace("T", " ")
    return VIRTUAL_TIME if is_simulated(summary.system) else "not known"


def _facts(summary: RunSummary) -> Mapping[str, Any]:
    """Collect the facts at the head of the page, by name."""
    operations = ", ".join(f"{count:,} {kind}" for kind, count in summary.operations.items())
    return {
        "cluster": f"{summary.cluster}, {summary.nodes} nodes",
        "workloads": ", ".join(summary.workloads),
        "faults": ", ".join(summary.nemeses) or "none",
        "mode": summary.mode,
        "seed": str(summary.seed),
        "began": _began(summary),
        "took": f"{summary.seconds:,.0f} s",
        "operations": operations or "none",
        "Schemaquake": summary.schemaquake_version,
    }
