"""Thrift values: what goes in comes out, in the bytes that servers of the time stored."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.clusters.thrift.dialects import DIALECTS
from schemaquake.clusters.thrift.values import decode, encode

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
VALUES = {
    "AsciiType": st.text(st.characters(max_codepoint=127)),
    "BooleanType": st.booleans(),
    "BytesType": st.binary().map(bytes.hex),
    "DateType": LONG,
    "DoubleType": st.floats(allow_nan=False),
    "FloatType": st.floats(width=32, allow_nan=False),
    "Int32Type": INT,
    "IntegerType": st.integers(),
    "LexicalUUIDType": st.uuids().map(str),
    "LongType": LONG,
    "TimeUUIDType": st.uuids(version=1).map(str),
    "UTF8Type": st.text(st.characters(exclude_categories=["Cs"])),
    "UUIDType": st.uuids().map(str),
}


def test_every_type_that_an_era_can_say_has_values():
    assert {name for dialect in DIALECTS for name in dialect.types.values()} == set(VALUES)


@given(data=st.data(), class_name=st.sampled_from(sorted(VALUES)))
def test_a_value_of_a_declared_column_comes_back(data, class_name):
    value = data.draw(VALUES[class_name])
    assert decode(encode(value, class_name), class_name) == value


@pytest.mark.parametrize(
    ("value", "class_name", "content"),
    [
        (1, "Int32Type", b"\x00\x00\x00\x01"),
        (1, "IntegerType", b"\x00\x00\x00\x01"),
        (-1, "IntegerType", b"\xff\xff\xff\xff"),
        (2**31, "IntegerType", b"\x00\x80\x00\x00\x00"),
        (1, "LongType", b"\x00" * 7 + b"\x01"),
        ("é", "UTF8Type", b"\xc3\xa9"),
        (True, "BooleanType", b"\x01"),
        ("00ff", "BytesType", b"\x00\xff"),
        (5, None, b"\x00\x00\x00\x05"),
        ("five", None, b"five"),
        (True, None, b"\x01"),
    ],
)
def test_bytes_are_those_of_the_server_s_classes(value, class_name, content):
    assert encode(value, class_name) == content


@pytest.mark.parametrize(
    ("value", "class_name"),
    [("x", "Int32Type"), (2**31, "Int32Type"), (5, "UTF8Type"), ("é", "AsciiType"), ("zz", "BytesType"), ([], None)],
)
def test_a_value_of_another_type_is_refused_by_name(value, class_name):
    with pytest.raises(ValueError, match=r"."):
        encode(value, class_name)


@given(st.integers(-(2**24), 2**24 - 1) | st.text(st.characters(categories=["L", "N", "P"]), min_size=1))
def test_what_nobody_declared_is_told_as_what_workloads_write(value):
    assert decode(encode(value, None), None) == value


@pytest.mark.parametrize(
    ("content", "class_name", "told"),
    [
        (b"\xff\xfe", None, "fffe"),
        (b"\x00\x01", "Int32Type", "0001"),
        (b"\xff", "UTF8Type", "ff"),
        (b"\x07", None, "07"),
    ],
)
def test_bytes_that_are_none_of_it_are_told_in_digits(content, class_name, told):
    assert decode(content, class_name) == told


def test_infinity_is_a_double():
    assert decode(encode(math.inf, "DoubleType"), "DoubleType") == math.inf
