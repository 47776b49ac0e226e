"""Data directories: which tables a node keeps on its disk, under which ids.

Cassandra 2.1+ lays a table out as `<data>/<keyspace>/<table>-<id as 32 hex digits>/`, snapshots below `snapshots/`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["SYSTEM_KEYSPACES", "table_directories"]

SYSTEM_KEYSPACES: Final = frozenset(
    {
        "system",
        "system_accord",
        "system_auth",
        "system_cluster_metadata",
        "system_distributed",
        "system_schema",
        "system_traces",
        "system_metrics",
        "system_views",
        "system_virtual_schema",
        "system_accord_debug",
    }
)

_TABLE: Final = re.compile(r"(?P<name>\w+)-(?P<id>[0-9a-f]{32})")


def table_directories(data: Path) -> Sequence[tuple[str, str, str, bool, Sequence[str]]]:
    """(keyspace, table, id, live, snapshots) of every user table's directory; live: it holds an sstable of its own."""
    found = []
    for keyspace in sorted(path for path in data.glob("*") if path.is_dir() and path.name not in SYSTEM_KEYSPACES):
        for directory in sorted(keyspace.glob("*-*")):
            match = _TABLE.fullmatch(directory.name)
            if match is None:
                continue
            live = any(directory.glob("*-Data.db"))
            snapshots = sorted(path.name for path in (directory / "snapshots").glob("*"))
            found.append((keyspace.name, match["name"], match["id"], live, snapshots))
    return found
