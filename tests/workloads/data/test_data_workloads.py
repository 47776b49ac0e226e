"""Data workloads: fixed by the seed, every value unique where it must be, every key read in the end, nothing shared."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest
from crew_at_work import carry_out, operations
from hypothesis import given, settings
from hypothesis import strategies as st

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.operation import MicroOp
from schemaquake.harness.model.protocols import Context, Workload
from schemaquake.harness.model.queries import READS
from schemaquake.harness.model.records import keyspace_of
from schemaquake.harness.model.steps import Invoke, Require, Wait
from schemaquake.harness.registry import load
from schemaquake.workloads.data.batch import TABLES
from schemaquake.workloads.data.reading_and_writing import all_keys, data_keyspace

NAMES = ["register", "cas-register", "append", "append-accord", "rw-register", "set", "counter", "batch", "quorum"]
FEATURES = frozenset(
    {
        "keyspaces",
        "tables",
        "columns",
        "options",
        "cql",
        "collections",
        "counters",
        "batches",
        "conditional-writes",
        "views",
        "accord",
    }
)
CONTEXT = Context(seed=1, nodes=("n1", "n2", "n3"), features=FEATURES, crew=6, time_limit_s=30)
STEPS = 400


def made(name: str) -> Workload:
    return cast("Workload", load("workloads", name))


def main_phase(name: str, context: Context = CONTEXT, *, steps_each: int = STEPS) -> list[Invoke]:
    return operations(carry_out(made(name), "main", context, steps_each=steps_each))


def final_phase(name: str, context: Context = CONTEXT, label: str = "settled") -> list[Invoke]:
    return operations(carry_out(made(name), "final", context, label=label))


def micro_operations(asked: list[Invoke]) -> list[MicroOp]:
    return [mop for operation in asked for mop in operation.mops or ()]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_asks_for_the_same_and_another_one_for_something_else(name: str) -> None:
    assert main_phase(name) == main_phase(name)
    if name not in {"set", "batch"}:  # what these ask for is not drawn, only numbered
        assert main_phase(name) != main_phase(name, replace(CONTEXT, seed=2))


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_keeps_to_its_keyspace_and_makes_it_before_anything_else(name: str) -> None:
    workload = made(name)
    setup = carry_out(workload, "setup", CONTEXT)
    assert operations(setup)[0].f == "create-keyspace"
    assert {one.worker.index for one in setup} == {0}
    steps = [
        step for worker in workload.crew(CONTEXT) for step in workload.steps("setup", worker, CONTEXT, phase_label="")
    ]
    assert all(isinstance(step, Require) for step in steps)
    everything = [*operations(setup), *main_phase(name), *final_phase(name), *final_phase(name, label="restarted")]
    assert {keyspace_of(operation.key) for operation in everything} == {data_keyspace(CONTEXT, name)}
    tables = {f"{o.value['keyspace']}.{o.value['name']}" for o in operations(setup) if o.f == "create-table"}
    named = {operation.key.split("/")[0] for operation in everything if operation.key and "." in operation.key}
    assert named == tables


@pytest.mark.parametrize("name", NAMES)
def test_every_operation_says_what_is_asked_of_whom(name: str) -> None:
    for operation in [*main_phase(name), *final_phase(name)]:
        query = operation.query
        assert query is not None
        assert operation.f not in SCHEMA_CHANGES
        assert operation.key
        table = operation.key.split("/")[0]
        keyspace = keyspace_of(operation.key)
        assert (table if "." in table else f"{keyspace}.") in query.text
        if "/" in operation.key:
            assert re.search(rf"WHERE k = {operation.key.split('/')[1]}\b", query.text)


@pytest.mark.parametrize("name", NAMES)
def test_the_final_phase_only_reads(name: str) -> None:
    for label in ("settled", "restarted"):
        asked = final_phase(name, label=label)
        assert asked
        assert all(o.f in READS or all(mop[0] == "r" for mop in o.mops or [("w",)]) for o in asked)


@pytest.mark.parametrize(("name", "f"), [("register", "write"), ("set", "add"), ("quorum", "put"), ("batch", "batch")])
def test_what_is_written_is_written_once(name: str, f: str) -> None:
    def what(value: Any) -> int:
        return int(value.get("value", value.get("id"))) if isinstance(value, dict) else int(value)

    written = Counter(what(operation.value) for operation in main_phase(name) if operation.f == f)
    assert len(written) > 100
    assert set(written.values()) == {1}
    assert min(written) > 0


@pytest.mark.parametrize("name", ["append", "append-accord", "rw-register"])
def test_no_element_is_appended_or_written_twice(name: str) -> None:
    elements = [element for f, _, element, _ in micro_operations(main_phase(name)) if f != "r"]
    assert len(elements) > 100
    assert len(set(elements)) == len(elements)


@pytest.mark.parametrize("name", ["register", "cas-register", "append", "append-accord", "rw-register", "quorum"])
def test_keys_come_and_go_and_every_one_of_them_is_read_in_the_end(name: str) -> None:
    context = replace(CONTEXT, time_limit_s=600)

    def keys(asked: list[Invoke]) -> list[int]:
        return [
            *(mop[1] for mop in micro_operations(asked)),
            *(int(o.key.split("/")[1]) for o in asked if o.key and "/" in o.key),
        ]

    used = keys(main_phase(name, context, steps_each=800))
    assert len(set(used)) > len(set(used[:100]))
    assert set(used[:100]).isdisjoint(used[-100:])
    assert Counter(used).most_common(1)[0][1] < 400
    assert set(keys(final_phase(name, context))) == set(all_keys(context))


def test_keys_stay_within_those_that_are_read_in_the_end_at_any_pace() -> None:
    for rate in (None, 5.0, 500.0):
        context = replace(CONTEXT, rate=rate, time_limit_s=10)
        used = {int((o.key or "").split("/")[1]) for o in main_phase("register", context, steps_each=2_000)}
        assert used <= set(all_keys(context))


def test_so_many_keys_are_in_use_as_were_asked_for() -> None:
    for keys in (1, 50):
        context = replace(CONTEXT, options={"keys": str(keys)}, time_limit_s=1)
        assert len({o.key for o in main_phase("register", context)}) == keys
        assert set(all_keys(context)) >= set(range(keys))


def test_a_crew_keeps_the_pace_that_it_was_given_or_its_own() -> None:
    workload = made("register")
    worker = next(iter(workload.crew(CONTEXT)))
    walked = [step for step, _ in zip(workload.steps("main", worker, CONTEXT, phase_label=""), range(10), strict=False)]
    assert [isinstance(step, Wait) for step in walked] == [True, False] * 5
    paced = workload.steps("main", worker, replace(CONTEXT, rate=10.0), phase_label="")
    assert not any(isinstance(step, Wait) for step, _ in zip(paced, range(10), strict=False))


# ── one workload at a time ───────────────────────────────────────────────────────────────────────────────────────────


def test_registers_are_written_and_swapped_on_a_condition_and_read_serially() -> None:
    for name in ("register", "cas-register"):
        for operation in main_phase(name):
            assert operation.query is not None
            if operation.f == "read":
                assert (operation.query.consistency, operation.query.answer) == ("SERIAL", "cell")
            else:
                assert " IF " in operation.query.text
                assert (operation.query.serial_consistency, operation.query.answer) == ("SERIAL", "applied")


def test_a_register_is_padded_as_asked() -> None:
    written = [o for o in main_phase("register", replace(CONTEXT, options={"padding": "900"})) if o.f == "write"]
    assert all(f"padding = '{'x' * 900}'" in o.query.text for o in written if o.query is not None)
    assert [o.value for o in written] == [o.value for o in main_phase("register") if o.f == "write"]


def test_a_compare_and_set_says_what_it_compares_with_and_what_it_sets() -> None:
    swaps = [operation for operation in main_phase("cas-register") if operation.f == "cas"]
    assert len(swaps) > 100
    for operation in swaps:
        old, new = operation.value
        assert operation.query is not None
        assert f"SET v = {new} " in operation.query.text
        assert operation.query.text.endswith(f"IF v = {old}")


def test_a_transaction_reads_first_and_selects_in_the_order_of_its_reads() -> None:
    asked = main_phase("append-accord")
    assert any(len(operation.mops or ()) > 2 for operation in asked)
    for operation in asked:
        mops = operation.mops or ()
        assert operation.query is not None
        text = operation.query.text
        kinds = [mop[0] for mop in mops]
        assert kinds == sorted(kinds, key=("r", "append").index)
        assert len({(f, key) for f, key, _, _ in mops}) == len(mops)
        selected = re.findall(r"r(\d+)\.l", text)
        assert selected == [str(key) for f, key, _, _ in mops if f == "r"]
        assert re.findall(r"SET l \+= \[(\d+)\] WHERE k = (\d+)", text) == [
            (str(element), str(key)) for f, key, element, _ in mops if f == "append"
        ]


def test_a_batch_has_a_row_in_each_table_that_it_names() -> None:
    for operation in main_phase("batch"):
        assert operation.query is not None
        assert operation.value["tables"] == list(TABLES)
        assert operation.query.text.startswith("BEGIN BATCH ")
        assert re.findall(r"INSERT INTO \w+\.(\w+) \(k, v\) VALUES \((\d+)", operation.query.text) == [
            (name, str(operation.value["id"])) for name in TABLES
        ]


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_every_table_of_batches_is_read_twice_after_settling_and_once_after_the_restart(nodes: int) -> None:
    context = replace(CONTEXT, nodes=tuple(f"n{number + 1}" for number in range(nodes)))
    for label, times in (("settled", 2), ("restarted", 1)):
        read = Counter(operation.key for operation in final_phase("batch", context, label))
        assert read == {f"{data_keyspace(context, 'batch')}.{name}": times for name in TABLES}


def test_batches_are_read_when_their_log_must_have_been_replayed() -> None:
    def waits(context: Context) -> list[float]:
        done = carry_out(made("batch"), "final", context, label="settled")
        begun = {one.begun for one in done if isinstance(one.step, Invoke)}
        return sorted(begun)

    late, again = waits(CONTEXT)
    assert late >= 18
    assert again - late >= 12
    assert waits(replace(CONTEXT, features=FEATURES - {"views"}))[0] >= 75


def test_every_key_of_a_quorum_is_probed_through_every_node_before_anything_repairs_it() -> None:
    done = carry_out(made("quorum"), "final", CONTEXT, label="settled")
    probes = Counter(
        (one.worker.node, one.step.key) for one in done if isinstance(one.step, Invoke) and one.step.f == "probe"
    )
    keys = {f"{data_keyspace(CONTEXT, 'quorum')}.q/{key}" for key in all_keys(CONTEXT)}
    assert probes == {(node, key): 1 for node in CONTEXT.nodes for key in keys}
    of_one = {
        node: [one.step.f for one in done if one.worker.node == node and isinstance(one.step, Invoke)]
        for node in CONTEXT.nodes
    }
    for asked in of_one.values():
        assert asked == sorted(asked, key=("probe", "get").index)
    assert sum(asked.count("get") for asked in of_one.values()) == len(keys)


def test_no_replica_answers_a_probe_for_another_because_it_is_quicker() -> None:
    def options(features: frozenset[str]) -> Any:
        asked = operations(carry_out(made("quorum"), "setup", replace(CONTEXT, features=features)))
        return asked[1].value.get("options")

    assert options(FEATURES) == {"speculative_retry": "NONE"}
    assert not options(FEATURES - {"conditional-writes"})


def test_a_counter_is_added_to_and_taken_from() -> None:
    amounts = Counter(operation.value for operation in main_phase("counter") if operation.f == "add")
    assert min(amounts) < 0 < max(amounts)
    for operation in main_phase("counter"):
        if operation.f == "add":
            assert operation.query is not None
            sign = "+" if operation.value > 0 else "-"
            assert f"n = n {sign} {abs(operation.value)} " in operation.query.text


@pytest.mark.parametrize(("kind", "answer"), [("rows", "column"), ("collection", "collection")])
def test_a_set_is_rows_or_a_collection(kind: str, answer: str) -> None:
    asked = main_phase("set", replace(CONTEXT, options={"kind": kind}))
    assert {o.query.answer for o in asked if o.query is not None and o.f == "read"} == {answer}
    adds = [o.query.text for o in asked if o.query is not None and o.f == "add"]
    assert all(text.startswith("INSERT" if kind == "rows" else "UPDATE") for text in adds)


def test_nodes_are_asked_for_the_set_one_after_another() -> None:
    done = [one for one in carry_out(made("set"), "final", CONTEXT) if isinstance(one.step, Invoke)]
    assert [one.worker.node for one in done] == list(CONTEXT.nodes)
    assert all(other.begun - one.ended > 1 for one, other in pairwise(done))


@pytest.mark.parametrize("name", ["set", "counter", "rw-register", "quorum"])
def test_levels_are_chosen_by_options(name: str) -> None:
    context = replace(CONTEXT, options={"consistency": "ONE", "read-consistency": "ALL"})
    reads = {o.query.consistency for o in main_phase(name, context) if o.query is not None and _reads(o)}
    writes = {o.query.consistency for o in main_phase(name, context) if o.query is not None and not _reads(o)}
    assert writes == {"ONE"}
    assert reads == {"ONE"} if name == "rw-register" else reads == {"ALL"}


def _reads(operation: Invoke) -> bool:
    return operation.f in READS or all(mop[0] == "r" for mop in operation.mops or [("w",)])


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("quorum", {"consistency": "ANY"}, "-O consistency=ANY"),
        ("set", {"kind": "heap"}, "-O kind=heap"),
        ("register", {"keys": "0"}, "-O keys=0"),
        ("register", {"padding": "1e3"}, "-O padding=1e3"),
    ],
    ids=["level", "kind", "keys", "padding"],
)
def test_an_option_that_means_nothing_is_refused_by_name(name: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(PlanError, match=re.escape(said)):
        main_phase(name, replace(CONTEXT, options=options))


# ── side by side ─────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_workloads_side_by_side_share_no_keyspace(seed: int) -> None:
    context = replace(CONTEXT, seed=seed)
    used = [{keyspace_of(o.key) for o in main_phase(name, context, steps_each=50)} for name in NAMES]
    churn = made("schema-churn")
    used.append({keyspace_of(o.key) for o in operations(carry_out(churn, "setup", context))})
    for number, one in enumerate(used):
        assert all(one.isdisjoint(other) for other in used[number + 1 :])


def test_every_worker_has_numbers_of_its_own() -> None:
    for name in ("register", "quorum", "set", "batch"):
        done = carry_out(made(name), "main", CONTEXT, steps_each=STEPS)
        numbers: dict[int, list[int]] = {}
        for one in done:
            if isinstance(one.step, Invoke) and one.step.f in {"write", "put", "add", "batch"}:
                value = one.step.value
                numbers.setdefault(one.worker.index, []).append(
                    value.get("value", value.get("id")) if isinstance(value, dict) else value
                )
        spans = sorted((min(mine), max(mine)) for mine in numbers.values())
        assert all(one[1] < other[0] for one, other in pairwise(spans))


def deletions(context: Context) -> Counter[int]:
    asked = main_phase("reloaded-rows", context)
    return Counter(operation.value["where"]["k"] for operation in asked if operation.f == "delete-row")


def test_rows_are_deleted_once_and_with_an_option_again() -> None:
    assert set(deletions(CONTEXT).values()) == {1}
    twice = deletions(replace(CONTEXT, options={"delete-again": "true"}))
    assert max(twice.values()) > 1
    asked = main_phase("reloaded-rows", replace(CONTEXT, options={"delete-again": "true"}))
    inserted = [operation.value["row"]["k"] for operation in asked if operation.f == "insert"]
    assert {*twice} < {*inserted}
    assert len(inserted) == len(set(inserted))
