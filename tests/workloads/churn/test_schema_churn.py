"""Schema churn: most statements are valid, all can be told apart, names are few, and what has not met comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crew_at_work import FEATURES, Done, carry_out, operations
from perfect_cluster import PerfectCluster

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES, create_type
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.options import configured
from schemaquake.harness.model.protocols import Context, Phase, Worker
from schemaquake.harness.model.steps import Invoke, Meet, Note, Step, Wait
from schemaquake.workloads.churn.conditions import Condition, conditions_of
from schemaquake.workloads.churn.drawing import cells_of, draw
from schemaquake.workloads.churn.intended import IntendedIndex, IntendedKeyspace, IntendedTable
from schemaquake.workloads.churn.rounds import Round
from schemaquake.workloads.churn.schema_churn import SchemaChurn, groups, possible_cells, rounds_of
from schemaquake.workloads.statements.description import SCHEMA

CHURN = SchemaChurn()
CONTEXT = Context(seed=1, nodes=("n1", "n2", "n3"), features=FEATURES, crew=3)


class Rounds:
    """Churn that ends before a round of this number begins."""

    name = CHURN.name
    requires = CHURN.requires
    endless = True

    def __init__(self, number: int) -> None:
        self._number = number

    def crew(self, context: Context) -> Sequence[Worker]:
        return CHURN.crew(context)

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:
        met = 0
        for step in CHURN.steps(phase, worker, context, phase_label=phase_label):
            met += isinstance(step, Meet)
            if met > self._number:
                return
            yield step


def main(context: Context, *, rounds: int, **how: Any) -> list[Done]:
    return carry_out(Rounds(rounds), "main", context, **how)


def changes(context: Context, *, rounds: int) -> list[Invoke]:
    done = main(context, rounds=rounds)
    return [operation for operation in operations(done) if operation.f in SCHEMA_CHANGES]


def drawn(context: Context, number: int) -> list[Round]:
    return list(islice(rounds_of(groups(context)[0], context), number))


def texts(found: Round) -> list[str]:
    return [statement(each.change.f, each.change.value) for _, side in found.sides for each in side]


def perfect(context: Context) -> PerfectCluster:
    cluster = PerfectCluster()
    for operation in operations(carry_out(CHURN, "setup", context)):
        assert cluster.apply(operation)
    return cluster


# ── what is drawn ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(3))
def test_in_the_drawn_order_nearly_every_statement_is_carried_out(seed: int) -> None:
    context = replace(CONTEXT, seed=seed)
    cluster = perfect(context)
    done = [cluster.apply(each.change) for found in drawn(context, 100) for _, side in found.sides for each in side]
    # A statement that excludes another one of its round is refused after it.
    assert sum(done) > 0.75 * len(done)


@pytest.mark.parametrize("seed", range(3))
def test_in_any_other_order_most_statements_still_find_what_they_are_about(seed: int) -> None:
    context = replace(CONTEXT, seed=seed)
    cluster = perfect(context)
    done = []
    for found in drawn(context, 100):
        for _, side in reversed(found.sides):
            done += [cluster.apply(each.change) for each in side]
        for change in found.mending:
            cluster.apply(change)
    assert sum(done) > 0.65 * len(done)


@pytest.mark.parametrize(("seed", "crew"), [(1, 1), (2, 4), (3, 9)])
def test_the_same_context_gives_the_same_steps(seed: int, crew: int) -> None:
    context = replace(CONTEXT, seed=seed, crew=crew)
    for phase in ("setup", "prepare", "main", "probe", "final"):
        first, second = (carry_out(Rounds(15), phase, context) for _ in range(2))
        assert first == second


def test_every_kind_of_change_occurs_where_the_system_knows_it() -> None:
    context = replace(CONTEXT, features=FEATURES | {"cql", "rename"}, options={"season": "25"})
    kinds = {each.change.f for found in drawn(context, 250) for _, side in found.sides for each in side}
    assert kinds >= SCHEMA_CHANGES - {"alter-view"}


def test_what_the_system_does_not_know_is_not_asked_for() -> None:
    old = replace(CONTEXT, features=frozenset({"keyspaces", "tables", "columns", "options"}), options={"season": "10"})
    stated = {operation.f for operation in operations(carry_out(CHURN, "setup", old))}
    stated |= {change.f for change in changes(old, rounds=90)}
    assert stated == {
        *("create-keyspace", "alter-keyspace", "drop-keyspace"),
        *("create-table", "drop-table", "add-column", "alter-options"),
    }


def test_names_are_few_and_used_again_and_again() -> None:
    made = Counter(
        (each.change.key, str(each.change.value.get("column") or each.change.value.get("field")))
        for found in drawn(replace(CONTEXT, options={"season": "150"}), 150)
        for _, side in found.sides
        for each in side
        if found.keyspace.endswith("_000")
    )
    assert len(made) < 100
    assert sum(count > 2 for count in made.values()) > 25


def test_no_two_definitions_with_room_for_a_tag_are_alike() -> None:
    tagged = {"create-table", "create-type", "create-function", "alter-options"}
    same = {"compression"}  # powers of two alone
    made = Counter(
        text
        for found in drawn(CONTEXT, 120)
        for _, side in found.sides
        for each in side
        if each.change.f in tagged
        and not each.change.value.get("if_not_exists")
        and not same & set(each.change.value.get("options") or ())
        and each.statement.name not in {"create-table-of-type", "create-counter-table", "create-type-of-type"}
        for text in [statement(each.change.f, each.change.value)]
    )
    assert sum(made.values()) > 50
    assert made.most_common(1)[0][1] == 1


def test_three_meet_more_often_than_two() -> None:
    sizes = Counter(len(found.sides) for found in drawn(replace(CONTEXT, crew=4), 60))
    assert sizes[4] > sizes[2]
    assert set(sizes) <= {2, 3, 4}
    assert any(len(side) > 1 for found in drawn(CONTEXT, 50) for _, side in found.sides)


# ── coverage ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_meets_is_a_cell_of_the_grid() -> None:
    possible = set(possible_cells(FEATURES))
    met = [cell for found in drawn(CONTEXT, 60) for cell in found.cells]
    assert len(met) > 200
    assert set(met) <= possible


def test_a_copy_of_what_should_be_there_is_equal_and_changes_apart() -> None:
    state = IntendedKeyspace("ks", exists=True)
    filled = {
        "tables": {"t": IntendedTable({"k": "int", "c": "text"}, dropped={"d": "int"})},
        "types": {"u": {"a": "int"}},
        "functions": {"f": ("int", "return 1;")},
        "aggregates": {"a": "f"},
        "views": {"v": ("t", "c")},
        "indexes": {"i": IntendedIndex("t", "c", None)},
    }
    assert {each.name for each in fields(state)} == {"name", "exists", *filled}
    for name, value in filled.items():
        setattr(state, name, value)
    copy = state.copied()
    assert copy == state
    for change in (
        copy.tables["t"].columns,
        copy.tables["t"].dropped,
        copy.types["u"],
        *map(copy.__getattribute__, filled),
    ):
        change.clear()
    assert all(getattr(state, name) == value and value for name, value in filled.items())
    assert state.tables["t"] == IntendedTable({"k": "int", "c": "text"}, dropped={"d": "int"})
    assert state.types["u"] == {"a": "int"}


def test_fields_that_would_put_two_types_into_each_other_meet_crosswise_and_are_not_both_carried_out() -> None:
    state = IntendedKeyspace("ks", exists=True)
    for change in (create_type("ks", "u0", fields=[("a", "int")]), create_type("ks", "u1", fields=[("a", "int")])):
        assert state.apply(change)
    kind = next(one for one in SCHEMA if one.name == "add-field-of-type")
    drawn = [draw(kind, state, Random(seed), tag=seed) for seed in range(40)]
    assert None not in drawn
    found = {one.change.value["name"]: one for one in drawn if one is not None}
    assert found.keys() == {"u0", "u1"}
    cells = cells_of(found["u0"], found["u1"], state)
    assert "add-field-of-type/add-field-of-type/crossed-type" in cells
    assert state.apply(found["u0"].change)
    assert not state.apply(found["u1"].change)


def test_new_meetings_come_first() -> None:
    found = drawn(CONTEXT, 80)
    close = [{cell for cell in each.cells if not cell.endswith("/keyspace")} for each in found]
    assert len(set[str]().union(*close)) > 110
    assert len(set[str]().union(*close[:60])) > 60


def test_what_earlier_runs_have_met_comes_last(tmp_path: Path) -> None:
    fresh = drawn(CONTEXT, 80)
    met = sorted({cell for each in fresh for cell in each.cells})
    (tmp_path / "analysis").mkdir()
    table = pa.table({"cell": met, "faults": [""] * len(met), "restart": [""] * len(met), "count": [9] * len(met)})
    pq.write_table(table, tmp_path / "analysis" / "meetings.parquet")
    again = drawn(replace(CONTEXT, options={"coverage": str(tmp_path)}), 80)
    new = {cell for each in again for cell in each.cells} - set(met)
    fresher = {cell for each in drawn(replace(CONTEXT, seed=2), 80) for cell in each.cells} - set(met)
    assert len(new) > 1.1 * len(fresher)


def test_a_run_without_a_table_of_meetings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="coverage"):
        configured(CHURN.options, {"coverage": str(tmp_path)}).check(CONTEXT)


def test_a_condition_follows_from_the_plan_s_faults() -> None:
    context = replace(CONTEXT, nemeses=("kill",), under_faults=True, time_limit_s=120)
    conditions = conditions_of(context, requested=(), round_s=0.5)
    seen = Counter(conditions.foreseen(number) for number in range(240))
    assert seen[Condition("", "")] > 20
    assert seen[Condition("kill", "down")] > 5
    assert seen[Condition("", "back")] > 2
    assert conditions_of(CONTEXT, requested=("partition",), round_s=0.5).foreseen(7) == Condition("partition", "")


# ── the crew ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_statements_of_a_round_leave_in_the_same_instant() -> None:
    done = main(CONTEXT, rounds=15, lasts=lambda worker, _: 0.1 + worker.index / 10)
    first: dict[tuple[int, int], float] = {}
    for one in done:
        if isinstance(one.step, Invoke):
            first.setdefault((one.met, one.worker.index), one.begun)
    for met in range(1, 16):
        assert len({first[met, worker] for worker in range(3)}) == 1


def test_every_round_is_noted_with_what_meets() -> None:
    done = main(CONTEXT, rounds=33)
    notes = [one.step for one in done if isinstance(one.step, Note) and one.step.f == "meeting"]
    found = drawn(CONTEXT, len(notes))
    assert len(notes) > 20
    for note, each in zip(notes, found, strict=True):
        assert note.key == each.keyspace
        assert note.value["cells"] == list(each.cells)
        assert sorted(map(tuple, note.value["sides"])) == sorted(
            tuple(statement(d.change.f, d.change.value) for d in side) for _, side in each.stated()
        )


def test_in_mode_single_the_first_worker_makes_every_change_in_turn() -> None:
    done = main(replace(CONTEXT, options={"mode": "single"}), rounds=33)
    made = [one for one in done if isinstance(one.step, Invoke) and one.step.f in SCHEMA_CHANGES]
    assert len(made) > 20
    assert {one.worker.index for one in made} == {0}
    assert not [
        one.step
        for one in done
        if isinstance(one.step, Note) and one.step.value.get("cells") not in ([], None) and one.step.f == "meeting"
    ]


@pytest.mark.parametrize("crew", [3, 8], ids=["one group", "two groups"])
def test_in_a_relay_a_statement_follows_the_answer_to_that_before_through_another_coordinator(crew: int) -> None:
    context = replace(CONTEXT, crew=crew, options={"relay": "true"})
    done = main(context, rounds=150)
    made = [one for one in done if isinstance(one.step, Invoke) and one.step.f in SCHEMA_CHANGES]
    assert {one.worker.node for one in made} == {"n1", "n2", "n3"}
    for group in groups(context):
        turns: dict[int, set[int]] = {}
        for one in made:
            if (
                one.worker.index in group.workers and one.met % 5
            ):  # five meetings a round; between rounds something is mended
                turns.setdefault(one.met, set()).add(one.worker.index)
        assert len(turns) > 20
        assert {len(workers) for workers in turns.values()} == {1}
        expected = (
            [worker for each in drawn(context, 20) for worker, _ in each.sides] if group is groups(context)[0] else []
        )
        assert [worker for _, (worker, *_) in sorted(turns.items())][: len(expected)] == expected
    notes = [one.step for one in done if isinstance(one.step, Note) and one.step.f == "meeting"]
    assert len(notes) > 20
    assert all(note.value["cells"] == [] for note in notes)


def test_the_crew_is_dealt_to_the_nodes_and_covers_all_of_them() -> None:
    assert [worker.node for worker in CHURN.crew(replace(CONTEXT, crew=5))] == ["n1", "n2", "n3", "n1", "n2"]
    assert len(CHURN.crew(replace(CONTEXT, crew=1))) == 3


@pytest.mark.parametrize(("crew", "number"), [(3, 1), (4, 1), (5, 2), (8, 2), (9, 3), (12, 3)])
def test_at_most_four_workers_on_different_nodes_share_a_keyspace(crew: int, number: int) -> None:
    found = groups(replace(CONTEXT, crew=crew))
    assert len(found) == number
    assert sorted(worker for group in found for worker in group.workers) == list(range(max(3, crew)))
    assert all(2 <= len(group.workers) <= 4 for group in found)
    keyspaces = [keyspace for group in found for keyspace in group.keyspaces]
    assert len(keyspaces) == len(set(keyspaces))


def test_keyspaces_take_turns() -> None:
    context = replace(CONTEXT, options={"season": "5"}, time_limit_s=10)
    (group,) = groups(context)
    turns = [found.keyspace for found in drawn(context, 5 * len(group.keyspaces) + 5)]
    assert turns[::5] == [*group.keyspaces, group.keyspaces[0]]
    assert len(group.keyspaces) == 4


@pytest.mark.parametrize("mode", ["barrier", "single"])
def test_after_the_last_round_nothing_is_changed_and_rows_go_on(mode: str) -> None:
    context = replace(CONTEXT, crew=5, options={"rounds": "12", "mode": mode, "patience": "0"})
    unlimited = replace(context, options={**context.options, "rounds": "0"})
    done = carry_out(CHURN, "main", context, steps_each=400)
    met = [one for one in done if isinstance(one.step, Note) and one.step.f == "meeting"]
    assert len(met) == 12 * len(groups(context)) == 24
    first = main(unlimited, rounds=12)
    assert sorted(map(str, changed(done))) == sorted(map(str, changed(first)))
    ends = max(one.ended for one in done if isinstance(one.step, Invoke) and one.step.f in SCHEMA_CHANGES)
    after = [one for one in done if one.begun > ends and isinstance(one.step, Invoke)]
    assert {one.step.f for one in after} == {"insert", "read-rows"}
    assert {one.worker.index for one in after} == set(range(5))
    assert len(after) > 100


def changed(done: Sequence[Done]) -> list[Invoke]:
    return [operation for operation in operations(done) if operation.f in SCHEMA_CHANGES]


def test_a_run_of_few_rounds_has_no_more_keyspaces_than_it_uses() -> None:
    context = replace(CONTEXT, options={"season": "5", "rounds": "12"}, time_limit_s=100)
    (group,) = groups(context)
    assert len(group.keyspaces) == 3
    with pytest.raises(PlanError, match="rounds"):
        groups(replace(CONTEXT, options={"rounds": "-1"}))


def test_a_long_run_does_not_make_ever_more_keyspaces() -> None:
    assert sum(len(group.keyspaces) for group in groups(replace(CONTEXT, time_limit_s=1e6, crew=12))) <= 24


def test_only_every_third_keyspace_is_itself_dropped_or_altered() -> None:
    context = replace(CONTEXT, options={"season": "20"}, time_limit_s=100)
    whole = {
        found.keyspace
        for found in drawn(context, 120)
        for _, side in found.sides
        for each in side
        if each.change.f in {"drop-keyspace", "alter-keyspace"}
    }
    assert whole
    assert whole <= set(groups(context)[0].keyspaces[2::3])


@pytest.mark.parametrize("asked", ["0", "few"])
def test_a_season_that_makes_no_sense_is_refused(asked: str) -> None:
    with pytest.raises(PlanError, match="season"):
        groups(replace(CONTEXT, options={"season": asked}))


def test_a_crew_without_keys_for_everybody_is_refused() -> None:
    with pytest.raises(PlanError, match="401"):
        CHURN.crew(replace(CONTEXT, crew=401))


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_happens_in_the_keyspaces() -> None:
    context = replace(CONTEXT, keyspace_prefix="mine", time_limit_s=20)
    known = {keyspace for group in groups(context) for keyspace in group.keyspaces}
    for phase in ("setup", "prepare", "main", "probe", "final"):
        for operation in operations(carry_out(Rounds(20), phase, context)):
            assert operation.value["keyspace"] in known
            assert operation.key is not None
            assert operation.key.split(".")[0].startswith("mine_schema_churn_")


def test_rows_have_keys_of_their_own_in_every_phase() -> None:
    context = replace(CONTEXT, crew=5)
    seen: Counter[tuple[str | None, int]] = Counter()
    phases = set()
    phases_of_rows: list[tuple[Phase, str]]
    phases_of_rows = [("prepare", ""), ("main", ""), ("probe", "settled"), ("probe", "restarted")]
    for phase, label in phases_of_rows:
        for operation in operations(carry_out(Rounds(40), phase, context, label=label)):
            if operation.f == "insert":
                seen[operation.key, operation.value["row"]["k"]] += 1
                phases.add(operation.value["phase"])
                assert -(2**31) <= operation.value["row"]["k"] < 2**31
    assert max(seen.values()) == 1
    assert phases == {"prepared", "racing", "settled", "restarted"}


def test_reads_meanwhile_are_of_rows_that_were_asked_for() -> None:
    written = set()
    reads = 0
    for step in islice(CHURN.steps("main", CHURN.crew(CONTEXT)[0], CONTEXT, phase_label=""), 600):
        if isinstance(step, Invoke) and step.f == "insert":
            written.add((step.key, step.value["row"]["k"]))
        if isinstance(step, Invoke) and step.f == "read-rows":
            reads += 1
            assert (step.key, step.value["where"]["k"]) in written
    assert reads > 20


def test_a_crew_changes_the_schema_some_five_times_a_second() -> None:
    done = main(CONTEXT, rounds=100, lasts=lambda _worker, _operation: 0.0)
    stated = sum(isinstance(one.step, Invoke) and one.step.f in SCHEMA_CHANGES for one in done)
    assert stated / done[-1].ended == pytest.approx(5.5, rel=0.3)


def test_a_rate_in_the_plan_is_the_harness_s_to_keep() -> None:
    done = main(replace(CONTEXT, rate=100.0), rounds=16)
    assert not [one for one in done if isinstance(one.step, Wait)]


def test_final_reads_see_every_table_at_one_everywhere_and_at_all_once() -> None:
    context = replace(CONTEXT, features=FEATURES | {"cql"})
    done = carry_out(CHURN, "final", context, label="settled")
    seen = Counter(
        (one.step.key, one.step.value["consistency"], one.worker.node) for one in done if isinstance(one.step, Invoke)
    )
    keyspaces = [keyspace for group in groups(context) for keyspace in group.keyspaces]
    for keyspace in keyspaces:
        for table in ("t0", "t1", "t2"):
            key = f"{keyspace}.{table}"
            assert [seen[key, "ONE", node] for node in CONTEXT.nodes] == [1, 1, 1]
            assert sum(seen[key, "ALL", node] for node in CONTEXT.nodes) == 1
    assert sum(seen.values()) == len(keyspaces) * 3 * 4
