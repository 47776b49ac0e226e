"""Races that are released several at a time: who takes part where, what they share, and what stays as it was."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from crew_at_work import FEATURES, Done, carry_out
from perfect_races import perfect_run
from racing_context import racing_context

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke, Note
from schemaquake.results.judging.judge import judge
from schemaquake.workloads.races.abreast import lanes_abreast
from schemaquake.workloads.races.drop_table_view import DropTableView
from schemaquake.workloads.races.drop_type import DropType

NODES = ("n1", "n2", "n3")
RACES, LANES = 10, 4


def context(**changes: Any) -> Context:
    given = {"seed": 5, "nodes": NODES, "features": FEATURES, "races": RACES, "lanes": LANES, "until_poisoned": True}
    return racing_context(**{**given, **changes})


def changes(done: list[Done]) -> dict[str, list[Done]]:
    """The schema changes of each race, in order of time; canaries apart."""
    by_race = defaultdict(list)
    for one in done:
        if isinstance(one.step, Invoke) and one.step.f in SCHEMA_CHANGES and "canary" not in one.step.value["keyspace"]:
            by_race[one.step.value["keyspace"]].append(one)
    return by_race


def test_races_of_one_round_are_released_in_one_instant_and_rounds_follow_one_another() -> None:
    by_race = changes(carry_out(DropType(), "main", context()))
    order = [race.keyspace for race in DropType().races(context())]
    begun = [min(one.begun for one in by_race[keyspace]) for keyspace in order]
    rounds = [begun[first : first + LANES] for first in range(0, RACES, LANES)]
    assert [len(some) for some in rounds] == [4, 4, 2]
    assert all(len(set(some)) == 1 for some in rounds)
    assert len(set(begun)) == len(rounds)
    assert begun == sorted(begun)


def test_each_race_has_the_coordinators_that_it_has_alone() -> None:
    abreast = changes(carry_out(DropType(), "main", context()))
    alone = changes(carry_out(DropType(), "main", context(lanes=None)))
    assert abreast.keys() == alone.keys()
    for keyspace, some in abreast.items():
        mine = {(one.worker.node, str(one.step)) for one in some}
        assert mine == {(one.worker.node, str(one.step)) for one in alone[keyspace]}


def test_a_round_has_one_canary_and_its_table_is_the_only_one_that_is_read() -> None:
    made = [
        one.step.value["name"]
        for one in carry_out(DropType(), "main", context())
        if isinstance(one.step, Invoke) and one.step.f == "create-table" and "canary" in one.step.value["keyspace"]
    ]
    read = {
        one.step.value["table"]
        for one in carry_out(DropType(), "final", context(), label="settled")
        if isinstance(one.step, Invoke) and "canary" in one.step.value["keyspace"]
    }
    assert len(made) == 3
    assert read == set(made)
    notes = [one.step for one in carry_out(DropType(), "main", context()) if isinstance(one.step, Note)]
    assert [note.key for note in notes] == [race.keyspace for race in DropType().races(context())]
    assert [note.value["canary"].partition(".")[2] for note in notes] == [name for name in made for _ in range(4)][:10]


def test_one_coordinator_makes_all_bases() -> None:
    done = carry_out(DropType(), "setup", context())
    assert {one.worker.index for one in done} == {0}
    alone = carry_out(DropType(), "setup", context(lanes=None))
    assert [one.step for one in done] == [one.step for one in alone]


@pytest.mark.parametrize(
    ("changes_", "lanes"),
    [
        ({"lanes": None}, 1),
        ({}, 4),
        ({"races": 2}, 2),
        ({"mode": "partition", "until_poisoned": False}, 1),
        ({"mode": "single", "until_poisoned": False}, 1),
        ({"features": frozenset({"keyspaces", "tables", "columns"})}, 1),
    ],
    ids=["not asked for", "asked for", "more than races", "across a cut", "the control", "one change at a time"],
)
def test_races_are_released_together_only_on_a_healthy_cluster_that_takes_several_changes(
    changes_: dict[str, Any], lanes: int
) -> None:
    given = context(**changes_)
    assert lanes_abreast(given, given_races := int(changes_.get("races", RACES))) == lanes
    if "features" not in changes_ and given.options.get("mode") != "partition":
        assert len(DropType().crew(given)) == lanes * len(NODES)
    assert given_races >= lanes


@pytest.mark.parametrize("workload", [DropType(), DropTableView()], ids=["types", "views"])
def test_a_perfect_cluster_is_not_accused(workload: Any) -> None:
    verdict = judge(perfect_run(workload, context(races=6), line="5.0"), engine="local", limit_s=120)
    assert (verdict.valid, verdict.anomalies) == (True, ()), verdict.reason
