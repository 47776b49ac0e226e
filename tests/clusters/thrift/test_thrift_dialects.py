"""Thrift dialects: what each line can say, told back in the words in which it was said."""

from __future__ import annotations

import pytest

from schemaquake.clusters.thrift.dialects import DIALECTS

MARSHAL = "org.apache.cassandra.db.marshal."


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_an_interface_knows_its_own_version(dialect):
    assert dialect.idl.VERSION.split(".")[:2] == [str(number) for number in dialect.last]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_a_type_that_can_be_declared_is_told_as_it_was_declared(dialect):
    for cql_type in dialect.types.keys() - {"varchar"}:
        assert dialect.cql_type_of(MARSHAL + dialect.class_of(cql_type)) == cql_type
    assert dialect.cql_type_of(dialect.class_of("varchar")) == "text"
    assert dialect.class_of("list<int>") is None
    assert dialect.cql_type_of(MARSHAL + "CounterColumnType") == "CounterColumnType"


@pytest.mark.parametrize(
    ("cql_type", "first"), [("int", "0.7"), ("boolean", "0.8"), ("varint", "1.0")], ids=lambda value: value
)
def test_types_came_with_time(cql_type, first):
    assert next(dialect.name for dialect in DIALECTS if dialect.class_of(cql_type)) == first


def test_options_came_with_time():
    had = {dialect.name: dialect.options for dialect in DIALECTS}
    assert all({"comment", "gc_grace_seconds", "read_repair_chance"} <= had[name].keys() for name in had)
    assert [name for name in had if "compression_options" in had[name]] == ["1.0", "1.1"]
    assert [name for name in had if "caching" in had[name]] == ["1.1"]


def test_the_four_interfaces_do_not_share_their_structs():
    assert len({id(dialect.idl.CfDef) for dialect in DIALECTS}) == 4
    assert all(dialect.struct("CfDef", name="t").name == "t" for dialect in DIALECTS)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_only_declared_exceptions_leave_the_connection_as_it_was(dialect):
    declared = {cls.__name__ for cls in dialect.declared}
    expected = {"InvalidRequestException", "NotFoundException", "TimedOutException", "UnavailableException"}
    assert declared == expected | ({"SchemaDisagreementException"} if dialect.name != "0.7" else set())
