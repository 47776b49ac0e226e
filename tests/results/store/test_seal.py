"""A sealed Parquet file: every tool reads it, and no flipped bit of it passes for what was written."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemaquake.harness.errors import DamagedFile, HistoryError
from schemaquake.results.store.seal import damage_in, refuse_damage
from schemaquake.results.store.store import read_table, write_table

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
TABLE = pa.table({"n": [1, 2, 3], "text": ["a", None, "ccc"]}, schema=SCHEMA)


@pytest.fixture
def path(tmp_path):
    write_table(tmp_path / "table.parquet", TABLE)
    return tmp_path / "table.parquet"


def test_a_sealed_file_is_parquet_for_any_tool(path):
    assert refuse_damage(path)
    assert pq.read_table(path) == TABLE
    assert pq.read_metadata(path).num_rows == 3


def test_equal_tables_make_equal_files(path, tmp_path):
    write_table(tmp_path / "again.parquet", TABLE)
    assert (tmp_path / "again.parquet").read_bytes() == path.read_bytes()


def test_no_flipped_bit_changes_a_table(path, tmp_path):
    whole = path.read_bytes()
    damaged = tmp_path / "damaged.parquet"
    without_seal = 0
    for bit in range(8 * len(whole)):
        content = whole[: bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]) + whole[bit // 8 + 1 :]
        found = damage_in(io.BytesIO(content), len(content))
        assert found != "", bit
        if found is None:
            without_seal += 1
            damaged.write_bytes(content)
            try:
                assert read_table(damaged, SCHEMA) == TABLE, bit
            except HistoryError:
                continue
    assert without_seal <= 8 * (len("SQSEAL01") + 4 + len("PAR1")), "the mark, the footer's length, the end"


def test_the_place_of_the_damage_is_told(path):
    whole = path.read_bytes()
    for at, place in ((20, "its data"), (len(whole) - 20, "its footer")):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(DamagedFile, match=place) as raised:
            refuse_damage(path)
        assert raised.value.path == path


def test_a_file_without_a_seal_is_none_that_is_damaged(tmp_path):
    path = tmp_path / "foreign.parquet"
    pq.write_table(TABLE, path)
    assert not refuse_damage(path)
    assert read_table(path, SCHEMA) == TABLE
    for content in (b"", b"PAR1", b"\xff" * 40, bytes(100)):
        path.write_bytes(content)
        assert not refuse_damage(path)
        with pytest.raises(HistoryError):
            read_table(path, SCHEMA)


def test_pages_of_a_file_whose_seal_is_gone_still_have_checksums(path):
    whole = path.read_bytes()
    at = whole.index(b"SQSEAL01")
    torn = whole[:at] + bytes(16) + whole[at + 16 :]
    path.write_bytes(torn)
    assert read_table(path, SCHEMA) == TABLE
    page = whole.index(b"ccc")
    path.write_bytes(torn[:page] + b"cdc" + torn[page + 3 :])
    with pytest.raises(HistoryError):
        read_table(path, SCHEMA)
