"""Folders of runs for corpora: few that were carried out, and further ones with the tables of the first, under other names."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from site_runs import further_run, held


def with_tables(example: Path, folder: Path, **changed: Any) -> Path:
    """A further run that has the operations and the history of its example as well."""
    further_run(example, folder, **changed)
    (folder / "analysis").mkdir()
    shutil.copy2(example / "analysis" / "operations.parquet", folder / "analysis")
    shutil.copy2(example / "history.parquet", folder)
    return folder


def regressed(example: Path, runs: Path, *, systems: tuple[str, ...], holding: int, again: int = 1) -> None:
    """Runs of some systems, a day each: the example's findings, then so many runs that hold, then the findings again."""
    for system in systems:
        name = system.partition(":")[2]
        days = [{}, *[held(example)] * holding, *[{}] * again]
        for day, changed in enumerate(days, 1):
            started = f"2026-10-{day:02}T10:00:00+00:00"
            further_run(example, runs / f"{name}-{day:02}", system=system, started=started, **changed)


def table_of(frames: Any, name: str) -> list[tuple[Any, ...]]:
    """The rows of a corpus' table, in an order of their own, without the place where they were read."""
    leaving = {"stamp", "source", "place"}
    rows = frames.frame(name).toArrow().to_pylist()
    return sorted(repr({key: value for key, value in row.items() if key not in leaving}) for row in rows)
