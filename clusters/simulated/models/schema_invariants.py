"""Invariants of designs without a log: what a node's memory, disk and version have to do with each other (`-O invariants=checked`).

Of rows that are merged (1.1 to 5.0): what was merged is on the disk, or something later is; a node serves what its disk has, by the digest of
it; and what a coordinator was asked for is what its rows come to. Of ordered migrations (0.7 to 1.0): a version is the same definitions on all
nodes, and no node goes back to an earlier one, not by a restart either; migrations are sent and carried out in their order. Where a coordinator
asks the others for their versions (up to 1.1), it begins a change only if they have its own.

Looked at where a design has no flaw: most of them break one of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

from schemaquake.clusters.simulated.faces import Node
from schemaquake.clusters.simulated.models.invariants import Breaches
from schemaquake.clusters.simulated.models.serving import server_of
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.definitions import Schema, tables_of
from schemaquake.clusters.simulated.schema.loading import load_keyspaces
from schemaquake.clusters.simulated.schema.rows import RowChange

__all__ = ["ChainInvariants", "MergeInvariants"]

_WAITS_NS: Final = 2_000_000_000
"""The time after which a coordinator goes on without a version that it has asked for."""


class _Migration(Protocol):
    @property
    def last(self) -> str: ...
    @property
    def version(self) -> str: ...


class _Agreement:
    """The versions that a coordinator asks for before it changes anything, in designs that ask for them."""

    def __init__(self, breaches: Breaches) -> None:
        self._report = breaches.report
        self._asking: dict[str, None] = {}
        """The nodes that have asked the others for their versions, for a change that they have not made yet."""

    def agreed(
        self, node: Node, version: Any, others: Mapping[str, Any], living: Collection[str], since_ns: int
    ) -> None:
        """Take note of a coordinator of that version that begins a change.

        `others` are the versions of those who were asked, None of who did not answer; `living` those who were alive before they were asked,
        which was not before the moment `since_ns`.
        """
        invariant = "a change begins where versions agree"
        self._asking[node.name] = None
        differ = [name for name, each in others.items() if each not in {None, version}]
        if differ:
            text = f"{node.name} begins at {version}, and {', '.join(differ)} has another version"
            self._report(node, invariant, text)
        alive = server_of(node).gossip.alive
        left_out = [name for name in living if name not in others and alive(name)]
        if left_out:
            self._report(node, invariant, f"{node.name} begins, and has not asked {', '.join(left_out)}")
        silent = [name for name, each in others.items() if each is None]
        if silent and node.kernel.heap.now_ns < since_ns + _WAITS_NS:
            self._report(node, invariant, f"{node.name} begins, and has not waited for {', '.join(silent)}")

    def makes(self, node: Node) -> None:
        """Take note of a coordinator that makes a change: it has asked the others for their versions (`agreed`)."""
        if node.name not in self._asking:
            text = f"{node.name} makes a change, and has asked nobody for a version"
            self._report(node, "a change begins where versions agree", text)
        self._asking.pop(node.name, None)


class MergeInvariants(_Agreement):
    """The facts of a node that has merged rows."""

    def __init__(self, breaches: Breaches) -> None:
        super().__init__(breaches)
        self._versions: dict[UUID | None, tuple[str, Schema]] = {}
        """By version the first node that served it, and what it served."""

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
        self._compare_versions(node)
        for table in (
            each for name in touched if name in server.memory for each in tables_of({name: server.memory[name]})
        ):
            if table.id not in node.disk.tables:
                self._report(node, "what is served has its files", f"{node.name} has none of {table.name}")

    def started(self, node: Node) -> None:
        """Take note of a node that serves from now on what it has read from its disk."""
        server, disk = server_of(node), node.disk.schema
        if server.version != disk.version():
            self._report(node, "a version is the digest of the disk", f"{node.name} tells {server.version}")
        try:
            loaded = load_keyspaces(disk, sorted(disk.keyspaces), {}, lambda _text: None)
        except ServerSaid as said:
            self._report(node, "a disk can be loaded", f"{node.name}: {said}")
            return
        self._compare(node, loaded, server.memory, {**loaded, **server.memory}, "a node serves what its disk has")
        self._compare_versions(node)

    def _compare_versions(self, node: Node) -> None:
        server = server_of(node)
        first, known = self._versions.setdefault(server.version, (node.name, server.memory))
        if known is not server.memory and known != server.memory:
            text = f"{node.name} and {first} serve different definitions by {server.version}"
            self._report(node, "a version is the same definitions", text)

    def changed(self, node: Node, wanted: Schema, rows: Iterable[RowChange]) -> None:
        """Take note of a coordinator that has carried a change out, after which these definitions were wanted."""
        touched = {row.keyspace: None for row in rows}
        self._compare(node, wanted, server_of(node).memory, touched, "a change comes to what was asked for")

    def _compare(self, node: Node, one: Schema, other: Schema, names: Iterable[str], invariant: str) -> None:
        for name in names:
            if one.get(name) != other.get(name):
                self._report(node, invariant, f"{name} is another one on {node.name}")


class ChainInvariants(_Agreement):
    """The facts of nodes that carry out one chain of migrations."""

    def __init__(self, breaches: Breaches) -> None:
        super().__init__(breaches)
        self._versions: dict[str, Schema] = {}
        self._served: dict[str, tuple[Any, str]] = {}
        """By node the place of the latest version that it served, and the version."""

    def pushed(self, node: Node, theirs: str, migrations: Sequence[_Migration]) -> None:
        """Take note of the migrations that a node sends to one of the version `theirs`: one after another, beginning with its next."""
        version = theirs
        for migration in migrations:
            if migration.last != version:
                text = f"{node.name} sends one on top of {migration.last or 'none'} to a node that is at {version or 'none'} then"
                self._report(node, "migrations are sent in their order", text)
                return
            version = migration.version

    def applied(self, node: Node, version: str, migration: _Migration) -> None:
        """Take note of a migration that a node of that version has carried out."""
        if migration.last != version:
            text = f"{node.name} carries one on top of {migration.last or 'none'} out at {version or 'none'}"
            self._report(node, "a migration goes on top of the version that it names", text)

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

    def found_files(self, node: Node) -> None:
        """Take note of a node that serves tables from the files that it found: those of a table bear its name."""
        for table in tables_of(server_of(node).memory):
            files = node.disk.tables.get(table.id)
            if files is None or (files.keyspace, files.name) != (table.keyspace, table.name):
                has = "none" if files is None else f"those of {files.name}"
                self._report(node, "what is served has its files", f"{node.name} has {has} for {table.name}")

    def started(self, node: Node) -> None:
        """Take note of a node that serves from now on what it has read from its disk: rows of a table that is gone are a new one's of that name."""
        for table_id, files in node.disk.tables.items():
            if files.partitions and server_of(node).table(table_id) is None:
                self._report(
                    node, "a start leaves no files of what was dropped", f"{node.name} has some of {files.name}"
                )
