from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import results.engine
from harness.errors import EnvironmentLacks, PlanError
from results.engine import Local, choose, shares
from results.spark_session import find_java

ROWS = pa.schema([("unit", pa.int32()), ("rows", pa.int64())])


def count(group: pa.Table) -> pa.Table:
    return pa.table({"unit": group["unit"].slice(0, 1), "rows": [len(group)]})


def test_the_local_engine_calls_a_step_once_a_unit():
    groups = pa.table({"unit": pa.array([2, 0, 2, 1, 2], pa.int32())})
    assert Local().carry(count, groups, ROWS).to_pydict() == {"unit": [0, 1, 2], "rows": [1, 1, 3]}


def test_no_groups_make_no_rows():
    assert Local().carry(count, pa.table({"unit": pa.array([], pa.int32())}), ROWS).equals(ROWS.empty_table())


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 100), max_size=12), st.integers(1, 5))
def test_every_name_is_in_one_share_and_no_share_is_much_heavier(weights, most):
    parts = shares(weights, most)
    assert sorted(name for part in parts for name in part) == sorted(weights)
    assert all(parts)
    assert len(parts) == min(most, len(weights))
    loads = [sum(weights[name] for name in part) for part in parts]
    if loads:
        assert max(loads) - min(loads) <= max(weights.values())


def test_small_histories_are_judged_in_this_process():
    with choose("auto", events=199_999) as engine:
        assert isinstance(engine, Local)


def test_a_large_history_is_judged_in_this_process_where_there_is_no_java(monkeypatch, caplog):
    def lacking() -> Path:
        raise EnvironmentLacks("no Java")

    monkeypatch.setattr(results.engine, "find_java", lacking)
    with choose("auto", events=10**9) as engine:
        assert isinstance(engine, Local)
    assert "judged in this process" in caplog.text


def test_options_that_exclude_each_other_are_refused():
    with pytest.raises(PlanError, match="give one of them"), choose("local", events=0, master="spark://x"):
        pass
    with pytest.raises(PlanError, match='--engine is one of auto, local, spark, not "dask"'), choose("dask", events=0):
        pass


# ── which Java ───────────────────────────────────────────────────────────────────────────────────────────────────────


def java(folder: Path, said: str) -> Path:
    """A home of something that says it is this Java."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("results.spark_session._JAVA_FOLDERS", (f"{tmp_path}/jvm/*/bin/java",))


@pytest.mark.usefixtures("nowhere")
def test_without_any_java_the_error_says_how_to_get_one():
    with pytest.raises(EnvironmentLacks, match=r"Java 17 or later, and there is none at all.*--engine local"):
        find_java()


@pytest.mark.usefixtures("nowhere")
def test_an_old_java_is_named_and_passed_over(monkeypatch, tmp_path):
    old = java(tmp_path / "old", 'java version "1.8.0_202"')
    monkeypatch.setenv("JAVA_HOME", str(old))
    with pytest.raises(EnvironmentLacks, match=r"old/bin/java is Java 8"):
        find_java()
    new = java(tmp_path / "jvm" / "new", 'openjdk version "21.0.1" 2023-10-17')
    assert find_java() == new / "bin" / "java"


@pytest.mark.usefixtures("nowhere")
def test_what_is_no_java_is_passed_over(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "odd", "what?")))
    with pytest.raises(EnvironmentLacks, match="none at all"):
        find_java()


@pytest.mark.usefixtures("nowhere")
def test_java_home_comes_first(monkeypatch, tmp_path):
    java(tmp_path / "jvm" / "a", 'openjdk version "17.0.1"')
    home = java(tmp_path / "home", 'openjdk version "25" 2025-09-16')
    assert subprocess.run([home / "bin" / "java"], check=True, capture_output=True).stderr
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() == home / "bin" / "java"
