"""Schema reading: one node's own account of its schema, from its local tables and from its memory.

`system_schema.*` (before 3.0 `system.schema_*`) and `system.local` are node-local, so a session pinned to a node reads
the schema on that node's disk. Its memory (`schemaquake.clusters.cql.memory`) may differ, and no agreement check shows
that, so both are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from schemaquake.clusters.cql.memory import ColumnsOf, Described, describe, probe
from schemaquake.clusters.systems.data_directories import SYSTEM_KEYSPACES
from schemaquake.clusters.systems.dialect import Authority, Query, RingReading, SchemaReading
from schemaquake.clusters.systems.error_words import error_words
from schemaquake.harness.model.observation import Observation, reading
from schemaquake.harness.model.operation import JSON

__all__ = ["memory_differs", "read_schema"]


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
    authority: Authority = "disk",
    ring: RingReading | None = None,
) -> Iterator[Observation]:
    """Read every object the node has on disk and in memory, version first; user keyspaces only.

    Without `columns_of` the memory of a release that has no DESCRIBE is not read: that takes one statement a table. The
    log of changes, where the node keeps one, belongs to a `complete` reading. `barrier` is the result of the barrier before it.
    The `ring` belongs to such a reading, too.
    `authority` is named in the version's row, so that checkers judge by it.
    """
    version, epoch = schema.read_version(query)

    observed = reading(phase=phase, node=node, sample=sample)

    # Memory is read first and reported last: a node whose schema stage is stuck still reads its disk, but not its memory.
    described = describe(query) if schema.describes_memory else None
    silence = {"memory_error": described.error} if described is not None and described.error is not None else {}
    way = "statements" if described is not None else "columns" if columns_of is not None else None
    shown = {} if way is None else {"memory": way}
    waited = {} if barrier is None else {"barrier": barrier}
    state = schema.read_state(query)
    decides = {} if authority == "disk" else {"authority": authority}
    facts = {"epoch": epoch, **decides, **shown, **silence, **state, **waited}
    yield observed("version", None, None, id=version, definition=facts)
    if complete and ring is not None:
        yield from _read_ring(query, ring, observed)
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


def _read_ring(query: Query, ring: RingReading, observed: Callable[..., Observation]) -> Iterator[Observation]:
    """Read the node's account of the members; one that it refuses is a row with an error, and spoils nothing else."""
    try:
        yield observed("ring", None, None, definition=ring.read_ring(query))
        entries = ring.read_epochs(query)
    except Exception as error:  # noqa: BLE001 - a broken node may raise anything
        yield observed("ring", None, None, error=error_words(error))
        return
    if entries is not None:
        yield observed("epochs", None, None, definition=entries)


def _live(described: Described) -> Iterator[tuple[str, str | None, JSON]]:
    for row in described.rows:
        if row["keyspace_name"] in SYSTEM_KEYSPACES:
            continue
        within = None if row["type"] == "keyspace" else row["name"]
        yield row["keyspace_name"], within, {"kind": row["type"], "statement": row["create_statement"]}


def memory_differs(observed: Iterable[Observation]) -> bool:
    """Return True if the columns that a node serves, read table by table, differ from those on its disk."""
    observations = list(observed)
    disk = {(o.keyspace, o.name): set(o.definition["columns"]) for o in observations if o.kind in {"table", "view"}}
    tables = [o for o in observations if o.kind == "live" and o.error is None and "statement" not in o.definition]
    return any(set(o.definition.get("columns", ())) != disk[o.keyspace, o.name] for o in tables)
