"""The schema model: which change is legal after which others, what it leaves behind, and what an answer proves of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from histories import judged

from schemaquake.checkers.ddl_order.model import Dependents, model_change, model_refusal
from schemaquake.checkers.ddl_order.variables import ABSENT, UNKNOWN, UNSET, Change, ColumnValue, Value, Variable
from schemaquake.checkers.ddl_order.vocabulary import Vocabulary, read_vocabulary
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation

State = dict[Variable, Value]
K = "create-keyspace k"
T = "create-table k.t a:int* c:int"
S = "create-table k.s a:int* c:int"
U = "create-type k.u f:int"
V = 'create-view k.v {"base": "t", "primary_key": ["c", "a"]}'
W = 'create-view k.w {"base": "s", "primary_key": ["c", "a"]}'
I = "create-index k.i t c"  # noqa: E741 - as the objects are called
F = 'create-function k.f {"arguments": [["x", "int"]], "returns": "int"}'
A = 'create-aggregate k.agg {"arguments": ["int"], "state_function": "f", "state_type": "int"}'


def asked(changes: Sequence[str], answer: str = "ok") -> tuple[Sequence[PairedOperation], Vocabulary]:
    """These changes, one after another, the last of them with this answer."""
    answers = ["ok"] * (len(changes) - 1) + [answer]
    lines = [
        line
        for number, (change, told) in enumerate(zip(changes, answers, strict=True))
        for line in (f"p{number} n1 invoke {change}", f"p{number} n1 {told}")
    ]
    operations = Evidence.of(judged(lines)).changes.all
    return operations, read_vocabulary("k", operations)


def happen(change: Change, state: State) -> State | None:
    """The state after the first alternative of a change; None if it is not legal."""
    way = change.alternatives[0]
    if not all(guard.allows(state[guard.variable]) for guard in way.guards):
        return None
    assert len({effect.variable for effect in way.effects}) == len(way.effects), "one effect a variable"
    return state | {effect.variable: effect.becomes(state[effect.variable]) for effect in way.effects}


def after(*changes: str, dependents: Dependents = "none") -> State | None:
    """The schema after these changes; None if the last of them is not legal, before which all are."""
    operations, vocabulary = asked(changes)
    state: State | None = {variable: vocabulary.initial(variable) for variable in vocabulary.variables()}
    for number, operation in enumerate(operations):
        assert state is not None, f"{changes[number - 1]} is not legal"
        change = model_change(operation, vocabulary, dependents=dependents)
        assert change is not None
        assert change.required
        state = happen(change, state)
    return state


TWINS = {
    "a keyspace is new": ([K], [K, K]),
    "a keyspace that was dropped may be made": ([K, "drop-keyspace k", K], [K, "drop-keyspace k", "drop-keyspace k"]),
    "a keyspace that is changed is there": ([K, "alter-keyspace k"], [K, "drop-keyspace k", "alter-keyspace k"]),
    "a table is in a keyspace": ([K, T], [K, "drop-keyspace k", T]),
    "a table is new": ([K, T, S], [K, T, T]),
    "a table has another name than a view": ([K, T, V, S], [K, T, V, "create-table k.v a:int*"]),
    "a type of a table is there": ([K, U, "create-table k.x a:u*"], [K, U, "drop-type k.u", "create-table k.x a:u*"]),
    "types of tables are there, one of them within": (
        [K, U, "create-table k.x a:int* c:list<frozen<u>>"],
        [K, U, "drop-type k.u", "create-table k.x a:int* c:list<frozen<u>>"],
    ),
    "a table that goes is there": ([K, T, "drop-table k.t"], [K, T, "drop-table k.t", "drop-table k.t"]),
    "a view is no table to drop": ([K, T, V, "drop-view k.v"], [K, T, V, "drop-table k.v"]),
    "a table is no view to drop": ([K, T, "drop-table k.t"], [K, T, S, W, "drop-view k.t"]),
    "a table that goes has no view": ([K, T, S, W, "drop-table k.t"], [K, T, S, V, "drop-table k.t"]),
    "a view that went keeps no table": ([K, T, V, "drop-view k.v", "drop-table k.t"], [K, T, V, "drop-table k.t"]),
    "a view is new": ([K, T, S, V, W], [K, T, V, V]),
    "a view has another name than a table": ([K, T, V], [K, T, 'create-view k.t {"base": "t", "primary_key": ["a"]}']),
    "a view is of columns that are there": ([K, T, "drop-column k.t c", "add-column k.t c:int", V], [K, T, "drop-column k.t c", V]),
    "a view is of a table": (
        [K, T, S, V, W],
        [K, T, V, "add-column k.t d:int", 'create-view k.x {"base": "v", "primary_key": ["c"]}'],
    ),
    "a column is new": ([K, T, "add-column k.t d:int"], [K, T, "add-column k.t c:int"]),
    "a column is of a table": ([K, T, S, V, "add-column k.s d:int"], [K, T, V, "add-column k.v d:int"]),
    "a column is of a table that is there": ([K, T, "add-column k.t d:int"], [K, T, "drop-table k.t", "add-column k.t d:int"]),
    "a type of a column is there": (
        [K, T, U, "add-column k.t d:frozen<u>"],
        [K, T, U, "drop-type k.u", "add-column k.t d:frozen<u>"],
    ),
    "a column that goes is there": ([K, T, "drop-column k.t c"], [K, T, "drop-column k.t c", "drop-column k.t c"]),
    "a column that goes is of a table": ([K, T, V, "drop-column k.t c"], [K, T, V, "drop-column k.v c"]),
    "an index goes with its column": ([K, T, I, "drop-column k.t a", "drop-index k.i"], [K, T, I, "drop-column k.t c", "drop-index k.i"]),
    "an index stays with another table's column": (
        [K, T, S, I, "drop-column k.s c", "drop-index k.i"],
        [K, T, S, I, "drop-column k.t c", "drop-index k.i"],
    ),
    "an index goes with the table that it is on now": (
        [K, T, S, "create-index k.i s c", "drop-index k.i", I, "drop-table k.s", "drop-index k.i"],
        [K, T, S, "create-index k.i s c", "drop-index k.i", I, "drop-table k.t", "drop-index k.i"],
    ),
    "an index goes with the table that it is on now, of whatever name": (
        [K, T, S, I, "drop-index k.i", "create-index k.i s c", "drop-table k.t", "drop-index k.i"],
        [K, T, S, I, "drop-index k.i", "create-index k.i s c", "drop-table k.s", "drop-index k.i"],
    ),
    "an index goes with the column that it is on now": (
        [K, T, S, "create-index k.i s c", "drop-index k.i", I, "drop-column k.s c", "drop-index k.i"],
        [K, T, S, "create-index k.i s c", "drop-index k.i", I, "drop-column k.t c", "drop-index k.i"],
    ),
    "an index goes with its table": ([K, T, S, I, "drop-table k.s", "drop-index k.i"], [K, T, S, I, "drop-table k.t", "drop-index k.i"]),
    "a column that gets a name is there": ([K, T, "rename-column k.t c>d"], [K, T, "rename-column k.t e>d"]),
    "a column's new name is new": ([K, T, "rename-column k.t c>d"], [K, T, "rename-column k.t c>a"]),
    "a name that was given away is none": (
        [K, T, "rename-column k.t c>d", "drop-column k.t d"],
        [K, T, "rename-column k.t c>d", "drop-column k.t c"],
    ),
    "a column that gets a name is of a table": ([K, T, V, "rename-column k.t c>d"], [K, T, V, "rename-column k.v c>d"]),
    "options are of what is there": ([K, T, "alter-options k.t comment=x"], [K, T, "drop-table k.t", "alter-options k.t comment=x"]),
    "options of a view are of a view": (
        [K, T, V, 'alter-view k.v {"options": {"comment": "x"}}'],
        [K, T, V, 'alter-view k.t {"options": {"comment": "x"}}'],
    ),
    "a type is new": ([K, U], [K, U, U]),
    "a type is in a keyspace": ([K, U], [K, "drop-keyspace k", U]),
    "a type of a type is there": ([K, U, "create-type k.x g:frozen<u>"], [K, U, "drop-type k.u", "create-type k.x g:frozen<u>"]),
    "a field is new": ([K, U, "add-field k.u g:int"], [K, U, "add-field k.u f:int"]),
    "a field is of a type that is there": ([K, U, "add-field k.u g:int"], [K, U, "drop-type k.u", "add-field k.u g:int"]),
    "a type of a field is there": (
        [K, U, "create-type k.x g:int", "add-field k.x h:frozen<u>"],
        [K, U, "create-type k.x g:int", "drop-type k.u", "add-field k.x h:frozen<u>"],
    ),
    "a field that gets a name is there": ([K, U, "rename-field k.u f>g"], [K, U, "rename-field k.u h>g"]),
    "a field's new name is new": (
        [K, U, "rename-field k.u f>g", "add-field k.u f:int"],
        [K, U, "rename-field k.u f>g", "add-field k.u g:int"],
    ),
    "a type that goes is there": ([K, U, "drop-type k.u"], [K, U, "drop-type k.u", "drop-type k.u"]),
    "a type that goes is of no column": ([K, T, U, "drop-type k.u"], [K, U, "create-table k.x a:int* c:map<int,frozen<u>>", "drop-type k.u"]),
    "a type that goes is of no column any more": (
        [K, U, T, "add-column k.t d:u", "drop-column k.t d", "drop-type k.u"],
        [K, U, T, "add-column k.t d:u", "drop-column k.t c", "drop-type k.u"],
    ),
    "a type that goes is of no field": (
        [K, U, "create-type k.x g:frozen<u>", "drop-type k.x", "drop-type k.u"],
        [K, U, "create-type k.x g:frozen<u>", "drop-type k.u"],
    ),
    "a type that goes is of no function": (
        [K, U, 'create-function k.g {"arguments": [["x", "u"]], "returns": "int"}', "drop-function k.g", "drop-type k.u"],
        [K, U, 'create-function k.g {"arguments": [["x", "u"]], "returns": "int"}', "drop-type k.u"],
    ),
    "a type that goes is what no function returns": (
        [K, U, 'create-function k.g {"arguments": [["x", "int"]], "returns": "int"}', "drop-type k.u"],
        [K, U, 'create-function k.g {"arguments": [["x", "int"]], "returns": "u"}', "drop-type k.u"],
    ),
    "a type that goes is of no state": (
        [K, U, F, A, "drop-type k.u"],
        [K, U, F, A.replace('"state_type": "int"', '"state_type": "u"'), "drop-type k.u"],
    ),
    "a function is new": ([K, F, F.replace("k.f", "k.g")], [K, F, F]),
    "a function may be replaced": ([K, F, F.replace('"returns"', '"or_replace": true, "returns"')], [K, F, F.replace('"returns"', '"or_replace": false, "returns"')]),
    "a function is in a keyspace": ([K, F], [K, "drop-keyspace k", F]),
    "types of a function are there": (
        [K, U, F.replace('"x", "int"', '"x", "u"')],
        [K, U, "drop-type k.u", F.replace('"x", "int"', '"x", "u"')],
    ),
    "functions of an aggregate are there": ([K, F, A], [K, F, "drop-function k.f", A]),
    "the last function of an aggregate is there": (
        [K, F, F.replace("k.f", "k.g"), A.replace('"state_type"', '"final_function": "k.g(int)", "state_type"')],
        [K, F, F.replace("k.f", "k.g"), "drop-function k.g", A.replace('"state_type"', '"final_function": "k.g(int)", "state_type"')],
    ),
    "a function that goes is called by none": ([K, F, A, "drop-aggregate k.agg", "drop-function k.f"], [K, F, A, "drop-function k.f"]),
    "another function than the one that goes is called": ([K, F, F.replace("k.f", "k.g"), A, "drop-function k.g"], [K, F, A, "drop-function k.f"]),
    "an aggregate that goes is there": ([K, F, A, "drop-aggregate k.agg"], [K, F, A, "drop-aggregate k.agg", "drop-aggregate k.agg"]),
    "an index is new": ([K, T, S, I, "create-index k.j s c"], [K, T, S, I, "create-index k.i s c"]),
    "an index is on a column that is there": ([K, T, I], [K, T, "drop-column k.t c", I]),
    "an index on the values of a column, too": (
        [K, "create-table k.t a:int* c:map<int,int>", "create-index k.i t values(c)"],
        [K, "create-table k.t a:int* c:map<int,int>", "drop-column k.t c", "create-index k.i t values(c)"],
    ),
    "an index is on a table": ([K, T, V, "create-index k.i t c"], [K, T, V, "drop-view k.v", V, "create-index k.i v c"]),
    "an index that goes is there": ([K, T, I, "drop-index k.i"], [K, T, I, "drop-index k.i", "drop-index k.i"]),
}  # fmt: skip


@pytest.mark.parametrize(("legal", "illegal"), TWINS.values(), ids=TWINS)
def test_a_change_is_legal_and_its_twin_is_not(legal: Sequence[str], illegal: Sequence[str]) -> None:
    assert after(*legal) is not None
    assert after(*illegal) is None


@pytest.mark.parametrize(
    ("changes", "legal"),
    [
        ([K, T, I, "drop-column k.t c"], False),
        ([K, T, I, "drop-index k.i", "drop-column k.t c"], True),
        ([K, T, I, "drop-column k.t a"], True),
        ([K, T, S, I, "drop-column k.s c"], True),
        ([K, T, V, "drop-column k.t c"], False),
        ([K, T, V, "drop-view k.v", "drop-column k.t c"], True),
        ([K, T, S, V, "drop-column k.s c"], True),
        ([K, T, V, "add-column k.t d:int"], True),
    ],
)
def test_newer_servers_keep_a_column_on_which_something_depends(changes: Sequence[str], *, legal: bool) -> None:
    assert (after(*changes, dependents="of the table") is not None) is legal
    assert (after(*changes, dependents="by views") is not None) is legal
    assert after(*changes) is not None


STATIC = "create-table k.t a:int* b:int+ c:int s:int!"


@pytest.mark.parametrize(
    ("changes", "legal"),
    [
        ([K, STATIC, V, "drop-column k.t s"], True),
        ([K, STATIC, V, "drop-column k.t c"], False),
        ([K, STATIC, "create-index k.i t s", "drop-column k.t s"], False),
        ([K, T, V, 'add-column k.t d:int {"static": true}', "drop-column k.t d"], True),
        ([K, T, V, "add-column k.t d:int", "drop-column k.t d"], False),
        ([K, "create-table k.t a:int* c:map<int,int>", I, "drop-column k.t c"], True),
    ],
)
def test_scylladb_keeps_a_column_that_a_view_has(changes: Sequence[str], *, legal: bool) -> None:
    """Views have no static columns, and that of an index has a part of a collection in place of its column."""
    assert (after(*changes, dependents="by views") is not None) is legal
    assert after(*changes, dependents="of the table") is None


KS, T_ = Variable("keyspace", "k"), Variable("relation", "k", "t")


def column(name: str) -> Variable:
    return Variable("column", "k", "t", name)


def option(name: str, of: str = "t") -> Variable:
    return Variable("option", "k", of, name)


INT = ColumnValue("int", "regular")
OPTIONS = '{"options": {"gc_grace_seconds": 5, "compaction": {"z": 1, "a": 2}}}'
LEFT = {
    "a keyspace": ([K], {KS: "keyspace", Variable("replication", "k"): "3"}),
    "a keyspace without a number of copies": (
        ['create-keyspace k {"replication": {"class": "NetworkTopologyStrategy"}}'],
        {Variable("replication", "k"): UNSET},
    ),
    "a keyspace without replication": (['create-keyspace k {"replication": null}'], {Variable("replication", "k"): UNSET}),
    "a keyspace that was changed": (
        [K, 'alter-keyspace k {"replication": {"replication_factor": 1}}'],
        {KS: "keyspace", Variable("replication", "k"): "1"},
    ),
    "a keyspace that was dropped": (
        [K, T, U, I, F, "alter-options k.t comment=x", "drop-keyspace k"],
        dict.fromkeys(
            [KS, Variable("replication", "k"), T_, column("a"), column("c"), option("comment"), Variable("type", "k", "u"),
             Variable("field", "k", "u", "f"), Variable("index", "k", "i"), Variable("routine", "k", "f")], ABSENT),
    ),
    "a table": (
        [K, f"create-table k.t a:int* b:TEXT+ s:varchar! {OPTIONS}"],
        {
            T_: ("table",), column("a"): ColumnValue("int", "partition_key"), column("b"): ColumnValue("text", "clustering"),
            column("s"): ColumnValue("text", "static"), option("gc_grace_seconds"): "5", option("compaction"): '{"a":2,"z":1}',
        },
    ),
    "a table that was dropped": (
        [K, T, "alter-options k.t comment=x", "drop-table k.t"],
        {T_: ABSENT, column("a"): ABSENT, column("c"): ABSENT, option("comment"): ABSENT},
    ),
    "a table that was made again": (
        [K, T, "alter-options k.t comment=x", "drop-table k.t", "create-table k.t a:int*"],
        {T_: ("table",), column("a"): ColumnValue("int", "partition_key"), column("c"): ABSENT, option("comment"): UNSET},
    ),
    "a table beside one that was dropped": ([K, T, S, "drop-table k.s"], {T_: ("table",), column("c"): INT}),
    "a view": ([K, T, V], {Variable("relation", "k", "v"): ("view", "t"), T_: ("table",)}),
    "a view that was made again": (
        [K, T, V, 'alter-view k.v {"options": {"comment": "x"}}', "drop-view k.v", V],
        {option("comment", "v"): UNSET},
    ),
    "a view that was dropped": (
        [K, T, I, V, 'alter-view k.v {"options": {"comment": "x"}}', "drop-view k.v"],
        {Variable("relation", "k", "v"): ABSENT, option("comment", "v"): ABSENT, Variable("index", "k", "i"): ("t", "c")},
    ),
    "a column": ([K, T, "add-column k.t d:varchar"], {column("d"): ColumnValue("text", None), column("c"): INT}),
    "a static column": (
        [K, T, 'add-column k.t d:int {"static": true}', 'add-column k.t e:int {"static": false}'],
        {column("d"): ColumnValue("int", "static"), column("e"): ColumnValue("int", None)},
    ),
    "a column that was dropped": ([K, T, "drop-column k.t c"], {column("c"): ABSENT, column("a"): ColumnValue("int", "partition_key")}),
    "a column that got a name": ([K, T, "rename-column k.t c>d"], {column("c"): ABSENT, column("d"): ColumnValue(None, None)}),
    "options": (
        [K, T, f"alter-options k.t {OPTIONS}"],
        {option("gc_grace_seconds"): "5", option("compaction"): '{"a":2,"z":1}', T_: ("table",)},
    ),
    "a type": ([K, "create-type k.u f:varchar"], {Variable("type", "k", "u"): "type", Variable("field", "k", "u", "f"): "text"}),
    "a type with another field": ([K, U, "add-field k.u g:varchar"], {Variable("field", "k", "u", "g"): "text", Variable("field", "k", "u", "f"): "int"}),
    "a field that got a name": ([K, U, "rename-field k.u f>g"], {Variable("field", "k", "u", "f"): ABSENT, Variable("field", "k", "u", "g"): "renamed"}),
    "a type that was dropped": ([K, U, "drop-type k.u"], {Variable("type", "k", "u"): ABSENT, Variable("field", "k", "u", "f"): ABSENT}),
    "a type that was made again": (
        [K, U, "drop-type k.u", "create-type k.u g:int"],
        {Variable("field", "k", "u", "f"): ABSENT, Variable("field", "k", "u", "g"): "int"},
    ),
    "a function": (
        [K, U, 'create-function k.f {"arguments": [["x", "u"], ["y", "int"]], "returns": "int"}'],
        {Variable("routine", "k", "f"): ("function", ("u",), ())},
    ),
    "an aggregate": (
        [K, U, F, A.replace('"state_type": "int"', '"state_type": "u", "final_function": "k.f(int)"')],
        {Variable("routine", "k", "agg"): ("aggregate", ("u",), ("f", "f"))},
    ),
    "a function that was dropped": ([K, F, "drop-function k.f"], {Variable("routine", "k", "f"): ABSENT}),
    "an index": ([K, T, I], {Variable("index", "k", "i"): ("t", "c"), T_: ("table",)}),
    "an index of another table": ([K, T, S, I, "drop-table k.s"], {Variable("index", "k", "i"): ("t", "c")}),
    "an index that was dropped": ([K, T, I, "drop-index k.i"], {Variable("index", "k", "i"): ABSENT, T_: ("table",)}),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "left"), LEFT.values(), ids=LEFT)
def test_what_changes_leave_behind(changes: Sequence[str], left: dict[Variable, Value]) -> None:
    state = after(*changes)
    assert state is not None
    assert {variable: state[variable] for variable in left} == left


OLDER = {
    "a table": ("add-column k.t d:int", T_, ("table",)),
    "a table with options": ("alter-options k.t comment=x", T_, ("table",)),
    "a base": (V, T_, ("table",)),
    "an indexed table": (I, T_, ("table",)),
    "a view": ('alter-view k.v {"options": {"comment": "x"}}', Variable("relation", "k", "v"), ("view",)),
    "a type": ("add-field k.u g:int", Variable("type", "k", "u"), "type"),
    "a type whose field gets a name": ("rename-field k.u f>g", Variable("type", "k", "u"), "type"),
    "a keyspace": ("alter-keyspace k", KS, "keyspace"),
    "a keyspace of a table": ("create-table k.t a:int*", KS, UNKNOWN),
    "a table that goes": ("drop-table k.t", T_, ABSENT),
    "a function that goes": ("drop-function k.f", Variable("routine", "k", "f"), ABSENT),
    "a type that goes": ("drop-type k.u", Variable("type", "k", "u"), ABSENT),
    "an index that goes": ("drop-index k.i", Variable("index", "k", "i"), ABSENT),
}


@pytest.mark.parametrize(("change", "variable", "value"), OLDER.values(), ids=OLDER)
def test_a_change_proves_that_what_it_needs_was_there_before(change: str, variable: Variable, value: Value) -> None:
    state = after(change)
    assert state is not None
    assert state[variable] == value


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def modelled(change: str, answer: str, **options: bool) -> Change | None:
    operations, vocabulary = asked([T, change], answer)
    return model_change(operations[-1], vocabulary, **options)


IF_NEW, IF_THERE = '{"if_not_exists": true}', '{"if_exists": true}'


@pytest.mark.parametrize(
    ("change", "answer", "required"),
    [
        ("add-column k.t d:int", "ok", True),
        ("add-column k.t d:int", "info no", False),
        (f"create-table k.s a:int* {IF_NEW}", "ok", False),
        (f"create-table k.s a:int* {IF_NEW}", 'ok {"applied": true}', True),
        (f"create-table k.s a:int* {IF_NEW}", 'ok {"applied": null}', False),
        (f"create-table k.s a:int* {IF_NEW}", "info no", False),
        (f"drop-table k.t {IF_THERE}", "ok", False),
        (f"drop-table k.t {IF_THERE}", 'ok {"applied": true}', True),
        (f"drop-table k.t {IF_THERE}", "info no", False),
        ("drop-table k.t", 'ok {"applied": false}', True),
    ],
)
def test_an_answer_says_if_a_change_took_place(change: str, answer: str, *, required: bool) -> None:
    for options in ({}, {"is_fresh": True}):
        found = modelled(change, answer, **options)
        assert found is not None
        assert (found.required, found.stale, len(found.alternatives)) == (required, False, 1)
        assert found.alternatives[0].effects


PROOFS = {
    "a table": (f"create-table k.s a:int* {IF_NEW}", "table k.s exists"),
    "a view": (V.replace("}", ', "if_not_exists": true}'), "table k.v exists"),
    "a type": (f"create-type k.u f:int {IF_NEW}", "type k.u exists"),
    "a keyspace": (f"create-keyspace k {IF_NEW}", "keyspace k exists"),
    "a function": (F.replace("}", ', "if_not_exists": true}'), "function k.f exists"),
    "a dropped table": (f"drop-table k.t {IF_THERE}", "k.t is no table"),
    "a dropped view": (f"drop-view k.t {IF_THERE}", "k.t is no view"),
    "a dropped function": (f"drop-function k.f {IF_THERE}", "k.f is no function"),
    "a dropped aggregate": (f"drop-aggregate k.f {IF_THERE}", "k.f is no aggregate"),
    "a dropped type": (f"drop-type k.u {IF_THERE}", "type k.u does not exist"),
    "a dropped index": (f"drop-index k.i {IF_THERE}", "index k.i does not exist"),
    "a dropped keyspace": (f"drop-keyspace k {IF_THERE}", "keyspace k does not exist"),
}


@pytest.mark.parametrize(("change", "proof"), PROOFS.values(), ids=PROOFS)
def test_a_no_op_proves_what_its_coordinator_knew(change: str, proof: str) -> None:
    for fresh in (False, True):
        found = modelled(change, 'ok {"applied": false}', is_fresh=fresh, follows_log=True)
        assert found is not None
        assert (found.required, found.stale, len(found.alternatives)) == (True, not fresh, 1)
        assert [guard.needs for guard in found.alternatives[0].guards] == [proof]
        assert found.alternatives[0].effects == ()
    found = modelled(change, 'ok {"applied": true}', follows_log=True)
    assert found is not None
    made, no_op = found.alternatives
    assert (found.required, found.stale) == (True, False)
    assert made.effects
    assert ([guard.needs for guard in no_op.guards], no_op.effects) == ([proof], ())


def test_a_no_op_of_an_index_proves_that_there_is_one_of_its_name_or_on_its_column() -> None:
    index = I + " " + IF_NEW
    assert modelled(index, 'ok {"applied": false}') is None, "in a keyspace that may be older it may be on any"
    others = [K, T, S, "create-index k.j t c", "create-index k.o s c"]
    operations, _ = asked([*others, index], 'ok {"applied": false}')
    vocabulary = read_vocabulary("k", operations, is_known=True)
    found = model_change(operations[-1], vocabulary)
    assert found is not None
    assert found.stale, "a coordinator that is not known to ask first may be behind"
    ways = [[guard.needs for guard in way.guards] for way in found.alternatives]
    assert ways == [["index k.i exists"], ["index k.j is on column c of k.t"]]
    (guard,) = found.alternatives[1].guards
    held = {("t", "c"): True, UNKNOWN: True, ("t", "a"): False, ("s", "c"): False, ABSENT: False}
    assert {value: guard.allows(value) for value in held} == held


def test_a_no_op_of_an_index_that_was_told_as_a_change_proves_as_much() -> None:
    found = modelled(I + " " + IF_NEW, 'ok {"applied": true}', follows_log=True)
    assert found is not None
    assert (found.alternatives[1].guards, found.alternatives[1].effects) == ((), ())
    dropped = modelled(f"drop-index k.i {IF_THERE}", 'ok {"applied": false}')
    assert dropped is not None
    assert dropped.stale


def test_where_a_log_decides_a_change_that_was_told_of_without_a_condition_was_made() -> None:
    for change, answer in (("add-column k.t d:int", "ok"), (f"create-table k.s a:int* {IF_NEW}", "ok")):
        found = modelled(change, answer, follows_log=True)
        assert found is not None
        assert len(found.alternatives) == 1


THERE = "fail AlreadyExists: Table 'k.s' already exists"


@pytest.mark.parametrize(
    ("change", "answer", "proof"),
    [
        ("create-table k.s a:int*", THERE, "table k.s exists"),
        ("create-table k.s a:int*", "fail InvalidRequest: it ALREADY EXISTS", "table k.s exists"),
        ("create-type k.u f:int", THERE, "type k.u exists"),
        ("create-table k.s a:int*", "fail Unauthorized: no", None),
        ("create-table k.s a:int*", "fail", None),
        ("create-table k.s a:int*", THERE.replace("fail", "info"), None),
        (I, THERE, None),
        ("add-column k.t d:int", THERE, None),
        ("drop-table k.t", THERE, None),
    ],
)
def test_a_create_that_is_refused_for_what_is_there_proves_it(change: str, answer: str, proof: str | None) -> None:
    operations, vocabulary = asked([T, change], answer)
    found = model_refusal(operations[-1], vocabulary)
    if proof is None:
        assert found is None
    else:
        assert found is not None
        assert (found.required, found.stale, len(found.alternatives)) == (True, False, 1)
        assert [guard.needs for guard in found.alternatives[0].guards] == [proof]
        assert found.alternatives[0].effects == ()


def test_servers_of_which_nothing_is_known_may_drop_a_column_on_which_something_depends() -> None:
    operations, vocabulary = asked([T, I, V, "drop-column k.t c"])
    change = model_change(operations[-1], vocabulary)
    assert change is not None
    assert [guard.needs for guard in change.alternatives[0].guards] == ["k.t is a table", "column c of k.t exists"]


def test_a_guard_says_what_it_needs() -> None:
    changes = [K, U, T, I, V, F, A]
    said: dict[str, Any] = {}
    for last in (
        "drop-type k.u",
        "drop-function k.f",
        "drop-table k.t",
        "drop-column k.t c",
        "create-table k.s a:int* x:u",
        "rename-column k.t c>e",
        "rename-field k.u f>g",
    ):
        operations, vocabulary = asked([*changes, "add-column k.t d:u", last])
        change = model_change(operations[-1], vocabulary, dependents="of the table")
        assert change is not None
        said[last] = [guard.needs for guard in change.alternatives[0].guards]
    assert said == {
        "drop-type k.u": ["type k.u exists", "column d of k.t does not use type k.u"],
        "drop-function k.f": ["function k.f exists", "aggregate k.agg does not use function k.f"],
        "drop-table k.t": ["k.t is a table", "k.v is not a view of k.t"],
        "drop-column k.t c": ["k.t is a table", "column c of k.t exists", "index k.i is not on column c of k.t", "k.v is not a view of k.t"],
        "create-table k.s a:int* x:u": ["keyspace k exists", "table k.s does not exist", "type k.u exists"],
        "rename-column k.t c>e": ["k.t is a table", "column c of k.t exists", "column e of k.t does not exist"],
        "rename-field k.u f>g": ["type k.u exists", "field f of type k.u exists", "field g of type k.u does not exist"],
    }  # fmt: skip
