"""Atomic files: a reader sees the old content or the whole new one, also after a crash."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replacing", "write_bytes"]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to. The file replaces `path` when the block ends, and is deleted if it raises.

    Raises OSError that names `path` if it cannot be written, or is there and no file: a device such as /dev/null, or a pipe, would be
    gone for every process of the machine.
    """
    if path.exists() and not path.is_file():
        number = errno.EISDIR if path.is_dir() else errno.EINVAL
        raise OSError(number, os.strerror(number) if path.is_dir() else "Not a regular file", str(path))
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        yield draft
        _sync(draft, os.O_RDWR)
        draft.replace(path)
    except OSError as error:
        # Arrow's errors name no file, and others the draft.
        if error.errno is None or error.filename not in {None, str(draft)}:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
    finally:
        draft.unlink(missing_ok=True)
    _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)  # the new name must survive a power cut as well


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the file's content."""
    with replacing(path) as draft:
        draft.write_bytes(content)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
