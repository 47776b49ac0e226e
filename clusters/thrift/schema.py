"""Thrift schema: one node's own account of its schema in Cassandra 0.7 to 1.1.

- Its version is its own entry of `describe_schema_versions`, which asks the whole cluster: the answer is kept as evidence
  (`versions`), with the nodes that did not answer (`UNREACHABLE`). It may take the server's rpc timeout while a peer is
  cut off and not yet considered dead.
- Its memory is the answer to `describe_keyspaces`.
- Its disk, in 1.1: `system.schema_keyspaces`, `…_columnfamilies` and `…_columns`, which are ordinary column families that
  only this node has. Up to 1.0 definitions are stored as Avro records, which are not read here: the node's memory stands
  for its schema, and the version row says so (`told_from: "memory"`). The content of its disk is seen after a restart.

A table's id is an integer, counted from 1000 by each coordinator for itself; it is reported as 32 hexadecimal digits.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from schemaquake.clusters.systems.data_directories import SYSTEM_KEYSPACES
from schemaquake.clusters.thrift.changes import Call
from schemaquake.clusters.thrift.dialects import Dialect
from schemaquake.clusters.thrift.rows import slices
from schemaquake.harness.model.observation import Observation, reading
from schemaquake.harness.model.operation import JSON

__all__ = ["NoVersion", "read_schema", "read_version"]

_UNREACHABLE: Final = "UNREACHABLE"
_UNKNOWN_KIND: Final = "untold"


class NoVersion(Exception):
    """A node did not list itself in its answer to the question for schema versions."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A declared column: its type, and the name of its index if it has one."""

    cql_type: str
    index: str | None = None


@dataclass(slots=True)
class _Table:
    """A column family, from memory or from disk. `key` is None if the source does not give it."""

    id: int | None = None
    key: tuple[str, str] | None = None
    columns: dict[str, _Column] = field(default_factory=dict)
    options: dict[str, JSON] = field(default_factory=dict)


@dataclass(slots=True)
class _Keyspace:
    replication: Mapping[str, JSON]
    durable_writes: bool
    tables: dict[str, _Table] = field(default_factory=dict)


def read_version(call: Call, address: str) -> tuple[str, Mapping[str, JSON]]:
    """Ask the node at this address for the cluster's schema versions, and return its own and the whole answer.

    Raises NoVersion if the node did not list itself.
    """
    versions: Mapping[str, Sequence[str]] = call("describe_schema_versions")
    evidence = {"versions": {version: sorted(nodes) for version, nodes in sorted(versions.items())}}
    for version, nodes in versions.items():
        if version != _UNREACHABLE and address in nodes:
            return version, evidence
    raise NoVersion(
        f"{address} is not among the nodes that reported their versions: {json.dumps(evidence['versions'])}"
    )


def read_schema(
    call: Call, dialect: Dialect, *, address: str, has_schema_tables: bool, phase: str, node: str, sample: int
) -> Iterator[Observation]:
    """Read every object of the node, version first; user keyspaces only."""
    version, evidence = read_version(call, address)
    memory = _remembered(call, dialect)

    observed = reading(phase=phase, node=node, sample=sample)

    source = {"memory": "statements"} if has_schema_tables else {"told_from": "memory"}
    yield observed("version", None, None, id=version, definition={"epoch": None, **source, **evidence})
    for name, keyspace in sorted((_stored(call, dialect) if has_schema_tables else memory).items()):
        if keyspace.replication:
            definition = {"replication": dict(keyspace.replication), "durable_writes": keyspace.durable_writes}
            yield observed("keyspace", name, None, definition=definition)
        for table_name, table in sorted(keyspace.tables.items()):
            identity = None if table.id is None else f"{table.id:032x}"
            yield observed("table", name, table_name, id=identity, definition=_definition(table))
    if has_schema_tables:
        for name, keyspace in sorted(memory.items()):
            for within, live in _statements(name, keyspace):
                yield observed("live", name, within, definition=live)


