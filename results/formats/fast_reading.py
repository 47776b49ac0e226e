"""Fast reading: the compiled scanner for common ops and the general reader for all others, on one stream of bytes.

Both give the same rows for the same ops (tests compare them), so the choice affects only speed. The general reader takes
more and more ops at a time if several that need it follow each other. The scanner's window grows for an op that does not fit
into it, up to the maximum length of an op.
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
    """Yield the events of a file (`schemaquake.results.formats.op_maps.RAW`) in file order, parsed by `edn` or `elle_json`.

    Raises the same HistoryErrors as the general readers.
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
    """Add at most `most` ops, or fewer if they are large. Raises HistoryError."""
    for number, (line, op) in enumerate(ops, start=1):
        try:
            rows.add(op, line)
        except Malformed as error:
            raise HistoryError(f"{name}, line {line}: {error}.") from None
        if number == most or rows.full:
            return


class _Window:
    """The bytes that were read and not consumed yet, the rest of the file, and the line of the first byte.

    The scanner sees `room` bytes at a time; a general reader may have left more.
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
        """True if the file continues after the bytes that the scanner saw."""
        return not self._ended or self._shown < len(self.data)

    def scanned_by(self, scanner: Scanner) -> int:
        """Let the scanner continue from `at`, and return the reason why it stopped."""
        self._shown = min(len(self.data), self.at + scanner.size)
        shown = np.frombuffer(self.data, np.uint8, count=self._shown)
        status, self.at, self.line = scanner.scan(shown, self.at, self.line)
        return status

    def read_on(self) -> None:
        """Drop consumed bytes and fill the window.

        The window grows if it contains only the beginning of a single op. Raises HistoryError if the op exceeds the size limit.
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
        """Lend the bytes from `at` on to a general reader as text, and take the rest back."""
        return _Handed(self)

    def read(self, count: int) -> bytes:
        """Return the next bytes, those in the window first."""
        found = self.data[self.at : self.at + count]
        self.at += len(found)
        while len(found) < count and not self._ended:
            more = self._file.read(count - len(found))
            self._ended = not more
            found += more
        return found

    def text(self) -> Text:
        """Return a general reader's view that starts at the current position."""
        return Text(cast(BinaryIO, self), self._name, line=self.line, stretch=_GENERAL_STRETCH)

    def take_back(self, text: Text) -> None:
        """Continue after the text that a general reader has consumed."""
        self.line = text.line_of(text.at)
        left = text.left()
        # Usually only a little was consumed; then no bytes have to be moved.
        if self.data[: self.at].endswith(left):
            self.at -= len(left)
        else:
            self.data = left + self.data[self.at :]
            self.at = 0


class _Handed:
    """A context in which a general reader has the window."""

    def __init__(self, window: _Window) -> None:
        self._window = window

    def __enter__(self) -> Text:
        self._text = self._window.text()
        return self._text

    def __exit__(self, *_: object) -> None:
        self._window.take_back(self._text)
