"""Parquet files of anybody: one that would end a process, or take all its memory, is refused in a sentence."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.lean_mops import widen
from schemaquake.harness.model.records import HISTORY, LEAN_MOPS, MOPS
from schemaquake.results.formats.reading import read_history
from schemaquake.results.judging import judge as judge_module
from schemaquake.results.judging.judge import judge
from schemaquake.results.judging.sources import HistoryFile, OnDisk
from schemaquake.results.store import examination
from schemaquake.results.store.examination import begin_examination, examine, examined_lent, read_lent, take_examined
from schemaquake.results.store.store import read_table, write_table

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
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("examined again"))
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


# ── handed over ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """A history of another tool in several row groups, each with other names."""
    monkeypatch.setattr(examination, "_HANDED_FROM", 1)
    rows = [
        {"index": n, "time": n, "process": n % 3, "type": "invoke", "f": f"f{n}", "value": None if n % 7 else str(n)}
        for n in range(100)
    ]
    path = tmp_path / "theirs.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=HISTORY), path, row_group_size=30)
    return path


def test_what_was_decoded_is_taken_once_and_is_what_the_file_has(theirs):
    alone = read_table(theirs, HISTORY, order="index")
    examine(theirs, hand_over=True)
    taken = read_table(theirs, HISTORY, order="index")
    assert taken.equals(alone)
    assert take_examined(theirs) is None
    assert read_table(theirs, HISTORY, order="index").equals(alone)


def transactions(*values: int) -> pa.Table:
    """A history of one transaction a value, which appended it."""
    mop = {"f": "append", "k": 1, "vs": None}
    rows = [
        {"index": n, "time": n, "process": 0, "type": "invoke", "f": "txn", "mops": [mop | {"v": value}]}
        for n, value in enumerate(values)
    ]
    return pa.Table.from_pylist(rows, schema=HISTORY)


def test_micro_operations_are_handed_over_lean_if_all_of_them_can_be(tmp_path, monkeypatch):
    monkeypatch.setattr(examination, "_HANDED_FROM", 1)
    path = tmp_path / "theirs.parquet"
    for values, kind in (((1, 2, 3), LEAN_MOPS), ((1, 2, 1 << 40), MOPS)):
        history = transactions(*values)
        pq.write_table(history, path, row_group_size=1)
        examine(path, hand_over=True)
        handed = take_examined(path)
        assert handed["mops"].type == kind
        assert handed.num_rows == 3
        for lean, expected in ((True, kind), (False, MOPS)):
            examine(path, hand_over=True)
            read = read_table(path, HISTORY, order="index", lean=lean)
            assert read["mops"].type == expected
            assert read.set_column(
                9, "mops", widen(read["mops"]) if read["mops"].type == LEAN_MOPS else read["mops"]
            ).equals(history)


def test_a_column_that_the_footer_calls_empty_is_left_out_only_if_it_is(tmp_path, monkeypatch):
    path = tmp_path / "theirs.parquet"
    history = transactions(1, 2)
    pq.write_table(history.set_column(7, "value", pa.array([None, "x"])), path, row_group_size=1)
    for said, lean in ((["node", "key", "error"], True), (["value"], False)):
        monkeypatch.setattr(examination, "_said_to_be_empty", lambda _, said=said: said)
        with (tmp_path / "stream").open("wb") as out, pq.ParquetFile(path) as file:
            assert examination._is_written(path, file, out.fileno(), lean=True) is lean
        if lean:
            with pa.ipc.open_stream(tmp_path / "stream") as stream:
                table = stream.read_all()
            assert table.column_names == ["index", "time", "process", "type", "f", "value", "mops"]
            assert table["value"].to_pylist() == [None, "x"]


def test_the_footer_says_which_columns_are_empty(tmp_path):
    path = tmp_path / "theirs.parquet"
    pq.write_table(transactions(1, 2).set_column(7, "value", pa.array([None, "x"])), path, row_group_size=1)
    with pq.ParquetFile(path) as file:
        assert examination._said_to_be_empty(file) == ["node", "key", "error"]
    pq.write_table(transactions(1, 2), path, write_statistics=False)
    with pq.ParquetFile(path) as file:
        assert examination._said_to_be_empty(file) == []


def test_a_reader_of_a_long_file_does_not_decode_it(theirs, monkeypatch):
    alone = read_table(theirs, HISTORY, order="index")
    monkeypatch.setattr("schemaquake.results.store.store.read_stretches", lambda *_, **__: pytest.fail("decoded again"))
    assert read_history(theirs).equals(alone)


def test_a_file_that_changed_is_read_itself(theirs):
    examine(theirs, hand_over=True)
    other = pa.Table.from_pylist([{"index": 5, "time": 0, "process": 0, "type": "ok", "f": "x"}], schema=HISTORY)
    pq.write_table(other, theirs)
    assert take_examined(theirs) is None
    assert read_table(theirs, HISTORY).equals(other)


def test_of_a_file_that_is_damaged_in_the_middle_nothing_is_taken(theirs):
    content = bytearray(theirs.read_bytes())
    begin = pq.read_metadata(theirs).row_group(2).column(0).dictionary_page_offset or 0
    begin = begin or pq.read_metadata(theirs).row_group(2).column(0).data_page_offset
    content[begin : begin + 40] = bytes(40)
    theirs.write_bytes(content)
    examine(theirs, hand_over=True)
    assert take_examined(theirs) is None
    with pytest.raises(HistoryError, match="not a whole Parquet file"):
        read_history(theirs)


def test_a_file_that_ends_a_process_is_refused_when_it_is_handed_over(killer, monkeypatch):
    monkeypatch.setattr(examination, "_HANDED_FROM", 1)
    with pytest.raises(HistoryError, match="ends a process"):
        examine(killer, hand_over=True)
    assert take_examined(killer) is None


def test_nothing_of_a_long_file_is_read_before_it_is_examined(killer, monkeypatch):
    monkeypatch.setattr(judge_module, "_LONG", 1)
    monkeypatch.setattr("schemaquake.results.store.parquet_footer.pq.read_metadata", lambda *_: pytest.fail("read"))
    with pytest.raises(HistoryError, match="ends a process"):
        judge(HistoryFile(killer), engine="local", memory_bytes=1 << 32)


# ── lent to other processes ──────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_decoded_is_lent_to_another_process_for_as_long_as_the_block(theirs):
    alone = read_table(theirs, HISTORY, order="index")
    code = """
