"""Ctrl-C and SIGTERM in the command line: one line that says what is kept, and an exit code of its own, wherever they come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from schemaquake.harness.cli.command_line import application
from schemaquake.harness.cli.interruption import AGAIN, Interruption, describe_interruption
from schemaquake.harness.errors import ExitCode
from schemaquake.harness.run.runner import read_outcome
from schemaquake.harness.run_process import still_running
from schemaquake.harness.wait import until

WAIT_S = 120
REGISTER = """\
{:index 0, :process 0, :type :invoke, :f :write, :value 1, :time 0}
{:index 1, :process 0, :type :ok, :f :write, :value 1, :time 1}
"""
ENTRY = "from schemaquake.harness.cli.entry import main; main()"


def cpu_s(process):
    """The CPU time of a process so far, s: unlike the time that passed, it tells how far the process has got."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def interrupted(argv, folder, *, code=ENTRY, ready=lambda process: cpu_s(process) > 1, number=signal.SIGINT):
    """Start the command, send it the signal when it is `ready`, and return its exit code, standard output and standard error."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *argv],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        until(lambda: process.poll() is not None or ready(process), deadline_s=WAIT_S, what="the command's work")
        assert process.poll() is None, "the command ended before it could be interrupted"
        process.send_signal(number)
        out, err = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
@pytest.mark.parametrize(
    ("argv", "kept"),
    [
        (["placements", "--seeds", "0:1000000"], AGAIN),
        (["explore", "--system", "simulated:cassandra-6.0", "--most", "100000000"], AGAIN),
        (["check", "--model", "cas-register", *["history.edn"] * 20_000], "schemaquake check RUN --resume-analysis"),
    ],
    ids=["placements", "explore", "check"],
)
def test_a_command_that_computes_says_that_it_was_interrupted_and_what_is_kept(argv, kept, number, tmp_path):
    (tmp_path / "history.edn").write_text(REGISTER, encoding="utf-8")
    code, out, said = interrupted(argv, tmp_path, number=number)
    assert (code, out) == (ExitCode.CRASHED, "")
    *begun, last = said.splitlines()
    assert last.startswith("interrupted: ")
    assert last.endswith(kept)
    assert len(begun) <= 1, "a slow command says what it begins"


SLOW_IMPORT = """
import sys, time
class Slow:
    def find_spec(self, name, *rest):
        if name == "schemaquake.harness.cli.command_line":
            open("importing", "w").close()
            time.sleep(600)
sys.meta_path.insert(0, Slow())
"""


def test_so_does_one_that_is_still_being_imported(tmp_path):
    importing = (tmp_path / "importing").exists
    ended = interrupted(["placements"], tmp_path, code=SLOW_IMPORT + ENTRY, ready=lambda _: importing())
    assert ended == (ExitCode.CRASHED, "", "interrupted: run the command again\n")


STUBBORN = """
import sys, threading, time
from pathlib import Path
import schemaquake.results.experiments.placements.commands as commands
def work():
    Path("working").touch()
    time.sleep(600)
def stubborn(*_args, **_more):
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(1) as pool:  # whose end waits for the thread
        pool.submit(work).result()
commands.configure_logging = stubborn
"""


def test_a_thread_that_works_on_does_not_keep_a_command_that_computes(tmp_path):
    working = (tmp_path / "working").exists
    ended = interrupted(["quorums"], tmp_path, code=STUBBORN + ENTRY, ready=lambda _: working())
    assert ended == (ExitCode.CRASHED, "", f"interrupted: {AGAIN}\n")


def test_a_signal_that_the_parent_had_ignored_stays_ignored(monkeypatch):
    """A command begun by `nohup`, or in the background of a script."""
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_IGN)
    monkeypatch.setattr(signal, "signal", lambda *_: pytest.fail("it was taken"))
    Interruption(line="", at_once=True).listen()


def test_every_command_that_works_for_long_says_what_is_kept():
    app = application()
    quick = {"list", "completion", "heal", "doctor", "image", "fetch", "serve", "crash-table"}
    said = {each.name: describe_interruption(each.name) for each in app.registered_commands if each.name not in quick}
    assert len(said) > 15
    assert [name for name, line in said.items() if line == "interrupted: run the command again"] == []


def test_simulate_ends_with_the_run_that_was_interrupted_and_keeps_it(tmp_path):
    """The signal goes to the command alone, not to the run's own process."""

    def races(_process):
        return any(tmp_path.glob("runs/*/journals/events-0000.jsonl"))

    code, out, err = interrupted(["simulate", "--workload", "drop-type", "-O", "races=1000"], tmp_path, ready=races)
    assert (code, out, err.count("drop-type, seed 1")) == (ExitCode.CRASHED, "", 1)
    assert err.splitlines()[-1].startswith("interrupted: runs that ended are kept")
    (run,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir() and not path.is_symlink())
    assert read_outcome(run).interrupted
    assert still_running(run) is None
    check = subprocess.run(
        [sys.executable, "-c", ENTRY, "check", str(run)], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert check.stdout in {f"{run}\tunknown\n", f"{run}\tfalse\n"}, "half a run is never valid"
