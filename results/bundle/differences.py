"""Differences between two JSON documents, by path, and between two verdicts, by anomaly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

__all__ = ["differences", "verdict_differences"]

_SHOWN: Final = 120  # characters of a value
_ABSENT: Final = object()


def differences(recorded: Any, found: Any, path: str = "") -> Iterator[str]:
    """Yield one sentence for each place at which the documents differ: `races.3.broken: recorded true, found false`."""
    if isinstance(recorded, Mapping) and isinstance(found, Mapping):
        for key in sorted({*recorded, *found}, key=str):
            yield from differences(
                recorded.get(key, _ABSENT), found.get(key, _ABSENT), f"{path}.{key}" if path else str(key)
            )
    elif isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        for number, (one, other) in enumerate(zip(recorded, found, strict=True)):
            yield from differences(one, other, f"{path}.{number}" if path else str(number))
    elif type(recorded) is not type(found) or recorded != found:
        yield f"{path or 'the document'}: recorded {_shown(recorded)}, found {_shown(found)}"


def verdict_differences(recorded: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences of two verdict.json: anomalies and findings by what they are, everything else by path."""
    yield from _anomalies(recorded.get("anomalies"), found.get("anomalies"), "")
    yield from _named(recorded.get("findings"), found.get("findings"), "findings", "id")
    yield from _parts(recorded.get("parts"), found.get("parts"))
    lists = ("anomalies", "findings", "parts")
    yield from differences(_without(recorded, lists), _without(found, lists))


def _parts(recorded: Any, found: Any) -> Iterator[str]:
    """Compare the verdicts of the checkers, by name."""
    known, anew = _by(recorded, "checker"), _by(found, "checker")
    for name in sorted({*known, *anew}):
        if name not in anew or name not in known:
            yield f"checker {name}: {'recorded, and not installed here' if name in known else 'found, and not recorded'}"
            continue
        one, other = known[name], anew[name]
        yield from _anomalies(one.get("anomalies"), other.get("anomalies"), f"checker {name}: ")
        yield from differences(_without(one, ("anomalies",)), _without(other, ("anomalies",)), f"checker {name}")


def _anomalies(recorded: Any, found: Any, prefix: str) -> Iterator[str]:
    if not isinstance(recorded, list) or not isinstance(found, list):
        yield from differences(recorded, found, f"{prefix}anomalies")
        return
    known, anew = Counter(map(_canonical, recorded)), Counter(map(_canonical, found))
    for text in known - anew:
        yield f"{prefix}recorded, and not found again: {_anomaly(text)}"
    for text in anew - known:
        yield f"{prefix}found, and not recorded: {_anomaly(text)}"
    if known == anew and recorded != found:
        yield f"{prefix}anomalies: recorded in another order"


def _named(recorded: Any, found: Any, path: str, key: str) -> Iterator[str]:
    known, anew = _by(recorded, key), _by(found, key)
    for name in sorted({*known, *anew}):
        if name not in anew:
            yield f"{path}: recorded, and not found again: {name}"
        elif name not in known:
            yield f"{path}: found, and not recorded: {name}"
        else:
            yield from differences(known[name], anew[name], f"{path}.{name}")
    if [*known] != [*anew] and {*known} == {*anew}:
        yield f"{path}: recorded in another order"
    if isinstance(recorded, list) and len(recorded) != len(known):
        yield f"{path}: recorded with entries that have no {key}, or share one"


def _by(entries: Any, key: str) -> dict[str, Mapping[str, Any]]:
    found = entries if isinstance(entries, Sequence) and not isinstance(entries, str) else ()
    return {str(one.get(key)): one for one in found if isinstance(one, Mapping)}


def _without(document: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in keys}


def _canonical(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _anomaly(text: str) -> str:
    document = orjson.loads(text)
    if not isinstance(document, Mapping):
        return _shown(document)
    objects = document.get("objects")
    named = ", ".join(map(str, objects)) if isinstance(objects, list) else ""
    return f"{document.get('type')} {named}".rstrip()[:_SHOWN]


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = _canonical(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
