"""The archive for Spark's JVM: made once for a Java and its jars, used when it is whole, and never missed when it is not there."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from schemaquake.clusters.distribution.java import find_java
from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.results.engines import jvm_archive
from schemaquake.results.engines.jvm_archive import SILENT, ensure_archive, find_archive, keep_command

CLASSES = "archive.write_bytes(b'classes')"
USED = """
import os, sys
from pathlib import Path
import pyarrow as pa
from schemaquake.results.engines.engine import Spark
from schemaquake.results.engines.spark_session import light_context

groups = pa.table({"unit": pa.array([0], pa.int32())})
with light_context("local[1]") as context:
    assert Spark(context, 1).carry(lambda group: group, groups, groups.schema).equals(groups)
    jvm = context._jvm.java.lang.ProcessHandle.current().pid()
    mapped = {line.split(maxsplit=5)[-1] for line in Path(f"/proc/{jvm}/maps").read_text().splitlines()}
for path in mapped:
    if Path(path).parent.name == "startup-archives":
        print(path)
"""


@pytest.fixture
def spark(tmp_path):
    """A folder as PySpark's is."""
    (jars := tmp_path / "pyspark" / "jars").mkdir(parents=True)
    (jars / "a.jar").write_bytes(b"one")
    (jars / "b.jar").write_bytes(b"two")
    return jars.parent


@pytest.fixture
def java(tmp_path):
    (home := tmp_path / "java" / "bin").mkdir(parents=True)
    (home / "java").touch()
    (home.parent / "release").write_text('JAVA_VERSION="17.0.15"\n')
    return home / "java"


@pytest.fixture
def makes(monkeypatch, tmp_path):
    """`makes("code")`: instead of a session of Spark that code is run, with the path of the archive as `archive`."""
    monkeypatch.setenv("SCHEMAQUAKE_CACHE", str(tmp_path / "cache"))
    runs = tmp_path / "runs"
    popen = subprocess.Popen

    def use(code, *, until=None):
        """With `until`, the limit of time begins when that file is there."""

        def session(command, **options):
            begin = f"import os, sys, time; from pathlib import Path; archive = Path({command[-1]!r})"
            counts = f"open({str(runs)!r}, 'a').write('run')"
            started = popen([sys.executable, "-c", f"{begin}; {counts}; {code}"], **options)
            deadline = time.monotonic() + 120
            while until is not None and not until.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            return started

        monkeypatch.setattr(jvm_archive.subprocess, "Popen", session)
        return lambda: runs.read_text().count("run") if runs.exists() else 0

    return use


