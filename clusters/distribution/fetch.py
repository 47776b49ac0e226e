"""Fetching a version of Cassandra: from the cache, from a Maven repository, or from a tarball or folder of the user's.

Cached distributions are checked and used without any network. `Progress` receives sentences for a waiting user.
"""

from __future__ import annotations

import logging
import shutil
import tarfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias

from schemaquake.clusters.distribution.cache import cache_folder, only_one, staged
from schemaquake.clusters.distribution.distribution import (
    Distribution,
    Manifest,
    check_version,
    jars_in,
    sha256,
    version_of_jars,
)
from schemaquake.clusters.distribution.resolvers import ResolverName, choose_resolver
from schemaquake.clusters.systems.checksums import are_known
from schemaquake.clusters.systems.coordinates import KNOWN_VERSIONS, coordinates, nearest_versions
from schemaquake.harness.errors import FetchError

__all__ = ["Progress", "fetch", "verify"]

log = logging.getLogger(__name__)

Progress: TypeAlias = Callable[[str], None]

_REPORT_EVERY_S: Final = 10


def fetch(
    version: str,
    *,
    cache: Path | None = None,
    distribution: Path | None = None,
    resolver: ResolverName = "auto",
    progress: Progress = log.info,
) -> Distribution:
    """Return the distribution of that version, checked against its manifest, and fetched first if the cache lacks it.

    `distribution` is a tarball or a folder of the user's own, used instead of any repository; its version must be
    `version`. Two processes may fetch at the same time; an interrupted fetch leaves nothing behind.
    Raises FetchError, and EnvironmentLacks if there is neither Maven nor PySpark.
    """
    check_version(version)
    if distribution is not None:
        return _use_own(distribution.expanduser().absolute(), version=version, cache=cache, progress=progress)
    folder = _folder(version, cache)
    if found := _cached(folder, progress):
        return found
    with only_one(folder, waiting=lambda: progress(f"cassandra {version}: another process is fetching it; waiting")):
        if found := _cached(folder, progress):
            return found  # fetched by the other process in the meantime
        chosen = choose_resolver(resolver, cache=cache)
        progress(f"cassandra {version}: fetching with {chosen.name}")
        with staged(folder) as staging:
            lib = staging / "lib"
            try:
                chosen.retrieve(coordinates(version), lib, counted=_Counted(version, progress))
            except FetchError as error:
                raise FetchError(f"cassandra {version} could not be fetched: {error}. {_advice(version)}") from None
            manifest = _manifest(staging, lib, version=version, source=f"Maven repository, by {chosen.name}")
            manifest.refuse_unpublished()
            manifest.write(staging)
    if not are_known(version):
        progress(
            f"cassandra {version}: no checksums of this version are known here; the repository's own were compared"
        )
    progress(f"cassandra {version}: {len(manifest.jars)} jars, {sum(jar.size for jar in manifest.jars) / 1e6:.0f} MB")
    return manifest.distribution(folder)


def verify(version: str, *, cache: Path | None = None) -> Distribution:
    """Check every jar of the cached distribution, without network. Raises FetchError if it is absent or damaged."""
    check_version(version)
    folder = _folder(version, cache)
    if not folder.exists():
        raise FetchError(f"cassandra {version} was not fetched yet: {folder} does not exist")
    manifest = Manifest.read(folder)
    manifest.refuse_unpublished()
    return manifest.distribution(folder)


def _folder(version: str, cache: Path | None) -> Path:
    return cache_folder(cache) / "cassandra" / version


def _cached(folder: Path, progress: Progress, *, published: bool = True) -> Distribution | None:
    """Return what the cache has whole; None if it has nothing, or something damaged. `published`: not a tarball of the user's own."""
    if not folder.exists():
        return None
    try:
        manifest = Manifest.read(folder)
        if published:
            manifest.refuse_unpublished()
        return manifest.distribution(folder)
    except FetchError as damage:
        progress(f"the cache is damaged, fetching again: {damage}")
        return None


