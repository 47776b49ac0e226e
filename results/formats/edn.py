"""EDN: values from text, one top-level form after another, in bounded memory.

What a history needs of the notation (github.com/edn-format/edn), as JSON values: keywords, symbols and characters are
texts, sets are lists in a fixed order, keys of maps are texts, tags are dropped and their values kept. Numbers that JSON cannot carry
whole (ratios, integers beyond 64 bits, decimals that are no double) are texts, so that equal stays equal.

Nobody may be trusted with a file: no pattern here can go back over what it has matched (`*+`), or blanks before a letter
that is no EDN would cost time without end; and whatever a few bytes could make large has a limit of its own.
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
_UNDECIDED_MOST: Final = 256  # characters after which what is no token yet will never be one, but for a string
_DIGITS_MOST: Final = 4096
_DEPTH_MOST: Final = 1 << 16  # every level costs some 300 bytes while it is open
_KEY_MOST: Final = 1 << 16  # characters of a key that is no text: such keys within keys double with every level
_LONG: Final = 1 << 20  # characters of an op after which its end is looked for before all of it is read


class _Unfinished(Exception):
    """The text ends inside a form."""


class _Malformed(Exception):
    """What is wrong, and where in the text."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


def forms(file: BinaryIO, name: str) -> Iterator[tuple[int, Any]]:
    """Every op of a history file with the line it begins on: top-level forms, or the elements of the one vector or list.

    Raises HistoryError, with line and reason, for what is no EDN, for a file that ends inside a form, and for a form of
    more than 64 MiB, which is given up before it fills the memory.
    """
    text = Text(file, name)
    closes = opening(text)
    yield from ops(text)
    closing(text, closes)


def opening(text: Text) -> str | None:
    """Go into the vector or list that holds all ops, if there is one: what closes it."""
    token = _whole(text, _BETWEEN, _skip)
    if token["open"] not in {"[", "("}:
        return None
    text.advance(token.end())
    return _CLOSES[token["open"]]


def ops(text: Text) -> Iterator[tuple[int, Any]]:
    """The ops from `text.at` on, up to the end of the file or a bracket that closes; `text.at` is then there."""
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
    """What must follow the last op: `closes`, if anything, and the end of the file. Raises HistoryError."""
    token = _whole(text, _BETWEEN, _skip)
    if closes is not None and token.lastgroup == "end":
        raise text.error(f"the file ends before the {closes} of its vector: it is truncated", text.at)
    if token.lastgroup == "close" and token["close"] != closes:
        raise text.error(f"{token['close']} closes nothing", text.at)
    if closes is None:
        return
    text.advance(token.end())
    token = _whole(text, _BETWEEN, _skip)
    if token.lastgroup == "close":
        raise text.error(f"{token['close']} closes nothing", token.start("close"))
    if token.lastgroup != "end":
        raise text.error("something follows the vector that holds the history", token.start(token.lastgroup or 0))


_BETWEEN: Final = "one word, text, comment or run of blanks"
_ONE: Final = "one operation"
_TRUNCATED: Final = "the file ends inside what begins here: it is truncated"


class _Reads(Protocol[_Read_co]):
    def __call__(self, text: str, at: int, /, *, more: bool) -> _Read_co: ...


def _whole(text: Text, what: str, read: _Reads[_Read_co]) -> _Read_co:
    """What `read` reads at `text.at`, once enough of the file was read for it. Raises HistoryError."""
    while True:
        try:
            return read(text.rest, text.at, more=not text.ended)
        except _Unfinished:
            if text.ended:
                raise text.error(_TRUNCATED, text.at) from None
        except _Malformed as error:
            raise text.error(error.reason, error.at) from None
        text.extend(what)
        if len(text.rest) - text.at > _LONG and what == _ONE:
            _refuse_the_endless(text)


def _refuse_the_endless(text: Text) -> None:
    """Read on to the end of the longest op there may be: one that has not ended by then need not be made values of."""
    from schemaquake.results.formats.scanner import may_end  # noqa: PLC0415 - half a second to load, and rarely needed

    while not may_end(text.rest.encode()):
        if text.ended:
            raise text.error(_TRUNCATED, text.at)
        text.extend(_ONE)


def loads(text: str) -> Any:
    """The one value in `text`. Raises HistoryError if it is no EDN, or more than one value."""
    try:
        value, end = _Form().read(text, 0, more=False)
        follows = _skip(text, end, more=False).lastgroup
    except _Unfinished:
        raise HistoryError(f"{text[:80]!r} is not a whole EDN value") from None
    except _Malformed as error:
        raise HistoryError(f"{text[:80]!r} is no EDN value: {error.reason}") from None
    if follows != "end" or value is _NOTHING:
        raise HistoryError(f"{text[:80]!r} is not one EDN value")
    return value


