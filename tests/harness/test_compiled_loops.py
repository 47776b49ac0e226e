"""The clock of limits: it stands still while something is compiled, and goes on afterwards."""

from __future__ import annotations

import runpy
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
