"""Schema tables: what a node of 1.2 to 2.2 has on disk, read from `system.schema_*`, in the vocabulary of later lines.

One row of `schema_columnfamilies` a table, one of `schema_columns` a column. 1.2 has columns of the key only in the
table's row (`key_aliases`, `column_aliases`, types in `key_validator` and `comparator`); 2.0 and 2.1 have rows for them,
too, and make those that are missing anew from the table's row when they start; 2.2 has the rows alone. Types are Java classes, maps are JSON, indexes are attributes of their column. A table's id is told from 2.1 on:
before, a server computes it from the names, and writes it nowhere, so it stays null here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from schemaquake.clusters.systems.cassandra import system_schema
from schemaquake.clusters.systems.cassandra.design import Design
from schemaquake.clusters.systems.cassandra.marshal_types import components, cql_type
from schemaquake.clusters.systems.dialect import Query, Stored
from schemaquake.harness.model.operation import JSON

__all__ = ["DESIGN", "SchemaTables", "read_schema_tables"]

Rows = Sequence[Mapping[str, Any]]

_KINDS: Final = {"clustering_key": "clustering", "compact_value": "regular"}
_KEY_KINDS: Final = frozenset({"partition_key", "clustering"})
_RENAMED: Final = {"local_read_repair_chance": "dclocal_read_repair_chance"}
_NO_OPTION: Final = frozenset(
    {
        *("keyspace_name", "columnfamily_name", "cf_id", "id", "dropped_columns"),
        *("key_alias", "key_aliases", "column_aliases", "value_alias"),
        *("compaction_strategy_class", "compaction_strategy_options", "compression_parameters"),
    }
)


@dataclass(frozen=True, slots=True)
class SchemaTables:
    """The reading of 1.2 to 2.2."""

    describes_memory = False

    def read_version(self, query: Query) -> tuple[str, int | None]:
        """Read the digest of the schema tables' rows; versions are not ordered, so there is no epoch."""
        version = system_schema.schema_version(query)
        return ("" if version is None else str(version)), None

    def read_schema(self, query: Query) -> Iterator[Stored]:
        """Read `system.schema_*`."""
        return read_schema_tables(query)

    def read_state(self, query: Query) -> Mapping[str, JSON]:  # noqa: ARG002 - other designs ask
        """Read nothing: there is no more than the version."""
        return {}

    def read_log(self, query: Query) -> JSON | None:  # noqa: ARG002 - other designs ask
        """Read no log: changes leave none."""
        return None

    def read_keyspaces(self, query: Query) -> Sequence[str]:
        """Read `system.schema_keyspaces`."""
        return [str(row["keyspace_name"]) for row in query("SELECT keyspace_name FROM system.schema_keyspaces")]

    def read_release(self, query: Query) -> str:
        """Read `system.local`."""
        return system_schema.release_version(query)


DESIGN: Final = Design(authority="disk", schema=SchemaTables())


def read_schema_tables(query: Query) -> Iterator[Stored]:
    """Read every object on the node's disk, the server's own keyspaces included."""
    heads = list(query("SELECT * FROM system.schema_columnfamilies"))
    columns = list(query("SELECT * FROM system.schema_columns"))
    for row in query("SELECT * FROM system.schema_keyspaces"):
        replication = {"class": row["strategy_class"], **_map(row["strategy_options"])}
        yield (
            "keyspace",
            row["keyspace_name"],
            None,
            None,
            {"replication": replication, "durable_writes": row["durable_writes"]},
        )
    yield from _tables(heads, columns)
    # The server's own tables are described like everybody's, so these tell which kinds of object this line knows.
    known = {head["columnfamily_name"] for head in heads if head["keyspace_name"] == "system"}
    if "schema_usertypes" in known:
        for row in query("SELECT * FROM system.schema_usertypes"):
            fields = zip(row["field_names"] or (), map(cql_type, row["field_types"] or ()), strict=False)
            yield "type", row["keyspace_name"], row["type_name"], None, {"fields": [list(field) for field in fields]}
    if "schema_functions" in known:
        for row in query("SELECT * FROM system.schema_functions"):
            yield "function", row["keyspace_name"], row["function_name"], None, _function(row)
    if "schema_aggregates" in known:
        for row in query("SELECT * FROM system.schema_aggregates"):
            yield "aggregate", row["keyspace_name"], row["aggregate_name"], None, _aggregate(row)