# ── one form ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_NOTHING: Final = object()
"""A discarded form."""


def _skip(text: str, at: int, *, more: bool) -> re.Match[str]:
    """The next token. `more`: the text goes on, so that a token at its very end may not be whole."""
    token = _TOKEN.match(text, at)
    if token is None:
        blanks = _BETWEEN_TOKENS.match(text, at)
        assert blanks is not None
        here = blanks.end()
        if text.startswith('"', here) or (more and len(text) - here < _UNDECIDED_MOST):
            raise _Unfinished
        raise _Malformed(f"{text[here : here + 20]!r} is no EDN", here)
    if more and token.lastgroup not in {"open", "close", "string"}:
        # \new may be the beginning of \newline, and 1 of 12.
        margin = _LONGEST_CHARACTER if token.lastgroup == "character" else 0
        if token.end() + margin >= len(text):
            raise _Unfinished
    return token


class _Collection:
    """A collection that is being read; `finish` makes a value of its items."""

    __slots__ = ("at", "closes", "finish", "items", "pending")

    def __init__(self, closes: str, finish: Callable[[list[Any], int], Any], at: int) -> None:
        self.closes = closes
        self.finish = finish
        self.items: list[Any] = []
        self.pending = bytearray()  # tags and discards that wait for the value that follows
        self.at = at

    def wait(self, prefix: int) -> None:
        """A tag or a discard: the next value is its. Of several tags one is as good as all."""
        if prefix == _DISCARD or not self.pending.endswith(b"t"):
            self.pending.append(prefix)

    def take(self, value: Any) -> bool:
        """Add a value, unless it is to be discarded; return whether it was added."""
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
    """One form. Nested as deep as it likes: there is no recursion."""

    def __init__(self) -> None:
        # Places count from where the form begins, which may move in the text that is kept of a file.
        self._stack = [_Collection("", lambda items, _: items[0], 0)]
        self._done = 0

    def read(self, text: str, begin: int, *, more: bool) -> tuple[Any, int]:
        """The value that begins at `begin`, and where it ends. Where the text ended too soon, it goes on with more of it."""
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
        """The whole value, if this token is the end of it."""
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
                raise _Malformed(f"{token['close']} closes nothing", token.start("close"))
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
            raise _Malformed(f"brackets within each other, more than {_DEPTH_MOST} deep", at)
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
    raise _Malformed(f"{_begin_of(word)} is no EDN", at)


def _unescaped(sequence: str, at: int) -> str:
    if sequence.startswith("u") and len(sequence) == 5:
        return _from_code(sequence[1:], at)
    if sequence not in _ESCAPED:
        raise _Malformed(f"\\{sequence} is no escape of a string", at)
    return _ESCAPED[sequence]


def _from_code(digits: str, at: int) -> str:
    character = chr(int(digits, 16))
    if "\ud800" <= character <= "\udfff":
        raise _Malformed(f"\\u{digits} is half a character", at)
    return character


def _begin_of(word: str) -> str:
    """A word as a message can bear it."""
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
    raise _Malformed(f"{_begin_of(word)} is no number", at)


def _kept(number: int) -> int | str:
    return number if number in _INT64 else str(number)


def _decimal(word: str) -> float | str:
    """A double where it is one; a decimal that is not one stays a text, because rounding would make others equal to it."""
    if not word.endswith("M"):
        number = float(word)
        return number if math.isfinite(number) else word
    exact = Decimal(word[:-1])
    return float(exact) if Decimal(repr(float(exact))) == exact else str(exact)


def _ratio(over: int, under: int, at: int) -> int | str:
    if under == 0:
        raise _Malformed(f"{_begin_of(str(over))}/0 is no number", at)
    from fractions import Fraction  # noqa: PLC0415 - it is as rare as it is slow to import

    exact = Fraction(over, under)
    return exact.numerator if exact.denominator == 1 and exact.numerator in _INT64 else str(exact)


def _map(items: list[Any], at: int) -> dict[str, Any]:
    if len(items) % 2:
        raise _Malformed("a map with a key and no value", at)
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
        raise _Malformed(f"a map with a key of more than {_KEY_MOST} characters that is no text", at)
    return key.decode()


def _set(items: list[Any], at: int) -> list[Any]:
    """Equal sets are equal lists: integers in their order, then everything else by its JSON."""
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
