"""Churn draws every form of the grid's description, and can meet every cell of it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random

import orjson
import pytest
from perfect_races import perfect_run
from test_schema_churn import CHURN
from test_schema_churn import Rounds as EndingChurn

from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness.ddl.schema_changes import create_keyspace
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke
from schemaquake.results.judging.judge import judge
from schemaquake.workloads.churn.drawing import (
    CLUSTERINGS,
    COLUMNS,
    PLAIN_TABLES,
    WIDE_TABLE,
    Drawn,
    cells_of,
    column_shapes,
    draw,
    drawable,
    plain_cells,
)
from schemaquake.workloads.churn.intended import IntendedKeyspace
from schemaquake.workloads.churn.rounds import Round
from schemaquake.workloads.churn.schema_churn import groups, possible_cells, rounds_of
from schemaquake.workloads.statements.description import DATA, SCHEMA
from schemaquake.workloads.statements.meetings import Meeting, meetings

FEATURES = recipe_for(parse_system("cassandra:5.0.9")).features
CONTEXT = Context(seed=1, nodes=("n1", "n2", "n3"), features=FEATURES, crew=4, time_limit_s=60)
TRIES = 400
NEVER = {
    # A column that was dropped does not come back as static or frozen if it was not: that one statement breaks the table.
    "add-column/drop-static-column/same-column-that-exists",
    "add-static-column/drop-column/same-column-that-exists",
    "add-static-column/drop-column-using-timestamp/same-column-that-exists",
    "add-frozen-list-column/drop-list-column/same-column-that-exists",
    # Tables that hold no columns have a name that no aggregate may have, since functions may.
    *(
        f"{table}/{aggregate}/name"
        for table in ("create-counter-table", "create-clustered-table")
        for aggregate in (
            *("create-aggregate", "create-aggregate-if-not-exists"),
            *("drop-aggregate", "drop-aggregate-if-exists"),
        )
    ),
}
"""Cells that churn never meets."""


def test_every_statement_and_every_cell_of_the_grid_is_churn_s_too() -> None:
    assert drawable(FEATURES) == SCHEMA
    assert drawable(FEATURES, among=DATA) == DATA
    assert set(possible_cells(FEATURES)) == {cell.name for cell in meetings()}


@pytest.mark.parametrize("part", [7, *(pytest.param(part, marks=pytest.mark.long) for part in range(40) if part != 7)])
def test_churn_can_meet_a_cell_of_the_grid(part: int) -> None:
    assert {cell.name for cell in meetings()[part::40] if not can_be_met(cell)} <= NEVER


def can_be_met(cell: Meeting) -> bool:
    before = state_of(cell)
    random = Random(cell.name)
    for number in range(TRIES):
        order = (0, 1) if number % 2 or cell.statements[1] in DATA else (1, 0)
        one = drawn(cell, order[0], before, before, random, tag=2 * number)
        if one is None:
            continue
        after = deepcopy(before)
        if random.random() < 0.5:
            after.apply(one.change)
        other = drawn(cell, order[1], after, before, random, tag=2 * number + 1, met=one)
        if other is not None and cell.name in cells_of(one, other, before):
            return True
    return False


def drawn(
    cell: Meeting,
    side: int,
    state: IntendedKeyspace,
    before: IntendedKeyspace,
    random: Random,
    *,
    tag: int,
    met: Drawn | None = None,
) -> Drawn | None:
    return draw(
        cell.statements[side],
        state,
        random,
        tag=tag,
        preferred=() if met is None else list(met.names.slots.values()),
        before=before,
        shapes=shapes(),
        every_form=True,
    )


@cache
def shapes() -> tuple[str, ...]:
    return column_shapes(SCHEMA)


def state_of(cell: Meeting) -> IntendedKeyspace:
    """The keyspace before the cell's race; what has a name that churn does not give is called otherwise."""
    kinds = {each.kind for each in cell.objects if each.name == "x0"}
    names = {"x0": WIDE_TABLE}
    if kinds & {"column", "clustering"}:
        names = {"x0": COLUMNS[-1]}
    elif "aggregate" in kinds:
        names = {"x0": "t1" if "table" in kinds else "w1"}
    elif not kinds and any(not statement.holds_columns for statement in cell.statements):  # of one table's name
        names = {"t0": WIDE_TABLE}
    state = IntendedKeyspace("ks")
    if cell.keyspace_exists:
        assert state.apply(create_keyspace("ks", replication_factor=3))
    for change in cell.setup("ks"):
        text = orjson.dumps(change.value).decode()
        for old, new in names.items():
            text = text.replace(old, new)
        assert state.apply(Invoke(change.f, change.key, orjson.loads(text)))
    return state


