from __future__ import annotations

import io
import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import edn_format
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemaquake.harness.errors import HistoryError
from schemaquake.results.formats import edn, text


def read(source: str, name: str = "h.edn") -> list[tuple[int, Any]]:
    return list(edn.forms(io.BytesIO(source.encode()), name))


def values(source: str) -> list[Any]:
    return [value for _, value in read(source)]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("nil", None),
        ("true", True),
        ("-12", -12),
        ("+7", 7),
        ("12N", 12),
        ("9223372036854775808", "9223372036854775808"),
        ("1.50M", 1.5),
        ("0.1000000000000000000001M", "0.1000000000000000000001"),
        ("2e3", 2000.0),
        ("2/4", "1/2"),
        ("4/2", 2),
        (":a/b", "a/b"),
        ("sym-bol", "sym-bol"),
        (r'"a\"b\n\u00e9"', 'a"b\né'),
        (r"\newline", "\n"),
        (r"\u0041", "A"),
        (r"\(", "("),
        ("[1 [2,,3] ()]", [1, [2, 3], []]),
        ("#{3 :b 10 2}", [2, 3, 10, "b"]),
        ("{0 97, :k nil, [1] 2}", {"0": 97, "k": None, "[1]": 2}),
        ('#inst "2020-01-01"', "2020-01-01"),
        ('#object[clojure.core$inc 0x1f "x"]', ["clojure.core$inc", 31, "x"]),
        ("#jepsen.history.Op{:a #tag [1]}", {"a": [1]}),
        ("#:ns{:a 1}", {"a": 1}),
        ("[1 #_2 3 #_ #tag {:x 1}]", [1, 3]),
        ("[1 ; one\n 2]", [1, 2]),
        ("##Inf", "Inf"),
    ],
)
def test_a_value_becomes_the_json_value_that_is_nearest(source, value):
    assert edn.loads(source) == value


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{:a 1", "truncated"),
        ('{:a "x', "truncated"),
        ("{:a}", "a key without a value"),
        ("{:a 1 :a 2}", "the key a twice"),
        ("[1 2}", "} has no opening bracket"),
        ("1 2]", "] has no opening bracket"),
        ("[{:a 1}] {:a 2}", "the file continues after the vector"),
        ("[{:a 1}", "truncated"),
        ("{:a 01}", "01 is not a number"),
        ("{:a 1/0}", "1/0 is not a number"),
        ("{:a :}", "a keyword without a name"),
        (r'{:a "\q"}', "not a valid escape"),
        (r'{:a "\ud800"}', "half of a surrogate pair"),
        ("{:a ^b c}", "is not valid EDN"),
        ("##Foo", "is not valid EDN"),
    ],
)
def test_what_is_no_edn_is_refused_with_its_line(source, said):
    with pytest.raises(HistoryError) as refused:
        read(f"; first\n{source}")
    assert "h.edn, line 2: " in str(refused.value)
    assert said in str(refused.value)


@pytest.mark.parametrize("source", ["{:a 1}\n{:a 2}", "[{:a 1},\n{:a 2}]", "({:a 1}\n{:a 2})", "; x\n{:a 1}{:a 2};"])
def test_ops_stand_one_after_another_or_in_one_vector_or_list(source):
    assert values(source) == [{"a": 1}, {"a": 2}]


def test_each_op_has_the_line_it_begins_on():
    assert [line for line, _ in read("{:a\n1}\n\n; c\n{:a 2} {:a\n 3}\n{:b 4}")] == [1, 5, 5, 7]


def test_an_empty_file_has_no_ops():
    assert values("") == values("; nothing\n") == values("[]") == []


def test_nothing_is_lost_where_one_stretch_ends_and_the_next_begins(monkeypatch):
    source = '{:a "x y" :b [1 22 #{3 4}] ; c\n :c \\newline}\n' * 30
    whole = read(source)
    for stretch in (1, 2, 7, 64):
        monkeypatch.setattr(text, "_STRETCH", stretch)
        assert read(source) == whole


def test_an_op_that_does_not_end_is_given_up_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(text, "FORM_BYTES_MOST", 1 << 20)

    class Endless(io.RawIOBase):
        given = 0

        def read(self, count: int = -1) -> bytes:
            self.given += count
            return b"1 " * (count // 2)

    source = Endless()
    with pytest.raises(HistoryError, match=r"line 1: .* of more than 1 MiB"):
        list(edn.forms(_Prefixed(b"{:a [", source), "h.edn"))
    assert source.given < 8 << 20


class _Prefixed:
    def __init__(self, first: bytes, rest: Any) -> None:
        self._first, self._rest = first, rest

    def read(self, count: int) -> bytes:
        first, self._first = self._first, b""
        return first + self._rest.read((count - len(first)) // 2 * 2) + b" " * ((count - len(first)) % 2)


def test_what_is_no_utf_8_is_refused_with_its_line():
    with pytest.raises(HistoryError, match="line 2: the file is not valid UTF-8"):
        list(edn.forms(io.BytesIO(b'{:a 1}\n{:a "\xff"}'), "h.edn"))


def test_depth_costs_no_recursion():
    assert len(values("[" + "[" * 50_000 + "]" * 50_000 + "]")) == 1


# ── against another reader ───────────────────────────────────────────────────────────────────────────────────────────

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=8),
    st.from_regex(r"[a-z][a-z0-9*!_?-]{0,6}", fullmatch=True).map(edn_format.Keyword),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.frozensets(st.integers(-50, 50), max_size=4),
        st.dictionaries(st.from_regex(r"[a-z]{1,4}", fullmatch=True).map(edn_format.Keyword), inner, max_size=4),
    ),
    max_leaves=12,
)


def as_ours(value: Any) -> Any:
    """What the oracle read, in our terms."""
    if isinstance(value, edn_format.Keyword):
        return value.name
    if isinstance(value, str | bool | int | float) or value is None:
        return value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, frozenset | set):
        return sorted(value)
    if isinstance(value, Mapping):
        return {str(as_ours(key)): as_ours(inner) for key, inner in value.items()}
    return [as_ours(inner) for inner in value]


@given(st.lists(VALUES, min_size=1, max_size=3))
@example([[], {}, frozenset()])
def test_what_another_writer_wrote_is_read_as_another_reader_reads_it(written):
    source = "\n".join(edn_format.dumps(value) for value in written)
    expected = [as_ours(value) for value in edn_format.loads_all(source)]
    found = values(f"[{source}]")
    assert len(found) == len(expected)
    assert all(map(same, found, expected))


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=1e-12)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other
