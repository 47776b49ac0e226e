"""Runs that version 0.1 judged, as their folders are: what it recorded, and the verdict and tables that it wrote.

`broken` is the run of `recorded`, whole. `cut-short` is the same without node n2's final reading, and interrupted.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal

import orjson
from recorded import laid_out

FOLDER = Path(__file__).parents[1] / "recorded" / "0.1"
OldRun = Literal["broken", "cut-short"]


def lay_out_old_run(name: OldRun, folder: Path) -> Path:
    """Copy a run to `folder/runs/…` and return its folder."""
    run = laid_out(folder)
    shutil.copytree(FOLDER / name, run, dirs_exist_ok=True)
    return run


def old_verdict(name: OldRun) -> dict[str, Any]:
    """Read the verdict.json that 0.1 wrote."""
    document: dict[str, Any] = orjson.loads((FOLDER / name / "verdict.json").read_bytes())
    return document