def _definition(table: _Table) -> Mapping[str, JSON]:
    columns: dict[str, JSON] = {}
    if table.key is not None:
        columns[table.key[0]] = {"type": table.key[1], "kind": "partition_key", "position": 0}
    # The definitions of 0.7 do not say which of the columns is the key's.
    kind = _UNKNOWN_KIND if table.key is None else "regular"
    columns |= {
        name: {"type": column.cql_type, "kind": kind, "position": -1} for name, column in sorted(table.columns.items())
    }
    indexes = {c.index: {"kind": "KEYS", "target": name} for name, c in sorted(table.columns.items()) if c.index}
    return {"columns": columns, "dropped_columns": {}, "options": table.options, "indexes": indexes}


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _remembered(call: Call, dialect: Dialect) -> Mapping[str, _Keyspace]:
    keyspaces = {}
    for definition in call("describe_keyspaces"):
        if definition.name not in SYSTEM_KEYSPACES:
            factor = {} if dialect.factor_is_an_option else {"replication_factor": str(definition.replication_factor)}
            keyspaces[definition.name] = _Keyspace(
                replication={"class": definition.strategy_class, **factor, **(definition.strategy_options or {})},
                durable_writes=getattr(definition, "durable_writes", None) is not False,
                tables={table.name: _remembered_table(table, dialect) for table in definition.cf_defs},
            )
    return keyspaces


def _remembered_table(definition: Any, dialect: Dialect) -> _Table:
    alias = getattr(definition, "key_alias", None)
    options = {name: getattr(definition, name) for name in dialect.options}
    return _Table(
        id=definition.id,
        key=None if alias is None else (alias.decode(), dialect.cql_type_of(definition.key_validation_class)),
        columns={
            column.name.decode(): _Column(
                dialect.cql_type_of(column.validation_class),
                None if column.index_type is None else column.index_name or f"{column.name.decode()}_idx",
            )
            for column in definition.column_metadata or ()
        },
        options={name: entry for name, entry in sorted(options.items()) if entry is not None},
    )


def _statements(name: str, keyspace: _Keyspace) -> Iterator[tuple[str | None, Mapping[str, JSON]]]:
    """Yield (name, definition from memory) of a keyspace and all in it, as CQL for the reader of the report."""
    replication = json.dumps(dict(keyspace.replication), sort_keys=True)
    text = f"CREATE KEYSPACE {name} WITH replication = {replication} AND durable_writes = {keyspace.durable_writes}"
    yield None, {"kind": "keyspace", "statement": text}
    for table_name, table in sorted(keyspace.tables.items()):
        columns = [f"{name_of_column} {column.cql_type}" for name_of_column, column in sorted(table.columns.items())]
        if table.key is not None:
            columns = [f"{table.key[0]} {table.key[1]}", *columns, f"PRIMARY KEY ({table.key[0]})"]
        options = {"id": table.id, **table.options}
        clauses = " AND ".join(f"{option} = {json.dumps(entry, sort_keys=True)}" for option, entry in options.items())
        text = f"CREATE TABLE {name}.{table_name} ({', '.join(columns)}) WITH {clauses}"
        yield table_name, {"kind": "table", "statement": text}
        for column, declared in sorted(table.columns.items()):
            if declared.index is not None:
                text = f"CREATE INDEX {declared.index} ON {name}.{table_name} ({column})"
                yield declared.index, {"kind": "index", "statement": text}


# ── disk, from 1.1 on ────────────────────────────────────────────────────────────────────────────────────────────────


