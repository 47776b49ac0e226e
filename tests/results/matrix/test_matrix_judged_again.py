"""Judging again: the runs of a matrix by the checkers of today, without a server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import schemaquake.results.matrix.judging_again as module
from schemaquake.harness.cli.command_line import application
from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.results.matrix.facts import RaceFacts, RunFacts, refused
from schemaquake.results.matrix.judging_again import judge_again
from schemaquake.results.matrix.matrix_folder import Done, MatrixFolder
from schemaquake.results.matrix.matrix_plan import Condition, MatrixPlan, Unit
from schemaquake.results.runs import execution

SYSTEM = "cassandra:5.0.9"


def unit(turn: int) -> Unit:
    return Unit(
        system=SYSTEM, workloads=("drop-type",), condition=Condition("barrier"), first_race=0, races=1, turn=turn
    )


def facts(run: str, *anomalies: str) -> RunFacts:
    race = RaceFacts(keyspace="sq_a", workload="drop-type", number=0, acknowledged=3, anomalies=anomalies)
    return RunFacts(run=run, completed=True, error="", seconds=12.0, races=(race,))


@pytest.fixture
def folder(tmp_path: Path) -> MatrixFolder:
    plan = MatrixPlan(systems=(SYSTEM,), workloads=("drop-type",), command="schemaquake matrix", tries_max=1)
    made = MatrixFolder.create(tmp_path, plan, {})
    for turn, name in enumerate(("a", "b")):
        (made.runs / name / "journals").mkdir(parents=True)
        made.append(Done(unit(turn), facts(f"runs/{name}", "lost-rows")))
    made.append(Done(unit(2), refused("no memory", applicable=True, seconds=1)))
    made.append_session(99)
    return made


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Runs named `a` are clean by the checkers of today; which ones were asked for."""
    asked: list[Path] = []

    def conclude(run: Path, **_: Any) -> SimpleNamespace:
        asked.append(run)
        return SimpleNamespace(run=run)

    def facts_of(finished: Any, *, folder: str, seconds: float) -> RunFacts:
        return replace(facts(folder, *([] if finished.run.name == "a" else ["lost-rows"])), seconds=seconds)

    monkeypatch.setattr(execution, "conclude", conclude)
    monkeypatch.setattr(module, "facts_of", facts_of)
    return asked


def test_every_run_is_judged_and_what_comes_out_otherwise_is_counted(folder: MatrixFolder, verdicts: list[Path]):
    before = folder.done()
    assert judge_again(folder) == 1
    assert [run.name for run in verdicts] == ["a", "b"]
    after = folder.done()
    assert [one.unit for one in after] == [one.unit for one in before]
    assert [one.facts.races[0].anomalies for one in after[:2]] == [(), ("lost-rows",)]
    assert after[2] == before[2], "what was refused has nothing to be judged"
    assert [one.facts.seconds for one in after] == [one.facts.seconds for one in before]
    assert folder.seconds() == 99


def test_what_is_judged_again_names_no_folder_of_the_machine(
    folder: MatrixFolder, verdicts: list[Path], monkeypatch: pytest.MonkeyPatch
):
    def facts_of(_finished: Any, *, folder: str, seconds: float) -> RunFacts:
        return replace(facts(folder, "lost-rows"), seconds=seconds, error=f"saved to {place}/{folder}/data")

    place = folder.path.resolve()
    monkeypatch.setattr(module, "facts_of", facts_of)
    judge_again(folder)
    assert [one.facts.error for one in folder.done()[:2]] == ["saved to runs/a/data", "saved to runs/b/data"]
    assert judge_again(folder) == 0, "nothing comes out otherwise the second time"


def test_a_run_without_races_is_judged_too(folder: MatrixFolder, verdicts: list[Path]):
    (folder.runs / "c" / "journals").mkdir(parents=True)
    alone = replace(facts("runs/c"), races=(), at_large=("schema-disagreement",))
    folder.append(Done(unit(3), alone))
    folder.append(Done(unit(4), replace(alone, run="runs/never-begun")))
    judge_again(folder)
    assert [run.name for run in verdicts] == ["a", "b", "c"]
    assert folder.done()[3].facts.at_large == ()
    assert folder.done()[4].facts.at_large == ("schema-disagreement",)


def test_a_run_that_is_gone_leaves_the_matrix_as_it_was(folder: MatrixFolder, verdicts: list[Path]):
    (folder.runs / "b" / "journals").rmdir()
    before = folder.done()
    with pytest.raises(HistoryError, match="is missing"):
        judge_again(folder)
    assert folder.done() == before


def test_there_is_nothing_to_judge_without_a_matrix():
    said = CliRunner().invoke(application(), ["matrix", "--quick", "--judge-again"])
    assert said.exit_code != 0
    assert "--resume" in str(said.exception) + said.output


@pytest.mark.usefixtures("verdicts")
def test_nothing_is_run_and_the_page_is_drawn_anew(folder: MatrixFolder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "schemaquake.results.matrix.tables.races_of_runs", lambda *_, **__: __import__("pyarrow").table({})
    )
    CliRunner().invoke(application(), ["matrix", "--resume", str(folder.path), "--judge-again"])
    assert "drop-type" in (folder.path / "matrix.md").read_text(encoding="utf-8")
    assert len(folder.done()) == 3


def test_nobody_else_works_on_the_matrix_after_it_was_judged_again_either(folder: MatrixFolder, verdicts: list[Path]):
    with folder.alone():
        judge_again(folder)
        with pytest.raises(PlanError, match="another process"), MatrixFolder(folder.path).alone():
            pass
    assert verdicts
