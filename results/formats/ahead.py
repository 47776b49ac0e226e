"""Ahead: bytes of a file are read, and pieces of them scanned, before their turn, in threads.

Pieces begin where an op seems to begin. That is a guess: a line may begin inside a string. Nothing depends on it, because
between ops the scanner has no state but its place. If the ops before a piece end exactly where the piece begins, its rows are
those that scanning on would give; if not, they are dropped, and the bytes are scanned in turn.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemaquake.results.formats.scanner import UNUSUAL, Scanner

__all__ = ["Ahead", "ReadAhead", "Segment"]

_Bytes: TypeAlias = npt.NDArray[np.uint8]

_THREADS: Final = max(1, min(4, len(os.sched_getaffinity(0))))
_PIECE: Final = 4 << 20  # bytes
_CUT_WITHIN: Final = 1 << 16  # bytes in which a place to cut at is searched
_SEGMENTS_MOST: Final = 32  # of a piece: each costs as much time as a hundred ops
_BLOCK: Final = 4 << 20  # bytes that are read at once


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows that were scanned from `begin` on, up to `end`, by a scanner that saw the bytes before `limit` and stopped with `status`.

    Their lines count from 1, which is the line of `begin`; `line` is that of `end`.
    """

    begin: int
    end: int
    limit: int
    status: int
    line: int
    batch: pa.RecordBatch


class Ahead:
    """The pieces of a window that are scanned before it is known that ops end where they begin."""

    def __init__(self, make_scanner: Callable[[int], Scanner]) -> None:
        self._make_scanner = make_scanner
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="scanner")
        self._free: deque[Scanner] = deque()
        self._pieces: deque[tuple[int, Future[list[Segment]]]] = deque()
        self._segments: deque[Segment] = deque()

    def begin(self, window: bytearray, data: _Bytes, at: int) -> None:
        """Begin to scan `data`, an array over the window, in pieces from `at` on. A window of less than two pieces is left alone."""
        end = len(data)
        while at < end and (end - at > _PIECE or self._pieces):
            cut = _cut(window, at + _PIECE, end)
            if cut < 0:
                break
            self._pieces.append((at, self._pool.submit(self._scan, data[:cut], at)))
            at = cut

    def drop(self) -> None:
        """Forget all pieces, and wait for those that are being scanned: afterwards nothing looks at the window."""
        for _, piece in self._pieces:
            if not piece.cancel():
                piece.exception()
        self._pieces.clear()
        self._segments.clear()

    def close(self) -> None:
        """End the threads."""
        self.drop()
        self._pool.shutdown()

    def segment(self, begin: int) -> Segment | None:
        """Return what was scanned from this place on, or None. Segments are asked for in their order."""
        self._forget_before(begin)
        if not self._segments and self._pieces and self._pieces[0][0] == begin:
            self._segments.extend(self._pieces.popleft()[1].result())
        if self._segments and self._segments[0].begin == begin:
            return self._segments.popleft()
        return None

    def next_begin(self, at: int, end: int) -> int:
        """Return the first place after `at` from which something was scanned; `end` if there is none."""
        self._forget_before(at + 1)
        if self._segments:
            return self._segments[0].begin
        return self._pieces[0][0] if self._pieces else end

    def _forget_before(self, at: int) -> None:
        """Forget what was scanned from places before this one. A piece that begins before it may have segments that do not."""
        while self._segments or self._pieces:
            while self._segments and self._segments[0].begin < at:
                self._segments.popleft()
            if self._segments or not self._pieces or self._pieces[0][0] >= at:
                return
            self._segments.extend(self._pieces.popleft()[1].result())

    def _scan(self, data: _Bytes, begin: int) -> list[Segment]:
        """Scan a piece. After an op that needs the general reader it guesses that the next line begins with another op."""
        scanner = self._free.pop() if self._free else self._make_scanner(_PIECE + _CUT_WITHIN)
        segments: list[Segment] = []
        while 0 <= begin < len(data) and len(segments) < _SEGMENTS_MOST:
            status, at, line = scanner.scan(data, begin, 1)
            segments.append(Segment(begin, at, len(data), status, line, scanner.take()))
            if status != UNUSUAL:
                break
            begin = _after_line(data, at)
        self._free.append(scanner)
        return segments


def _cut(window: bytearray, target: int, end: int) -> int:
    """Return a place soon after `target` where an op seems to begin, `end` if that is near, and −1 if none is found."""
    if target >= end:
        return end
    last = min(target + _CUT_WITHIN, end)
    line = window.find(b"\n", target, last)
    if line >= 0:
        return line + 1
    for between in (b"},{", b"} {"):
        brace = window.find(between, target, last)
        if brace >= 0:
            return brace + 1
    return end if last == end else -1


def _after_line(data: _Bytes, at: int) -> int:
    """Return the place after the next end of a line, −1 if there is none."""
    stretch = 1 << 12
    while at < len(data):
        ends = np.flatnonzero(data[at : at + stretch] == ord("\n"))
        if len(ends):
            return at + int(ends[0]) + 1
        at += stretch
        stretch *= 2
    return -1


class ReadAhead:
    """A binary file of which the next block is read, or decompressed, while the one before is used."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="reader")
        self._next: Future[bytes] | None = self._pool.submit(file.read, _BLOCK)
        self._block = memoryview(b"")

    def read(self, count: int) -> memoryview:
        """Return the next bytes, at most `count`; none at the end of the file. Raises what the file raises."""
        if not len(self._block) and self._next is not None:
            found = self._next.result()
            self._block = memoryview(found)
            self._next = self._pool.submit(self._file.read, _BLOCK) if found else None
        part, self._block = self._block[:count], self._block[count:]
        return part

    def close(self) -> None:
        """End the thread. The file stays open."""
        self._pool.shutdown()
