"""A ledger that was damaged after it was written: nothing that can be read is lost, and nothing else is believed."""

from __future__ import annotations

import json

import pytest

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger, examine_ledger, parse_ledger, read_ledger
from schemaquake.harness.model.protocols import Fault


def fault(number=0):
    return Fault(id=number, nemesis="cut", begins_s=1.5, ends_s=9, nodes=("n1",), parameters={"crc": 5, "x": [1]})


@pytest.fixture
def path(tmp_path):
    """A ledger of a fault in place, one that was undone, and one that is about to begin."""
    ledger = Ledger(tmp_path / FILE_NAME)
    ledger.injected(ledger.plan(fault(7)), {"crc": 5})
    undone = ledger.plan(fault(8))
    ledger.healed(undone, None)
    ledger.plan(fault(9))
    ledger.close()
    return ledger.path


def flipped(text, bit):
    return text[: bit // 8] + bytes([text[bit // 8] ^ 1 << bit % 8]) + text[bit // 8 + 1 :]


def test_no_flipped_bit_changes_an_entry_and_each_is_told(path):
    whole = b"".join(path.read_bytes().splitlines(keepends=True)[1:4])
    entries = parse_ledger(whole).entries
    for bit in range(8 * len(whole)):
        text = parse_ledger(flipped(whole, bit))
        assert all(entry in entries for entry in text.entries), bit
        assert text.damage, bit
        assert len(text.entries) >= len(entries) - 1, bit


def test_a_fault_is_open_although_any_one_line_was_damaged(path):
    whole = path.read_bytes()
    for at in range(0, len(whole) - 1, 7):
        path.write_bytes(flipped(whole, 8 * at))
        ledger = Ledger(path)
        open_ids = {entry.fault.id for entry in ledger.open_faults()}
        assert 7 in open_ids
        assert 9 in open_ids or any(damage.line == 5 or damage.line is None for damage in ledger.damage)
        ledger.close()


def test_a_damaged_newline_costs_no_entry(path):
    whole = path.read_bytes()
    for at in (at for at, octet in enumerate(whole) if octet == ord("\n")):
        path.write_bytes(flipped(whole, 8 * at))
        assert len(examine_ledger(path).entries) == 5
        ledger = Ledger(path)
        ledger.healed(0)
        ledger.close()
        assert [entry.state for entry in examine_ledger(path).entries][-1] == "healed"


@pytest.mark.parametrize(
    "damage",
    [
        b"garbage",
        b"{}",
        b"",
        b"\xff\xfe",
        b"[" * 5000,
        b'{"id": 0, "kind": "fault"}',
        b'{"id": 0, "at": "", "kind": "x", "state": "lost", "effect": 1}',
        b'{"id":0,"at":"","kind":"fault","state":"healed","nemesis":"cut","fault":{"nodes":"n1"},"effect":null}',
        b'{"id":1e400,"at":"","kind":"run","state":"skipped","what":{"name":"r"},"effect":null}',
        b'{"id":true,"at":"","kind":"run","state":"skipped","what":{"name":"r"},"effect":null}',
        b'{"id":0,"at":"","kind":"run","state":"skipped","what":{"name":"r"},"effect":null,"crc":99999999999999}',
        b'{"id":0,"at":"","kind":"run","state":"skipped","what":{"name":"r"},"effect":null,"crb":99}',
    ],
)
def test_damage_between_lines_is_named_by_its_line(path, damage):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], damage, b"\n", *lines[1:]]))
    text = examine_ledger(path)
    assert len(text.entries) == 5
    assert [one.line for one in text.damage] == [2]
    with pytest.raises(HistoryError, match=r"ledger\.jsonl, line 2: "):
        read_ledger(path)


def test_a_line_that_was_removed_is_missed(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[4]]))
    assert [str(one) for one in examine_ledger(path).damage] == ["entry 1 is missing"]


def test_an_absurd_number_ends_nothing(path):
    with path.open("ab") as file:
        file.write(
            b'{"id":4611686018427387904,"at":"","kind":"run","state":"skipped","what":{"name":"r"},"effect":null}\n'
        )
    assert [one.line for one in examine_ledger(path).damage] == [None]


def test_a_ledger_of_0_1_is_read_and_written_on(path):
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    path.write_text("".join(f"{json.dumps(line | {'crc': None})}\n".replace(', "crc": null', "") for line in lines))
    ledger = Ledger(path)
    assert [entry.fault.id for entry in ledger.open_faults()] == [7, 9]
    assert not ledger.damage
    ledger.healed(0)
    ledger.close()
    assert [entry.state for entry in read_ledger(path)][-1] == "healed"


def test_a_ledger_is_not_opened_through_a_link(path, tmp_path):
    link = tmp_path / "elsewhere.jsonl"
    link.symlink_to(path)
    with pytest.raises(HistoryError, match="is a link"):
        Ledger(link)
    with pytest.raises(HistoryError, match="is a link"):
        examine_ledger(link)


def test_a_hostile_line_of_many_beginnings_takes_no_time(path):
    path.write_bytes(b'{"id":,"crc":1}' * 200_000 + b"\n")
    assert [one.line for one in examine_ledger(path).damage] == [1]
