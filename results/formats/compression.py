"""Compression: histories in gzip or zstd, decompressed as they are read. The content is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

import pyarrow as pa

from schemaquake.harness.errors import HistoryError

__all__ = ["content_bytes", "is_compressed", "open_content", "plain_name"]

_CODECS: Final = {".gz": "gzip", ".zst": "zstd"}
_RATIO_MOST: Final = 1000
"""How many bytes one byte of a file may become: histories become ten to thirty, what is made to fill a machine far more."""
_RATIO_FROM: Final = 1 << 24  # bytes of content
_BLOCK: Final = 1 << 20


def is_compressed(path: Path) -> bool:
    """Return True if the file's name ends in `.gz` or `.zst`."""
    return path.suffix.lower() in _CODECS


def plain_name(path: Path) -> Path:
    """Return the name of the content: without `.gz` or `.zst`."""
    return path.with_suffix("") if is_compressed(path) else path


@contextmanager
def open_content(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read its content, decompressed if its name says so. Reading raises HistoryError if that cannot be done."""
    with path.open("rb") as file:
        if not is_compressed(path):
            yield file
            return
        codec = _CODECS[path.suffix.lower()]
        with pa.CompressedInputStream(pa.PythonFile(file, "r"), codec) as content:
            yield cast(BinaryIO, _Content(content, path, path.stat().st_size))


def content_bytes(path: Path) -> int:
    """Return the size of the file's content in bytes; of a compressed one, by decompressing it. Raises HistoryError."""
    if not is_compressed(path):
        return path.stat().st_size
    total = 0
    with open_content(path) as content:
        while found := content.read(_BLOCK):
            total += len(found)
    return total


class _Content:
    """The content of a compressed file, of which only reading is possible."""

    def __init__(self, stream: pa.NativeFile, path: Path, size: int) -> None:
        self._stream = stream
        self._path = path
        self._most = max(_RATIO_FROM, _RATIO_MOST * size)
        self._total = 0

    def read(self, count: int) -> bytes:
        """Return the next bytes: `count`, or fewer at the end. Raises HistoryError."""
        try:
            found: bytes = self._stream.read(count)
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(f"{self._path} cannot be decompressed ({error}): it is damaged or cut short.") from None
        self._total += len(found)
        if self._total > self._most:
            raise HistoryError(
                f"{self._path} becomes more than {_RATIO_MOST} times as large when it is decompressed: no history does."
            )
        return found
