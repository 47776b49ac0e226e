"""Named files: small files that a user names, read without waiting for what may never come."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

__all__ = ["read_named_bytes", "read_named_text"]

_PIECE: Final = 65_536


def read_named_bytes(path: Path) -> bytes:
    """Read a file. A pipe is read if somebody has it open to write to it, as a shell's `<(…)` has.

    Raises OSError as `Path.read_bytes` does, and for a pipe without a writer, on which that would wait for good.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        pieces = [_begin_pipe(descriptor, path)] if stat.S_ISFIFO(mode) else []
        os.set_blocking(descriptor, True)
        while piece := os.read(descriptor, _PIECE):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def read_named_text(path: Path) -> str:
    """Read a file of text in UTF-8. Raises OSError as `read_named_bytes` does, and UnicodeDecodeError."""
    return read_named_bytes(path).decode("utf-8")


def _begin_pipe(descriptor: int, path: Path) -> bytes:
    """Read what is in a pipe, if there is anything yet. Raises OSError if there is neither that nor a writer."""
    try:
        piece = os.read(descriptor, _PIECE)
    except BlockingIOError:
        return b""  # somebody has it open, and has written nothing so far
    if not piece:
        raise OSError(errno.EINVAL, "it is a pipe that nobody writes to", str(path))
    return piece
