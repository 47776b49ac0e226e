"""Judging again: the runs of a grid by the checkers of today, without a server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from grids import OLD, finished, grid_plan
from typer.testing import CliRunner

import schemaquake.results.grid.judging_again as module
from schemaquake.harness.cli.command_line import application
from schemaquake.harness.errors import HistoryError
from schemaquake.results.grid.facts import BatchFacts, refused
from schemaquake.results.grid.folder import DoneBatch, GridFolder
from schemaquake.results.grid.judging_again import judge_again
from schemaquake.results.grid.plan import Batch
from schemaquake.results.runs import execution

CELL = "create-table/create-type/keyspace"


def done(number: int, run: str | None, *anomalies: str) -> DoneBatch:
    batch = Batch(system=OLD, mode="barrier", cells=(CELL,), turn=number, number=number)
    return DoneBatch(batch, replace(finished(batch, {CELL: anomalies}).facts, run=run))


@pytest.fixture
def folder(tmp_path: Path) -> GridFolder:
    made = GridFolder.create(tmp_path, grid_plan(systems=(OLD,), cells=(CELL,), tries=3), {})
    for number, name in enumerate("ab"):
        (made.runs / name / "journals").mkdir(parents=True)
        made.append(done(number, f"runs/{name}", "unasked-option"))
    made.append(done(2, None, "unasked-option"))
    made.append(DoneBatch(done(3, None).unit, refused("no memory", applicable=True)))
    return made


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that were judged; the one named `a` is clean by the checkers of today."""
    asked: list[str] = []

    def conclude(run: Path, **_: Any) -> SimpleNamespace:
        asked.append(run.name)
        return SimpleNamespace(name=run.name)

    def facts_of(run: Any, *, folder: str, seconds: float) -> BatchFacts:
        anomalies = [] if run.name == "a" else ["unasked-option"]
        return replace(done(0, folder, *anomalies).facts, seconds=seconds)

    monkeypatch.setattr(execution, "conclude", conclude)
    monkeypatch.setattr(module, "facts_of", facts_of)
    return asked


def test_every_run_of_the_grid_is_judged_and_what_came_from_elsewhere_is_kept(
    folder: GridFolder, judged: list[str]
) -> None:
    before = folder.done()
    assert judge_again(folder) == 1
    assert judged == ["a", "b"]
    after = folder.done()
    assert [one.unit for one in after] == [one.unit for one in before]
    assert [len(one.facts.races[0].symptoms) for one in after[:3]] == [0, 1, 1]
    assert list(after[1:]) == list(before[1:])


def test_a_run_that_is_gone_leaves_the_grid_as_it_was(folder: GridFolder, judged: list[str]) -> None:
    (folder.runs / "b" / "journals").rmdir()
    before = folder.done()
    with pytest.raises(HistoryError, match="is missing"):
        judge_again(folder)
    assert folder.done() == before
    assert judged == ["a"]


@pytest.mark.usefixtures("judged")
def test_the_page_is_drawn_again_and_no_server_started(folder: GridFolder) -> None:
    said = CliRunner().invoke(application(), ["grid", "--resume", str(folder.path), "--judge-again"])
    assert said.exit_code == 1, said.output
    assert (folder.path / "grid.html").exists()
    assert len(folder.done()) == 4, "nothing was raced"


def test_there_is_nothing_to_judge_again_without_a_grid() -> None:
    said = CliRunner().invoke(application(), ["grid", "--judge-again"])
    assert said.exit_code != 0
    assert "--resume" in str(said.exception) + said.output
