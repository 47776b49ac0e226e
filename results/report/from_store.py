"""From a store: the material of a judged run, and its reports written back into its folder."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.journal import STARTED
from schemaquake.results.report.github import tell_github
from schemaquake.results.report.html import report_html
from schemaquake.results.report.junit import report_junit
from schemaquake.results.report.markdown import report_markdown
from schemaquake.results.report.material import Material, RunFile
from schemaquake.results.report.reproduce import reproduce_script
from schemaquake.results.store.store import FILES

if TYPE_CHECKING:
    from datetime import datetime

    from schemaquake.results.store.store import Store

__all__ = ["REPORTS", "material_of", "write_all"]

REPORTS: Final = ("report.html", "report.md", "junit.xml", "reproduce.sh")


def material_of(store: Store) -> Material:
    """Everything the reports of a judged run are made from. Raises HistoryError if something of it is missing or damaged."""
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
    )


def write_all(store: Store, *, environment: Mapping[str, str] = os.environ) -> Material:
    """Write the four reports into the run's folder, and tell GitHub if this is one of its jobs.

    Returns what they were made from. Raises HistoryError.
    """
    material = material_of(store)
    store.write_text("report.html", report_html(material))
    store.write_text("report.md", report_markdown(material))
    store.write_text("junit.xml", report_junit(material))
    store.write_text("reproduce.sh", reproduce_script(material))
    script = store.path("reproduce.sh")
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    tell_github(material, environment, sys.stderr)
    return material


def _started(store: Store) -> datetime | None:
    """When the run began; null for a run whose journals were not kept."""
    return store.started() if (store.path("journals") / STARTED).exists() else None


def _environment(store: Store) -> Mapping[str, str]:
    """What the run ran on: what its plan says, and `environment.json`, an object of texts, where the folder has one."""
    plan = store.read_plan()
    known = {"Schemaquake": plan.schemaquake_version, "cluster": plan.cluster}
    if plan.distribution is not None:
        known["distribution"] = str(plan.distribution)
    path = store.path("environment.json")
    try:
        recorded = orjson.loads(path.read_bytes()) if path.exists() else {}
        return known | {str(name): str(value) for name, value in recorded.items()}
    except (orjson.JSONDecodeError, AttributeError) as error:
        raise HistoryError(f"{path} is damaged ({error}): it should be an object of texts.") from error


def _files(store: Store) -> tuple[RunFile, ...]:
    """The files of the folder that are there, and the reports that are about to be."""
    return tuple(
        RunFile(path=name, size=None if name in REPORTS else _size(store.path(name)), meaning=meaning)
        for name, meaning in FILES.items()
        if name in REPORTS or store.path(name).exists()
    )


def _size(path: Path) -> int:
    """Bytes of a file, or of everything below a folder."""
    if not path.is_dir():
        return path.stat().st_size
    return sum((Path(folder) / name).lstat().st_size for folder, _, names in os.walk(path) for name in names)
