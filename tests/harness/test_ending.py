"""A process that has answered ends at once, and no sooner than what is under way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from schemaquake.harness.errors import ExitCode

_PROGRAM = """
import atexit, sys, tempfile, threading, time

class Last:
    def __del__(self):
        sys.stdout.write("torn down\\n")
        sys.stdout.flush()

last = Last()

def at_exit():
    sys.stdout.write("at exit\\n")
    raise SystemExit(7)

def work():
    threading.main_thread().join(120)  # until it waits for its threads
    sys.stdout.write("thread\\n")

folder = tempfile.TemporaryDirectory()
atexit.register(lambda: sys.stdout.write("after it\\n"))
atexit.register(at_exit)
threading.Thread(target=work).start()
sys.argv[1:] = ARGV
print(folder.name)
"""
_END = "from schemaquake.harness.cli.entry import main\nmain()\n"


def said(program: str, argv: list[str]) -> tuple[int, list[str]]:
    text = _PROGRAM.replace("ARGV", repr(argv)) + program
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(("argv", "code"), [(["--version"], 0), (["no-such-command"], ExitCode.BAD_ARGUMENTS)])
def test_threads_and_what_is_called_at_exit_have_their_say_folders_go_and_the_exit_code_stays(
    argv: list[str], code: int
) -> None:
    found, lines = said(_END, argv)
    assert found == code
    assert lines[-3:] == ["thread", "at exit", "after it"]
    assert not Path(lines[0]).exists()


def test_without_it_modules_are_torn_down() -> None:
    found, lines = said("sys.exit(3)", [])
    assert lines[-1] == "torn down"
    assert found == 3
