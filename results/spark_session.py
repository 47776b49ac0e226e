"""Spark session: a quiet Spark for one judgement, on this machine or on a cluster, and always stopped.

Spark carries the same functions that the local engine calls; it needs Java 17 or later and nothing else. On a cluster
of its own (`--master`) the distribution `schemaquake` must be installed in the Python of every executor.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.errors import EnvironmentLacks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["find_java", "pandas_unused", "spark_session"]

log = logging.getLogger(__name__)

_JAVA_LEAST: Final = 17
_JAVA_FOLDERS: Final = ("/usr/lib/jvm/*/bin/java", "/Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java")
_LOCAL: Final = "local[*]"
_PARTITIONS: Final = 32
"""Groups are few and heavy: with many more partitions than groups, two rarely share a task, and an empty one costs nothing."""


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
    with _java_home(), as_file(files("results") / "spark-log.xml") as log_configuration:
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


def find_java() -> Path:
    """A `java` of version 17 or later: of JAVA_HOME, of PATH, or where systems install them. Raises EnvironmentLacks."""
    seen: dict[Path, int] = {}
    for candidate in _candidates():
        version = _java_version(candidate)
        if version is not None and version >= _JAVA_LEAST:
            return candidate
        if version is not None:
            seen[candidate] = version
    older = "; ".join(f"{path} is Java {version}" for path, version in seen.items()) or "there is none at all"
    raise EnvironmentLacks(
        f"Spark needs Java {_JAVA_LEAST} or later, and {older}. Install one (Debian: apt install openjdk-17-jre-headless) "
        "or point JAVA_HOME at it; or judge with --engine local, which needs none."
    )


def _settings(master: str, log_configuration: Path) -> Mapping[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_configuration.as_uri()}",
        "spark.pyspark.python": sys.executable,
        "spark.sql.warehouse.dir": "/nonexistent",  # nothing is ever saved as a table
        **_query_settings(),
    }
    if master.startswith("local"):
        # Nobody else is to reach it, and a machine's own name may not resolve.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        # Checkers of somebody's own tests or plugins are found wherever this process found them.
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return settings


def _query_settings() -> Mapping[str, str]:
    return {
        "spark.sql.shuffle.partitions": str(_PARTITIONS),
        "spark.sql.adaptive.enabled": "false",  # it would put all groups, small as rows, into one task
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


@contextmanager
def _java_home() -> Iterator[None]:
    """JAVA_HOME as Spark's launcher must see it, while it starts."""
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(find_java().resolve().parent.parent)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    for pattern in _JAVA_FOLDERS:
        yield from sorted(Path("/").glob(pattern.removeprefix("/")))


def _java_version(java: Path) -> int | None:
    """8, 11, 17 …; None if that is no Java."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(match[1]) if match else None
