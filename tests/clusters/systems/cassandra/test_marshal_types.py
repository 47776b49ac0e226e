"""Marshal types: every class name that a schema table of 1.2 to 2.2 holds, in CQL's words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.checkers.evidence.cql_types import canonical, user_types
from schemaquake.clusters.systems.cassandra.marshal_types import components, cql_type


def marshal(text):
    """`ListType(Int32Type)` with the package that a server writes before each class."""
    return "org.apache.cassandra.db.marshal." + text.replace("(", "(org.apache.cassandra.db.marshal.").replace(
        ",", ",org.apache.cassandra.db.marshal."
    )


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("Int32Type", "int"),
        ("UTF8Type", "text"),
        ("BytesType", "blob"),
        ("IntegerType", "varint"),
        ("LongType", "bigint"),
        ("DateType", "timestamp"),
        ("TimestampType", "timestamp"),
        ("SimpleDateType", "date"),
        ("CounterColumnType", "counter"),
        ("ReversedType(Int32Type)", "int"),
        ("ListType(Int32Type)", "list<int>"),
        ("MapType(UTF8Type,SetType(InetAddressType))", "map<text, set<inet>>"),
        ("FrozenType(ListType(Int32Type))", "frozen<list<int>>"),
        ("TupleType(Int32Type,UTF8Type)", "frozen<tuple<int, text>>"),
        ("FrozenType(TupleType(Int32Type,UTF8Type))", "frozen<tuple<int, text>>"),
        ("ReversedType(FrozenType(MapType(TimeUUIDType,DoubleType)))", "frozen<map<timeuuid, double>>"),
    ],
)
def test_a_class_has_a_word_in_cql(written, told):
    assert cql_type(marshal(written)) == told


def test_a_user_defined_type_is_told_by_its_name():
    written = (
        "org.apache.cassandra.db.marshal.ListType(org.apache.cassandra.db.marshal.UserType(k,75,"
        "78:org.apache.cassandra.db.marshal.Int32Type,7a7a:org.apache.cassandra.db.marshal.UTF8Type))"
    )
    assert cql_type(written) == "list<frozen<u>>"


@pytest.mark.parametrize(("name", "told"), [("MyType", '"MyType"'), ('a"b', '"a""b"'), ("ü", '"ü"'), ("a_1", "a_1")])
def test_a_name_that_needs_quotes_has_them(name, told):
    written = f"org.apache.cassandra.db.marshal.UserType(k,{name.encode().hex()},78:org.apache.cassandra.db.marshal.Int32Type)"
    assert cql_type(written) == f"frozen<{told}>"
    assert user_types(cql_type(written), keyspace="k") == {("k", name)} == user_types(written, keyspace="k")


@pytest.mark.parametrize("written", ["com.example.Odd(x,y)", "org.apache.cassandra.db.marshal.LexicalUUIDType", "Odd"])
def test_a_class_without_a_word_stays_as_it_is(written):
    assert cql_type(written) == f"'{written}'"
    assert user_types(cql_type(written), keyspace="k") == frozenset()


def test_a_composite_is_its_components_and_anything_else_is_itself():
    simple, reversed_ = marshal("Int32Type"), marshal("ReversedType(UTF8Type)")
    assert components(f"org.apache.cassandra.db.marshal.CompositeType({reversed_},{simple})") == [reversed_, simple]
    assert components(simple) == [simple]
    assert components("") == [""]


def _nested(children):
    return st.one_of(
        children.map(lambda c: (f"ListType({c[0]})", f"list<{c[1]}>")),
        st.tuples(children, children).map(lambda c: (f"MapType({c[0][0]},{c[1][0]})", f"map<{c[0][1]}, {c[1][1]}>")),
        children.map(lambda c: (f"FrozenType(SetType({c[0]}))", f"frozen<set<{c[1]}>>")),
    )


@given(st.recursive(st.sampled_from([("Int32Type", "int"), ("UTF8Type", "text"), ("BooleanType", "boolean")]), _nested))
def test_types_of_any_depth_are_told_as_they_were_declared(pair):
    written, declared = pair
    assert canonical(cql_type(marshal(written))) == canonical(declared)
