"""Row groups that are too large are written anew as smaller ones, with the same rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemaquake.harness.errors import HistoryError
from schemaquake.results.store.parquet_footer import row_groups
from schemaquake.results.store.regrouping import regroup


def written(file: Path, lengths: list[int]) -> pa.Table:
    """Write one row group of rows with lists of these lengths, whose numbers all differ."""
    starts = [sum(lengths[:n]) for n in range(len(lengths))]
    rows = pa.table({"vs": pa.array([list(range(s, s + n)) for s, n in zip(starts, lengths, strict=True)])})
    pq.write_table(rows, file, row_group_size=len(rows), use_dictionary=False)
    return rows


@pytest.mark.parametrize("limit", [2, 100])
@pytest.mark.parametrize("longest", [1, 300])
def test_all_rows_come_in_their_order_and_no_group_is_too_large(tmp_path: Path, limit: int, longest: int) -> None:
    lengths = [2] * 20_000
    lengths[7_001] = longest
    rows = written(tmp_path / "history.parquet", lengths)
    (group,) = row_groups(tmp_path / "history.parquet")
    limit_bytes = group.size // limit + 1
    file = regroup(tmp_path / "history.parquet", tmp_path / "regrouped.parquet", limit_bytes)
    assert file == tmp_path / "regrouped.parquet"
    assert pq.read_table(file).equals(rows)
    groups = row_groups(file)
    assert len(groups) > limit
    assert max(each.size for each in groups) <= limit_bytes


def test_a_file_whose_groups_fit_stays(tmp_path: Path) -> None:
    file = tmp_path / "history.parquet"
    written(file, [2] * 100)
    assert regroup(file, tmp_path / "regrouped.parquet", row_groups(file)[0].size) == file
    assert not (tmp_path / "regrouped.parquet").exists()


@pytest.mark.parametrize("others", [10, 20_000])
def test_a_row_that_does_not_fit_is_named(tmp_path: Path, others: int) -> None:
    file = tmp_path / "history.parquet"
    written(file, [*([2] * others), 200_000])
    with pytest.raises(HistoryError, match="has an operation of 1 MiB"):
        regroup(file, tmp_path / "regrouped.parquet", 1 << 20)
