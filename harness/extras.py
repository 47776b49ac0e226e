"""Extras: the optional dependencies that bring each package, so that an error can name the one to install.

Judging, simulating and reporting need none. pyproject.toml lists the same extras; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemaquake.harness.errors import EnvironmentLacks

__all__ = ["EXTRAS", "lacking_extra"]

EXTRAS: Final[Mapping[str, tuple[str, str]]] = {
    "cassandra": ("cassandra", "clusters that speak CQL"),
    "thriftpy2": ("thrift", "Cassandra 0.7 to 1.1"),
    "paramiko": ("ssh", "hosts behind SSH"),
    "docker": ("docker", "nodes in containers"),
    "pyspark": ("spark", "--engine spark"),
    "pandas": ("spark", "--engine spark"),
}
"""Imported package → the extra that brings it, and its purpose."""


def lacking_extra(error: ModuleNotFoundError) -> EnvironmentLacks | None:
    """Turn a failed import into the error that names the extra to install; None if no extra brings that package."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return None
    extra, purpose = EXTRAS[package]
    return EnvironmentLacks(
        f"{purpose} needs the Python package {package!r}, which is not installed: pip install 'schemaquake[{extra}]'"
    )
