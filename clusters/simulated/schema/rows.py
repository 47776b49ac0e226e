"""Rows: the tables of `system_schema` on one node's disk, last-write-wins cells that merge in any order.

A row's path is its table and its clustering key: `("columns", "t", "c")`. A deletion covers every path that begins with
its own: `()` the keyspace, `("columns", "t")` all columns of a table. Of a cell and a deletion of the same microsecond
the deletion wins, of two cells the larger value (`Cells.reconcile`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

__all__ = ["Cell", "KeyspaceRows", "Path", "RowChange", "SchemaRows", "uuid_of"]

Path: TypeAlias = tuple[str, ...]
Cell: TypeAlias = tuple[int, Any]
"""(µs, value)."""

_CLUSTERING: Final[Mapping[str, tuple[str, ...]]] = {
    "keyspaces": (),
    "tables": ("table_name",),
    "columns": ("table_name", "column_name"),
    "dropped_columns": ("table_name", "column_name"),
    "views": ("view_name",),
    "types": ("type_name",),
    "functions": ("function_name",),
    "aggregates": ("aggregate_name",),
    "indexes": ("table_name", "index_name"),
}
"""Clustering columns of each table of `system_schema`; the partition key is `keyspace_name`."""


class RowChange(NamedTuple):
    """Cells of one row, or a deletion."""

    keyspace: str
    path: Path
    cells: Mapping[str, Cell]
    deleted_us: int = 0
    """The time of a deletion of all that is below `path`; 0: none."""


class KeyspaceRows:
    """All rows of one keyspace."""

    __slots__ = ("_cells", "_deletions", "_live")

    def __init__(self) -> None:
        self._cells: dict[Path, dict[str, Cell]] = {}
        self._deletions: dict[Path, int] = {}
        self._live: dict[Path, dict[str, Cell]] | None = None

    def merge(self, path: Path, cells: Mapping[str, Cell], deleted_us: int) -> bool:
        """Merge one change; return True if it made a difference."""
        changed = False
        if deleted_us > self._deletions.get(path, 0):
            self._deletions[path] = deleted_us
            changed = True
        if cells:
            row = self._cells.setdefault(path, {})
            for name, cell in cells.items():
                held = row.get(name)
                if held is None or _rank(cell) > _rank(held):
                    row[name] = cell
                    changed = True
        if changed:
            self._live = None
        return changed

    def has(self, path: Path, cells: Mapping[str, Cell], deleted_us: int) -> bool:
        """Return whether the rows have these cells and that deletion, or later ones."""
        held = self._cells.get(path, {})
        return self._deletions.get(path, 0) >= deleted_us and all(
            name in held and max(held[name], cell, key=_rank) == held[name] for name, cell in cells.items()
        )

    def live(self) -> Mapping[Path, Mapping[str, Cell]]:
        """Return the rows with a cell that nothing hides, in the order of their paths."""
        if self._live is None:
            live: dict[Path, dict[str, Cell]] = {}
            for path in sorted(self._cells):
                hidden_us = self.hidden_us(path)
                cells = {name: cell for name, cell in sorted(self._cells[path].items()) if cell[0] > hidden_us}
                if cells:
                    live[path] = cells
            self._live = live
        return self._live

    def changes(self, keyspace: str) -> list[RowChange]:
        """Return everything, tombstones too, as changes that make another node's rows these."""
        deletions = [RowChange(keyspace, path, {}, us) for path, us in sorted(self._deletions.items())]
        return deletions + [RowChange(keyspace, path, dict(row)) for path, row in sorted(self._cells.items())]

    def purge(self, before_us: int) -> None:
        """Forget deletions older than that, and the cells that they hid."""
        gone = [path for path, us in self._deletions.items() if us < before_us]
        if gone:
            self._cells = {path: dict(row) for path, row in self.live().items()}
            for path in gone:
                del self._deletions[path]

    def copy(self) -> KeyspaceRows:
        """Return an independent copy."""
        copy = KeyspaceRows()
        copy._cells = {path: dict(cells) for path, cells in self._cells.items()}
        copy._deletions = dict(self._deletions)
        copy._live = self._live
        return copy

    def has_deletions_of(self, other: KeyspaceRows) -> bool:
        """Return whether these rows have every deletion that other ones have, or a later one."""
        return all(self._deletions.get(path, 0) >= us for path, us in other._deletions.items())

    def hidden_us(self, path: Path) -> int:
        """Return the time up to which cells of a row are hidden by deletions of it or of what contains it."""
        deletions = self._deletions
        if not deletions:
            return 0
        return max(deletions.get(path[:length], 0) for length in range(len(path) + 1))


