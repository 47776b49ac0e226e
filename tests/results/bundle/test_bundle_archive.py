"""Bundles of strangers: what no bundle has is refused before it is read, and one byte changed anywhere is found."""

from __future__ import annotations

import random
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.results.bundle.archive import Limits, open_archive, write_archive
from schemaquake.results.bundle.manifest import MANIFEST, SUMS, Manifest, sha256_of
from schemaquake.results.bundle.verification import open_bundle

PREDICATE = {"format": 1, "run": "r", "jars": {}}
FILES = {
    "plan.json": b'{"system": "simulated:cassandra-5.0"}' * 9,
    "history.parquet": bytes(random.Random(1).randbytes(700)),
    "nodes/n1/system-0.log": b"INFO  [main] 2000-01-01 00:00:02,099 A.java:1 - Startup complete\n" * 30,
}


def bundle(path: Path, files: dict[str, bytes] | None = None) -> Path:
    files = files or FILES
    manifest = Manifest(files={name: sha256_of(content) for name, content in files.items()}, predicate=PREDICATE)
    write_archive(path, {**files, MANIFEST: manifest.to_bytes(), SUMS: manifest.sums()})
    return path


def zipped(path: Path, *entries: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in entries:
            archive.writestr(entry, content)
    return path


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def test_a_whole_bundle_has_nothing_to_say(tmp_path):
    opened = open_bundle(bundle(tmp_path / "b.sqz.zip"))
    assert [(check.name, check.state) for check in opened.checks] == [
        ("archive", "ok"), ("manifest", "ok"), ("hashes", "ok"),
    ]  # fmt: skip
    assert opened.files == FILES


def test_equal_files_give_equal_bytes(tmp_path):
    backwards = dict(reversed(FILES.items()))
    first = bundle(tmp_path / "a").read_bytes()
    assert first == bundle(tmp_path / "b", backwards).read_bytes()
    assert first != bundle(tmp_path / "c", FILES | {"outcome.json": b"{}"}).read_bytes()


def test_one_bit_changed_anywhere_is_found(tmp_path):
    whole = bundle(tmp_path / "b", {"plan.json": b"{}" * 20, "history.parquet": b"PAR1 PAR1"}).read_bytes()
    path = tmp_path / "changed"
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place // 3 % 8]) + whole[place + 1 :])
        opened = open_bundle(path)
        assert any(check.state == "differs" and check.details for check in opened.checks), f"byte {place}"


@pytest.mark.parametrize("name", [*FILES, MANIFEST, SUMS])
def test_a_changed_file_is_named(tmp_path, name):
    whole = bundle(tmp_path / "b")
    with zipfile.ZipFile(whole) as archive:
        contents = {entry: archive.read(entry) for entry in archive.namelist()}
    contents[name] = contents[name][:-2] + bytes([contents[name][-2] ^ 1]) + contents[name][-1:]
    write_archive(tmp_path / "changed", contents)
    opened = open_bundle(tmp_path / "changed")
    differing = [detail for check in opened.checks if check.state == "differs" for detail in check.details]
    assert any(name in detail for detail in differing), differing


def test_bytes_before_and_behind_are_found(tmp_path):
    whole = bundle(tmp_path / "b").read_bytes()
    for changed in (b"x" + whole, whole + b"x", whole[:-1], whole[: len(whole) // 2]):
        path = tmp_path / "changed"
        path.write_bytes(changed)
        assert any(check.state == "differs" for check in open_bundle(path).checks)


def test_a_file_left_out_or_added_is_named(tmp_path):
    with zipfile.ZipFile(bundle(tmp_path / "b")) as archive:
        contents = {entry: archive.read(entry) for entry in archive.namelist()}
    write_archive(tmp_path / "less", {name: text for name, text in contents.items() if name != "plan.json"})
    write_archive(tmp_path / "more", contents | {"outcome.json": b"{}"})
    for file, name in (("less", "plan.json"), ("more", "outcome.json")):
        hashes = next(check for check in open_bundle(tmp_path / file).checks if check.name == "hashes")
        assert hashes.state == "differs"
        assert name in hashes.details[0]


HOSTILE_NAMES = [
    *("/etc/passwd", "../up", "a/../../up", "a\\b", "C:evil", "nodes//x", "./x", "x/", ".hidden", "a/.ssh/x"),
    *("a\nb", "é", "nodes/n1/deep/er/still", "con.", ""),
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path, name):
    path = zipped(tmp_path / "b", (zipfile.ZipInfo(name or "x"), b"x"))
    if not name:
        path.write_bytes(path.read_bytes().replace(b"x", b"\0"))
    with pytest.raises(HistoryError):
        open_archive(path)


def test_a_name_with_a_nul_is_refused(tmp_path):
    path = zipped(tmp_path / "b", ("plan.jsonX/../up", b"x"))
    path.write_bytes(path.read_bytes().replace(b"plan.jsonX", b"plan.json\0"))
    with pytest.raises(HistoryError):
        open_archive(path)


def test_links_and_double_names_are_refused(tmp_path):
    for entries in (
        [(link("plan.json"), b"/etc/passwd")],
        [("plan.json", b"1"), ("PLAN.json", b"2")],
    ):
        with pytest.raises(HistoryError):
            open_archive(zipped(tmp_path / "b", *entries))


def test_encrypted_and_foreign_methods_are_refused(tmp_path):
    path = zipped(tmp_path / "b", ("plan.json", b"x" * 99))
    whole = path.read_bytes()
    at = whole.index(b"PK\x01\x02")
    path.write_bytes(whole[: at + 8] + struct.pack("<H", 1) + whole[at + 10 :])
    with pytest.raises(HistoryError):
        open_archive(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("plan.json", b"x" * 99)
    with pytest.raises(HistoryError):
        open_archive(path)


def test_a_bomb_is_refused_by_its_directory_and_while_it_is_read(tmp_path):
    small = Limits(bytes=1 << 21, ratio=10)
    path = zipped(tmp_path / "b", ("plan.json", bytes(1 << 22)))
    with pytest.raises(HistoryError):
        open_archive(path, small)
    # A directory that lies about the size: the reader counts.
    whole = path.read_bytes()
    path.write_bytes(whole.replace(struct.pack("<I", 1 << 22), struct.pack("<I", 100)))
    contents, broken = open_archive(path, small).read_all()
    assert "plan.json" in broken or len(contents["plan.json"]) <= 100
    many = zipped(tmp_path / "many", *((f"f{number}", b"") for number in range(12)))
    with pytest.raises(HistoryError):
        open_archive(many, Limits(entries=11))


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x05\x06" + bytes(18), b"no archive at all" * 9])
def test_rubbish_differs_and_does_not_crash(tmp_path, content):
    path = tmp_path / "b"
    path.write_bytes(content)
    opened = open_bundle(path)
    assert opened.manifest is None
    assert opened.checks[-1].state == "differs"


def test_a_file_that_is_none_is_a_wrong_argument(tmp_path):
    with pytest.raises(PlanError):
        open_bundle(tmp_path)


def test_a_manifest_in_another_form_is_refused():
    manifest = Manifest(files={"plan.json": "0" * 64}, predicate=PREDICATE)
    assert Manifest.parse(manifest.to_bytes()) == manifest
    for text in (b"{}", b"[]", b"null", manifest.to_bytes()[:-1], b" " + manifest.to_bytes(), b"[" * 100_000):
        with pytest.raises(HistoryError):
            Manifest.parse(text)
    with pytest.raises(ValueError, match="fractions"):
        Manifest(files={}, predicate={"format": 1, "rate": [0.5]}).to_bytes()
