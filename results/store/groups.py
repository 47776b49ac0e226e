"""Groups: row groups of a Parquet file, decoded by as many threads as there are cores, in their order.

Arrow decodes the columns of a table at the same time, but a history is one column of lists and little else. Each thread has the
file open for itself; at most as many stretches as there are threads are in memory before they are taken.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["THREADED_FROM", "read_stretches"]

THREADED_FROM: Final = 1 << 22
"""Bytes, uncompressed but encoded, from which on threads are worth their memory."""
_THREADS: Final = min(4, os.cpu_count() or 1)


def read_stretches(
    path: Path, file: pq.ParquetFile, stretches: Sequence[Sequence[int]], names: Sequence[str], **options: Any
) -> Iterator[pa.Table]:
    """Yield the tables of several row groups each. `file` is the open file at `path`, `options` those with which it was opened.

    Raises what Arrow raises.
    """
    size = sum(file.metadata.row_group(number).total_byte_size for numbers in stretches for number in numbers)
    count = min(_THREADS, len(stretches)) if size >= THREADED_FROM else 1
    if count < 2:
        for numbers in stretches:
            yield file.read_row_groups(list(numbers), list(names), use_threads=False)
        return
    with ExitStack() as stack:
        files: SimpleQueue[pq.ParquetFile] = SimpleQueue()
        for _ in range(count):
            files.put(stack.enter_context(pq.ParquetFile(path, metadata=file.metadata, **options)))
        pool = stack.enter_context(ThreadPoolExecutor(count, thread_name_prefix="row-groups"))
        under_way: deque[Future[pa.Table]] = deque()

        def read(numbers: Sequence[int]) -> pa.Table:
            one = files.get()
            try:
                return one.read_row_groups(list(numbers), list(names), use_threads=False)
            finally:
                files.put(one)

        try:
            for numbers in stretches:
                under_way.append(pool.submit(read, numbers))
                if len(under_way) > count:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()
