"""`schemaquake fetch`: one document on standard output, everything else on standard error."""

from __future__ import annotations

import json
from typing import get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from schemaquake.clusters.distribution.commands import fetch_systems, register
from schemaquake.clusters.distribution.resolvers import ResolverName
from schemaquake.harness.errors import FetchError, PlanError


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SCHEMAQUAKE_CACHE", str(tmp_path / "cache"))
    home = tmp_path / "apache-cassandra-5.0.9"
    (home / "lib").mkdir(parents=True)
    (home / "lib" / "apache-cassandra-5.0.9.jar").write_bytes(b"cassandra")
    return home


def run(*arguments):
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    return CliRunner().invoke(app, ["fetch", *map(str, arguments)])


def test_every_resolver_there_is_can_be_asked_for():
    assert get_type_hints(fetch_systems)["resolver"] == ResolverName


def test_json_is_one_document_on_standard_output(home):
    result = run("cassandra:5.0.9", "--distribution", home, "--json")
    assert result.exit_code == 0
    (document,) = json.loads(result.stdout)["distributions"]
    assert document["system"] == "cassandra:5.0.9"
    assert document["home"] == str(home)
    assert document["jars"] == [str(home / "lib" / "apache-cassandra-5.0.9.jar")]
    assert document["bytes"] == len(b"cassandra")
    assert len(document["digest"]) == 64


def test_without_json_a_sentence_says_where_the_jars_are(home):
    result = run("cassandra:5.0.9", "--distribution", home)
    assert result.stdout == f"cassandra 5.0.9 is ready: 1 jars in {home / 'lib'}\n"


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (["cassandra:5.0.9", "cassandra:6.0-alpha2", "--distribution", "/x"], PlanError, "name one system"),
        (["cassandra:5.0.9", "--distribution", "/x", "--verify"], PlanError, "cannot be used together"),
        (["cassandra:5.0.9", "--verify"], FetchError, "was not fetched yet"),
        (["cassandra"], PlanError, "is not a system"),
        (["cassandra:5.0.9", "--distribution", "/does/not/exist"], FetchError, "there is no distribution at"),
    ],
    ids=["two systems, one distribution", "verify a distribution", "verify nothing", "no version", "no such path"],
)
def test_what_cannot_be_fetched_is_refused(home, arguments, error, says):
    result = run(*arguments)
    assert isinstance(result.exception, error)
    assert says in str(result.exception)
    assert result.stdout == ""


def test_unknown_resolver_is_refused_by_name(home):
    result = run("cassandra:5.0.9", "--resolver", "gradle")
    assert result.exit_code == 2
    assert "gradle" in result.stderr
