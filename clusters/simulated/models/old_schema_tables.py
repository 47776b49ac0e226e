"""Old schema tables: the rows of a node's disk as `system.schema_*` of 1.2 to 2.2 show them to clients.

A table is one row of `schema_columnfamilies`, a column one of `schema_columns`; types are Java classes, maps are JSON, an
index is an attribute of its column. A table's id is shown from 2.1 on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from schemaquake.clusters.simulated.schema.rows import SchemaRows

__all__ = ["answer_from_old_tables"]

_MARSHAL: Final = "org.apache.cassandra.db.marshal."
_CLASSES: Final[Mapping[str, str]] = {
    "ascii": "AsciiType",
    "bigint": "LongType",
    "blob": "BytesType",
    "boolean": "BooleanType",
    "counter": "CounterColumnType",
    "decimal": "DecimalType",
    "double": "DoubleType",
    "float": "FloatType",
    "inet": "InetAddressType",
    "int": "Int32Type",
    "text": "UTF8Type",
    "timestamp": "TimestampType",
    "timeuuid": "TimeUUIDType",
    "uuid": "UUIDType",
    "varchar": "UTF8Type",
    "varint": "IntegerType",
}
_KINDS: Final[Mapping[str, str]] = {"clustering": "clustering_key"}
_NOT_OPTIONS: Final = frozenset({"keyspace_name", "table_name", "id", "compaction", "caching", "speculative_retry"})


def answer_from_old_tables(rows: SchemaRows, text: str, *, shows_ids: bool) -> Iterable[Mapping[str, Any]]:
    """Answer `SELECT … FROM system.schema_…`."""
    match text.partition(" FROM system.")[2].partition(" ")[0]:
        case "schema_keyspaces":
            return [_keyspace(row) for row in rows.table("keyspaces")]
        case "schema_columnfamilies":
            dropped = _by_table(rows.table("dropped_columns"))
            return [_table(row, dropped, shows_ids=shows_ids) for row in rows.table("tables")]
        case "schema_columns":
            return list(_columns(rows))
    return []


def _keyspace(row: Mapping[str, Any]) -> Mapping[str, Any]:
    options = dict(row["replication"])
    return {
        "keyspace_name": row["keyspace_name"],
        "durable_writes": row["durable_writes"],
        "strategy_class": options.pop("class"),
        "strategy_options": orjson.dumps({name: str(option) for name, option in options.items()}).decode(),
    }


def _table(
    row: Mapping[str, Any], dropped: Mapping[tuple[str, str], list[Mapping[str, Any]]], *, shows_ids: bool
) -> Mapping[str, Any]:
    key = row["keyspace_name"], row["table_name"]
    times = {each["column_name"]: each["dropped_ms"] * 1000 for each in dropped.get(key, ())}
    return {
        **{name: option for name, option in row.items() if name not in _NOT_OPTIONS},
        "keyspace_name": key[0],
        "columnfamily_name": key[1],
        "cf_id": row["id"] if shows_ids else None,
        "dropped_columns": times or None,
    }


def _columns(rows: SchemaRows) -> Iterator[Mapping[str, Any]]:
    indexes = _by_table(rows.table("indexes"))
    for row in rows.table("columns"):
        key = row["keyspace_name"], row["table_name"]
        name = row["column_name"]
        index = next((each for each in indexes.get(key, ()) if each["options"]["target"] == name), None)
        yield {
            "keyspace_name": key[0],
            "columnfamily_name": key[1],
            "column_name": name,
            "validator": _MARSHAL + _CLASSES[row["type"]] if row["type"] in _CLASSES else row["type"],
            "type": _KINDS.get(row["kind"], row["kind"]),
            "component_index": row["position"] if (row["position"] or 0) >= 0 else None,
            "index_name": None if index is None else index["index_name"],
            "index_type": None if index is None else "COMPOSITES",
            "index_options": "{}",
        }


def _by_table(rows: Iterable[Mapping[str, Any]]) -> Mapping[tuple[str, str], list[Mapping[str, Any]]]:
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["keyspace_name"], row["table_name"]), []).append(row)
    return found
