"""Spark session: a quiet Spark session for one check, on this machine or on a cluster, which is always stopped.

Spark executes the same functions as the local engine and needs only Java 17 or later. On a cluster (`--master`) the
distribution `schemaquake` must be installed in the Python of every executor: the interpreter in PYSPARK_PYTHON, or else the
one at the path of this process' interpreter.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from schemaquake.clusters.distribution.java import find_java
from schemaquake.harness.history.lean_arrow import SMALL_PAGES
from schemaquake.results.engines.jvm_archive import archive_options
from schemaquake.results.engines.masters import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["JAVA_LEAST", "pandas_unused", "spark_session"]

log = logging.getLogger(__name__)

JAVA_LEAST: Final = 17
_LOCAL: Final = "local[*]"
_FIRST_COMPILER: Final = "-XX:TieredStopAtLevel=1"
_LIGHT: Final = f"{_FIRST_COMPILER} -XX:+UseSerialGC"
"""Options of a JVM that only hands out tasks: it spends most of its time on compiling what it runs a few times."""
_INCUBATING: Final = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
"""The line that every JVM of Spark begins with; no option of Java keeps it away."""
_STDERR: Final = 2
_LAST_LINES_S: Final = 5.0
"""Time for the last lines of a JVM that did not start."""
_LOOPBACK: Final = ("local", "spark://127.0.0.1:", "spark://localhost:")
"""The beginnings of masters whose executors run on this machine."""


@contextmanager
def spark_session(
    master: str | None = None, *, light: bool = False, options: str | None = None
) -> Iterator[SparkSession]:
    """Provide a session on `master` (default: every core of this machine), stopped when the block ends.

    A `light` one starts with a quarter of the work and is slow with rows of its own: for tasks that read files themselves.
    Its executors are nearly as light. `options` are further ones of a light session's JVMs on this machine, by default those
    of its archive. An active session is used as it is and left running. Raises EnvironmentLacks without Java 17 or later.
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
    java = find_java(JAVA_LEAST).path
    further = (archive_options(java) if options is None else options) if light else ""
    with _environment(java), as_file(files(__package__) / "spark-log.xml") as log_configuration:
        builder = SparkSession.builder
        settings = _settings(master or _LOCAL, log_configuration, light=light, further=further)
        for name, value in settings.items():
            builder = builder.config(name, value)
        log.debug("starting Spark", extra={"master": master or _LOCAL})
        with pandas_unused():
            _start_jvm(settings)
            session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def pandas_unused() -> Iterator[None]:
    """Suppress PySpark's warning about the version of pandas, which is imported but not used here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        yield


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM of the first session, whose standard error is this process', but for the warning of its modules."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - slow to import, and most runs do without
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - as above

    if SparkContext._gateway is not None:  # noqa: SLF001 - a JVM outlives its session, and there is one a process
        return
    configuration = SparkConf().setAll(list(settings.items()))
    reading, writing = os.pipe()
    forwarding = threading.Thread(target=_forward_errors, args=(reading,), daemon=True)
    forwarding.start()
    try:
        gateway = launch_gateway(configuration, {"stderr": writing})
    except BaseException:
        os.close(writing)
        forwarding.join(_LAST_LINES_S)  # the reason is among the lines of a JVM that ended
        raise
    os.close(writing)
    SparkContext._ensure_initialized(gateway=gateway, conf=configuration)  # noqa: SLF001 - as above


def _forward_errors(reading: int) -> None:
    """Write the lines of a pipe to standard error as they come, without the warning of incubating modules."""
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if line != _INCUBATING:
                with suppress(OSError):  # a closed standard error must not stop the JVM that writes to the pipe
                    os.write(_STDERR, line)


def _settings(master: str, log_configuration: Path, *, light: bool, further: str) -> Mapping[str, str]:
    options = f"-Dlog4j2.configurationFile={log_configuration.as_uri()} {further}".rstrip()
    settings = {
        "spark.app.name": "schemaquake",
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"{options} {_LIGHT}" if light else options,
        "spark.sql.warehouse.dir": "/nonexistent",  # no table is ever saved
        **{f"spark.executorEnv.{name}": value for name, value in SMALL_PAGES.items()},
        **_query_settings(),
    }
    if light:
        # Not `extraJavaOptions`, which are the user's, and come after these: they may choose a collector, and a JVM does not
        # start with two. The archive lies on this machine.
        there = f"{further} {_FIRST_COMPILER}".lstrip() if master.startswith(_LOOPBACK) else _FIRST_COMPILER
        settings["spark.executor.defaultJavaOptions"] = there
    if master.startswith(_LOOPBACK):
        # Listen on the loopback interface only; the machine's host name may not resolve.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if is_local(master):
        # Executors import checkers of plugins and tests from the same path as this process.
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return settings


def _query_settings() -> Mapping[str, str]:
    return {"spark.sql.execution.arrow.pyspark.enabled": "true"}


@contextmanager
def _environment(java: Path) -> Iterator[None]:
    """Set JAVA_HOME for Spark's launcher and the Python of its executors: this interpreter, unless the user named another."""
    wanted = {
        "JAVA_HOME": str(java.resolve().parent.parent),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }
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
