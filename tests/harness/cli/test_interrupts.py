"""Ctrl-C in the command line: "interrupted" and the exit code of a crash, wherever in the command it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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


def interrupted(argv, folder, *, code=ENTRY, ready=lambda process: cpu_s(process) > 1):
    """Start the command, send it SIGINT when it is `ready`, and return its exit code, standard output and standard error."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *argv],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        until(lambda: process.poll() is not None or ready(process), deadline_s=WAIT_S, what="the command's work")
        assert process.poll() is None, "the command ended before it could be interrupted"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.mark.parametrize(
    "argv",
    [
        ["placements", "--seeds", "0:1000000"],
        ["explore", "--system", "simulated:cassandra-6.0", "--most", "100000000"],
        ["check", "--model", "cas-register", *["history.edn"] * 20_000],
    ],
    ids=lambda argv: argv[0],
)
def test_a_command_that_computes_says_that_it_was_interrupted(argv, tmp_path):
    (tmp_path / "history.edn").write_text(REGISTER, encoding="utf-8")
    code, out, said = interrupted(argv, tmp_path)
    assert (code, out) == (ExitCode.CRASHED, "")
    *begun, last = said.splitlines()
    assert last == "interrupted"
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
    assert ended == (ExitCode.CRASHED, "", "interrupted\n")


def test_simulate_ends_with_the_run_that_was_interrupted_and_keeps_it(tmp_path):
    """The signal goes to the command alone, not to the run's own process."""

    def races(_process):
        return any(tmp_path.glob("runs/*/journals/events-0000.jsonl"))

    code, out, err = interrupted(["simulate", "--workload", "drop-type", "-O", "races=1000"], tmp_path, ready=races)
    assert (code, out, err.count("drop-type, seed 1")) == (ExitCode.CRASHED, "", 1)
    (run,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir() and not path.is_symlink())
    assert read_outcome(run).interrupted
    assert still_running(run) is None
    check = subprocess.run(
        [sys.executable, "-c", ENTRY, "check", str(run)], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert check.stdout in {f"{run}\tunknown\n", f"{run}\tfalse\n"}, "half a run is never valid"
