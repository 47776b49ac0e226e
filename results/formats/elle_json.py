"""elle-cli's JSON: an array of objects, or objects one after another (JSON lines), in bounded memory.

Keywords are strings, nil is null, and keys of maps are strings.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NoReturn

from schemaquake.harness.errors import HistoryError
from schemaquake.results.formats.text import Text

__all__ = ["closing", "forms", "opening", "ops"]

_BLANKS: Final = re.compile(r"[\s,\ufeff]*")
_LONGEST_WORD: Final = 16  # characters; an error farther from the end than this cannot be due to missing text


def forms(file: BinaryIO, name: str) -> Iterator[tuple[int, Any]]:
    """Yield every element of the array, or every value of a JSON lines file, with its first line.

    Raises HistoryError, with line and reason, for invalid JSON, for a truncated file, and for an element of more than 64 MiB.
    """
    text = Text(file, name)
    closes = opening(text)
    yield from ops(text)
    closing(text, closes)


def opening(text: Text) -> str | None:
    """Skip the opening bracket of the array around all elements. Return its closing bracket, or None if there is none."""
    if _next(text) != "[":
        return None
    text.advance(text.at + 1)
    return "]"


def ops(text: Text) -> Iterator[tuple[int, Any]]:
    """Yield the elements from `text.at` up to the end of the file or of the array, where `text.at` is left."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_float)
    while _next(text) not in {"", "]"}:
        value, end = _element(text, decoder)
        line = text.line_of(text.at)
        text.advance(end)
        yield line, value


def closing(text: Text, closes: str | None) -> None:
    """Check that only `closes`, if any, and the end of the file follow the last element. Raises HistoryError otherwise."""
    here = _next(text)
    if closes is not None and not here:
        raise text.error("the file ends before the ] of its array: it is truncated", text.at)
    if closes is not None:
        text.advance(text.at + 1)
        here = _next(text)
    if here:
        reason = (
            "the file continues after the array that holds the history"
            if closes is not None
            else "] has no opening bracket"
        )
        raise text.error(reason, text.at)


def _next(text: Text) -> str:
    """Skip blanks and return the next character, or an empty string at the end of the file."""
    while True:
        found = _BLANKS.match(text.rest, text.at)
        assert found is not None
        text.advance(found.end())
        if text.at < len(text.rest) or text.ended:
            return text.rest[text.at : text.at + 1]
        text.extend("a run of blanks")


def _element(text: Text, decoder: json.JSONDecoder) -> tuple[Any, int]:
    """Parse the value at `text.at`, and return it with its end. Raises HistoryError."""
    while True:
        try:
            value, end = decoder.raw_decode(text.rest, text.at)
        except json.JSONDecodeError as error:
            if text.ended or not _may_go_on(text, error):
                raise _refusal(text, error) from None
        except RecursionError:
            raise text.error("the value is nested too deeply", text.at) from None
        except ValueError as error:
            raise text.error(_in_words(error), text.at) from None
        else:
            # A value at the end of the text may continue: 12 may be the beginning of 123.
            if end < len(text.rest) or text.ended:
                return value, end
        text.extend("one operation")


def _may_go_on(text: Text, error: json.JSONDecodeError) -> bool:
    """Return True if the error may be due to the end of the text that was read so far."""
    return error.msg.startswith("Unterminated string") or error.pos > len(text.rest) - _LONGEST_WORD


def _in_words(error: ValueError) -> str:
    """Describe why a number or a constant is not valid JSON, or cannot be read by Python."""
    return "a number of more than 4300 digits" if "int_max_str_digits" in str(error) else str(error)


def _refusal(text: Text, error: json.JSONDecodeError) -> HistoryError:
    if error.pos >= len(text.rest.rstrip()) or error.msg.startswith("Unterminated string"):
        return text.error("the file ends inside what begins here: it is truncated", text.at)
    return text.error(f"invalid JSON ({error.msg.lower()})", error.pos)


def _float(word: str) -> float | str:
    """Parse a double. A number beyond the range of doubles stays a string, because JSON cannot represent it."""
    number = float(word)
    return number if math.isfinite(number) else word


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not valid JSON")
