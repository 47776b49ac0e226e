"""Group 0 reading: what a ScyllaDB node tells of its Raft group: which it is, who belongs to it, and its log of changes.

All tables are node-local. `system.group0_history` has one row a change that was applied, under a time-based UUID that is
later than the one before it, so its time is an epoch; old rows are deleted after a while. `system.topology` is there from
the release on that keeps the topology in group 0, with columns that differ from one release to the next. A table that a
release does not have, or has otherwise, is refused: the refusal stands in its place, and the rest is read all the same.
Source: ScyllaDB's docs/dev/raft-in-scylla.md and system_keyspace.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from cassandra import InvalidRequest

from schemaquake.clusters.systems.cassandra import system_schema
from schemaquake.clusters.systems.dialect import Query, Stored
from schemaquake.clusters.systems.error_words import error_words
from schemaquake.harness.model.operation import JSON

__all__ = ["CHANGES_MOST", "Group0", "group0_log", "group0_state", "last_change", "own_of_tables"]

CHANGES_MOST: Final = 5000
"""How many changes of the log are read, the newest: it may be that of a cluster in use."""

_BEHIND: Final = {"view": "_index", "table": "_scylla_cdc_log"}
"""Suffixes: of an index's name in its view's, and of a table's in its log's of captured changes."""
_OF_TOPOLOGY: Final = ("fence_version", "transition_state", "upgrade_state", "version")


@dataclass(frozen=True, slots=True)
class Group0:
    """The reading of ScyllaDB: `system_schema`, what only ScyllaDB knows of a table, and the log of group 0."""

    describes_memory = True

    def read_version(self, query: Query) -> tuple[str, int | None]:
        """Read the version, and the time of the newest state as the epoch: it is later than that of the state before."""
        version = system_schema.schema_version(query)
        if version is None:
            return "", None
        state = last_change(query)
        return str(version), None if state is None else state.time

    def read_schema(self, query: Query) -> Iterator[Stored]:
        """Read `system_schema`; a table's and a view's definition has what only ScyllaDB knows of it.

        A view behind an index, and a table of captured changes, also have the name of the object that they are kept for.
        """
        own = own_of_tables(query)
        objects = list(system_schema.stored_objects(query))
        served = _served(objects)
        for kind, keyspace, name, identity, definition in objects:
            if kind not in {"table", "view"} or name is None:
                yield kind, keyspace, name, identity, definition
                continue
            extra: dict[str, JSON] = {}
            if found := own.get((keyspace, name)):
                extra["scylla"] = system_schema.cell_as_json(found)
            origin = name.removesuffix(_BEHIND[kind])
            if origin != name and (kind, keyspace, origin) in served:
                extra["derived_from"] = origin
            yield kind, keyspace, name, identity, {**definition, **extra}

    def read_state(self, query: Query) -> Mapping[str, JSON]:
        """Read which group the node is in, its members and its topology."""
        return {"group0": group0_state(query)}

    def read_log(self, query: Query) -> JSON | None:
        """Read the newest changes of the group's log."""
        return group0_log(query)

    def read_keyspaces(self, query: Query) -> Sequence[str]:
        """Read `system_schema.keyspaces`."""
        return system_schema.keyspace_names(query)

    def read_release(self, query: Query) -> str:
        """Read `system.versions`: in `system.local` it says which Cassandra it is compatible with."""
        rows = query("SELECT version FROM system.versions WHERE key = 'local'")
        return next((str(row["version"]) for row in rows), "unknown")


def last_change(query: Query) -> UUID | None:
    """Read the state that this node's group 0 is in; None before the first change, and where the node refuses."""
    try:
        rows = list(query("SELECT state_id FROM system.group0_history WHERE key = 'history' LIMIT 1"))
    except InvalidRequest:
        return None  # the log, which is asked for in the same way, tells the refusal
    return next((row["state_id"] for row in rows), None)


def group0_log(query: Query) -> JSON:
    """Read the newest changes of the log, oldest first: `{"changes": [[state id, epoch, description], …], "cut": bool}`.

    It is cut where older ones than these may be there; `{"error": words}` where the node refuses to tell.
    """
    return _or_refusal(lambda: _log(query))


def _log(query: Query) -> JSON:
    rows = query(f"SELECT state_id, description FROM system.group0_history WHERE key = 'history' LIMIT {CHANGES_MOST}")
    in_order = sorted(rows, key=lambda row: (row["state_id"].time, row["state_id"].int))
    changes = [[str(row["state_id"]), row["state_id"].time, row["description"]] for row in in_order]
    return {"changes": changes, "cut": len(changes) == CHANGES_MOST}


def group0_state(query: Query) -> JSON:
    """Read the node's group, its members and its topology, as far as this release has them; or `{"error": words}`."""
    return _or_refusal(lambda: _state(query))


def _state(query: Query) -> JSON:
    facts = {row["key"]: row["value"] for row in query("SELECT key, value FROM system.scylla_local")}
    group = facts.get("raft_group0_id")
    state: dict[str, JSON] = {
        "id": group,
        "upgrade_state": facts.get("group0_upgrade_state"),
        "schema_version": facts.get("group0_schema_version"),
    }
    if group is not None:
        members = query(
            f"SELECT disposition, server_id, can_vote FROM system.raft_state WHERE group_id = {UUID(group)}"
        )
        current = [row for row in members if row["disposition"] == "CURRENT"]
        state["members"] = sorted(str(row["server_id"]) for row in current)
        state["voters"] = sorted(str(row["server_id"]) for row in current if row["can_vote"])
    return state | _topology(query)


def _topology(query: Query) -> dict[str, JSON]:
    """Read the columns that are known by name; others may hold values that a driver cannot read."""
    columns = query(
        "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'system' AND table_name = 'topology'"
    )
    there = {row["column_name"] for row in columns}
    wanted = [name for name in _OF_TOPOLOGY if name in there]
    if not {"host_id", "node_state"} <= there:
        return {}
    rows = list(query(f"SELECT {', '.join(('host_id', 'node_state', *wanted))} FROM system.topology"))
    return {
        "topology": {name: rows[0][name] for name in wanted} if rows else None,
        "nodes": {str(row["host_id"]): row["node_state"] for row in rows if row["host_id"] is not None},
    }


def own_of_tables(query: Query) -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """Read by (keyspace, table) what only ScyllaDB knows of it, without nulls."""
    try:
        rows = list(query("SELECT * FROM system_schema.scylla_tables"))
    except InvalidRequest:
        return {}
    return {(row["keyspace_name"], row["table_name"]): dict(_own(row)) for row in rows}


def _own(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, cell in row.items():
        if cell is None or name in {"keyspace_name", "table_name"}:
            continue
        # A version that no change of group 0 wrote is what each node has computed for itself.
        if name != "version" or row.get("committed_by_group0"):
            yield name, cell


def _served(objects: Sequence[Stored]) -> frozenset[tuple[str, str, str]]:
    """Find (kind of what is kept, keyspace, name) of every object that something may be kept for: indexes and tables."""
    tables = [(keyspace, name, definition) for kind, keyspace, name, _, definition in objects if kind == "table"]
    indexes = {("view", keyspace, index) for keyspace, _, definition in tables for index in definition["indexes"]}
    return frozenset(indexes | {("table", keyspace, name) for keyspace, name, _ in tables if name is not None})


def _or_refusal(read: Callable[[], JSON]) -> JSON:
    try:
        return read()
    except InvalidRequest as error:
        return {"error": error_words(error)}