class SchemaRows:
    """All rows of one node's `system_schema`, and their digest."""

    __slots__ = ("_digests", "_tables", "keyspaces")

    def __init__(self) -> None:
        self.keyspaces: dict[str, KeyspaceRows] = {}
        self._digests: dict[str, bytes] = {}
        self._tables: dict[str, dict[str, list[dict[str, Any]]]] = {}

    def merge(self, changes: Iterable[RowChange]) -> list[str]:
        """Merge changes and return the keyspaces in which they made a difference, in order."""
        changed: dict[str, None] = {}
        for keyspace, path, cells, deleted_us in changes:
            rows = self.keyspaces.get(keyspace)
            if rows is None:
                rows = self.keyspaces[keyspace] = KeyspaceRows()
            if rows.merge(path, cells, deleted_us):
                changed[keyspace] = None
        for keyspace in changed:
            self._digests.pop(keyspace, None)
            self._tables.pop(keyspace, None)
        return list(changed)

    def has(self, change: RowChange) -> bool:
        """Return whether the rows have all that a change says, or something later."""
        rows = self.keyspaces.get(change.keyspace)
        return rows is not None and rows.has(change.path, change.cells, change.deleted_us)

    def has_deletions_of(self, other: SchemaRows) -> bool:
        """Return whether these rows have every deletion that other ones have, or a later one: a version tells nothing of them."""
        none = KeyspaceRows()
        return all(self.keyspaces.get(name, none).has_deletions_of(rows) for name, rows in other.keyspaces.items())

    def changes(self, keyspace: str | None = None) -> list[RowChange]:
        """Return all rows, or those of one keyspace, as changes: the answer to a pull."""
        names = sorted(self.keyspaces) if keyspace is None else [keyspace] * (keyspace in self.keyspaces)
        return [change for name in names for change in self.keyspaces[name].changes(name)]

    def deleted_us(self, keyspace: str, path: Path) -> int:
        """Return the time of the last deletion of a row or of what contains it; 0 if there was none."""
        rows = self.keyspaces.get(keyspace)
        return 0 if rows is None else rows.hidden_us(path)

    def version(self) -> UUID:
        """Return the digest of all live rows with their timestamps (`SchemaKeyspace.calculateSchemaDigest`)."""
        whole = blake2b(digest_size=16)
        for name in sorted(self.keyspaces):
            digest = self._digests.get(name)
            if digest is None:
                live = self.keyspaces[name].live()
                digest = self._digests[name] = (
                    blake2b(repr((name, live)).encode(), digest_size=16).digest() if live else b""
                )
            whole.update(digest)
        return UUID(bytes=whole.digest(), version=3)

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of one table as a client reads them."""
        found: list[dict[str, Any]] = []
        for keyspace in sorted(self.keyspaces):
            tables = self._tables.get(keyspace)
            if tables is None:
                tables = self._tables[keyspace] = _as_tables(keyspace, self.keyspaces[keyspace].live())
            found += tables.get(name, ())
        return found

    def purge(self, before_us: int) -> None:
        """Forget deletions older than that, and the cells that they hid."""
        for rows in self.keyspaces.values():
            rows.purge(before_us)

    def copy(self) -> SchemaRows:
        """Return an independent copy."""
        copy = SchemaRows()
        copy.keyspaces = {name: rows.copy() for name, rows in self.keyspaces.items()}
        return copy


def uuid_of(table_id: str) -> UUID:
    """Return a table's id as drivers return it."""
    return UUID(hex=table_id)


def _rank(cell: Cell) -> tuple[int, bool, str]:
    us, value = cell
    return us, value is None, repr(value)


def _as_tables(keyspace: str, live: Mapping[Path, Mapping[str, Cell]]) -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[dict[str, Any]]] = {}
    for path, cells in live.items():
        table, *key = path
        row: dict[str, Any] = dict.fromkeys(_COLUMNS.get(table, ()))
        row["keyspace_name"] = keyspace
        row.update(zip(_CLUSTERING[table], key, strict=True))
        for name, (_, value) in cells.items():
            if name == "dropped_us":
                row["dropped_ms"] = value // 1000
            elif name in {"id", "base_table_id"}:
                row[name] = uuid_of(value)
            elif name:
                row[name] = value
        tables.setdefault(table, []).append(row)
    return tables


_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "keyspaces": ("replication", "durable_writes"),
    "tables": ("id",),
    "views": ("id", "base_table_id", "base_table_name"),
    "columns": ("type", "kind", "position"),
    "dropped_columns": ("type", "dropped_ms"),
    "types": ("field_names", "field_types"),
    "functions": ("argument_names", "argument_types", "return_type", "body"),
    "aggregates": ("argument_types", "state_func", "state_type", "final_func"),
    "indexes": ("kind", "options"),
}
"""Columns that a row has even where they are null."""
