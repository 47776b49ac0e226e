"""The runner: starts a run's own process, passes signals on to it, and says how it ended, however it ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest
from plugins import on_path
from scripted_cluster import calls

from schemaquake.harness.errors import ExitCode, HistoryError, PlanError
from schemaquake.harness.model.plan import CLUSTER_FILE, Plan
from schemaquake.harness.run import runner
from schemaquake.harness.run.applicability import refuse_inapplicable
from schemaquake.harness.run.runner import execute, read_outcome, refuse_contradictions
from schemaquake.harness.run_process import process_start_time, still_running
from schemaquake.harness.wait import pause_for, until

PLAN = {
    "system": "words:1.0",
    "cluster": "scripted",
    "workloads": ("scripted",),
    "nodes": 1,
    "restart": "none",
    "settle_limit_s": 2,
}


@pytest.fixture
def folder(tmp_path, scripted):
    run = tmp_path / "run"
    run.mkdir()
    return run


# ── outcomes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_that_went_through_is_completed(folder):
    outcome = execute(Plan(**PLAN, options={"main": "ok"}), folder)
    assert (outcome.completed, outcome.error, outcome.exit_code) == (True, None, ExitCode.VALID)
    assert calls(folder)[0] == "prepare"
    assert calls(folder)[-1] == "cluster stop"
    assert Plan.read(folder).options == {"main": "ok"}
    assert still_running(folder) is None
    assert read_outcome(folder) == outcome
    assert not outcome.interrupted


def test_the_file_of_a_deployed_cluster_lies_in_the_run_s_folder_before_anybody_asks_for_it(folder, tmp_path):
    path = tmp_path / "theirs.toml"
    path.write_text('provider = "scripted"\n')
    assert execute(Plan(**PLAN, cluster_file=path, options={"main": "ok"}), folder).completed
    path.unlink()
    assert (folder / CLUSTER_FILE).read_text() == 'provider = "scripted"\n'
    assert (folder / CLUSTER_FILE).stat().st_mtime_ns <= (folder / "environment.json").stat().st_mtime_ns
    assert Plan.read(folder).cluster_file == path


def test_a_run_that_a_worker_s_defect_ended_is_not(folder):
    outcome = execute(Plan(**PLAN, options={"main": "explode"}), folder)
    assert not outcome.completed
    assert outcome.exit_code == ExitCode.CRASHED
    assert "the client burst" in outcome.error
    assert calls(folder)[-1] == "cluster stop"


def test_a_workload_the_system_cannot_do_is_not_applicable(folder):
    outcome = execute(Plan(**(PLAN | {"workloads": ("demanding",)})), folder)
    assert not outcome.applicable
    assert outcome.exit_code == ExitCode.BAD_ARGUMENTS
    assert outcome.error == 'workload "demanding" is not applicable to words:1.0: it has no wings'
    assert "cluster start" not in calls(folder), "nothing was started"


def test_a_nemesis_that_cannot_be_had_is_told_before_anything_is_started(folder):
    plan = Plan(**PLAN, nemeses=("tremor",), options={"missing tremor": "the ground is concrete"})
    outcome = execute(plan, folder)
    assert outcome.error == 'nemesis "tremor" cannot be had here: the ground is concrete'
    assert outcome.exit_code == ExitCode.BAD_ARGUMENTS
    assert "cluster start" not in calls(folder)


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"workloads": ("scripted", "skripted")}, 'unknown workload "skripted"'),
        ({"nemeses": ("tremble",)}, 'unknown nemesis "tremble"'),
        ({"cluster": "moon"}, 'unknown cluster "moon"'),
        ({"workloads": ("scripted", "scripted")}, "a workload is named twice"),
        ({"nemeses": ("decommission",), "options": {"decommission.node": "n9"}}, 'there is no node "n9"'),
        ({"nemeses": ("abort-bootstrap",)}, "prepare one with --spares 1"),
    ],
    ids=["workload", "nemesis", "cluster", "twice", "node", "spare"],
)
def test_what_cannot_be_run_is_refused(changes, sentence):
    with pytest.raises(PlanError, match=sentence):
        refuse_contradictions(Plan(**(PLAN | changes)))


@pytest.mark.parametrize(
    ("system", "cluster"), [("simulated:cassandra-5.0", "simulated"), ("cassandra:5.0.9", "local")]
)
@pytest.mark.parametrize(
    ("workload", "options", "sentence"),
    [
        ("drop-type", {"variant": "zzz"}, "drop-type has no variant zzz; it has table, column, nested"),
        ("grid", {"cells": "zzz"}, "no cell of the grid has such a name"),
    ],
    ids=["variant", "cell"],
)
def test_a_value_that_only_a_system_with_these_features_shows_to_be_none_is_refused_by_the_system_s_name(
    system, cluster, workload, options, sentence
):
    plan = Plan(system=system, cluster=cluster, workloads=(workload,), options=options)
    with pytest.raises(PlanError, match=sentence):
        refuse_contradictions(plan)
    with pytest.raises(PlanError, match=sentence):
        refuse_inapplicable(plan)


def test_what_a_system_has_not_is_left_to_the_outcome_of_a_run():
    refuse_contradictions(Plan(system="simulated:cassandra-1.1", cluster="simulated", workloads=("drop-type",)))


def test_a_folder_without_an_outcome_is_of_a_process_that_was_killed(tmp_path):
    outcome = read_outcome(tmp_path)
    assert not outcome.completed
    assert outcome.exit_code == ExitCode.CRASHED
    assert "ended without a word" in outcome.error


def test_a_damaged_outcome_is_not_taken_for_any(tmp_path):
    (tmp_path / "outcome.json").write_text('{"completed": tr')
    with pytest.raises(HistoryError, match="is damaged"):
        read_outcome(tmp_path)


# ── signals ──────────────────────────────────────────────────────────────────────────────────────────────────────────

EXECUTE = """
import sys
from pathlib import Path
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.plan import CLUSTER_FILE
from schemaquake.harness.run.runner import execute
folder = Path(sys.argv[1])
outcome = execute(Plan.read(folder), folder)
print(outcome.completed, outcome.error)
"""


class Runner:
    """`execute` in a process of its own, that can be sent signals."""

    def __init__(self, folder, options, **environment):
        (folder / "plan.json").write_bytes(orjson.dumps(Plan(**PLAN, options=options).to_json()))
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", EXECUTE, str(folder)],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Whatever a test that failed left behind."""
        running = still_running(self.folder)
        self.process.kill()
        self.process.communicate()
        if running is not None:
            os.kill(running, signal.SIGKILL)

    def at_work(self):
        """Wait until the main phase has begun."""
        journal = self.folder / "journals" / "events-0000.jsonl"
        until(lambda: journal.exists() and b'"f":"hang"' in journal.read_bytes(), deadline_s=60, what="the main phase")

    def said(self, limit_s=30):
        out, _ = self.process.communicate(timeout=limit_s)
        return out.strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_which_heals_and_tears_down(folder, number):
    with Runner(folder, {"main": "hang"}) as runner:
        runner.at_work()
        runner.process.send_signal(number)
        assert runner.said() == "False interrupted; every fault was healed and every node ended"
    assert calls(folder)[-1] == "cluster stop"
    assert still_running(folder) is None


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_signal_just_when_the_run_s_process_begins_ends_it_too(folder, monkeypatch, when):
    interrupt_at_start(monkeypatch, before=when == "before")
    outcome = executed("hang", folder)
    assert (outcome.completed, outcome.interrupted, outcome.exit_code) == (False, True, ExitCode.CRASHED)
    assert still_running(folder) is None


