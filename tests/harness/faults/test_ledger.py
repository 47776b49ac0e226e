from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemaquake.harness.faults.ledger import FILE_NAME, Ledger, read_ledger
from schemaquake.harness.model.protocols import Fault


def fault(number=0, **fields):
    given = {"nemesis": "partition", "begins_s": 1.5, "ends_s": 9.25, "nodes": ("n1", "n2")} | fields
    return Fault(id=number, **given)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_fault_is_in_the_file_before_it_is_injected(tmp_path):
    path = tmp_path / FILE_NAME
    ledger = Ledger(path)
    grudge = {"grudge": {"n1": ["n2"]}, "ports": "storage"}
    entry = ledger.plan(fault(7, parameters=grudge))
    (line,) = lines(path)
    assert datetime.now().astimezone() - datetime.fromisoformat(line.pop("at")) < timedelta(seconds=60)
    assert type(line.pop("crc")) is int
    assert line == {
        "id": entry,
        "kind": "fault",
        "state": "planned",
        "nemesis": "partition",
        "fault": {"id": 7, "begins_s": 1.5, "ends_s": 9.25, "nodes": ["n1", "n2"], "parameters": grudge},
        "effect": None,
    }


def test_what_is_planned_is_synced_together_with_the_name_of_the_file(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(str(Path(f"/proc/self/fd/{fd}").readlink())), real(fd)))
    Ledger(tmp_path / FILE_NAME).plan(fault())
    assert synced == [str(tmp_path), str(tmp_path / FILE_NAME)]


def test_every_line_tells_the_whole_story_of_its_fault(tmp_path):
    path = tmp_path / FILE_NAME
    ledger = Ledger(path)
    entry = ledger.plan(fault())
    ledger.injected(entry, {"rules": ["-A …"]})
    ledger.healing(entry)
    ledger.failed(entry, "no route")
    ledger.healed(entry, {"packets": 12})
    assert [(line["state"], line["effect"]) for line in lines(path)] == [
        ("planned", None),
        ("injected", {"rules": ["-A …"]}),
        ("healing", None),
        ("failed", {"error": "no route"}),
        ("healed", {"packets": 12}),
    ]
    assert {json.dumps(line["fault"]) for line in lines(path)} == {json.dumps(lines(path)[0]["fault"])}


@pytest.mark.parametrize(
    ("moves", "is_open"),
    [
        ([], True),
        ([("injected", {})], True),
        ([("injected", {}), ("healing",)], True),
        ([("injected", {}), ("healing",), ("failed", "no")], True),
        ([("failed", "no"), ("healing",), ("healed", {})], False),
        ([("injected", {}), ("healing",), ("healed", {})], False),
        ([("skipped", "n1 is down")], False),
    ],
    ids=["planned", "injected", "healing", "failed to heal", "failed and healed", "healed", "skipped"],
)
def test_whatever_may_still_be_in_place_is_open(tmp_path, moves, is_open):
    path = tmp_path / FILE_NAME
    ledger = Ledger(path)
    entry = ledger.plan(fault())
    for move, *arguments in moves:
        getattr(ledger, move)(entry, *arguments)
    ledger.close()
    assert [open_entry.fault for open_entry in Ledger(path).open_faults()] == ([fault()] if is_open else [])


def test_the_name_of_the_run_is_no_fault(tmp_path):
    ledger = Ledger(tmp_path / FILE_NAME)
    ledger.name_run("race-5f")
    ledger.plan(fault())
    assert [entry.fault for entry in ledger.open_faults()] == [fault()]
    assert [(entry.kind, entry.run_name, entry.is_open) for entry in read_ledger(ledger.path)] == [
        ("run", "race-5f", False),
        ("fault", None, True),
    ]


def test_open_faults_come_from_the_file_and_not_from_memory(tmp_path):
    path = tmp_path / FILE_NAME
    run, healer = Ledger(path), Ledger(path)
    entry = run.plan(fault())
    (found,) = healer.open_faults()
    assert found.id == entry


def test_numbers_go_on_where_a_dead_run_ended(tmp_path):
    path = tmp_path / FILE_NAME
    first = Ledger(path)
    numbers = [first.plan(fault()), first.plan_operation(fault())]
    first.close()
    assert Ledger(path).plan(fault()) not in numbers


def test_a_torn_last_line_was_never_synced_and_is_left_out(tmp_path):
    path = tmp_path / FILE_NAME
    ledger = Ledger(path)
    ledger.plan(fault(1))
    ledger.plan(fault(2))
    ledger.close()
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(first, len(whole)):
        path.write_bytes(whole[:length])
        assert [entry.fault for entry in read_ledger(path)] == [fault(1)]


def test_a_ledger_with_a_torn_line_can_be_written_on(tmp_path):
    path = tmp_path / FILE_NAME
    ledger = Ledger(path)
    entry = ledger.plan(fault(1))
    ledger.close()
    with path.open("ab") as file:
        file.write(b'{"id": 1, "at": "20')
    healer = Ledger(path)
    healer.healed(entry, None)
    assert healer.open_faults() == []
    assert [line["state"] for line in lines(path)] == ["planned", "healed"]


_DIES_BEFORE_INJECTION = """
import os, signal, sys
from pathlib import Path
from schemaquake.harness.faults.ledger import Ledger
from schemaquake.harness.model.protocols import Fault

ledger = Ledger(Path(sys.argv[1]))
entry = ledger.plan(Fault(id=5, nemesis="kill", begins_s=0.0, ends_s=1.0, nodes=("n3",)))
if sys.argv[2] == "injected":
    ledger.injected(entry, {"n3": "stopped"})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("state", ["planned", "injected"])
def test_a_harness_killed_at_any_point_leaves_the_fault_on_record(tmp_path, state):
    path = tmp_path / FILE_NAME
    died = subprocess.run([sys.executable, "-c", _DIES_BEFORE_INJECTION, path, state], check=False, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    (entry,) = Ledger(path).open_faults()
    assert entry.state == state
    assert entry.fault == Fault(id=5, nemesis="kill", begins_s=0.0, ends_s=1.0, nodes=("n3",))


def test_threads_do_not_tear_each_others_lines(tmp_path):
    ledger = Ledger(tmp_path / FILE_NAME)
    numbers = []

    def work():
        for _ in range(10):
            entry = ledger.plan(fault())
            numbers.append(entry)
            ledger.healed(entry, {"text": "x" * 500})

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(40))
    assert ledger.open_faults() == []
    assert len(read_ledger(ledger.path)) == 80


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(
    number=st.integers(0, 2**24 - 1),
    names=st.lists(st.text(min_size=1), max_size=4).map(tuple),
    times=st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)),
    parameters=st.dictionaries(st.text(), json_values, max_size=3),
)
def test_any_fault_is_read_back_as_it_was_written(tmp_path_factory, number, names, times, parameters):
    written = fault(number, nodes=names, begins_s=times[0], ends_s=times[1], parameters=parameters)
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / FILE_NAME)
    ledger.plan(written)
    (entry,) = ledger.open_faults()
    ledger.close()
    assert entry.fault == written
