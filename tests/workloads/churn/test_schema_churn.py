"""Schema churn: what one worker intends is valid, what all of them do can be told apart, and nothing leaves its plot."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import pytest
from crew_at_work import FEATURES, carry_out, operations
from hypothesis import given, settings
from hypothesis import strategies as st

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.protocols import Context, Phase
from schemaquake.harness.model.steps import Invoke, Meet, Wait
from schemaquake.workloads.churn.schema_churn import SchemaChurn, keyspaces

CHURN = SchemaChurn()
CONTEXT = Context(seed=1, nodes=("n1", "n2", "n3"), features=FEATURES, crew=3)


def changes(context: Context, *, steps_each: int = 3_000) -> list[Invoke]:
    done = carry_out(CHURN, "main", context, steps_each=steps_each)
    return [operation for operation in operations(done) if operation.f in SCHEMA_CHANGES]


@dataclass
class Keyspace:
    """A schema that refuses what Cassandra refuses, for one keyspace."""

    tables: dict[str, dict[str, str]] = field(default_factory=dict)
    types: dict[str, list[str]] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    aggregates: dict[str, str] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    indexes: dict[str, tuple[str, str]] = field(default_factory=dict)


class Schema:
    """Carries out one change after another; a change that is not valid fails an assertion."""

    def __init__(self) -> None:
        self.keyspaces: dict[str, Keyspace] = {}

    def apply(self, change: Invoke) -> None:
        value: dict[str, Any] = change.value
        name = value["keyspace"]
        if change.f == "create-keyspace":
            assert name not in self.keyspaces
            self.keyspaces[name] = Keyspace()
            return
        here = self.keyspaces[name]
        if change.f == "drop-keyspace":
            del self.keyspaces[name]
            return
        getattr(self, change.f.replace("-", "_"))(here, value["name"], value)

    def create_table(self, here: Keyspace, name: str, value: dict[str, Any]) -> None:
        assert name not in here.tables
        here.tables[name] = {column: kind for column, kind, _ in value["columns"]}

    def drop_table(self, here: Keyspace, name: str, _value: dict[str, Any]) -> None:
        assert name not in here.views.values()
        del here.tables[name]
        here.indexes = {index: target for index, target in here.indexes.items() if target[0] != name}

    def add_column(self, here: Keyspace, name: str, value: dict[str, Any]) -> None:
        column, kind = value["column"]
        assert column not in here.tables[name]
        assert kind == "int" or kind.removeprefix("frozen<").removesuffix(">") in here.types
        here.tables[name][column] = kind

    def drop_column(self, here: Keyspace, name: str, value: dict[str, Any]) -> None:
        assert (name, value["column"]) not in here.indexes.values()
        del here.tables[name][value["column"]]

    def alter_options(self, here: Keyspace, name: str, _value: dict[str, Any]) -> None:
        assert name in here.tables

    def create_type(self, here: Keyspace, name: str, value: dict[str, Any]) -> None:
        assert name not in here.types
        here.types[name] = [name for name, _ in value["fields"]]

    def add_field(self, here: Keyspace, name: str, value: dict[str, Any]) -> None:
        assert value["field"][0] not in here.types[name]
        here.types[name].append(value["field"][0])

    def drop_type(self, here: Keyspace, name: str, _value: dict[str, Any]) -> None:
        assert f"frozen<{name}>" not in {kind for table in here.tables.values() for kind in table.values()}
        del here.types[name]

    def create_function(self, here: Keyspace, name: str, _value: dict[str, Any]) -> None:
        assert name not in here.functions
        here.functions.add(name)

    def drop_function(self, here: Keyspace, name: str, _value: dict[str, Any]) -> None:
        assert name not in here.aggregates.values()
        here.functions.remove(name)

    def create_aggregate(self, here: Keyspace, name: str, value: dict[str, Any]) -> None:
        assert name not in here.aggregates
        assert value["state_function"] in here.functions
        here.aggregates[name] = value["state_function"]

    def drop_aggregate(self, here: Keyspace, name: str, _value: dict[str, Any]) -> None:
        del here.aggregates[name]

    def create_view(self, here: Keyspace, name: str, value: dict[str, Any]) -> None:
        assert set(value["primary_key"]) <= set(here.tables[value["base"]])
        here.views[name] = value["base"]

    def drop_view(self, here: Keyspace, name: str, _value: dict[str, Any]) -> None:
        del here.views[name]

    def create_index(self, here: Keyspace, name: str, value: dict[str, Any]) -> None:
        assert value["column"] in here.tables[value["table"]]
        assert (value["table"], value["column"]) not in here.indexes.values()
        here.indexes[name] = (value["table"], value["column"])

    def drop_index(self, here: Keyspace, name: str, _value: dict[str, Any]) -> None:
        del here.indexes[name]


def setup(context: Context) -> Schema:
    schema = Schema()
    for operation in operations(carry_out(CHURN, "setup", context)):
        schema.apply(operation)
    return schema


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_alone_every_statement_is_valid(seed: int) -> None:
    context = replace(CONTEXT, seed=seed, nodes=("n1",), crew=1)
    schema = setup(context)
    for change in changes(context, steps_each=4_000):
        schema.apply(change)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_together_most_statements_are_valid_and_some_are_not(seed: int) -> None:
    context = replace(CONTEXT, seed=seed, crew=6)
    schema = setup(context)
    refused = 0
    stated = changes(context, steps_each=2_000)
    for change in stated:
        try:
            schema.apply(change)
        except (AssertionError, KeyError):
            refused += 1
    assert 0 < refused < 0.3 * len(stated)


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32), crew=st.integers(1, 9))
def test_the_same_context_gives_the_same_steps(seed: int, crew: int) -> None:
    context = replace(CONTEXT, seed=seed, crew=crew)
    for phase in ("setup", "prepare", "main", "probe", "final"):
        first, second = (carry_out(CHURN, phase, context, steps_each=300) for _ in range(2))
        assert first == second


def test_every_kind_of_change_occurs_where_the_system_knows_it() -> None:
    assert {change.f for change in changes(CONTEXT, steps_each=9_000)} == SCHEMA_CHANGES - {
        "alter-keyspace",
        "rename-column",
        "rename-field",
    }


def test_what_the_system_does_not_know_is_not_asked_for() -> None:
    old = replace(CONTEXT, features=frozenset({"keyspaces", "tables", "columns", "options"}))
    stated = {*changes_of(carry_out(CHURN, "setup", old)), *(change.f for change in changes(old, steps_each=6_000))}
    assert stated == {
        "create-keyspace",
        "drop-keyspace",
        "create-table",
        "drop-table",
        "add-column",
        "alter-options",
    }


def changes_of(done: list[Any]) -> set[str]:
    return {operation.f for operation in operations(done)}


def test_no_two_changes_that_make_something_are_alike() -> None:
    context = replace(CONTEXT, crew=5)
    made = Counter(
        statement(change.f, change.value)
        for change in [*operations(carry_out(CHURN, "setup", context)), *changes(context)]
        if not change.f.startswith("drop-") and change.f != "create-keyspace"
    )
    assert sum(made.values()) > 1_000
    assert made.most_common(1)[0][1] == 1


def test_what_is_never_used_again_is_dropped_once() -> None:
    gone = Counter(
        (change.key, change.value.get("column"))
        for change in changes(CONTEXT)
        if change.f in {"drop-column", "drop-index", "drop-view", "drop-aggregate"}
    )
    assert gone
    assert max(gone.values()) == 1


def test_the_crew_is_dealt_to_the_nodes_and_covers_all_of_them() -> None:
    assert [worker.node for worker in CHURN.crew(replace(CONTEXT, crew=5))] == ["n1", "n2", "n3", "n1", "n2"]
    assert len(CHURN.crew(replace(CONTEXT, crew=1))) == 3


@pytest.mark.parametrize(("crew", "groups"), [(3, 1), (4, 1), (5, 2), (8, 2), (9, 3), (12, 3)])
def test_at_most_four_workers_on_different_nodes_share_a_plot(crew: int, groups: int) -> None:
    context = replace(CONTEXT, crew=crew)
    assert len(keyspaces(context)) == 3 * groups
    done = carry_out(CHURN, "main", context, steps_each=2_000)
    at_work: dict[str, set[int]] = {}
    nodes: dict[str, set[str]] = {}
    for one in done:
        if isinstance(one.step, Invoke) and one.step.f in SCHEMA_CHANGES:
            at_work.setdefault(one.step.value["keyspace"], set()).add(one.worker.index)
            nodes.setdefault(one.step.value["keyspace"], set()).add(one.worker.node)
    assert set(at_work) == {keyspace.name for keyspace in keyspaces(context)}
    assert all(len(workers) <= 4 for workers in at_work.values())
    assert all(len(found) >= 2 for found in nodes.values())


def test_only_the_last_plot_of_a_group_is_razed() -> None:
    context = replace(CONTEXT, crew=8)
    razed = {change.value["keyspace"] for change in changes(context, steps_each=9_000) if change.f == "drop-keyspace"}
    assert razed == {keyspace.name for keyspace in keyspaces(context) if keyspace.may_be_razed}
    assert razed == {"sq_schema_churn_002", "sq_schema_churn_005"}


def test_a_single_plot_is_never_razed_so_that_rows_stay() -> None:
    assert [keyspace.may_be_razed for keyspace in keyspaces(replace(CONTEXT, options={"plots": "1"}))] == [False]


@pytest.mark.parametrize("asked", ["0", "few"])
def test_a_number_of_plots_that_makes_no_sense_is_refused(asked: str) -> None:
    with pytest.raises(PlanError, match="plots"):
        keyspaces(replace(CONTEXT, options={"plots": asked}))


def test_a_crew_without_keys_for_everybody_is_refused() -> None:
    with pytest.raises(PlanError, match="401"):
        CHURN.crew(replace(CONTEXT, crew=401))


def test_everything_happens_in_the_keyspaces() -> None:
    context = replace(CONTEXT, keyspace_prefix="mine")
    known = {keyspace.name for keyspace in keyspaces(context)}
    for phase in ("setup", "prepare", "main", "probe", "final"):
        for operation in operations(carry_out(CHURN, phase, context, steps_each=1_000)):
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
        for operation in operations(carry_out(CHURN, phase, context, label=label, steps_each=1_500)):
            if operation.f == "insert":
                seen[operation.key, operation.value["row"]["k"]] += 1
                phases.add(operation.value["phase"])
                assert -(2**31) <= operation.value["row"]["k"] < 2**31
    assert max(seen.values()) == 1
    assert phases == {"prepared", "racing", "settled", "restarted"}


def test_rows_are_faster_than_changes_and_come_at_both_levels() -> None:
    done = operations(carry_out(CHURN, "main", CONTEXT, steps_each=2_000))
    kinds = Counter("change" if operation.f in SCHEMA_CHANGES else operation.f for operation in done)
    assert kinds["insert"] + kinds["read-rows"] == pytest.approx(4 * kinds["change"], rel=0.05)
    assert {o.value["consistency"] for o in done if o.f == "insert"} == {"ONE", "QUORUM"}


def test_reads_meanwhile_are_of_rows_that_were_asked_for() -> None:
    written = set()
    for step in islice(CHURN.steps("main", CHURN.crew(CONTEXT)[0], CONTEXT, phase_label=""), 3_000):
        if isinstance(step, Invoke) and step.f == "insert":
            written.add((step.key, step.value["row"]["k"]))
        if isinstance(step, Invoke) and step.f == "read-rows":
            assert (step.key, step.value["where"]["k"]) in written


def test_a_crew_changes_the_schema_five_times_a_second() -> None:
    done = carry_out(CHURN, "main", CONTEXT, steps_each=5_000, lasts=lambda _worker, _operation: 0.0)
    stated = sum(isinstance(one.step, Invoke) and one.step.f in SCHEMA_CHANGES for one in done)
    assert stated / done[-1].ended == pytest.approx(5, rel=0.05)


def test_a_rate_in_the_plan_is_the_harness_s_to_keep() -> None:
    done = carry_out(CHURN, "main", replace(CONTEXT, rate=100.0), steps_each=100)
    assert not [one for one in done if isinstance(one.step, Wait)]


def test_nobody_ever_waits_for_anybody() -> None:
    for worker in CHURN.crew(CONTEXT):
        steps = islice(CHURN.steps("main", worker, CONTEXT, phase_label=""), 2_000)
        assert not any(isinstance(step, Meet) for step in steps)
    assert CHURN.endless


def test_final_reads_see_every_table_at_one_everywhere_and_at_all_once() -> None:
    done = carry_out(CHURN, "final", CONTEXT, label="settled")
    seen = Counter(
        (one.step.key, one.step.value["consistency"], one.worker.node) for one in done if isinstance(one.step, Invoke)
    )
    for keyspace in keyspaces(CONTEXT):
        for table in ("t0", "t1"):
            key = f"{keyspace.name}.{table}"
            assert [seen[key, "ONE", node] for node in CONTEXT.nodes] == [1, 1, 1]
            assert sum(seen[key, "ALL", node] for node in CONTEXT.nodes) == 1
    assert sum(seen.values()) == len(keyspaces(CONTEXT)) * 2 * 4


def test_the_whole_run_renders() -> None:
    context = replace(CONTEXT, crew=4)
    texts = {statement(change.f, change.value) for change in changes(context)}
    assert all(texts)