def test_a_signal_that_comes_too_late_to_end_the_run_is_not_forgotten(folder, monkeypatch):
    interrupt_at_start(monkeypatch, before=False)
    monkeypatch.setattr(runner, "_terminate", lambda _process: None)
    outcome = executed("ok", folder)
    assert (outcome.completed, outcome.interrupted) == (True, True)
    assert not read_outcome(folder).interrupted, "the run itself never heard of it"


def executed(main, folder):
    try:
        return execute(Plan(**PLAN, options={"main": main}), folder)
    except KeyboardInterrupt:  # pytest itself would end of it
        pytest.fail("the signal ended the command, not the run")


def interrupt_at_start(monkeypatch, *, before):
    """Send this process SIGINT just before or after it starts the run's own process."""
    start = subprocess.Popen

    def starting(*args, **options):
        if before:
            signal.raise_signal(signal.SIGINT)
        process = start(*args, **options)
        if not before:
            signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(runner.subprocess, "Popen", starting)


def test_a_signal_while_the_enclosure_is_made_ends_the_run_before_it_begins(folder):
    with Runner(folder, {"main": "ok"}, SCRIPTED_ENCLOSURE="sleep 20 >/dev/null") as runner:
        until((folder / "process.json").exists, deadline_s=60, what="the enclosure")
        began = time.monotonic()
        pause_for(0.2)
        runner.process.send_signal(signal.SIGTERM)
        assert runner.said().startswith("False ")
        assert time.monotonic() - began < 15
    assert "cluster start" not in calls(folder)


