"""Resuming: the command that goes on with a grid or a matrix as its last session was told to."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

__all__ = ["resuming"]


def resuming(
    command: str, folder: Path, *, jobs: int | None, budget_min: float | None, flags: Sequence[str] = ()
) -> str:
    """Return the whole line for a shell: the plan is in the folder, what belongs to a session is not.

    `jobs` is None where the number of clusters is to be found out; a budget (minutes) of None or 0, with which nothing is started,
    is left out. `flags` are further words of the command line.
    """
    words = ["schemaquake", command, "--resume", str(folder)]
    words += [] if jobs is None else ["--jobs", str(jobs)]
    words += [] if not budget_min else ["--time-budget", f"{budget_min:g}"]
    return shlex.join([*words, *flags])
