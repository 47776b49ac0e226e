"""Thrift rows: inserts, deletes and reads of rows as slices and mutations of column families.

A row is its key and the columns written under it. Up to 1.1 the server takes columns without a declaration: an insert is
sent as it is, and is refused only where a declared type refuses the value. So when a race loses a column, the cells under
its name stay: the declaration is lost, and with it the type (`schemaquake.clusters.thrift.values`).

The row's key among the named columns is the alias that the coordinator's definition gives the key, if it is one of
them; else the first (0.7 gives none, and a definition that lost a race may give another).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from schemaquake.clusters.thrift.changes import Call, NotInThisEra, RefusedHere, described_table
from schemaquake.clusters.thrift.dialects import Dialect
from schemaquake.clusters.thrift.values import decode, encode
from schemaquake.harness.model.operation import JSON

__all__ = ["carry_out_rows", "slices"]

_KEYS_A_PAGE: Final = 1000
_COLUMNS_MAX: Final = 100_000
_PACKAGE: Final = "org.apache.cassandra.db.marshal."


def carry_out_rows(call: Call, dialect: Dialect, f: str, value: Mapping[str, Any]) -> JSON:
    """Carry out a row operation and return its value. Raises ValueError, NotInThisEra, RefusedHere, and the errors of `call`."""
    if f == "know-table":
        if described_table(call, value["keyspace"], value["table"]) is None:
            raise RefusedHere(f"this coordinator knows no column family {value['keyspace']}.{value['table']}")
        return value
    types = _Types(call, dialect, value["keyspace"], value["table"])
    call("set_keyspace", value["keyspace"])
    level = _level(dialect, value["consistency"])
    match f:
        case "insert":
            _insert(call, dialect, value, types, level)
        case "delete-row":
            key = types.key_of(tuple(value["where"]))
            path = dialect.struct("ColumnPath", column_family=value["table"])
            call("remove", encode(value["where"][key], types.of(key)), path, _now_us(), level)
        case "read-rows":
            return {**value, "rows": list(_rows(call, dialect, value, types, level))}
    return value


class _Types:
    """The coordinator's declarations of a table: the alias of its key, and classes of values by column."""

    def __init__(self, call: Call, dialect: Dialect, keyspace: str, table: str) -> None:
        definition = described_table(call, keyspace, table)
        columns = [] if definition is None else definition.column_metadata or []
        self._classes = {c.name.decode(): c.validation_class.removeprefix(_PACKAGE) for c in columns}
        self._alias: str | None = None
        if definition is not None and dialect.aliases_keys and definition.key_alias is not None:
            self._alias = definition.key_alias.decode()
            self._classes[self._alias] = definition.key_validation_class.removeprefix(_PACKAGE)

    def key_of(self, names: Sequence[str]) -> str:
        """Return the row's key among these columns; without any, the alias."""
        if self._alias is not None and (self._alias in names or not names):
            return self._alias
        return names[0] if names else "key"

    def of(self, column: str) -> str | None:
        """Return the class of the column's values, None if it is not declared."""
        return self._classes.get(column)


def _insert(call: Call, dialect: Dialect, value: Mapping[str, Any], types: _Types, level: int) -> None:
    row = dict(value["row"])
    key = types.key_of(tuple(row))
    key_bytes = encode(row.pop(key), types.of(key))
    if not row:
        raise NotInThisEra("a row without columns cannot be stored")
    timestamp = _now_us()
    mutations = [_mutation(dialect, name, cell, types, timestamp) for name, cell in row.items()]
    call("batch_mutate", {key_bytes: {value["table"]: mutations}}, level)


def _mutation(dialect: Dialect, name: str, cell: JSON, types: _Types, timestamp: int) -> Any:
    """Build the mutation of one cell. A null removes the cell, as in CQL."""
    if cell is None:
        predicate = dialect.struct("SlicePredicate", column_names=[name.encode()])
        return dialect.struct("Mutation", deletion=dialect.struct("Deletion", timestamp=timestamp, predicate=predicate))
    column = dialect.struct("Column", name=name.encode(), value=encode(cell, types.of(name)), timestamp=timestamp)
    return dialect.struct("Mutation", column_or_supercolumn=dialect.struct("ColumnOrSuperColumn", column=column))


def _rows(
    call: Call, dialect: Dialect, value: Mapping[str, Any], types: _Types, level: int
) -> Iterator[Mapping[str, JSON]]:
    """Read the requested rows. A row without any of the named columns is its key with nulls, as in CQL."""
    names: Sequence[str] = value.get("columns") or ()
    condition = value.get("where")
    key = types.key_of(tuple(condition) if condition else tuple(names))
    for key_bytes, cells in _read(call, dialect, value["table"], level, _encoded_key(condition, key, types)):
        found: dict[str, JSON] = {key: decode(key_bytes, types.of(key))}
        found |= {name: decode(content, types.of(name)) for name, content in cells.items()}
        yield {name: found.get(name) for name in names} if names else found


def _encoded_key(condition: Mapping[str, JSON] | None, key: str, types: _Types) -> bytes | None:
    return None if condition is None else encode(condition[key], types.of(key))


def _read(
    call: Call, dialect: Dialect, table: str, level: int, key: bytes | None
) -> Iterator[tuple[bytes, Mapping[str, bytes]]]:
    found: Iterable[tuple[bytes, Sequence[tuple[bytes, bytes]]]]
    if key is None:
        found = slices(call, dialect, table, level)
    else:
        parent = dialect.struct("ColumnParent", column_family=table)
        found = [(key, _cells(call("get_slice", key, parent, _everything(dialect), level)))]
    for key_bytes, cells in found:
        if cells:  # a row whose columns were all removed is shown empty for as long as its tombstones last
            yield key_bytes, {name.decode(): content for name, content in cells}


def slices(
    call: Call, dialect: Dialect, table: str, level: int
) -> Iterator[tuple[bytes, Sequence[tuple[bytes, bytes]]]]:
    """Yield (key, [(column, value), …]) of every row of a column family in the current keyspace, page by page."""
    parent = dialect.struct("ColumnParent", column_family=table)
    start = b""
    while True:
        keys = dialect.struct("KeyRange", start_key=start, end_key=b"", count=_KEYS_A_PAGE)
        page = call("get_range_slices", parent, _everything(dialect), keys, level)
        for row in page:
            if row.key != start:  # a page begins with the last row of the page before
                yield row.key, _cells(row.columns)
        if len(page) < _KEYS_A_PAGE:
            return
        start = page[-1].key


def _everything(dialect: Dialect) -> Any:
    every = dialect.struct("SliceRange", start=b"", finish=b"", reversed=False, count=_COLUMNS_MAX)
    return dialect.struct("SlicePredicate", slice_range=every)


def _cells(columns: Iterable[Any]) -> Sequence[tuple[bytes, bytes]]:
    return [(each.column.name, each.column.value) for each in columns]


def _level(dialect: Dialect, name: str) -> int:
    level: int | None = getattr(dialect.idl.ConsistencyLevel, name, None)
    if level is None:
        raise NotInThisEra(f"Cassandra {dialect.name} has no consistency level {name}")
    return level


def _now_us() -> int:
    """Return a write's timestamp in µs: up to 1.1 only the client sets one."""
    return time.time_ns() // 1000
