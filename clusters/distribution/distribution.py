"""A distribution: the jars of one Cassandra version, and the proof that they are the bytes that were fetched.

The manifest beside the jars lists the size and SHA-256 of each. It is compared with the jars on every use: hashing the
70 MB of a Cassandra 5.0 takes a tenth of a second, and a truncated jar would otherwise look like a bug in Cassandra.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from schemaquake.clusters.systems.checksums import differing
from schemaquake.harness.errors import FetchError

__all__ = ["Distribution", "Jar", "Manifest", "check_version", "jars_in", "version_of_jars"]

MANIFEST = "manifest.json"
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:-[0-9A-Za-z.]+)*")
_CASSANDRA_JAR = re.compile(rf"(?:apache-cassandra|cassandra-all)-({_VERSION.pattern})\.jar")


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The files to start one version on this machine.

    `class_path` holds jars only, no folder, so that a class-data-sharing archive can be made of it; configuration is
    given by `-Dcassandra.config` and `-Dlogback.configurationFile`. `home` is the folder of a tarball, which also has
    `conf` and `tools`; None for jars from a Maven repository. `digest` is the SHA-256 of the manifest's list of jars:
    equal digests mean equal bytes, from any source.
    """

    version: str
    class_path: tuple[Path, ...]
    home: Path | None
    source: str
    digest: str
    checksums: Mapping[str, str] = field(default_factory=dict)
    """Name of each jar → its SHA-256."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of a distribution; `file` is relative to the manifest's folder, `size` in bytes."""

    file: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The list of the files in a distribution's folder."""

    version: str
    source: str
    jars: tuple[Jar, ...]

    @property
    def digest(self) -> str:
        """The SHA-256 of the list of jars, as JSON without blanks."""
        listing = json.dumps([asdict(jar) for jar in self.jars], separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(listing.encode()).hexdigest()

    def write(self, folder: Path) -> None:
        """Write the manifest into `folder`, after everything that it lists."""
        document = {
            "version": self.version,
            "source": self.source,
            "digest": self.digest,
            "jars": [asdict(jar) for jar in self.jars],
        }
        (folder / MANIFEST).write_text(json.dumps(document, indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of `folder`. Raises FetchError if there is none, or if it was changed after `write`."""
        try:
            document = json.loads((folder / MANIFEST).read_text())
            manifest = cls(document["version"], document["source"], tuple(Jar(**jar) for jar in document["jars"]))
        except FileNotFoundError:
            raise FetchError(f"{folder} has no {MANIFEST}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise FetchError(f"{folder / MANIFEST} is not a manifest: {error}") from None
        if document.get("digest") != manifest.digest:
            raise FetchError(f"{folder / MANIFEST} was changed: its digest does not fit its list of jars")
        return manifest

    def refuse_unpublished(self) -> None:
        """Compare the jars with the checksums in the repository. Raises FetchError naming each that differs."""
        found = {Path(jar.file).name: jar.sha256 for jar in self.jars}
        if wrong := list(differing(self.version, found)):
            raise FetchError(f"what was fetched is not what was published, and is not used: {'; '.join(wrong)}")

    def check(self, folder: Path) -> None:
        """Compare every jar's size, then its SHA-256. Raises FetchError naming the first one that differs."""
        for jar in self.jars:
            path = folder / jar.file
            if not path.is_file():
                raise FetchError(f"{path} is missing")
            if (size := path.stat().st_size) != jar.size:
                raise FetchError(f"{path} has {size} bytes, not {jar.size}")
        for jar in self.jars:
            path = folder / jar.file
            if sha256(path) != jar.sha256:
                raise FetchError(f"{path} is not the file that was fetched: its SHA-256 differs")

    def distribution(self, folder: Path, *, home: Path | None = None) -> Distribution:
        """Check `folder` and return its distribution; `home` as in `Distribution`. Raises FetchError if it is damaged."""
        self.check(folder)
        return Distribution(
            version=self.version,
            class_path=tuple(folder / jar.file for jar in self.jars),
            home=home,
            source=self.source,
            digest=self.digest,
            checksums={Path(jar.file).name: jar.sha256 for jar in self.jars},
        )


def check_version(version: str) -> None:
    """Raise FetchError unless `version` looks like `5.0.9` or `6.0-alpha2`; it becomes part of paths and of XML."""
    if not _VERSION.fullmatch(version):
        raise FetchError(f'"{version}" is not a Cassandra version; give one like 5.0.9 or 6.0-alpha2')


def jars_in(folder: Path, *, beside: Path) -> tuple[Jar, ...]:
    """Measure every jar directly in `folder`, in order of name; files are named relative to `beside`."""
    return tuple(
        Jar(str(path.relative_to(beside)), sha256(path), path.stat().st_size) for path in sorted(folder.glob("*.jar"))
    )


def version_of_jars(jars: Sequence[Jar]) -> str | None:
    """Return the version in the name of Cassandra's own jar; None if there is no such jar or more than one."""
    found = [match[1] for jar in jars if (match := _CASSANDRA_JAR.fullmatch(Path(jar.file).name))]
    return found[0] if len(found) == 1 else None


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
