"""Same values: the comparison of a value that was read with the one that was written.

A value of a user-defined type is written and read as a map of its fields; a field that was not written, or that the
type got only later, reads as null. An empty collection is null to the server. Sets have no order.
"""

from __future__ import annotations

import re
from typing import Final

import orjson

from schemaquake.harness.model.operation import JSON

__all__ = ["is_comparable", "is_null", "same_value"]

# Types whose values a server may return in another spelling or precision than they were written in, or may change itself.
_INEXACT: Final = re.compile(
    r"\b(blob|counter|date|decimal|double|duration|float|inet|time|timestamp|timeuuid|uuid|vector)\b|org\.apache"
)


def is_comparable(cql_type: str) -> bool:
    """Check that values of this type are read in the spelling in which they were written."""
    return _INEXACT.search(cql_type) is None


def is_null(written: JSON) -> bool:
    """Check that writing this value deletes the cell."""
    return written in (None, [], {})


def same_value(read: JSON, written: JSON, *, cql_type: str, nulls_match: bool = False) -> bool:
    """Check that `read` can be the undamaged value `written`.

    `nulls_match`: a null, also of a single field, may stand for anything, as on a replica that is behind.
    """
    if read is None:
        return nulls_match or is_null(written)
    if isinstance(read, dict) and isinstance(written, dict):
        return all(
            same_value(read.get(name), written.get(name), cql_type=cql_type, nulls_match=nulls_match)
            for name in read.keys() | written.keys()
        )
    if isinstance(read, list) and isinstance(written, list):
        unordered = "set<" in cql_type
        read_values, written_values = (
            sorted(values, key=_serialize) if unordered else values for values in (read, written)
        )
        return len(read_values) == len(written_values) and all(
            same_value(one, other, cql_type=cql_type, nulls_match=nulls_match)
            for one, other in zip(read_values, written_values, strict=True)
        )
    return bool(read == written)


def _serialize(value: JSON) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
