"""Disk: what a simulated node still has after its server was killed.

Writes are made when their sync has ended (`commitlog_sync: batch`, the harness' setting for real servers): nothing that was
acknowledged is lost, and nothing is read that could be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from schemaquake.clusters.simulated.schema.rows import SchemaRows

__all__ = ["Cells", "Disk", "RowKey", "TableFiles", "rank_of"]

Cells: TypeAlias = dict[str, tuple[int, Any]]
"""Cells of one row: (µs, value), value None for a deleted one."""

RowKey: TypeAlias = tuple[tuple[Any, ...], tuple[Any, ...]]
"""Values of the partition key and of the clustering columns."""


class TableFiles:
    """The rows of one table, and its folder."""

    __slots__ = ("deleted_us", "id", "keyspace", "name", "partitions", "snapshots")

    def __init__(self, keyspace: str, name: str, table_id: str) -> None:
        self.keyspace = keyspace
        self.name = name
        self.id = table_id
        self.partitions: dict[tuple[Any, ...], dict[RowKey, Cells]] = {}
        """By partition key, then by row key."""
        self.deleted_us: dict[RowKey, int] = {}
        self.snapshots: list[str] = []

    def write(self, key: RowKey, cells: Mapping[str, tuple[int, Any]], deleted_us: int = 0) -> None:
        """Merge cells into a row: the later one stays, of two at one time the deleted or larger one."""
        if deleted_us and deleted_us > self.deleted_us.get(key, 0):
            self.deleted_us[key] = deleted_us
        rows = self.partitions.get(key[0])
        if rows is None:
            rows = self.partitions[key[0]] = {}
        row = rows.get(key)
        if row is None:
            row = rows[key] = {}
        for name, cell in cells.items():
            held = row.get(name)
            if held is None or cell[0] > held[0] or (cell[0] == held[0] and rank_of(cell[1]) > rank_of(held[1])):
                row[name] = cell

    def drop(self, snapshot: str) -> None:
        """Delete all rows, of which a snapshot stays."""
        if self.partitions:
            self.snapshots.append(snapshot)
        self.partitions = {}
        self.deleted_us = {}


class Disk:
    """The durable state of one node."""

    __slots__ = ("ring", "schema", "shows_ids", "state", "tables")

    def __init__(self) -> None:
        self.schema = SchemaRows()
        self.tables: dict[str, TableFiles] = {}
        """By id, every table that the node ever had."""
        self.shows_ids = True
        """False in designs that name a table's files without its id."""
        self.ring: Any = None
        """The members that the node has heard of, in designs that gossip them."""
        self.state: Any = None
        """The rest of a model's own."""

    def files(self, keyspace: str, name: str, table_id: str) -> TableFiles:
        """Return the files of a table, made if need be."""
        files = self.tables.get(table_id)
        if files is None:
            files = self.tables[table_id] = TableFiles(keyspace, name, table_id)
        return files

    def directories(self) -> Iterator[tuple[str, str, str | None, bool, list[str]]]:
        """Yield (keyspace, table, id, live, snapshots) of every table."""
        for files in sorted(self.tables.values(), key=lambda each: (each.keyspace, each.name, each.id)):
            yield (
                files.keyspace,
                files.name,
                files.id if self.shows_ids else None,
                bool(files.partitions),
                list(files.snapshots),
            )


def rank_of(value: Any) -> tuple[bool, int, str]:
    """Return what values with one timestamp are compared by: a deletion is above all, numbers go by size, as their bytes do."""
    return value is None, value if type(value) is int else 0, repr(value)