def _tables(heads: Rows, columns: Rows) -> Iterator[Stored]:
    """Every table; halves of a headless one as they are."""
    head_of = {(row["keyspace_name"], row["columnfamily_name"]): row for row in heads}
    columns_of: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in columns:
        columns_of.setdefault((row["keyspace_name"], row["columnfamily_name"]), []).append(row)
    for key in sorted(head_of.keys() | columns_of.keys()):
        head, rows = head_of.get(key, {}), columns_of.get(key, [])
        described = dict(_key_columns(head)) | {row["column_name"]: _column(row) for row in rows}
        definition = {
            "columns": described,
            "dropped_columns": {
                name: {"type": None, "dropped_time": micros // 1000}
                for name, micros in (head.get("dropped_columns") or {}).items()
            },
            "options": dict(_options(head)),
            "indexes": {row["index_name"]: _index(row) for row in rows if row["index_name"] is not None},
        }
        identity = head.get("cf_id")
        yield "table", key[0], key[1], None if identity is None else identity.hex, definition


def _column(row: Mapping[str, Any]) -> JSON:
    kind = row.get("type") or "regular"
    kind = _KINDS.get(kind, kind)
    # A position is null where the key is no composite: it is the only one of its kind.
    position = (row["component_index"] or 0) if kind in _KEY_KINDS else -1
    return {"type": _type(row["validator"]), "kind": kind, "position": position}


def _key_columns(head: Mapping[str, Any]) -> Iterator[tuple[str, JSON]]:
    """The columns of the primary key, and a compact table's value, as the table's own row has them (up to 2.1)."""
    for kind, aliases, classes in (
        ("partition_key", head.get("key_aliases"), head.get("key_validator")),
        ("clustering", head.get("column_aliases"), head.get("comparator")),
    ):
        for position, name in enumerate(orjson.loads(aliases or "[]")):
            types = components(classes or "")
            declared = types[position] if position < len(types) else None
            yield name, {"type": _type(declared), "kind": kind, "position": position}
    if head.get("value_alias"):
        yield head["value_alias"], {"type": _type(head.get("default_validator")), "kind": "regular", "position": -1}


def _index(row: Mapping[str, Any]) -> JSON:
    options = _map(row["index_options"])
    wrapped = {"index_keys": "keys({})", "index_values": "values({})", "index_keys_and_values": "entries({})"}
    target = next((form for option, form in wrapped.items() if option in options), "{}")
    return {"kind": row["index_type"], "target": target.format(row["column_name"])}


def _options(head: Mapping[str, Any]) -> Iterator[tuple[str, JSON]]:
    """List what a table's row has beside names and columns, under the names that statements use."""
    for name, value in head.items():
        if name not in _NO_OPTION and value is not None:
            is_map = isinstance(value, str) and name == "caching" and value.startswith("{")
            yield _RENAMED.get(name, name), orjson.loads(value) if is_map else value
    strategy = head.get("compaction_strategy_class")
    if strategy is not None:
        yield "compaction", {"class": strategy, **_map(head.get("compaction_strategy_options"))}
    if head.get("compression_parameters") is not None:
        yield "compression", _map(head["compression_parameters"])


def _function(row: Mapping[str, Any]) -> JSON:
    arguments = zip(row["argument_names"] or (), map(cql_type, row["argument_types"] or ()), strict=False)
    return {
        "arguments": [list(argument) for argument in arguments],
        "returns": _type(row["return_type"]),
        "body": row["body"],
    }


def _aggregate(row: Mapping[str, Any]) -> JSON:
    return {
        "arguments": [cql_type(argument) for argument in row["argument_types"] or ()],
        "state_function": row["state_func"],
        "state_type": _type(row["state_type"]),
        "final_function": row["final_func"],
    }


def _type(text: str | None) -> str:
    """A type in CQL's words; empty where half a row leaves it untold."""
    return "" if text is None else cql_type(text)


def _map(text: str | None) -> dict[str, JSON]:
    """Parse a map that is kept as JSON; `null` stands for none, too."""
    return orjson.loads(text or "null") or {}
