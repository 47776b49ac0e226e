"""Parts: rows shared out among those who will need them, one file for all, a row group a part; and read by such references.

This is the exchange between steps. A row is written once and read once, by tasks; who starts them knows only references.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from schemaquake.results.engines.steps import Document

__all__ = ["by_part", "read_parts", "read_whole", "write_parts", "write_whole"]


def write_parts(path: Path, table: pa.Table, part: npt.NDArray[Any], count: int) -> list[Document | None]:
    """Write each row into the row group of its part; return the reference of each part, None for one without rows."""
    order = np.argsort(part, kind="stable")
    starts = np.searchsorted(part[order], np.arange(count + 1))
    references: list[Document | None] = []
    with _draft(path) as draft, pq.ParquetWriter(draft, table.schema, compression="lz4") as writer:
        groups = 0
        for begin, end in itertools.pairwise(starts):
            if begin == end:
                references.append(None)
                continue
            writer.write_table(table.take(pa.array(order[begin:end])), row_group_size=int(end - begin))
            references.append({"file": str(path), "group": groups})
            groups += 1
    return references


def read_parts(references: Iterable[Document | None], schema: pa.Schema) -> pa.Table:
    """The rows that are referred to, one part after another."""
    tables = [schema.empty_table()]
    for reference in references:
        if reference is not None:
            with pq.ParquetFile(reference["file"]) as file:
                tables.append(file.read_row_group(reference["group"]).cast(schema))
    return pa.concat_tables(tables)


def by_part(written: Sequence[Sequence[Document | None]], part: int) -> list[Document]:
    """The references of one part in all files."""
    found = (references[part] for references in written)
    return [reference for reference in found if reference is not None]


def write_whole(path: Path, table: pa.Table) -> str:
    """Write a table of few rows; return the file's name."""
    with _draft(path) as draft:
        pq.write_table(table, draft, compression="lz4")
    return str(path)


def read_whole(files: Iterable[str], schema: pa.Schema) -> pa.Table:
    """The rows of such files."""
    return pa.concat_tables([schema.empty_table(), *(pq.read_table(file).cast(schema) for file in files)])


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """Where to write what is then at `path`, whole or not at all: a task may be killed, and tried again elsewhere.

    Nothing of this has to survive a power cut, so unlike `schemaquake.results.store.atomic` it does not wait for the disk.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