import sys
from pathlib import Path
from schemaquake.results.store.examination import read_lent
print(read_lent(Path(sys.argv[1])).num_rows)
"""
    examine(theirs, hand_over=True)
    with examined_lent(theirs) as place:
        for _ in range(2):  # several tasks may ask
            done = subprocess.run([sys.executable, "-c", code, place], capture_output=True, text=True, check=True)
            assert done.stdout == "100\n"
        with examined_lent(theirs) as second:
            assert second is None
    assert read_lent(place) is None
    assert take_examined(theirs) is None
    assert memory_files() == []
    assert OnDisk(theirs, lent=place).read(None).history.equals(alone)


def test_a_task_reads_what_is_lent_and_does_not_decode_the_file(theirs, monkeypatch):
    alone = read_table(theirs, HISTORY, order="index")
    examine(theirs, hand_over=True)
    monkeypatch.setattr("schemaquake.results.store.store.read_stretches", lambda *_, **__: pytest.fail("decoded again"))
    with examined_lent(theirs) as place:
        assert OnDisk(theirs, lent=place).read(None).history.equals(alone)


def test_what_was_decoded_of_a_file_that_changed_is_not_lent(theirs, tmp_path):
    examine(theirs, hand_over=True)
    pq.write_table(read_table(theirs, HISTORY).slice(0, 50), theirs)
    with examined_lent(theirs) as place:
        assert place is None
    with examined_lent(tmp_path / "theirs.parquet") as place:
        assert place is None


# ── begun before it is asked for ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def children(monkeypatch):
    """The processes that were started."""
    started = []
    popen = subprocess.Popen

    def remembered(*arguments, **options):
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr("subprocess.Popen", remembered)
    return started


def memory_files():
    """The memory of this process that holds what examinations decoded."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing
            found.append(str(descriptor.readlink()))
    return [name for name in found if name.startswith("/memfd:history")]


@pytest.mark.parametrize("wanted", [True, False], ids=["handed over", "not handed over"])
@pytest.mark.parametrize("begun", [True, False], ids=["with its table", "without"])
def test_what_was_begun_is_waited_for_and_not_done_again(theirs, children, begun, wanted):
    alone = read_table(theirs, HISTORY, order="index")
    begin_examination(theirs, hand_over=begun)
    examine(theirs, hand_over=wanted)
    assert len(children) == 1
    taken = take_examined(theirs)
    assert (taken is not None) == (begun and wanted)
    assert taken is None or taken.num_rows == alone.num_rows
    del taken  # which lies in the memory
    assert read_table(theirs, HISTORY, order="index").equals(alone)
    assert memory_files() == []


def test_a_file_that_ends_a_process_is_refused_when_its_examination_was_begun(killer, monkeypatch, children):
    monkeypatch.setattr(examination, "_HANDED_FROM", 1)
    for hand_over in (True, False):
        begin_examination(killer, hand_over=hand_over)
        with pytest.raises(HistoryError, match="ends a process"):
            examine(killer, hand_over=hand_over)
        killer.touch()
    assert len(children) == 2
    assert memory_files() == []


def test_a_file_that_changed_after_it_was_begun_is_examined_anew(theirs, killer, children):
    begin_examination(theirs, hand_over=True)
    shutil.copy(killer, theirs)
    with pytest.raises(HistoryError, match="ends a process"):
        examine(theirs, hand_over=True)
    assert len(children) == 2


def test_nothing_is_begun_for_our_own_files_and_for_what_is_none(tmp_path, theirs, children):
    ours = tmp_path / "ours.parquet"
    write_table(ours, read_table(theirs, HISTORY))
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(ours.read_bytes().replace(b"invoke", b"invite"))
    for path in (ours, damaged, tmp_path / "missing.parquet", tmp_path):
        begin_examination(path, hand_over=True)
    assert children == []


def test_another_file_takes_the_place_of_one_that_nobody_asked_for(theirs, tmp_path, children):
    other = shutil.copy(theirs, tmp_path / "other.parquet")
    begin_examination(theirs, hand_over=True)
    begin_examination(other, hand_over=True)
    assert children[0].returncode is not None
    examine(other, hand_over=True)
    assert take_examined(other).num_rows == 100
    assert memory_files() == []


def test_a_process_that_ends_leaves_no_examination_behind(theirs):
    code = f"""
import sys
from pathlib import Path
from schemaquake.results.store import examination
examination.begin_examination(Path({str(theirs)!r}))
(child,) = examination._begun.values()
print(child.process.pid)
sys.exit("nobody asked")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == "nobody asked\n"
    assert not Path(f"/proc/{int(done.stdout)}").exists()
