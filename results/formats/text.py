"""Text of a history file, a stretch at a time: never more in memory than one operation needs, and every line numbered."""

from __future__ import annotations

import codecs
from typing import BinaryIO, Final

from schemaquake.harness.errors import HistoryError

__all__ = ["FORM_BYTES_MOST", "Text", "too_long"]

FORM_BYTES_MOST: Final = 64 << 20
"""An operation that is longer than this is refused: so a line of a gigabyte costs no gigabyte."""
_STRETCH: Final = 1 << 18  # bytes


def too_long(what: str) -> str:
    """Why it is refused."""
    return f"{what} of more than {FORM_BYTES_MOST >> 20} MiB (is a bracket or a quotation mark left open?)"


class Text:
    """What was read of a file and is not done with. `rest[at:]` is next; `ended`: nothing follows `rest`."""

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
        """What lies before `at` is done with."""
        self.at = at

    def extend(self, what: str) -> None:
        """Read on, at least as much again as is unfinished, and let go of what is done with: `at` becomes 0.

        Raises HistoryError if what begins at `at` is too long already.
        """
        if len(self.rest) - self.at > FORM_BYTES_MOST:
            raise self.error(too_long(what), self.at)
        self._line = self.line_of(self.at)
        self.rest = self.rest[self.at :]
        self.at = 0
        self._counted = (0, self._line)
        self._read(min(max(self._stretch, len(self.rest)), FORM_BYTES_MOST + 1 - len(self.rest)))

    def left(self) -> bytes:
        """The bytes from `at` on that were read: who takes over from here begins with them."""
        return self.rest[self.at :].encode() + self._decoder.getstate()[0]

    def line_of(self, at: int) -> int:
        """The line, from 1, of a place in `rest`. Cheap when asked in order."""
        before, line = self._counted
        if at < before:
            before, line = 0, self._line
        line += self.rest.count("\n", before, at)
        self._counted = (at, line)
        return line

    def error(self, reason: str, at: int) -> HistoryError:
        """A refusal with file, line and reason."""
        return HistoryError(f"{self._name}, line {self.line_of(at)}: {reason}.")

    def _read(self, count: int) -> None:
        found = self._file.read(count)
        self.ended = len(found) < count
        try:
            self.rest += self._decoder.decode(found, final=self.ended)
        except UnicodeDecodeError as error:
            good = error.object[: error.start].decode("utf-8", "replace")
            line = self.line_of(len(self.rest)) + good.count("\n")
            raise HistoryError(f"{self._name}, line {line}: it is no UTF-8 text ({error.reason}).") from None
