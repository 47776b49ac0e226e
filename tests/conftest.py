"""What all tests share: none of them asserts how fast a busy machine is."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from examples import REPEATABLE, SEARCHING
from hypothesis import HealthCheck, settings
from shared_histories import SHARED

from schemaquake.harness.compiled import always_compiled

# Nothing depends on how busy the machine is. `make test` tries the same examples everywhere; `make test-long` looks for new ones.
settings.register_profile(SEARCHING, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(REPEATABLE, settings.get_profile(SEARCHING), derandomize=True, max_examples=25)
settings.load_profile(REPEATABLE)

# Small histories are judged by Python elsewhere (`tests/checkers/test_python_twins.py` compares); here by what large ones need.
always_compiled()

# ── collection ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect without looking for garbage, and never look for it among what was collected.

    Twelve thousand tests and the modules they import are millions of objects that live to the end; to walk through them
    again and again takes a third of the time of collecting, which every worker does, and a share of each test's.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


# ── histories of peers ───────────────────────────────────────────────────────────────────────────────────────────────


def _peers_are_here() -> bool:
    return (SHARED / "golden").is_dir()


def pytest_report_header() -> str:
    found = (
        "found" if _peers_are_here() else "absent, so tests marked `peers` are not run (SCHEMAQUAKE_SHARED names it)"
    )
    return f"histories of peers: {SHARED / 'golden'}: {found}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of files that may not be copied here; the header says so."""
    if not _peers_are_here():
        left_out = [item for item in items if item.get_closest_marker("peers") is not None]
        items[:] = [item for item in items if item.get_closest_marker("peers") is None]
        config.hook.pytest_deselected(items=left_out)
    items.sort(key=_turn)


# ── what many tests need once ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session of Spark for all tests of a process. A light one: with the second compiler the JVM alone took 36 s of a core more."""
    from schemaquake.results.engines.spark_session import light_context  # noqa: PLC0415 - few tests need it

    with light_context("local[2]"):
        from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

        yield SparkSession.builder.getOrCreate()


# ── who may run beside whom, and when (pytest -n … --dist loadscope) ─────────────────────────────────────────────────

_WAITING = ("cluster", "spark", "browser")
"""Markers of tests that mostly wait: they begin first, and the others fill the cores meanwhile."""

_TOGETHER = {
    "spark": ("test_checks_on_spark.py", "test_on_spark.py", "test_kept_verdicts.py", "test_matrix_tables.py"),
    "deployed servers": ("test_docker_runs.py", "test_ssh_runs.py"),
    "races": ("test_racing_ddl_on_real_clusters.py",),
    "local servers": ("tests/cluster/",),
    "the machine's clock": ("test_deployed_clock.py", "test_dead_harness.py"),
}
"""Real servers race in an instant, so many such tests at once would show other races than they mean to. And a machine
has one clock; and one JVM does for all that Spark judges. Those that take longest stand first, and begin first."""


def _turn(item: pytest.Item) -> tuple[bool, int]:
    """Sort what waits before what computes, and in that the groups that take longest; equal ones stay in order."""
    waits = any(mark.name in _WAITING for mark in item.iter_markers())
    return not waits, _place_of_group(_group(item.nodeid.partition("::")[0]))


@cache
def _place_of_group(group: str) -> int:
    groups = list(_TOGETHER)
    return groups.index(group) if group in groups else len(groups)


@cache
def _group(file: str) -> str:
    return next((name for name, parts in _TOGETHER.items() if any(part in file for part in parts)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of one file follow one another, and so do those of files that are named together."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - only where it is installed

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid.partition("::")[0])

    return Together(config, log)
