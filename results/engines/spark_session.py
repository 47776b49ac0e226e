"""Spark session: a quiet Spark for one check, on this machine or on a cluster, which is always stopped.

Spark executes the same functions as the local engine and needs only Java 17 or later. On a cluster (`--master`) the
distribution `schemaquake` must be installed in the Python of every executor: the interpreter in PYSPARK_PYTHON, or else the
one at the path of this process' interpreter.
"""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, cast

from schemaquake.clusters.distribution.java import find_java
from schemaquake.results.engines.jvm_archive import Archive, find_archive
from schemaquake.results.engines.jvm_start import (
    DirectJvm,
    log_configuration,
    query_settings,
    spark_environment,
    spark_settings,
    start_by_launcher,
    start_directly,
)
from schemaquake.results.engines.masters import is_local

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["JAVA_LEAST", "light_context", "pandas_unused", "spark_session"]

log = logging.getLogger(__name__)

JAVA_LEAST: Final = 17
_LOCAL: Final = "local[*]"


@contextmanager
def spark_session(master: str | None = None) -> Iterator[SparkSession]:
    """Provide a session on `master` (default: every core of this machine), stopped when the block ends.

    An active session is used as it is and left running. Raises EnvironmentLacks without Java 17 or later.
    """
    with pandas_unused():
        from pyspark.sql import SparkSession  # noqa: PLC0415 - slow to import, and most runs do without

    active = SparkSession.getActiveSession()
    if active is not None:
        session = active.newSession()  # its tables and context, settings of its own
        for name, value in query_settings().items():
            session.conf.set(name, value)
        yield session
        return
    java = find_java(JAVA_LEAST).path
    with spark_environment(java), log_configuration() as path_of_log:
        builder = SparkSession.builder
        settings = spark_settings(master or _LOCAL, path_of_log, light=False, further="")
        for name, value in settings.items():
            builder = builder.config(name, value)
        log.debug("starting Spark", extra={"master": master or _LOCAL})
        with pandas_unused():
            start_by_launcher(settings)
            session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def light_context(master: str | None = None, *, options: str | None = None) -> Iterator[SparkContext]:
    """Provide a context on `master` for tasks that read files themselves: it starts with a small part of a session's work.

    It is slow with rows of its own, and has no queries. Its executors are nearly as light. `options` are further ones of its JVMs on
    this machine, by default those of their archive; with others, Spark's own launcher starts it. An active context is used as it is
    and left running. Raises EnvironmentLacks without Java 17 or later.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - slow to import, and most runs do without

    active = SparkContext._active_spark_context  # noqa: SLF001 - PySpark has no other way to ask
    if active is not None:
        yield active
        return
    java = find_java(JAVA_LEAST).path
    archive = find_archive(java) if options is None else None
    further = (options or "") if archive is None else archive.options
    with spark_environment(java), log_configuration() as path_of_log, ExitStack() as ending:
        settings = spark_settings(master or _LOCAL, path_of_log, light=True, further=further)
        log.debug("starting Spark", extra={"master": master or _LOCAL})
        context = None
        if archive is not None and is_local(master):
            context = ending.enter_context(_direct_context(java, archive, settings))
        if context is None:
            context = ending.enter_context(_launched_context(settings))
        yield context


@contextmanager
def _launched_context(settings: Mapping[str, str]) -> Iterator[SparkContext]:
    """Provide a context of a JVM that Spark's launcher starts, which ends with this process."""
    with _pandas_left_out():
        start_by_launcher(settings)
        context = _context(settings)
    try:
        yield context
    finally:
        context.stop()


@contextmanager
def _direct_context(java: Path, archive: Archive, settings: Mapping[str, str]) -> Iterator[SparkContext | None]:
    """Provide a context of a JVM that is started directly and ends with it; None if there can be no such JVM."""
    from pyspark import SparkContext  # noqa: PLC0415 - slow to import, and most runs do without

    with TemporaryDirectory(prefix="schemaquake-", ignore_cleanup_errors=True) as folder:
        jvm = start_directly(java, archive, settings, Path(folder))
        if jvm is None:
            yield None
            return
        try:
            with _pandas_left_out():
                SparkContext._ensure_initialized(gateway=jvm.gateway)  # noqa: SLF001 - PySpark has no other way
                context = _context({**settings, "spark.local.dir": folder})
            yield context
        finally:
            _forget(jvm)


def _forget(jvm: DirectJvm) -> None:
    """End a JVM at once, instead of stopping its context, which takes a second, and make room for another one in this process."""
    from pyspark import SparkContext  # noqa: PLC0415 - slow to import, and most runs do without

    with SparkContext._lock:  # noqa: SLF001 - PySpark has no other way
        context = SparkContext._active_spark_context  # noqa: SLF001 - as above
        SparkContext._active_spark_context = None  # noqa: SLF001 - as above
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - as above
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_request: None  # it would print that its client, the JVM, is gone
    jvm.end()
    if context is not None:
        context._jsc = context._accumulatorServer = None  # noqa: SLF001 - as `stop` does
    if server is not None:
        # It looks only now and then if it is to end.
        threading.Thread(target=server.shutdown, daemon=True).start()


def _context(settings: Mapping[str, str]) -> SparkContext:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - slow to import, and most runs do without

    return SparkContext(conf=SparkConf().setAll(list(settings.items())))


@contextmanager
def pandas_unused() -> Iterator[None]:
    """Suppress PySpark's warning about the version of pandas, which is imported but not used here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        yield


@contextmanager
def _pandas_left_out() -> Iterator[None]:
    """Keep PySpark from importing pandas with its helpers for tests, of which it needs one at each call of the JVM."""
    with pandas_unused():
        if not {"pandas", "pyspark.testing.utils"} & set(sys.modules):
            sys.modules["pandas"] = cast("ModuleType", None)
            try:
                import_module("pyspark.testing.utils")
            finally:
                del sys.modules["pandas"]
        yield
