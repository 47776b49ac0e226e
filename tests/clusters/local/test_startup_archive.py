"""The startup archive: made once for a Java and a class path, used when it is there, and never missed when it is not."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from schemaquake.clusters.local import startup_archive
from schemaquake.clusters.local.startup_archive import archive_arguments, archive_path, ensure_archive

JAVA = Path("/usr/bin/java")
JARS = [Path("/jars/a.jar"), Path("/jars/b.jar")]


@pytest.fixture
def makes(monkeypatch, tmp_path):
    """`makes("script")`: instead of booting a node, that shell script is run, with the request on standard input."""
    monkeypatch.setenv("SCHEMAQUAKE_CACHE", str(tmp_path))
    runs = tmp_path / "runs"

    def use(script):
        # The enclosure's argument vector stands in front of Python and what it should run: the script ignores that.
        monkeypatch.setattr(startup_archive, "enclosure", lambda: ["sh", "-c", f"echo run >> {runs}; {script}", "sh"])
        return lambda: runs.read_text().count("run") if runs.exists() else 0

    return use


WRITES = """archive=$(sed 's/.*"archive": "\\([^"]*\\)".*/\\1/'); echo classes > "$archive" """


def test_an_archive_is_made_once_and_then_used(makes):
    times = makes(WRITES)
    assert archive_arguments(JAVA, JARS) == []
    ensure_archive("cassandra:5.0.9", JAVA, JARS)
    ensure_archive("cassandra:5.0.9", JAVA, JARS)
    assert times() == 1
    path = archive_path(JAVA, JARS)
    assert path.read_text() == "classes\n"
    assert archive_arguments(JAVA, JARS) == [f"-XX:SharedArchiveFile={path}", "-Xshare:auto"]
    assert [found.name for found in path.parent.iterdir()] == [path.name], "nothing else is left"


@pytest.mark.parametrize("script", ["echo 'no memory' >&2; exit 1", "exit 0"], ids=["it failed", "it wrote nothing"])
def test_a_machine_that_cannot_make_one_goes_without(makes, caplog, script):
    makes(script)
    with caplog.at_level(logging.WARNING):
        ensure_archive("cassandra:5.0.9", JAVA, JARS)
    assert "no startup archive could be made" in caplog.text
    assert archive_arguments(JAVA, JARS) == []
    assert list(archive_path(JAVA, JARS).parent.iterdir()) == []


def test_a_node_that_does_not_end_is_not_waited_for_for_ever(makes, caplog, monkeypatch):
    monkeypatch.setattr(startup_archive, "_LIMIT_S", 0.3)
    makes("exec sleep 30")
    with caplog.at_level(logging.WARNING):
        ensure_archive("cassandra:5.0.9", JAVA, JARS)
    assert "it took more than 0.3 s" in str([record.__dict__.get("why") for record in caplog.records])
    assert archive_arguments(JAVA, JARS) == []


def test_another_java_or_another_class_path_has_another_archive(makes):
    makes("exit 0")
    paths = {
        archive_path(JAVA, JARS),
        archive_path(Path("/opt/java/bin/java"), JARS),
        archive_path(JAVA, JARS[:1]),
        archive_path(JAVA, list(reversed(JARS))),
    }
    assert len(paths) == 4
