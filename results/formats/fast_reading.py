"""Fast reading: the compiled scanner for common ops and the general reader for all others, on one stream of bytes.

Both give the same rows for the same ops (tests compare them), so the choice affects only speed. The general reader takes
more and more ops at a time if several that need it follow each other. The scanner's window grows for an op that does not fit
into it, up to the maximum length of an op. Pieces of the window are scanned in advance (`schemaquake.results.formats.ahead`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from types import ModuleType
from typing import BinaryIO, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.errors import HistoryError
from schemaquake.results.formats import text as texts
from schemaquake.results.formats.ahead import Ahead, ReadAhead
from schemaquake.results.formats.op_maps import Malformed, Rows
from schemaquake.results.formats.scanner import CLOSED, ENDED, FULL, UNFINISHED, Scanner
from schemaquake.results.formats.text import Text

__all__ = ["batches"]

_STRETCH: Final = 24 << 20  # bytes
_GENERAL_STRETCH: Final = 1 << 14
_GENERAL_MOST: Final = 4096


def batches(
    file: BinaryIO, name: str, notation: ModuleType, rows: Rows, *, json: bool, lean: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the events of a file (`schemaquake.results.formats.op_maps.RAW`) in file order, parsed by `edn` or `elle_json`.

    With `lean`, micro-operations of what was scanned are `LEAN_MOPS` where they can be. Raises the same HistoryErrors as the general readers.
    """

    def make_scanner(size: int) -> Scanner:
        return Scanner(size, json=json, independent=rows.independent, lean=lean)

    with closing(ReadAhead(file)) as source, closing(Ahead(make_scanner)) as ahead:
        window = _Window(source, ahead, make_scanner, name)
        with window.as_text() as text:
            closes = notation.opening(text)
        general = 1
        while True:
            status, scanned = window.scan()
            if scanned is not None:
                general = 1
                yield scanned
            if status == FULL:
                continue
            if status in {ENDED, UNFINISHED} and window.goes_on:
                window.read_on()
                continue
            if status in {ENDED, CLOSED}:
                break
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

    The scanner sees `_room` bytes at a time; a general reader may have left more.
    """

    def __init__(self, file: ReadAhead, ahead: Ahead, make_scanner: Callable[[int], Scanner], name: str) -> None:
        self._file = file
        self._ahead = ahead
        self._make_scanner = make_scanner
        self._scanner: Scanner | None = None
        self._name = name
        self._ended = False
        self._shown = 0
        self._is_begun = False
        self._room = _STRETCH
        self._data = bytearray(self._room)
        self._filled = 0
        self.at = 0
        self.line = 1
        self.read_on()

    @property
    def goes_on(self) -> bool:
        """True if the file continues after the bytes that the scanner saw."""
        return not self._ended or self._shown < self._filled

    def scan(self) -> tuple[int, pa.RecordBatch | None]:
        """Scan on from `at`: (the reason why the scanner stopped, the rows). At `FULL` it can go on at once."""
        self._shown = min(self._filled, self.at + self._room)
        if not self._is_begun:
            self._is_begun = True
            self._ahead.begin(self._data, self._array(self._shown), self.at)
        segment = self._ahead.segment(self.at)
        if segment is not None:
            status, limit, end, line, batch = segment.status, segment.limit, segment.end, segment.line, segment.batch
        else:
            if self._scanner is None or self._scanner.size < self._room:
                self._scanner = self._make_scanner(self._room)
            limit = self._ahead.next_begin(self.at, self._shown)
            status, end, line = self._scanner.scan(self._array(limit), self.at, 1)
            batch = self._scanner.take()
        if len(batch) and self.line > 1:
            lines = pc.add(batch.column(0), self.line - 1)
            batch = pa.RecordBatch.from_arrays([lines, *batch.columns[1:]], schema=batch.schema)
        if status in {ENDED, UNFINISHED} and limit < self._shown:
            if status == UNFINISHED and end == self.at:  # an op lies over the limit, and nothing begins there
                self._ahead.next_begin(limit, self._shown)
            status = FULL
        self.at = end
        self.line += line - 1
        return status, batch if len(batch) else None

    def _array(self, end: int) -> npt.NDArray[np.uint8]:
        data = np.frombuffer(self._data, np.uint8, count=end)
        data.flags.writeable = False  # what the scanner is compiled for
        return data

    def read_on(self) -> None:
        """Drop consumed bytes and fill the window.

        The window grows if it contains only the beginning of a single op. Raises HistoryError if the op exceeds the size limit.
        """
        most = texts.FORM_BYTES_MOST + 1
        if self.at > 0 or self._filled < self._room:
            self._room = _STRETCH
        elif self._room >= most:
            raise HistoryError(f"{self._name}, line {self.line}: {texts.too_long('one operation')}.")
        else:
            self._room = min(2 * self._room, most)
        self._keep(self._data[self.at : self._filled], max(self._room, self._filled - self.at))
        while self._filled < self._room and not self._ended:
            found = self._file.read(self._room - self._filled)
            self._ended = not found
            self._data[self._filled : self._filled + len(found)] = found
            self._filled += len(found)

    def _keep(self, rest: bytes | bytearray, size: int) -> None:
        """Let the window of at least this size contain this, and nothing else."""
        self._ahead.drop()
        self._is_begun = False
        if len(self._data) < size or len(self._data) > 2 * size:
            self._data = bytearray(size)
        self._data[: len(rest)] = rest
        self._filled = len(rest)
        self.at = 0

    def as_text(self) -> _Handed:
        """Lend the bytes from `at` on to a general reader as text, and take the rest back."""
        return _Handed(self)

    def read(self, count: int) -> bytes:
        """Return the next bytes, those in the window first."""
        found = bytes(self._data[self.at : min(self.at + count, self._filled)])
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
        if self.at >= len(left) and self._data[self.at - len(left) : self.at] == left:
            self.at -= len(left)
        else:
            rest = left + self._data[self.at : self._filled]
            self._keep(rest, max(self._room, len(rest)))


class _Handed:
    """A context in which a general reader has the window."""

    def __init__(self, window: _Window) -> None:
        self._window = window

    def __enter__(self) -> Text:
        self._text = self._window.text()
        return self._text

    def __exit__(self, *_: object) -> None:
        self._window.take_back(self._text)
