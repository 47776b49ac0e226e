"""Examples: for each finding the plainest run that is at hand with its records: its ticket, and its report.

Plainest: with the fewest findings, then the fewest races. A report is drawn anew: one in a run's folder may be of an older version, or a
stranger's. What was made of a run is remembered, as it costs seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import orjson

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.results.findings.lifecycle import FollowedFinding
from schemaquake.results.report.addresses import Addresses
from schemaquake.results.report.findings import report_findings
from schemaquake.results.report.from_store import material_of
from schemaquake.results.report.html import render_report_html
from schemaquake.results.report.material import Material
from schemaquake.results.report.ticket import render_ticket
from schemaquake.results.site.collecting import Collected, write_if_changed
from schemaquake.results.site.records import file_name
from schemaquake.results.site.run_page import render_run_page
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import read_summary

__all__ = ["Example", "examples_of"]

log = logging.getLogger(__name__)

_CACHE: Final = "examples.json"
_IN_A_SITE: Final = Addresses(
    run=lambda run: f"../runs/{file_name(run)}.html",
    finding=lambda finding: f"../findings/{finding}.html",
    index="../index.html",
)
_ERRORS: Final = (HistoryError, PlanError, OSError, ValueError, KeyError, TypeError)
_TRIED_MOST: Final = 3
"""Runs whose records are read until one of them can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One run that shows a finding."""

    run: str
    page: str
    state: str
    """State of the run's verdict, and the version, when the ticket was made."""
    ticket: str
    anchor: str
    report: str | None
    """Name of the report; None if it could not be drawn."""


def examples_of(
    findings: Sequence[FollowedFinding], collected: Collected, site: Path, cache: Path, *, version: str
) -> dict[str, Example]:
    """Return the example of each finding for which a run can be read. Draws reports into `site/reports`.

    `version` changes when reports would.
    """
    known = _read_cache(cache / _CACHE)
    rows = {record.row.run: record.row for record in collected.records}
    materials: dict[str, Material | None] = {}
    found: dict[str, Example] = {}
    drawn: dict[str, str | None] = {}
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
            state = f"{version} {_state(collected.folders[run])}"
            remembered = known.get(one.id)
            if (
                remembered is not None
                and (remembered.run, remembered.state) == (run, state)
                and _is_there(remembered, site)
            ):
                found[one.id] = remembered
                break
            if run not in materials:
                materials = {run: _material(collected.folders[run])}  # one at a time: each holds a whole history
            finding = seen[run]
            assert finding is not None
            example = _example(materials[run], finding.id, run, state)
            if example is not None:
                if run not in drawn:
                    drawn[run] = _draw(materials[run], run, site)
                found[one.id] = replace(example, report=drawn[run])
                break
    _link_reports(found.values(), known.values(), collected, site)
    write_if_changed(cache / _CACHE, orjson.dumps({name: asdict(example) for name, example in sorted(found.items())}))
    return found


def _link_reports(now: Iterable[Example], before: Iterable[Example], collected: Collected, site: Path) -> None:
    """Put the way to its report on the page of each run that has one, and take it from those that no longer have."""
    rows = {record.row.run: record.row for record in collected.records}
    with_report = {example.run for example in now if example.report is not None}
    for run in {*with_report, *(example.run for example in before)} & {*collected.folders}:
        try:
            page = render_run_page(read_summary(Store(collected.folders[run])), rows[run], report=run in with_report)
        except _ERRORS:
            continue
        write_if_changed(site / "runs" / f"{rows[run].page}.html", page.encode())


def _material(folder: Path) -> Material | None:
    try:
        return material_of(Store(folder))
    except _ERRORS:
        return None  # a summary can be at hand without the records


def _example(material: Material | None, name: str, run: str, state: str) -> Example | None:
    if material is None:
        return None
    reported = next((one for one in report_findings(material) if one.id == name), None)
    if reported is None:
        return None
    ticket = render_ticket(material, reported)
    return Example(run=run, page=file_name(run), state=state, ticket=ticket, anchor=name, report=None)


def _draw(material: Material | None, run: str, site: Path) -> str | None:
    """Draw the report of a run, and return the name of its page. The run's folder may have another name by now."""
    if material is None:
        return None
    page = file_name(run)
    try:
        text = render_report_html(replace(material, run=run), _IN_A_SITE)
    except _ERRORS:
        log.warning("a report could not be drawn", extra={"run": material.run}, exc_info=True)
        return None
    target = site / "reports" / f"{page}.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    write_if_changed(target, text.encode("utf-8", "surrogateescape"))
    return page


def _is_there(example: Example, site: Path) -> bool:
    return example.report is None or (site / "reports" / f"{example.report}.html").is_file()


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
