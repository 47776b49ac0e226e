"""Parquet files of anybody: one that would end a process, or take all its memory, is refused in a sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemaquake.harness.errors import HistoryError
from schemaquake.results.formats.reading import read_history
from schemaquake.results.judging.judge import judge
from schemaquake.results.judging.sources import HistoryFile
from schemaquake.results.store import examination
from schemaquake.results.store.examination import examine

KILLER = Path(__file__).parents[2] / "fuzz" / "corpus" / "parquet" / "ends-a-process"


@pytest.fixture
def killer(tmp_path):
    """A file of ten columns of which one bit of the footer was flipped: asked for that column, Arrow aborts."""
    return shutil.copy(KILLER, tmp_path / "history.parquet")


def test_a_file_that_ends_a_process_is_refused(killer):
    with pytest.raises(HistoryError, match=r"reading it ends a process \(SIGABRT\)"):
        examine(killer)
    with pytest.raises(HistoryError, match="ends a process"):
        read_history(killer)
    with pytest.raises(HistoryError, match="ends a process"):
        judge(HistoryFile(killer), engine="local")


def test_a_file_is_examined_once(tmp_path, monkeypatch):
    path = tmp_path / "theirs.parquet"
    pq.write_table(pa.table({"n": [1]}), path)
    examine(path)
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("examined again"))
    examine(path)


def test_what_a_reader_says_better_is_left_to_it(tmp_path):
    path = tmp_path / "theirs.parquet"
    path.write_bytes(b"PAR1 and no more")
    examine(path)
    with pytest.raises(HistoryError, match="not a whole Parquet file"):
        read_history(path)


def test_a_file_that_asks_for_too_much_memory_is_refused(tmp_path, monkeypatch):
    """One text of a megabyte, a hundred thousand times: some kilobytes on disk, a hundred gigabytes when it is read."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), ["x" * (1 << 20)])
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"f": text}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 1 << 16
    monkeypatch.setattr(examination, "_MEMORY_LEAST", 1 << 30)
    with pytest.raises(HistoryError, match="asks for more than 1024 MiB of memory"):
        examine(path)
