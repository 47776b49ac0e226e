"""CQL types: which user-defined types a text names, and when two texts are one type."""

from __future__ import annotations

import pytest

from schemaquake.checkers.evidence.cql_types import CONTAINERS, NATIVE, canonical, user_types


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("int", []),
        ("u", ["u"]),
        ("frozen<u>", ["u"]),
        ("frozen<list<u>>", ["u"]),
        ("frozen<list<frozen<u>>>", ["u"]),
        ("map<text, frozen<u>>", ["u"]),
        ("map<u,w>", ["u", "w"]),
        ("tuple<int, u, frozen<tuple<w, text>>>", ["u", "w"]),
        ("vector<float, 3>", []),
        ("vector<frozen<u>, 3>", ["u"]),
        ("set<timeuuid>", []),
        ('"My Type"', ["My Type"]),
        ('list<frozen<"My ""Type""">>', ['My "Type"']),
        ('"list"', ["list"]),
        ("'org.apache.cassandra.db.marshal.DynamicCompositeType(a=>b)'", []),
        ("UTF8Type", []),
        ("CompositeType(UTF8Type, Int32Type)", []),
        ("org.apache.cassandra.db.marshal.ListType(org.apache.cassandra.db.marshal.Int32Type)", []),
        ("", []),
    ],
)
def test_the_user_types_of_a_text(text: str, named: list[str]) -> None:
    assert user_types(text, keyspace="k") == {("k", name) for name in named}


@pytest.mark.parametrize("text", ["l.u", 'l."u"', '"l"."u"', '"l".u', "frozen<l.u>"])
def test_a_qualified_type_keeps_its_keyspace(text: str) -> None:
    assert user_types(text, keyspace="k") == {("l", "u")}


def test_a_class_name_tells_keyspace_and_name_of_a_user_type() -> None:
    marshal = "org.apache.cassandra.db.marshal."
    text = f"{marshal}FrozenType({marshal}UserType(shop,6d6f6e6579,66:{marshal}Int32Type))"
    assert user_types(text, keyspace="k") == {("shop", "money")}


@pytest.mark.parametrize("native", sorted(NATIVE | CONTAINERS))
def test_what_the_language_knows_is_no_user_type(native: str) -> None:
    assert user_types(native, keyspace="k") == frozenset()
    assert user_types(native.upper(), keyspace="k") == frozenset()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int", "INT"),
        ("map<text, int>", "map<varchar,int>"),
        ("frozen<list<int>>", "list<int>"),
        ("tuple<frozen<u>, int>", "frozen<tuple<u, int>>"),
    ],
)
def test_one_type_in_two_spellings(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("int", "text"), ("list<int>", "set<int>"), ('"U"', "u"), ("tuple<int, text>", "tuple<text, int>"), ("u", "w")],
)
def test_two_types_stay_two(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)
