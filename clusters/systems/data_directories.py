"""Data directories: where a node keeps the rows of its tables.

Three layouts. Since 2.1 a table has the folder `<data>/<keyspace>/<table>-<id as 32 hex digits>/`; from 1.1 to 2.0 the
folder bears its name alone; up to 1.0 there is none, and a table is known by its files once something was flushed,
`<data>/<keyspace>/<table>-g-1-Data.db`. Snapshots lie below `snapshots/<name>/` of the folder the files are in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from schemaquake.clusters.systems.recipe import Layout

__all__ = ["DEPTH", "SYSTEM_KEYSPACES", "TableDirectory", "table_directories", "tables_listed"]

DEPTH: Final = 4
"""How far below the data folder anything of interest lies: keyspace, table, `snapshots`, a snapshot (and its files)."""

TableDirectory: TypeAlias = tuple[str, str, str | None, bool, Sequence[str]]
"""(keyspace, table, id, live, snapshots): live if it holds an sstable of its own; the id is null where names bear none."""

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
        "system_distributed_everywhere",
        "system_replicated_keys",
    }
)

_FOLDERS: Final = {
    "folders": re.compile(r"(?P<name>\w+)"),
    "folders-with-ids": re.compile(r"(?P<name>\w+)-(?P<id>[0-9a-f]{32})"),
}
# Of a table itself: up to 2.1 an index's files lie beside its table's, as `<table>.<index>-…`.
_FILE: Final = re.compile(r"(?P<name>\w+)-[a-z]+-\d+-Data\.db")
_DATA: Final = "-Data.db"
_SNAPSHOTS: Final = "snapshots"
_UNFINISHED: Final = re.compile(r"-tmp(?:link)?-")


def table_directories(data: Path, layout: Layout) -> Sequence[TableDirectory]:
    """Every user table on the node's disk, by keyspace, name and id."""
    return tables_listed(_listing(data), layout)


def tables_listed(listing: Iterable[str], layout: Layout) -> Sequence[TableDirectory]:
    """The same from a listing of the data folder: its folders and its files `*-Data.db`, relative to it, `DEPTH` deep.

    In any order, and what is there twice (a server may have several such folders) counts once.
    """
    keyspaces: dict[str, set[tuple[str, ...]]] = {}
    for path in listing:
        keyspace, *below = path.removeprefix("./").split("/")
        if keyspace not in SYSTEM_KEYSPACES and below:
            keyspaces.setdefault(keyspace, set()).add(tuple(below))
    by = _by_files if layout == "files" else partial(_by_folders, named=_FOLDERS[layout])
    return [found for keyspace, paths in sorted(keyspaces.items()) for found in by(keyspace, paths)]


def _listing(data: Path) -> Iterator[str]:
    for keyspace in data.glob("*"):
        if keyspace.name in SYSTEM_KEYSPACES:
            continue
        for folder, folders, names in os.walk(keyspace):
            below = Path(folder).relative_to(data)
            files = [name for name in names if name.endswith(_DATA)]
            yield from (str(below / name) for name in (*folders, *files))
            if len(below.parts) >= DEPTH - 1:
                folders.clear()


def _by_folders(
    keyspace: str, paths: Collection[tuple[str, ...]], *, named: re.Pattern[str]
) -> Iterator[TableDirectory]:
    for name in sorted({path[0] for path in paths if not path[0].endswith(_DATA)}):
        match = named.fullmatch(name)
        if match is None:
            continue
        within = [path[1:] for path in paths if path[0] == name and len(path) > 1]
        live = any(len(path) == 1 and path[0].endswith(_DATA) and _is_finished_table(path[0]) for path in within)
        snapshots = sorted({path[1] for path in within if path[0] == _SNAPSHOTS and len(path) > 1})
        yield keyspace, match["name"], match.groupdict().get("id"), live, snapshots


def _is_finished_table(file: str) -> bool:
    return "." not in file.removesuffix(".db") and not _UNFINISHED.search(file)


def _by_files(keyspace: str, paths: Collection[tuple[str, ...]]) -> Iterator[TableDirectory]:
    live = _tables(path[0] for path in paths if len(path) == 1)
    snapshots: dict[str, list[str]] = {}
    for path in paths:
        if path[0] == _SNAPSHOTS and len(path) > 2:
            snapshots.setdefault(path[1], []).append(path[2])
    held = {name: _tables(files) for name, files in snapshots.items()}
    for name in sorted(live.union(*held.values())):
        yield keyspace, name, None, name in live, sorted(s for s, tables in held.items() if name in tables)


def _tables(files: Iterable[str]) -> set[str]:
    return {match["name"] for file in files if (match := _FILE.fullmatch(file)) is not None}