# ── rounds ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def rounds(context: Context, number: int) -> list[Round]:
    return list(islice(rounds_of(groups(context)[0], context), number))


def test_two_keyspaces_of_three_take_every_form() -> None:
    (group,) = groups(CONTEXT)
    assert [group.is_plain(keyspace) for keyspace in group.keyspaces] == [True, False, False, True]
    plain, other = set(), set()
    for found in rounds(CONTEXT, 180):
        kinds = {each.statement for _, side in found.stated() for each in side}
        (plain if group.is_plain(found.keyspace) else other).update(kinds)
        assert not found.rows or not group.is_plain(found.keyspace)
    assert not plain & set(DATA)
    assert len(other & set(DATA)) > 10
    further = {each.name for each in drawable(FEATURES)} - {each.name for each in drawable(FEATURES, every_form=False)}
    assert not further & {each.name for each in plain}
    assert len(further & {each.name for each in other}) >= 4


def test_a_key_column_takes_the_name_of_another_column() -> None:
    renamed = {
        each.change.value["to"]
        for found in rounds(CONTEXT, 90)
        for _, side in found.sides
        for each in side
        if each.change.f == "rename-column"
    }
    assert renamed & set(COLUMNS)
    assert renamed & set(CLUSTERINGS) or "q2" in renamed


def test_reads_and_writes_of_the_grid_have_keys_of_their_own() -> None:
    written = [
        each.change.value["row"]["k"]
        for found in rounds(CONTEXT, 90)
        for _, each in found.rows
        if each.change.f == "insert"
    ]
    assert len(written) > 3
    assert len(set(written)) == len(written)
    assert max(written) < -1_000_000
    assert not {worker for found in rounds(CONTEXT, 60) for worker, _ in found.rows if found.side_of(worker)}


def test_alike_changes_meet_where_they_have_no_room_for_a_tag() -> None:
    twice = []
    for found in rounds(CONTEXT, 90):
        every = [each for _, side in found.sides for each in side]
        changes = [each.change for each in every]
        twice += [each for each in every if changes.count(each.change) > 1]
    assert twice
    assert not {"create-type", "create-function", "create-table"} & {each.statement.name for each in twice}
    (group,) = groups(CONTEXT)
    assert not any(group.is_plain(str(each.change.value["keyspace"])) for each in twice)


def test_what_counts_in_a_plain_keyspace_are_cells_of_schema_changes() -> None:
    rows = {statement.name for statement in DATA}
    assert plain_cells() < {cell.name for cell in meetings()}
    assert not [name for name in plain_cells() if name.split("/")[1] in rows]
    assert PLAIN_TABLES == ("t0", "t1")


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))])
@pytest.mark.parametrize("mode", ["barrier", "single"])
def test_churn_of_every_form_on_a_perfect_cluster_is_not_accused(seed: int, mode: str) -> None:
    context = Context(
        seed=seed,
        nodes=("n1", "n2", "n3"),
        features=FEATURES,
        crew=4,
        time_limit_s=30,
        options={"mode": mode, "season": "12"},
    )
    verdict = judge(perfect_run(EndingChurn(36), context, line="5.0"), engine="local", limit_s=120)
    assert [(one.type, one.explanation) for one in verdict.anomalies] == []
    assert CHURN.name == "schema-churn"


def test_a_run_of_plain_keyspaces_has_no_other_forms() -> None:
    context = replace(CONTEXT, options={"forms": "plain"})
    (group,) = groups(context)
    found = rounds(context, 90)
    assert all(group.is_plain(each.keyspace) for each in found)
    assert not any(each.rows for each in found)
    assert {cell for each in found for cell in each.cells} & plain_cells()
    assert set(possible_cells(FEATURES, plain=True)) < set(possible_cells(FEATURES)) & plain_cells()
