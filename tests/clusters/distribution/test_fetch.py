"""Fetching: whatever the cache held, the result is whole or it is an error that says what to do."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from pathlib import Path

import pytest

from schemaquake.clusters.distribution import fetch as fetch_module
from schemaquake.clusters.distribution.distribution import Manifest, jars_in
from schemaquake.clusters.distribution.fetch import fetch, verify
from schemaquake.clusters.systems import checksums
from schemaquake.clusters.systems.coordinates import KNOWN_VERSIONS, coordinates
from schemaquake.harness.errors import FetchError

sha256 = hashlib.sha256


class Shelf:
    """A resolver whose repository is a dictionary of versions; counts how often it was asked."""

    name = "Shelf"

    def __init__(self, *versions: str) -> None:
        self.versions = versions
        self.asked = 0
        self.interruption: BaseException | None = None

    def missing(self) -> None:
        return None

    def retrieve(self, artifacts, target, *, counted):
        self.asked += 1
        version = artifacts[0].version
        if version not in self.versions:
            raise FetchError(f'Shelf says "no {version}"')
        target.mkdir()
        (target / "guava-32.jar").write_bytes(b"guava")
        if self.interruption:
            raise self.interruption
        (target / f"cassandra-all-{version}.jar").write_bytes(version.encode())


@pytest.fixture
def shelf(monkeypatch):
    shelf = Shelf("5.0.9", "6.0-alpha2")
    sums = {f"cassandra-all-{version}.jar": sha256(version.encode()).hexdigest() for version in shelf.versions}
    shelf.published = {"guava-32.jar": sha256(b"guava").hexdigest(), **sums}
    monkeypatch.setattr(checksums, "published", lambda: shelf.published)
    monkeypatch.setattr(fetch_module, "choose_resolver", lambda *_, **__: shelf)
    return shelf


def tarball_of(tmp_path: Path, version: str, *, name: str = "apache-cassandra-{version}") -> Path:
    home = tmp_path / "made" / name.format(version=version)
    (home / "lib").mkdir(parents=True)
    (home / "conf").mkdir()
    (home / "conf" / "cassandra.yaml").write_text("cluster_name: x\n")
    (home / "bin").mkdir()
    (home / "bin" / "nodetool").write_text("#!/bin/sh\n")
    (home / "bin" / "nodetool").chmod(0o6755)
    (home / "lib" / f"apache-cassandra-{version}.jar").write_bytes(version.encode())
    (home / "lib" / "guava-32.jar").write_bytes(b"guava")
    path = tmp_path / f"apache-cassandra-{version}-bin.tar.gz"
    with tarfile.open(path, "w:gz") as tarball:
        tarball.add(home, arcname=home.name)
    return path


def test_fetched_once_is_used_again_without_asking_anybody(shelf, tmp_path):
    said: list[str] = []
    first = fetch("5.0.9", cache=tmp_path, progress=said.append)
    assert [jar.name for jar in first.class_path] == ["cassandra-all-5.0.9.jar", "guava-32.jar"]
    assert said == ["cassandra 5.0.9: fetching with Shelf", "cassandra 5.0.9: 2 jars, 0 MB"]
    assert fetch("5.0.9", cache=tmp_path, progress=pytest.fail) == first
    assert verify("5.0.9", cache=tmp_path) == first
    assert shelf.asked == 1


def test_versions_do_not_mix(shelf, tmp_path):
    five, six = fetch("5.0.9", cache=tmp_path), fetch("6.0-alpha2", cache=tmp_path)
    assert five.digest != six.digest
    assert not set(five.class_path) & set(six.class_path)


def test_damaged_cache_is_fetched_again_and_said_to_be_damaged(shelf, tmp_path):
    first = fetch("5.0.9", cache=tmp_path)
    first.class_path[1].write_bytes(b"guav")
    said: list[str] = []
    assert fetch("5.0.9", cache=tmp_path, progress=said.append) == first
    assert shelf.asked == 2
    assert "guava-32.jar has 4 bytes, not 5" in said[0]


def test_damaged_cache_stays_for_inspection_if_it_cannot_be_replaced(shelf, tmp_path):
    first = fetch("5.0.9", cache=tmp_path)
    first.class_path[1].write_bytes(b"guav")
    shelf.versions = ()
    with pytest.raises(FetchError, match=r"no 5\.0\.9"):
        fetch("5.0.9", cache=tmp_path)
    with pytest.raises(FetchError, match="has 4 bytes, not 5"):
        verify("5.0.9", cache=tmp_path)


def test_interrupted_fetch_leaves_nothing_behind_and_the_next_one_is_whole(shelf, tmp_path):
    shelf.interruption = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        fetch("5.0.9", cache=tmp_path)
    assert [path.name for path in (tmp_path / "cassandra").iterdir()] == [".5.0.9.lock"]
    shelf.interruption = None
    assert len(fetch("5.0.9", cache=tmp_path).class_path) == 2


def test_two_who_fetch_at_once_fetch_once(shelf, tmp_path):
    together = threading.Barrier(2)
    found = []

    def one():
        together.wait(10)
        found.append(fetch("5.0.9", cache=tmp_path))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert shelf.asked == 1


def test_unknown_version_is_answered_with_the_resolvers_words_and_near_versions(shelf, tmp_path):
    with pytest.raises(FetchError) as error:
        fetch("5.0.99", cache=tmp_path)
    assert str(error.value).startswith(
        'cassandra 5.0.99 could not be fetched: Shelf says "no 5.0.99". Versions near it: 5.0.9, '
    )
    assert "--distribution PATH" in str(error.value)
    assert not (tmp_path / "cassandra" / "5.0.99").exists()


def test_known_version_that_cannot_be_had_is_not_called_mistyped(shelf, tmp_path):
    with pytest.raises(FetchError) as error:
        fetch("4.1.10", cache=tmp_path)
    assert "near it" not in str(error.value)


def test_repository_that_answers_with_another_version_is_not_believed(shelf, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch_module, "coordinates", lambda _: coordinates("6.0-alpha2"))
    with pytest.raises(FetchError, match=r"holds Cassandra 6\.0-alpha2, not 5\.0\.9"):
        fetch("5.0.9", cache=tmp_path)
    assert not (tmp_path / "cassandra" / "5.0.9").exists()


def test_verify_fetches_nothing(shelf, tmp_path):
    with pytest.raises(FetchError, match="was not fetched yet"):
        verify("5.0.9", cache=tmp_path)
    assert shelf.asked == 0


def test_unpacked_distribution_is_used_where_it_is(tmp_path):
    tarball_of(tmp_path, "5.0.9")
    home = tmp_path / "made" / "apache-cassandra-5.0.9"
    found = fetch("5.0.9", cache=tmp_path / "cache", distribution=home)
    assert found.home == home
    assert found.source == "folder apache-cassandra-5.0.9"
    assert [jar.name for jar in found.class_path] == ["apache-cassandra-5.0.9.jar", "guava-32.jar"]
    assert all(jar.parent == home / "lib" for jar in found.class_path)
    assert not (tmp_path / "cache").exists()


def test_tarball_is_unpacked_once_and_has_the_digest_of_its_folder(tmp_path):
    tarball = tarball_of(tmp_path, "5.0.9")
    said: list[str] = []
    first = fetch("5.0.9", cache=tmp_path / "cache", distribution=tarball, progress=said.append)
    assert said == ["apache-cassandra-5.0.9-bin.tar.gz: unpacking"]
    assert first.home is not None
    assert (first.home / "conf" / "cassandra.yaml").read_text() == "cluster_name: x\n"
    assert (first.home / "conf" / "cassandra.yaml").stat().st_mode & 0o7777 == 0o644
    assert (first.home / "bin" / "nodetool").stat().st_mode & 0o7777 == 0o755
    assert all(jar.parent == first.home / "lib" for jar in first.class_path)
    assert fetch("5.0.9", cache=tmp_path / "cache", distribution=tarball, progress=pytest.fail) == first


def test_changed_tarball_under_the_same_name_is_another_distribution(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = fetch("5.0.9", cache=tmp_path / "cache", distribution=tarball_of(tmp_path / "a", "5.0.9"))
    second = fetch("5.0.9", cache=tmp_path / "cache", distribution=tarball_of(tmp_path / "b", "5.0.9", name="mine"))
    assert first.home != second.home


@pytest.mark.parametrize("unpacked", [True, False], ids=["folder", "tarball"])
def test_distribution_of_another_version_is_refused(tmp_path, unpacked):
    tarball = tarball_of(tmp_path, "4.1.10")
    path = tmp_path / "made" / "apache-cassandra-4.1.10" if unpacked else tarball
    with pytest.raises(FetchError, match=r"holds Cassandra 4\.1\.10, not 5\.0\.9; ask for cassandra:4\.1\.10"):
        fetch("5.0.9", cache=tmp_path / "cache", distribution=path)


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tarball:
        for member, content in members:
            member.size = len(content)
            tarball.addfile(member, io.BytesIO(content))
    return path


def link(name: str, to: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, to
    return member


@pytest.mark.parametrize(
    "member",
    [
        tarfile.TarInfo("../../escaped"),
        tarfile.TarInfo("/tmp/escaped"),
        link("c/lib", "/etc"),
        link("c/lib", "../../.."),
    ],
    ids=["path out of it", "absolute path", "absolute link", "link out of it"],
)
def test_tarball_that_reaches_out_of_its_folder_is_refused(tmp_path, member):
    path = archive(tmp_path / "evil.tar.gz", (member, b""))
    with pytest.raises(FetchError, match=r"evil\.tar\.gz could not be unpacked"):
        fetch("5.0.9", cache=tmp_path / "cache", distribution=path)
    assert not [*tmp_path.rglob("escaped"), *Path("/tmp").glob("escaped")]
    assert [each.suffix for each in (tmp_path / "cache" / "tarballs").iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: folder / "absent", "there is no distribution at"),
        (lambda folder: folder, "has no folder lib"),
        (lambda folder: archive(folder / "empty.tar.gz"), "0 folders in it have a lib"),
    ],
    ids=["nothing there", "some other folder", "empty tarball"],
)
def test_what_is_no_distribution_is_said_to_be_none(tmp_path, make, says):
    with pytest.raises(FetchError, match=says):
        fetch("5.0.9", cache=tmp_path / "cache", distribution=make(tmp_path))


def test_truncated_tarball_is_refused(tmp_path):
    tarball = tarball_of(tmp_path, "5.0.9")
    tarball.write_bytes(tarball.read_bytes()[:-40])
    with pytest.raises(FetchError, match="could not be unpacked"):
        fetch("5.0.9", cache=tmp_path / "cache", distribution=tarball)


def test_lib_without_cassandra_is_refused(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "guava-32.jar").write_bytes(b"guava")
    with pytest.raises(FetchError, match="holds 1 jars, but not exactly one that is named"):
        fetch("5.0.9", cache=tmp_path / "cache", distribution=tmp_path)


# ── not trust on first use ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("jar", ["cassandra-all-5.0.9.jar", "guava-32.jar"])
def test_a_jar_that_is_not_the_published_one_is_refused_at_its_first_fetch(shelf, tmp_path, jar):
    shelf.published[jar] = "0" * 64
    with pytest.raises(FetchError, match=f"{jar} has SHA-256 .*, and the published one has 000"):
        fetch("5.0.9", cache=tmp_path)
    assert [path.name for path in (tmp_path / "cassandra").iterdir()] == [".5.0.9.lock"]


def test_a_jar_that_no_release_has_is_refused(shelf, tmp_path):
    del shelf.published["guava-32.jar"]
    with pytest.raises(FetchError, match=r"guava-32\.jar is not among the jars of 5\.0\.9"):
        fetch("5.0.9", cache=tmp_path)


def test_a_manifest_that_was_written_anew_after_a_jar_was_changed_is_refused(shelf, tmp_path):
    lib = fetch("5.0.9", cache=tmp_path).class_path[0].parent
    (lib / "guava-32.jar").write_bytes(b"evil!")
    Manifest("5.0.9", "forged", jars_in(lib, beside=lib.parent)).write(lib.parent)
    with pytest.raises(FetchError, match="not what was published"):
        verify("5.0.9", cache=tmp_path)
    said: list[str] = []
    assert fetch("5.0.9", cache=tmp_path, progress=said.append).class_path[1].read_bytes() == b"guava"
    assert "not what was published" in said[0]


def test_an_unknown_version_is_used_and_said_to_have_no_checksums_here(shelf, tmp_path):
    shelf.versions = ("5.0.77",)
    said: list[str] = []
    assert len(fetch("5.0.77", cache=tmp_path, progress=said.append).class_path) == 2
    assert any("no checksums of this version" in text for text in said)
    shelf.published["guava-32.jar"] = "0" * 64
    with pytest.raises(FetchError, match="guava-32"):
        fetch("5.0.77", cache=tmp_path / "another")


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_every_known_version_has_its_checksums(version):
    assert checksums.are_known(version)
    for asked in coordinates(version):
        assert len(checksums.published()[f"{asked.artifact}-{asked.version}.jar"]) == 64


def test_a_name_has_one_checksum():
    lines = Path(checksums.__file__).with_name("jars.sha256").read_text().splitlines()
    assert len(lines) == len(checksums.published()) > 300
