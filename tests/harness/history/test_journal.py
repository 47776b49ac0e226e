from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.errors import HistoryError, JournalError
from schemaquake.harness.history.journal import (
    EVENT_JOURNALS,
    Journal,
    ObservationJournal,
    read_clock,
    start_clock,
)
from schemaquake.harness.history.merge import merge_history
from schemaquake.harness.history.pairing import pair
from schemaquake.harness.machine_time import MachineClock
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import NEMESIS, Operation


@pytest.fixture
def started_ns() -> int:
    return time.monotonic_ns()


def lines_of(path: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def observation(name: str, **rest: object) -> Observation:
    return Observation(**{"time": time.monotonic_ns(), "phase": "settled", "node": "n1", "sample": 1, "kind": "table"} | {"keyspace": "ks", "name": name} | rest)  # fmt: skip


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_line_holds_the_columns_of_a_history_without_its_nulls(tmp_path, started_ns):
    path = tmp_path / "events-0.jsonl"
    with Journal(path, started_ns) as journal:
        invoked = journal.event(3, "invoke", "insert", "n1", "ks.t", {"row": {"k": 1}})
        completed = journal.event(3, "ok", "insert")
    assert [{name: value for name, value in line.items() if name != "crc"} for line in lines_of(path)] == [
        {"time": invoked, "process": 3, "type": "invoke", "f": "insert", "node": "n1", "key": "ks.t", "value": '{"row":{"k":1}}'},
        {"time": completed, "process": 3, "type": "ok", "f": "insert"},
    ]  # fmt: skip


def test_a_line_is_in_the_file_as_soon_as_the_call_returns(tmp_path, started_ns):
    path = tmp_path / "events-0.jsonl"
    journal = Journal(path, started_ns)
    journal.event(0, "invoke", "read")
    assert len(lines_of(path)) == 1
    journal.close()


def test_an_event_is_one_write(tmp_path, started_ns, monkeypatch):
    writes = []
    write = os.write
    journal = Journal(tmp_path / "events-0.jsonl", started_ns)
    monkeypatch.setattr(os, "write", lambda descriptor, data: writes.append(data) or write(descriptor, data))
    journal.event(0, "invoke", "read", "n1", "k", [1], "e", [("r", 1, None, None)])
    assert len(writes) == 1
    journal.close()


def test_an_operation_is_recorded_now_whatever_its_time_says(tmp_path, started_ns):
    path = tmp_path / "events-0.jsonl"
    operation = Operation(process=1, type="info", f="txn", error="timed out", mops=(("append", 1, 2, None),), time=5)
    with Journal(path, started_ns) as journal:
        recorded = journal.append(operation)
    assert recorded >= started_ns
    (line,) = lines_of(path)
    assert line["time"] == recorded
    assert line["mops"] == [{"f": "append", "k": 1, "v": 2, "vs": None}]
    assert line["error"] == "timed out"


def test_times_strictly_increase_even_if_the_clock_stands_still(tmp_path, started_ns):
    class StandingClock(MachineClock):
        stamp_ns = staticmethod(lambda: started_ns)

    journal = Journal(tmp_path / "events-0.jsonl", started_ns, clock=StandingClock())
    times = [journal.event(0, "invoke" if n % 2 else "ok", "read") for n in range(10)]
    assert times == list(range(started_ns, started_ns + 10))
    journal.close()


def test_a_value_that_is_null_and_one_that_is_false_are_told_apart(tmp_path, started_ns):
    path = tmp_path / "events-0.jsonl"
    with Journal(path, started_ns) as journal:
        journal.event(0, "invoke", "read", value=None)
        journal.event(0, "ok", "read", value=False)
    assert merge_history([path], started_ns)["value"].to_pylist() == [None, "false"]


def test_an_error_that_is_not_unicode_is_recorded_all_the_same(tmp_path, started_ns):
    path = tmp_path / "events-0.jsonl"
    with Journal(path, started_ns) as journal:
        journal.event(0, "invoke", "read")
        journal.event(0, "info", "read", error=b"broken \xff".decode(errors="surrogateescape"))
    assert merge_history([path], started_ns)["error"].to_pylist() == [None, "broken \\udcff"]


def test_an_event_of_no_type_is_refused(tmp_path, started_ns):
    path = tmp_path / "events-0.jsonl"
    with Journal(path, started_ns) as journal, pytest.raises(ValueError, match="'done' is not an event's type"):
        journal.event(0, "done", "read")
    assert path.read_bytes() == b""


def test_threads_share_a_journal_without_tearing_each_others_lines(tmp_path, started_ns):
    path = tmp_path / "events-0.jsonl"
    with Journal(path, started_ns) as journal:

        def work(process: int) -> None:
            for n in range(300):
                journal.event(process, "invoke", "insert", "n1", "ks.t", {"n": n})
                journal.event(process, "ok", "insert", "n1", "ks.t", {"n": n})

        threads = [threading.Thread(target=work, args=(process,)) for process in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    times = [line["time"] for line in lines_of(path)]
    assert times == sorted(set(times))
    assert pair(merge_history([path], started_ns))["type"].to_pylist() == ["ok"] * 1200


def test_a_closed_journal_takes_nothing_and_may_be_closed_again(tmp_path, started_ns):
    journal = Journal(tmp_path / "events-0.jsonl", started_ns)
    journal.close()
    journal.close()
    with pytest.raises(ValueError, match="is closed"):
        journal.event(0, "invoke", "read")


def test_a_journal_is_continued_behind_what_is_there(tmp_path, started_ns):
    path = tmp_path / "events-0.jsonl"
    for _ in range(2):
        with Journal(path, started_ns) as journal:
            journal.event(NEMESIS, "info", "note")
    assert len(merge_history([path], started_ns)) == 2


def test_a_torn_journal_is_not_continued(tmp_path, started_ns):
    path = tmp_path / "events-0.jsonl"
    path.write_bytes(b'{"time":')
    with pytest.raises(JournalError, match=r"events-0\.jsonl ends in a torn line.*journal of its own"):
        Journal(path, started_ns)


def test_a_journal_in_no_folder_says_which(tmp_path, started_ns):
    with pytest.raises(JournalError, match=r"cannot write .*absent/events-0\.jsonl: No such file or directory"):
        Journal(tmp_path / "absent" / "events-0.jsonl", started_ns)


def test_a_run_that_starts_in_the_future_is_on_another_machine(tmp_path):
    with pytest.raises(JournalError, match="the machine, and within the boot"):
        Journal(tmp_path / "events-0.jsonl", time.monotonic_ns() + 10**12)


def test_a_full_disk_stops_the_journal_for_good_and_says_what_to_do(tmp_path):
    """A real limit, not a mock: the kernel writes what fits and refuses the rest, as on a full disk."""
    path = tmp_path / "journals" / "events-0.jsonl"
    path.parent.mkdir()
    program = f"""
import resource, signal, time
from pathlib import Path
from schemaquake.harness.errors import JournalError
from schemaquake.harness.history.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path({str(path)!r}), time.monotonic_ns())
most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, most))
written = 0
try:
    while True:
        journal.event(0, "invoke" if written % 2 == 0 else "ok", "read", "n1", "ks.t", "x" * 40)
        written += 1
except JournalError as error:
    print(written, error)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))  # there is room again, behind a torn line
try:
    journal.event(0, "ok", "read")
except JournalError as error:
    print("again", error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path.cwd())
    first, second = done.stdout.splitlines()
    written = int(first.split()[0])
    assert f"cannot write {path}: File too large (" in first
    assert "MiB free on its file system" in first
    assert f'"schemaquake recover {tmp_path}"' in first
    assert second.startswith("again cannot write")
    assert path.stat().st_size == 1000
    assert len(merge_history([path], 0)) == written


def test_a_harness_that_is_killed_loses_nothing_it_had_recorded(tmp_path):
    path = tmp_path / "events-0.jsonl"
    program = f"""
import sys, time
from pathlib import Path
from schemaquake.harness.history.journal import Journal
journal = Journal(Path({str(path)!r}), time.monotonic_ns())
while True:
    journal.event(0, "invoke", "read")
    journal.event(0, "ok", "read")
    print("done", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=Path.cwd()) as process:
        assert process.stdout is not None
        for _ in range(100):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        told = 100 + process.stdout.read().count(b"\n")
    assert len(merge_history([path], 0)) >= 2 * told


# ── observations ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_reading_is_one_write_and_says_how_many_lines_are_left(tmp_path, started_ns, monkeypatch):
    path = tmp_path / "observations-0.jsonl"
    writes = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: writes.append(data) or write(descriptor, data))
    with ObservationJournal(path, started_ns) as journal:
        journal.append([observation("t", definition={"columns": {}}), observation("u", definition=None)])
        journal.append([])
    assert [line["left"] for line in lines_of(path)] == [1, 0]
    assert lines_of(path)[0]["definition"] == '{"columns":{}}'
    assert "definition" not in lines_of(path)[1]
    assert len([data for data in writes if data]) == 1


def test_an_observation_from_before_the_run_is_refused(tmp_path, started_ns):
    journal = ObservationJournal(tmp_path / "observations-0.jsonl", started_ns)
    with journal, pytest.raises(ValueError, match="the run's clock"):
        journal.append([observation("t", time=1)])


# ── the run's clock ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_clock_that_was_started_is_read_back(tmp_path):
    started_ns = start_clock(tmp_path)
    assert read_clock(tmp_path) == started_ns
    assert orjson.loads((tmp_path / "started.json").read_bytes())["started_utc"].endswith("+00:00")


def test_a_clock_is_started_once(tmp_path):
    start_clock(tmp_path)
    with pytest.raises(JournalError, match=r"started\.json exists: another run"):
        start_clock(tmp_path)


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"started_ns": "5"}', b'{"started_ns": true}'])
def test_a_damaged_clock_is_told(tmp_path, text):
    (tmp_path / "started.json").write_bytes(text)
    with pytest.raises(HistoryError, match=r"started\.json is damaged"):
        read_clock(tmp_path)


