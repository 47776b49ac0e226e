"""Option values: comparison of an option that a node shows with the value that a statement set.

A server answers in its own words: numbers as text, class names in full, maps completed with defaults, `99PERCENTILE`
as `99p`, and old names of sub-options under new ones. Where it is unclear, the answer is yes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from schemaquake.harness.model.operation import JSON

__all__ = ["can_be", "stored_name"]

# What 2.x called it, and what 3.0 and later make of it.
_RENAMED: Final = {"sstable_compression": "class", "chunk_length_kb": "chunk_length_in_kb"}
_PACKAGES: Final = ("org.apache.cassandra.",)
"""Packages whose classes statements name without them."""
_SWITCHED_OFF: Final = frozenset({"", "none", "never", "false"})


def can_be(found: JSON, wanted: JSON) -> bool:
    """Tell if `found`, read from a node, can be the result of `wanted`, written in a statement.

    Of a map the keys that the statement named are compared. One that the node does not show can only have been switched off.
    """
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        shown = {stored_name(key): value for key, value in found.items()}
        named = {stored_name(key): value for key, value in wanted.items()}
        return all(_can_be_entry(shown, key, value) for key, value in named.items())
    if isinstance(wanted, Mapping) or isinstance(found, Mapping):
        return False
    return _spelled(found) == _spelled(wanted) or _is_same_class(str(found), str(wanted))


def _can_be_entry(shown: Mapping[str, JSON], key: str, wanted: JSON) -> bool:
    if key in shown:
        return can_be(shown[key], wanted)
    # A strategy by data centre has the factor under the names of the centres; an earlier statement may have set another for some.
    is_by_center = "NetworkTopology" in str(shown.get("class")) and len(shown) > 1
    return not _spelled(wanted) or (key == "replication_factor" and is_by_center)


def stored_name(key: str) -> str:
    """Return the name under which 3.0 and later store a key of a map: 2.x has other names for some."""
    return _RENAMED.get(key, key)


def _is_same_class(found: str, wanted: str) -> bool:
    """Tell if one is the name of a class of the server's own, and the other the same without its package."""
    short, full = sorted((found.strip(), wanted.strip()), key=len)
    package, _, bare = full.rpartition(".")
    return "." not in short and short.casefold() == bare.casefold() and package.startswith(_PACKAGES)


def _spelled(value: JSON) -> str:
    """Spell a value in one way."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return ",".join(map(_spelled, value))
    return _spelled_text(str(value))


@lru_cache(maxsize=4096)
def _spelled_text(value: str) -> str:
    text = value.strip().casefold()
    if text in _SWITCHED_OFF:
        return ""
    number = re.fullmatch(r"([+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(p|percentile|ms)?", text)
    if number is not None:
        unit = "p" if number[2] == "percentile" else number[2] or ""
        return f"{float(number[1])!r}{unit}"
    return text