def test_a_signal_before_the_run_can_hear_it_is_not_lost(folder, tmp_path):
    """The first process of a process namespace does not even die of a signal that it does not handle yet."""
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(
        "import sys, time\nif 'schemaquake.harness.run.conductor' in sys.orig_argv: open('slow_start', 'w').close(); time.sleep(2)\n"
    )
    with on_path(slow), Runner(folder, {"main": "hang"}, SCRIPTED_ENCLOSURE=f"cd '{slow}'; trap '' TERM") as runner:
        until((slow / "slow_start").exists, deadline_s=60, what="the run's process")
        runner.process.send_signal(signal.SIGTERM)
        assert runner.said() == "False interrupted; every fault was healed and every node ended"


def test_a_run_whose_process_is_killed_says_that_its_journals_are_whole(folder, history):
    with Runner(folder, {"main": "ok; hang"}) as runner:
        runner.at_work()
        pid = still_running(folder)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        said = runner.said()
    assert said.startswith("False the run's process ended without a word")
    assert "its journals are whole up to that moment" in said
    assert [e["type"] for e in history(folder / "journals") if e["f"] == "ok"] == ["invoke", "ok"]
    assert still_running(folder) is None


# ── who is who ───────────────────────────────────────────────────────────────────────────────────────────────────────


def process_file(folder, **document):
    (folder / "process.json").write_bytes(orjson.dumps(document))


def test_a_process_is_known_by_pid_and_start_time(tmp_path):
    pid = os.getpid()
    process_file(tmp_path, pid=pid, start_time=process_start_time(pid))
    assert still_running(tmp_path) == pid


def test_another_process_under_the_same_pid_is_not_the_run(tmp_path):
    process_file(tmp_path, pid=os.getpid(), start_time="1")
    assert still_running(tmp_path) is None


def test_a_process_that_is_gone_does_not_run(tmp_path):
    process = subprocess.Popen(["sleep", "60"])
    start_time = process_start_time(process.pid)
    process.kill()
    process.wait()
    process_file(tmp_path, pid=process.pid, start_time=start_time)
    assert still_running(tmp_path) is None
    process_file(tmp_path, pid=process.pid, start_time=None)
    assert still_running(tmp_path) is None, "it had ended before anybody could look"


def test_a_process_whose_end_nobody_took_note_of_does_not_run(tmp_path):
    """Whoever starts the harness in a container may never wait for what is orphaned to it."""
    process = subprocess.Popen(["sleep", "60"])
    process_file(tmp_path, pid=process.pid, start_time=process_start_time(process.pid))
    assert still_running(tmp_path) == process.pid
    process.kill()
    until(
        lambda: Path(f"/proc/{process.pid}/stat").read_text().split(")")[1].split()[0] == "Z", deadline_s=10, what="it"
    )
    assert still_running(tmp_path) is None
    process.wait()


@pytest.mark.parametrize("content", [None, b"", b'{"pid": 1'], ids=["no file", "empty", "cut short"])
def test_a_folder_that_names_no_process_has_none(tmp_path, content):
    if content is not None:
        (tmp_path / "process.json").write_bytes(content)
    assert still_running(tmp_path) is None


def test_a_process_may_have_a_name_of_brackets_and_blanks(tmp_path):
    odd = shutil.copy(shutil.which("sleep"), tmp_path / "a) S (b")
    with subprocess.Popen([odd, "30"]) as process:
        until(lambda: ") S (b" in Path(f"/proc/{process.pid}/stat").read_text(), deadline_s=120, what="its name")
        ticks = int(process_start_time(process.pid))
        process.kill()
    assert abs(ticks / os.sysconf("SC_CLK_TCK") - time.monotonic()) < 3600 * 24 * 365
    assert ticks > int(process_start_time(1))
