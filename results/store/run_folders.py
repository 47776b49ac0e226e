"""Run folders: the runs at and below some paths of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from schemaquake.harness.errors import PlanError

__all__ = ["find_runs"]


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """List the runs' folders at and below some paths, each once. Links such as `latest` name a run that is there anyway.

    Raises PlanError if a path is not there.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise PlanError(f"{path} is not there: name runs' folders, or folders of runs")
        found |= dict.fromkeys(_runs_below(path))
    return list(found)


def _runs_below(path: Path) -> Iterator[Path]:
    if (path / "plan.json").is_file():
        yield path.resolve()
        return
    for folder, names, _ in os.walk(path):
        names.sort()
        for name in list(names):
            below = Path(folder) / name
            if below.is_symlink():
                names.remove(name)
            elif (below / "plan.json").is_file():
                names.remove(name)
                yield below.resolve()
