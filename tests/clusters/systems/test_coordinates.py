"""Coordinates: what is asked for beyond Cassandra's own artifact, and which versions are near a mistyped one."""

from __future__ import annotations

import pytest

from schemaquake.clusters.distribution.distribution import check_version
from schemaquake.clusters.systems.coordinates import KNOWN_VERSIONS, coordinates, nearest_versions

DRIVER = "com.datastax.cassandra:cassandra-driver-core"


@pytest.mark.parametrize(
    ("version", "extras"),
    [
        ("0.7.10", ["org.slf4j:slf4j-log4j12:1.6.1"]),
        ("2.1.22", ["io.airlift:airline:0.6"]),
        ("2.2.19", [f"{DRIVER}:2.2.0-rc1"]),
        ("3.0.31", ["org.apache.cassandra:cassandra-thrift:3.0.22", f"{DRIVER}:3.0.1"]),
        ("3.11.19", ["org.apache.cassandra:cassandra-thrift:3.11.19", f"{DRIVER}:3.0.1"]),
        ("5.0.9", []),
        ("6.0-alpha2", ["org.apache.cassandra:cassandra-accord:6.0-alpha2"]),
    ],
)
def test_jars_that_an_artifact_forgets_are_asked_for_by_name(version, extras):
    assert [str(each) for each in coordinates(version)] == [f"org.apache.cassandra:cassandra-all:{version}", *extras]


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_every_known_version_is_a_version(version):
    check_version(version)
    assert nearest_versions(version)[0] == version


@pytest.mark.parametrize(
    ("asked", "near"), [("5.0.99", "5.0.9"), ("6.0", "6.0-alpha2"), ("3.11.20", "3.11.19"), ("2.1.1", "2.1.22")]
)
def test_mistyped_version_is_answered_with_one_of_its_line(asked, near):
    assert nearest_versions(asked)[0] == near
