"""A master that is named without an engine means Spark, from the beginning: it starts before the history is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from damage import damaged
from small_histories import table

from schemaquake.harness.errors import PlanError
from schemaquake.results.engines.engine import Engine, Local
from schemaquake.results.judging import judge as judging
from schemaquake.results.judging.judge import judge
from schemaquake.results.judging.sources import HistoryFile
from schemaquake.results.store.store import write_table


@pytest.fixture
def history(tmp_path: Path) -> HistoryFile:
    file = tmp_path / "history.parquet"
    write_table(file, table(damaged(3, "list-append", count=2000, share=0)))
    return HistoryFile(file)


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_spark_starts_first_and_nothing_is_loaded_to_judge_here(
    history: HistoryFile, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    @contextmanager
    def choose(name: str, *, events: int, master: str | None) -> Iterator[Engine]:
        done.append(f"{name} of {master}, {events} events")
        yield Local()

    def places_of_damage(_subject: object, *, hand_over: bool) -> tuple[str, ...]:
        done.append("examined, and handed over" if hand_over else "examined")
        return ()

    @contextmanager
    def warming(_checkers: object) -> Iterator[None]:
        done.append("warmed")
        yield

    monkeypatch.setattr(judging, "choose", choose)
    monkeypatch.setattr(judging, "places_of_damage", places_of_damage)
    monkeypatch.setattr(judging, "_warming", warming)
    assert history.path.stat().st_size > 1 << 16  # long enough for being warmed, were it judged here
    verdict = judge(history, checkers=["list-append"], engine=engine, master="spark://far:7077")
    assert verdict.valid is True
    assert done == ["spark of spark://far:7077, 0 events", "examined"]


def test_a_master_is_not_for_the_local_engine(history: HistoryFile) -> None:
    with pytest.raises(PlanError, match="--engine local does not use one"):
        judge(history, checkers=["list-append"], engine="local", master="spark://far:7077")
