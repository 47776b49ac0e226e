"""Statements: the CQL of the data workloads, as far as the data path carries it out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

__all__ = ["Select", "Statement", "Update", "parse"]


class Update(NamedTuple):
    """Cells of one row, its key among them."""

    keyspace: str
    table: str
    row: Mapping[str, Any]


class Select(NamedTuple):
    """Columns (or `WRITETIME(column)`) of one partition, or of the whole table."""

    keyspace: str
    table: str
    columns: tuple[str, ...]
    where: Mapping[str, Any] | None


Statement: TypeAlias = Update | Select

_UPDATE: Final = re.compile(r"UPDATE (\w+)\.(\w+) SET (\w+) = (-?\d+) WHERE (\w+) = (-?\d+)")
_INSERT: Final = re.compile(r"INSERT INTO (\w+)\.(\w+) \(([^)]*)\) VALUES \(([-\d, ]*)\)")
_SELECT: Final = re.compile(r"SELECT (.+?) FROM (\w+)\.(\w+)(?: WHERE (\w+) = (-?\d+))?")


def parse(text: str) -> Statement | None:
    """Parse a statement; None for one that is not modelled."""
    if text.startswith("SELECT "):
        return _parse_select(text)
    if found := _UPDATE.fullmatch(text):
        keyspace, table, column, value, key, number = found.groups()
        return Update(keyspace, table, {key: int(number), column: int(value)})
    if found := _INSERT.fullmatch(text):
        keyspace, table, names, values = found.groups()
        return Update(keyspace, table, dict(zip(names.split(", "), map(int, values.split(", ")), strict=True)))
    return None


@lru_cache(maxsize=1 << 10)
def _parse_select(text: str) -> Select | None:
    """Parse a SELECT. One key is read again and again, and its value must not be changed."""
    found = _SELECT.fullmatch(text)
    if found is None:
        return None
    columns, keyspace, table, key, number = found.groups()
    return Select(keyspace, table, tuple(columns.split(", ")), None if key is None else {key: int(number)})
