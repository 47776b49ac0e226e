"""Seal: a checksum of a whole Parquet file, inside it, where every other tool reads past it.

Parquet's own checksums cover pages and nothing else: a flipped bit of a page's header, or of the footer, may change what is read
in silence. A reader finds the footer from the end of the file, and pages by their offsets from its begin, so the bytes
between the last page and the footer belong to nobody. There lie

    "SQSEAL01" | CRC-32 of everything before | CRC-32 of everything behind        16 bytes, little endian

Files of 0.1 and of other tools have no seal.
"""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path
from typing import IO, Final
from zlib import crc32

from schemaquake.harness.errors import DamagedFile, HistoryError
from schemaquake.harness.named_folders import kind_of_file

__all__ = ["damage_in", "refuse_damage", "seal"]

_MARK: Final = b"SQSEAL01"
_SIZE: Final = len(_MARK) + 8
_TAIL: Final = 8
"""Bytes of the footer's length and the closing `PAR1`."""
_BLOCK: Final = 1 << 22


def seal(path: Path) -> None:
    """Seal a Parquet file that was just written."""
    with path.open("r+b") as file:
        at, footer = _footer(file, path.stat().st_size)
        mark = _MARK + _checksum(file, at).to_bytes(4, "little") + crc32(footer).to_bytes(4, "little")
        file.seek(at)
        file.write(mark + footer)


def refuse_damage(path: Path) -> bool:
    """Raise DamagedFile for a file that is not what was sealed. Returns False for one without a seal.

    Each state of a file is read once by a process. Raises HistoryError for what is no file, of which a pipe would be
    waited for, FileNotFoundError, OSError.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise HistoryError(f"{path} is {kind_of_file(status.st_mode)}, and a table is a file")
    return _refuse_damage(path, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _refuse_damage(path: Path, _inode: int, size: int, _modified_ns: int) -> bool:
    with path.open("rb") as file:
        found = damage_in(file, size)
    if found is None or not found:
        return found is not None
    raise DamagedFile(f"{path} is damaged: {found} not what was written.", path)


def damage_in(file: IO[bytes], size: int) -> str | None:
    """Return the part of a file of that size that is not what was sealed: empty if all is, None without a seal."""
    try:
        at, footer = _footer(file, size)
    except ValueError:
        return None  # no Parquet file, which its reader says
    if at < _SIZE:
        return None
    file.seek(at - _SIZE)
    mark = file.read(_SIZE)
    if mark[: len(_MARK)] != _MARK:
        return None
    before, behind = int.from_bytes(mark[-8:-4], "little"), int.from_bytes(mark[-4:], "little")
    if crc32(footer) != behind:
        return "its footer is"
    return "" if _checksum(file, at - _SIZE) == before else f"its data, the first {at - _SIZE} bytes, are"


def _footer(file: IO[bytes], size: int) -> tuple[int, bytes]:
    """Return where the footer begins, and everything from there on. Raises ValueError if there is none."""
    if size < _TAIL:
        raise ValueError("no footer")
    file.seek(size - _TAIL)
    at = size - _TAIL - int.from_bytes(file.read(4), "little")
    if at < 0:
        raise ValueError("no footer")
    file.seek(at)
    return at, file.read()


def _checksum(file: IO[bytes], length: int) -> int:
    """Return the CRC-32 of the file's first bytes."""
    file.seek(0, os.SEEK_SET)
    crc = 0
    while length:
        block = file.read(min(length, _BLOCK))
        if not block:
            break
        crc = crc32(block, crc)
        length -= len(block)
    return crc
