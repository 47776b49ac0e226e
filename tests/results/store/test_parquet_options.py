"""Parquet options: files are small, and any tool reads the same out of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.model.records import HISTORY, OBSERVATIONS
from schemaquake.results.store.parquet_options import parquet_options
from schemaquake.results.store.store import write_table

LONG = st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from([-(1 << 63), (1 << 63) - 1]))


def event(index: int, mops: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"index": index, "time": 1000 * index, "process": index % 5, "type": "ok", "f": "txn", "mops": mops}


def encodings(path: Path) -> dict[str, set[str]]:
    """Column → how its values are written, levels aside."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {column.path_in_schema: set(column.encodings) - {"RLE", "PLAIN"} for column in columns}


@pytest.mark.parametrize("schema", [HISTORY, OBSERVATIONS], ids=["history", "observations"])
def test_whole_numbers_are_differences_and_all_else_is_a_dictionary(tmp_path: Path, schema: pa.Schema) -> None:
    path = tmp_path / "t.parquet"
    with pq.ParquetWriter(path, schema, **parquet_options(schema)) as writer:
        writer.write_table(pa.Table.from_batches([batch_of_one(schema)]))
    for column, found in encodings(path).items():
        number = column in {"index", "time", "process", "sample"} or column.endswith((".k", ".v", ".element"))
        assert found == ({"DELTA_BINARY_PACKED"} if number else {"RLE_DICTIONARY"}), column


def batch_of_one(schema: pa.Schema) -> pa.RecordBatch:
    values: dict[str, Any] = {"mops": [{"f": "append", "k": 1, "v": 2, "vs": [3]}]}
    row = {field.name: values.get(field.name, 7 if pa.types.is_integer(field.type) else "x") for field in schema}
    return pa.RecordBatch.from_pylist([row], schema=schema)


@given(st.lists(st.lists(st.tuples(LONG, LONG, st.lists(LONG, max_size=5)), max_size=3), max_size=8))
def test_what_was_written_is_read(tmp_path_factory: pytest.TempPathFactory, drawn: list[Any]) -> None:
    path = tmp_path_factory.mktemp("t") / "history.parquet"
    rows = [
        event(index, [{"f": "append", "k": k, "v": v, "vs": vs} for k, v, vs in mops])
        for index, mops in enumerate(drawn)
    ]
    table = pa.Table.from_pylist(rows, schema=HISTORY)
    write_table(path, table)
    assert pq.read_table(path).cast(HISTORY).equals(table)
    found = pl.read_parquet(path).select("index", "time", "mops").to_dicts()
    assert found == table.select(["index", "time", "mops"]).to_pylist()


def test_a_long_history_is_smaller_than_by_dictionaries(tmp_path: Path) -> None:
    lists = [event(n, [{"f": "r", "k": n // 50, "v": None, "vs": [*range(n % 50)]}]) for n in range(20_000)]
    table = pa.Table.from_pylist(lists, schema=HISTORY)
    write_table(tmp_path / "ours.parquet", table)
    pq.write_table(table, tmp_path / "usual.parquet", compression="zstd")
    assert (tmp_path / "ours.parquet").stat().st_size < (tmp_path / "usual.parquet").stat().st_size
