"""Schema reading: one node's own account of its schema, from its local tables and from its memory.

`system_schema.*` (before 3.0 `system.schema_*`) and `system.local` are node-local, so a session pinned to a node reads
what that node has on disk. What it has in memory (`schemaquake.clusters.cql.memory`) may be something else, and no agreement
check sees it: that is why both are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from schemaquake.clusters.cql.memory import ColumnsOf, Described, describe, probe
from schemaquake.clusters.systems.data_directories import SYSTEM_KEYSPACES
from schemaquake.clusters.systems.dialect import Query, SchemaReading
from schemaquake.harness.model.observation import Observation, reading
from schemaquake.harness.model.operation import JSON

__all__ = ["digest", "memory_differs", "read_schema"]


def read_schema(
    query: Query,
    schema: SchemaReading,
    *,
    phase: str,
    node: str,
    sample: int,
    complete: bool = False,
    columns_of: ColumnsOf | None = None,
    barrier: JSON = None,
) -> Iterator[Observation]:
    """Read every object the node has on disk and in memory, version first; user keyspaces only.

    Without `columns_of` the memory of a release that has no DESCRIBE is not asked: that takes one statement a table. The
    log of changes, where the node keeps one, belongs to a `complete` reading. `barrier` says how the one before it ended.
    """
    version, epoch = schema.read_version(query)

    observed = reading(phase=phase, node=node, sample=sample)

    # Asked first, told last: a node whose schema stage is stuck does not answer from memory, but still reads its disk.
    described = describe(query) if schema.describes_memory else None
    silence = {"memory_error": described.error} if described is not None and described.error is not None else {}
    waited = {} if barrier is None else {"barrier": barrier}
    state = schema.read_state(query)
    yield observed("version", None, None, id=version, definition={"epoch": epoch, **silence, **state, **waited})
    log = schema.read_log(query) if complete else None
    if log is not None:
        yield observed("log", None, None, definition=log)
    relations: list[tuple[str, str, str, Mapping[str, Any]]] = []
    for kind, keyspace, name, identity, definition in schema.read_schema(query):
        if keyspace not in SYSTEM_KEYSPACES:
            yield observed(kind, keyspace, name, id=identity, definition=definition)
            if kind in {"table", "view"} and name is not None:
                relations.append((kind, keyspace, name, definition["columns"]))
    if described is not None:
        for keyspace, within, live in _live(described):
            yield observed("live", keyspace, within, definition=live)
    elif columns_of is not None:
        for found in probe(columns_of, relations):
            yield observed("live", found.keyspace, found.name, definition=found.definition, error=found.error)


def _live(described: Described) -> Iterator[tuple[str, str | None, JSON]]:
    for row in described.rows:
        if row["keyspace_name"] in SYSTEM_KEYSPACES:
            continue
        within = None if row["type"] == "keyspace" else row["name"]
        yield row["keyspace_name"], within, {"kind": row["type"], "statement": row["create_statement"]}


def digest(observation: Observation) -> bytes:
    """Render the id and the definition of an observation: what two of one object that are the same have in common."""
    return orjson.dumps([observation.id, observation.definition], option=orjson.OPT_SORT_KEYS)


def memory_differs(observed: Iterable[Observation]) -> bool:
    """Compare what a node, asked table by table, serves with what it has on disk; true if columns differ."""
    observations = list(observed)
    disk = {(o.keyspace, o.name): set(o.definition["columns"]) for o in observations if o.kind in {"table", "view"}}
    asked = [o for o in observations if o.kind == "live" and o.error is None and "statement" not in o.definition]
    return any(set(o.definition.get("columns", ())) != disk[o.keyspace, o.name] for o in asked)
