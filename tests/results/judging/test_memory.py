"""What does not fit into memory is judged in pieces, from disk, with the verdict it would have had."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.model.records import HISTORY
from schemaquake.harness.model.verdict import Verdict
from schemaquake.results.formats.reading import read_history, spill_history
from schemaquake.results.judging.memory import allowed_bytes, history_bytes, pieces
from schemaquake.results.runs.checking import check_path

MIB = 1 << 20


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 40))
def test_what_fits_is_one_piece_and_less_memory_never_makes_fewer_of_them(history, allowed):
    assert pieces(history, allowed) >= pieces(history, 2 * allowed) >= 1
    assert (pieces(history, allowed) == 1) is (150 * MIB + 2.3 * history <= allowed)


def test_there_is_some_memory_but_not_more_than_the_machine_has():
    assert 64 * MIB < allowed_bytes() < 1 << 50


def transactions(count: int, *, broken: bool) -> list[str]:
    """EDN of transactions one after another, each of which appends to one list and reads another; two writes may cross."""
    lists: dict[int, list[int]] = {}
    lines = []
    for number in range(count):
        key, other = number % 7, (number + 1) % 7
        found = list(lists.get(other, []))
        lists.setdefault(key, []).append(number)
        process = number % 3
        lines.append(f"{{:type :invoke :f :txn :process {process} :value [[:append {key} {number}] [:r {other}]]}}")
        read = " ".join(map(str, found[:-1] if broken and number == count - 1 else found))
        lines.append(
            f"{{:type :ok :f :txn :process {process} :value [[:append {key} {number}] [:r {other} [{read}]]]}}"
        )
    return lines


def registers(count: int, *, broken: bool) -> list[str]:
    lines = []
    for number in range(count):
        key = number % 11
        value = f'{{"n" {number} "filling" "{"x" * 50}"}}'
        found = f'{{"n" {number - 11} "filling" ""}}' if broken and number > count - 5 else value
        for kind, f, what in (
            ("invoke", "write", value),
            ("ok", "write", value),
            ("invoke", "read", "nil"),
            ("ok", "read", found),
        ):
            lines.append(f"{{:type :{kind} :f :{f} :process {number % 3} :value [{key} {what}]}}")
    return lines


def without_seconds(verdict: Verdict) -> Any:
    """All that must be the same however a history was judged."""
    told = replace(verdict, parts=()).to_json()
    return json.loads(json.dumps({**told, "stats": None}, default=str))


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize(
    ("model", "lines", "independent"),
    [("list-append", transactions, False), ("register", registers, True)],
    ids=["transactions", "registers"],
)
def test_the_verdict_in_pieces_is_the_verdict(tmp_path, model, lines, independent, broken):
    path = tmp_path / "h.edn"
    path.write_text("\n".join(lines(3000, broken=broken)))
    options: dict[str, Any] = {"checkers": None, "file_format": None, "engine": "local", "master": None, "limit_s": 600}
    whole = check_path(path, model=model, independent=independent, **options)
    in_pieces = check_path(path, model=model, independent=independent, memory_bytes=MIB, **options)
    assert whole.valid is not broken
    assert without_seconds(in_pieces) == without_seconds(whole)
    assert not list(tmp_path.glob(".schemaquake-*"))


@pytest.mark.parametrize(
    "lines",
    [
        transactions(40, broken=False),
        [
            "{:type :invoke :f :write :process 0 :time 5 :value :a}",
            "{:type :ok :f :write :process 0 :time 3 :value :a}",
        ],
        ["{:index 5 :type :invoke :f :read :process 0}", "{:index 2 :type :invoke :f :read :process 1}"],
        ["{:type :invoke :f :read}", "{:type :ok :f :read :value 1}"],
        ["{:type :invoke :f :txn :process 0 :value [[:r :x] [:append :y :z]]}"],
        [],
    ],
    ids=["transactions", "clock that lags", "out of order", "no processes", "names", "nothing"],
)
def test_a_spilled_history_is_the_history(tmp_path, lines):
    path, spilled = tmp_path / "h.edn", tmp_path / "h.parquet"
    path.write_text("\n".join(lines))
    spill_history(path, spilled)
    expected = read_history(path)
    found = read_history(spilled)
    assert found.to_pylist() == expected.to_pylist()
    assert (found.schema.metadata or {}).get(b"names") == (expected.schema.metadata or {}).get(b"names")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["h.edn", "h.parquet"]


_PEAK = """
import json, re, sys
from schemaquake.harness.history.lean_arrow import lean_arrow
lean_arrow()
from pathlib import Path
from schemaquake.results.runs.checking import check_path
verdict = check_path(Path(sys.argv[1]), checkers=None, file_format=None, engine="local", master=None, limit_s=600,
                     model="register", memory_bytes=int(sys.argv[2]))
# Not by getrusage, which has the peak of the process that started this one, too.
peak = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())
print(json.dumps([verdict.valid, int(peak[1]) * 1024]))
"""


def peak(path: Path, memory_bytes: int) -> int:
    """Bytes that a process took, at most, to judge a history that is valid."""
    command = [sys.executable, "-c", _PEAK, str(path), str(memory_bytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    valid, found = json.loads(done.stdout)
    assert valid is True
    return int(found)


def test_a_history_is_judged_in_less_memory_than_it_takes(tmp_path):
    path = tmp_path / "h.parquet"
    rows, stretch = 1_000_000, 1 << 17
    with pq.ParquetWriter(path, HISTORY, compression="zstd") as writer:
        for begin in range(0, rows, stretch):
            row = np.arange(begin, min(begin + stretch, rows))
            columns = {
                "index": pa.array(row),
                "time": pa.array(row),
                "process": pa.array(np.zeros(len(row), np.int32)),
                "type": pa.array(np.where(row % 2, "ok", "invoke")),
                "f": pa.array(np.repeat("write", len(row))),
                "key": pa.array([f"a key of its own, {number % 1009}" for number in row // 2]),
                "value": pa.array([f"{number}" for number in row // 2 + 10**15]),
            }
            filled = [columns.get(field.name, pa.nulls(len(row), field.type)) for field in HISTORY]
            writer.write_table(
                pa.table([column.cast(field.type) for column, field in zip(filled, HISTORY, strict=True)], HISTORY)
            )
    whole, in_pieces = peak(path, 1 << 40), peak(path, 250 * MIB)
    assert history_bytes(path, parquet=True) > 64 * MIB
    assert in_pieces < whole - 40 * MIB
