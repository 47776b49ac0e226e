"""Key lines: the line of a TOML text on which each key and each table begins, which the standard parser does not give.

For texts that `tomllib` has accepted: this scanner locates keys, and does not validate them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

__all__ = ["KeyPath", "key_lines", "line_of"]

KeyPath: TypeAlias = tuple[str | int, ...]
"""The names of keys from the top, and indexes (from 0) of array elements: `("nodes", 2, "ssh", "port")`."""

_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_STRING: Final = re.compile(
    r"""
      \"{3} (?: [^\\] | \\. )*? \"{3,5} (?!\")
    | '{3} .*? '{3,5} (?!')
    | \" (?: [^"\\] | \\. )* \"
    | ' [^']* '
    """,
    re.DOTALL | re.VERBOSE,
)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN_VALUE: Final = re.compile(r"[^,\]}#\r\n]+")
_ESCAPE: Final = re.compile(r'\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(["\\btnfr]))')
_ESCAPED: Final = {'"': '"', "\\": "\\", "b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """Find the line of that key, else of the nearest table around it, else 1."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 1


def key_lines(text: str) -> Mapping[KeyPath, int]:
    """Find the line, from 1, of every key, table and array element; the first line of a table that is opened twice."""
    return _Scanner(text).lines_of_everything()


class _Scanner:
    """A scan over the text: its position, and the lines found so far."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted = (0, 1)
        """A position in the text and its line, from which lines are counted on."""
        self._lines: dict[KeyPath, int] = {}
        self._elements: dict[KeyPath, int] = {}
        """The number of elements that `[[…]]` has opened, by array."""

    def lines_of_everything(self) -> Mapping[KeyPath, int]:
        table: KeyPath = ()
        while self._skip(_BLANK):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
        return self._lines

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        """Advance over the pattern, and return True if text is left."""
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at < len(self._text)

    def _is_at(self, word: str) -> bool:
        return self._text.startswith(word, self._at)

    def _line(self) -> int:
        place, line = self._counted
        self._counted = self._at, line + self._text.count("\n", place, self._at)
        return self._counted[1]

    def _note(self, path: KeyPath, line: int) -> None:
        """Note the line of a key, and of the tables around it that were not opened before."""
        for length in range(1, len(path) + 1):
            self._lines.setdefault(path[:length], line)

    def _header(self) -> KeyPath:
        line, of_array = self._line(), self._is_at("[[")
        self._at += 2 if of_array else 1
        path = self._within_arrays(self._dotted())
        if of_array:
            number = self._elements.get(path, 0)
            self._elements[path] = number + 1
            path = (*path, number)
        self._note(path, line)
        self._at += 2 if of_array else 1
        return path

    def _within_arrays(self, names: tuple[str, ...]) -> KeyPath:
        """Add to the names the index of the open element of every array of tables, except the last."""
        path: KeyPath = ()
        for name in names:
            if path in self._elements:
                path = (*path, self._elements[path] - 1)
            path = (*path, name)
        return path

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        path = (*table, *self._dotted())
        self._note(path, line)
        self._at += 1  # =
        self._skip(_SPACE)
        self._value(path)

    def _dotted(self) -> tuple[str, ...]:
        """Read the names of a key up to its `=` or `]`."""
        names = []
        while True:
            self._skip(_SPACE)
            names.append(self._name())
            self._skip(_SPACE)
            if not self._is_at("."):
                return tuple(names)
            self._at += 1

    def _name(self) -> str:
        found = _STRING.match(self._text, self._at) or _BARE_KEY.match(self._text, self._at)
        assert found is not None, f"no key at {self._at}"
        self._at = found.end()
        name = found.group()
        if name.startswith("'"):
            return name[1:-1]
        return _ESCAPE.sub(_unescaped, name[1:-1]) if name.startswith('"') else name

    def _value(self, path: KeyPath) -> None:
        if self._is_at("{"):
            self._members(path, "}")
        elif self._is_at("["):
            self._members(path, "]")
        elif not self._is_at('"') and not self._is_at("'"):
            self._skip(_PLAIN_VALUE)
        else:
            self._skip(_STRING)

    def _members(self, path: KeyPath, end: str) -> None:
        """Scan an inline table or an array, which may span lines with comments between."""
        self._at += 1
        number = 0
        self._skip(_BLANK)
        while not self._is_at(end):
            if end == "}":
                self._pair(path)
            else:
                self._note((*path, number), self._line())
                self._value((*path, number))
                number += 1
            self._skip(_BLANK)
            if self._is_at(","):
                self._at += 1
                self._skip(_BLANK)
        self._at += 1


def _unescaped(found: re.Match[str]) -> str:
    short, long, letter = found.groups()
    return _ESCAPED[letter] if letter else chr(int(short or long, 16))
