"""Archive: a bundle as a ZIP file of one form, and the careful reading of one that anybody may have made.

Written: names in order, one date, one mode, tables stored and texts deflated. The archive's comment is the SHA-256 of every byte before
it, so that a change between the files is noticed as well as one in them. Deflated bytes differ between builds of zlib, which is
why a bundle's id is that of its manifest.

Read: in place, never unpacked to a path of its choice. Refused: absolute names, `..`, backslashes, links, folders, encryption, names that are
equal but for case, and more entries or bytes than a run has, counted while reading. Source: PEP 706; SEI's zip bombs.
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from schemaquake.harness.atomic import write_bytes
from schemaquake.harness.errors import HistoryError, PlanError

__all__ = ["SUFFIX", "Archive", "Limits", "open_archive", "write_archive"]

SUFFIX: Final = ".sqz.zip"

_DATE: Final = (1980, 1, 1, 0, 0, 0)
_MODE: Final = (stat.S_IFREG | 0o644) << 16
_COMMENT: Final = "schemaquake sha256:{}"
_COMMENT_SIZE: Final = len(_COMMENT.format("0" * 64))
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*){0,3}")
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BLOCK: Final = 1 << 20
_ENCRYPTED: Final = 0x1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most that a bundle may hold."""

    entries: int = 20_000
    bytes: int = 4 << 30
    """Bytes of all files together, uncompressed."""
    ratio: int = 200
    """Uncompressed bytes for each byte of the archive, beyond the first MiB."""


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive whose directory was found harmless. Its content is not yet known."""

    path: Path
    names: tuple[str, ...]
    is_sealed: bool
    """False if the comment is not the SHA-256 of what stands before it."""
    limits: Limits

    def read_all(self) -> tuple[dict[str, bytes], dict[str, str]]:
        """Read every file: contents, and the reasons for those that cannot be read. Raises HistoryError beyond the limits."""
        contents: dict[str, bytes] = {}
        broken: dict[str, str] = {}
        left = min(self.limits.bytes, (1 << 20) + self.limits.ratio * self.path.stat().st_size)
        with zipfile.ZipFile(self.path) as opened:
            for name in self.names:
                try:
                    with opened.open(name) as file:
                        content = file.read(left + 1)
                        while len(content) <= left and (more := file.read(_BLOCK)):
                            content += more
                except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
                    broken[name] = str(error) or type(error).__name__
                    continue
                if len(content) > left:
                    raise HistoryError(
                        f"{self.path} holds more than a bundle may: it grows beyond all measure when it is read"
                    )
                left -= len(content)
                contents[name] = content
        return contents, broken


def write_archive(path: Path, contents: Mapping[str, bytes]) -> None:
    """Write the files of a bundle, whole or not at all. Raises PlanError if it cannot be written there."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(contents):
            _refuse_name(name)
            info = zipfile.ZipInfo(name, _DATE)
            info.create_system = 3
            info.external_attr = _MODE
            packed = name.endswith(".parquet") or ("/" not in name and name.isupper())
            info.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
            archive.writestr(info, contents[name], compresslevel=9)
        archive.comment = b" " * _COMMENT_SIZE
    whole = buffer.getvalue()
    covered = whole[:-_COMMENT_SIZE]
    try:
        write_bytes(path, covered + _comment(hashlib.sha256(covered).hexdigest()))
    except OSError as error:
        raise PlanError(f"the bundle cannot be written to {path}: {error.strerror or error}") from error


def open_archive(path: Path, limits: Limits | None = None) -> Archive:
    """Read the directory of an archive and refuse what no bundle has. Raises HistoryError; PlanError if there is no such file."""
    limits = limits or Limits()
    if not path.is_file():
        raise PlanError(f"{path} is not a file: a bundle is what `schemaquake bundle RUN` writes")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, IndexError) as error:
        raise HistoryError(f"{path} is not a bundle: {error}") from error
    if len(entries) > limits.entries:
        raise HistoryError(f"{path} has {len(entries):,} entries; a bundle has at most {limits.entries:,}")
    seen: set[str] = set()
    for entry in entries:
        _refuse_entry(entry)
        if entry.filename.lower() in seen:
            raise HistoryError(f"the archive has two files named {entry.filename!r}")
        seen.add(entry.filename.lower())
    total = sum(entry.file_size for entry in entries)
    if total > limits.bytes or total > (1 << 20) + limits.ratio * path.stat().st_size:
        raise HistoryError(f"{path} says that it holds {total:,} bytes, which no bundle of its size does")
    names = tuple(entry.filename for entry in entries)
    with path.open("rb") as file:
        return Archive(path, names, _is_sealed(file, path.stat().st_size), limits)


def _refuse_entry(entry: zipfile.ZipInfo) -> None:
    """Raise HistoryError for an entry that no bundle has."""
    _refuse_name(entry.orig_filename)
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in {0, stat.S_IFREG}:
        raise HistoryError(f"{entry.filename!r} in the archive is a link or a device")
    if entry.flag_bits & _ENCRYPTED:
        raise HistoryError(f"{entry.filename!r} in the archive is encrypted")
    if entry.compress_type not in _METHODS:
        raise HistoryError(f"{entry.filename!r} in the archive is compressed by another method than a bundle's")


def _refuse_name(name: str) -> None:
    if _PLAIN_NAME.fullmatch(name) is None or name.endswith("."):
        raise HistoryError(f"the archive has a file with the name {name!r}, which no bundle has")


def _comment(digest: str) -> bytes:
    return _COMMENT.format(digest).encode()


def _is_sealed(file: BinaryIO, size: int) -> bool:
    digest, left = hashlib.sha256(), size - _COMMENT_SIZE
    while left > 0 and (block := file.read(min(left, _BLOCK))):
        digest.update(block)
        left -= len(block)
    return file.read() == _comment(digest.hexdigest())
