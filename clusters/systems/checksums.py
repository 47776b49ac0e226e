"""Checksums: the SHA-256 of every jar of the known versions, so that a repository is not believed on first use.

`jars.sha256` is what `sha256sum --check` reads. A release is never changed once it is published, so a jar's name
determines its bytes; the file has the jars that Maven and Ivy choose, which differ in a few versions of libraries.
`scripts/jar-checksums` adds those of a version that was fetched and is to become known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

__all__ = ["are_known", "differing", "published"]


@cache
def published() -> Mapping[str, str]:
    """Return the SHA-256 by the name of the jar."""
    text = files(__package__).joinpath("jars.sha256").read_text(encoding="ascii")
    return {name: digest for digest, name in (line.split("  ", 1) for line in text.splitlines())}


def are_known(version: str) -> bool:
    """Return True if the checksums of that version's jars are in the repository."""
    return f"cassandra-all-{version}.jar" in published()


def differing(version: str, jars: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each of these jars (SHA-256 by name) that is not the published one, or not one of a known version."""
    known = published()
    for name, digest in jars.items():
        if name not in known:
            if are_known(version):
                yield f"{name} is not among the jars of {version} (clusters/systems/jars.sha256)"
        elif digest != known[name]:
            yield f"{name} has SHA-256 {digest}, and the published one has {known[name]}"
