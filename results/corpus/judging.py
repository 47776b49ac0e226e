"""Judging: the runs on this machine that have no summary, before their tables are built: a run a task, in a process for each core.

A run that another version judged keeps its verdict, which names its judge: `schemaquake check` judges it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from schemaquake.harness.errors import SchemaquakeError
from schemaquake.results.runs.execution import conclude
from schemaquake.results.store.run_folders import find_runs
from schemaquake.results.summary.summarise import FILE_NAME

__all__ = ["judge_runs"]


def judge_runs(paths: Iterable[str]) -> Iterator[tuple[Path, str | None]]:
    """Judge the runs without a summary at and below the paths of this machine, and yield each with the reason for a failure.

    Runs that are going on, or have damaged records, fail. Paths on other file systems, and globs, are passed over.
    """
    folders = [
        folder
        for folder in find_runs([Path(path) for path in paths if Path(path).is_dir()])
        if not (folder / FILE_NAME).exists()
    ]
    if not folders:
        return
    workers = min(len(folders), len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(max_workers=workers, mp_context=get_context("forkserver")) as pool:
        yield from zip(folders, pool.map(_judge, folders), strict=True)


def _judge(folder: Path) -> str | None:
    try:
        conclude(folder, engine="local")
    except (SchemaquakeError, OSError, ValueError, KeyError, TypeError) as error:
        return str(error) or type(error).__name__
    return None
