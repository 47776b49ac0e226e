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
from schemaquake.results.site.records import RunRow, file_name
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
    rows = {record.row.run: record.row for record in collected.records if record.row.run in collected.folders}
    plainest = {one.id: _plainest(one, rows) for one in findings}
    found: dict[str, Example] = {}
    drawn: dict[str, str | None] = {}
    for turn in range(_TRIED_MOST):
        wanted: dict[str, dict[str, str]] = {}
        for one in findings:
            if one.id in found or turn >= len(plainest[one.id]):
                continue
            run, finding = plainest[one.id][turn]
            remembered = known.get(one.id)
            if remembered is not None and _is_of(remembered, run, _state(collected, run, version), site):
                found[one.id] = remembered
            else:
                wanted.setdefault(run, {})[one.id] = finding
        # Run by run: the records of one are in memory at a time, and are read once.
        for place, (run, names) in enumerate(wanted.items(), 1):
            log.info("a report is drawn", extra={"run": run, "number": place, "of": len(wanted)})
            material = _material(collected.folders[run])
            if material is None:
                continue
            reported = {each.id: each for each in report_findings(material)}
            for name, finding in names.items():
                if finding not in reported:
                    continue
                if run not in drawn:
                    drawn[run] = _draw(material, run, site)
                found[name] = Example(
                    run=run,
                    page=file_name(run),
                    state=_state(collected, run, version),
                    ticket=render_ticket(material, reported[finding]),
                    anchor=finding,
                    report=drawn[run],
                )
    _link_reports(found.values(), known.values(), collected, site)
    write_if_changed(cache / _CACHE, orjson.dumps({name: asdict(example) for name, example in sorted(found.items())}))
    return found


def _plainest(one: FollowedFinding, rows: Mapping[str, RunRow]) -> list[tuple[str, str]]:
    """Return the runs of these that show a finding, the plainest first, each with the finding's id there."""
    seen = {each.run: each.finding.id for each in one.observations if each.finding is not None and each.run in rows}
    return sorted(
        seen.items(),
        key=lambda each: (len(rows[each[0]].findings), rows[each[0]].races, rows[each[0]].started or "", each[0]),
    )


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


def _draw(material: Material, run: str, site: Path) -> str | None:
    """Draw the report of a run, and return the name of its page. The run's folder may have another name by now."""
    page = file_name(run)
    try:
        text = render_report_html(material if material.run == run else replace(material, run=run), _IN_A_SITE)
    except _ERRORS:
        log.warning("a report could not be drawn", extra={"run": material.run}, exc_info=True)
        return None
    target = site / "reports" / f"{page}.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    write_if_changed(target, text.encode("utf-8", "surrogateescape"))
    return page


def _is_of(example: Example, run: str, state: str, site: Path) -> bool:
    """Return whether an example is of this run as it is now, and its report is at hand."""
    is_there = example.report is None or (site / "reports" / f"{example.report}.html").is_file()
    return is_there and (example.run, example.state) == (run, state)


def _state(collected: Collected, run: str, version: str) -> str:
    try:
        status = (collected.folders[run] / "verdict.json").stat()
    except OSError:
        return f"{version} "
    return f"{version} {status.st_size} {status.st_mtime_ns}"


def _read_cache(path: Path) -> Mapping[str, Example]:
    try:
        return {name: Example(**example) for name, example in orjson.loads(path.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
