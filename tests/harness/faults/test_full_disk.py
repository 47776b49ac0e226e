"""A full disk under the ledger: faults are undone first, and written down as soon as there is room."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from contextlib import suppress
from itertools import islice

import pytest
from test_faults import Bench, Blow, fault

from schemaquake.harness.errors import JournalError
from schemaquake.harness.faults.executor import FaultFailed
from schemaquake.harness.faults.healing import heal_open
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger, examine_ledger, read_ledger


class FullDisk:
    """A stand-in for a full disk: `room` bytes can be written to files, and then no more."""

    def __init__(self, monkeypatch):
        self.room = None
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, descriptor, data):
        # Not to pipes: what earlier tests left to the garbage collector may tell other processes of its end now.
        if self.room is None or not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return self._write(descriptor, data)
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written


@pytest.fixture
def disk(monkeypatch):
    return FullDisk(monkeypatch)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MiB."""
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("a file system cannot be mounted here; the stand-in shows the same")
    yield tmp_path
    subprocess.run(["umount", "-l", tmp_path], check=True)


@pytest.mark.parametrize("room", [0, 1, 60, 200, 500])
def test_a_fault_is_undone_although_nothing_can_be_written(tmp_path, disk, room):
    bench, nemesis = Bench(tmp_path), Blow()
    bench.executor.inject(nemesis, fault(4))
    before = bench.ledger.path.read_bytes()
    disk.room = room
    bench.executor.heal_all()
    assert nemesis.log == ["inject 4", "heal 4"]
    assert bench.ledger.path.read_bytes().startswith(before)
    assert not examine_ledger(bench.ledger.path).damage


def test_a_line_that_did_not_fit_is_cut_back_and_written_when_there_is_room(tmp_path, disk):
    bench, nemesis = Bench(tmp_path), Blow()
    bench.executor.inject(nemesis, fault(4))
    disk.room = 30
    bench.executor.heal(4)
    assert bench.states == [(4, "planned"), (4, "injected")]
    assert bench.ledger.open_faults() == []
    disk.room = None
    bench.executor.inject(nemesis, fault(5))
    assert bench.states == [(4, state) for state in ("planned", "injected", "healing", "healed")] + [
        (5, "planned"),
        (5, "injected"),
    ]


def test_a_ledger_that_stays_behind_says_so_when_it_is_closed(tmp_path, disk):
    bench = Bench(tmp_path)
    bench.executor.inject(Blow(), fault(4))
    disk.room = 0
    bench.executor.heal(4)
    with pytest.raises(JournalError, match=r"it still lists faults that are undone: entries 0\."):
        bench.ledger.close()
    bench.ledger.close()


def test_nothing_is_injected_that_could_not_be_written_first(tmp_path, disk):
    bench, nemesis = Bench(tmp_path), Blow()
    disk.room = 10
    with pytest.raises(JournalError, match="Nothing is done to the cluster"):
        bench.executor.inject(nemesis, fault(4))
    assert nemesis.log == []
    assert bench.ledger.path.read_bytes() == b""


def test_a_history_that_cannot_be_written_keeps_no_fault_in_place(tmp_path):
    bench = Bench(tmp_path)
    nemesis = Blow(inject_error=RuntimeError("half of it"))
    bench.executor._note = lambda f, value: (_ for _ in ()).throw(JournalError("no room"))
    with suppress(FaultFailed, JournalError):
        bench.executor.inject(nemesis, fault(4))
    nemesis.inject_error = None
    with suppress(JournalError):
        bench.executor.inject(nemesis, fault(5))
    with suppress(ExceptionGroup):
        bench.executor.heal_all()
    assert nemesis.log == ["inject 4", "heal 4", "inject 5", "heal 5"]
    assert bench.ledger.open_faults() == []


def test_a_dead_run_is_healed_on_a_full_disk(tmp_path, disk, monkeypatch):
    bench, nemesis = Bench(tmp_path), Blow()
    bench.executor.inject(nemesis, fault(4))
    bench.executor.inject(nemesis, fault(5, "n2"))
    monkeypatch.setattr("schemaquake.harness.faults.healing.load", lambda kind, name: nemesis)
    ledger = Ledger(tmp_path / FILE_NAME)
    disk.room = 0
    healed = heal_open(bench.cluster, ledger)
    assert not healed.left
    assert nemesis.log[2:] == ["heal 5", "heal 4"]


def test_space_is_set_aside_before_a_fault_is_injected(small_disk):
    ledger = Ledger(small_disk / FILE_NAME)
    entries = [ledger.plan(fault(number)) for number in range(3)]
    filler = os.open(small_disk / "filler", os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while True:
            os.write(filler, bytes(4096))
    os.close(filler)
    for entry in entries:
        ledger.injected(entry, None)
        ledger.healing(entry)
        ledger.healed(entry, {"text": "x" * 300})
    assert [entry.state for entry in read_ledger(ledger.path)] == ["planned"] * 3 + [
        "injected",
        "healing",
        "healed",
    ] * 3
    planned = iter(lambda: ledger.plan(fault()), None)
    with pytest.raises(JournalError, match="cannot write"):
        list(islice(planned, 1000))  # until what was set aside is half used up
    assert not examine_ledger(ledger.path).damage
    ledger.close()


def test_a_ledger_that_can_only_be_read_is_healed_from(tmp_path, monkeypatch):
    bench, nemesis = Bench(tmp_path), Blow()
    bench.executor.inject(nemesis, fault(4))
    bench.ledger.close()
    opened = os.open

    def read_only(path, flags, mode=0o777, **more):
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", read_only)
    monkeypatch.setattr("schemaquake.harness.faults.healing.load", lambda kind, name: nemesis)
    ledger = Ledger(tmp_path / FILE_NAME)
    assert not heal_open(bench.cluster, ledger).left
    assert nemesis.log == ["inject 4", "heal 4"]
