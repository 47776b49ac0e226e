"""Findings of several runs, for comparisons and matrices: one row a finding, one column a system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from schemaquake.results.findings.description import (
    describe_cause,
    describe_otherwise,
    describe_rate,
    describe_standing,
    title_of,
)
from schemaquake.results.findings.tracking import Sighting, SightingState, TrackedFinding
from schemaquake.results.report.findings import Reference, references_of
from schemaquake.results.report.markdown import code_span, escaped
from schemaquake.results.wording import days_of, system_name

__all__ = ["SightingView", "TrackedView", "describe_sighting", "render_tracked_markdown", "tracked_view"]

_STYLES: Final[dict[SightingState, tuple[str, str]]] = {
    "affected": ("fail", "✕ affected"),
    "held": ("ok", "✓ not seen"),
    "not tried": ("other", "· not tried"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SightingView:
    """One finding on one system, prepared for the template."""

    system: str
    style: str
    state: str
    rate: str
    id: str
    symptoms: Sequence[str]
    otherwise: str
    """The finding that it is known as there, if it is known as another elsewhere; or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedView:
    """One finding on all systems, prepared for the template."""

    id: str
    title: str
    statements: str
    standing: str
    seen: str
    tickets: Sequence[Reference]
    page: str
    sightings: Sequence[SightingView]


def tracked_view(tracked: TrackedFinding) -> TrackedView:
    """Prepare one row."""
    finding = tracked.example
    title, cause = title_of(finding), describe_cause(finding.cause)
    known = finding.known
    return TrackedView(
        id=finding.id,
        title=title,
        statements="" if title == cause else cause,
        standing=describe_standing(finding),
        seen=days_of(tracked.first_seen, tracked.last_seen, tracked.affected),
        tickets=references_of(known.tickets if known else ()),
        page=f"docs/{known.page}" if known and known.page else "",
        sightings=[_sighting_view(tracked, one) for one in tracked.sightings],
    )


def _sighting_view(tracked: TrackedFinding, sighting: Sighting) -> SightingView:
    style, state = _STYLES[sighting.state]
    return SightingView(
        system=system_name(sighting.system),
        style=style,
        state=state,
        rate=describe_rate(sighting.rate) if sighting.rate.tried else "",
        id=sighting.id or "",
        symptoms=sighting.symptoms,
        otherwise=describe_otherwise(tracked, sighting),
    )


def describe_sighting(tracked: TrackedFinding, sighting: Sighting) -> str:
    """Describe one finding on one system: `✕ affected, 3 of 3 races, 44–100 %`."""
    view = _sighting_view(tracked, sighting)
    text = f"{view.state}, {view.rate}" if view.rate else view.state
    return f"{text}; {view.otherwise}" if view.otherwise else text


def render_tracked_markdown(findings: Sequence[TrackedFinding], systems: Sequence[str]) -> list[str]:
    """Render a section with one table; nothing if there are no findings."""
    if not findings:
        return []
    head = ("Finding", *(escaped(system_name(system)) for system in systems))
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for tracked in findings:
        view = tracked_view(tracked)
        name = f"{code_span(view.id)} {escaped(view.title)}<br>{escaped(view.standing)}"
        cells = (escaped(describe_sighting(tracked, one)) for one in tracked.sightings)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return ["## Findings", "\n".join(lines)]
