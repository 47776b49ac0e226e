"""Checked lines: one JSON object a line, each of which ends in a checksum of itself.

    {"id":4,"state":"planned","crc":3735928559}

`crc` is the CRC-32 of the bytes before that field. In a ledger it is of the line alone, so that each line stands by
itself. In a journal it goes on from line to line (`schemaquake.harness.history.journal`). Files of 0.1 have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

__all__ = ["CHECKSUM", "Piece", "checked_line", "line_pieces", "without_checksum"]

CHECKSUM: Final = b',"crc":'
"""The text between what a checksum covers and its decimal digits; a closing brace follows them."""

_END: Final = re.compile(rb',"crc":(\d{1,10})\}')
_TRIES_MOST: Final = 500
_LINE_MOST: Final = 1 << 18
"""Bytes of a damaged line in which whole objects are looked for."""


class Piece(NamedTuple):
    """A part of a line: a whole object whose checksum is right, or else bytes that are no such object."""

    text: bytes
    is_whole: bool


def checked_line(body: bytes) -> bytes:
    """Render a line of its own. `body` is a JSON object that is not empty."""
    covered = body.removesuffix(b"}")
    return b"%b%b%d}\n" % (covered, CHECKSUM, crc32(covered))


def without_checksum(line: bytes) -> bytes:
    """Return the object of a whole line as it was before it had a checksum."""
    return line[: line.rindex(CHECKSUM)] + b"}"


def line_pieces(line: bytes, *, opening: bytes) -> Iterator[Piece]:
    """Divide a line into whole objects, which begin with `opening`, and the rest, in order.

    There are two objects in a line if the newline between them was damaged.
    """
    if _is_whole(line):
        yield Piece(line, is_whole=True)
        return
    at = tries = 0
    for end in _END.finditer(line, 0, _LINE_MOST):
        begin = line.find(opening, at, end.start())
        while begin >= 0 and crc32(line[begin : end.start()]) != int(end[1]):
            tries += 1
            if tries == _TRIES_MOST:
                yield Piece(line[at:], is_whole=False)
                return
            begin = line.find(opening, begin + 1, end.start())
        if begin >= 0:
            if begin > at:
                yield Piece(line[at:begin], is_whole=False)
            yield Piece(line[begin : end.end()], is_whole=True)
            at = end.end()
    if at < len(line):
        yield Piece(line[at:], is_whole=False)


def _is_whole(line: bytes) -> bool:
    """Return whether the line is one object with the right checksum."""
    at = line.rfind(CHECKSUM)
    end = _END.fullmatch(line, at) if at >= 0 else None
    return end is not None and crc32(line[:at]) == int(end[1])
