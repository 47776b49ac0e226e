from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import schemaquake.harness.history.merge as merging
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.merge import merge_history, merge_observations, torn_lines
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS


def journal(path: Path, *lines: str) -> Path:
    """One event a line, `time process type`; all of them are reads."""
    rows = []
    for line in lines:
        at, process, kind = line.split()
        rows.append({"time": int(at), "process": int(process), "type": kind, "f": "read"})
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def order(paths: list[Path], started_ns: int = 0) -> list[str]:
    table = merge_history(paths, started_ns)
    assert table["index"].to_pylist() == list(range(len(table)))
    return [f"{row['time']} {row['process']} {row['type']}" for row in table.to_pylist()]


def reading(*names: str, at: int = 5, node: str = "n1", left: bool = True) -> bytes:
    rows: list[dict[str, Any]] = [
        {"time": at, "phase": "settled", "node": node, "sample": 1, "kind": "table", "keyspace": "k", "name": name}
        for name in names
    ]
    if left:
        rows = [row | {"left": len(rows) - 1 - position} for position, row in enumerate(rows)]
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


# ── order ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_journals_are_merged_by_time_and_counted_from_the_start(tmp_path):
    a = journal(tmp_path / "a", "110 0 invoke", "140 0 ok")
    b = journal(tmp_path / "b", "120 1 invoke", "130 1 fail")
    assert order([a, b], 100) == ["10 0 invoke", "20 1 invoke", "30 1 fail", "40 0 ok"]


def test_at_equal_times_an_invocation_comes_before_anothers_completion(tmp_path):
    a = journal(tmp_path / "a", "1 0 invoke", "2 0 ok")
    b = journal(tmp_path / "b", "2 1 invoke", "3 1 ok")
    assert order([a, b]) == ["1 0 invoke", "2 1 invoke", "2 0 ok", "3 1 ok"]


def test_at_equal_times_a_process_own_events_keep_their_order(tmp_path):
    a = journal(tmp_path / "a", "1 0 invoke", "2 0 ok", "2 0 invoke", "2 0 fail")
    b = journal(tmp_path / "b", "2 1 invoke")
    assert order([a, b]) == ["1 0 invoke", "2 1 invoke", "2 0 ok", "2 0 invoke", "2 0 fail"]


def test_what_else_is_equal_comes_by_file_and_line(tmp_path):
    a = journal(tmp_path / "a", "1 -1 info", "1 2 invoke")
    b = journal(tmp_path / "b", "1 1 invoke", "1 -1 info")
    assert order([b, a]) == ["1 1 invoke", "1 2 invoke", "1 -1 info", "1 -1 info"]


def test_no_journals_and_empty_ones_make_an_empty_history(tmp_path):
    assert merge_history([], 0).equals(HISTORY.empty_table())
    assert merge_history([journal(tmp_path / "a")], 0).equals(HISTORY.empty_table())
    assert merge_observations([], 0).equals(OBSERVATIONS.empty_table())


@st.composite
def journals(draw: st.DrawFn) -> list[list[tuple[int, int, str]]]:
    """A few files; each process lives in one of them and its time never goes back; ties abound."""
    files: list[list[tuple[int, int, str]]] = [[] for _ in range(draw(st.integers(1, 3)))]
    for number, file in enumerate(files):
        clocks = {10 * number: 0, 10 * number + 1: 0, -1: 0}
        for _ in range(draw(st.integers(0, 8))):
            process = draw(st.sampled_from(sorted(clocks)))
            clocks[process] += draw(st.integers(0, 2))
            kind = "info" if process == -1 else draw(st.sampled_from(["invoke", "ok", "fail", "info"]))
            file.append((clocks[process], process, kind))
    return files


@given(journals())
def test_the_merged_order_keeps_its_promises(tmp_path_factory, files):
    folder = tmp_path_factory.mktemp("journals")
    paths = [journal(folder / str(n), *(" ".join(map(str, event)) for event in file)) for n, file in enumerate(files)]
    merged = [(row["time"], row["process"], row["type"]) for row in merge_history(paths, 0).to_pylist()]
    assert sorted(merged) == sorted(event for file in files for event in file), "nothing is lost or added"
    assert [time for time, *_ in merged] == sorted(time for time, *_ in merged)
    for number, file in enumerate(files):
        for process in (10 * number, 10 * number + 1):
            own = [event for event in file if event[1] == process]
            assert [event for event in merged if event[1] == process] == own
    for before, after in pairwise(merged):
        if before[0] == after[0] and after[2] == "invoke" and before[2] != "invoke":
            own = [kind for at, process, kind in merged if (at, process) == after[:2]]
            assert set(own) != {"invoke"}, "only a process' own earlier event may hold an invocation back"


# ── damage ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_torn_line_at_the_end_is_left_out_and_counted(tmp_path, caplog):
    a = journal(tmp_path / "a", "1 0 invoke", "2 0 ok")
    b = journal(tmp_path / "b", "1 1 invoke")
    a.write_bytes(a.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING):
        merged = merge_history([a, b], 0)
    assert merged["type"].to_pylist() == ["invoke", "invoke"]
    assert torn_lines(merged) == 1
    assert [record.file for record in caplog.records] == [str(a)]


def test_a_whole_journal_counts_no_torn_line(tmp_path):
    assert torn_lines(merge_history([journal(tmp_path / "a", "1 0 invoke")], 0)) == 0


