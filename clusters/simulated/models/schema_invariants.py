"""Invariants of designs without a log: what a node's memory, disk and version have to do with each other (`-O invariants=checked`).

Of rows that are merged (1.1 to 5.0): what was merged is on the disk, or something later is; a node serves what its disk has, by the digest of
it; and what a coordinator was asked for is what its rows come to. Of ordered migrations (0.7 to 1.0): a version is the same definitions on all
nodes, and no node goes back to an earlier one, not by a restart either.

Looked at where a design has no flaw: most of them break one of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schemaquake.clusters.simulated.faces import Node
from schemaquake.clusters.simulated.models.invariants import Breaches
from schemaquake.clusters.simulated.models.serving import server_of
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.definitions import Schema, tables_of
from schemaquake.clusters.simulated.schema.loading import load_keyspaces
from schemaquake.clusters.simulated.schema.rows import RowChange

__all__ = ["ChainInvariants", "MergeInvariants"]


class MergeInvariants:
    """The facts of a node that has merged rows."""

    def __init__(self, breaches: Breaches) -> None:
        self._report = breaches.report

    def merged(self, node: Node, rows: Iterable[RowChange]) -> None:
        """Take note of a node that serves what it has merged."""
        server, disk = server_of(node), node.disk.schema
        touched: dict[str, None] = {}
        for row in rows:
            touched[row.keyspace] = None
            if not disk.has(row):
                text = f"{node.name} lacks a part of {row.path} in {row.keyspace}"
                self._report(node, "what was merged is on the disk", text)
        if server.version != disk.version():
            self._report(node, "a version is the digest of the disk", f"{node.name} tells {server.version}")
        try:
            loaded = load_keyspaces(disk, sorted(touched), {}, lambda _text: None)
        except ServerSaid as said:
            self._report(node, "a disk can be loaded", f"{node.name}: {said}")
            return
        self._compare(node, loaded, server.memory, touched, "a node serves what its disk has")
        for table in (
            each for name in touched if name in server.memory for each in tables_of({name: server.memory[name]})
        ):
            if table.id not in node.disk.tables:
                self._report(node, "what is served has its files", f"{node.name} has none of {table.name}")

    def changed(self, node: Node, wanted: Schema, rows: Iterable[RowChange]) -> None:
        """Take note of a coordinator that has carried a change out, after which these definitions were wanted."""
        touched = {row.keyspace: None for row in rows}
        self._compare(node, wanted, server_of(node).memory, touched, "a change comes to what was asked for")

    def _compare(self, node: Node, one: Schema, other: Schema, names: Iterable[str], invariant: str) -> None:
        for name in names:
            if one.get(name) != other.get(name):
                self._report(node, invariant, f"{name} is another one on {node.name}")


class ChainInvariants:
    """The facts of nodes that carry out one chain of migrations."""

    def __init__(self, breaches: Breaches) -> None:
        self._report = breaches.report
        self._versions: dict[str, Schema] = {}
        self._served: dict[str, tuple[Any, str]] = {}
        """By node the place of the latest version that it served, and the version."""

    def served(self, node: Node, version: str, place: Any, schema: Schema) -> None:
        """Take note of a version that a node serves from now on; `place` is what versions are ordered by."""
        first = self._versions.setdefault(version, schema)
        if first is not schema and first != schema:
            self._report(node, "a version is the same everywhere", f"{node.name} has other definitions of {version}")
        if version and not schema and first:
            self._report(node, "a version has definitions", f"{node.name} has none of {version}")
        before = self._served.get(node.name)
        if before is not None and place < before[0]:
            self._report(node, "no version goes back", f"{node.name} goes from {before[1]} back to {version}")
        self._served[node.name] = place, version
