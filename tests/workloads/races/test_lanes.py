"""Races across a cut: who is on which side, when statements leave, and who waits for whom."""

from __future__ import annotations

from dataclasses import replace

import pytest
from crew_at_work import FEATURES, Done, at_once, carry_out
from hypothesis import given
from hypothesis import strategies as st
from racing_context import racing_context, with_racing

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.protocols import Context, Worker
from schemaquake.harness.model.steps import Invoke, Note
from schemaquake.workloads.races.create_table import CreateTable
from schemaquake.workloads.races.drop_alter import DropAlter
from schemaquake.workloads.races.engine import damaging_order
from schemaquake.workloads.races.lanes import OFFSET_S, rounds, seats
from schemaquake.workloads.races.options import racing_options

FIVE = racing_context(
    seed=3,
    nodes=("n1", "n2", "n3", "n4", "n5"),
    isolated=("n2", "n4"),
    mode="partition",
    races=10,
    features=FEATURES,
)
THREE = with_racing(FIVE, nodes=("n1", "n2", "n3"), isolated=("n2",))


def minority_is_slow(worker: Worker, operation: Invoke) -> float:
    """As on a system with consensus: a change through the cut-off side takes ten seconds to fail."""
    return 10.0 if operation.f in SCHEMA_CHANGES and worker.node in {"n2", "n4"} else 0.05


def statements(context: Context, *, slow: bool = False) -> dict[str, list[Done]]:
    """The schema changes of each race, in order of time."""
    done = carry_out(DropAlter(), "main", context, lasts=minority_is_slow if slow else at_once)
    by_race: dict[str, list[Done]] = {}
    for one in done:
        if isinstance(one.step, Invoke) and one.step.f in SCHEMA_CHANGES:
            by_race.setdefault(one.step.value["keyspace"], []).append(one)
    return by_race


@pytest.mark.parametrize("slow", [False, True], ids=["coordinators act alone", "the minority hangs for ten seconds"])
@pytest.mark.parametrize("context", [THREE, FIVE], ids=["three nodes", "five nodes"])
def test_the_second_statement_leaves_a_moment_after_the_first_whatever_became_of_it(
    context: Context, slow: bool
) -> None:
    by_race = statements(context, slow=slow)
    assert len(by_race) == 10
    for first, second in by_race.values():
        isolated = racing_options(context.options).isolated
        assert first.worker.node == isolated[0]
        assert second.worker.node not in isolated
        assert second.begun - first.begun == pytest.approx(OFFSET_S)
        if slow:
            assert second.begun < first.ended


@pytest.mark.parametrize("context", [THREE, FIVE], ids=["three nodes", "five nodes"])
def test_both_orders_are_tried_and_the_damaging_one_more_often(context: Context) -> None:
    by_race = statements(context)
    drop_first = 0
    for race in DropAlter().races(context):
        first, second = (one.step for one in by_race[race.keyspace])
        expected = [race.sides[0][0], race.sides[1][0]]
        assert [first, second] == (expected if damaging_order(race.number) else expected[::-1])
        drop_first += first == race.sides[0][0]
    assert 5 < drop_first < 10


def test_sides_are_noted_in_the_order_in_which_they_begin() -> None:
    done = carry_out(DropAlter(), "main", THREE)
    notes = {one.step.key: one.step.value["sides"] for one in done if isinstance(one.step, Note)}
    for keyspace, (first, _) in statements(THREE).items():
        assert isinstance(first.step, Invoke)
        begins = "DROP" if first.step.f == "drop-table" else "ALTER"
        assert notes[keyspace][0][0].startswith(begins)


def test_slow_failures_of_one_race_do_not_hold_up_the_others() -> None:
    ended = max(one.ended for race in statements(THREE, slow=True).values() for one in race)
    assert ended < 3 * 12  # ten races, four lanes: three rounds


def test_every_node_of_the_other_side_is_an_opponent() -> None:
    opponents = {race[1].worker.node for race in statements(FIVE).values()}
    assert opponents == {"n1", "n3", "n5"}


def test_another_seed_pairs_other_opponents() -> None:
    chosen = {
        tuple(
            seat.worker.node for seat in seats(with_racing(FIVE, seed=seed), 10) if seat.place and seat.place.racer == 1
        )
        for seed in range(8)
    }
    assert len(chosen) > 1


def test_a_third_side_races_the_second_on_the_other_side_of_the_cut() -> None:
    done = carry_out(CreateTable(), "main", FIVE)
    for race in CreateTable().races(FIVE):
        creators = [
            one.worker.node
            for one in done
            if isinstance(one.step, Invoke)
            and one.step.f == "create-table"
            and one.step.value["keyspace"] == race.keyspace
        ]
        assert len(creators) == len(race.sides) == 3
        assert creators[0] == "n2"
        assert len({*creators}) == 3
        assert not {*creators[1:]} & {"n2", "n4"}


def test_both_sides_write_rows_while_they_are_cut_apart() -> None:
    done = carry_out(DropAlter(), "main", FIVE)
    for race in DropAlter().races(FIVE):
        writers = {
            one.worker.node
            for one in done
            if isinstance(one.step, Invoke) and one.step.f == "insert" and one.step.value["keyspace"] == race.keyspace
        }
        assert "n2" in writers
        assert writers - {"n2", "n4"}


def test_a_cut_has_two_sides() -> None:
    with pytest.raises(PlanError, match="both sides"):
        DropAlter().crew(with_racing(THREE, isolated=("n1", "n2", "n3")))


@pytest.mark.parametrize(
    ("races", "asked", "lanes"), [(10, None, 4), (2, None, 2), (110, None, 14), (999, None, 16), (10, "7", 7)]
)
def test_lanes_are_as_many_as_there_is_use_for(races: int, asked: str | None, lanes: int) -> None:
    context = with_racing(THREE, lanes=None if asked is None else int(asked))
    assert len({seat.place.lane for seat in seats(context, races) if seat.place}) == lanes


@pytest.mark.parametrize("asked", ["0", "-1", "many"])
def test_a_number_of_lanes_that_makes_no_sense_is_refused(asked: str) -> None:
    with pytest.raises(PlanError, match="lanes"):
        DropAlter().crew(replace(THREE, options={**THREE.options, "lanes": asked}))


@given(races=st.integers(0, 60), lanes=st.integers(1, 9))
def test_rounds_take_every_race_once_and_in_order(races: int, lanes: int) -> None:
    table = seats(with_racing(THREE, lanes=lanes), races)
    taken = [race for some in rounds(range(races), table) for race in some]
    assert taken == list(range(races))
    assert all(len(some) <= lanes for some in rounds(range(races), table))
