"""elle-cli's JSON: one array of objects, or objects one after another (JSON lines), in bounded memory.

Keywords are strings there, nil is null, keys of maps are strings.
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
_LONGEST_WORD: Final = 16  # characters: what is wrong farther from the end than this is not mended by what follows


def forms(file: BinaryIO, name: str) -> Iterator[tuple[int, Any]]:
    """Every element of the array, or every value of a file of them, with the line it begins on.

    Raises HistoryError, with line and reason, for what is no JSON, for a file that ends too soon, and for one element
    of more than 64 MiB.
    """
    text = Text(file, name)
    closes = opening(text)
    yield from ops(text)
    closing(text, closes)


def opening(text: Text) -> str | None:
    """Go into the array that holds all elements, if there is one: what closes it."""
    if _next(text) != "[":
        return None
    text.advance(text.at + 1)
    return "]"


def ops(text: Text) -> Iterator[tuple[int, Any]]:
    """The elements from `text.at` on, up to the end of the file or of the array; `text.at` is then there."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_float)
    while _next(text) not in {"", "]"}:
        value, end = _element(text, decoder)
        line = text.line_of(text.at)
        text.advance(end)
        yield line, value


def closing(text: Text, closes: str | None) -> None:
    """What must follow the last element: `closes`, if anything, and the end of the file. Raises HistoryError."""
    here = _next(text)
    if closes is not None and not here:
        raise text.error("the file ends before the ] of its array: it is truncated", text.at)
    if closes is not None:
        text.advance(text.at + 1)
        here = _next(text)
    if here:
        reason = "something follows the array that holds the history" if closes is not None else "] closes nothing"
        raise text.error(reason, text.at)


def _next(text: Text) -> str:
    """The first character of the next thing, what lies before it done with; empty at the end of the file."""
    while True:
        found = _BLANKS.match(text.rest, text.at)
        assert found is not None
        text.advance(found.end())
        if text.at < len(text.rest) or text.ended:
            return text.rest[text.at : text.at + 1]
        text.extend("a run of blanks")


def _element(text: Text, decoder: json.JSONDecoder) -> tuple[Any, int]:
    """The value at `text.at`, and where it ends. Raises HistoryError."""
    while True:
        try:
            value, end = decoder.raw_decode(text.rest, text.at)
        except json.JSONDecodeError as error:
            if text.ended or not _may_go_on(text, error):
                raise _refusal(text, error) from None
        except RecursionError:
            raise text.error("it is nested too deeply", text.at) from None
        except ValueError as error:
            raise text.error(_in_words(error), text.at) from None
        else:
            # A value that reaches the end of what was read may go on: 12 may be the beginning of 123.
            if end < len(text.rest) or text.ended:
                return value, end
        text.extend("one operation")


def _may_go_on(text: Text, error: json.JSONDecodeError) -> bool:
    """Whether it may be because the text ends that the value is none."""
    return error.msg.startswith("Unterminated string") or error.pos > len(text.rest) - _LONGEST_WORD


def _in_words(error: ValueError) -> str:
    """Why a number or a constant is none of JSON's, or none that Python reads."""
    return "a number of more than 4300 digits" if "int_max_str_digits" in str(error) else str(error)


def _refusal(text: Text, error: json.JSONDecodeError) -> HistoryError:
    if error.pos >= len(text.rest.rstrip()) or error.msg.startswith("Unterminated string"):
        return text.error("the file ends inside what begins here: it is truncated", text.at)
    return text.error(f"it is no JSON ({error.msg.lower()})", error.pos)


def _float(word: str) -> float | str:
    """A double; beyond all doubles it stays a text, or JSON could not hold it."""
    number = float(word)
    return number if math.isfinite(number) else word


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")
