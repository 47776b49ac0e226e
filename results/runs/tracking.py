"""Tracking runs: the findings of several runs' folders as one table, by version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.results.findings.curation import NOTHING_CURATED, Curation
from schemaquake.results.findings.description import describe_otherwise, describe_standing, title_of
from schemaquake.results.findings.lifecycle import FollowedFinding, follow_findings
from schemaquake.results.findings.tracking import Sighting, SightingState, TrackedFinding
from schemaquake.results.store.run_folders import find_runs
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import read_summary
from schemaquake.results.wording import counted, days_of, system_name

__all__ = ["TrackedRuns", "describe_systems", "findings_table", "followed_table", "print_tracked", "track_runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedRuns:
    """The findings of several runs. `unread` are the folders that have no verdict, each with the reason."""

    systems: tuple[str, ...]
    runs: tuple[str, ...]
    findings: tuple[FollowedFinding, ...]
    unread: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the document of `--json`."""
        return {
            "findings": [finding.to_json() for finding in self.findings],
            "systems": list(self.systems),
            "runs": list(self.runs),
            "unread": [{"run": run, "reason": reason} for run, reason in self.unread],
        }


def track_runs(paths: Iterable[Path], curation: Curation = NOTHING_CURATED) -> TrackedRuns:
    """Read the summaries of the runs at and below some paths. A run that cannot be read is listed, not left out.

    Raises PlanError for a path that is not there, and if there is no run at all.
    """
    judged, unread = [], []
    paths = list(paths)
    for folder in find_runs(paths):
        try:
            judged.append(replace(read_summary(Store(folder)).judged(), run=folder.name))
        except HistoryError as error:
            unread.append((folder.name, str(error)))
    if not judged and not unread:
        raise PlanError(
            f"there is no run at or below {', '.join(map(str, paths))}: name runs' folders, or the folder in which they are"
        )
    systems = tuple(dict.fromkeys(run.system for run in judged))
    return TrackedRuns(
        systems=systems,
        runs=tuple(run.run for run in judged),
        findings=follow_findings(judged, systems, curation),
        unread=tuple(unread),
    )


def print_tracked(tracked: TrackedRuns, console: Console) -> None:
    """Print one row per finding, and the runs that could not be read."""
    console.print(followed_table(tracked.findings))
    console.print(f"{counted(len(tracked.findings), 'finding')} in {counted(len(tracked.runs), 'run')}", markup=False)
    for run, reason in tracked.unread:
        console.print(f"not read: {run}: {reason}", markup=False, style="yellow")


def followed_table(findings: Iterable[FollowedFinding]) -> Table:
    """Build the table of findings with the stage of each."""
    table = Table("finding", "stage", "affected", "not seen", "first and last seen", box=None, header_style="dim")
    for one in findings:
        title = one.curated.title if one.curated else None
        name, *cells = _cells(one.tracked, one.id, title)
        table.add_row(name, Text(one.life.stage), *cells)
    return table


def findings_table(findings: Iterable[TrackedFinding]) -> Table:
    """Build a table with one row per finding: the systems that it affects, and those on which it was tried and not seen."""
    table = Table("finding", "affected", "not seen", "first and last seen", box=None, header_style="dim")
    for tracked in findings:
        table.add_row(*_cells(tracked, tracked.example.id, None))
    return table


def _cells(tracked: TrackedFinding, name: str, title: str | None) -> tuple[Text, Text, Text, Text]:
    text = Text(title or title_of(tracked.example), style="bold")
    text.append(f"\n{name}, {describe_standing(tracked.example)}", style="not bold dim")
    return (
        text,
        Text(describe_systems(tracked, "affected")),
        Text(describe_systems(tracked, "held")),
        Text(days_of(tracked.first_seen, tracked.last_seen, tracked.affected) or "–"),
    )


def describe_systems(tracked: TrackedFinding, state: SightingState) -> str:
    """List the systems in that state with their counts, and with what it is known as there: `Cassandra 5.0.9 (3 of 3)`."""
    some = [one for one in tracked.sightings if one.state == state]
    return ", ".join(_describe_system(tracked, one) for one in some) or "–"


def _describe_system(tracked: TrackedFinding, sighting: Sighting) -> str:
    counts = f"{sighting.rate.broken} of {sighting.rate.tried}"
    otherwise = describe_otherwise(tracked, sighting)
    return f"{system_name(sighting.system)} ({counts}{f'; {otherwise}' if otherwise else ''})"
