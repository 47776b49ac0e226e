"""The user's cache: downloads, each kept as a whole folder.

A folder appears under its own name only when it is complete: it is built beside its place and renamed into it, under
a lock, so that neither an interrupted download nor two processes at once can leave a partial one behind.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["cache_folder", "only_one", "staged"]


def cache_folder(cache: Path | None = None) -> Path:
    """Return `cache` if given, else $SCHEMAQUAKE_CACHE, else `schemaquake` in $XDG_CACHE_HOME or ~/.cache. Does not create it."""
    if cache is not None:
        return cache.expanduser().absolute()
    if chosen := os.environ.get("SCHEMAQUAKE_CACHE"):
        return Path(chosen).expanduser().absolute()
    # The XDG specification says to ignore a relative path.
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "schemaquake"


@contextmanager
def only_one(target: Path, *, waiting: Callable[[], None]) -> Iterator[None]:
    """Let one process at a time build `target`. Calls `waiting` once if another one builds it, then waits for its end.

    The system releases the lock when its holder dies, so a killed download blocks no other process.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `target` if the block succeeds and is deleted if it fails. Call it under `only_one`.

    The previous content of `target` stays readable until its replacement is complete.
    """
    staging = target.parent / f".{target.name}.staging"
    old = target.parent / f".{target.name}.old"
    for leftover in (staging, old):
        if leftover.exists():
            shutil.rmtree(leftover)
    staging.mkdir(parents=True)
    try:
        yield staging
        if target.exists():
            target.rename(old)
        staging.rename(target)
    finally:
        for leftover in (staging, old):
            if leftover.exists():
                shutil.rmtree(leftover)
