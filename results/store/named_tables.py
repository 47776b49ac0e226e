"""Named tables: Parquet files that a user names, refused in words if they are not there, or hold something else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from schemaquake.harness.errors import HistoryError
from schemaquake.results.store.store import read_table

__all__ = ["read_named_table"]


def read_named_table(path: Path, schema: pa.Schema, *, rows: str, usual: str, needed: Sequence[str]) -> pa.Table:
    """Read a file as a table of `schema`, whose columns `needed` must have values.

    `rows` is what its rows are, such as "runs of a matrix", and `usual` what to name instead, such as "the runs.parquet of a
    matrix", both for errors. Raises HistoryError for a file that is not there, cannot be read, or has other rows.
    """
    try:
        table = read_table(path, schema)
    except OSError as error:
        why = "it is not there" if isinstance(error, FileNotFoundError) else error.strerror or error
        raise HistoryError(f"{path} cannot be read: {why}. Name {usual}") from error
    lacking = [name for name in needed if len(table) and table[name].null_count == len(table)]
    if lacking:
        columns = f"column{'s' * (len(lacking) > 1)} {', '.join(lacking)}"
        raise HistoryError(f"{path} has no {rows}: it lacks the {columns}. Name {usual}")
    return table
