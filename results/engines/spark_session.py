"""Spark session: a quiet Spark for one judgement, on this machine or on a cluster, and always stopped.

Spark carries the same functions that the local engine calls; it needs Java 17 or later and nothing else. On a cluster
of its own (`--master`) the distribution `schemaquake` must be installed in the Python of every executor: the one that
PYSPARK_PYTHON names, else one under the path of this process'.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from schemaquake.clusters.distribution.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["JAVA_LEAST", "pandas_unused", "spark_session"]

log = logging.getLogger(__name__)

JAVA_LEAST: Final = 17
_LOCAL: Final = "local[*]"


@contextmanager
def spark_session(master: str | None = None) -> Iterator[SparkSession]:
    """A session on `master` (default: every core of this machine), stopped when the block ends.

    A session that the caller already has is used as it is, and left running. Raises EnvironmentLacks without Java 17+.
    """
    with pandas_unused():
        from pyspark.sql import SparkSession  # noqa: PLC0415 - slow to import, and most runs do without

    active = SparkSession.getActiveSession()
    if active is not None:
        session = active.newSession()  # its tables and context, settings of its own
        for name, value in _query_settings().items():
            session.conf.set(name, value)
        yield session
        return
    with _environment(), as_file(files(__package__) / "spark-log.xml") as log_configuration:
        builder = SparkSession.builder.appName("schemaquake").master(master or _LOCAL)
        for name, value in _settings(master or _LOCAL, log_configuration).items():
            builder = builder.config(name, value)
        log.debug("Spark starts", extra={"master": master or _LOCAL})
        with pandas_unused():
            session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def pandas_unused() -> Iterator[None]:
    """Without PySpark's complaint about the version of pandas: it is imported, and nothing of it is used here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        yield


def _settings(master: str, log_configuration: Path) -> Mapping[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_configuration.as_uri()}",
        "spark.sql.warehouse.dir": "/nonexistent",  # nothing is ever saved as a table
        **_query_settings(),
    }
    if master.startswith(("local", "spark://127.0.0.1:", "spark://localhost:")):
        # Nobody else is to reach it, and a machine's own name may not resolve.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if master.startswith("local"):
        # Checkers of somebody's own tests or plugins are found wherever this process found them.
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return settings


def _query_settings() -> Mapping[str, str]:
    return {"spark.sql.execution.arrow.pyspark.enabled": "true"}


@contextmanager
def _environment() -> Iterator[None]:
    """JAVA_HOME as Spark's launcher must see it while it starts, and the Python of its executors: this one, or as the user says."""
    java_home = str(find_java(JAVA_LEAST).path.resolve().parent.parent)
    wanted = {"JAVA_HOME": java_home, "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
