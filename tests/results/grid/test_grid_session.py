"""A grid's session: processes whose answers are counted, kept and drawn, and that end with it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from grids import OLD, finished, grid_plan

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.results.grid.folder import DoneBatch, GridFolder
from schemaquake.results.grid.plan import Batch
from schemaquake.results.grid.schedule import GridSchedule
from schemaquake.results.grid.session import GridSession
from schemaquake.workloads.statements.meetings import meetings

CELLS = [cell for cell in meetings() if cell.name.startswith("drop-type/")][:6]

_ANSWERS = """
import json, sys
plan = json.load(open(sys.argv[1]))
cells = plan["options"]["cells"].split(",")
broken = {"type": "dangling-type", "title": "t", "explanation": "e"}
races = [
    {"cell": cell, "keyspace": "k", "statements": ["a", "b"], "acknowledged": 2, "doubts": [],
     "symptoms": [broken] if cell == CELL else []}
    for cell in cells
]
json.dump({"run": "runs/r", "completed": True, "applicable": True, "error": "", "seconds": 1.0, "command": "c",
           "races": races, "at_large": [], "doubts": []}, open(sys.argv[3], "w"))
"""


def session(folder: GridFolder, script: str) -> GridSession:
    return GridSession(
        folder.plan(),
        folder,
        {OLD: CELLS},
        {OLD: 1},
        argv=(sys.executable, "-c", f"CELL = {CELLS[0].name!r}\n{script}"),
    )


def made(tmp_path: Path, **changes: object) -> GridFolder:
    return GridFolder.create(tmp_path, grid_plan(systems=(OLD,), **changes), {"machine": "2 cores"})


def silent(_schedule: GridSchedule, _done: DoneBatch) -> None:
    return


def test_a_grid_is_raced_drawn_and_continued(tmp_path: Path) -> None:
    folder = made(tmp_path, tries=1, batch=2)
    counted: list[DoneBatch] = []
    cells, ending = session(folder, _ANSWERS).run(
        jobs=2, budget_s=None, look=lambda _schedule, done: counted.append(done)
    )
    assert ending == "known"
    assert len(counted) == 3
    assert {cell.name: cell.state for cell in cells}[CELLS[0].name] == "broke"
    assert pq.read_table(folder.path / "cells.parquet").num_rows == len(CELLS)
    assert "dangling-type" in (folder.path / "grid.html").read_text()
    assert "dangling-type" in (folder.path / "grid.md").read_text()
    again: list[DoneBatch] = []
    same, ending = session(GridFolder(folder.path), _ANSWERS).run(
        jobs=2, budget_s=None, look=lambda _schedule, done: again.append(done)
    )
    assert (again, ending) == ([], "known")
    assert same == cells


def test_a_process_without_an_answer_is_tried_again_and_then_given_up(tmp_path: Path) -> None:
    folder = made(tmp_path, tries=1, batch=10)
    cells, ending = session(folder, "import sys; print('out of luck'); sys.exit(3)").run(
        jobs=1, budget_s=None, look=silent
    )
    assert ending == "known"
    assert {cell.state for cell in cells} == {"not run"}
    errors = [done.facts.error for done in folder.done()]
    assert len(errors) == 3
    assert all("exit code 3" in error and "out of luck" in error for error in errors)


def test_no_cluster_begins_after_the_time_is_up(tmp_path: Path) -> None:
    folder = made(tmp_path)
    cells, ending = session(folder, _ANSWERS).run(jobs=1, budget_s=0, look=silent)
    assert ending == "time is up"
    assert {cell.state for cell in cells} == {"not run"}


def test_an_interrupted_grid_ends_its_processes_and_keeps_what_is_known(tmp_path: Path) -> None:
    folder = made(tmp_path, tries=1, batch=3)
    slow = "import pathlib, sys, time; pathlib.Path(sys.argv[3] + '.began').touch(); time.sleep(600)"

    def interrupt(_schedule: GridSchedule, _done: DoneBatch) -> None:
        raise KeyboardInterrupt

    first = f"if {CELLS[0].name!r} in json_cells():\n    answer()\nelse:\n    {slow}"
    helpers = (
        "import json, sys\n"
        "def json_cells(): return json.load(open(sys.argv[1]))['options']['cells'].split(',')\n"
        f"def answer(): exec({_ANSWERS!r}, {{'CELL': ''}})\n"
    )
    cells, ending = session(folder, helpers + first).run(jobs=2, budget_s=None, look=interrupt)
    assert ending == "interrupted"
    assert sum(cell.state in {"held", "refused"} for cell in cells) == 3
    assert sum(cell.state == "not run" for cell in cells) == len(CELLS) - 3


def units(folder: GridFolder) -> Sequence[Batch]:
    return [done.unit for done in folder.done()]


def test_a_torn_last_line_is_cut_off_and_any_other_damage_is_an_error(tmp_path: Path) -> None:
    folder = made(tmp_path)
    batches = [Batch(system=OLD, mode="barrier", cells=("a/b/same-x",), turn=0, number=n) for n in range(3)]
    folder.append(finished(batches[0]))
    progress = folder.path / "progress.jsonl"
    whole = progress.read_bytes()
    progress.write_bytes(whole + whole[:40])
    assert units(folder) == batches[:1]
    folder.append(finished(batches[1]))
    assert units(folder) == batches[:2]
    progress.write_bytes(b"{}\n" + progress.read_bytes())
    with pytest.raises(HistoryError, match="line 1"):
        folder.done()


def test_what_is_no_grid_s_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="not the folder of a grid"):
        GridFolder(tmp_path).plan()
    (tmp_path / "file").touch()
    with pytest.raises(PlanError, match="cannot make a folder"):
        GridFolder.create(tmp_path / "file", grid_plan(), {})
