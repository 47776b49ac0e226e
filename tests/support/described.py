"""What DESCRIBE answers on 5.0: the statements that would create the objects of a disk, for clusters that are perfect.

Definitions are those of observations. As on a real node, memory shows some options that schema tables do not have, and
does not show some that they have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from schemaquake.harness.ddl.cql import literal

__all__ = ["described"]

_ONLY_ON_DISK = {"flags", "dclocal_read_repair_chance", "read_repair_chance", "include_all_columns", "where_clause"}
_ONLY_IN_MEMORY = {"cdc": False, "incremental_backups": True}


def described(
    kind: str, keyspace: str, name: str, definition: Mapping[str, Any]
) -> Iterator[tuple[str, str | None, str]]:
    """Yield (kind, name, statement) of an object and of its indexes, as rows of DESCRIBE SCHEMA have them."""
    where = f"{keyspace}.{name}"
    match kind:
        case "keyspace":
            replication = {key: str(entry).rpartition(".")[2] for key, entry in definition["replication"].items()}
            durable = literal(definition["durable_writes"])
            yield (
                kind,
                None,
                (
                    f"CREATE KEYSPACE {keyspace} WITH replication = {literal(replication)}  AND durable_writes = {durable};"
                ),
            )
        case "table":
            yield kind, name, f"CREATE TABLE {where} (\n{_columns(definition)}\n){_options(definition)};"
            for index, told in definition["indexes"].items():
                yield "index", index, f"CREATE INDEX {index} ON {where} ({told['target']});"
        case "view":
            where_clause = definition["options"]["where_clause"]
            keys = ", ".join(_key(definition, "partition_key") + _key(definition, "clustering"))
            yield (
                "materialized_view",
                name,
                (
                    f"CREATE MATERIALIZED VIEW {where} AS\n    SELECT *\n    FROM {keyspace}.{definition['base_table_name']}\n"
                    f"    WHERE {where_clause}\n    PRIMARY KEY ({keys})\n{_options(definition)};"
                ),
            )
        case "type":
            fields = ",\n".join(f"    {field} {cql_type}" for field, cql_type in definition["fields"])
            yield kind, name, f"CREATE TYPE {where} (\n{fields}\n);"
        case "function":
            arguments = ", ".join(f"{argument} {cql_type}" for argument, cql_type in definition["arguments"])
            types = ", ".join(cql_type for _, cql_type in definition["arguments"])
            yield (
                kind,
                f"{name}({types})",
                (
                    f"CREATE FUNCTION {where}({arguments})\n    CALLED ON NULL INPUT\n    RETURNS {definition['returns']}\n"
                    f"    LANGUAGE java\n    AS $${definition['body']}$$;"
                ),
            )
        case "aggregate":
            types = ", ".join(definition["arguments"])
            final = definition.get("final_function")
            yield (
                kind,
                f"{name}({types})",
                (
                    f"CREATE AGGREGATE {where}({types})\n    SFUNC {definition['state_function']}\n"
                    f"    STYPE {definition['state_type']}" + (f"\n    FINALFUNC {final}" if final else "") + ";"
                ),
            )


def _key(definition: Mapping[str, Any], kind: str) -> list[str]:
    parts = [(column["position"], name) for name, column in definition["columns"].items() if column["kind"] == kind]
    return [name for _, name in sorted(parts)]


def _columns(definition: Mapping[str, Any]) -> str:
    columns = definition["columns"]
    partition, clustering = _key(definition, "partition_key"), _key(definition, "clustering")
    others = sorted(set(columns) - set(partition) - set(clustering))
    alone = len(partition) == 1 and not clustering
    lines = []
    for name in (*partition, *clustering, *others):
        static = " static" if columns[name]["kind"] == "static" else ""
        lines.append(
            f"    {name} {columns[name]['type']}{static}{' PRIMARY KEY' if alone and name == partition[0] else ''}"
        )
    if not alone:
        first = f"({', '.join(partition)})" if len(partition) > 1 else "".join(partition)
        lines.append(f"    PRIMARY KEY ({', '.join([first, *clustering])})")
    return ",\n".join(lines)


def _options(definition: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in definition["options"].items() if name not in _ONLY_ON_DISK}
    clauses = [f"{name} = {literal(value)}" for name, value in sorted((shown | _ONLY_IN_MEMORY).items())]
    ordered = ", ".join(
        f"{name} {definition['columns'][name].get('order', 'asc').upper()}" for name in _key(definition, "clustering")
    )
    return " WITH " + "\n    AND ".join(([f"CLUSTERING ORDER BY ({ordered})"] if ordered else []) + clauses)