def _stored(call: Call, dialect: Dialect) -> Mapping[str, _Keyspace]:
    """Read the three schema tables. Halves are kept: attributes of a table without its id, columns without a table."""
    call("set_keyspace", "system")
    keyspaces: dict[str, _Keyspace] = {}

    def keyspace(key: bytes) -> _Keyspace:
        return keyspaces.setdefault(key.decode(), _Keyspace(replication={}, durable_writes=True))

    for key, cells in _schema_rows(call, dialect, "schema_keyspaces"):
        attributes = {name.decode(): content for name, content in cells}
        options = json.loads(attributes.get("strategy_options", b"{}"))
        strategy = attributes.get("strategy_class", b"").decode()
        keyspace(key).replication = {"class": strategy, **options}
        keyspace(key).durable_writes = attributes.get("durable_writes") != b"\x00"
    for key, cells in _schema_rows(call, dialect, "schema_columnfamilies"):
        for (table, attribute), content in _split_names(cells, 2):
            _store(keyspace(key).tables.setdefault(table, _Table()), attribute, content, dialect)
    for key, cells in _schema_rows(call, dialect, "schema_columns"):
        found: dict[tuple[str, str], dict[str, bytes]] = {}
        for (table, column, attribute), content in _split_names(cells, 3):
            found.setdefault((table, column), {})[attribute] = content
        for (table, column), attributes in found.items():
            declared = keyspace(key).tables.setdefault(table, _Table())
            declared.columns[column] = _stored_column(column, attributes, dialect)
    for stored_keyspace in keyspaces.values():
        for stored in stored_keyspace.tables.values():
            _settle(stored)
    return keyspaces


def _schema_rows(call: Call, dialect: Dialect, table: str) -> Iterator[tuple[bytes, Sequence[tuple[bytes, bytes]]]]:
    for key, cells in slices(call, dialect, table, dialect.idl.ConsistencyLevel.ONE):
        if cells and key.decode() not in SYSTEM_KEYSPACES:
            yield key, cells


def _split_names(cells: Sequence[tuple[bytes, bytes]], count: int) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Split composite column names: each component is two bytes of length, its text, and a zero."""
    for name, content in cells:
        parts: list[str] = []
        rest = name
        while rest:
            (length,) = struct.unpack(">H", rest[:2])
            parts.append(rest[2 : 2 + length].decode())
            rest = rest[3 + length :]
        assert len(parts) == count, f"a schema table's column {name!r}"
        yield tuple(parts), content


def _store(table: _Table, attribute: str, content: bytes, dialect: Dialect) -> None:
    match attribute:
        case "id":
            table.id = int.from_bytes(content, "big", signed=True)
        case "key_alias":
            table.key = (content.decode(), "" if table.key is None else table.key[1])
        case "key_validator":
            table.key = ("" if table.key is None else table.key[0], dialect.cql_type_of(content.decode()))
        case _:
            name = _RENAMED.get(attribute, attribute)
            table.options[name] = _OPTIONS.get(attribute, bytes.decode)(content)


def _settle(table: _Table) -> None:
    """Remove a key without a name (it has no alias), and sort options as memory does."""
    if table.key is not None and not table.key[0]:
        table.key = None
    table.options = dict(sorted(table.options.items()))


def _stored_column(name: str, attributes: Mapping[str, bytes], dialect: Dialect) -> _Column:
    index = attributes.get("index_name", f"{name}_idx".encode()).decode() if "index_type" in attributes else None
    return _Column(dialect.cql_type_of(attributes.get("validator", b"").decode()), index)


def _double(content: bytes) -> float:
    return float(struct.unpack(">d", content)[0])


def _int(content: bytes) -> int:
    return int.from_bytes(content, "big", signed=True)


def _bool(content: bytes) -> bool:
    return content != b"\x00"


_OPTIONS: Final[Mapping[str, Callable[[bytes], JSON]]] = {
    "bloom_filter_fp_chance": _double,
    "column_aliases": json.loads,
    "compaction_strategy_options": json.loads,
    "compression_parameters": json.loads,
    "gc_grace_seconds": _int,
    "local_read_repair_chance": _double,
    "max_compaction_threshold": _int,
    "min_compaction_threshold": _int,
    "read_repair_chance": _double,
    "replicate_on_write": _bool,
}
# The definition's names of options that the schema tables name differently, so that a report has one name.
_RENAMED: Final = {
    "comparator": "comparator_type",
    "compaction_strategy_class": "compaction_strategy",
    "compression_parameters": "compression_options",
    "default_validator": "default_validation_class",
    "local_read_repair_chance": "dclocal_read_repair_chance",
    "subcomparator": "subcomparator_type",
    "type": "column_type",
}
