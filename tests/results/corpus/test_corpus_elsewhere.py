"""Corpora on a cluster of two workers, one of which dies in the middle, in an S3-compatible store and in Hadoop's own file system."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bundles import RUN, judged_run
from corpora import table_of, with_tables
from hdfs_store import hdfs_store
from object_store import object_store
from site_runs import held
from standalone_cluster import standalone_cluster

from schemaquake.clusters.distribution.java import find_java
from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.harness.wait import until
from schemaquake.results.corpus.building import Corpus
from schemaquake.results.corpus.tables import SCHEMAS
from schemaquake.results.engines.spark_session import JAVA_LEAST, spark_session

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

LIMIT_S = 1200
"""The machine may be busy with other things, and then Java is slow."""
RUNS = 60


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    try:
        find_java(JAVA_LEAST)
    except EnvironmentLacks as lack:
        pytest.skip(str(lack))
    folder = tmp_path_factory.mktemp("runs")
    run = judged_run(folder / RUN, "create-table,quorum", ("partition",), time_limit_s=12.0, rate=5.0)
    for number in range(RUNS - 1):
        with_tables(run, folder / f"run-{number:03}", seed=number, **(held(run) if number % 3 else {}))
    return folder


@pytest.fixture(scope="module")
def expected(runs, tmp_path_factory) -> dict[str, Any]:
    """The tables as one process makes them."""
    with spark_session("local[2]") as session:
        made = Corpus(session, f"file:{tmp_path_factory.mktemp('here')}")
        assert sum(added.commit.runs for added in made.add([str(runs)])) == RUNS
        return {name: table_of(made.frames(), name) for name in SCHEMAS}


def begun(*arguments: str, submitted: str) -> subprocess.Popen[bytes]:
    command = "from schemaquake.harness.cli.command_line import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", command, "corpus", *arguments, "--json"],
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"{submitted} pyspark-shell"},
        stdout=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[bytes]) -> Any:
    output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    return json.loads(output)


def tables_in(folder: Path) -> dict[str, Any]:
    with spark_session("local[2]") as session:
        frames = Corpus(session, f"file:{folder}").frames()
        return {name: table_of(frames, name) for name in SCHEMAS}


@pytest.mark.parametrize("is_killed", [False, True], ids=["whole", "a worker killed in the middle"])
def test_a_cluster_makes_the_tables_that_one_process_makes(runs, expected, tmp_path, is_killed):
    (tmp_path / "cluster").mkdir()
    tables = tmp_path / "tables"
    with standalone_cluster(tmp_path / "cluster") as cluster:
        submitted = (
            "--conf spark.executor.memory=512m --conf spark.executor.cores=1 --conf spark.sql.files.openCostInBytes=64m"
        )
        process = begun(str(runs), "--to", str(tables), "--master", cluster.master, submitted=submitted)
        if is_killed:
            until(
                lambda: process.poll() is not None or list(tables.glob("operations/batch=*/attempt=*")),
                deadline_s=LIMIT_S,
                what="the first table is being written",
            )
            assert process.poll() is None, "it was over before a worker could die"
            cluster.kill_worker(0)
        document = ended(process)
    assert (document["runs"], document["unread"]) == (RUNS, [])
    assert tables_in(tables) == expected


def test_a_writer_that_is_killed_leaves_what_the_next_one_ends(runs, expected, tmp_path):
    tables = tmp_path / "tables"
    process = begun(str(runs), "--to", str(tables), "--batch", "25", submitted="--master local[2]")
    until(
        lambda: process.poll() is not None or list(tables.glob("_commits/*.json")), deadline_s=LIMIT_S, what="a commit"
    )
    assert process.poll() is None
    process.kill()
    process.communicate()
    document = ended(begun(str(runs), "--to", str(tables), "--batch", "25", submitted="--master local[2]"))
    assert document["runs"] < RUNS
    assert tables_in(tables) == expected


# ── an object store ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_object_store_has_the_same_tables_and_a_writer_that_dies_there_leaves_them_whole(runs, expected, tmp_path):
    with object_store(tmp_path) as store:
        store.put_folder(
            runs, "nightly/runs", only=("summary.json", "plan.json", "history.parquet", "operations.parquet")
        )
        arguments = ("s3a://nightly/runs", "--to", "s3a://tables/corpus", "--batch", "35", "--master", "local[2]")
        process = begun(*arguments, submitted=store.spark_options)
        until(
            lambda: (
                process.poll() is not None
                or [name for name in store.names("tables/corpus/_commits/") if not name.startswith("_")]
            ),
            deadline_s=LIMIT_S,
            what="a commit",
        )
        assert process.poll() is None, "it was over before it could die"
        process.kill()
        process.communicate()
        document = ended(begun(*arguments, submitted=store.spark_options))
        assert (document["runs"], document["unread"]) == (RUNS - 35, [])
        asked = ended(begun(*arguments, "--compact", "--query", "rates", submitted=store.spark_options))
        assert asked["batches"] == []
        assert asked["compacted"] is not None
        assert all(0 <= row["low"] <= row["high"] <= 1 for row in asked["rows"])
        assert sum(row["broken"] for row in asked["rows"]) > 0
        store.get_folder("tables/corpus/", tmp_path / "copy")
    assert tables_in(tmp_path / "copy") == expected


# ── Hadoop's file system ─────────────────────────────────────────────────────────────────────────────────────────────


def test_hadoops_file_system_has_the_same_tables_and_a_writer_that_dies_there_leaves_them_whole(
    runs, expected, tmp_path
):
    with hdfs_store(tmp_path / "hadoop") as store:
        store.shell("-mkdir", "-p", f"{store.address}/nightly")
        store.shell("-put", str(runs), f"{store.address}/nightly/runs")
        tables = f"{store.address}/tables/corpus"
        arguments = (f"{store.address}/nightly/runs", "--to", tables, "--batch", "35", "--master", "local[2]")
        process = begun(*arguments, submitted="")
        until(
            lambda: (
                process.poll() is not None or [name for name in store.names(f"{tables}/_commits") if is_commit(name)]
            ),
            deadline_s=LIMIT_S,
            what="a commit",
            every_s=0.5,
        )
        assert process.poll() is None, "it was over before it could die"
        process.kill()
        process.communicate()
        document = ended(begun(*arguments, submitted=""))
        assert (document["runs"], document["unread"]) == (RUNS - 35, [])
        asked = ended(begun(*arguments, "--compact", "--vacuum", "0", "--query", "rates", submitted=""))
        assert asked["batches"] == []
        assert asked["compacted"] is not None
        assert sum(row["broken"] for row in asked["rows"]) > 0
        store.shell("-get", tables, str(tmp_path / "copy"))
    assert tables_in(tmp_path / "copy") == expected


def is_commit(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(("_", "."))
