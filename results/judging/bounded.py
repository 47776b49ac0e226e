"""Bounded: a verdict of a size that a page can hold, for any history.

Checkers report a few findings of each kind and count the others, but cannot limit the length of a history's own names
and values: a key of a megabyte would be in every finding, and several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Verdict

__all__ = ["as_json", "bounded"]

_SHORT: Final = 100_000  # bytes; a smaller verdict is left as it is
_TEXT_MOST: Final = 10_000  # characters of a text
_ENTRIES_MOST: Final = 10_000  # entries of a list or a map
_ANOMALIES_MOST: Final = 1_000
_BYTES_MOST: Final = 16 << 20  # bytes of all anomalies together
_NUMBERS: Final = range(-(1 << 63), 1 << 64)


def bounded(verdict: Verdict) -> Verdict:
    """Shorten the verdict's texts and lists, and cut the number of its findings.

    Its statistics count the anomalies that are left out (`anomalies_left_out`).
    """
    try:
        if len(as_json(verdict)) <= _SHORT:
            return verdict
    except orjson.JSONEncodeError:
        pass  # a number beyond 64 bits, which becomes a text
    shown: list[Anomaly] = []
    size = 0
    for anomaly in verdict.anomalies[:_ANOMALIES_MOST]:
        document = _cut(anomaly.to_json())
        length = len(orjson.dumps(document, option=_OPTIONS))
        if length > _BYTES_MOST:
            document, length = {**document, "evidence": None}, _TEXT_MOST
        size += length
        if size > _BYTES_MOST:
            break
        shown.append(Anomaly.from_json(document))
    stats = {name: replace(stat, value=_cut(stat.value)) for name, stat in list(verdict.stats.items())[:_ENTRIES_MOST]}
    if len(shown) < len(verdict.anomalies):
        stats["anomalies_left_out"] = Stat(len(verdict.anomalies) - len(shown))
    return replace(verdict, anomalies=tuple(shown), stats=stats, doubts=_cut_doubts(verdict.doubts))


def _cut_doubts(doubts: Sequence[Doubt]) -> tuple[Doubt, ...]:
    """Shorten the texts and lists of objects. More doubts than a list may have are counted in the last one."""
    shown = [
        replace(doubt, text=_cut(doubt.text), objects=_cut_objects(doubt.objects)) for doubt in doubts[:_ENTRIES_MOST]
    ]
    left = len(doubts) - len(shown)
    return (*shown, *((Doubt("undecided", f"{left} more doubts are left out"),) if left else ()))


def _cut_objects(objects: Sequence[str]) -> tuple[str, ...]:
    """Shorten the names. A doubt about more objects than a list may have becomes one about everything."""
    return () if len(objects) > _ENTRIES_MOST else tuple(map(_cut, objects))


_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def as_json(verdict: Verdict) -> bytes:
    """Render the verdict as JSON, with plain numbers."""
    return orjson.dumps(verdict.to_json(), option=_OPTIONS)


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _TEXT_MOST else f"{value[:_TEXT_MOST]}… ({len(value)} characters)"
    if isinstance(value, list | tuple):
        return [_cut(entry) for entry in value[:_ENTRIES_MOST]]
    if isinstance(value, dict):
        return {_cut(key): _cut(entry) for key, entry in list(value.items())[:_ENTRIES_MOST]}
    if type(value) is int and value not in _NUMBERS:
        return _cut(str(value))
    return value
