"""Option values: one value in the words of a statement and in the words of a server."""

from __future__ import annotations

from typing import Any

import pytest

from schemaquake.checkers.evidence.option_values import can_be

LEVELED = "org.apache.cassandra.db.compaction.LeveledCompactionStrategy"


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ("x", "x"),
        (864000, "864000"),
        ("0.10", 0.1),
        (0.01, "0.010"),
        ("99.0PERCENTILE", "99PERCENTILE"),
        ("99p", "99PERCENTILE"),
        ("50ms", "50.0MS"),
        ("NEVER", "NONE"),
        ("", None),
        ("false", False),
        (True, "true"),
        ("ALL", "all"),
        ({"class": LEVELED, "enabled": "true", "max_threshold": "32"}, {"class": "LeveledCompactionStrategy"}),
        ({"class": LEVELED, "sstable_size_in_mb": "160"}, {"class": LEVELED, "sstable_size_in_mb": 160}),
        ({"class": "LZ4Compressor", "chunk_length_in_kb": "64"}, {"sstable_compression": "LZ4Compressor"}),
        ({"chunk_length_in_kb": "64"}, {"chunk_length_kb": 64}),
        ({"class": "SimpleStrategy", "replication_factor": "3"}, {"replication_factor": 3}),
        (
            {"class": "NetworkTopologyStrategy", "dc1": "3"},
            {"class": "NetworkTopologyStrategy", "replication_factor": 3},
        ),
        ({"class": "NetworkTopologyStrategy", "dc1": "2"}, {"replication_factor": 3}),
        ({"class": LEVELED}, {"class": LEVELED, "enabled": False}),
        (["a", "b"], ["a", "b"]),
    ],
)
def test_the_same_value(found: Any, wanted: Any) -> None:
    assert can_be(found, wanted) is True


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ("x", "y"),
        ("", "x"),
        (864000, 864001),
        (8640001, 8640002),
        ("99p", "95PERCENTILE"),
        ("99p", "99ms"),
        ("true", False),
        ({"class": LEVELED}, {"class": "SizeTieredCompactionStrategy"}),
        ({"class": LEVELED}, {"class": "DateTieredCompactionStrategy"}),
        ({"class": "SimpleStrategy", "replication_factor": "3"}, {"replication_factor": 2}),
        ({"class": "com.example.LeveledCompactionStrategy"}, {"class": "LeveledCompactionStrategy"}),
        ({"class": "com.example.LeveledCompactionStrategy"}, {"class": LEVELED}),
        ("1.2.3.4", "9.9.9.4"),
        ({"class": LEVELED}, {"class": LEVELED, "sstable_size_in_mb": 160}),
        ({"class": "SimpleStrategy"}, {"class": "SimpleStrategy", "replication_factor": 3}),
        ({"class": "NetworkTopologyStrategy"}, {"class": "NetworkTopologyStrategy", "replication_factor": 3}),
        ({"class": "NetworkTopologyStrategy", "dc1": "3"}, {"max_threshold": 3}),
        ({"class": "NetworkTopologyStrategy", "dc1": "3"}, {"sstable_size_in_mb": 3}),
        ({"dc1": "3"}, {"class": "NetworkTopologyStrategy"}),
        ({}, {"class": LEVELED}),
        ({"class": "a"}, "a"),
        ("a", {"class": "a"}),
        ("{'class': 'a'}", {"class": "a"}),
    ],
)
def test_another_value(found: Any, wanted: Any) -> None:
    assert can_be(found, wanted) is False
