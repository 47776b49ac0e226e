"""Analysis: the draft of a written analysis of one finding, in Markdown: everything that the runs say, and marked gaps for the rest.

The order is that of Jepsen's analyses. Numbers come from the same values as the pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schemaquake.checkers.findings.catalogue import CATALOGUE
from schemaquake.results.findings.description import describe_cause, describe_rate, title_of
from schemaquake.results.findings.lifecycle import FollowedFinding
from schemaquake.results.report.markdown import code_span, escaped
from schemaquake.results.site.records import RunRow
from schemaquake.results.wording import counted, joined, system_name

__all__ = ["render_analysis"]

GAP = "[to write]"


def render_analysis(followed: FollowedFinding, rows: Sequence[RunRow], ticket: str | None) -> str:
    """Render the draft. `rows` are the runs that tried the finding; `ticket` is the text of its plainest example."""
    finding = followed.tracked.example
    title = followed.curated.title if followed.curated and followed.curated.title else title_of(finding)
    parts = [
        f"# {escaped(title)}",
        f"{GAP} Summary in one paragraph: who is affected, and what it costs.",
        "## 1. Background",
        f"{GAP} What the system promises here, with quotations and their sources.",
        "## 2. Test design",
        *_design(rows),
        "## 3. Results",
        f"The statements that met: {escaped(describe_cause(finding.cause))}.",
        "### 3.1 Versions",
        "\n".join(_versions(followed)),
        "### 3.2 Symptoms",
        "\n".join(_symptoms(followed)),
        "### 3.3 The plainest example",
        ticket or "No run of this finding is at hand with its records.",
        "## 4. Discussion",
        f"{GAP} Cause in the code, as far as it is known; what follows for users and maintainers.",
        "Tests show errors, not their absence: a version on which nothing was seen is free of the finding only as far as the counts above reach. Races of one run share a cluster.",
        "## 5. Disclosure",
        f"{GAP} When it was reported, and to whom; who paid for the work.",
    ]
    return "\n\n".join(parts) + "\n"


def _design(rows: Sequence[RunRow]) -> Iterable[str]:
    workloads = sorted({name for row in rows for name in row.workloads})
    faults = sorted({name for row in rows for name in row.nemeses})
    sizes = sorted({row.nodes for row in rows})
    clusters = sorted({row.cluster for row in rows})
    yield (
        f"{counted(len(rows), 'run')} of {counted(len({row.system for row in rows}), 'version')} tried it, on clusters of "
        f"{joined([str(size) for size in sizes])} nodes ({escaped(joined(clusters))})."
    )
    yield f"Workloads: {', '.join(map(code_span, workloads))}. Faults: {', '.join(map(code_span, faults)) or 'none'}."


def _versions(followed: FollowedFinding) -> Iterable[str]:
    yield "| Version | State | Rate (95 %, Wilson) |"
    yield "| --- | --- | --- |"
    for one in followed.tracked.sightings:
        rate = describe_rate(one.rate) if one.rate.tried else "–"
        yield f"| {escaped(system_name(one.system))} | {one.state} | {rate} |"


def _symptoms(followed: FollowedFinding) -> Iterable[str]:
    for symptom in followed.tracked.example.symptoms:
        known = CATALOGUE.get(symptom.type)
        text = f": {escaped(known.worst)}" if known and known.worst else ""
        yield f"- {escaped(known.title if known else symptom.type)} ({code_span(symptom.type)}){text}"
