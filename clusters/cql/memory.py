"""Memory reading: the schema that a node serves, which may differ from the one it has on disk.

From 4.0 on `DESCRIBE SCHEMA` is answered from memory. Earlier lines are asked about each table on their disk:
`SELECT * … WHERE k IN ()` is checked against memory and reads no row on any replica, so an answer shows the columns
that the node serves, and `unconfigured table` that it serves none. Any other refusal shows nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cassandra import InvalidRequest
from cassandra.protocol import SyntaxException

from schemaquake.clusters.systems.error_words import error_words
from schemaquake.harness.model.operation import JSON

__all__ = ["ColumnsOf", "Described", "Probe", "describe", "probe"]

ColumnsOf = Callable[[str], Mapping[str, str]]
"""Runs one SELECT on the pinned node at consistency ONE and returns the columns of the answer, each with its type."""

_UNKNOWN: Final = re.compile(
    r"unconfigured (columnfamily|table)|[Kk]eyspace '?\w+'? does ?n[o']t exist|table \S+ does not exist"
)
_SAID_MOST: Final = 400


@dataclass(frozen=True, slots=True)
class Described:
    """The rows of DESCRIBE SCHEMA; or none, and the node's reason."""

    rows: Sequence[Mapping[str, Any]]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """One table or view on a node's disk, as in its memory. `error`: the reason why memory could not be read."""

    kind: str
    keyspace: str
    name: str
    definition: JSON
    error: str | None = None


def describe(query: Callable[[str], Iterable[Mapping[str, Any]]]) -> Described | None:
    """Return the rows of DESCRIBE SCHEMA; None if the node's line has no DESCRIBE."""
    try:
        return Described(list(query("DESCRIBE SCHEMA")))
    except SyntaxException:
        return None
    except Exception as error:  # noqa: BLE001 - any error of a broken node is recorded
        return Described((), error_words(error, most=_SAID_MOST))


def probe(columns_of: ColumnsOf, on_disk: Iterable[tuple[str, str, str, Mapping[str, Any]]]) -> Iterator[Probe]:
    """Ask for every (kind, keyspace, name, columns on disk) which columns the node serves under that name."""
    for kind, keyspace, name, columns in on_disk:
        yield _probe(columns_of, kind, keyspace, name, columns)


def _probe(columns_of: ColumnsOf, kind: str, keyspace: str, name: str, columns: Mapping[str, Any]) -> Probe:
    refusal: Exception | None = None
    for text in _questions(f"{keyspace}.{name}", columns):
        try:
            return Probe(kind, keyspace, name, {"kind": kind, "columns": dict(columns_of(text))})
        except InvalidRequest as error:
            if _UNKNOWN.search(str(error)):
                return Probe(kind, keyspace, name, {"kind": kind, "refusal": error_words(error, most=_SAID_MOST)})
            refusal = error  # the key in memory may differ from that on disk
        except Exception as error:  # noqa: BLE001 - a node that does not answer says nothing of its memory
            refusal = error
            break
    assert refusal is not None
    return Probe(kind, keyspace, name, {"kind": kind}, error_words(refusal, most=_SAID_MOST))


def _questions(table: str, columns: Mapping[str, Any]) -> Iterator[str]:
    """Yield the statement that reads nothing, if the key is one column; then one that reads a row."""
    key = [column for column, column_definition in columns.items() if column_definition["kind"] == "partition_key"]
    if len(key) == 1:
        yield f"SELECT * FROM {table} WHERE {key[0]} IN ()"
    yield f"SELECT * FROM {table} LIMIT 1"
