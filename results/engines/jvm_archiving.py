"""JVM archiving: `python -m schemaquake.results.engines.jvm_archiving` makes the archive for Spark on this machine, if there is none.

With a path, it is the context whose JVM writes the archive there as it ends (`schemaquake.results.engines.jvm_archive`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from schemaquake.clusters.distribution.java import find_java
from schemaquake.results.engines.engine import Spark
from schemaquake.results.engines.jvm_archive import SILENT, ensure_archive, keep_command
from schemaquake.results.engines.jvm_start import driver_options, log_configuration, spark_settings
from schemaquake.results.engines.spark_session import JAVA_LEAST, light_context

__all__ = ["write_archive"]


def write_archive(path: str) -> None:
    """Start a context as checks do, carry a step in two tasks, and wait for the end of its JVM, which writes the archive."""
    groups = pa.table({"unit": pa.array([0, 1], pa.int32())})
    options = f'"-XX:ArchiveClassesAtExit={path}" {SILENT}'
    with light_context("local[2]", options=options) as context:
        Spark(context, 2).carry(_same, groups, groups.schema)
        gateway = context._gateway  # noqa: SLF001 - stopping the context leaves its JVM as it is
        with log_configuration() as path_of_log:
            settings = spark_settings("local[2]", path_of_log, light=True, further=options)
    assert gateway is not None
    with suppress(OSError):  # a system without /proc: JVMs are started by Spark's launcher then
        keep_command(Path(path), _of_launcher(gateway.proc.pid, driver_options(settings)))
    gateway.shutdown()
    gateway.proc.stdin.close()  # at which the JVM ends
    gateway.proc.wait()


def _of_launcher(pid: int, given: Sequence[str]) -> Sequence[str]:
    """Return the options of a running JVM that were not `given`: those of Spark's launcher, up to the class that it runs."""
    _java, *options = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    until = options.index("org.apache.spark.deploy.SparkSubmit")
    return [option for option in options[:until] if option not in given]


def _same(group: pa.Table) -> pa.Table:
    return group


if __name__ == "__main__":
    if sys.argv[1:]:
        write_archive(sys.argv[1])
    else:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        sys.exit(0 if ensure_archive(find_java(JAVA_LEAST).path) else 1)