def archives(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache" / "startup-archives").iterdir() if path.suffix == ".jsa")


def test_an_archive_is_made_once_and_then_used(makes, java, spark, tmp_path):
    times = makes(CLASSES)
    assert find_archive(java, spark) is None
    made = ensure_archive(java, spark)
    assert ensure_archive(java, spark) == made
    assert times() == 1
    assert made.read_bytes() == b"classes"
    found = find_archive(java, spark)
    assert found.options == f'"-XX:SharedArchiveFile={made}" -Xshare:auto {SILENT}'
    assert archives(tmp_path) == [made.name]


@pytest.mark.parametrize("content", [b"", b"class", b"classes and more"], ids=["empty", "shorter", "longer"])
def test_one_that_is_not_as_long_as_it_was_is_none(makes, java, spark, content):
    makes(CLASSES)
    made = ensure_archive(java, spark)
    made.write_bytes(content)
    assert find_archive(java, spark) is None
    again = ensure_archive(java, spark)
    assert again.read_bytes() == b"classes"
    assert find_archive(java, spark) is not None


def test_another_java_and_other_jars_have_another_and_what_was_there_before_is_gone(makes, java, spark, tmp_path):
    makes(CLASSES)
    other = tmp_path / "other-pyspark"
    (other / "jars").mkdir(parents=True)
    beside = ensure_archive(java, other)
    made = [ensure_archive(java, spark)]
    (java.parent.parent / "release").write_text('JAVA_VERSION="17.0.16"\n')
    assert find_archive(java, spark) is None, "a Java that was renewed where it was"
    made.append(ensure_archive(java, spark))
    (spark / "jars" / "b.jar").write_bytes(b"renewed")
    assert find_archive(java, spark) is None
    made.append(ensure_archive(java, spark))
    (spark / "jars" / "c.jar").touch()
    assert find_archive(java, spark) is None
    made.append(ensure_archive(java, spark))
    assert len(set(made)) == 4
    assert archives(tmp_path) == sorted([beside.name, made[-1].name]), "each is a hundred megabytes"


@pytest.mark.parametrize(
    ("code", "why"), [("sys.exit('no memory')", "no memory"), ("pass", "ended without one")], ids=["failed", "nothing"]
)
def test_a_machine_that_cannot_make_one_goes_without(makes, java, spark, caplog, tmp_path, code, why):
    makes(code)
    with caplog.at_level(logging.WARNING):
        assert ensure_archive(java, spark) is None
    assert "no startup archive could be made" in caplog.text
    assert why in str([record.__dict__.get("why") for record in caplog.records])
    assert find_archive(java, spark) is None
    assert archives(tmp_path) == []


def test_a_session_that_does_not_end_is_ended_with_what_it_started(makes, java, spark, caplog, monkeypatch, tmp_path):
    child = tmp_path / "child"
    monkeypatch.setattr(jvm_archive, "_LIMIT_S", 0.3)
    makes(f"pid = os.fork(); pid and Path({str(child)!r}).write_text(str(pid)); time.sleep(600)", until=child)
    with caplog.at_level(logging.WARNING):
        assert ensure_archive(java, spark) is None
    assert "it took more than 0.3 s" in str([record.__dict__.get("why") for record in caplog.records])
    assert ended(int(child.read_text()))


@pytest.mark.parametrize("damage", [None, "", "[1]", '{"a": 1}', "[", '"-Xmx1g"'])
def test_the_command_of_a_jvm_is_kept_with_its_archive_or_there_is_none(makes, java, spark, damage):
    makes(
        f"{CLASSES}; from schemaquake.results.engines.jvm_archive import keep_command; keep_command(archive, ['-Xmx1g'])"
    )
    made = ensure_archive(java, spark)
    kept = find_archive(java, spark)
    assert kept.command == ["-Xmx1g"]
    if damage is None:
        made.with_suffix(".json").unlink()
    else:
        made.with_suffix(".json").write_text(damage)
    assert not kept.command


def test_a_new_archive_takes_the_place_of_the_old_command(makes, java, spark, tmp_path):
    makes(CLASSES)
    made = ensure_archive(java, spark)
    keep_command(made, ["-Xmx1g"])
    (spark / "jars" / "b.jar").write_bytes(b"renewed")
    again = ensure_archive(java, spark)
    assert not find_archive(java, spark).command
    assert sorted(path.suffix for path in again.parent.iterdir()) == [".jsa", ".lock", ".lock"]


def ended(pid, within_s=120):
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    return False


@pytest.mark.spark
@pytest.mark.long
def test_a_jvm_of_spark_uses_the_archive_that_another_one_left(monkeypatch, tmp_path):
    try:
        java = find_java().path
    except EnvironmentLacks as lack:
        pytest.skip(str(lack))
    monkeypatch.setenv("JAVA_HOME", str(java.resolve().parent.parent))
    monkeypatch.setenv("SCHEMAQUAKE_CACHE", str(tmp_path / "my cache"))
    made = ensure_archive(java)
    assert made.stat().st_size > 1 << 20

    def used():
        session = [sys.executable, "-c", USED]
        done = subprocess.run(session, capture_output=True, text=True, check=True, timeout=600)
        return done.stdout.splitlines()

    assert used() == [str(made)]
    # What does not fit, the JVM does without, and says nothing.
    made.chmod(0o600)
    made.write_bytes(bytes(made.stat().st_size))
    assert find_archive(java) is not None
    assert used() == []
