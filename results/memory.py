"""Memory: how much there is to judge a history with, and how much a history in a file takes."""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HistoryError

__all__ = ["allowed_bytes", "history_bytes", "pieces"]

_SHARE: Final = 0.75  # of what there is; the rest is the system's
_CGROUP: Final = Path("/sys/fs/cgroup/memory.max")
_VALUE: Final = 8  # bytes of a value in memory; texts are mostly shorter, and have an offset besides
# Measured on a million transactions: what a check takes is so many times its history, or the piece that it is at.
_TIMES: Final = 2.3
_TIMES_OF_A_PIECE: Final = 4.5
_ALWAYS: Final = 150 << 20  # the interpreter, pyarrow and what is compiled
_ALWAYS_IN_PIECES: Final = 280 << 20
_PIECES_MOST: Final = 4096


def allowed_bytes() -> int:
    """Three quarters of the machine's memory, or of what this process is allowed where that is less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [physical]
    if _CGROUP.exists():
        text = _CGROUP.read_text(encoding="ascii").strip()
        limits += [int(text)] if text.isdigit() else []
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    limits += [address_space] if address_space != resource.RLIM_INFINITY else []
    return int(min(limits) * _SHARE)


def history_bytes(file: Path, *, parquet: bool) -> int:
    """How much memory the history of a file takes as a table, at most about. Raises HistoryError."""
    if not parquet:
        return file.stat().st_size  # as text, a value takes about as many bytes
    try:
        metadata = pq.read_metadata(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise HistoryError(f"{file} is not a whole Parquet file ({error}).") from error
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return _VALUE * sum(int(group.column(at).num_values) for group in groups for at in range(group.num_columns))


def pieces(history: int, allowed: int) -> int:
    """In how many pieces a history of so many bytes is judged so that each of them fits; 1: it fits as a whole."""
    if _ALWAYS + _TIMES * history <= allowed:
        return 1
    room = max(allowed - _ALWAYS_IN_PIECES, 16 << 20)
    return min(max(2, math.ceil(_TIMES_OF_A_PIECE * history / room)), _PIECES_MOST)
