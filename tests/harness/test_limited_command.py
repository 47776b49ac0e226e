"""A command with a limit: its output is read, and one that hangs is ended with its children and named."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.harness.limited_command import run_limited
from schemaquake.harness.wait import until


def test_what_a_command_prints_and_how_it_ends_is_returned() -> None:
    argv = ["/bin/sh", "-c", 'echo "$WORD"; echo no >&2; exit 3']
    done = run_limited(argv, limit_s=30, advice="Do", environment={"WORD": "yes"})
    assert (done.stdout, done.stderr, done.returncode) == ("yes\n", "no\n", 3)


def test_a_command_that_hangs_is_ended_with_its_children_and_named(tmp_path) -> None:
    child = tmp_path / "child"
    script = f"sleep 600 & echo $! > {child}; wait"
    began = time.monotonic()
    with pytest.raises(EnvironmentLacks) as refused:
        run_limited(["/bin/sh", "-c", script], limit_s=1, advice="Give it what it waits for")
    assert time.monotonic() - began < 60
    assert str(refused.value) == (
        f"`/bin/sh -c '{script}'`, run on this machine in {Path.cwd()}, did not end within 1 s. Give it what it waits for."
    )
    pid = int(child.read_text())
    until(lambda: not _lives(pid), deadline_s=30, what="the child's end")


def test_a_command_that_there_is_not_is_an_os_error(tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        run_limited([tmp_path / "nothing"], limit_s=1, advice="Do")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    return state not in "ZX"
