"""What nodes of each line tell of one and the same schema: observations of a perfect cluster, in that line's words.

The perfect cluster speaks as 5.0 does. Earlier lines have other ids or tell none, describe their memory otherwise or not
at all, and know fewer kinds of things; a checker that takes a difference in telling for one in schema accuses them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

__all__ = ["FOREIGN", "LINES", "told"]

LINES = ("0.7", "1.0", "1.1", "1.2", "2.0", "2.2", "3.11", "5.0")

_TYPES = {"create-type", "add-field", "rename-field", "drop-type"}
_FUNCTIONS = {"create-function", "drop-function", "create-aggregate", "drop-aggregate"}
_VIEWS = {"create-view", "alter-view", "drop-view"}
_THRIFT = _TYPES | _FUNCTIONS | _VIEWS | {"drop-column", "rename-column"}
FOREIGN: Mapping[str, set[str]] = {
    "0.7": _THRIFT,
    "1.0": _THRIFT,
    "1.1": _THRIFT,
    "1.2": _TYPES | _FUNCTIONS | _VIEWS | {"drop-column"},
    "2.0": _TYPES | _FUNCTIONS | _VIEWS,
    "2.2": _VIEWS,
    "3.11": set(),
    "5.0": set(),
}
"""The changes that a line has no words for."""

_LOCATOR = "org.apache.cassandra.locator."
_MARSHALLED = {"comparator_type": "UTF8Type", "default_validation_class": "BytesType", "read_repair_chance": 1.0}


def told(rows: Iterable[Mapping[str, Any]], line: str) -> list[dict[str, Any]]:
    """Rows of observations as nodes of `line` would have told them."""
    if line == "5.0":
        return [dict(row) for row in rows]
    found: list[dict[str, Any]] = []
    for row in rows:
        if row["kind"] == "live":
            continue
        definition = orjson.loads(row["definition"])
        found.append({**row, **_IDS.get(line, {}), "definition": orjson.dumps(_definition(row, definition, line))})
        if row["kind"] != "table":
            found[-1]["id"] = row["id"]
        remembered = _memory(row, definition, line)
        found += [{**row, "kind": "live", "id": None, "name": name, "definition": live} for name, live in remembered]
    return [
        {**row, "definition": d.decode() if isinstance(d := row["definition"], bytes) else orjson.dumps(d).decode()}
        for row in found
    ]


_IDS: Mapping[str, Mapping[str, None]] = {"1.2": {"id": None}, "2.0": {"id": None}}


def _definition(row: Mapping[str, Any], definition: dict[str, Any], line: str) -> Any:
    thrift = line < "1.2"
    match row["kind"]:
        case "version":
            shown = {"memory": "statements" if line == "1.1" else "columns"}
            return {"epoch": definition["epoch"], **({"told_from": "memory"} if line < "1.1" else shown)}
        case "keyspace" if line < "3":
            replication = definition["replication"]
            return {**definition, "replication": {**replication, "class": _LOCATOR + replication["class"]}}
        case "table" if thrift:
            return _thrift_table(definition, line)
        case "table" if line < "3":
            dropped = {name: {**entry, "type": None} for name, entry in definition["dropped_columns"].items()}
            return {**definition, "dropped_columns": dropped if line >= "2.0" else {}}
    return definition


def _thrift_table(definition: Mapping[str, Any], line: str) -> Any:
    columns = {
        name: {**column, **({"kind": "untold", "position": -1} if line == "0.7" else {})}
        for name, column in definition["columns"].items()
    }
    indexes = {name: {**index, "kind": "KEYS"} for name, index in definition["indexes"].items()}
    options = {**definition["options"], **_MARSHALLED}
    return {"columns": columns, "dropped_columns": {}, "options": options, "indexes": indexes}


def _memory(row: Mapping[str, Any], definition: Mapping[str, Any], line: str) -> Iterable[tuple[str | None, Any]]:
    """What this line's node tells of its memory, for an object of its disk: (name, definition)."""
    name = row["name"]
    if line == "1.1" and row["kind"] == "keyspace":
        yield name, {"kind": "keyspace", "statement": f"CREATE KEYSPACE {row['keyspace']}"}
    if line == "1.1" and row["kind"] == "table":
        columns = ", ".join(f"{name} {column['type']}" for name, column in definition["columns"].items())
        key = ", ".join(name for name, column in definition["columns"].items() if column["kind"] == "partition_key")
        text = f"CREATE TABLE {row['keyspace']}.{row['name']} ({columns}, PRIMARY KEY ({key}))"
        yield name, {"kind": "table", "statement": f"{text} WITH id = {int(row['id'], 16)}"}
        for index, shown in definition["indexes"].items():
            text = f"CREATE INDEX {index} ON {row['keyspace']}.{row['name']} ({shown['target']})"
            yield index, {"kind": "index", "statement": text}
    if line >= "1.2" and row["kind"] in {"table", "view"}:
        columns_told = {name: column["type"] for name, column in definition["columns"].items()}
        yield name, {"kind": row["kind"], "columns": columns_told}
