"""Warming: after it, nothing has to be compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

AFTER = """
from numba.core.compiler import CompilerBase

def compiled(self, *_):
    raise AssertionError("something is compiled")

CompilerBase.compile_extra = compiled
from schemaquake.results.formats.warming import warm_all
print(*warm_all())
"""


def test_what_was_warmed_is_loaded_and_not_compiled(tmp_path: Path) -> None:
    nothing_yet = python("-c", AFTER, NUMBA_CACHE_DIR=str(tmp_path))
    assert nothing_yet.returncode != 0
    assert "something is compiled" in nothing_yet.stderr
    assert (
        python("-m", "schemaquake.results.formats.warming").returncode == 0
    )  # most of it has been done by `make setup`
    after = python("-c", AFTER)
    assert after.returncode == 0, after.stderr
    assert after.stdout.split() == ["linearizable", "list-append", "rw-register", "weak-isolation"]


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=600,
    )  # fmt: skip
