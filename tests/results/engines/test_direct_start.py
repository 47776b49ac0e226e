"""The start of Spark's JVM without Spark's launcher: by the kept command, where nobody adapted Spark, with nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from schemaquake.clusters.distribution.java import find_java
from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.results.engines import jvm_start
from schemaquake.results.engines.jvm_archive import Archive, find_archive, keep_command
from schemaquake.results.engines.jvm_start import spark_settings, start_directly
from schemaquake.results.engines.spark_session import JAVA_LEAST

PROGRAM = """
import json, os, sys
from pathlib import Path
import pyarrow as pa
from schemaquake.harness.errors import HistoryError
from schemaquake.results.engines.engine import Spark
from schemaquake.results.engines.jvm_archive import Archive
from schemaquake.results.engines import spark_session
from schemaquake.results.engines.spark_session import light_context

if len(sys.argv) > 1:
    spark_session.find_archive = lambda java: Archive(Path(sys.argv[1]))

def refuse(group):
    raise HistoryError("line 3 is damaged")

with light_context("local[1]") as context:
    context.parallelize([1], 1).collect()
    with_pandas = "pandas" in sys.modules
groups = pa.table({"unit": pa.array([0, 1], pa.int32())})  # Arrow imports pandas for it
seen = []
for _ in range(2):
    with light_context("local[2]") as context:
        assert Spark(context, 2).carry(lambda group: group, groups, groups.schema).equals(groups)
        try:
            Spark(context, 2).carry(refuse, groups, groups.schema)
        except HistoryError as refusal:
            assert str(refusal) == "line 3 is damaged"
        else:
            raise AssertionError("a refusal of a task is raised")
        pid = context._jvm.java.lang.ProcessHandle.current().pid()
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\\0")
        (root,) = context._jvm.org.apache.spark.util.Utils.getConfiguredLocalDirs(context._jsc.sc().conf())
    alive = os.path.exists(f"/proc/{pid}")
    seen.append([next(word for word in command if word.startswith("org.apache.spark")), alive, os.path.exists(root)])
print(json.dumps(seen), with_pandas)
"""
DIRECT = "org.apache.spark.api.python.PythonGatewayServer"
LAUNCHED = "org.apache.spark.deploy.SparkSubmit"


@pytest.fixture(scope="module")
def java() -> Path:
    try:
        return find_java(JAVA_LEAST).path
    except EnvironmentLacks as lack:
        pytest.skip(str(lack))


@pytest.fixture
def archive(java: Path) -> Archive:
    found = find_archive(java)
    if found is None or not found.command:
        pytest.skip("no archive of Spark's JVM: make setup makes it")
    return found


def started(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", PROGRAM, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=folder)


@pytest.mark.spark
@pytest.mark.usefixtures("archive")
def test_contexts_one_after_another_have_jvms_of_their_own_and_leave_nothing(tmp_path: Path) -> None:
    done = started(folder=tmp_path)
    assert done.stderr == ""
    assert done.stdout == f"{json.dumps([[DIRECT, False, False]] * 2)} False\n"


@pytest.mark.spark
def test_a_command_that_does_not_work_leaves_the_start_to_the_launcher(archive: Archive, tmp_path: Path) -> None:
    (broken := tmp_path / "archive.jsa").symlink_to(archive.path)
    keep_command(broken, ["--no-such-option"])
    done = started(str(broken), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no-such-option" in done.stderr
    (first, _alive, _left), _second = json.loads(done.stdout.rpartition(" ")[0])
    assert first == LAUNCHED


@pytest.mark.parametrize("name", jvm_start._READ_BY_LAUNCHER)
def test_who_adapts_spark_by_the_environment_gets_its_launcher(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, "/set/by/the/user")
    keep_command(tmp_path / "archive.jsa", ["--not-tried"])
    settings = spark_settings("local[1]", tmp_path / "log.xml", light=True, further="")
    assert start_directly(tmp_path / "no-java", Archive(tmp_path / "archive.jsa"), settings, tmp_path) is None


def test_who_adapts_spark_by_a_folder_gets_its_launcher(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = spark_settings("local[1]", tmp_path / "log.xml", light=True, further="")
    keep_command(tmp_path / "archive.jsa", ["--not-tried"])
    (java := tmp_path / "java").write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\n")
    java.chmod(0o755)
    monkeypatch.setattr(jvm_start, "spark_folder", lambda: tmp_path)
    assert start_directly(java, Archive(tmp_path / "archive.jsa"), settings, tmp_path) is None
    assert (tmp_path / "runs").read_text() == "run\n", "a JVM that ends at once was tried"
    (tmp_path / "conf").mkdir()
    assert start_directly(java, Archive(tmp_path / "archive.jsa"), settings, tmp_path) is None
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_java_that_cannot_be_run_leaves_the_start_to_the_launcher(tmp_path: Path) -> None:
    settings = spark_settings("local[1]", tmp_path / "log.xml", light=True, further="")
    keep_command(tmp_path / "archive.jsa", ["--not-tried"])
    assert start_directly(tmp_path / "no-java", Archive(tmp_path / "archive.jsa"), settings, tmp_path) is None
