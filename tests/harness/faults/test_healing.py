"""Healing: from nothing but a run's folder, whatever a dead run left behind is undone and told."""

from __future__ import annotations

import os

import orjson
import pytest
from scripted_cluster import calls

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.faults.healing import heal, heal_ledger
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger, read_ledger
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Fault
from schemaquake.harness.run_folder import MARK, mark_folder
from schemaquake.harness.run_process import process_start_time


@pytest.fixture
def folder(tmp_path, scripted):
    plan = Plan(system="words:1.0", cluster="scripted", workloads=("scripted",))
    (tmp_path / "plan.json").write_bytes(orjson.dumps(plan.to_json()))
    mark_folder(tmp_path, "0.2")
    return tmp_path


def fault(number, *nodes):
    return Fault(id=number, nemesis="tremor", begins_s=1, ends_s=2, nodes=nodes)


def left_behind(folder):
    """The ledger of a run that was killed: one fault in place, one being injected, one healed."""
    ledger = Ledger(folder / FILE_NAME)
    ledger.injected(ledger.plan(fault(0, "n1", "n2")), {"shaking": ["n1", "n2"]})
    ledger.plan(fault(1))
    healed = ledger.plan(fault(2, "n3"))
    ledger.injected(healed, None)
    ledger.healed(healed)
    ledger.close()


def test_everything_left_behind_is_told_and_closed_in_the_ledger(folder):
    left_behind(folder)
    assert heal(folder) == [
        "the scripted cluster was swept",
        "tremor of n1, n2: gone, and marked as healed in the ledger",
        "tremor of the network: gone, and marked as healed in the ledger",
    ]
    assert calls(folder) == ["heal"]
    latest = {entry.id: entry for entry in read_ledger(folder / FILE_NAME)}
    assert [latest[number].state for number in sorted(latest)] == ["healed"] * 3
    assert latest[0].effect == {"by": "schemaquake heal"}


def test_the_ledger_says_that_healing_began_before_it_says_that_it_ended(folder):
    left_behind(folder)
    heal(folder)
    states = [entry.state for entry in read_ledger(folder / FILE_NAME) if entry.id == 0]
    assert states == ["planned", "injected", "healing", "healed"]


def test_healing_again_finds_nothing_in_the_ledger(folder):
    left_behind(folder)
    heal(folder)
    assert heal(folder) == ["the scripted cluster was swept"]


def test_a_run_that_never_broke_anything_is_only_swept(folder):
    assert heal(folder) == ["the scripted cluster was swept"]


def test_a_run_that_goes_on_is_left_alone(folder):
    left_behind(folder)
    pid = os.getpid()
    (folder / "process.json").write_bytes(orjson.dumps({"pid": pid, "start_time": process_start_time(pid)}))
    with pytest.raises(PlanError, match=rf"still going on \(process {pid}\): interrupt it first \(kill -TERM {pid}\)"):
        heal(folder)
    assert calls(folder) == []
    assert {entry.state for entry in read_ledger(folder / FILE_NAME) if entry.id == 1} == {"planned"}


def test_a_folder_that_is_no_run_s_is_refused(tmp_path):
    with pytest.raises(HistoryError, match=r"is not a run's folder: it has no plan\.json"):
        heal(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_read_of_a_ledger_is_told_beside_what_was_healed(folder):
    left_behind(folder)
    first, *others = (folder / FILE_NAME).read_bytes().splitlines(keepends=True)
    (folder / FILE_NAME).write_bytes(b"".join([first, b'{"id": 0}\n', *others]))
    told = heal(folder)
    assert told[1] == "tremor of n1, n2: gone, and marked as healed in the ledger"
    assert "ledger.jsonl, line 2: not an entry of a fault ledger" in told[-1]


def test_a_ledger_that_is_not_there_is_told(tmp_path):
    with pytest.raises(PlanError, match="there is no ledger"):
        heal_ledger(tmp_path / "ledger.jsonl", tmp_path / "cluster.toml")


@pytest.mark.parametrize("text", ["provider = ", "\x00"])
def test_a_file_that_is_no_cluster_file_is_told(tmp_path, text):
    (tmp_path / "ledger.jsonl").touch()
    (tmp_path / "cluster.toml").write_text(text)
    with pytest.raises(PlanError, match="is no cluster file"):
        heal_ledger(tmp_path / "ledger.jsonl", tmp_path / "cluster.toml")


def test_a_cluster_that_ends_with_its_runs_is_healed_from_a_folder(folder):
    Ledger(folder / FILE_NAME).close()
    (folder / "cluster.toml").write_text('provider = "scripted"')
    with pytest.raises(PlanError, match="schemaquake heal RUN"):
        heal_ledger(folder / FILE_NAME, folder / "cluster.toml")


# ── folders that are not to be trusted ───────────────────────────────────────────────────────────────────────────────


def test_a_folder_that_no_run_made_is_left_alone(folder):
    (folder / MARK).unlink()
    with pytest.raises(HistoryError, match="no run made it"):
        heal(folder)
    assert calls(folder) == []


def test_a_run_of_0_1_has_no_mark_and_is_healed(folder):
    (folder / MARK).unlink()
    (folder / "process.json").write_bytes(b'{"pid": 4194000, "start_time": "1"}')
    assert heal(folder) == ["the scripted cluster was swept"]


@pytest.mark.parametrize(
    "place", ["nodes", "nodes/n1", "nodes/n1/data", "journals", "ledger.jsonl", "analysis/verdicts"]
)
def test_a_link_inside_a_run_is_not_followed(folder, tmp_path_factory, place):
    precious = tmp_path_factory.mktemp("elsewhere")
    (precious / "data").mkdir()
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / place).symlink_to(precious)
    with pytest.raises(HistoryError, match="is a link to"):
        heal(folder)
    assert calls(folder) == []
    assert (precious / "data").is_dir()


def test_a_link_to_a_run_is_not_followed_but_the_one_that_the_harness_makes_is(folder, tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    run = folder.rename(runs / "20260101T000000Z-run")
    (runs / "mine").symlink_to(run.name)
    with pytest.raises(HistoryError, match="is a link to"):
        heal(runs / "mine")
    (runs / "latest").symlink_to(run)
    with pytest.raises(HistoryError, match="is a link to"):
        heal(runs / "latest")
    (runs / "latest").unlink()
    (runs / "latest").symlink_to(run.name)
    assert heal(runs / "latest") == ["the scripted cluster was swept"]
