"""CQL types: which user-defined types a text names, and when two texts are one type."""

from __future__ import annotations

from typing import Any

import pytest

from schemaquake.checkers.evidence.cql_types import CONTAINERS, NATIVE, can_hold, canonical, user_types

INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint", "varint", "counter"})
FRACTIONS = frozenset({"float", "double", "decimal"})
TEXTS = frozenset({"ascii", "text", "varchar"})
OTHERS = NATIVE - INTEGERS - FRACTIONS - TEXTS - {"boolean"}


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
        ("utf8Type", []),
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


@pytest.mark.parametrize(
    ("value", "types"),
    [
        (1, {*INTEGERS, *FRACTIONS, *OTHERS}),
        (1.5, {*FRACTIONS, *OTHERS}),
        ("x", {*TEXTS, *OTHERS}),
        (True, {"boolean", *OTHERS}),
        (None, NATIVE),
        ([1], set()),
        ({"a": 1}, set()),
    ],
)
def test_a_literal_fits_the_types_of_its_kind_and_those_that_have_no_literals_of_their_own(
    value: Any, types: set[str]
) -> None:
    assert {cql_type for cql_type in NATIVE if can_hold(cql_type, value)} == types


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("FROZEN<Map<Text, 'My.Class'>>", "map<text,'My.Class'>"),
        ('"Frozen<U>"', '"Frozen<U>"'),
        ("frozen<frozen<list<frozen<u>>>>", "list<u>"),
        ("tuple<frozen<u>, frozen<w>>", "tuple<u,w>"),
        ("frozen<list<int>", "list<int>"),
        ("myfrozen<int>", "myfrozen<int>"),
        ("varchar", "text"),
    ],
)
def test_a_type_is_spelled_in_one_way(text: str, spelled: str) -> None:
    assert canonical(text) == spelled


@pytest.mark.parametrize("text", ["a.b.c", '"A"."B"."C"', "u ()"])
def test_what_is_no_name_of_a_type_names_none(text: str) -> None:
    assert user_types(text, keyspace="k") == (frozenset() if "." in text else {("k", "u")})


def test_every_class_of_a_user_type_is_found_in_hexadecimal() -> None:
    marshal = "org.apache.cassandra.db.marshal."
    text = f"{marshal}TupleType({marshal}UserType( a , 75 ,66:x),{marshal}UserType(b,C3A9,66:x))"
    assert user_types(text, keyspace="k") == {("a", "u"), ("b", "é")}
