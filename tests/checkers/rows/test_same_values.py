"""Two spellings of one value are the same value, and nothing else is."""

from __future__ import annotations

import pytest

from schemaquake.checkers.rows.same_values import is_comparable, is_null, same_value


@pytest.mark.parametrize(
    ("cql_type", "read", "written"),
    [
        pytest.param("int", 1000, 10**3, id="a number"),
        pytest.param("text", "a" * 300, "".join(["a"] * 300), id="a long text"),
        pytest.param("u", {"a": 1, "b": None}, {"a": 1}, id="a field that was not written"),
        pytest.param("u", {"a": 1}, {"a": 1, "b": None}, id="a field that is not listed"),
        pytest.param("set<int>", [2, 1], [1, 2], id="a set in another order"),
        pytest.param("list<int>", list(range(300)), list(range(300)), id="a long list"),
        pytest.param("map<text, int>", None, {}, id="an empty map"),
    ],
)
def test_the_same_value(cql_type, read, written):
    assert same_value(read, written, cql_type=cql_type)


@pytest.mark.parametrize(
    ("cql_type", "read", "written"),
    [
        pytest.param("int", 1, 2, id="a number"),
        pytest.param("u", {"a": 1, "b": 2}, {"a": 1, "b": 3}, id="a field that both have"),
        pytest.param("u", {"a": 1}, {"a": 1, "b": 2}, id="a field that is missing"),
        pytest.param("u", {"a": 1, "b": 2}, {"a": 1}, id="a field that nobody wrote"),
        pytest.param("list<int>", [2, 1], [1, 2], id="a list in another order"),
        pytest.param("list<int>", [1, 2], [1, 2, 3], id="a shorter list"),
        pytest.param("list<int>", [1, 2, 3], [1, 2], id="a longer list"),
        pytest.param("list<int>", 1, [1], id="a number for a list"),
        pytest.param("list<int>", [1], 1, id="a list for a number"),
        pytest.param("u", 1, {"a": 1}, id="a number for a value with fields"),
        pytest.param("u", {"a": 1}, 1, id="a value with fields for a number"),
        pytest.param("u", [1], {"a": 1}, id="a list for a value with fields"),
        pytest.param("int", None, 1, id="nothing"),
    ],
)
def test_another_value(cql_type, read, written):
    assert not same_value(read, written, cql_type=cql_type)


@pytest.mark.parametrize(
    ("read", "written"),
    [
        pytest.param(None, 1, id="the whole value"),
        pytest.param({"a": 1, "b": None}, {"a": 1, "b": 2}, id="a field"),
        pytest.param([{"a": None}], [{"a": 1}], id="a field of an element"),
    ],
)
def test_on_a_replica_that_is_behind_a_null_stands_for_anything(read, written):
    assert same_value(read, written, cql_type="list<u>", nulls_match=True)
    assert not same_value(read, written, cql_type="list<u>")


def test_what_a_server_stores_as_null():
    assert [is_null(value) for value in (None, [], {}, 0, "", False, [None])] == [True] * 3 + [False] * 4


@pytest.mark.parametrize(
    ("cql_type", "is_exact"),
    [("int", True), ("text", True), ("set<text>", True), ("timestamps", True), ("list<float>", False), ("uuid", False)],
)
def test_types_of_one_spelling_are_comparable(cql_type, is_exact):
    assert is_comparable(cql_type) is is_exact
