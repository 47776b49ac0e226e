"""JVM archiving: `python -m schemaquake.results.engines.jvm_archiving` makes the archive for Spark on this machine, if there is none.

With a path, it is the session whose JVM writes the archive there as it ends (`schemaquake.results.engines.jvm_archive`).
"""

from __future__ import annotations

import logging
import sys

import pyarrow as pa

from schemaquake.clusters.distribution.java import find_java
from schemaquake.results.engines.engine import Spark
from schemaquake.results.engines.jvm_archive import SILENT, ensure_archive
from schemaquake.results.engines.spark_session import JAVA_LEAST, spark_session

__all__ = ["write_archive"]


def write_archive(path: str) -> None:
    """Start a session as checks do, carry a step in two tasks, and wait for the end of its JVM, which writes the archive."""
    groups = pa.table({"unit": pa.array([0, 1], pa.int32())})
    with spark_session("local[2]", light=True, options=f'"-XX:ArchiveClassesAtExit={path}" {SILENT}') as session:
        Spark(session, 2).carry(_same, groups, groups.schema)
        gateway = session.sparkContext._gateway  # noqa: SLF001 - stopping the session leaves its JVM as it is
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()  # at which the JVM ends
    gateway.proc.wait()


def _same(group: pa.Table) -> pa.Table:
    return group


if __name__ == "__main__":
    if sys.argv[1:]:
        write_archive(sys.argv[1])
    else:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        sys.exit(0 if ensure_archive(find_java(JAVA_LEAST).path) else 1)
