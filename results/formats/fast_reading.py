"""Fast reading: the scanner where it can, the general reader where it must, on one stream of bytes.

The two give the same rows for the same ops (tests hold them against each other), so how often the general reader is
needed is a matter of speed only. Where ops that need it follow each other, it takes more and more of them at a time.
For an op that does not fit into the scanner's window the window grows, up to the longest op there may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import BinaryIO, Final, cast

import numpy as np
import pyarrow as pa

from schemaquake.harness.errors import HistoryError
from schemaquake.results.formats import text as texts
from schemaquake.results.formats.op_maps import Malformed, Rows
from schemaquake.results.formats.scanner import CLOSED, ENDED, FULL, UNFINISHED, Scanner
from schemaquake.results.formats.text import Text

__all__ = ["batches"]

_STRETCH: Final = 8 << 20  # bytes
_GENERAL_STRETCH: Final = 1 << 14
_GENERAL_MOST: Final = 4096


def batches(file: BinaryIO, name: str, notation: ModuleType, rows: Rows, *, json: bool) -> Iterator[pa.RecordBatch]:
    """The events of a file (`schemaquake.results.formats.op_maps.RAW`) as they stand there, by `edn` or `elle_json`.

    Raises HistoryError as the general readers do.
    """
    window = _Window(file, name)
    scanner = Scanner(window.room, json=json, independent=rows.independent)
    with window.as_text() as text:
        closes = notation.opening(text)
    general = 1
    while True:
        scanned = scanner.ops
        status = window.scanned_by(scanner)
        general = general if scanner.ops == scanned else 1
        if scanner.ops and status != UNFINISHED:
            yield scanner.take()
        if status == FULL:
            continue
        if status in {ENDED, UNFINISHED} and window.goes_on:
            if scanner.ops:
                yield scanner.take()
            window.read_on()
            if window.room != scanner.size:
                scanner = Scanner(window.room, json=json, independent=rows.independent)
            continue
        if status in {ENDED, CLOSED}:
            break
        if scanner.ops:
            yield scanner.take()
        with window.as_text() as text:
            _read(notation.ops(text), rows, general, name)
        yield rows.take()
        general = min(2 * general, _GENERAL_MOST)
    with window.as_text() as text:
        notation.closing(text, closes)


def _read(ops: Iterator[tuple[int, object]], rows: Rows, most: int, name: str) -> None:
    """Add so many ops, or fewer that have much to say. Raises HistoryError."""
    for number, (line, op) in enumerate(ops, start=1):
        try:
            rows.add(op, line)
        except Malformed as error:
            raise HistoryError(f"{name}, line {line}: {error}.") from None
        if number == most or rows.full:
            return


class _Window:
    """The bytes that were read and are not done with, what is still to come, and the line of the first.

    The scanner is shown `room` bytes of it at a time; a general reader may have left more.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._ended = False
        self._shown = 0
        self.data = b""
        self.at = 0
        self.line = 1
        self.room = _STRETCH
        self.read_on()

    @property
    def goes_on(self) -> bool:
        """Whether anything follows what the scanner was shown."""
        return not self._ended or self._shown < len(self.data)

    def scanned_by(self, scanner: Scanner) -> int:
        """Let the scanner go on from `at`; return why it stopped."""
        self._shown = min(len(self.data), self.at + scanner.size)
        shown = np.frombuffer(self.data, np.uint8, count=self._shown)
        status, self.at, self.line = scanner.scan(shown, self.at, self.line)
        return status

    def read_on(self) -> None:
        """Fill the window; what is done with is let go.

        Where all that was shown is the beginning of a single op, the window grows. Raises HistoryError if there is no
        op so long.
        """
        most = texts.FORM_BYTES_MOST + 1
        if self.at > 0 or len(self.data) < self.room:
            self.room = _STRETCH
        elif self.room >= most:
            raise HistoryError(f"{self._name}, line {self.line}: {texts.too_long('one operation')}.")
        else:
            self.room = min(2 * self.room, most)
        rest = self.data[self.at :]
        if len(rest) < self.room:
            found = self._file.read(self.room - len(rest))
            self._ended = not found
            rest += found
        self.data = rest
        self.at = 0

    def as_text(self) -> _Handed:
        """The same from `at` on as text, for a general reader; what it leaves is the window again."""
        return _Handed(self)

    def read(self, count: int) -> bytes:
        """Hand bytes over, those of the window first."""
        found = self.data[self.at : self.at + count]
        self.at += len(found)
        while len(found) < count and not self._ended:
            more = self._file.read(count - len(found))
            self._ended = not more
            found += more
        return found

    def text(self) -> Text:
        """A general reader's view; it reads from here."""
        return Text(cast(BinaryIO, self), self._name, line=self.line, stretch=_GENERAL_STRETCH)

    def take_back(self, text: Text) -> None:
        """Go on after what a general reader has read."""
        self.line = text.line_of(text.at)
        left = text.left()
        # Mostly it is a little of what was handed over: then nothing has to be moved.
        if self.data[: self.at].endswith(left):
            self.at -= len(left)
        else:
            self.data = left + self.data[self.at :]
            self.at = 0


class _Handed:
    """The time in which a general reader has the window."""

    def __init__(self, window: _Window) -> None:
        self._window = window

    def __enter__(self) -> Text:
        self._text = self._window.text()
        return self._text

    def __exit__(self, *_: object) -> None:
        self._window.take_back(self._text)
