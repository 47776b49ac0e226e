"""Systems: the versions that are known to start here, or to be spoken to where they run, and what is known of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemaquake.clusters.systems.coordinates import KNOWN_VERSIONS
from schemaquake.clusters.systems.recipe import Line, line_for, parse_system, recipe_for

__all__ = ["known_scylladb", "known_systems"]

_SCYLLADB: Final = ("5.2", "5.4", "6.0", "6.1", "6.2", "2025.1")
"""Releases by line: any version of a line is spoken to alike."""


def known_systems() -> Mapping[str, Mapping[str, str | int]]:
    """`cassandra:VERSION` → era, client, Java, MB of memory a node, and the features of its DDL. Other releases of a line start, too."""
    systems = [parse_system(f"cassandra:{version}") for version in KNOWN_VERSIONS]
    rows: dict[str, Mapping[str, str | int]] = {}
    for system in systems:
        recipe = recipe_for(system)
        first, last = recipe.java
        rows[str(system)] = _row(recipe, java=f"{first}" if first == last else f"{first} to {last}")
    return rows


def known_scylladb() -> Mapping[str, Mapping[str, str | int]]:
    """`scylladb:LINE` → the same; it needs no Java, and runs on deployed clusters and in containers only."""
    systems = [parse_system(f"scylladb:{version}") for version in _SCYLLADB]
    return {str(system): _row(line_for(system), java="-") for system in systems}


def _row(line: Line, *, java: str) -> Mapping[str, str | int]:
    return {
        "era": line.era,
        "client": "Thrift" if line.protocol_version is None else f"CQL v{line.protocol_version}",
        "java": java,
        "MB a node": line.memory_mb,
        "features": " ".join(sorted(line.features)),
    }
