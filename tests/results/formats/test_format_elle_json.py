from __future__ import annotations

import io
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.errors import HistoryError
from schemaquake.results.formats import elle_json, text


def read(source: bytes) -> list[tuple[int, Any]]:
    return list(elle_json.forms(io.BytesIO(source), "h.json"))


@pytest.mark.parametrize("source", ['[{"a": 1},\n{"a": [2]}]', '{"a": 1}\n{"a": [2]}\n', '\n[{"a":1}{"a":[2]}] '])
def test_objects_stand_in_one_array_or_one_after_another(source):
    assert [value for _, value in read(source.encode())] == [{"a": 1}, {"a": [2]}]


def test_each_element_has_the_line_it_begins_on():
    assert read(b'[\n1,\n\n{"a":\n2},3\n]') == [(2, 1), (4, {"a": 2}), (5, 3)]


def test_an_empty_file_has_no_elements():
    assert read(b"") == read(b" \n") == read(b"[]") == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('[{"a": 1}', "truncated"),
        ('{"a": ', "truncated"),
        ('{"a": "x', "truncated"),
        ('{"a" 1}', "invalid JSON"),
        ('[{"a": 1}] {}', "the file continues"),
        ('{"a": NaN}', "NaN is not valid JSON"),
        ("[" * 200_000, "nested too deeply"),
    ],
)
def test_what_is_no_json_is_refused_with_its_line(source, said):
    with pytest.raises(HistoryError) as refused:
        read(f"\n{source}".encode())
    assert "h.json, line 2: " in str(refused.value)
    assert said in str(refused.value)


def test_an_element_that_does_not_end_is_given_up_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(text, "FORM_BYTES_MOST", 1 << 20)
    with pytest.raises(HistoryError, match=r"line 1: one operation of more than 1 MiB"):
        read(b'{"value": [' + b"1," * (8 << 20))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=4), st.booleans(), st.sampled_from([1, 5, 1 << 18]))
def test_what_another_writer_wrote_is_read_back_in_stretches_of_any_size(written, in_array, stretch):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_STRETCH", stretch)
        if in_array or any(isinstance(value, list) for value in written):
            source = orjson.dumps(written)
        else:
            source = b"\n".join(orjson.dumps(value) for value in written)
        assert [value for _, value in read(source)] == written
