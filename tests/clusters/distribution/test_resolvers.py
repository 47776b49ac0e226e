"""Resolvers: what they are asked, what their failures are boiled down to, and that they really bring jars."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from network_lack import is_network_lack

from schemaquake.clusters.distribution import resolvers
from schemaquake.clusters.distribution.resolvers import Ivy, Maven, choose_resolver
from schemaquake.clusters.systems.coordinates import Coordinates
from schemaquake.harness.errors import EnvironmentLacks, FetchError
from schemaquake.harness.wait import until

SMALL = [Coordinates("org.slf4j", "slf4j-log4j12", "1.6.1")]
JARS = ["log4j-1.2.16.jar", "slf4j-api-1.6.1.jar", "slf4j-log4j12-1.6.1.jar"]


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def maven(tmp_path, monkeypatch):
    """Make `mvn` a script of the test's choice."""

    def install(script: str) -> Maven:
        program(tmp_path / "bin" / "mvn", script)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
        return Maven()

    return install


@pytest.fixture
def ivy(tmp_path, monkeypatch):
    """Make the Java that runs Ivy a script of the test's choice; it says it is a Java 17 when asked."""

    def install(script: str) -> Ivy:
        version = 'if [ "$1" = -version ]; then echo \'openjdk version "17.0.1"\' >&2; exit 0; fi'
        program(tmp_path / "jdk" / "bin" / "java", f"{version}\n{script}")
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
        return Ivy(tmp_path / "cache" / "ivy")

    return install


def silent(count: int) -> None:
    assert count >= 0


def test_maven_is_asked_for_every_artifact_at_run_time_scope(maven, tmp_path):
    script = f"""
for argument in "$@"; do case "$argument" in */pom.xml) cp "$argument" {tmp_path}/pom.xml;; esac; done
echo "$@" > {tmp_path}/arguments"""
    maven(script).retrieve([*SMALL, Coordinates("a", "b", "1")], tmp_path / "lib", counted=silent)
    pom = ET.parse(tmp_path / "pom.xml")  # noqa: S314  # written by the code under test
    assert [list(each.itertext())[:3] for each in pom.iter("dependency")] == [
        ["org.slf4j", "slf4j-log4j12", "1.6.1"],
        ["a", "b", "1"],
    ]
    assert [list(each.itertext()) for each in pom.iter("exclusion")] == [
        ["net.openhft", "chronicle-analytics"],
        ["com.codahale.metrics", "metrics-core"],
    ] * 2
    arguments = (tmp_path / "arguments").read_text().split()
    assert {"-B", "-C", "-DincludeScope=runtime", f"-DoutputDirectory={tmp_path / 'lib'}"} <= set(arguments)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (
            (
                "[INFO] Scanning\n[ERROR] Failed to execute goal on project fetch: Could not resolve dependencies for project "
                "schemaquake:fetch:pom:1: Could not find artifact org.apache.cassandra:cassandra-all:jar:5.0.99 in central "
                "(https://repository.invalid/maven2) -> [Help 1]\n[ERROR] \n[ERROR] To see the full stack trace, use -e"
            ),
            "Could not find artifact org.apache.cassandra:cassandra-all:jar:5.0.99 in central",
        ),
        (
            (
                "[ERROR] Failed to execute goal on project fetch: Could not resolve dependencies for project x:x:jar:1: Failed "
                "to collect dependencies at a:b:jar:1: Could not transfer artifact a:b:pom:1 from/to central "
                "(https://repository.invalid/maven2): transfer failed for https://repository.invalid/maven2/b-1.pom: Unknown "
                "host repository.invalid: Temporary failure in name resolution -> [Help 1]"
            ),
            "Could not transfer artifact a:b:pom:1 Unknown host repository.invalid: Temporary failure in name resolution",
        ),
        (
            "The JAVA_HOME environment variable is not defined correctly",
            "The JAVA_HOME environment variable is not defined correctly",
        ),
        ("", "nothing"),
    ],
    ids=["unknown version", "no network", "not Maven's own words", "silence"],
)
def test_mavens_failure_is_boiled_down_to_its_cause(maven, tmp_path, output, words):
    (tmp_path / "output").write_text(output)
    with pytest.raises(FetchError) as error:
        maven(f"cat {tmp_path}/output; exit 1").retrieve(SMALL, tmp_path / "lib", counted=silent)
    assert str(error.value) == f'Maven says "{words}"'


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (
            "\tpublic: no ivy file nor artifact found for a#b;1\nWARN: \tmodule not found: a#b;1\nWARN: ==== local: tried",
            "module not found: a#b;1",
        ),
        (
            "ERROR: Host repository.invalid not found. url=https://repository.invalid/b-1.pom\nWARN: \tmodule not found: a#b;1",
            "Host repository.invalid not found",
        ),
        (
            (
                "ERROR: Server access error at url https://repository.invalid/b-1.pom (javax.net.ssl.SSLHandshakeException: "
                "PKIX path building failed)\nWARN: \tmodule not found: a#b;1"
            ),
            "Server access error at (javax.net.ssl.SSLHandshakeException: PKIX path building failed)",
        ),
    ],
    ids=["unknown version", "no network", "a repository that is not trusted"],
)
def test_ivys_failure_is_boiled_down_to_its_cause(ivy, tmp_path, output, words):
    (tmp_path / "output").write_text(output)
    with pytest.raises(FetchError) as error:
        ivy(f"cat {tmp_path}/output; exit 1").retrieve(SMALL, tmp_path / "lib", counted=silent)
    assert str(error.value) == f'Ivy says "{words}"'


