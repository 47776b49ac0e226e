"""Serving: what every model does when a node begins to serve another schema, and the ids that nodes make for themselves."""

from __future__ import annotations

from typing import Final

from schemaquake.clusters.simulated.faces import Node, Server
from schemaquake.clusters.simulated.schema.definitions import Schema, Table, tables_of
from schemaquake.harness.units import MS

__all__ = ["drop_files", "misses_drop", "serve_schema", "server_of", "time_id"]

_GREGORIAN_HUNDREDS_NS: Final = 122_192_928_000_000_000
"""From the beginning of the Gregorian calendar, from which time UUIDs count, to 1970."""


def server_of(node: Node) -> Server:
    """Return the running server of a node."""
    assert node.server is not None
    return node.server


def serve_schema(node: Node, schema: Schema) -> None:
    """Serve this schema from now on; files of tables that are not in it are dropped."""
    drop_files(node, schema)
    server_of(node).memory = schema
    for table in tables_of(schema):
        node.disk.files(table.keyspace, table.name, table.id)


def drop_files(node: Node, schema: Schema) -> None:
    """Take a snapshot of each table that the schema no longer has under its id, and delete its files."""
    for table in tables_of(server_of(node).memory):
        keyspace = schema.get(table.keyspace)
        now = None if keyspace is None else keyspace.relation(table.name)
        if now is None or now.id != table.id:
            node.kernel.dropped[table.id] = None
            if (files := node.disk.tables.get(table.id)) is not None:
                files.drop(f"dropped-{node.clock.wall_ns() // MS}-{table.name}")


def misses_drop(node: Node, table: Table) -> bool:
    """Return whether another node has dropped this table, in designs whose ids do not come again."""
    return table.id in node.kernel.dropped


def time_id(node: Node, at_us: int | None = None) -> str:
    """Make a time UUID (RFC 4122, version 1) of this node, 32 hex digits, which no other node makes; by default of its wall clock."""
    ids = node.kernel.draws.stream("ids", node.name)
    hundreds_ns = (node.clock.wall_ns() // 100 if at_us is None else at_us * 10) + _GREGORIAN_HUNDREDS_NS
    clock_and_node = 0x8000000000000000 | ids.bits() & 0x3FFFFFFFFFFFFFFF
    low, middle, high = hundreds_ns & 0xFFFFFFFF, (hundreds_ns >> 32) & 0xFFFF, (hundreds_ns >> 48) & 0x0FFF
    return f"{low:08x}{middle:04x}{0x1000 | high:04x}{clock_and_node:016x}"
