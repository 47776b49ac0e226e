"""Overviews: the pages of matrices and grids whose folders are published, with links to the site's pages of runs and findings.

A matrix is drawn from its `tally.json`, a grid from its progress; a run that the site does not have is named without a link.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.results.grid.folder import GridFolder
from schemaquake.results.grid.page import GridState, render_grid_html
from schemaquake.results.grid.tally import tally
from schemaquake.results.matrix.page import render_matrix_html
from schemaquake.results.matrix.tally import Matrix
from schemaquake.results.report.addresses import Addresses
from schemaquake.results.site.records import file_name
from schemaquake.workloads.statements.meetings import meetings

__all__ = ["Overview", "overviews_of"]

_FOLDER = "overviews"


@dataclass(frozen=True, slots=True)
class Overview:
    """One page."""

    path: str
    """From the root of the site."""
    title: str
    content: bytes


def overviews_of(
    paths: Iterable[Path], pages_of_runs: Collection[str], findings: Collection[str]
) -> tuple[list[Overview], list[tuple[str, str]]]:
    """Draw the matrices and grids at and below some paths. Returns them, and the folders that cannot be read with the reason.

    `pages_of_runs` are the names of the site's pages of runs, `findings` the ids that have a page.
    """
    drawn: dict[str, Overview] = {}
    unread: list[tuple[str, str]] = []
    addresses = Addresses(
        run=lambda run: (
            f"../runs/{page}.html" if (page := file_name(run.rpartition("/")[2])) in pages_of_runs else None
        ),
        finding=lambda name: f"../findings/{name}.html" if name in findings else None,
        index="../index.html",
    )
    for folder, kind in _folders(paths):
        name = file_name(folder.name)
        try:
            content = _matrix(folder, addresses) if kind == "Matrix" else _grid(folder, addresses)
        except (HistoryError, PlanError, OSError, ValueError, KeyError, TypeError) as error:
            unread.append((folder.name, str(error) or type(error).__name__))
            continue
        drawn[name] = Overview(f"{_FOLDER}/{name}.html", f"{kind} {folder.name}", content.encode())
    return list(drawn.values()), unread


def _folders(paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        for folder, names, files in os.walk(path):
            names.sort()
            if "plan.json" in files:
                names.clear()  # a run has none
            elif {"matrix.json", "tally.json"} <= {*files}:
                yield Path(folder).resolve(), "Matrix"
            elif {"grid.json", "progress.jsonl"} <= {*files}:
                yield Path(folder).resolve(), "Grid"


def _matrix(folder: Path, addresses: Addresses) -> str:
    matrix = Matrix.from_json(orjson.loads((folder / "tally.json").read_bytes()))
    return render_matrix_html(matrix, addresses).replace(f"{folder}/", "")


def _grid(folder: Path, addresses: Addresses) -> str:
    grid = GridFolder(folder)
    plan, done = grid.plan(), grid.done()
    asked = {name for one in done for name in one.unit.cells}
    able = {system: [cell for cell in meetings() if cell.name in asked] for system in plan.systems}
    state = GridState(
        plan=plan,
        cells=[cell for cell in tally(plan, done, able) if cell.tried or cell.doubtful],
        started=grid.started(),
        seconds=sum(one.facts.seconds for one in done),
        batches=len(done),
        machine=grid.machine(),
    )
    return render_grid_html(state, addresses).replace(f"{folder}/", "")
