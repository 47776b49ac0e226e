"""Races of a list, looked for in what a grid and a run of churn have found."""

from __future__ import annotations

from itertools import combinations_with_replacement
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest
from grids import NEW, OLD, finished, grid_plan
from simulated_runs import carry_out, plan_of

from schemaquake.checkers.findings.catalogue import CATALOGUE
from schemaquake.harness.cli.command_line import _run
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.errors import ExitCode, HistoryError, PlanError
from schemaquake.results.grid.plan import Batch
from schemaquake.results.grid.rediscovery import BY_WORTH, KnownRace, read_known_races, rediscover
from schemaquake.results.grid.tally import cells_table, tally
from schemaquake.results.runs.execution import conclude
from schemaquake.workloads.statements.meetings import meetings

DANGLES = KnownRace(
    name="dangles", pairs=frozenset({("create-table", "drop-type")}), anomalies=frozenset({"dangling-type"})
)
CELL = "create-table-of-type/drop-type/names-type"


def cells(tmp_path: Path, *anomalies: str, undecided: bool = False) -> Path:
    """A table of cells in which one cell was raced once on the older system."""
    chosen = [cell for cell in meetings() if cell.name in {CELL, "drop-type/drop-type/same-type"}]
    batch = Batch(system=OLD, mode="barrier", cells=(CELL,), turn=0, number=0)
    done = finished(batch, {CELL: anomalies}, only=0 if undecided else None)
    table = cells_table(tally(grid_plan(), [done], {OLD: chosen, NEW: chosen}))
    path = tmp_path / "cells.parquet"
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize(
    ("anomalies", "answer"),
    [
        (["dangling-type", "lost-rows"], "found"),
        (["lost-rows"], "broke otherwise"),
        ([], "held"),
    ],
)
def test_a_cell_of_the_same_kinds_of_statements_is_the_race_if_it_broke_in_that_way(
    tmp_path: Path, anomalies: list[str], answer: str
) -> None:
    found = rediscover([DANGLES], [cells(tmp_path, *anomalies)])
    assert list(found.sources) == [f"grid of {OLD}", f"grid of {NEW}"]
    assert found.best(DANGLES, f"grid of {OLD}").answer == answer
    assert found.best(DANGLES, f"grid of {NEW}").answer == "not met"
    assert (found.lacking() == []) == (answer == "found")


def test_answers_are_kept_beside_those_of_other_sources(tmp_path: Path) -> None:
    kept = rediscover([DANGLES], [cells(tmp_path, "dangling-type")]).to_table()
    fresh = rediscover([DANGLES], [])
    fresh.add_table(kept)
    assert fresh.best(DANGLES, f"grid of {OLD}").answer == "found"
    newer = rediscover([DANGLES], [cells(tmp_path)])
    newer.add_table(kept)
    assert newer.best(DANGLES, f"grid of {OLD}").answer == "held", (
        "an answer of the same source is not mixed with an older one"
    )
    other = rediscover([KnownRace(name="x", pairs=frozenset({("a", "b")}))], [])
    other.add_table(kept)
    assert list(other.sources) == []


def test_other_kinds_of_statements_are_another_race(tmp_path: Path) -> None:
    other = KnownRace(name="other", pairs=frozenset({("create-type", "drop-type")}))
    found = rediscover([other, DANGLES], [cells(tmp_path, "dangling-type")])
    assert [one.name for one in found.lacking()] == ["other"]
    assert "| other |" in found.to_markdown()
    assert [one["name"] for one in found.to_json()] == ["other", "dangles"]


def test_a_cell_that_was_not_raced_answers_nothing(tmp_path: Path) -> None:
    found = rediscover([DANGLES], [cells(tmp_path, undecided=True)])
    assert found.best(DANGLES, f"grid of {OLD}").answer == "not met"


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("churn") / "run"
    conclude(carry_out(plan_of("schema-churn", seed=1, time_limit_s=4), folder), engine="local")
    return folder


def test_a_run_of_churn_tells_what_met_and_what_its_findings_blame(churn: Path) -> None:
    pairs = combinations_with_replacement(sorted(SCHEMA_CHANGES), 2)
    met = KnownRace(name="met", pairs=frozenset(pairs))
    never = KnownRace(name="never", pairs=frozenset({("insert", "truncate")}))
    found = rediscover([met, never], [churn])
    (source,) = found.sources
    assert source.startswith("schema-churn on ")
    assert found.best(met, source).answer in set(BY_WORTH) - {"held", "undecided", "not met"}
    assert found.best(never, source).answer == "not met"


def test_what_holds_no_cells_and_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="neither"):
        rediscover([DANGLES], [tmp_path])


def test_the_project_s_list_names_kinds_and_anomalies_that_there_are() -> None:
    races = read_known_races()
    assert [race.name for race in races] == [*(f"B{n}" for n in range(1, 12)), "B13"]
    for race in races:
        assert race.pairs
        assert {kind for pair in race.pairs for kind in pair} <= SCHEMA_CHANGES
        assert race.anomalies <= CATALOGUE.keys()


@pytest.mark.parametrize("text", ["", "[[race]]", "race = 3", '[[race]]\nname = "x"\npairs = [["a"]]', "[["])
def test_a_list_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "races.toml"
    path.write_text(text)
    with pytest.raises(PlanError, match="no list of races"):
        read_known_races(path)


def test_the_command_compares_with_a_list_of_one_s_own(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[[race]]\nname = "mine"\npairs = [["drop-type", "create-table"]]\n')
    table = cells(tmp_path, "lost-rows")
    assert _run(["rediscovered", str(table), "--races", str(mine), "--json"]) == ExitCode.VALID
    (answer,) = orjson.loads(capfdbinary.readouterr().out)
    assert answer["answers"][f"grid of {OLD}"] == {"answer": "found", "evidence": [f"{CELL}, barrier: 1/1"]}
    assert _run(["rediscovered", str(table)]) == ExitCode.UNKNOWN
    assert b"| B3 |" in capfdbinary.readouterr().out
