"""Store access of reports: the material of a judged run, and the reports written into its folder."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.history.journal import STARTED
from schemaquake.results.report.findings import report_findings
from schemaquake.results.report.github import publish_to_github
from schemaquake.results.report.html import render_report_html
from schemaquake.results.report.junit import render_report_junit
from schemaquake.results.report.markdown import render_report_markdown
from schemaquake.results.report.material import Material, RunFile
from schemaquake.results.report.reproduce import render_reproduce_script
from schemaquake.results.report.ticket import render_ticket
from schemaquake.results.report.ticket_markup import MARKUPS
from schemaquake.results.store.store import FILES, Store

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["REPORTS", "material_of", "ticket_of", "write_all"]

REPORTS: Final = ("report.html", "report.md", "junit.xml", "reproduce.sh")


def material_of(store: Store) -> Material:
    """Read the material of a judged run. Raises HistoryError if a file is missing or damaged."""
    return Material(
        run=store.folder.name,
        plan=store.read_plan().to_json(),
        verdict=store.read_verdict(),
        history=store.read_history(),
        operations=store.read_analysis("operations"),
        rates=store.read_analysis("rates"),
        latencies=store.read_analysis("latencies"),
        races=store.read_analysis("races"),
        observations=store.read_observations(),
        logs=store.read_logs(),
        started=_started(store),
        environment=_environment(store),
        files=_files(store),
        shrunk=_shrunk(store),
    )


def ticket_of(run: Path, finding: str, markup: str) -> str:
    """Render the text of a ticket for one finding of a judged run. Raises PlanError for another finding or notation."""
    if markup not in MARKUPS:
        raise PlanError(f"--as is one of {', '.join(MARKUPS)}, not {markup}")
    material = material_of(Store(run))
    reported = {one.id: one for one in report_findings(material)}
    if finding not in reported:
        raise PlanError(f"{run} has no finding {finding}; it has {', '.join(reported) or 'none'}")
    return render_ticket(material, reported[finding], MARKUPS[markup])


def write_all(store: Store, *, environment: Mapping[str, str] = os.environ) -> Material:
    """Write the four reports into the run's folder, and publish to GitHub if this process runs in GitHub Actions.

    Returns the material of the reports. Raises HistoryError.
    """
    material = material_of(store)
    store.write_text("report.html", render_report_html(material))
    store.write_text("report.md", render_report_markdown(material))
    store.write_text("junit.xml", render_report_junit(material))
    store.write_text("reproduce.sh", render_reproduce_script(material))
    script = store.path("reproduce.sh")
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    publish_to_github(material, environment, sys.stderr)
    return material


def _started(store: Store) -> datetime | None:
    """Return the start of the run, or None for a run whose journals were not kept."""
    return store.started() if (store.path("journals") / STARTED).exists() else None


def _environment(store: Store) -> Mapping[str, str]:
    """Collect the versions of the run from its plan and from `environment.json`, a JSON object of strings, if the folder has one."""
    plan = store.read_plan()
    known = {"Schemaquake": plan.schemaquake_version, "cluster": plan.cluster}
    if plan.distribution is not None:
        known["distribution"] = str(plan.distribution)
    path = store.path("environment.json")
    try:
        recorded = orjson.loads(path.read_bytes()) if path.exists() else {}
        return known | {str(name): str(value) for name, value in recorded.items()}
    except (orjson.JSONDecodeError, AttributeError) as error:
        raise HistoryError(f"{path} is damaged ({error}): expected a JSON object of strings.") from error


def _shrunk(store: Store) -> Mapping[str, Any]:
    """Read the document of a run that was shrunk; empty for one that was not."""
    path = store.folder / "shrunk" / "shrunk.json"
    try:
        document = orjson.loads(path.read_bytes()) if path.exists() else {}
    except orjson.JSONDecodeError as error:
        raise HistoryError(
            f'{path} is damaged ({error}). "schemaquake shrink {store.folder}" writes it anew.'
        ) from error
    return document if isinstance(document, dict) else {}


def _files(store: Store) -> tuple[RunFile, ...]:
    """List the files present in the folder, and the reports that are about to be written."""
    return tuple(
        RunFile(path=name, size=None if name in REPORTS else _size(store.path(name)), meaning=meaning)
        for name, meaning in FILES.items()
        if name in REPORTS or store.path(name).exists()
    )


def _size(path: Path) -> int:
    """Return the size of a file, or of all files below a folder, in bytes."""
    if not path.is_dir():
        return path.stat().st_size
    return sum((Path(folder) / name).lstat().st_size for folder, _, names in os.walk(path) for name in names)
