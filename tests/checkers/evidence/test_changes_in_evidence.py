"""Schema changes: which operations may have changed what, and which of them may have come after which."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import orjson
import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import (
    SchemaChanges,
    SchemaObject,
    can_follow,
    certainly_applied,
    surely_changed,
    target,
)

VIEW = 'create-view k.t {"base": "b", "primary_key": ["a"]}'
TABLE, TYPE, KEYSPACE = (
    SchemaObject(kind, "k", name) for kind, name in (("table", "t"), ("type", "u"), ("keyspace", ""))
)


APPLIED = 'ok {"applied": true}'


def call(process: int, at: int, asked: str, answer: str | None = "ok") -> list[str]:
    """An operation of one ms, or one without an end."""
    begin = f"@{at} p{process} n1 invoke {asked}"
    return [begin] if answer is None else [begin, f"@{at + 1} p{process} n1 {answer}"]


def guarded(asked: str, *, drops: bool = False) -> str:
    words, brace, rest = asked.partition("{")
    more = orjson.loads(brace + rest) if brace else {}
    more["if_exists" if drops else "if_not_exists"] = True
    return f"{words.strip()} {orjson.dumps(more).decode()}"


def changes(*calls: Sequence[str], mistakes: Callable[[], bool] = lambda: False) -> SchemaChanges:
    history = judged(line for one in calls for line in one)
    operations = Evidence.of(history).operations(SchemaChanges.functions)
    return SchemaChanges(operations, mistakes_no_ops=mistakes)


def change(asked: str, answer: str | None = "ok") -> PairedOperation:
    (found,) = changes(call(0, 1, asked, answer)).all
    return found


@pytest.mark.parametrize(
    ("asked", "kind", "name"),
    [
        ("create-keyspace k", "keyspace", ""),
        ("alter-keyspace k", "keyspace", ""),
        ("add-column k.t c:int", "table", "t"),
        ("drop-column k.t c", "table", "t"),
        ("rename-column k.t a>b", "table", "t"),
        ("alter-options k.t comment=x", "table", "t"),
        ("drop-table k.t", "table", "t"),
        ("add-field k.u f:int", "type", "u"),
        ("rename-field k.u f>g", "type", "u"),
        ("drop-view k.v", "view", "v"),
        ("create-index k.i t c", "index", "i"),
    ],
)
def test_every_change_is_about_one_object(asked: str, kind: str, name: str) -> None:
    found = target(change(asked))
    assert found == (kind, "k", name)
    assert found.key == (f"k.{name}" if name else "k")


@pytest.mark.parametrize(
    ("asked", "answer", "certain", "sure"),
    [
        ("create-table k.t a:int*", "ok", True, True),
        ("create-table k.t a:int*", "fail", False, False),
        ("create-table k.t a:int*", "info", False, False),
        ("create-table k.t a:int*", None, False, False),
        (guarded("create-table k.t a:int*"), 'ok {"applied": true}', True, False),
        (guarded("create-table k.t a:int*"), 'ok {"applied": false}', False, False),
        (guarded("create-table k.t a:int*"), "info", False, False),
        (guarded("create-table k.t a:int*"), "ok", False, False),
        (guarded("drop-table k.t", drops=True), 'ok {"applied": true}', True, False),
        (guarded("drop-table k.t", drops=True), "ok", False, False),
        (guarded("create-table k.t a:int*"), 'ok {"applied": 1}', False, False),
        ("drop-table k.t", "ok", True, True),
        ('create-function k.f {"arguments": [], "returns": "int", "body": ""}', "ok", True, True),
        ('create-function k.f {"arguments": [], "returns": "int", "body": "", "or_replace": true}', "ok", True, False),
        ("alter-options k.t comment=x", "ok", True, False),
        ("alter-keyspace k", "ok", True, False),
    ],
)
def test_a_change_is_certain_if_it_was_acknowledged_and_is_no_no_op(
    asked: str, answer: str | None, *, certain: bool, sure: bool
) -> None:
    assert (certainly_applied(change(asked, answer)), surely_changed(change(asked, answer))) == (certain, sure)


@pytest.mark.parametrize(
    ("answer", "begins", "follows"), [("ok", 2, True), ("ok", 3, False), ("fail", 3, False), ("info", 3, True)]
)
def test_a_change_can_follow_all_that_had_not_begun_after_its_answer(
    answer: str, begins: int, *, follows: bool
) -> None:
    first, second = changes(call(0, 1, "drop-table k.t", answer), call(1, begins, "drop-table k.t")).all
    assert (can_follow(first, second), can_follow(second, first)) == (follows, True)


def test_what_failed_or_was_a_no_op_is_no_possible_change() -> None:
    found = changes(
        call(0, 1, "create-table k.t a:int*", "fail"),
        call(0, 3, "create-table k.t a:int*"),
        call(0, 5, guarded("create-table k.t a:int*"), 'ok {"applied": false}'),
        call(0, 7, "drop-table k.t", "info"),
        call(1, 9, 'cql k {"statement": "DROP TABLE k.t"}'),
        call(2, 11, "create-type k.u f:int", None),
        call(3, 13, "add-column k.t c:int", "fail"),
        call(3, 15, "drop-table k.t", "fail"),
    )
    assert [one.index for one in found.all] == [0, 2, 4, 6, 8, 10, 11, 13]
    assert [one.index for one in found.possible] == [2, 6, 10]
    assert [one.index for one in found.free_texts] == [8]
    assert found.objects == [TABLE, TYPE]
    assert [one.index for one in found.on(TABLE)] == [2, 6]
    assert [one.index for one in found.creates(TABLE)] == [2]
    assert [one.index for one in found.drops(TABLE)] == [6]
    assert (found.on(KEYSPACE), found.creates(KEYSPACE), found.drops(KEYSPACE)) == ((), [], [])
    assert [one.index for one in found.failed(TABLE)] == [0]
    others = (TYPE, *(TABLE._replace(name=name) for name in "sz"), TABLE._replace(kind="view"))
    assert [list(found.failed(one)) for one in others] == [[]] * 4


def test_changes_of_a_table_are_possible_changes_of_it() -> None:
    found = changes(call(0, 1, "add-column k.t c:int"), call(0, 3, "alter-options k.t comment=x"))
    assert [one.f for one in found.possible] == ["add-column", "alter-options"]
    assert (found.objects, found.free_texts) == ([TABLE], [])


FUNCTION = '{"arguments": [], "returns": "int", "body": ""}'


def test_functions_and_aggregates_go_with_their_own_drops_and_their_keyspace() -> None:
    aggregate, function = (SchemaObject(kind, "k", "f") for kind in ("aggregate", "function"))
    found = changes(
        call(0, 1, f"create-function k.f {FUNCTION}"),
        call(0, 3, 'create-aggregate k.f {"arguments": [], "state_function": "f", "state_type": "int"}'),
        call(0, 5, 'drop-aggregate k.f {"arguments": []}'),
        call(0, 7, 'drop-function k.f {"arguments": []}'),
        call(0, 9, "drop-keyspace k"),
    )
    assert [[one.index for one in found.drops(each)] for each in (aggregate, function)] == [[4, 8], [6, 8]]
    assert [[one.index for one in found.creates(each)] for each in (aggregate, function)] == [[2], [0]]


@pytest.mark.parametrize(
    ("calls", "founds"),
    [
        pytest.param([], False, id="it was there"),
        pytest.param([call(0, 5, "create-keyspace k")], True, id="it was made"),
        pytest.param([call(0, 5, "create-keyspace j")], False, id="another one was"),
        pytest.param([call(0, 5, "create-keyspace k", "info")], False, id="perhaps"),
        pytest.param([call(0, 5, guarded("create-keyspace k"))], False, id="a no-op, perhaps"),
        pytest.param([call(0, 5, "create-keyspace k"), call(1, 6, "drop-keyspace k")], False, id="dropped at once"),
        pytest.param([call(0, 5, "create-keyspace k"), call(1, 7, "drop-keyspace k")], True, id="dropped afterwards"),
        pytest.param(
            [call(0, 5, "create-keyspace k"), call(1, 1, "drop-keyspace k", "info")], False, id="the drop may come late"
        ),
        pytest.param([call(0, 5, "create-keyspace k"), call(1, 1, "drop-keyspace k")], False, id="dropped before"),
    ],
)
def test_a_keyspace_that_was_made_after_all_its_drops_is_the_first_one(calls: list[list[str]], *, founds: bool) -> None:
    assert changes(*calls).founds("k") is founds


def test_coordinators_take_no_change_for_their_own_unless_it_is_said_that_they_do() -> None:
    lines = [line for n in (0, 1) for line in call(n, 1, guarded("create-table k.t a:int*"), APPLIED)]
    operations = Evidence.of(judged(lines)).operations(SchemaChanges.functions)
    assert [certainly_applied(one) for one in SchemaChanges(operations).possible] == [True, True]


@pytest.mark.parametrize(
    ("calls", "acknowledged"),
    [
        ([], False),
        ([call(0, 1, "drop-table k.t", "info")], False),
        ([call(0, 1, "drop-table k.t", "fail")], False),
        ([call(0, 1, "drop-table k.t")], True),
        ([call(0, 1, 'cql k {"statement": "DROP TABLE k.t"}')], True),
        ([call(0, 1, 'cql k {"statement": "DROP TABLE k.t"}', "info")], False),
        ([call(0, 1, 'cql k {"statement": "SELECT 1"}')], False),
    ],
)
def test_any_change_may_be_the_one_that_was_acknowledged(calls: list[list[str]], *, acknowledged: bool) -> None:
    assert changes(*calls).acknowledged is acknowledged


@pytest.mark.parametrize(
    ("statement", "answer", "may_change"),
    [
        ("DROP TABLE k.t", "ok", True),
        ("DROP TABLE k.t", "info", True),
        ("DROP TABLE k.t", "fail", False),
        ("  Select * from k.t", "ok", False),
        ("USE\\nk", "ok", False),
        ("selective", "ok", True),
        ("", "ok", True),
    ],
)
def test_a_statement_in_free_text_may_change_the_schema_unless_its_first_word_cannot(
    statement: str, answer: str, *, may_change: bool
) -> None:
    found = changes(call(0, 1, f'cql k {{"statement": "{statement}"}}', answer))
    assert (bool(found.free_texts), bool(found.texts("k"))) == (may_change, may_change)


def test_an_object_goes_with_its_keyspace_and_an_index_with_its_table() -> None:
    index = SchemaObject("index", "k", "i")
    found = changes(
        call(0, 1, "create-index k.i t c"),
        call(0, 3, "create-index k.i s c", "info"),
        call(1, 5, "drop-index k.i"),
        call(1, 7, "drop-table k.t"),
        call(1, 9, "drop-table k.s"),
        call(1, 11, "drop-table k.r"),
        call(1, 13, "drop-column k.t c"),
        call(1, 15, "drop-keyspace k"),
        call(1, 17, "drop-keyspace j"),
    )
    assert sorted(one.index for one in found.drops(index)) == [4, 6, 8, 14]
    assert sorted(one.index for one in found.drops(TABLE)) == [6, 14]
    assert [one.index for one in found.drops(KEYSPACE)] == [14]
    assert found.drops(index) is found.drops(index)


def test_a_column_may_have_had_every_name_that_a_chain_of_renames_gave_it() -> None:
    found = changes(
        call(0, 1, "rename-column k.t b>c"),
        call(0, 3, "rename-column k.t a>b"),
        call(0, 5, "rename-column k.t x>y"),
        call(0, 7, "rename-column k.s a>z"),
        call(0, 9, "add-column k.t d:int"),
    )
    assert [found.names_of_column(TABLE, name) for name in ("a", "b", "c", "d")] == [
        {"a", "b", "c"},
        {"b", "c"},
        {"c"},
        {"d"},
    ]


@pytest.mark.parametrize(
    ("asked", "other", "may_be_no_op"),
    [
        ("create-table k.t a:int*", "create-table k.t a:int*", True),
        ("create-table k.t a:int*", VIEW, True),
        (VIEW, "create-table k.t a:int*", True),
        ("create-table k.t a:int*", "create-table k.s a:int*", False),
        ("create-table k.t a:int*", "create-table j.t a:int*", False),
        ("create-table k.t a:int*", "create-type k.t f:int", False),
        ("create-table k.t a:int*", "drop-table k.t", False),
        ("create-type k.u f:int", "create-type k.u g:int", True),
        ("create-index k.i t c", "create-index k.i t d", True),
        ("create-index k.i t c", "create-index k.j t c", True),
        ("create-index k.i t keys(c)", "create-index k.j t c", True),
        ("create-index k.i t c", "create-index k.j t d", False),
        ("create-index k.i t c", "create-index k.j s c", False),
        ("create-index k.i t c", "create-index j.i t c", False),
    ],
)
def test_a_guarded_change_may_be_the_no_op_of_one_like_it_where_coordinators_mistake_them(
    asked: str, other: str, *, may_be_no_op: bool
) -> None:
    calls = call(0, 1, other), call(1, 3, guarded(asked), APPLIED)
    for mistakes in (True, False):
        _, found = changes(*calls, mistakes=lambda it=mistakes: it).possible
        assert certainly_applied(found) is not (may_be_no_op and mistakes)
        assert found.index == 2
        assert found.acknowledged
        assert {**found.value, "applied": True} == {**found.argument, "applied": True}


def test_only_what_may_have_come_before_makes_a_guarded_change_a_no_op() -> None:
    asked = "create-table k.t a:int*"

    def certain(*calls: list[str]) -> list[bool]:
        return [certainly_applied(one) for one in changes(*calls, mistakes=lambda: True).possible]

    assert certain(call(0, 1, guarded(asked), APPLIED)) == [True]
    assert certain(call(0, 1, guarded(asked), APPLIED), call(1, 2, asked)) == [False, True], "at once"
    assert certain(call(0, 1, guarded(asked), APPLIED), call(1, 3, asked)) == [True, True], "afterwards"
    assert certain(call(0, 1, asked), call(1, 3, guarded(asked), "info")) == [True, False]
    assert certain(call(0, 1, asked), call(1, 3, asked)) == [True, True], "without IF NOT EXISTS"
    dropped = guarded("drop-table k.t", drops=True)
    assert certain(call(0, 1, "drop-table k.t"), call(1, 3, dropped, APPLIED)) == [True, False]


def test_readings_are_asked_only_where_a_change_may_be_a_no_op() -> None:
    asked: list[int] = []

    def mistakes() -> bool:
        asked.append(1)
        return True

    changes(call(0, 1, guarded("create-table k.t a:int*"), APPLIED), mistakes=mistakes)
    assert not asked
    changes(*(call(n, 1, guarded("create-table k.t a:int*"), APPLIED) for n in (0, 1)), mistakes=mistakes)
    assert asked
