"""A journal that was damaged after it was written: no damage passes for what was written, and everything else is kept."""

from __future__ import annotations

import orjson
import pytest

from schemaquake.harness.errors import DamagedFile, JournalError
from schemaquake.harness.history.journal import (
    STARTED,
    Journal,
    ObservationJournal,
    read_clock,
    read_started,
    start_clock,
)
from schemaquake.harness.history.merge import damage_of, merge_history, merge_observations, torn_lines
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.run.event_heap import EventHeap
from schemaquake.harness.run.simulated_runtime import SimulatedClock


def events(path, count=5):
    with Journal(path, 0) as journal:
        for number in range(count):
            journal.event(number, "invoke", "add", "n1", "ks.t", {"a": number})
    return path


def readings(path):
    with ObservationJournal(path, 0) as journal:
        for sample in range(3):
            journal.append(
                [
                    Observation(
                        time=sample, phase="settled", node="n1", sample=sample, kind="table", keyspace="ks", name=name
                    )
                    for name in ("t", "u")
                ]
            )
    return path


def flipped(text, bit):
    return text[: bit // 8] + bytes([text[bit // 8] ^ 1 << bit % 8]) + text[bit // 8 + 1 :]


def test_no_flipped_bit_changes_an_event(tmp_path):
    path = tmp_path / "events-0.jsonl"
    with Journal(path, 0) as journal:
        journal.event(0, "invoke", "a")
        journal.event(0, "ok", "a", value=7)
    whole = path.read_bytes()
    written = merge_history([path], 0).to_pylist()
    passed = 0
    for bit in range(8 * len(whole)):
        path.write_bytes(flipped(whole, bit))
        try:
            found = merge_history([path], 0)
        except DamagedFile as error:
            assert "events-0.jsonl, line " in str(error)  # noqa: PT017 - most flips raise, and the others are compared
        else:
            passed += 1
            assert (found.to_pylist(), torn_lines(found)) == (written, 0), bit
    assert passed < 8 * len(',"crc":4294967295}_'), "only the first line's checksum and newline carry nothing else"


def test_a_flipped_bit_costs_one_line(tmp_path):
    path = events(tmp_path / "events-0.jsonl")
    whole = path.read_bytes()
    written = merge_history([path], 0)["process"].to_pylist()
    for at in range(0, len(whole), 7):
        path.write_bytes(flipped(whole, 8 * at + at % 8))
        kept = merge_history([path], 0, keep_going=True)
        line = whole[:at].count(b"\n")
        lost = [process for process in written if process not in kept["process"].to_pylist()]
        assert lost in ([], [line], [line, line + 1]), at
        assert len(lost) <= 1 or whole[at : at + 1] in b'\n"crc:,}0123456789', at
        assert not lost or damage_of(kept), at


def test_a_damaged_newline_costs_nothing(tmp_path):
    path = events(tmp_path / "events-0.jsonl")
    whole = path.read_bytes()
    for at in (at for at, octet in enumerate(whole[:-1]) if octet == ord("\n")):
        path.write_bytes(whole[:at] + b"\x0b" + whole[at + 1 :])
        assert merge_history([path], 0)["process"].to_pylist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("removed", "lost"), [((1,), [1, 2]), ((1, 2), [1, 2, 3]), ((0,), [0, 1])])
