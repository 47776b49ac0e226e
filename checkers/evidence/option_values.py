"""Option values: comparison of an option that a node shows with the value that a statement set.

A server answers in its own words: numbers as text, class names in full, maps completed with defaults, `99PERCENTILE`
as `99p`, and old names of sub-options under new ones. Where it is unclear, the answer is yes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from schemaquake.harness.model.operation import JSON

__all__ = ["can_be"]

# What 2.x called it, and what 3.0 and later make of it.
_RENAMED: Final = {"sstable_compression": "class", "chunk_length_kb": "chunk_length_in_kb"}
_SWITCHED_OFF: Final = frozenset({"", "none", "never", "false"})


def can_be(found: JSON, wanted: JSON) -> bool:
    """Tell if `found`, read from a node, can be the result of `wanted`, written in a statement.

    Of a map only the keys that the statement named are compared, and of these only those that the node shows too.
    """
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        shown = {_name(key): value for key, value in found.items()}
        named = {_name(key): value for key, value in wanted.items()}
        return all(can_be(shown[key], value) for key, value in named.items() if key in shown)
    if isinstance(wanted, Mapping) or isinstance(found, Mapping):
        return False
    return _spelled(found) == _spelled(wanted)


def _name(key: str) -> str:
    return _RENAMED.get(key, key)


def _spelled(value: JSON) -> str:
    """Spell a value in one way."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return ",".join(map(_spelled, value))
    text = str(value).strip().casefold()
    if text in _SWITCHED_OFF:
        return ""
    number = re.fullmatch(r"([+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(p|percentile|ms)?", text)
    if number is not None:
        unit = "p" if number[2] == "percentile" else number[2] or ""
        return f"{float(number[1])!r}{unit}"
    # org.apache.cassandra.db.compaction.LeveledCompactionStrategy and LeveledCompactionStrategy are one class.
    return text.rsplit(".", 1)[-1] if re.fullmatch(r"[a-z_]\w*(?:\.[a-z_]\w*)+", text) else text
