"""Run folder: how a folder that a run made is known from one that only looks like it.

`schemaquake heal` ends processes and deletes data by what it finds in a folder. So the folder bears a mark, and nothing in
it may be a link that leads somewhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

from schemaquake.harness.errors import HistoryError

__all__ = ["MARK", "mark_folder", "own_folder", "refuse_links"]

MARK: Final = "run.json"
_LATEST: Final = "latest"
_PROCESS: Final = "process.json"
"""Every run of 0.1 has it, and no mark."""


def mark_folder(folder: Path, version: str) -> None:
    """Mark a folder as a run's, before anything is started."""
    (folder / MARK).write_bytes(
        orjson.dumps({"made_by": f"schemaquake {version}", "run": folder.resolve().name}) + b"\n"
    )


def own_folder(folder: Path) -> Path:
    """Return the run's folder, whose deletions and kills are ours to make.

    `runs/latest`, the link that this harness makes, is resolved; no other is followed. Raises HistoryError for another
    link, a link inside, and a folder without a mark.
    """
    if folder.name == _LATEST and folder.is_symlink() and len(folder.readlink().parts) == 1:
        folder = folder.with_name(str(folder.readlink()))
    refuse_links(folder)
    if not (folder / MARK).is_file() and not (folder / _PROCESS).is_file():
        raise HistoryError(
            f"{folder} has a plan, but neither {MARK} nor {_PROCESS}: no run made it. Nothing is ended or deleted by a "
            "folder that only looks like a run's"
        )
    return folder


def refuse_links(folder: Path) -> None:
    """Raise HistoryError if a run's folder is a link, or has one where the harness reads, writes or deletes."""
    for path in (folder, *_places(folder)):
        if path.is_symlink():
            raise HistoryError(
                f"{path} is a link to {path.readlink()}: a run makes none, and it is not followed. Give the folder itself"
            )


def _places(folder: Path) -> Iterator[Path]:
    """Yield what lies in the folder, in the folders in it, and in each node's."""
    for path in _listed(folder):
        yield path
        if path.is_symlink() or not path.is_dir():
            continue
        for child in _listed(path):
            yield child
            if path.name == "nodes" and not child.is_symlink():
                yield from _listed(child)


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
