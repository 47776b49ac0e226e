"""Compressed histories: read as their content is, and refused in a sentence where that cannot be."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.results.formats import compression, reading
from schemaquake.results.formats.reading import format_of, read_history
from schemaquake.results.judging.memory import history_bytes

EDN = "".join(
    f"{{:type :invoke, :f :write, :value {n}, :process {n}}}\n{{:type :ok, :f :write, :value {n}, :process {n}}}\n"
    for n in range(500)
).encode()


def compressed(content: bytes, codec: str) -> bytes:
    if codec == "gzip":
        return gzip.compress(content)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


@pytest.fixture(params=[("gzip", ".gz"), ("zstd", ".zst")], ids=["gzip", "zstd"])
def packed(request, tmp_path):
    codec, suffix = request.param

    def write(content: bytes, *, cut: int | None = None, twice: bool = False) -> Path:
        path = tmp_path / f"history.edn{suffix}"
        packed = compressed(content, codec)
        path.write_bytes((packed * 2 if twice else packed)[:cut])
        return path

    return write


@pytest.mark.parametrize("scanned_from", [0, 1 << 30], ids=["scanned", "by the general reader"])
def test_a_compressed_history_is_read_as_its_content(packed, tmp_path, monkeypatch, scanned_from):
    monkeypatch.setattr(reading, "_SCANNED_FROM", scanned_from)
    plain = tmp_path / "history.edn"
    plain.write_bytes(EDN)
    path = packed(EDN)
    assert format_of(path, None) == "edn"
    assert read_history(path).equals(read_history(plain))
    assert history_bytes(path, parquet=False) == len(EDN)


def test_two_compressed_parts_are_one_history(packed):
    lines = b"{:type :info, :f :start, :process :nemesis}\n" * 100
    assert len(read_history(packed(lines, twice=True))) == 200


@pytest.mark.parametrize("scanned_from", [0, 1 << 30], ids=["scanned", "by the general reader"])
def test_what_is_cut_short_or_is_not_compressed_is_refused_with_the_file(packed, monkeypatch, scanned_from):
    monkeypatch.setattr(reading, "_SCANNED_FROM", scanned_from)
    path = packed(EDN, cut=-9)
    with pytest.raises(HistoryError, match=r"history\.edn\.\w+ cannot be decompressed .* damaged or cut short"):
        read_history(path)
    path.write_bytes(EDN)
    with pytest.raises(HistoryError, match="cannot be decompressed"):
        read_history(path)


def test_the_line_of_an_error_is_that_of_the_content(packed):
    with pytest.raises(HistoryError, match=r"history\.edn\.\w+, line 1001: type must be"):
        read_history(packed(EDN + b"{:type :what :f :read}"))


def test_a_small_file_that_would_fill_the_memory_is_refused_while_it_is_read(packed, monkeypatch):
    monkeypatch.setattr(compression, "_RATIO_FROM", 1 << 20)
    monkeypatch.setattr(compression, "_RATIO_MOST", 20)
    path = packed(b" " * (2 << 20))
    with pytest.raises(HistoryError, match="more than 20 times as large"):
        read_history(path)
    with pytest.raises(HistoryError, match="more than 20 times as large"):
        history_bytes(path, parquet=False)


def test_compressed_parquet_is_refused():
    with pytest.raises(PlanError, match="Parquet is compressed inside"):
        format_of(Path("history.parquet.gz"), None)