def _manifest(folder: Path, lib: Path, *, version: str, source: str) -> Manifest:
    """List the jars in `lib`, which must be a Cassandra of that version."""
    jars = jars_in(lib, beside=folder)
    found = version_of_jars(jars)
    if found is None:
        raise FetchError(
            f"{lib} holds {len(jars)} jars, but not exactly one that is named "
            "apache-cassandra-VERSION.jar or cassandra-all-VERSION.jar"
        )
    if found != version:
        raise FetchError(f"{lib} holds Cassandra {found}, not {version}; ask for cassandra:{found}")
    return Manifest(version, source, jars)


def _advice(version: str) -> str:
    near = "" if version in KNOWN_VERSIONS else f"Versions near it: {', '.join(nearest_versions(version))}. "
    return f"{near}A tarball or folder you already have can be used with --distribution PATH."


def _use_own(path: Path, *, version: str, cache: Path | None, progress: Progress) -> Distribution:
    """Use a folder where it is; unpack a tarball into the cache once, under its own SHA-256."""
    if path.is_dir():
        lib = path / "lib"
        if not lib.is_dir():
            raise FetchError(f"{path} has no folder lib; give the folder that a Cassandra tarball unpacks to")
        return _manifest(path, lib, version=version, source=f"folder {path.name}").distribution(path, home=path)
    if not path.is_file():
        raise FetchError(f"there is no distribution at {path}")
    folder = cache_folder(cache) / "tarballs" / sha256(path)[:16]
    with only_one(folder, waiting=lambda: progress(f"{path.name}: another process is unpacking it; waiting")):
        if not _cached(folder, progress, published=False):
            progress(f"{path.name}: unpacking")
            with staged(folder) as staging:
                home = _unpack(path, staging)
                _manifest(staging, home / "lib", version=version, source=f"tarball {path.name}").write(staging)
    manifest = Manifest.read(folder)
    if manifest.version != version:
        raise FetchError(
            f"{path} holds Cassandra {manifest.version}, not {version}; ask for cassandra:{manifest.version}"
        )
    return manifest.distribution(folder, home=folder / Path(manifest.jars[0].file).parent.parent)


def _unpack(path: Path, target: Path) -> Path:
    """Unpack a tarball of files and folders, and return the folder that has `lib`. Raises FetchError for other members."""
    try:
        with tarfile.open(path) as tarball:
            for member in tarball:
                _unpack_member(tarball, member, target)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        why = str(error).partition("\n")[0].removesuffix(":")  # what each kind of compression objects to follows
        raise FetchError(f"{path} could not be unpacked: {why}") from None
    homes = sorted(folder.parent for folder in target.glob("*/lib") if folder.is_dir())
    if len(homes) != 1:
        raise FetchError(f"{path} does not hold one Cassandra: {len(homes)} folders in it have a lib")
    return homes[0]


def _unpack_member(tarball: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    # Not by `extractall`: its safe way (filter="data") is missing from Python 3.11.2, which is Debian 12's. Without links
    # no member can be written outside `target`, and no release of Cassandra has any.
    inside = PurePosixPath(member.name)
    if inside.is_absolute() or ".." in inside.parts or not (member.isfile() or member.isdir()):
        raise tarfile.TarError(f"{member.name} is a link or leads out of it; unpack it yourself and give the folder")
    place = target / inside
    content = tarball.extractfile(member)
    if content is None:
        place.mkdir(parents=True, exist_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with content, place.open("xb") as file:
        shutil.copyfileobj(content, file)
    place.chmod(0o755 if member.mode & 0o100 else 0o644)


class _Counted:
    """A counter that reports the number of downloaded jars from time to time."""

    def __init__(self, version: str, progress: Progress) -> None:
        self._version = version
        self._progress = progress
        self._reported_at = time.monotonic()

    def __call__(self, jars: int) -> None:
        if jars > 1 and time.monotonic() - self._reported_at >= _REPORT_EVERY_S:
            self._reported_at = time.monotonic()
            self._progress(f"cassandra {self._version}: {jars} jars so far")