def test_downloads_are_counted_while_they_come(maven, tmp_path):
    counts: list[int] = []
    line = "[INFO] Downloaded from central: https://repository.invalid/a/1/a-1"
    script = f'echo "{line}.jar (3 kB)"; echo "{line}.pom (1 kB)"; sleep 0.6; echo "{line}.jar (3 kB)"'
    maven(script).retrieve(SMALL, tmp_path / "lib", counted=counts.append)
    assert counts == sorted(counts)
    assert 1 in counts
    assert counts[-1] == 2


def test_resolver_that_never_ends_is_ended_with_all_it_started(maven, tmp_path, monkeypatch):
    child = tmp_path / "child"

    def once_it_began(condition, **limits):
        until(child.exists, deadline_s=60, what="the resolver's child")
        return until(condition, **limits)

    monkeypatch.setattr(resolvers, "until", once_it_began)
    monkeypatch.setattr(resolvers, "_DEADLINE_S", 0.5)
    with pytest.raises(FetchError, match=r"Maven gave no result: .* within 0\.5 s"):
        maven(f"sleep 600 & echo $! > {child}.new; mv {child}.new {child}; wait").retrieve(
            SMALL, tmp_path / "lib", counted=silent
        )
    state = Path(f"/proc/{int(child.read_text())}/stat")

    def ended() -> bool:
        try:
            return state.read_text().rpartition(")")[2].split()[0] in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return True

    # A signal is sent at once and takes effect when the kernel gives the process its turn.
    until(ended, deadline_s=60, what="the child's end")


def test_auto_is_maven_where_it_is_installed_and_ivy_elsewhere(maven, tmp_path, monkeypatch):
    maven("exit 0")
    assert choose_resolver("auto", cache=tmp_path).name == "Maven"
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert choose_resolver("auto", cache=tmp_path).name == "Ivy"


def test_absent_resolvers_are_named_with_how_to_have_them(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(resolvers, "_ivy_jars", list)
    with pytest.raises(EnvironmentLacks, match=r"apt-get install maven.*pip install \"pyspark"):
        choose_resolver("auto", cache=tmp_path)


@pytest.mark.parametrize("name", ["maven", "ivy"])
def test_real_resolver_brings_an_artifact_and_what_it_needs(name, tmp_path):
    try:
        choose_resolver(name, cache=tmp_path).retrieve(SMALL, tmp_path / "lib", counted=silent)
    except EnvironmentLacks as lack:
        if not isinstance(lack, FetchError) or is_network_lack(str(lack)):
            pytest.skip(f"no {name} or no network: {lack}")
        raise
    jars = sorted((tmp_path / "lib").iterdir())
    assert [jar.name for jar in jars] == JARS
    assert all(zipfile.is_zipfile(jar) for jar in jars)
