"""EDN: parser for top-level forms, one after another, in bounded memory.

It supports the part of the notation (github.com/edn-format/edn) that histories use, and returns JSON values. Keywords,
symbols and characters become strings, sets become lists in a fixed order, keys of maps become strings, and tags are dropped.
Numbers that JSON cannot represent exactly (ratios, integers beyond 64 bits, decimals that are not a double) become strings,
so that equal values stay equal.

Files are untrusted. All patterns are possessive (`*+`): with backtracking, blanks before an invalid letter would cost
unbounded time. Everything that a few bytes could make large has a limit.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, BinaryIO, Final, Protocol, TypeVar

import orjson

from schemaquake.harness.errors import HistoryError
from schemaquake.results.formats.text import Text

__all__ = ["closing", "forms", "loads", "opening", "ops"]

_Read_co = TypeVar("_Read_co", covariant=True)
_BLANKS: Final = r"(?:[\s,]++|;[^\n]*+)*+"  # and comments
_BETWEEN_TOKENS: Final = re.compile(_BLANKS)
_TOKEN: Final = re.compile(
    _BLANKS
    + r"""
        (?: (?P<open>\#\{|\#:[^\s{,]*+\s*+\{|[\[({])               # the beginning of a collection
          | (?P<close>[\])}])
          | (?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")
          | (?P<discard>\#_)
          | (?P<special>\#\#[A-Za-z]+)
          | (?P<tag>\#[A-Za-z][\w.*+!?$%&=<>/:'#-]*)
          | (?P<character>\\(?:newline|return|space|tab|formfeed|backspace|u[0-9a-fA-F]{4}|.))
          | (?P<atom>:?[\w.*+!?$%&=<>/:'#|-]+)
          | (?P<end>\Z) )""",
    re.VERBOSE | re.DOTALL,
)
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9]\d*)N?")
_HEXADECIMAL: Final = re.compile(r"[+-]?0[xX][0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_RATIO: Final = re.compile(r"([+-]?\d+)/(\d+)")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_CHARACTERS: Final = {
    "newline": "\n",
    "return": "\r",
    "space": " ",
    "tab": "\t",
    "formfeed": "\f",
    "backspace": "\b",
}
_LONGEST_CHARACTER: Final = max(map(len, _CHARACTERS))
_CLOSES: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_WORDS: Final = {"nil": None, "true": True, "false": False}
_INT64: Final = range(-(1 << 63), 1 << 63)
_UNDECIDED_MOST: Final = 256  # maximum length of a token that is not a string, characters
_DIGITS_MOST: Final = 4096
_DEPTH_MOST: Final = 1 << 16  # every open level costs some 300 bytes
_KEY_MOST: Final = (
    1 << 16
)  # maximum length of a key that is not a string, characters: nested keys double with every level
_LONG: Final = 1 << 20  # length of an op, characters, above which its end is searched before it is parsed


class _Unfinished(Exception):
    """The text ends inside a form."""


class _Malformed(Exception):
    """Invalid EDN: the reason and its place in the text."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


def forms(file: BinaryIO, name: str) -> Iterator[tuple[int, Any]]:
    """Yield every op of a history file with its first line: top-level forms, or the elements of a single vector or list.

    Raises HistoryError, with line and reason, for invalid EDN, for a file that ends inside a form, and for a form of more
    than 64 MiB, before it fills the memory.
    """
    text = Text(file, name)
    closes = opening(text)
    yield from ops(text)
    closing(text, closes)


def opening(text: Text) -> str | None:
    """Skip the opening bracket of the vector or list around all ops. Return its closing bracket, or None if there is none."""
    token = _whole(text, _BETWEEN, _skip)
    if token["open"] not in {"[", "("}:
        return None
    text.advance(token.end())
    return _CLOSES[token["open"]]


def ops(text: Text) -> Iterator[tuple[int, Any]]:
    """Yield the ops from `text.at` up to the end of the file or a closing bracket, where `text.at` is left."""
    while True:
        token = _whole(text, _BETWEEN, _skip)
        assert token.lastgroup is not None
        text.advance(token.start(token.lastgroup))
        if token.lastgroup in {"end", "close"}:
            return
        value, end = _whole(text, _ONE, _Form().read)
        line = text.line_of(text.at)
        text.advance(end)
        if value is not _NOTHING:
            yield line, value


def closing(text: Text, closes: str | None) -> None:
    """Check that only `closes`, if any, and the end of the file follow the last op. Raises HistoryError otherwise."""
    token = _whole(text, _BETWEEN, _skip)
    if closes is not None and token.lastgroup == "end":
        raise text.error(f"the file ends before the {closes} of its vector: it is truncated", text.at)
    if token.lastgroup == "close" and token["close"] != closes:
        raise text.error(f"{token['close']} has no opening bracket", text.at)
    if closes is None:
        return
    text.advance(token.end())
    token = _whole(text, _BETWEEN, _skip)
    if token.lastgroup == "close":
        raise text.error(f"{token['close']} has no opening bracket", token.start("close"))
    if token.lastgroup != "end":
        raise text.error(
            "the file continues after the vector that holds the history", token.start(token.lastgroup or 0)
        )


_BETWEEN: Final = "one word, text, comment or run of blanks"
_ONE: Final = "one operation"
_TRUNCATED: Final = "the file ends inside what begins here: it is truncated"


class _Reads(Protocol[_Read_co]):
    def __call__(self, text: str, at: int, /, *, more: bool) -> _Read_co: ...


def _whole(text: Text, description: str, read: _Reads[_Read_co]) -> _Read_co:
    """Call `read` at `text.at`, reading more of the file until the form is complete. Raises HistoryError."""
    while True:
        try:
            return read(text.rest, text.at, more=not text.ended)
        except _Unfinished:
            if text.ended:
                raise text.error(_TRUNCATED, text.at) from None
        except _Malformed as error:
            raise text.error(error.reason, error.at) from None
        text.extend(description)
        if len(text.rest) - text.at > _LONG and description == _ONE:
            _refuse_the_endless(text)


def _refuse_the_endless(text: Text) -> None:
    """Reject an op that does not end within the size limit, before any of it is parsed."""
    from schemaquake.results.formats.scanner import may_end  # noqa: PLC0415 - half a second to load, and rarely needed

    while not may_end(text.rest.encode()):
        if text.ended:
            raise text.error(_TRUNCATED, text.at)
        text.extend(_ONE)


def loads(text: str) -> Any:
    """Parse a single value. Raises HistoryError for invalid EDN and for more than one value."""
    try:
        value, end = _Form().read(text, 0, more=False)
        follows = _skip(text, end, more=False).lastgroup
    except _Unfinished:
        raise HistoryError(f"{text[:80]!r} is not a complete EDN value") from None
    except _Malformed as error:
        raise HistoryError(f"{text[:80]!r} is not a valid EDN value: {error.reason}") from None
    if follows != "end" or value is _NOTHING:
        raise HistoryError(f"{text[:80]!r} is not a single EDN value")
    return value


# ── one form ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_NOTHING: Final = object()
"""Marker of a discarded form."""


def _skip(text: str, at: int, *, more: bool) -> re.Match[str]:
    """Match the next token. `more` is True if the text continues, so that a token at its end may be incomplete."""
    token = _TOKEN.match(text, at)
    if token is None:
        blanks = _BETWEEN_TOKENS.match(text, at)
        assert blanks is not None
        here = blanks.end()
        if text.startswith('"', here) or (more and len(text) - here < _UNDECIDED_MOST):
            raise _Unfinished
        raise _Malformed(f"{text[here : here + 20]!r} is not valid EDN", here)
    if more and token.lastgroup not in {"open", "close", "string"}:
        # \new may be the beginning of \newline, and 1 the beginning of 12.
        margin = _LONGEST_CHARACTER if token.lastgroup == "character" else 0
        if token.end() + margin >= len(text):
            raise _Unfinished
    return token


class _Collection:
    """A collection under construction; `finish` converts its items to a value."""

    __slots__ = ("at", "closes", "finish", "items", "pending")

    def __init__(self, closes: str, finish: Callable[[list[Any], int], Any], at: int) -> None:
        self.closes = closes
        self.finish = finish
        self.items: list[Any] = []
        self.pending = bytearray()  # tags and discards before the next value
        self.at = at

    def wait(self, prefix: int) -> None:
        """Record a tag or a discard before the next value. Several tags count as one."""
        if prefix == _DISCARD or not self.pending.endswith(b"t"):
            self.pending.append(prefix)

    def take(self, value: Any) -> bool:
        """Add a value unless it is discarded. Return True if it was added."""
        if self.pending:
            while self.pending.endswith(b"t"):
                self.pending.pop()
            if self.pending:
                self.pending.pop()
                return False
        self.items.append(value)
        return True


_TAG, _DISCARD = b"t_"


class _Form:
    """A parser for one form. It is iterative, so nesting is not limited by the Python stack."""

    def __init__(self) -> None:
        # Places are relative to the beginning of the form, which may move in the text buffer.
        self._stack = [_Collection("", lambda items, _: items[0], 0)]
        self._done = 0

    def read(self, text: str, begin: int, *, more: bool) -> tuple[Any, int]:
        """Parse the value that begins at `begin`, and return it with its end. After `_Unfinished`, call it again with more text."""
        at = begin + self._done
        try:
            while True:
                token = _skip(text, at, more=more)
                found = self._token(token, begin)
                at = token.end()
                if found is not None:
                    return found[0], at
        except _Unfinished:
            self._done = at - begin
            raise

    def _token(self, token: re.Match[str], begin: int) -> tuple[Any] | None:
        """Process a token. Return the complete value as a tuple if this token ends it, otherwise None."""
        stack = self._stack
        kind = token.lastgroup
        assert kind is not None
        if kind == "open":
            self._open(token, begin)
            return None
        if kind == "end":
            raise _Unfinished
        if kind in {"tag", "discard"}:
            stack[-1].wait(_TAG if kind == "tag" else _DISCARD)
            return None
        if kind == "close":
            done = stack.pop()
            if done.closes != token["close"] or done.pending:
                raise _Malformed(f"{token['close']} has no opening bracket", token.start("close"))
            value = done.finish(done.items, begin + done.at)
        else:
            value = _scalar(kind, token[kind], token.start(kind))
        taken = stack[-1].take(value)
        if len(stack) > 1 or stack[0].pending:
            return None
        return (value if taken else _NOTHING,)

    def _open(self, token: re.Match[str], begin: int) -> None:
        opened, at = token["open"], token.start("open")
        if len(self._stack) > _DEPTH_MOST:
            raise _Malformed(f"brackets nested more than {_DEPTH_MOST} deep", at)
        opened = "{" if opened.startswith("#:") else opened
        self._stack.append(_Collection(_CLOSES[opened], _FINISH[opened], at - begin))


def _scalar(kind: str, word: str, at: int) -> Any:
    if kind == "atom":
        return _atom(word, at)
    if kind == "string":
        return word[1:-1] if "\\" not in word else _ESCAPE.sub(lambda found: _unescaped(found[1], at), word[1:-1])
    if kind == "character":
        name = word[1:]
        if len(name) == 5 and name.startswith("u"):
            return _from_code(name[1:], at)
        return _CHARACTERS.get(name, name)
    if word in {"##NaN", "##Inf", "##-Inf"}:
        return word[2:]
    raise _Malformed(f"{_begin_of(word)} is not valid EDN", at)


def _unescaped(sequence: str, at: int) -> str:
    if sequence.startswith("u") and len(sequence) == 5:
        return _from_code(sequence[1:], at)
    if sequence not in _ESCAPED:
        raise _Malformed(f"\\{sequence} is not a valid escape in a string", at)
    return _ESCAPED[sequence]


def _from_code(digits: str, at: int) -> str:
    character = chr(int(digits, 16))
    if "\ud800" <= character <= "\udfff":
        raise _Malformed(f"\\u{digits} is half of a surrogate pair", at)
    return character


def _begin_of(word: str) -> str:
    """Shorten a word for an error message."""
    return word if len(word) <= 40 else f"{word[:39]}…"


def _atom(word: str, at: int) -> Any:
    if word in _WORDS:
        return _WORDS[word]
    if word[0] == ":":
        if len(word) == 1:
            raise _Malformed("a keyword without a name", at)
        return word[1:]
    if not (word[0].isdigit() or (word[0] in "+-" and word[1:2].isdigit())):
        return word
    if len(word) > _DIGITS_MOST:
        raise _Malformed(f"a number of more than {_DIGITS_MOST} digits", at)
    if _INTEGER.fullmatch(word):
        return _kept(int(word.removesuffix("N")))
    if _FLOAT.fullmatch(word):
        return _decimal(word)
    if _HEXADECIMAL.fullmatch(word):
        return _kept(int(word, 16))
    ratio = _RATIO.fullmatch(word)
    if ratio:
        return _ratio(int(ratio[1]), int(ratio[2]), at)
    raise _Malformed(f"{_begin_of(word)} is not a number", at)


def _kept(number: int) -> int | str:
    return number if number in _INT64 else str(number)


def _decimal(word: str) -> float | str:
    """Parse a decimal. One that is not exactly a double stays a string, because rounding would make different values equal."""
    if not word.endswith("M"):
        number = float(word)
        return number if math.isfinite(number) else word
    exact = Decimal(word[:-1])
    return float(exact) if Decimal(repr(float(exact))) == exact else str(exact)


def _ratio(over: int, under: int, at: int) -> int | str:
    if under == 0:
        raise _Malformed(f"{_begin_of(str(over))}/0 is not a number", at)
    from fractions import Fraction  # noqa: PLC0415 - it is as rare as it is slow to import

    exact = Fraction(over, under)
    return exact.numerator if exact.denominator == 1 and exact.numerator in _INT64 else str(exact)


def _map(items: list[Any], at: int) -> dict[str, Any]:
    if len(items) % 2:
        raise _Malformed("a map with a key without a value", at)
    keys = [item if isinstance(item, str) else _key(item, at) for item in items[::2]]
    found = dict(zip(keys, items[1::2], strict=True))
    if len(found) < len(keys):
        count = Counter(keys)
        twice = next(key for key in keys if count[key] > 1)
        raise _Malformed(f"a map with the key {_begin_of(twice)} twice", at)
    return found


def _key(item: Any, at: int) -> str:
    if isinstance(item, int) and not isinstance(item, bool):
        return str(item)
    key = _json(item, at)
    if len(key) > _KEY_MOST:
        raise _Malformed(f"a map with a key of more than {_KEY_MOST} characters that is not a string", at)
    return key.decode()


def _set(items: list[Any], at: int) -> list[Any]:
    """Convert a set to a list such that equal sets are equal lists: integers in order, then everything else by its JSON."""
    return sorted(items, key=lambda item: _place_in_set(item, at))


def _place_in_set(item: Any, at: int) -> tuple[bool, int, bytes]:
    is_integer = isinstance(item, int) and not isinstance(item, bool)
    return (False, item, b"") if is_integer else (True, 0, _json(item, at))


def _json(item: Any, at: int) -> bytes:
    try:
        return orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        raise _Malformed("a value that is nested too deeply in a set or in the key of a map", at) from None


_FINISH: Final[dict[str, Callable[[list[Any], int], Any]]] = {
    "[": lambda items, _: items,
    "(": lambda items, _: items,
    "{": _map,
    "#{": _set,
}
