"""Running checksum: each line of a journal says the CRC-32 of all objects of the file up to there.

    {"time":17,…,"crc":A}      A = CRC-32 of {"time":17,…
    {"time":18,…,"crc":B}      B = CRC-32 of {"time":17,…{"time":18,…

So one pass over a whole file verifies it, at the speed of memory, and only a file that fails is read line by line. A
line whose neighbour was damaged can still be trusted: its checksum goes on from what the one before it *said*. Only
where whole lines are missing the next one is lost as well, because nothing says what came before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from zlib import crc32

from schemaquake.harness.checked_lines import CHECKSUM

if TYPE_CHECKING:
    import pyarrow as pa  # whoever writes a journal needs none of it

__all__ = ["checksum_of", "damaged_lines", "has_checksums", "is_undamaged", "whole_at_end"]

_ENDS: Final = re.compile(rb',"crc":\d{1,10}\}\n')
_END: Final = re.compile(rb',"crc":(\d{1,10})\}\n?')
_DIGITS: Final = re.compile(rb"(\d{1,10})[^0-9]?$", re.DOTALL)
_MERGED: Final = re.compile(rb'(,"crc":\d{1,10}\})[^\n](?=\{"time":)')
"""The end of a line whose newline was damaged, before the next line."""
_BLOCK: Final = 1 << 22


def has_checksums(text: pa.Buffer) -> bool:
    """Return whether any line has a checksum; those of 0.1 have none, and no JSON text holds such bytes otherwise."""
    return any(CHECKSUM in block for block in _blocks(text))


def is_undamaged(text: pa.Buffer) -> bool:
    """Return whether whole lines with checksums are what was written."""
    tail = text.slice(max(0, text.size - 64)).to_pybytes()
    end = _END.fullmatch(tail, tail.rfind(CHECKSUM)) if CHECKSUM in tail else None
    return end is not None and _checksum(text) == int(end[1])


def checksum_of(text: bytes) -> int:
    """Return the checksum from which the next line of a journal goes on."""
    return crc32(_ENDS.sub(b"", text))


def damaged_lines(text: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the number of each line from 1, its text, and whether it is what was written.

    Two lines whose newline was damaged are told apart, and have one number.
    """
    before = [0]  # the checksums from which this line may go on
    for number, line in enumerate(text.split(b"\n")[:-1], 1):
        for part in _MERGED.sub(rb"\1\n", line).split(b"\n"):
            at = part.rfind(CHECKSUM)
            computed = [crc32(part[:at], crc) for crc in before] if at >= 0 else []
            end = _END.fullmatch(part, at) if at >= 0 else _DIGITS.search(part[-13:])
            stated = None if end is None else int(end[1])
            is_whole = stated in computed
            yield number, part, is_whole
            # Of a damaged line either the object or what it says of itself may be right.
            before = [crc for crc in (stated, *([] if is_whole else computed[:2])) if crc is not None] or before


def whole_at_end(tail: bytes) -> bool:
    """Return whether text behind the last newline is more than the begin of a line: then that newline was damaged."""
    return _MERGED.search(tail) is not None or re.search(rb',"crc":\d{1,10}\}.', tail, re.DOTALL) is not None


def _checksum(text: pa.Buffer) -> int:
    crc, rest = 0, b""
    for block in _blocks(text):
        whole = rest + block
        end = whole.rfind(b"\n") + 1
        crc = crc32(_ENDS.sub(b"", whole[:end]), crc)
        rest = whole[end:]
    return crc32(rest, crc)


def _blocks(text: pa.Buffer) -> Iterator[bytes]:
    for begin in range(0, text.size, _BLOCK):
        yield text.slice(begin, min(_BLOCK, text.size - begin)).to_pybytes()
