"""A real Spark cluster says what this process says, and goes on saying it when a worker dies in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damage import damaged
from plain_verdicts import plainly
from register_histories import registers
from small_histories import table
from standalone_cluster import StandaloneCluster, standalone_cluster

from schemaquake.clusters.distribution.java import find_java
from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.harness.model.verdict import Verdict
from schemaquake.harness.wait import until
from schemaquake.results.engines.spark_session import JAVA_LEAST
from schemaquake.results.runs.checking import check_path

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

LIMIT_S = 1200
"""Of a check: the machine may be busy with other things, and then Java is slow."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    try:
        find_java(JAVA_LEAST)
    except EnvironmentLacks as lack:
        pytest.skip(str(lack))
    (tmp_path / "cluster").mkdir()
    with standalone_cluster(tmp_path / "cluster") as started:
        yield started


def begun(cluster: StandaloneCluster, file: Path, checker: str) -> subprocess.Popen[bytes]:
    """`schemaquake check` on that cluster, in executors of 512 MB."""
    command = "from schemaquake.harness.cli.command_line import main; main()"
    arguments = [
        "check",
        str(file),
        "--checker",
        checker,
        "--master",
        cluster.master,
        "--json",
        "--limit",
        str(LIMIT_S),
    ]
    # A collector of the user's own: a JVM that were given another one by us would not start.
    own = "--conf spark.executor.extraJavaOptions=-XX:+UseParallelGC"
    submitted = f"--conf spark.executor.memory=512m --conf spark.executor.cores=1 {own} pyspark-shell"
    return subprocess.Popen(
        [sys.executable, "-c", command, *arguments],
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": submitted},
        stdout=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[bytes]) -> Any:
    output, _ = process.communicate(timeout=LIMIT_S)
    document = json.loads(output)
    del document["path"]
    assert "reason" not in document, document["reason"]
    return plainly(Verdict.from_json(document))


def here(file: Path, checker: str) -> Any:
    verdict = check_path(file, checkers=[checker], file_format=None, engine="local", master=None, limit_s=LIMIT_S)
    return plainly(verdict)


def stored(folder: Path, events: pa.Table, *, rows: int) -> Path:
    file = folder / "history.parquet"
    pq.write_table(events, file, row_group_size=rows)
    return file


@pytest.mark.long
def test_a_cluster_of_two_workers_gives_the_local_verdict(cluster: StandaloneCluster, tmp_path: Path) -> None:
    file = stored(tmp_path, table(damaged(21, "list-append", count=300, keys=6, share=0.05)), rows=100)
    verdict = ended(begun(cluster, file, "list-append"))
    assert verdict == here(file, "list-append")
    assert verdict["valid"] is False
    assert not list(tmp_path.glob(".schemaquake-*"))
    registers_file = stored(tmp_path, registers(5, keys=8, damage=0.03), rows=100)
    assert ended(begun(cluster, registers_file, "linearizable")) == here(registers_file, "linearizable")


@pytest.mark.long
def test_a_worker_that_dies_in_the_middle_changes_nothing(cluster: StandaloneCluster, tmp_path: Path) -> None:
    file = stored(tmp_path, table(damaged(22, "rw-register", count=300, keys=6, share=0.05)), rows=100)
    process = begun(cluster, file, "rw-register")
    # Transactions have been laid out, nothing else has been done.
    until(
        lambda: process.poll() is not None or list(tmp_path.glob(".schemaquake-*/frontier-*.arrow")),
        deadline_s=LIMIT_S,
        what="the first step",
    )
    cluster.kill_worker(0)
    assert process.poll() is None, "the check had ended before the worker was killed"
    verdict = ended(process)
    assert verdict == here(file, "rw-register")
    assert verdict["valid"] is False
    until(lambda: cluster.alive() == 1, deadline_s=120, what="the master to see that one worker is left", every_s=0.5)
