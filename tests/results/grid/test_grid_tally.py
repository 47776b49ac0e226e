"""What a grid knows of each cell, and its pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import pytest
from grids import NEW, OLD, finished, grid_plan, race, symptom

from schemaquake.results.grid.facts import (
    BatchFacts,
    FoundCause,
    RaceFacts,
    begun_alike,
    is_behind,
    outlived,
    seen_again,
    without_consequences,
)
from schemaquake.results.grid.folder import DoneBatch
from schemaquake.results.grid.markdown import render_grid_markdown
from schemaquake.results.grid.page import GridState, relation_in_words, render_grid_html
from schemaquake.results.grid.plan import Batch, GridPlan
from schemaquake.results.grid.tally import GridCell, cells_table, differences, tally
from schemaquake.workloads.statements.meetings import Meeting, meetings

TYPE = "add-column-of-type/drop-type/names-type"
TABLE = "create-table/create-table/same-table"
WRITE = "drop-column/insert-at-quorum/names-column"


@cache
def chosen() -> Mapping[str, Meeting]:
    return {name: cell for cell in meetings() if (name := cell.name) in {TYPE, TABLE, WRITE}}


def able() -> Mapping[str, Sequence[Meeting]]:
    return {OLD: list(chosen().values()), NEW: [chosen()[TABLE], chosen()[WRITE]]}


def batch(system: str = OLD, *cells: str, number: int = 0) -> Batch:
    return Batch(system=system, mode="barrier", cells=cells or tuple(chosen()), turn=0, number=number)


def done(system: str, *races: object, at_large: tuple[str, ...] = ()) -> DoneBatch:
    facts = BatchFacts(
        run="runs/r1",
        completed=True,
        seconds=2.0,
        races=races,  # type: ignore[arg-type]  # races of a test
        at_large=tuple(map(symptom, at_large)),
    )
    return DoneBatch(batch(system, *(one.cell for one in races)), facts)  # type: ignore[attr-defined]


def states(*batches: DoneBatch) -> dict[tuple[str, str], GridCell]:
    return {(cell.system, cell.name): cell for cell in tally(grid_plan(), batches, able())}


def test_a_cell_is_what_its_races_showed() -> None:
    found = states(
        done(OLD, race(TYPE, "dangling-type", "lost-column"), race(TABLE, acknowledged=1), race(WRITE, acknowledged=1)),
        done(OLD, race(TYPE), race(TABLE, doubts=["not-all-started: n1"]), race(WRITE)),
        done(NEW, race(TABLE, doubts=["not-all-started: n1"])),
    )
    broke = found[OLD, TYPE]
    assert (broke.state, broke.broken, broke.tried) == ("broke", 1, 2)
    assert broke.anomalies == (("dangling-type", 1), ("lost-column", 1))
    assert broke.worst is not None
    assert (found[OLD, TABLE].state, found[OLD, TABLE].tried, found[OLD, TABLE].doubtful) == ("refused", 1, 1)
    assert found[OLD, WRITE].state == "held", "one of its statements is no schema change"
    assert found[NEW, TABLE].state == "unknown", "a doubt is not a pass"
    assert found[NEW, WRITE].state == "not run"
    assert found[NEW, TYPE].state == "not applicable"


def test_a_broken_race_counts_although_something_else_is_in_doubt() -> None:
    found = states(done(OLD, race(TYPE, "dangling-type", doubts=["not-all-started: n1"])))
    assert (found[OLD, TYPE].broken, found[OLD, TYPE].tried) == (1, 1)


def test_an_anomaly_of_the_cluster_is_charged_to_a_cell_only_if_it_was_alone() -> None:
    alone = states(done(OLD, race(TYPE), at_large=("node-will-not-start",)))
    assert (alone[OLD, TYPE].state, alone[OLD, TYPE].anomalies) == ("broke", (("node-will-not-start", 1),))
    together = states(done(OLD, race(TYPE), race(TABLE), at_large=("node-will-not-start",)))
    assert {together[OLD, name].state for name in (TYPE, TABLE)} == {"held"}


def test_versions_differ_where_one_broke_and_the_other_was_decided() -> None:
    cells = tally(
        grid_plan(),
        [
            done(OLD, race(TABLE, "conflicting-table-ids"), race(WRITE)),
            done(NEW, race(TABLE, acknowledged=1), race(WRITE, "unreadable-table")),
        ],
        able(),
    )
    found = differences(cells, OLD, NEW)
    assert [cell.name for cell in found.mended] == [TABLE]
    assert [cell.name for cell in found.worse] == [WRITE]
    assert (found.broken, found.whole) == ((), ())
    same = differences(
        [*cells, *(replace(cell, system="cassandra:6.0") for cell in cells if cell.system == NEW)], NEW, "cassandra:6.0"
    )
    assert [[cell.name for cell in some] for some in (same.broken, same.whole)] == [[WRITE], [TABLE]]
    alone = differences([cell for cell in cells if cell.system == OLD], OLD, NEW)
    assert alone.sentence == "No cell was decided on both."


def test_facts_and_plans_are_read_back_as_they_were() -> None:
    one = finished(batch(), {TYPE: ["dangling-type"]}, at_large=["schema-disagreement"])
    assert BatchFacts.from_json(one.facts.to_json()) == one.facts
    assert Batch.from_json(one.unit.to_json()) == one.unit
    assert GridPlan.from_json(grid_plan().to_json()) == grid_plan()


KNOWN = FoundCause(id="SQ-AAAAAAAA", title="A type goes", tickets=("CASSANDRA-18330",), page="bugs.md#b3", known=True)
NEWS = FoundCause(id="SQ-BBBBBBBB", title="A table meets itself")


def test_a_broken_cell_leads_to_its_findings() -> None:
    races = [race(TYPE, "dangling-type", finding=KNOWN), race(TABLE, "lost-rows", finding=NEWS), race(WRITE)]
    found = states(done(OLD, *races), done(OLD, race(TYPE, "dangling-type", finding=KNOWN)))
    assert found[OLD, TYPE].findings == (KNOWN,)
    assert [(name, found[OLD, name].is_new) for name in (TYPE, TABLE, WRITE)] == [
        (TYPE, False),
        (TABLE, True),
        (WRITE, False),
    ]
    rows = {row["cell"]: row for row in cells_table(list(found.values())).to_pylist() if row["broken"]}
    assert (rows[TYPE]["findings"], rows[TYPE]["tickets"], rows[TYPE]["new"]) == (
        ["SQ-AAAAAAAA"],
        ["CASSANDRA-18330"],
        False,
    )
    state = page_state(done(OLD, *races))
    for page in (render_grid_html(state), render_grid_markdown(state)):
        assert "CASSANDRA-18330" in page
        assert "SQ-BBBBBBBB" in page
    facts = done(OLD, *races).facts
    assert BatchFacts.from_json(facts.to_json()) == facts


@pytest.mark.parametrize(
    ("before", "after", "decided"),
    [
        (["dangling-type"], ["memory-disk-divergence"], False),
        (["headless-table", "lost-rows"], ["unreadable-table", "unexpected-log-error"], False),
        (["memory-disk-divergence"], ["memory-disk-divergence"], False),
        (["dangling-type"], ["memory-disk-divergence", "dangling-type"], True),
        (["dangling-type"], ["lost-rows"], True),
        (["lost-option"], ["memory-disk-divergence"], True),
        ([], ["memory-disk-divergence"], True),
        (["dangling-type"], [], True),
        (["dangling-type"], ["vanished-object", "non-linearizable-ddl"], False),
        (["dangling-type"], ["non-linearizable-ddl"], True),
        (["node-will-not-start"], ["unavailable"], False),
        (["lost-option"], ["unavailable"], True),
    ],
)
def test_a_race_after_poison_is_in_doubt_if_it_shows_nothing_but_consequences(
    before: list[str], after: list[str], *, decided: bool
) -> None:
    first, second, third = without_consequences([race(TYPE, *before), race(TABLE, *after), race(WRITE)])
    assert [one.type for one in first.symptoms] == before
    assert third == race(WRITE)
    assert (not second.doubts) == decided
    assert bool(second.symptoms) == (decided and bool(after))


def test_under_a_cut_a_later_race_may_have_brought_it() -> None:
    races = [race(TYPE, "memory-disk-divergence", "vanished-object"), race(TABLE, "dangling-type")]
    assert list(without_consequences(races)) == races
    first, second = without_consequences(races, at_once=2)
    assert (first.symptoms, len(first.doubts)) == ((), 1)
    assert second == races[1]


def test_of_races_in_rounds_one_of_the_same_round_or_an_earlier_one_may_have_brought_it() -> None:
    spread, poison = race(TABLE, "vanished-object"), race(TYPE, "dangling-type")
    doubted = [bool(one.doubts) for one in without_consequences([spread, spread, spread, poison, spread], at_once=2)]
    assert doubted == [False, False, True, False, True]


def test_where_nodes_no_longer_merge_what_others_have_a_change_of_one_side_decides_nothing() -> None:
    """As on 5.0.9 after CREATE TABLE met DROP of a view of its name: later functions were known to one side alone."""
    races = [race(TYPE, "bad-primary-key"), race(TABLE, "resurrected-object", "non-linearizable-ddl")]
    assert list(without_consequences(races)) == races
    first, second = without_consequences(races, divided=True)
    assert first == races[0]
    assert (second.symptoms, len(second.doubts)) == ((), 1)
    own = [races[0], race(TABLE, "resurrected-object", "dangling-type")]
    assert list(without_consequences(own, divided=True)) == own, "a type is left dangling by the race itself"
    assert list(without_consequences(races[1:], divided=True)) == races[1:], "nobody else is to blame"


@pytest.mark.parametrize(
    ("shown", "decided"),
    [
        (["lost-option", "non-linearizable-ddl"], False),
        (["invisible-change"], False),
        (["lost-field", "older-sighting"], False),
        (["lost-option", "dangling-type"], True),  # which halts changes itself
        (["lost-rows"], True),
        (["unreadable-table"], True),  # a node that is behind lacks the table, too
        (["non-linearizable-ddl"], True),
        ([], True),
    ],
)
def test_where_a_node_stopped_to_apply_changes_a_race_that_lacks_its_own_there_is_in_doubt(
    shown: list[str], *, decided: bool
) -> None:
    """As on 5.0.9 after CREATE MATERIALIZED VIEW, without any race: canaries of later races were unknown to that node, too."""
    races = [race(TYPE, *shown), race(TABLE)]
    assert is_behind([symptom("invisible-change"), symptom("schema-disagreement")])
    assert not is_behind([symptom("node-will-not-start"), symptom("unexpected-log-error")])
    assert list(without_consequences(races, divided=True)) == races, "nothing is known of canaries"
    first, second = without_consequences(races, divided=True, behind=True)
    assert (first == races[0]) == decided
    assert decided or (not first.symptoms and "applied no schema changes any more" in first.doubts[-1])
    assert second == races[1]


def test_neither_a_race_that_is_known_to_do_so_nor_one_beside_another_cause_is_in_doubt() -> None:
    known = [race(TYPE, "lost-option", finding=KNOWN), race(TABLE, "lost-option", finding=NEWS)]
    first, second = without_consequences(known, divided=True, behind=True)
    assert (first == known[0], second == known[1]) == (True, False)
    caused = [race(TABLE, "lost-option"), race(TYPE, "bad-primary-key")]
    assert list(without_consequences(caused, divided=True, behind=True)) == caused


def test_a_race_of_a_cluster_that_never_started_again_is_decided_only_if_it_broke() -> None:
    races = [race(TYPE, "dangling-type"), race(TABLE)]
    assert list(seen_again(races, started=True)) == races
    broke, held = seen_again(races, started=False)
    assert broke == races[0]
    assert held.doubts
    found = states(done(OLD, broke, held))
    assert (found[OLD, TYPE].state, found[OLD, TABLE].state) == ("broke", "unknown")


@pytest.mark.parametrize(
    ("deaths", "blamed", "undecided"),
    [(0, False, []), (1, True, ["d"]), (1, False, ["c", "d"])],
    ids=["nobody-died", "died-by-itself", "killed-from-outside"],
)
def test_races_under_way_when_a_node_ended_are_decided_only_if_they_may_have_ended_it(
    deaths: int, blamed: bool, undecided: list[str]
) -> None:
    """Of two rounds of two: of the earlier one the canary knows that all nodes lived."""
    some = [race("a", "lost-column"), race("b"), race("c", "lost-column"), race("d")]
    found = list(outlived(some, deaths=deaths, blamed=blamed, at_once=2))
    assert [one.cell for one in found if one.doubts] == undecided
    assert all(not one.symptoms for one in found if one.doubts)
    assert [one.cell for one in outlived(some[:3], deaths=1, blamed=False, at_once=2) if one.doubts] == ["c"]
    assert list(outlived([], deaths=1, blamed=False, at_once=2)) == []


def test_races_that_began_before_the_setup_was_agreed_upon_are_not_decided() -> None:
    races = [race(TYPE, "dangling-type"), race(TABLE)]
    assert list(begun_alike(races, agreed=True)) == races
    apart = list(begun_alike(races, agreed=False))
    assert all(one.doubts and not one.symptoms and one.finding is None for one in apart)
    found = states(done(OLD, *apart))
    assert (found[OLD, TYPE].state, found[OLD, TABLE].state) == ("unknown", "unknown")


def test_facts_of_an_earlier_version_are_read() -> None:
    document = finished(batch(), {TYPE: ["dangling-type"]}).facts.to_json()
    for one in document["races"]:
        del one["finding"]
    races: tuple[RaceFacts, ...] = BatchFacts.from_json(document).races
    assert [one.finding for one in races] == [None, None, None]


def test_the_table_has_a_row_a_cell() -> None:
    rows = cells_table(tally(grid_plan(), [done(OLD, race(TYPE, "dangling-type"))], able())).to_pylist()
    assert len(rows) == 2 * len(chosen())
    (row,) = [row for row in rows if row["broken"]]
    assert (row["first"], row["second"], row["relation"]) == ("add-column-of-type", "drop-type", "names-type")
    assert 0 < row["low"] < 1 == row["high"]


def test_every_relation_has_words() -> None:
    relations = {cell.name.rsplit("/", 1)[1] for cell in meetings()}
    words = {relation: relation_in_words(relation) for relation in relations}
    assert len(words) > 30
    assert {relation: text for relation, text in words.items() if "{}" in text or "-" in text} == {}


def page_state(*batches: DoneBatch) -> GridState:
    return GridState(
        plan=grid_plan(),
        cells=tally(grid_plan(), batches, able()),
        started="2026-01-01T00:00:00+00:00",
        seconds=65.0,
        batches=len(batches),
        machine={"machine": "2 cores"},
    )


def test_pages_say_what_broke_and_let_no_text_of_a_cluster_out() -> None:
    hostile = race(TYPE, "dangling-type", doubts=["x: <script>alert(1)</script>"])
    html = render_grid_html(page_state(done(OLD, hostile), done(NEW, race(TABLE, acknowledged=1))))
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html
    assert 'href="#cassandra:5.0.9.barrier.add-column-of-type.drop-type"' in html
    assert 'id="cassandra:5.0.9.barrier.add-column-of-type.drop-type"' in html
    text = render_grid_markdown(page_state(done(OLD, hostile)))
    assert "dangling-type" in text
    assert "1/1" in text


def test_a_grid_of_which_nothing_was_raced_has_a_page() -> None:
    assert "Nothing was raced yet" in render_grid_html(page_state())
    assert render_grid_markdown(page_state()).endswith("\n")


def test_a_race_is_not_called_refused_for_a_change_that_nobody_answered() -> None:
    refused, unheard = race(TYPE, acknowledged=1), replace(race(TYPE, acknowledged=1), unanswered=1)
    assert states(done(OLD, refused))[OLD, TYPE].state == "refused"
    assert states(done(OLD, unheard))[OLD, TYPE].state == "held"
    assert states(done(OLD, refused, unheard))[OLD, TYPE].state == "held"


def test_options_for_busy_nodes_are_those_of_their_system_and_the_users_come_first() -> None:
    busy = {OLD: {"yaml.request_timeout": "60s", "property.a": "1"}}
    plan = grid_plan(when_busy=busy, options=("yaml.request_timeout=7s",))
    old, new = (plan.run_plan(batch(system, TYPE)).options for system in (OLD, NEW))
    assert (old["yaml.request_timeout"], old["property.a"]) == ("7s", "1")
    assert "property.a" not in new
    assert GridPlan.from_json(plan.to_json()) == plan
    earlier = {name: value for name, value in plan.to_json().items() if name != "when_busy"}
    assert not GridPlan.from_json(earlier).when_busy
