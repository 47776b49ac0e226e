"""Standard streams: output that cannot end a run, and text that cannot steer a terminal.

A reader that leaves (`| head`), a terminal that is closed and a descriptor that was never open are no errors of a run: threads
that inject and heal write log lines. What is still wanted of standard output after its reader has left is thrown away.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["flush_answers", "make_safe", "printable"]

_GONE: Final = frozenset({errno.EPIPE, errno.EIO, errno.EBADF, errno.ESTALE, errno.ENXIO})
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
"""Characters that a terminal obeys or hides: controls but tab and newline, changes of direction, lone surrogates."""


def printable(text: str) -> str:
    r"""Return the text with every character that a terminal would obey or hide written out, such as `\\x1b`."""
    return _UNSEEN.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)


class _Lasting(io.FileIO):
    """An open descriptor whose writes outlive its reader."""

    def __init__(self, descriptor: int, *, every_error: bool) -> None:
        """`every_error`: nothing that the system answers is an error, not even a full disk."""
        super().__init__(descriptor, "w", closefd=False)
        self._every_error = every_error

    def write(self, content: ReadableBuffer) -> int:
        """Write, or drop the text if it cannot be delivered any more."""
        try:
            return super().write(content) or 0
        except OSError as error:
            if not self._every_error and error.errno not in _GONE:
                raise
            _throw_away(self.fileno())
            return memoryview(content).nbytes


def make_safe() -> None:
    """Open the descriptors 0 to 2 where they are closed, and have both outputs outlive their readers. For entry points."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free one is given, so that no file of the run is opened as an output of somebody else's.
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = _stream(1, sys.stdout)
    sys.stderr = _stream(2, sys.stderr)


def flush_answers() -> OSError | None:
    """Write what standard output still holds. Returns the error if the system refused, and throws the rest away."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _throw_away(1)
        return error
    return None


def _throw_away(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _stream(descriptor: int, present: io.TextIOBase | object) -> io.TextIOWrapper:
    with suppress(OSError, ValueError, AttributeError):
        present.flush()  # type: ignore[union-attr]  # a missing stream has no such method
    raw = _Lasting(descriptor, every_error=descriptor == 2)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(present, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=descriptor == 2 or raw.isatty(),
        write_through=descriptor == 2,
    )
