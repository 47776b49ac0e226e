"""Coordinates: which artifacts of a Maven repository make up one version of Cassandra."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["KNOWN_VERSIONS", "Coordinates", "coordinates", "nearest_versions", "unwanted"]

KNOWN_VERSIONS = (
    "0.7.10",
    "0.8.10",
    "1.0.12",
    "1.1.0",  # stamps schema rows with the time since the machine's boot: CASSANDRA-4432, fixed in 1.1.3
    "1.1.12",
    "1.2.19",
    "2.0.17",
    "2.1.22",
    "2.2.19",
    "3.0.22",
    "3.0.31",  # the last of the line
    "3.11.5",  # before a coordinator of migrations was brought back from 4.0: CASSANDRA-15158, in 3.11.10
    "3.11.19",
    "4.0.19",
    "4.1.10",
    "5.0.9",
    "6.0-alpha2",
)
"""Releases of every line, each known to resolve and to boot; a hint for users who mistype a version, not a limit."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """An artifact's name in a Maven repository."""

    group: str
    artifact: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def coordinates(version: str) -> Sequence[Coordinates]:
    """Cassandra itself, then what has to be asked for by name (`extra_jars.toml`); the rest follows from these."""
    extras = [
        Coordinates(*extra["jar"].format(version=version).split(":"))
        for extra in _document()["extra"]
        if version.startswith(extra["versions"])
    ]
    return [Coordinates("org.apache.cassandra", "cassandra-all", version), *extras]


def unwanted() -> Sequence[tuple[str, str]]:
    """Group and artifact of what must not be fetched although something asks for it (`extra_jars.toml`)."""
    return [(group, artifact) for each in _document()["unwanted"] for group, artifact in [each["jar"].split(":")]]


def nearest_versions(version: str, *, count: int = 3) -> Sequence[str]:
    """The known versions that look most like this one: the same line first, then the nearest numbers."""
    wanted = _numbers(version)

    def distance(known: str) -> list[int]:
        return [abs(ours - theirs) for ours, theirs in zip(wanted, _numbers(known), strict=True)]

    return sorted(KNOWN_VERSIONS, key=distance)[:count]


def _numbers(version: str) -> tuple[int, int, int]:
    found = [int(number) for number in re.findall(r"\d+", version.partition("-")[0])]
    major, minor, patch, *_ = [*found, 0, 0, 0]
    return major, minor, patch


@cache
def _document() -> dict[str, list[dict[str, str]]]:
    return tomllib.loads(files(__package__).joinpath("extra_jars.toml").read_text(encoding="utf-8"))
