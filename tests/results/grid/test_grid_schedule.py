"""What a grid races next: the least raced first, the rest of a batch that was cut short, suspects in halves."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from grids import NEW, OLD, finished, grid_plan, race

from schemaquake.harness.errors import PlanError
from schemaquake.results.grid.facts import refused
from schemaquake.results.grid.folder import DoneBatch
from schemaquake.results.grid.schedule import GridSchedule

CELLS = [f"a/b/same-{n}" for n in range(10)]


def schedule(**changes: object) -> GridSchedule:
    return GridSchedule(grid_plan(**changes), {OLD: CELLS, NEW: CELLS[:3]})


def test_every_cell_is_raced_as_often_as_planned_and_no_more() -> None:
    wanted = schedule()
    raced: Counter[tuple[str, str]] = Counter()
    while (batch := wanted.next()) is not None:
        assert len(batch.cells) <= 4
        raced.update((batch.system, cell) for cell in batch.cells)
        wanted.finished(finished(batch))
    assert raced == {(OLD, cell): 2 for cell in CELLS} | {(NEW, cell): 2 for cell in CELLS[:3]}
    assert wanted.known == wanted.wanted == 26


def test_no_cell_is_raced_a_second_time_before_all_were_raced_once() -> None:
    wanted = schedule()
    turns = []
    while (batch := wanted.next()) is not None:
        turns.append(batch.turn)
        wanted.finished(finished(batch))
    assert turns == sorted(turns)


def test_what_a_poisoned_cluster_did_not_race_is_raced_on_another() -> None:
    wanted = schedule(systems=(OLD,), tries=1)
    first = wanted.next()
    assert first is not None
    wanted.finished(finished(first, only=1))
    later = []
    while (batch := wanted.next()) is not None:
        later += batch.cells
        wanted.finished(finished(batch))
    assert sorted([first.cells[0], *later]) == sorted(CELLS)


def test_statements_that_poisoned_a_cluster_come_last() -> None:
    cells = [
        f"{name}/{n}/keyspace" for n, name in enumerate(["good", "bad", "fine", "well", "bad", "bad", "bad", "bad"])
    ]
    wanted = GridSchedule(grid_plan(systems=(OLD,), tries=1, batch=8), {OLD: cells})
    first = wanted.next()
    assert first is not None
    place = next(n for n, cell in enumerate(first.cells) if cell.startswith("bad"))
    wanted.finished(finished(first, only=place + 1))
    following = wanted.next()
    assert following is not None
    bad = [cell.startswith("bad") for cell in following.cells]
    assert bad == sorted(bad)


RISKS = {cell: float(n % 2) for n, cell in enumerate(CELLS)}


def test_batches_are_taken_in_turn_from_the_calm_and_from_the_risky() -> None:
    wanted = GridSchedule(grid_plan(systems=(OLD,), tries=1, batch=3), {OLD: CELLS}, RISKS)
    shares = []
    while (batch := wanted.next()) is not None:
        risks = [RISKS[cell] for cell in batch.cells]
        assert risks == sorted(risks), "what may poison the cluster comes last"
        shares.append(sum(risks))
        wanted.finished(finished(batch))
    assert shares == [0, 3, 1, 1]


def test_a_batch_of_risky_cells_is_no_larger_than_its_cluster_is_likely_to_live() -> None:
    cells = [f"a{n}/b{n}/keyspace" for n in range(100)]
    risky = dict.fromkeys(cells[60:], 1.0)
    wanted = GridSchedule(grid_plan(systems=(OLD,), tries=1, batch=50), {OLD: cells}, risky)
    calm, few = wanted.next(), wanted.next()
    assert calm is not None
    assert few is not None
    assert (len(calm.cells), set(calm.cells) & set(risky)) == (50, set())
    assert 2 <= len(few.cells) < 20
    assert set(few.cells) <= set(risky)


@pytest.mark.parametrize(("broken", "tries"), [(0, 6), (1, 6), (2, 20)])
def test_a_cell_is_raced_until_its_rate_is_known_well_enough(broken: int, tries: int) -> None:
    """A rate of none or all is known to 0.2 after six races (Wilson), one of a half after twenty."""
    cell = CELLS[0]
    wanted = GridSchedule(grid_plan(systems=(OLD,), tries=3, within=0.2, batch=4), {OLD: [cell]})
    turns = []
    while (batch := wanted.next()) is not None:
        turns.append(batch.turn)
        breaks = broken == 1 or (broken == 2 and batch.turn % 2 == 0)
        wanted.finished(finished(batch, {cell: ["lost-column"]} if breaks else {}))
    assert turns == list(range(len(turns)))
    assert abs(len(turns) - tries) <= 1
    assert wanted.known == wanted.wanted


def test_a_rate_that_is_never_known_well_enough_ends() -> None:
    wanted = GridSchedule(grid_plan(systems=(OLD,), tries=1, within=0.01, batch=4), {OLD: CELLS[:1]})
    raced = 0
    while (batch := wanted.next()) is not None:
        raced += 1
        wanted.finished(finished(batch))
    assert raced == 50


@pytest.mark.parametrize("within", [0.0, 0.5, -1.0, float("nan")])
def test_an_interval_that_says_nothing_is_refused(within: float) -> None:
    with pytest.raises(PlanError, match="--within"):
        grid_plan(within=within)


def test_risky_cells_that_were_not_decided_are_raced_again_in_smaller_company() -> None:
    cells = [f"a{n}/b{n}/keyspace" for n in range(12)]
    wanted = GridSchedule(grid_plan(systems=(OLD,), tries=1, batch=50), {OLD: cells}, dict.fromkeys(cells, 1.0))
    sizes: list[int] = []
    while (batch := wanted.next()) is not None:
        sizes.append(len(batch.cells))
        races = tuple(race(cell, doubts=("unread: no node of its cluster started again",)) for cell in batch.cells)
        wanted.finished(DoneBatch(batch, replace(finished(batch).facts, races=races)))
    assert sizes[0] == 12
    assert min(sizes[1:]) <= 6
    assert sum(sizes) == 3 * len(cells), "each is tried three times"


def test_cells_that_another_race_left_undecided_are_raced_again_in_full_company() -> None:
    cells = [f"a{n}/b{n}/keyspace" for n in range(24)]
    poison = set(cells[::6])
    wanted = GridSchedule(grid_plan(systems=(OLD,), tries=1, batch=24), {OLD: cells})
    first = wanted.next()
    assert first is not None
    assert set(first.cells) == set(cells)
    races = tuple(
        race(
            cell,
            *(["dangling-type"] if cell in poison else []),
            doubts=["unread: no node of its cluster started again"],
        )
        for cell in first.cells
    )
    wanted.finished(DoneBatch(first, replace(finished(first).facts, races=races)))
    second = wanted.next()
    assert second is not None
    assert set(second.cells) == set(cells) - poison


def test_a_cell_is_not_given_up_while_others_poison_its_cluster() -> None:
    poison = [f"p{n}/q{n}/keyspace" for n in range(6)]
    good = "a/b/keyspace"
    wanted = GridSchedule(grid_plan(systems=(OLD,), tries=1, batch=7), {OLD: [good, *poison]})
    while (batch := wanted.next()) is not None:
        spoilt = [cell for cell in batch.cells if cell in poison][:1]  # the others of its cluster are never seen again
        races = tuple(
            race(cell, *(["dangling-type"] if cell in spoilt else []), doubts=["unread"] if spoilt else [])
            for cell in batch.cells
        )
        wanted.finished(DoneBatch(batch, replace(finished(batch).facts, races=races)))
    assert wanted.known == wanted.wanted == 7


def test_the_last_cells_are_raced_together_if_none_is_risky() -> None:
    wanted = GridSchedule(
        grid_plan(systems=(OLD,), tries=1, batch=30), {OLD: [f"a{n}/b{n}/keyspace" for n in range(60)]}
    )
    sizes = []
    while (batch := wanted.next()) is not None:
        sizes.append(len(batch.cells))
        wanted.finished(finished(batch))
    assert sum(sizes) == 60
    assert min(sizes) >= 12


def test_what_a_cell_did_counts_more_than_what_its_statements_suggest() -> None:
    plan = grid_plan(systems=(OLD,), tries=2, batch=10)
    wanted = GridSchedule(plan, {OLD: CELLS}, RISKS)
    first = wanted.next()
    assert first is not None
    wanted.finished(finished(first, {CELLS[0]: ["dangling-type"]}))
    second = wanted.next()
    assert second is not None
    assert second.cells[-1] == CELLS[0]


def test_races_of_a_round_are_not_blamed_for_an_end_that_one_of_them_explains() -> None:
    wanted = GridSchedule(grid_plan(systems=(OLD,), tries=1, batch=10), {OLD: CELLS})
    first = wanted.next()
    assert first is not None
    guilty = first.cells[1]
    wanted.finished(finished(first, {guilty: ["headless-table"]}, only=4))
    again = wanted.next()
    assert again is not None
    assert not set(first.cells[:4]) & set(again.cells), "all that began are decided"


def test_a_running_cell_is_not_raced_beside_itself() -> None:
    wanted = schedule(systems=(OLD,), tries=1)
    running = [wanted.next() for _ in range(3)]
    assert wanted.next() is None
    cells = [cell for batch in running if batch is not None for cell in batch.cells]
    assert sorted(cells) == sorted(CELLS)
    given_up = running[0]
    assert given_up is not None
    wanted.given_up(given_up)
    again = wanted.next()
    assert again is not None
    assert set(again.cells) == set(given_up.cells)


def test_an_anomaly_of_the_cluster_is_hunted_down_to_one_cell() -> None:
    guilty = CELLS[7]
    wanted = schedule(systems=(OLD,), tries=1, batch=10)
    sizes = []
    while (batch := wanted.next()) is not None:
        sizes.append(len(batch.cells))
        wanted.finished(finished(batch, at_large=["node-will-not-start"] if guilty in batch.cells else ()))
        alone = batch.cells == (guilty,)
        if alone:
            break
    assert alone
    assert sizes[0] == 10
    assert len(sizes) < 10


def test_an_anomaly_of_the_cluster_beside_a_broken_race_is_not_hunted() -> None:
    wanted = schedule(systems=(OLD,), tries=1, batch=10)
    batch = wanted.next()
    assert batch is not None
    wanted.finished(finished(batch, {CELLS[0]: ["dangling-type"]}, at_large=["node-will-not-start"]))
    assert wanted.next() is None


def test_cells_that_can_never_be_raced_end() -> None:
    wanted = schedule(systems=(OLD,), tries=1, batch=10)
    asked = 0
    while (batch := wanted.next()) is not None:
        asked += 1
        wanted.finished(DoneBatch(batch, refused("no cluster", applicable=True)))
    assert asked == 3


def test_a_grid_goes_on_where_it_ended() -> None:
    first = schedule(systems=(OLD,), tries=1)
    batch = first.next()
    assert batch is not None
    later = schedule(systems=(OLD,), tries=1)
    later.finished(finished(batch))
    following = later.next()
    assert following is not None
    assert not set(following.cells) & set(batch.cells)
    assert following.number > batch.number


def test_a_race_that_was_not_decided_is_no_try() -> None:
    wanted = schedule(systems=(OLD,), tries=1, batch=2)
    first = wanted.next()
    assert first is not None
    decided, doubtful = first.cells
    races = (race(decided), race(doubtful, doubts=["undecided: after poison"]))
    wanted.finished(DoneBatch(first, replace(finished(first).facts, races=races)))
    later: Counter[str] = Counter()
    while (batch := wanted.next()) is not None:
        later.update(batch.cells)
        races = tuple(race(cell, doubts=["unread"] if cell == doubtful else []) for cell in batch.cells)
        wanted.finished(DoneBatch(batch, replace(finished(batch).facts, races=races)))
    assert later[decided] == 0
    assert later[doubtful] == 2, "it is given up after three"


@pytest.mark.parametrize(
    ("shown", "at_large", "again"),
    [
        ([], ["schema-disagreement"], True),
        ([], [], False),
        (["lost-option"], ["schema-disagreement"], False),
        (["lost-option"], ["node-will-not-start"], True),
        (["dangling-type"], ["node-will-not-start"], False),
        (["node-will-not-start"], ["node-will-not-start"], False),
    ],
)
def test_suspects_are_raced_again_unless_a_race_explains_what_broke(
    shown: list[str], at_large: list[str], *, again: bool
) -> None:
    wanted = schedule(systems=(OLD,), tries=1, batch=len(CELLS))
    first = wanted.next()
    assert first is not None
    wanted.finished(finished(first, {first.cells[0]: shown}, at_large=at_large))
    half = wanted.next()
    assert (half is not None) == again
    assert half is None or set(half.cells) == set(first.cells[: len(first.cells) // 2])


@pytest.mark.parametrize("whole_first", [True, False])
def test_halves_that_an_earlier_session_raced_are_not_raced_again(*, whole_first: bool) -> None:
    first_session = schedule(systems=(OLD,), tries=1, batch=len(CELLS))
    first = first_session.next()
    assert first is not None
    whole = finished(first, at_large=["schema-disagreement"])
    first_session.finished(whole)
    half = first_session.next()
    assert half is not None

    resumed = schedule(systems=(OLD,), tries=1, batch=len(CELLS))
    # Batches of several grids that were published as one come in any order.
    for done in (whole, finished(half))[:: 1 if whole_first else -1]:
        resumed.finished(done, earlier=True)
    other = resumed.next()
    assert other is not None
    assert set(other.cells) == set(CELLS) - set(half.cells)
    resumed.finished(finished(other))
    assert resumed.next() is None


def sizes_of_risky_batches(*, poisonous: bool, system: str = OLD) -> list[int]:
    """Race a hundred cells whose statements suggest the worst; return the number of cells that each batch began with."""
    cells = [f"a{n % 4}/b{n % 3}/same-{n}" for n in range(100)]
    wanted = GridSchedule(grid_plan(systems=(system,), tries=1, batch=50), {system: cells}, dict.fromkeys(cells, 1.0))
    sizes = []
    while (batch := wanted.next()) is not None:
        if batch.number % 2:  # of the risky; those of the calm are as large as they may be
            sizes.append(len(batch.cells))
        wanted.finished(finished(batch, {cell: ["dangling-type"] for cell in batch.cells} if poisonous else {}))
    return sizes


@pytest.mark.parametrize(
    ("unanswered", "at_large", "hunted"),
    [
        (1, ["unexpected-log-error"], False),
        (1, ["unexpected-log-error", "unavailable"], False),
        (1, ["unexpected-log-error", "schema-disagreement"], True),
        (0, ["unexpected-log-error"], True),
        (1, ["node-will-not-start"], True),
    ],
)
def test_an_error_of_changes_that_were_answered_by_one_is_not_hunted(
    unanswered: int, at_large: list[str], *, hunted: bool
) -> None:
    wanted = schedule(systems=(OLD,), tries=1, batch=len(CELLS))
    first = wanted.next()
    assert first is not None
    done = finished(first, at_large=at_large)
    races = (replace(done.facts.races[0], unanswered=unanswered), *done.facts.races[1:])
    wanted.finished(DoneBatch(first, replace(done.facts, races=races)))
    assert (wanted.next() is not None) is hunted


def test_batches_of_risky_cells_grow_where_nothing_poisons_a_cluster() -> None:
    wanted = sizes_of_risky_batches(poisonous=False)
    assert wanted[0] >= 12
    assert max(wanted) >= 30 > max(sizes_of_risky_batches(poisonous=True)[:2])


def test_what_one_system_did_says_nothing_of_another() -> None:
    cells = [f"a{n}/b/keyspace" for n in range(40)]
    wanted = GridSchedule(grid_plan(systems=(OLD, NEW), tries=1, batch=40), {OLD: cells, NEW: cells})
    first = wanted.next()
    assert first is not None
    assert first.system == OLD
    wanted.finished(finished(first, {cell: ["dangling-type"] for cell in first.cells}))
    sizes = []
    while (batch := wanted.next()) is not None:
        sizes.append(len(batch.cells))
        wanted.finished(finished(batch))
    assert sizes == [40]
