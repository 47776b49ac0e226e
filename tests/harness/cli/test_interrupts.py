"""Ctrl-C in the command line: "interrupted" and the exit code of a crash, wherever in the command it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from schemaquake.harness.errors import ExitCode
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
        ["explore", "--most", "100000000"],
        ["check", "--model", "cas-register", *["history.edn"] * 20_000],
    ],
    ids=lambda argv: argv[0],
)
def test_a_command_that_computes_says_that_it_was_interrupted(argv, tmp_path):
    (tmp_path / "history.edn").write_text(REGISTER, encoding="utf-8")
    assert interrupted(argv, tmp_path) == (ExitCode.CRASHED, "", "interrupted\n")


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
