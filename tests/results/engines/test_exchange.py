"""Rows that steps leave in files come back as they were, part by part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damage import damaged
from small_histories import table

from schemaquake.results.engines.engine import Local
from schemaquake.results.engines.exchange import EngineExchange, FileRows
from schemaquake.results.engines.ranges import Ranges

NUMBERED = pa.schema([("n", pa.int64()), ("text", pa.string()), ("list", pa.list_(pa.int64()))])


def numbered(count: int) -> pa.Table:
    rows = [{"n": n, "text": None if n % 3 else f"t{n}", "list": list(range(n % 4))} for n in range(count)]
    return pa.Table.from_pylist(rows, NUMBERED)


@pytest.fixture
def exchange(tmp_path: Path) -> EngineExchange:
    file = tmp_path / "history.parquet"
    pq.write_table(table(damaged(3, "list-append")), file)
    return EngineExchange(Local(2), FileRows(Ranges.of(file, 1, tmp_path), tmp_path))


def test_each_part_has_its_rows_in_their_order(exchange: EngineExchange) -> None:
    rows, part = numbered(50), np.arange(50) % 5
    part[part == 3] = 5  # to nobody
    parts = exchange.share("some", rows, part, 5)
    assert parts[3] is None
    for number in (0, 1, 2, 4):
        assert exchange.read([parts[number]], NUMBERED).equals(rows.take(np.flatnonzero(part == number)))
    again = exchange.read([parts[4], None, parts[0]], NUMBERED)
    assert again["n"].to_pylist() == [*range(4, 50, 5), *range(0, 50, 5)]


def test_parts_of_several_files_are_read_as_what_is_asked_for(exchange: EngineExchange) -> None:
    wide = pa.schema([("n", pa.int64())])
    one = exchange.keep("one", pa.table({"n": pa.array([1, 2], pa.int32())}))
    other = exchange.keep("other", pa.table({"n": pa.array([3], pa.int64())}))
    found = exchange.read([other, one], wide)
    assert found.schema == wide
    assert found["n"].to_pylist() == [3, 1, 2]


def test_a_table_without_rows_is_kept_as_one(exchange: EngineExchange) -> None:
    kept = exchange.keep("none", numbered(0))
    assert exchange.read([kept], NUMBERED).equals(numbered(0))
    assert exchange.read([], NUMBERED).equals(numbered(0))
    assert exchange.share("nobody", numbered(4), np.full(4, 2), 2) == [None, None]


def test_a_step_that_is_called_twice_leaves_its_rows_once(exchange: EngineExchange, tmp_path: Path) -> None:
    first, second = (exchange.keep("same", numbered(9)) for _ in range(2))
    assert first == second
    assert exchange.read([first], NUMBERED).equals(numbered(9))
    assert [path.name for path in tmp_path.glob("*same*")] == ["same.arrow"]


def test_the_size_of_parts_is_that_in_memory(exchange: EngineExchange) -> None:
    rows = numbered(64)
    parts = exchange.share("sized", rows, np.arange(64) % 2, 2)
    assert exchange.size([parts[0]]) == rows.take(np.arange(0, 64, 2)).nbytes
    assert exchange.size(parts) == exchange.size([parts[0]]) + exchange.size([parts[1]])
    assert exchange.size([None]) == 0


def test_a_table_in_chunks_is_kept_whole(exchange: EngineExchange) -> None:
    rows = pa.concat_tables([numbered(3), numbered(0), numbered(5)])
    assert exchange.read([exchange.keep("chunks", rows)], NUMBERED).equals(rows.combine_chunks())
