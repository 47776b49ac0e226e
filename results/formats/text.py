"""Text buffer of a history file, read in stretches. It holds at most one operation's worth of text, and counts lines."""

from __future__ import annotations

import codecs
from typing import BinaryIO, Final

from schemaquake.harness.errors import HistoryError

__all__ = ["FORM_BYTES_MOST", "Text", "too_long"]

FORM_BYTES_MOST: Final = 64 << 20
"""Maximum length of an operation, bytes. A line of a gigabyte is refused before it takes a gigabyte of memory."""
_STRETCH: Final = 1 << 18  # bytes


def too_long(description: str) -> str:
    """Return the error text for something that exceeds the limit."""
    return f"{description} of more than {FORM_BYTES_MOST >> 20} MiB (is a bracket or a quotation mark left open?)"


class Text:
    """A buffer of text that was read and not consumed yet. `rest[at:]` is next; `ended` is True if the file ends after `rest`."""

    def __init__(self, file: BinaryIO, name: str, *, line: int = 1, stretch: int | None = None) -> None:
        self._file = file
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._line = line  # of rest[0]
        self._counted = (0, line)
        self._stretch = stretch or _STRETCH
        self.rest = ""
        self.at = 0
        self.ended = False
        self._read(self._stretch)

    def advance(self, at: int) -> None:
        """Mark the text before `at` as consumed."""
        self.at = at

    def extend(self, description: str) -> None:
        """Drop consumed text and read at least as much again as is unfinished; `at` becomes 0.

        Raises HistoryError if the form at `at` already exceeds the size limit. `description` names it in the error.
        """
        if len(self.rest) - self.at > FORM_BYTES_MOST:
            raise self.error(too_long(description), self.at)
        self._line = self.line_of(self.at)
        self.rest = self.rest[self.at :]
        self.at = 0
        self._counted = (0, self._line)
        self._read(min(max(self._stretch, len(self.rest)), FORM_BYTES_MOST + 1 - len(self.rest)))

    def left(self) -> bytes:
        """Return the bytes that were read and not consumed."""
        return self.rest[self.at :].encode() + self._decoder.getstate()[0]

    def line_of(self, at: int) -> int:
        """Return the line, from 1, of a place in `rest`. Cheap if places are asked in order."""
        before, line = self._counted
        if at < before:
            before, line = 0, self._line
        line += self.rest.count("\n", before, at)
        self._counted = (at, line)
        return line

    def error(self, reason: str, at: int) -> HistoryError:
        """Build an error with file, line and reason."""
        return HistoryError(f"{self._name}, line {self.line_of(at)}: {reason}.")

    def _read(self, count: int) -> None:
        found = self._file.read(count)
        self.ended = len(found) < count
        try:
            self.rest += self._decoder.decode(found, final=self.ended)
        except UnicodeDecodeError as error:
            good = error.object[: error.start].decode("utf-8", "replace")
            line = self.line_of(len(self.rest)) + good.count("\n")
            raise HistoryError(f"{self._name}, line {line}: the file is not valid UTF-8 ({error.reason}).") from None
