"""Examination: a Parquet file that anybody may have made is read in a process of its own before it is read in this one.

Arrow raises for nearly every damage to a file, but a footer that contradicts itself can end the whole process, or ask for
all the machine's memory. The child reads everything there is, within limits of memory and time: if the file ends it,
that is an answer. A file with our seal is what we wrote, and is spared that.

`python -m schemaquake.results.store.examination FILE MEMORY SECONDS` is the child; it prints why the file is refused, or nothing.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from signal import Signals
from typing import Final

from schemaquake.results.store.parquet_footer import not_whole

__all__ = ["examine"]

_MEMORY_LEAST: Final = 4 << 30
_MEMORY_FACTOR: Final = 50
"""Bytes of memory for each byte of the file, at most: what repeats is stored once."""
_SECONDS_LEAST: Final = 60
_BYTES_A_SECOND: Final = 1 << 20
_PATIENCE: Final = 4
"""The multiple of its processor time that the child may take on a busy machine."""
_ROWS: Final = 1 << 16


def examine(path: Path) -> None:
    """Raise HistoryError for a file that a process cannot survive reading. Each state of a file is examined once.

    What a reader merely raises for is left to the reader. Raises FileNotFoundError.
    """
    status = path.stat()
    why = _fate(path.absolute(), status.st_ino, status.st_size, status.st_mtime_ns)
    if why is not None:
        raise not_whole(path, why)


@lru_cache(maxsize=64)
def _fate(path: Path, _inode: int, size: int, _modified_ns: int) -> str | None:
    """Return what became of a process that read the file; None if it survived."""
    seconds = _SECONDS_LEAST + size // _BYTES_A_SECOND
    memory = max(_MEMORY_LEAST, _MEMORY_FACTOR * size)
    argv = [sys.executable, "-P", "-m", "schemaquake.results.store.examination", str(path), str(memory), str(seconds)]
    # Threads of libraries would each reserve addresses, which count as memory here.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    try:
        child = subprocess.run(
            argv,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=_PATIENCE * seconds,
        )
    except subprocess.TimeoutExpired:
        return f"it is not read within {_PATIENCE * seconds} s"
    if child.returncode == 0:
        return child.stdout.decode(errors="replace").strip() or None
    code = child.returncode
    ended = Signals(-code).name if code < 0 else f"exit code {code}"
    return f"its footer contradicts itself: reading it ends a process ({ended})"


def _read_all(path: str, memory: int, seconds: int) -> str:
    """Read a file to its end within the limits. Returns the reason for refusing it, empty if there is none."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - the parent does not need it

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for group in range(file.num_row_groups):
                for column in range(file.metadata.num_columns):
                    str(file.metadata.row_group(group).column(column))
            for batch in file.iter_batches(batch_size=_ROWS, use_threads=False):
                batch.validate(full=True)
    except MemoryError:
        return f"it asks for more than {memory >> 20} MiB of memory"
    except Exception:  # noqa: BLE001 - the reader raises the same, and says it better
        return ""
    return ""


if __name__ == "__main__":
    sys.stdout.write(_read_all(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
