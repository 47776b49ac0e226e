"""Manifests: any change to what was fetched is noticed and named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.clusters.distribution.distribution import Jar, Manifest, check_version, jars_in, version_of_jars
from schemaquake.harness.errors import FetchError

JARS = st.lists(
    st.builds(
        Jar,
        file=st.from_regex(r"lib/[a-z0-9.-]{1,20}\.jar", fullmatch=True),
        sha256=st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
        size=st.integers(0, 2**40),
    ),
    max_size=5,
).map(tuple)


@pytest.fixture
def fetched(tmp_path):
    lib = tmp_path / "lib"
    lib.mkdir()
    (lib / "cassandra-all-5.0.9.jar").write_bytes(b"cassandra")
    (lib / "guava-32.jar").write_bytes(b"guava")
    Manifest("5.0.9", "a test", jars_in(lib, beside=tmp_path)).write(tmp_path)
    return tmp_path


def test_intact_distribution_lists_its_jars_and_no_folder(fetched):
    distribution = Manifest.read(fetched).distribution(fetched)
    assert [path.name for path in distribution.class_path] == ["cassandra-all-5.0.9.jar", "guava-32.jar"]
    assert all(path.is_file() for path in distribution.class_path)
    assert (distribution.version, distribution.source, distribution.home) == ("5.0.9", "a test", None)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda jar: jar.write_bytes(b"guav"), "has 4 bytes, not 5"),
        (lambda jar: jar.write_bytes(b"guavA"), "SHA-256 differs"),
        (lambda jar: jar.unlink(), "is missing"),
    ],
    ids=["truncated", "changed in place", "gone"],
)
def test_damaged_jar_is_named(fetched, damage, says):
    damage(fetched / "lib" / "guava-32.jar")
    with pytest.raises(FetchError, match=rf"guava-32\.jar.*{says}"):
        Manifest.read(fetched).distribution(fetched)


def test_jar_that_nobody_fetched_does_not_get_onto_the_class_path(fetched):
    (fetched / "lib" / "aaa.jar").write_bytes(b"intruder")
    assert len(Manifest.read(fetched).distribution(fetched).class_path) == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": "5.0.9", "source": "", "jars": [{"file": "x"}]}'])
def test_what_is_not_a_manifest_is_said_to_be_none(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(FetchError, match="is not a manifest"):
        Manifest.read(tmp_path)


def test_folder_without_manifest_is_not_a_distribution(tmp_path):
    with pytest.raises(FetchError, match=r"has no manifest\.json"):
        Manifest.read(tmp_path)


def test_manifest_that_was_edited_is_noticed(fetched):
    path = fetched / "manifest.json"
    document = json.loads(path.read_text())
    document["jars"].pop()
    path.write_text(json.dumps(document))
    with pytest.raises(FetchError, match="was changed"):
        Manifest.read(fetched)


@given(jars=JARS)
def test_manifest_is_read_as_it_was_written(tmp_path_factory, jars):
    folder = tmp_path_factory.mktemp("manifest")
    written = Manifest("5.0.9", "a test", jars)
    written.write(folder)
    assert Manifest.read(folder) == written


@given(jars=JARS, others=JARS)
def test_digest_is_that_of_the_jars_and_of_nothing_else(jars, others):
    digest = Manifest("5.0.9", "Maven", jars).digest
    assert Manifest("5.0.9", "Ivy", jars).digest == digest
    assert (Manifest("5.0.9", "Maven", others).digest == digest) == (jars == others)


@pytest.mark.parametrize(
    ("names", "version"),
    [
        (["cassandra-all-5.0.9.jar", "cassandra-driver-core-3.12.1.jar"], "5.0.9"),
        (["apache-cassandra-6.0-alpha2.jar", "cassandra-accord-6.0-alpha2.jar"], "6.0-alpha2"),
        (["apache-cassandra-0.7.10.jar"], "0.7.10"),
        (["apache-cassandra-5.1-alpha1-SNAPSHOT.jar"], "5.1-alpha1-SNAPSHOT"),
        (["apache-cassandra-2.1.22.jar", "apache-cassandra-clientutil-2.1.22.jar"], "2.1.22"),
        (["guava-32.jar"], None),
        (["cassandra-all-5.0.8.jar", "cassandra-all-5.0.9.jar"], None),
    ],
)
def test_version_is_read_off_cassandras_own_jar(names, version):
    assert version_of_jars([Jar(f"lib/{name}", "", 0) for name in names]) == version


@pytest.mark.parametrize("version", ["5.0.9", "6.0-alpha2", "0.7.10", "5.1-alpha1-SNAPSHOT", "4.0"])
def test_versions_are_accepted(version):
    check_version(version)


@pytest.mark.parametrize("version", ["", "5", "latest", "../5.0.9", "5.0.9/..", "5.0.9 ", "5.0.9<x>", "-5.0"])
def test_what_could_not_be_a_version_never_becomes_a_path(version):
    with pytest.raises(FetchError, match="is not a Cassandra version"):
        check_version(version)
