"""Options of the JVMs that Spark starts: those of executors leave the user's choices alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemaquake.results.engines.jvm_start import spark_settings

ARCHIVE = '"-XX:SharedArchiveFile=/cache/a.jsa" -Xshare:auto'
LOG = Path("/log.xml")


def executors(master: str, *, light: bool) -> str | None:
    return spark_settings(master, LOG, light=light, further=ARCHIVE).get("spark.executor.defaultJavaOptions")


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077", "spark://localhost:7077"])
def test_executors_of_this_machine_use_its_archive(master: str) -> None:
    assert executors(master, light=True) == f"{ARCHIVE} -XX:TieredStopAtLevel=1"


@pytest.mark.parametrize("master", ["spark://127.0.0.10:7077", "spark://far:7077", "yarn"])
def test_executors_elsewhere_have_no_archive_of_this_machine(master: str) -> None:
    assert executors(master, light=True) == "-XX:TieredStopAtLevel=1"


def test_options_that_a_user_gives_executors_are_not_replaced() -> None:
    settings = spark_settings("spark://far:7077", LOG, light=True, further=ARCHIVE)
    assert "spark.executor.extraJavaOptions" not in settings
    # A JVM that is told of two collectors does not start, so the choice is the user's.
    assert "GC" not in settings["spark.executor.defaultJavaOptions"]


def test_executors_for_rows_of_their_own_keep_both_compilers() -> None:
    assert executors("spark://127.0.0.1:7077", light=False) is None