@given(cut=st.integers(0, 200))
def test_wherever_a_journal_is_cut_its_whole_lines_are_read(tmp_path_factory, cut):
    path = journal(tmp_path_factory.mktemp("journals") / "a", *(f"{n} 0 invoke" for n in range(1, 5)))
    text = path.read_bytes()[:cut]
    path.write_bytes(text)
    merged = merge_history([path], 0)
    assert len(merged) == text.count(b"\n")
    assert torn_lines(merged) == (0 if text.endswith(b"\n") or not text else 1)


GOOD = b'{"time":5,"process":0,"type":"invoke","f":"read"}\n'

DAMAGE = {
    "torn in the middle": (b'{"time":6,"proc' + GOOD, "it is not JSON"),
    "two events on a line": (GOOD.strip() + GOOD, "it is not JSON"),
    "an empty line": (b"\n", "it is not JSON"),
    "a hole of zeros": (b"\0\0\0\0\n", "it is not JSON"),
    "not an object": (b"[1]\n", "is a JSON object, and this is not"),
    "not UTF-8": (b'{"time":6,"process":0,"type":"ok","f":"\xff"}\n', "it is not JSON"),
    "no process": (b'{"time":6,"type":"ok","f":"read"}\n', "an event must have a 'process'"),
    "a null process": (b'{"time":6,"process":null,"type":"ok","f":"read"}\n', "an event must have a 'process'"),
    "an unknown type": (b'{"time":6,"process":0,"type":"done","f":"read"}\n', "its 'type' is 'done', not one of"),
    "an unknown column": (b'{"time":6,"process":0,"type":"ok","f":"read","who":1}\n', "an event has no 'who'"),
    "a number for a name": (b'{"time":6,"process":0,"type":"ok","f":7}\n', "its 'f' should be string, and is 7"),
    "half a process": (b'{"time":6,"process":0.5,"type":"ok","f":"r"}\n', "its 'process' should be int32"),
    "too large a process": (b'{"time":6,"process":9876543210,"type":"ok","f":"r"}\n', "its 'process' should be int32"),
    "before the start": (b'{"time":2,"process":0,"type":"ok","f":"read"}\n', "lies before the start of the run, 3"),
    "time goes back": (b'{"time":4,"process":0,"type":"ok","f":"read"}\n', "the time of process 0 goes back from 5 to 4"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "reason"), DAMAGE.values(), ids=DAMAGE)
def test_any_other_damage_is_named_by_file_line_and_reason(tmp_path, line, reason):
    path = tmp_path / "events-0.jsonl"
    path.write_bytes(GOOD + line + GOOD)
    with pytest.raises(HistoryError, match=r"events-0\.jsonl, line 2: ") as raised:
        merge_history([path], 3)
    assert reason in str(raised.value)


def test_a_line_longer_than_a_block_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(merging, "_BLOCK", 64)
    path = tmp_path / "events-0.jsonl"
    long = orjson.dumps({"time": 6, "process": 0, "type": "ok", "f": "read", "value": "x" * 500, "mops": []})
    path.write_bytes(GOOD + long + b"\n")
    merged = merge_history([path], 0)
    assert merged["value"].to_pylist() == [None, "x" * 500]
    assert merged["mops"].to_pylist() == [None, []]


def test_a_journal_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(HistoryError, match=r"cannot read .*absent"):
        merge_history([tmp_path / "absent"], 0)


# ── observations ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_observations_are_ordered_by_time_and_node_and_otherwise_stay_as_they_were_read(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(reading("t", at=9, node="n10") + reading("z", "y", at=8, node="n2"))
    b.write_bytes(reading("u", at=8, node="n1"))
    merged = merge_observations([a, b], 3)
    assert merged.schema.equals(OBSERVATIONS)
    assert merged.select(["time", "node", "name"]).to_pydict() == {
        "time": [5, 5, 5, 6],
        "node": ["n1", "n2", "n2", "n10"],
        "name": ["u", "z", "y", "t"],
    }


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_half_a_reading_is_none(tmp_path, kept, caplog):
    """Kept, it would say of the objects it lacks that they are absent."""
    path = tmp_path / "observations-0.jsonl"
    half = reading("a", "b", "c", at=7).splitlines(keepends=True)[:kept]
    path.write_bytes(reading("t", "u") + b"".join(half))
    merged = merge_observations([path], 0)
    assert merged["name"].to_pylist() == ["t", "u"]
    assert torn_lines(merged) == (1 if kept else 0)


def test_a_reading_torn_within_a_line_is_none_either(tmp_path):
    path = tmp_path / "observations-0.jsonl"
    path.write_bytes(reading("t") + reading("a", "b", at=7)[:-9])
    merged = merge_observations([path], 0)
    assert merged["name"].to_pylist() == ["t"]
    assert torn_lines(merged) == 1


def test_observations_that_say_nothing_of_readings_stand_alone(tmp_path):
    path = tmp_path / "observations-0.jsonl"
    path.write_bytes(reading("t", "u", left=False))
    assert merge_observations([path], 0)["name"].to_pylist() == ["t", "u"]


def test_an_observation_of_no_kind_is_damage(tmp_path):
    path = tmp_path / "observations-0.jsonl"
    path.write_bytes(reading("t").replace(b'"table"', b'"spoon"'))
    with pytest.raises(HistoryError, match=r"line 1: its 'kind' is 'spoon', not one of aggregate"):
        merge_observations([path], 0)
