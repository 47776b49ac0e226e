"""Memory: the bytes available for judging, and the bytes that a history in a file takes."""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path
from typing import Final

__all__ = ["allowed_bytes", "fits_at_once", "history_bytes", "piece_bytes", "pieces"]

_SHARE: Final = 0.75  # of the available memory; the rest is the system's
_CGROUP: Final = Path("/sys/fs/cgroup/memory.max")
# Measured on a million transactions: a check takes this multiple of its history, or of the current piece.
_TIMES: Final = 2.3
_TIMES_OF_A_PIECE: Final = 4.5
_ALWAYS: Final = 150 << 20  # bytes of the interpreter, pyarrow and compiled code
_ALWAYS_IN_PIECES: Final = 280 << 20
_EXPANSION: Final = 20
"""Bytes of a history in memory for each byte of its file, rather too many."""
_PIECES_MOST: Final = 4096
_PIECE_MOST: Final = 8 << 30  # Arrow counts the elements of lists with 32 bits


def allowed_bytes() -> int:
    """Return three quarters of the machine's memory, or of this process' limit if that is less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [physical]
    if _CGROUP.exists():
        text = _CGROUP.read_text(encoding="ascii").strip()
        limits += [int(text)] if text.isdigit() else []
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    limits += [address_space] if address_space != resource.RLIM_INFINITY else []
    return int(min(limits) * _SHARE)


def history_bytes(file: Path, *, parquet: bool) -> int:
    """Estimate the bytes of memory for a file's history as a table, rather too many. Raises HistoryError."""
    # Both load Arrow, which the other functions do without.
    from schemaquake.results.formats.compression import content_bytes  # noqa: PLC0415
    from schemaquake.results.store.parquet_footer import row_groups  # noqa: PLC0415

    if not parquet:
        return content_bytes(file)  # as text, a value takes about as many bytes
    return sum(group.size for group in row_groups(file))


def fits_at_once(file_bytes: int, allowed: int) -> bool:
    """Return True if the history in a Parquet file of this size fits into memory, whatever its footer says."""
    return pieces(_EXPANSION * file_bytes, allowed) == 1


def pieces(history: int, allowed: int) -> int:
    """Return the number of pieces in which a history of this size fits into memory; 1: it fits as a whole."""
    if _ALWAYS + _TIMES * history <= allowed:
        return 1
    return min(max(2, math.ceil(history / piece_bytes(allowed))), _PIECES_MOST)


def piece_bytes(allowed: int) -> int:
    """Return the size in bytes of a piece that can be judged in so much memory."""
    return min(int(max(allowed - _ALWAYS_IN_PIECES, 16 << 20) / _TIMES_OF_A_PIECE), _PIECE_MOST)