def test_lines_that_are_missing_are_missed(tmp_path, removed, lost):
    path = events(tmp_path / "events-0.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for number, line in enumerate(lines) if number not in removed))
    kept = merge_history([path], 0, keep_going=True)
    assert kept["process"].to_pylist() == [number for number in range(5) if number not in lost]
    assert len(damage_of(kept)) == 1


@pytest.mark.parametrize("lines", [b"null\n", b"null\nnull\n", b'null\n{"time":1}\n', b"[1,2]\n", b" null\n"])
def test_a_journal_of_other_json_than_objects_is_damaged(tmp_path, lines):
    path = tmp_path / "events-0.jsonl"
    path.write_bytes(lines)
    with pytest.raises(DamagedFile, match="line 1: an event is a JSON object, and this is not"):
        merge_history([path], 0)


def test_a_line_that_stands_twice_counts_once(tmp_path):
    path = events(tmp_path / "events-0.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[1], *lines[2:]]))
    kept = merge_history([path], 0, keep_going=True)
    assert sorted(kept["process"].to_pylist()) == [0, 1, 2, 3, 4]
    assert len(damage_of(kept)) == 1


def test_a_hole_of_zeros_costs_what_lay_in_it(tmp_path):
    path = events(tmp_path / "events-0.jsonl", 40)
    whole = path.read_bytes()
    path.write_bytes(whole[:1000] + bytes(1000) + whole[2000:])
    first, last = whole[:1000].count(b"\n"), whole[:2000].count(b"\n")
    kept = merge_history([path], 0, keep_going=True)["process"].to_pylist()
    assert kept == [number for number in range(40) if not first <= number <= last]


def test_a_torn_line_is_no_damage_and_a_damaged_newline_is_no_torn_line(tmp_path):
    path = events(tmp_path / "events-0.jsonl")
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, len(whole) - 1) + 1
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        assert merge_history([path], 0)["process"].to_pylist() == [0, 1, 2, 3]
    path.write_bytes(whole[:-1] + b"\x0b")
    with pytest.raises(DamagedFile):
        merge_history([path], 0)


def test_a_reading_with_a_damaged_line_is_none(tmp_path):
    path = readings(tmp_path / "observations-0.jsonl")
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for number in range(6):
        at = sum(map(len, lines[:number])) + 12
        path.write_bytes(flipped(whole, 8 * at))
        kept = merge_observations([path], 0, keep_going=True)
        assert len(kept) % 2 == 0
        assert number // 2 not in kept["sample"].to_pylist()
        assert len(damage_of(kept)) == 1


def test_no_flipped_bit_changes_an_observation(tmp_path):
    path = readings(tmp_path / "observations-0.jsonl")
    whole = path.read_bytes()
    written = merge_observations([path], 0).to_pylist()
    for bit in range(0, 8 * len(whole), 13):
        path.write_bytes(flipped(whole, bit))
        try:
            found = merge_observations([path], 0)
        except DamagedFile:
            continue
        assert (found.to_pylist(), torn_lines(found)) == (written, 0), bit


def test_a_journal_that_is_continued_is_one(tmp_path):
    path = events(events(tmp_path / "events-0.jsonl"))
    assert len(merge_history([path], 0)) == 10
    whole = path.read_bytes()
    path.write_bytes(flipped(whole, 8 * 20))
    with pytest.raises(DamagedFile, match="line 1: "):
        merge_history([path], 0)


def test_a_journal_of_0_1_is_read_and_continued(tmp_path):
    path = tmp_path / "events-0.jsonl"
    path.write_bytes(b'{"time":5,"process":9,"type":"invoke","f":"read"}\n')
    assert merge_history([path], 0)["process"].to_pylist() == [9]
    events(path)
    assert merge_history([path], 0)["process"].to_pylist() == [9, 0, 1, 2, 3, 4]
    path.write_bytes(path.read_bytes().replace(b'"process":9', b'"process":8'))
    with pytest.raises(DamagedFile, match="line 1: "):
        merge_history([path], 0)


def test_no_flipped_bit_changes_when_a_run_began(tmp_path):
    start_clock(tmp_path)
    path = tmp_path / STARTED
    whole = path.read_bytes()
    began = read_clock(tmp_path), read_started(tmp_path)
    for bit in range(0, 8 * len(whole), 3):
        path.write_bytes(flipped(whole, bit))
        try:
            found = read_clock(tmp_path), read_started(tmp_path)
        except DamagedFile:
            continue
        assert found == began, bit
    path.write_bytes(orjson.dumps({"started_ns": 5, "started_utc": "2026-01-01T00:00:00+00:00"}) + b"\n")
    assert read_clock(tmp_path) == 5


def test_a_run_in_virtual_time_began_at_no_date(tmp_path):
    path = tmp_path / STARTED
    path.write_bytes(orjson.dumps({"started_ns": 0, "started_utc": "2000-01-01T00:00:00.000+00:00"}) + b"\n")
    assert read_started(tmp_path) is None
    path.write_bytes(orjson.dumps({"started_ns": 0, "started_utc": "2000-01-01T00:00:00.001+00:00"}) + b"\n")
    assert read_started(tmp_path) is not None


def test_a_journal_is_synced_once_for_what_was_written_since(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fdatasync", synced.append)
    journal = Journal(tmp_path / "events-0.jsonl", 0)
    journal.sync()
    assert not synced
    journal.event(0, "invoke", "add")
    journal.sync()
    journal.sync()
    assert len(synced) == 1
    journal.close()
    journal.sync()
    assert len(synced) == 1


def test_a_disk_that_cannot_be_synced_ends_the_journal(tmp_path, monkeypatch):
    def fails(descriptor):
        raise OSError(5, "Input/output error")

    journal = Journal(tmp_path / "events-0.jsonl", 0)
    journal.event(0, "invoke", "add")
    monkeypatch.setattr("os.fdatasync", fails)
    with pytest.raises(JournalError, match="Input/output error"):
        journal.sync()
    with pytest.raises(JournalError, match="Input/output error"):
        journal.event(0, "ok", "add")


def test_a_repeatable_run_is_not_synced(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fdatasync", lambda descriptor: pytest.fail("synced"))
    monkeypatch.setattr("os.fsync", lambda descriptor: pytest.fail("synced"))
    journal = Journal(tmp_path / "events-0.jsonl", 0, durable=False)
    journal.event(0, "invoke", "add")
    journal.sync()
    journal.close()


def test_a_repeatable_run_writes_whole_lines_late_and_the_same(tmp_path):
    paths = [tmp_path / f"events-{name}.jsonl" for name in ("late", "ahead")]
    clock = EventHeap()
    for path, durable in zip(paths, (False, True), strict=True):
        clock.now_ns = 0
        journal = Journal(path, 0, clock=SimulatedClock(clock), durable=durable)
        for number in range(1500):
            journal.event(0, "invoke", "add", value=number)
            if not number:
                assert bool(path.stat().st_size) is durable
        assert path.read_bytes().endswith(b"\n")
        journal.close()
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_repeatable_run_on_a_full_disk_ends_with_its_journal(tmp_path, monkeypatch):
    def full(descriptor, data):
        raise OSError(28, "No space left on device")

    journal = Journal(tmp_path / "events-0.jsonl", 0, durable=False)
    journal.event(0, "invoke", "add")
    monkeypatch.setattr("os.write", full)
    with pytest.raises(JournalError, match="No space left"):
        journal.close()
    with pytest.raises(JournalError, match="No space left"):
        journal.event(0, "ok", "add")


def test_a_journal_is_not_opened_through_a_link(tmp_path):
    (tmp_path / "events-0.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError):
        Journal(tmp_path / "events-0.jsonl", 0)
    assert not (tmp_path / "elsewhere").exists()
