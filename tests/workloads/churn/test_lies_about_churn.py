"""A run of churn on a perfect cluster, with one lie about its final readings: each is called by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from lies import CleanRun, Lie
from perfect_races import perfect_run
from test_schema_churn import CONTEXT, Rounds

from schemaquake.results.judging.judge import judge

NAMED: Mapping[tuple[str, str], str] = {
    ("disk and memory keyspace: gone", "all, both"): "vanished-object",
    ("disk and memory table: gone", "all, both"): "vanished-object",
    ("disk and memory table: nobody asked", "all, both"): "unexplained-object",
    ("disk and memory type: gone", "all, both"): "dangling-type",
    ("disk and memory type: nobody asked", "all, both"): "unexplained-object",
    ("disk and memory function: gone", "all, both"): "vanished-object",
    ("disk and memory function: nobody asked", "all, both"): "unexplained-object",
    ("disk table: gone", "all, both"): "memory-disk-divergence",
    ("disk and memory table: gone", "one, both"): "hidden-divergence",
    ("disk and memory type: gone", "one, both"): "hidden-divergence",
}
"""Class and place of a lie → a type of anomaly that it must show."""


@pytest.fixture(scope="module")
def clean() -> CleanRun:
    context = replace(CONTEXT, options={"mode": "single", "season": "30"}, time_limit_s=5)
    return CleanRun(perfect_run(Rounds(14), context, line="5.0"), retold=True)


@pytest.fixture(scope="module")
def lies(clean: CleanRun) -> Mapping[tuple[str, str], Lie]:
    first: dict[tuple[str, str], Lie] = {}
    for lie in clean.lies():
        first.setdefault((lie.kind, lie.place), lie)
        if NAMED.keys() <= first.keys():
            break
    return first


@pytest.mark.long
def test_the_run_itself_shows_nothing(clean: CleanRun) -> None:
    assert judge(clean.records, engine="local").anomalies == ()


@pytest.mark.long
@pytest.mark.parametrize("told", NAMED, ids=", ".join)
def test_a_lie_about_churn_is_called_by_its_name(lies: Mapping[tuple[str, str], Lie], told: tuple[str, str]) -> None:
    verdict = judge(lies[told].tell(), engine="local")
    assert verdict.valid is False
    assert NAMED[told] in {anomaly.type for anomaly in verdict.anomalies}
