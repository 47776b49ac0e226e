"""Puts finished or unfinished grids into these pages: `python docs/publish_grid.py FOLDER…`, folders of grids and of runs of schema-churn.

All folders, and what was published before, become one grid: systems and modes of all, and every race of each. grids.md keeps what
stands above its mark, for whoever has something to say of it. The page for a browser, the cells and the batches, with which
another grid can go on (`--known`), lie in grids/, with what grids and churn found of the known races. The reports of single runs stay behind.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.results.grid.facts import BatchFacts
from schemaquake.results.grid.folder import DoneBatch, GridFolder
from schemaquake.results.grid.markdown import render_grid_markdown
from schemaquake.results.grid.page import GridState, render_grid_html
from schemaquake.results.grid.plan import GridPlan
from schemaquake.results.grid.recorded import (
    decided_anew,
    distinct,
    read_batches,
    with_newest_findings,
    write_batches,
)
from schemaquake.results.grid.rediscovery import ANSWERS, read_known_races, rediscover
from schemaquake.results.grid.tally import cells_table, tally
from schemaquake.results.store.store import read_table, write_table
from schemaquake.results.wording import shortened
from schemaquake.workloads.statements.meetings import Meeting, meetings

_DOCS = Path(__file__).parent
_WORD_MOST = 150
_FOLDER = re.compile(r"(?<![\w/.])/(?:[\w.-]+/)*\d{8}T\d{6}Z-grid/")
_MARK = "<!-- From here on written by docs/publish_grid.py. -->\n\n"


def publish(folders: Sequence[GridFolder], runs: Sequence[Path] = ()) -> None:
    """Write grids.md and grids/{grid.html,cells.parquet,batches.parquet,rediscovered.parquet}. Raises HistoryError for a folder that is no grid's or run's."""
    known = _DOCS / "grids" / "batches.parquet"
    earlier = read_batches(known) if known.exists() else []
    plans = [folder.plan() for folder in folders]
    plan = replace(
        plans[0],
        systems=_each(sorted({*(one.unit.system for one in earlier), *(s for one in plans for s in one.systems)})),
        modes=_each(sorted({*(one.unit.mode for one in earlier), *(m for one in plans for m in one.modes)})),  # type: ignore[arg-type]  # modes of plans
        tries=max(one.tries for one in plans),
        command="\n".join(dict.fromkeys(_anywhere(one) for one in plans)),
    )
    # Batches of the folders first: they may have been judged again since they were published.
    recorded = [*(one for folder in folders for one in folder.done()), *earlier]
    places = [f"{folder.path.resolve()}/" for folder in folders]
    done = [_without_folders(one, places) for one in with_newest_findings(distinct(map(decided_anew, recorded)))]
    cells = [cell for cell in tally(plan, done, _able(plan, done)) if cell.tried or cell.doubtful]
    state = GridState(
        plan=plan,
        cells=[replace(cell, runs=()) for cell in cells],
        started=min(folder.started() for folder in folders),
        seconds=sum(one.facts.seconds for one in done),
        batches=len(done),
        machine=folders[0].machine(),
    )
    known.parent.mkdir(exist_ok=True)
    write_table(known.with_name("cells.parquet"), cells_table(state.cells))
    write_batches(known, done)
    _write(state, _rediscovered(runs))


def _rediscovered(runs: Sequence[Path]) -> str:
    """Render the table of known races, and keep it for the next time."""
    path = _DOCS / "grids" / "rediscovered.parquet"
    found = rediscover(read_known_races(), [_DOCS / "grids" / "cells.parquet", *runs])
    if path.exists():
        found.add_table(read_table(path, ANSWERS))
    write_table(path, found.to_table())
    return found.to_markdown()


def _able(plan: GridPlan, done: Iterable[DoneBatch]) -> dict[str, list[Meeting]]:
    """Map each system to the cells that were asked of any system and that it can be raced by."""
    asked = {name for one in done for name in one.unit.cells}
    every = [cell for cell in meetings() if cell.name in asked]
    features = {system: recipe_for(parse_system(system)).features for system in plan.systems}
    return {system: [cell for cell in every if cell.features <= features[system]] for system in plan.systems}


def _write(state: GridState, rediscovered: str) -> None:
    """Write the pages."""
    page = _DOCS / "grids.md"
    said, mark, _ = page.read_text(encoding="utf-8").partition(_MARK)
    text, html = render_grid_markdown(state), render_grid_html(state)
    page.write_text(
        said
        + (mark or _MARK)
        + f"## The races of the catalogue\n\nNeither grid nor churn was told any of [these](bugs.md).\n\n{rediscovered}\n\n## The grid\n\n"
        + text.replace("\n# ", "\n## ").removeprefix("# Grid of schema changes\n\n"),
        encoding="utf-8",
    )
    beside = _DOCS / "grids"
    (beside / "grid.html").write_text(html, encoding="utf-8")


def _without_folders(done: DoneBatch, places: Iterable[str]) -> DoneBatch:
    """Leave out the folders in which runs lay: servers write them into their logs, which explanations quote."""
    facts = json.dumps(done.facts.to_json(), ensure_ascii=False)
    for place in places:
        facts = facts.replace(place, "")
    # Batches that were published before name the folders of their day.
    return replace(done, facts=BatchFacts.from_json(json.loads(_FOLDER.sub("", facts))))


def _each(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _anywhere(plan: GridPlan) -> str:
    """Return the command without the folders of the machine on which it ran, its long words (names of cells) shortened."""
    words = shlex.split(plan.command)
    if "--runs" in words:
        place = words.index("--runs")
        words = words[:place] + words[place + 2 :]
    if "--known" in words:
        place = words.index("--known") + 1
        words[place:] = [f"docs/grids/{Path(words[place]).name}", *words[place + 1 :]]
    return " ".join(shortened(word, _WORD_MOST) for word in words)


if __name__ == "__main__":
    given = [Path(name) for name in sys.argv[1:]]
    grids = [path for path in given if (path / "grid.json").exists()]
    publish([GridFolder(path) for path in grids], [path for path in given if path not in grids])
