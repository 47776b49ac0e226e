"""Compiled loops: the clock of limits, which stands still while something is compiled; what is kept, and loaded."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from schemaquake.harness import compiled


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> compiled._Compiling:
    fresh = compiled._Compiling()
    monkeypatch.setattr(compiled._mode, "plain", False)
    monkeypatch.setattr(compiled, "_compiling", fresh)
    return fresh


def test_compiling_takes_no_time(compiling: compiled._Compiling, tmp_path: Path) -> None:
    # In a file of its own: what was compiled is kept beside its file, and is not compiled by the next run of the tests.
    module = tmp_path / "first.py"
    module.write_text("def first(numbers):\n    return numbers[0]\n")
    loop = compiled.compiled(runpy.run_path(str(module))["first"])
    began = time.monotonic()
    assert loop(np.arange(3, 6)) == 3
    ended = time.monotonic()
    spent = compiling.seconds(ended)
    assert 0 < spent <= ended - began
    assert loop(np.arange(7, 9)) == 7
    before, working, after = time.monotonic(), compiled.working_time(), time.monotonic()
    assert compiling.seconds(after) == spent
    assert before - spent <= working <= after - spent


def test_it_stands_still_for_other_threads_meanwhile_and_what_is_nested_counts_once(
    compiling: compiled._Compiling,
) -> None:
    compiling.begin()
    still = compiled.working_time()
    compiling.begin()
    time.sleep(0.01)
    assert compiled.working_time() == pytest.approx(still, abs=1e-6)
    compiling.end()
    assert compiled.working_time() == pytest.approx(still, abs=1e-6)
    compiling.end()
    time.sleep(0.01)
    assert compiled.working_time() >= still + 0.01 - 1e-6


_LOOPS = """
import sys
import numpy as np
from schemaquake.harness.compiled import always_compiled, compiled

@compiled
def largest(numbers):
    most = numbers[0]
    for number in np.sort(numbers):
        most = max(most, number)
    return most

always_compiled()
assert largest(np.arange(9)) == 8
print(*sorted(sys.modules))
assert largest(np.array([0.5, 0.25])) == 0.5  # compiled here the first time, with the compiler that was not needed before
"""


def test_what_is_kept_is_loaded_without_the_compiler_which_is_there_when_it_is_needed(tmp_path: Path) -> None:
    module = tmp_path / "loops.py"
    module.write_text(_LOOPS)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    environment.pop("COVERAGE_PROCESS_START", None)
    said = []
    for _ in range(2):
        command = [sys.executable, str(module)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said.append(set(done.stdout.split()))
    compiling, loading = said
    assert "numba.typed.typeddict" in compiling
    assert "numba.typed.typeddict" not in loading
    assert "numba" in loading
    assert not any(name.split(".")[0] == "coverage" for name in loading)
