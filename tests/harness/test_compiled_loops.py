"""Compiled loops: the clock of limits, which stands still while something is compiled; what is kept, and loaded."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import threading
import time
from functools import partial
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


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 5], [7], [1, 1, 1, 1, 1, 1], [9, 0, 0, 1], [1, 0, 0, 9]])
def test_parts_of_a_loop_make_up_the_whole_in_order(
    lengths: list[int], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "_SHARED_FROM", 1)
    monkeypatch.setattr(compiled, "_THREADS", threads)
    monkeypatch.setattr(compiled._mode, "plain", None)
    starts = np.concatenate([[0], np.cumsum(np.array(lengths, np.int64))])
    parts = compiled.in_parts(starts, lambda begin, end: list(range(begin, end)))
    assert [n for part in parts for n in part] == list(range(len(lengths)))
    assert len(parts) == (threads if sum(lengths) else 1)


def test_each_part_has_about_as_many_turns_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_THREADS", 2)
    monkeypatch.setattr(compiled._mode, "plain", None)
    starts = np.array([0, *range(compiled._SHARED_FROM, compiled._SHARED_FROM + 50)])
    assert [end - begin for begin, end in compiled.in_parts(starts, lambda begin, end: (begin, end))] == [1, 49]
    assert compiled.in_parts(starts - 60, lambda begin, end: (begin, end)) == [(0, 50)]


def test_calls_abreast_run_at_once_and_answer_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled._mode, "plain", None)
    meet = threading.Barrier(3)
    turns = compiled._SHARED_FROM

    def met(answer: int) -> int:
        meet.wait(120)
        return answer

    assert compiled.abreast(turns, *(partial(met, n) for n in range(3))) == (0, 1, 2)
    assert compiled.abreast(turns - 1, *(threading.get_ident for _ in range(3))) == (threading.get_ident(),) * 3
    with compiled.always_plain():
        assert compiled.abreast(turns, *(threading.get_ident for _ in range(3))) == (threading.get_ident(),) * 3


def test_of_calls_abreast_the_first_error_is_raised_once_all_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled._mode, "plain", None)
    failed = threading.Event()
    ended = []

    def fail(words: str, *, after: bool) -> None:
        if after:
            assert failed.wait(120)
        failed.set()
        ended.append(words)
        raise ValueError(words)

    with pytest.raises(ValueError, match="one"):
        compiled.abreast(compiled._SHARED_FROM, partial(fail, "one", after=True), partial(fail, "two", after=False))
    assert sorted(ended) == ["one", "two"]
