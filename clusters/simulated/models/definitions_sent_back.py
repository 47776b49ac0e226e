"""Definitions sent back: how clients changed the schema up to 1.1: they read a whole definition, changed it, and sent it back.

Keyspaces and column families are created and dropped by one call. No call adds a column, sets an option or makes an index:
a change by another client between the reading and the call is overwritten (`schemaquake.clusters.thrift.changes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.changes import Making, carry_out
from schemaquake.clusters.simulated.schema.definitions import Keyspace, Schema, Table

__all__ = ["ROUND_TRIP_NS", "Sent", "definition_of", "sent_in"]

ROUND_TRIP_NS: Final = (200_000, 700_000)
"""The least and the most time between the two calls."""


class Sent(NamedTuple):
    """One call of a client: a definition that is set, or dropped."""

    keyspace: str
    name: str | None
    """A column family's; None: the keyspace itself."""
    definition: Keyspace | Table | None
    """None: it is dropped."""
    is_new: bool = False


def definition_of(described: Schema, f: str, value: Mapping[str, Any], making: Making) -> Sent | None:
    """Return what a client sends after it has read this schema; None if there is nothing to change. Raises ServerSaid."""
    after = carry_out(described, f, value, making)
    if after is described:
        return None
    keyspace = value["keyspace"]
    if f in {"create-keyspace", "alter-keyspace", "drop-keyspace"}:
        return Sent(keyspace, None, after.get(keyspace), f == "create-keyspace")
    name = value["name"]
    if f == "create-index":
        name = value["table"]
    elif f == "drop-index":
        tables = described[keyspace].tables
        name = next(table.name for table in tables.values() if value["name"] in table.indexes)
    table = after[keyspace].tables.get(name)
    # A column that is dropped is dropped from the definition alone.
    return Sent(keyspace, name, None if table is None else replace(table, dropped={}), f == "create-table")


def sent_in(schema: Schema, sent: Sent) -> Schema:
    """Return the schema after a call. Raises ServerSaid for a definition of what is not there, or of what is there already."""
    keyspace = schema.get(sent.keyspace)
    if sent.name is None:
        if sent.is_new == (keyspace is not None):
            raise _refusal(f"keyspace {sent.keyspace}", exists=sent.is_new)
        if sent.definition is None:
            return {name: each for name, each in schema.items() if name != sent.keyspace}
        assert isinstance(sent.definition, Keyspace)
        tables = {} if keyspace is None else keyspace.tables
        return {**schema, sent.keyspace: replace(sent.definition, tables=tables)}
    if keyspace is None:
        raise _refusal(f"keyspace {sent.keyspace}", exists=False)
    if sent.is_new == (sent.name in keyspace.tables):
        raise _refusal(f"column family {sent.keyspace}.{sent.name}", exists=sent.is_new)
    tables = {name: table for name, table in keyspace.tables.items() if name != sent.name}
    if sent.definition is not None:
        assert isinstance(sent.definition, Table)
        tables[sent.name] = sent.definition
    return {**schema, sent.keyspace: replace(keyspace, tables=tables)}


def _refusal(what: str, *, exists: bool) -> ServerSaid:
    text = f"{what} already exists" if exists else f"{what} does not exist"
    return ServerSaid("InvalidRequestException", text)
