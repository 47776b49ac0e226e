"""Same values: whether a value that was read can be the one that was written.

A value of a user-defined type is written and read as a map of its fields; a field that was not written, or that the
type got only later, reads as null. An empty collection is null to the server. Sets have no order.
"""

from __future__ import annotations

import re
from typing import Final

import orjson

from schemaquake.harness.model.operation import JSON

__all__ = ["comparable", "same_value"]

# What a server may give back in another spelling or precision than it was written in, or may add to by itself.
_INEXACT: Final = re.compile(
    r"\b(blob|counter|date|decimal|double|duration|float|inet|time|timestamp|timeuuid|uuid|vector)\b|org\.apache"
)


def comparable(cql_type: str) -> bool:
    """Whether values of this type read back in the very spelling in which they were written."""
    return _INEXACT.search(cql_type) is None


def same_value(read: JSON, written: JSON, *, cql_type: str, nulls_match: bool = False) -> bool:
    """Whether `read` can be what is left of `written` when nothing happened to it.

    `nulls_match`: a null, also of a single field, may stand for anything, as on a replica that is behind.
    """
    if read is None:
        return nulls_match or written in (None, [], {})
    if isinstance(read, dict) and isinstance(written, dict):
        return all(
            same_value(read.get(name), written.get(name), cql_type=cql_type, nulls_match=nulls_match)
            for name in read.keys() | written.keys()
        )
    if isinstance(read, list) and isinstance(written, list):
        unordered = "set<" in cql_type
        ours, theirs = (sorted(values, key=_text) if unordered else values for values in (read, written))
        return len(ours) == len(theirs) and all(
            same_value(one, other, cql_type=cql_type, nulls_match=nulls_match)
            for one, other in zip(ours, theirs, strict=True)
        )
    return bool(read == written)


def _text(value: JSON) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
