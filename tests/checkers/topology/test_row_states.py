"""What readings of a partition may show: each way in which a row is wrong, and the rows beside it that are right."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from schemaquake.checkers.topology.bulk_writes import BulkWrite, Partition
from schemaquake.checkers.topology.row_states import (
    Flaw,
    find_disowned,
    find_forgotten,
    judge_reading,
    owed_copies,
)


def write(lts: int, first: int = 0, stop: int = 4, *, deletes: bool = False, **other: object) -> BulkWrite:
    """A write (lts in µs) of these rows, acknowledged at once; asked for at its write time."""
    fields = {"level": "QUORUM", "node": "n1", "invoked": lts, "acknowledged": lts + 1, "refused": False} | other
    return BulkWrite(index=lts, partition=0, rows=slice(first, stop), lts=lts, deletes=deletes, **fields)


def partition(*writes: BulkWrite, rows: int = 4) -> Partition:
    return Partition(number=0, key=0, rows=rows, writes=sorted(writes, key=lambda one: one.lts))


def runs(*states: int) -> list[int]:
    """The runs of rows with these write times, 0 for one that is absent."""
    return [number for row, lts in enumerate(states) if lts for number in (row, 1, lts)]


def flaws(*writes: BulkWrite, shown: Sequence[int], unsure: Sequence[int] = (), at: int = 1000) -> list[Flaw]:
    found = judge_reading(partition(*writes), runs(*shown), completed=at, certain=lambda one: one.lts not in unsure)
    return list(found)


def kinds(*writes: BulkWrite, shown: Sequence[int], unsure: Sequence[int] = (), at: int = 1000) -> list[tuple]:
    return [(flaw.kind, flaw.rows, flaw.row, flaw.found) for flaw in flaws(*writes, shown=shown, unsure=unsure, at=at)]


OLD, NEW, GONE = write(10), write(20), write(30, deletes=True)


@pytest.mark.parametrize(
    ("writes", "shown"),
    [
        pytest.param((), (0, 0, 0, 0), id="nothing was written"),
        pytest.param((OLD,), (10, 10, 10, 10), id="written"),
        pytest.param((OLD, NEW), (20, 20, 20, 20), id="written over"),
        pytest.param((OLD, GONE), (0, 0, 0, 0), id="deleted"),
        pytest.param((OLD, write(20, 1, 3)), (10, 20, 20, 10), id="written over in part"),
        pytest.param((OLD, write(20, 1, 3, deletes=True)), (10, 0, 0, 10), id="deleted in part"),
        pytest.param((GONE, write(40, 0, 2)), (40, 40, 0, 0), id="written again"),
        pytest.param((OLD, write(20, refused=True)), (10, 10, 10, 10), id="refused"),
        pytest.param((OLD, write(1000)), (10, 10, 10, 10), id="asked for when the reading was answered"),
    ],
)
def test_what_was_written_last_is_right(writes: Sequence[BulkWrite], shown: Sequence[int]) -> None:
    assert flaws(*writes, shown=shown) == []


@pytest.mark.parametrize(
    ("writes", "shown", "found"),
    [
        pytest.param((OLD,), (10, 0, 0, 10), ("missed", 2, 1, 0), id="missed"),
        pytest.param((OLD, GONE), (0, 10, 0, 10), ("undeleted", 2, 1, 10), id="undeleted"),
        pytest.param((OLD, NEW), (20, 20, 10, 10), ("stale", 2, 2, 10), id="stale"),
        pytest.param((OLD,), (10, 10, 11, 10), ("unwritten", 1, 2, 11), id="unwritten"),
        pytest.param((OLD,), (10, 10, 10, 10, 10), ("unwritten", 1, 4, 10), id="a row that no write covers"),
        pytest.param((OLD,), (10, 9, 10, 10), ("unwritten", 1, 1, 9), id="a time before any write"),
        pytest.param((), (0, 0, 5, 0), ("unwritten", 1, 2, 5), id="nothing was written"),
        pytest.param((OLD, write(20, refused=True)), (10, 20, 10, 10), ("unwritten", 1, 1, 20), id="refused"),
        pytest.param((OLD, write(1000)), (10, 10, 1000, 10), ("unwritten", 1, 2, 1000), id="asked for too late"),
        pytest.param((OLD, write(2000)), (10, 10, 2000, 10), ("unwritten", 1, 2, 2000), id="asked for much later"),
        pytest.param((OLD, GONE), (0, 30, 0, 0), ("unwritten", 1, 1, 30), id="a deletion shows no row"),
        pytest.param((write(999), NEW), (999, 0, 999, 999), ("missed", 1, 1, 0), id="asked for just in time"),
    ],
)
def test_each_way_in_which_rows_are_wrong(
    writes: Sequence[BulkWrite], shown: Sequence[int], found: tuple[str, int, int, int]
) -> None:
    assert kinds(*writes, shown=shown) == [found]


def test_several_ways_are_told_apart_and_each_names_its_write() -> None:
    writes = (OLD, write(20, 0, 2), write(30, 2, 3, deletes=True))
    found = flaws(*writes, shown=(10, 0, 10, 7))
    assert [(flaw.kind, flaw.row, flaw.write.lts if flaw.write else None) for flaw in found] == [
        ("unwritten", 3, 10),
        ("missed", 1, 20),
        ("undeleted", 2, 30),
        ("stale", 0, 20),
    ]
    (nothing,) = flaws(shown=(0, 5))
    assert nothing.write is None


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ((10, 20, 10, 20), []),
        ((10, 0, 10, 20), [("missed", 1, 1, 0)]),
        ((10, 21, 10, 20), [("unwritten", 1, 1, 21)]),
    ],
)
def test_a_possible_write_may_show_or_not(shown: Sequence[int], found: Sequence[tuple]) -> None:
    assert kinds(OLD, NEW, shown=shown, unsure=[20]) == found


def test_a_possible_write_replaces_none_that_was_certain_and_later() -> None:
    assert kinds(OLD, NEW, shown=(10, 20, 20, 20), unsure=[10]) == [("stale", 1, 0, 10)]
    assert kinds(write(10, deletes=True), NEW, shown=(0, 20, 20, 20), unsure=[10]) == [("missed", 1, 0, 0)]
    assert kinds(OLD, GONE, shown=(0, 10, 0, 10), unsure=[30]) == []
    assert kinds(OLD, write(20, 0, 2), shown=(20, 10, 10, 10), unsure=[20]) == []


def owed(
    *writes: BulkWrite, held: dict[str, Sequence[int]], copies: int = 2, replicas: Sequence[str] = ("n1", "n2", "n3")
) -> tuple | None:
    states = {node: runs(*shown) for node, shown in held.items()}
    found = owed_copies(partition(*writes), states, frozenset(replicas), copies=lambda one: copies)
    return None if found is None else (found.rows, found.row, found.write.lts, found.copies, found.holders)


ALL, NONE = (10, 10, 10, 10), (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("held", "found"),
    [
        pytest.param({"n1": ALL, "n2": ALL, "n3": NONE}, None, id="two have them"),
        pytest.param({"n1": ALL, "n2": NONE, "n3": NONE}, (4, 0, 10, 2, ("n1",)), id="one has them"),
        pytest.param({"n1": ALL, "n2": (10, 0, 10, 10), "n3": NONE}, (1, 1, 10, 2, ("n1",)), id="one row"),
        pytest.param({"n1": ALL, "n2": NONE}, None, id="one was not asked"),
        pytest.param({"n1": NONE, "n2": NONE}, (4, 0, 10, 2, ()), id="one was not asked, and the others have none"),
        pytest.param({"n1": ALL, "n4": ALL, "n2": NONE, "n3": NONE}, (4, 0, 10, 2, ("n1",)), id="no replica"),
        pytest.param({}, None, id="nobody was asked"),
    ],
)
def test_as_many_replicas_as_acknowledged_hold_each_row(held: dict[str, Sequence[int]], found: tuple | None) -> None:
    assert owed(OLD, held=held) == found


def test_a_later_write_and_a_later_deletion_stand_for_an_earlier_write() -> None:
    later = (20, 20, 20, 20)
    assert owed(OLD, write(20), held={"n1": later, "n2": later, "n3": NONE}) is None
    assert owed(OLD, write(20), held={"n1": later, "n2": ALL, "n3": NONE}) == (4, 0, 20, 2, ("n1",))
    assert owed(OLD, GONE, held={"n1": NONE, "n2": NONE, "n3": NONE}) is None
    assert owed(write(10, 0, 2), held={"n1": (10, 10), "n2": (10, 10), "n3": NONE}) is None


def test_a_refused_deletion_explains_no_row_that_is_gone() -> None:
    writes = partition(OLD, write(30, deletes=True, refused=True))
    nothing = {node: runs(*NONE) for node in ("n1", "n2")}
    found = owed_copies(writes, nothing, frozenset(nothing), copies=lambda one: 0 if one.refused else 1)
    assert found is not None
    assert (found.rows, found.write.lts) == (4, 10)


def test_what_need_not_be_anywhere_is_owed_by_nobody() -> None:
    assert owed(OLD, held={"n1": NONE, "n2": NONE, "n3": NONE}, copies=0) is None
    assert owed(OLD, held={"n1": NONE, "n2": NONE, "n3": NONE}, copies=-1) is None
    assert owed(OLD, held={"n1": NONE, "n2": NONE, "n3": NONE}, copies=1) == (4, 0, 10, 1, ())


def test_a_write_that_more_acknowledged_is_owed_by_more() -> None:
    states = {"n1": runs(10, 10, 20, 20), "n2": runs(10, 10, 0, 0), "n3": runs(0, 0, 0, 0)}
    writes = partition(write(10, 0, 2), write(20, 2, 4))
    for copies, row in (({10: 2, 20: 1}, None), ({10: 3, 20: 1}, 0), ({10: 2, 20: 2}, 2), ({10: 1, 20: 2}, 2)):
        found = owed_copies(writes, states, frozenset(states), copies=lambda one, by=copies: by[one.lts])
        assert (None if found is None else found.row) == row


@pytest.mark.parametrize(
    ("shown", "least", "kept", "found"),
    [
        pytest.param(ALL, (20, 20, 20, 20), (20,), (4, 0, 10, 20), id="earlier than each replica had"),
        pytest.param((20, 10, 10, 20), (20, 20, 20, 20), (20,), (2, 1, 10, 20), id="some rows"),
        pytest.param(ALL, (10, 10, 10, 10), (10,), None, id="the same"),
        pytest.param((30,) * 4, (20,) * 4, (20,), None, id="later"),
        pytest.param(NONE, (20,) * 4, (20,), None, id="absent"),
        pytest.param(ALL, (20,) * 4, (), None, id="of a write that was not on disk for good"),
        pytest.param(ALL, (20, 30, 20, 20), (30,), (1, 1, 10, 30), id="one row of a write that was"),
        pytest.param(ALL, NONE, (0, 10), None, id="a replica lacked them"),
    ],
)
def test_a_node_that_is_no_replica_shows_nothing_older(
    shown: Sequence[int], least: Sequence[int], kept: Sequence[int], found: tuple | None
) -> None:
    held = {"n1": runs(*least), "n2": runs(40, 40, 40, 40)}
    said = find_disowned(partition(OLD), runs(*shown), held, frozenset(held), kept=kept)
    assert (None if said is None else tuple(said)) == found
    assert find_disowned(partition(OLD), runs(*shown), held, frozenset(), kept=kept) is None
    assert find_disowned(partition(OLD), runs(*shown), held, frozenset({"n1", "n3"}), kept=kept) is None
    other = held | {"n9": runs(1, 1, 1, 1)}
    again = find_disowned(partition(OLD), runs(*shown), other, frozenset(held), kept=kept)
    assert (None if again is None else tuple(again)) == found, "n9 is no replica"


@pytest.mark.parametrize(
    ("writes", "before", "now", "rows"),
    [
        pytest.param((OLD,), ALL, ALL, [], id="the same"),
        pytest.param((OLD, NEW), (20, 20, 20, 20), (20, 10, 20, 10), [1, 3], id="older"),
        pytest.param((OLD, NEW), ALL, (20, 20, 20, 20), [], id="newer"),
        pytest.param((OLD,), ALL, (10, 0, 10, 10), [1], id="gone"),
        pytest.param((OLD, GONE), ALL, (10, 0, 10, 10), [], id="deleted"),
        pytest.param((write(5, deletes=True), OLD), ALL, NONE, [0, 1, 2, 3], id="deleted before it was written"),
        pytest.param((write(10), write(10, 0, 2, deletes=True)), ALL, NONE, [2, 3], id="deleted at its own time"),
        pytest.param((write(30, deletes=True, refused=True), OLD), ALL, NONE, [0, 1, 2, 3], id="a refused deletion"),
        pytest.param((GONE, write(5, deletes=True), OLD), ALL, NONE, [], id="the latest deletion counts"),
        pytest.param((OLD,), NONE, NONE, [], id="never there"),
        pytest.param((write(1),), (1, 1, 1, 1), NONE, [0, 1, 2, 3], id="the earliest time"),
    ],
)
def test_a_replica_shows_nothing_older_than_before(
    writes: Sequence[BulkWrite], before: Sequence[int], now: Sequence[int], rows: Sequence[int]
) -> None:
    assert find_forgotten(partition(*writes), runs(*now), runs(*before)) == rows