def test_a_missing_clock_is_told(tmp_path):
    with pytest.raises(HistoryError, match=r"started\.json is missing"):
        read_clock(tmp_path)


# ── there and back ───────────────────────────────────────────────────────────────────────────────────────────────────

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
numbers = st.integers(-(2**63), 2**63 - 1)
mops = st.tuples(
    st.sampled_from(["r", "w", "append"]), numbers, st.none() | numbers, st.none() | st.lists(numbers, max_size=3)
)


@given(
    st.lists(
        st.tuples(
            st.integers(-1, 3),
            st.sampled_from(["invoke", "ok", "fail", "info"]),
            texts,
            st.none() | texts,
            st.none() | texts,
            values,
            st.none() | texts,
            st.none() | st.lists(mops, max_size=2),
        ),
        max_size=12,
    )
)
def test_whatever_is_recorded_is_read_back(tmp_path_factory, events):
    folder = tmp_path_factory.mktemp("journals")
    started_ns = start_clock(folder)
    path = folder / "events-0.jsonl"
    with Journal(path, started_ns) as journal:
        times = [journal.event(*event) for event in events]
    merged = merge_history(sorted(folder.glob(EVENT_JOURNALS)), read_clock(folder))
    expected = []
    for index, (recorded, (process, kind, f, node, key, value, error, micro)) in enumerate(
        zip(times, events, strict=True)
    ):
        expected.append(
            {
                "index": index,
                "time": recorded - started_ns,
                "process": process,
                "type": kind,
                "f": f,
                "node": node,
                "key": key,
                "value": None if value is None else orjson.dumps(value).decode(),
                "error": error,
                "mops": None if micro is None else [dict(zip(("f", "k", "v", "vs"), m, strict=True)) for m in micro],
            }
        )
    assert merged.to_pylist() == expected
