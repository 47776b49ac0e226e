"""Definitions: the schema that a node has in memory. Values, copied on write: a change shares all that it leaves alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeAlias

from schemaquake.clusters.simulated.ring import Copies
from schemaquake.harness.model.operation import JSON

__all__ = [
    "DEFAULT_OPTIONS",
    "Aggregate",
    "Column",
    "Function",
    "Keyspace",
    "Schema",
    "Table",
    "tables_of",
    "user_types",
]

_WORD: Final = re.compile(r"[a-z_]\w*")
_NATIVE: Final = frozenset(
    [
        "ascii",
        "bigint",
        "blob",
        "boolean",
        "counter",
        "date",
        "decimal",
        "double",
        "duration",
        "empty",
        "float",
        "frozen",
        "inet",
        "int",
        "list",
        "map",
        "set",
        "smallint",
        "text",
        "time",
        "timestamp",
        "timeuuid",
        "tinyint",
        "tuple",
        "uuid",
        "varchar",
        "varint",
        "vector",
    ]
)

DEFAULT_OPTIONS: Final[Mapping[str, JSON]] = {
    "bloom_filter_fp_chance": 0.01,
    "caching": {"keys": "ALL", "rows_per_partition": "NONE"},
    "comment": "",
    "compaction": {"class": "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"},
    "compression": {"class": "org.apache.cassandra.io.compress.LZ4Compressor", "chunk_length_in_kb": "16"},
    "default_time_to_live": 0,
    "gc_grace_seconds": 864000,
    "speculative_retry": "99p",
}
"""Options of a new table: one of each kind of value."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `position` counts within the key's kind, and is -1 outside the key."""

    type: str
    kind: str
    position: int = -1


@dataclass(frozen=True, slots=True)
class Table:
    """A table or, with a base, a view."""

    keyspace: str
    name: str
    id: str
    """32 hex digits."""
    columns: Mapping[str, Column]
    options: Mapping[str, JSON] = field(default_factory=lambda: DEFAULT_OPTIONS)
    dropped: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Dropped columns: type, and the µs up to which their cells are ignored."""
    indexes: Mapping[str, str] = field(default_factory=dict)
    """The column of each index."""
    base: tuple[str, str] | None = None
    """The base table's id and name; None: it is no view."""
    partition_key: tuple[str, ...] = field(init=False, compare=False)
    """The names of the partition key's columns, by position and name."""
    clustering: tuple[str, ...] = field(init=False, compare=False)
    """The names of the clustering columns, by position and name."""

    def __post_init__(self) -> None:
        """Sort out the key, which every row operation needs."""
        object.__setattr__(self, "partition_key", self._key("partition_key"))
        object.__setattr__(self, "clustering", self._key("clustering"))

    def _key(self, kind: str) -> tuple[str, ...]:
        found = sorted((column.position, name) for name, column in self.columns.items() if column.kind == kind)
        return tuple(name for _, name in found)


@dataclass(frozen=True, slots=True)
class Function:
    """A user-defined function."""

    arguments: tuple[tuple[str, str], ...]
    returns: str
    body: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A user-defined aggregate."""

    arguments: tuple[str, ...]
    state_function: str
    state_type: str
    final_function: str | None = None


@dataclass(frozen=True, slots=True)
class Keyspace:
    """One keyspace and all that is in it."""

    name: str
    replication: Mapping[str, Any]
    tables: Mapping[str, Table] = field(default_factory=dict)
    views: Mapping[str, Table] = field(default_factory=dict)
    types: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)

    @property
    def replication_factor(self) -> Copies:
        """The number of replicas of every row, or of each data centre."""
        if "replication_factor" in self.replication:
            return int(self.replication["replication_factor"])
        return tuple((name, int(count)) for name, count in sorted(self.replication.items()) if name != "class")

    def relation(self, name: str) -> Table | None:
        """Return the table or view of that name."""
        return self.tables.get(name) or self.views.get(name)

    def type_uses(self) -> Iterator[tuple[str, str]]:
        """Yield (user, CQL type) for every place where a type is named."""
        for table in (*self.tables.values(), *self.views.values()):
            yield from ((f"table {table.name}", column.type) for column in table.columns.values())
        for name, fields in self.types.items():
            yield from ((f"type {name}", cql_type) for _, cql_type in fields)
        for name, function in self.functions.items():
            yield from (
                (f"function {name}", cql_type) for cql_type in (function.returns, *dict(function.arguments).values())
            )
        for name, aggregate in self.aggregates.items():
            yield from ((f"aggregate {name}", cql_type) for cql_type in (aggregate.state_type, *aggregate.arguments))


Schema: TypeAlias = Mapping[str, Keyspace]
"""All keyspaces of users by name. Compared by identity: an equal object is the same schema."""


def tables_of(schema: Schema) -> Iterator[Table]:
    """Yield all tables and views."""
    for keyspace in schema.values():
        yield from keyspace.tables.values()
        yield from keyspace.views.values()


@cache
def user_types(cql_type: str) -> tuple[str, ...]:
    """Return the user-defined types that a CQL type names, in order."""
    return tuple(word for word in _WORD.findall(cql_type) if word not in _NATIVE)
