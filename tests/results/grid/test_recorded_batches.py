"""Batches as a file from which another grid goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from grids import NEW, OLD, finished, grid_plan, race

from schemaquake.harness.errors import HistoryError
from schemaquake.results.findings.cause import Cause, read_design
from schemaquake.results.findings.known import known_findings
from schemaquake.results.grid.facts import FoundCause
from schemaquake.results.grid.folder import DoneBatch
from schemaquake.results.grid.plan import Batch
from schemaquake.results.grid.recorded import distinct, read_batches, with_newest_findings, write_batches
from schemaquake.results.grid.schedule import GridSchedule
from schemaquake.workloads.races.options import Mode

CELLS = ("a/b/same-1", "a/b/same-2", "c/d/names-t")
CAUSE = FoundCause(id="SQ-AAAAAAAA", title="A type goes", tickets=("CASSANDRA-18330",), page="bugs.md#b3", known=True)


def batch(number: int, system: str = OLD, cells: tuple[str, ...] = CELLS) -> Batch:
    return Batch(system=system, mode="barrier", cells=cells, turn=0, number=number)


def some() -> list[DoneBatch]:
    first = finished(batch(3), {CELLS[0]: ["dangling-type"]}, at_large=["schema-disagreement"])
    races = (race(CELLS[0], "dangling-type", finding=CAUSE), race(CELLS[1], doubts=["unread: n1"]), race(CELLS[2]))
    return [
        DoneBatch(first.unit, replace(first.facts, races=races, seconds=7.5)),
        finished(batch(3, NEW, CELLS[:1])),
    ]


def test_what_a_schedule_needs_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "batches.parquet"
    write_batches(path, some())
    read = read_batches(path)
    assert [one.unit.number for one in read] == [0, 1]
    for was, one in zip(some(), read, strict=True):
        assert replace(one.unit, number=was.unit.number) == was.unit
        assert one.facts == replace(was.facts, run=None, command="")


def test_another_grid_goes_on_with_it(tmp_path: Path) -> None:
    path = tmp_path / "batches.parquet"
    write_batches(path, some())
    wanted = GridSchedule(grid_plan(systems=(OLD,), tries=1), {OLD: CELLS})
    for one in read_batches(path):
        if one.unit.system == OLD:
            wanted.finished(one)
    following = wanted.next()
    assert following is not None
    assert following.cells == (CELLS[1],), "the race in doubt is no try"


def test_only_the_worst_explanation_of_a_race_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "batches.parquet"
    write_batches(path, [finished(batch(0), {CELLS[0]: ["dangling-type", "lost-column"]})])
    (one,) = read_batches(path)
    assert [bool(symptom.explanation) for symptom in one.facts.races[0].symptoms] == [True, False]


def test_batches_that_two_grids_have_are_there_once() -> None:
    again = distinct([*some(), *some(), finished(batch(0, cells=CELLS[:2]))])
    assert [(one.unit.number, one.unit.system, len(one.unit.cells)) for one in again] == [
        (0, OLD, 3),
        (1, NEW, 1),
        (2, OLD, 2),
    ]


def test_what_holds_no_batches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError):
        read_batches(tmp_path / "none.parquet")
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"cell": ["a"]}), other)
    with pytest.raises(HistoryError):
        read_batches(other)


def test_what_became_known_of_a_finding_counts_for_all_its_races() -> None:
    new, known = FoundCause(id="SQ-1", title="t"), FoundCause(id="SQ-1", title="t", page="findings.md#x", known=True)
    other = FoundCause(id="SQ-2", title="u")
    races = [race(CELLS[0], "lost-column", finding=one) for one in (new, known, other)] + [race(CELLS[1])]
    (done,) = with_newest_findings([DoneBatch(batch(0), replace(finished(batch(0)).facts, races=tuple(races)))])
    assert [one.finding for one in done.facts.races] == [known, known, other, None]


def test_an_entry_that_was_written_later_is_found_by_the_finding_s_id() -> None:
    entry = next(one for one in known_findings() if one.symptoms and not one.alone and "system_schema" in one.eras)
    product, era = read_design(OLD)
    cause = Cause(product=product, era=era, statements=entry.statements, fault=entry.fault)
    recorded = FoundCause(id=cause.id, title="as it was described then")
    fits, other = race(CELLS[0], min(entry.symptoms), finding=recorded), race(CELLS[1], "no-such", finding=recorded)

    def renewed(system: str) -> list[bool]:
        facts = replace(finished(batch(0, system)).facts, races=(fits, other))
        (done,) = with_newest_findings([DoneBatch(batch(0, system), facts)])
        return [one.finding is not None and one.finding.known for one in done.facts.races]

    assert renewed(OLD) == [True, False]
    assert renewed(NEW) == [False, False], "what is known of one design says nothing of another"


@pytest.mark.parametrize(
    ("mode", "places", "broke"),
    [
        ("barrier", ("dangling-type", "unreadable-table"), [True, False]),
        ("barrier", ("unreadable-table", "dangling-type"), [True, True]),
        ("partition", ("unreadable-table", "dangling-type"), [False, True]),
        ("barrier", ("dangling-type", "lost-option"), [True, True]),
    ],
)
def test_what_an_earlier_race_may_have_brought_is_no_proof_however_old_the_record(
    tmp_path: Path, mode: Mode, places: tuple[str, str], broke: list[bool]
) -> None:
    path = tmp_path / "batches.parquet"
    races = tuple(race(cell, shown) for cell, shown in zip(CELLS[:2], places, strict=True))
    unit = replace(batch(0, cells=CELLS[:2]), mode=mode)
    write_batches(path, [DoneBatch(unit, replace(finished(unit).facts, races=races))])
    (one,) = read_batches(path)
    assert [bool(race.symptoms) for race in one.facts.races] == broke
