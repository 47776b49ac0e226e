"""Examples: for each finding the plainest run that is at hand with its records: its ticket, and a copy of its report.

Plainest: with the fewest findings, then the fewest races. What was made of a run is remembered, as it costs seconds.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.results.findings.lifecycle import FollowedFinding
from schemaquake.results.report.findings import report_findings
from schemaquake.results.report.from_store import material_of
from schemaquake.results.report.material import Material
from schemaquake.results.report.ticket import render_ticket
from schemaquake.results.site.collecting import Collected, write_if_changed
from schemaquake.results.site.records import file_name
from schemaquake.results.store.store import Store

__all__ = ["Example", "examples_of"]

_CACHE: Final = "examples.json"
_SECTIONS: Final = '<nav class="wide" aria-label="Sections">'
_TRIED_MOST: Final = 3
"""Runs whose records are read until one of them can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One run that shows a finding."""

    run: str
    page: str
    state: str
    """State of the run's verdict when the ticket was made."""
    ticket: str
    anchor: str
    report: str | None
    """Name of the copied report; None if the run has none."""


def examples_of(
    findings: Sequence[FollowedFinding], collected: Collected, site: Path, cache: Path
) -> dict[str, Example]:
    """Return the example of each finding for which a run can be read. Copies reports to `site/reports`."""
    known = _read_cache(cache / _CACHE)
    rows = {record.row.run: record.row for record in collected.records}
    materials: dict[str, Material | None] = {}
    found: dict[str, Example] = {}
    for one in findings:
        seen = {
            each.run: each.finding
            for each in one.observations
            if each.finding is not None and each.run in collected.folders
        }
        plainest = sorted(
            seen, key=lambda run: (len(rows[run].findings), rows[run].races, rows[run].started or "", run)
        )
        for run in plainest[:_TRIED_MOST]:
            state = _state(collected.folders[run])
            remembered = known.get(one.id)
            if remembered is not None and (remembered.run, remembered.state) == (run, state):
                found[one.id] = remembered
                break
            if run not in materials:
                materials = {run: _material(collected.folders[run])}  # one at a time: each holds a whole history
            finding = seen[run]
            assert finding is not None
            example = _example(materials[run], finding.id, run, state)
            if example is not None:
                found[one.id] = example
                break
    made = {name: _with_report(example, collected.folders[example.run], site) for name, example in found.items()}
    write_if_changed(cache / _CACHE, orjson.dumps({name: asdict(example) for name, example in sorted(made.items())}))
    return made


def _material(folder: Path) -> Material | None:
    try:
        return material_of(Store(folder))
    except (HistoryError, PlanError, OSError, ValueError, KeyError, TypeError):
        return None  # a summary can be at hand without the records


def _example(material: Material | None, name: str, run: str, state: str) -> Example | None:
    if material is None:
        return None
    reported = next((one for one in report_findings(material) if one.id == name), None)
    if reported is None:
        return None
    ticket = render_ticket(material, reported)
    return Example(run=run, page=file_name(run), state=state, ticket=ticket, anchor=name, report=None)


def _with_report(example: Example, folder: Path, site: Path) -> Example:
    report = folder / "report.html"
    if not report.is_file() or report.is_symlink():
        return Example(**asdict(example) | {"report": None})
    target = site / "reports" / f"{example.page}.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.stat().st_mtime_ns != report.stat().st_mtime_ns:
        text = report.read_text("utf-8", "surrogateescape")
        target.write_text(text.replace(_SECTIONS, _SECTIONS + _back(example), 1), "utf-8", "surrogateescape")
        shutil.copystat(report, target)
    return Example(**asdict(example) | {"report": example.page})


def _back(example: Example) -> str:
    """Return the way from a report back to the site; both names are file names of ours."""
    return f'<a href="../runs/{example.page}.html">Run</a> <a href="../index.html">All findings</a>'


def _state(folder: Path) -> str:
    try:
        status = (folder / "verdict.json").stat()
    except OSError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns}"


def _read_cache(path: Path) -> Mapping[str, Example]:
    try:
        return {name: Example(**example) for name, example in orjson.loads(path.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
