from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.history.gather import gather, gather_column


def test_rows_come_in_the_order_asked_for():
    table = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
    assert gather(table, pa.array([2, 0, 1])).to_pydict() == {"a": [3, 1, 2], "b": ["z", "x", None]}


def test_an_absent_position_gives_null():
    column = pa.chunked_array([["x"], ["y"]])
    assert gather_column(column, pa.array([1, None])).to_pylist() == ["y", None]


def test_nothing_can_be_gathered_from_nothing():
    assert gather_column(pa.chunked_array([], type=pa.string()), pa.array([], pa.int64())).to_pylist() == []


@given(st.lists(st.none() | st.text(max_size=9), min_size=1, max_size=30), st.integers(1, 12), st.randoms())
def test_text_beyond_the_limit_comes_back_in_chunks_within_it(cells, limit, random):
    column = pa.chunked_array([cells[: len(cells) // 2], cells[len(cells) // 2 :]], type=pa.string())
    order = random.choices([*range(len(cells)), None], k=40)
    gathered = gather_column(column, pa.array(order, pa.int64()), text_limit=limit)
    assert gathered.type == pa.string()
    assert gathered.to_pylist() == [None if position is None else cells[position] for position in order]
    for chunk in gathered.chunks if column.nbytes > limit else []:
        assert len(chunk) == 1 or sum(len((cell or "").encode()) for cell in chunk.to_pylist()) <= limit
