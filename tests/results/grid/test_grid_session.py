"""A grid's session: processes whose answers are counted, kept and drawn, and that end with it."""

from __future__ import annotations

import errno
import shlex
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from grids import OLD, finished, grid_plan
from typer.testing import CliRunner

from schemaquake.harness.cli.command_line import application
from schemaquake.harness.errors import HistoryError, JournalError, PlanError
from schemaquake.results.grid.folder import DoneBatch, GridFolder
from schemaquake.results.grid.plan import Batch
from schemaquake.results.grid.schedule import GridSchedule
from schemaquake.results.grid.session import GridSession
from schemaquake.workloads.statements.meetings import Meeting, meetings


@cache
def drops_of_types() -> Sequence[Meeting]:
    return [cell for cell in meetings() if cell.name.startswith("drop-type/")]


def cells_of_types() -> Sequence[Meeting]:
    return drops_of_types()[:6]


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
        {OLD: cells_of_types()},
        {OLD: 1},
        argv=(sys.executable, "-c", f"CELL = {cells_of_types()[0].name!r}\n{script}"),
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
    assert {cell.name: cell.state for cell in cells}[cells_of_types()[0].name] == "broke"
    assert pq.read_table(folder.path / "cells.parquet").num_rows == len(cells_of_types())
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

    first = f"if {cells_of_types()[0].name!r} in json_cells():\n    answer()\nelse:\n    {slow}"
    helpers = (
        "import json, sys\n"
        "def json_cells(): return json.load(open(sys.argv[1]))['options']['cells'].split(',')\n"
        f"def answer(): exec({_ANSWERS!r}, {{'CELL': ''}})\n"
    )
    cells, ending = session(folder, helpers + first).run(jobs=2, budget_s=None, look=interrupt)
    assert ending == "interrupted"
    assert sum(cell.state in {"held", "refused"} for cell in cells) == 3
    assert sum(cell.state == "not run" for cell in cells) == len(cells_of_types()) - 3


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


def test_what_could_not_be_raced_is_tried_again_when_the_grid_is_continued(tmp_path: Path) -> None:
    folder = made(tmp_path, tries=1, batch=len(cells_of_types()))
    broken, ending = session(folder, "raise SystemExit('no room')").run(jobs=1, budget_s=None, look=silent)
    assert (ending, {cell.state for cell in broken}) == ("known", {"not run"})
    mended, ending = session(GridFolder(folder.path), _ANSWERS).run(jobs=1, budget_s=None, look=silent)
    assert ending == "known"
    assert not {cell.state for cell in mended} & {"not run", "unknown"}


def test_a_folder_that_cannot_be_written_is_named_with_the_way_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path, tries=1)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(GridSession, "run", full)
    said = CliRunner().invoke(application(), ["grid", "--resume", str(folder.path)])
    assert isinstance(said.exception, JournalError)
    assert all(words in str(said.exception) for words in ("No space left", f"--resume {folder.path}"))


def test_the_command_that_goes_on_does_so_with_as_many_clusters_and_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my grids").mkdir()
    folder = made(tmp_path / "my grids", tries=1)
    asked: list[dict[str, object]] = []

    def full(_: object, *, jobs: int, budget_s: float | None, **__: object) -> None:
        asked.append({"jobs": jobs, "budget_s": budget_s})
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(GridSession, "run", full)
    said = CliRunner().invoke(
        application(), ["grid", "--resume", str(folder.path), "--jobs", "1", "--time-budget", "18.5", "--json"]
    )
    name, *arguments = shlex.split(str(said.exception).partition("continue with ")[2])
    assert (name, arguments[-1]) == ("schemaquake", "--json")
    CliRunner().invoke(application(), arguments)
    assert asked == [{"jobs": 1, "budget_s": 18.5 * 60}] * 2


def test_a_grid_whose_time_is_up_names_the_command_that_goes_on(tmp_path: Path) -> None:
    folder = made(tmp_path, tries=1)
    said = CliRunner().invoke(
        application(), ["grid", "--resume", str(folder.path), "--jobs", "3", "--time-budget", "0"]
    )
    lines = [line for line in said.stderr.splitlines() if line.startswith("time is up")]
    assert lines == [f"time is up: continue with schemaquake grid --resume {folder.path} --jobs 3"], said.output


@pytest.mark.parametrize("document", [b"[]", b"{}", b'{"plan": 3, "started": 1, "machine": 2}', b"{"])
def test_a_plan_that_is_none_is_damage(tmp_path: Path, document: bytes) -> None:
    folder = made(tmp_path)
    (folder.path / "grid.json").write_bytes(document)
    with pytest.raises(HistoryError, match="is damaged"):
        folder.plan()


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--tries", "0"], ["--lanes", "0"], ["--batch", "0"], ["--jobs", "0"], ["--cells", "no/such"]),
        *(["--cells", ""], ["--mode", ""], ["--mode", "barier"], ["--nodes", "1"], ["--nodes", "0"]),
        *(["--time-budget", "nan"], ["--time-budget", "-1"]),
    ],
    ids=" ".join,
)
def test_a_grid_of_nothing_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    said = CliRunner().invoke(
        application(), ["grid", "--quick", "--time-budget", "0", "--runs", str(tmp_path), *arguments]
    )
    assert isinstance(said.exception, PlanError)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "given",
    [["--seed", "2"], ["--seed", "1"], ["--system", OLD], ["--mode", "single"], ["-O", "lanes=2"], ["--quick"]],
    ids=" ".join,
)
def test_a_grid_is_not_continued_with_another_plan_than_its_own(tmp_path: Path, given: list[str]) -> None:
    folder = made(tmp_path, tries=1)
    said = CliRunner().invoke(application(), ["grid", "--resume", str(folder.path), "--time-budget", "0", *given])
    assert isinstance(said.exception, PlanError)
    assert f"leave out {given[0]}" in str(said.exception)


def _on(server: str) -> str:
    return _ANSWERS.replace('"doubts": []}, open', f'"doubts": [], "server": "{server}"}}, open')


def test_races_of_another_build_under_the_same_name_are_not_counted(tmp_path: Path) -> None:
    """A jar that was exchanged between two sessions would otherwise make one rate of two servers."""
    folder = made(tmp_path, tries=1, batch=3)
    session(folder, _ANSWERS).run(jobs=1, budget_s=None, look=silent)  # recorded before builds were told apart
    more = made(tmp_path / "more", tries=1, batch=3)
    for one in folder.done():
        more.append(one)
    every = drops_of_types()[:12]

    def on(server: str, count: int) -> None:
        one = session(more, _on(server))
        one.cells = {OLD: every[:count]}
        one.run(jobs=1, budget_s=None, look=silent)

    on("aaaa", 9)
    known = len(more.done())
    with pytest.raises(HistoryError, match="bbbb, and theirs is aaaa"):
        on("bbbb", 12)
    assert len(more.done()) == known
    on("aaaa", 12)
    assert {cell for one in more.done() for cell in one.unit.cells} == {cell.name for cell in every}
