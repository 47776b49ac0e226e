"""Notes: what the conductor wrote into the history of what it did to the cluster, and what it saw.

A note is an `info` event of process −1: `phase`, `node-start`, `node-died`, `settle`, `race`, `fault-begins` …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from harness.operations import NEMESIS
from harness.records import plain

__all__ = ["Note", "notes"]


@dataclass(frozen=True, slots=True)
class Note:
    """One note. `time` is ns since the run started; `key` is a keyspace, where the note is about one."""

    f: str
    time: int
    node: str | None
    key: str | None
    value: dict[str, Any]


def notes(history: pa.Table, *fs: str) -> Sequence[Note]:
    """The notes of these kinds, in the history's order."""
    table = plain(history.select(["process", "f", "time", "node", "key", "value"]))
    wanted = pc.and_(pc.equal(table["process"], NEMESIS), pc.is_in(table["f"], value_set=pa.array(fs, pa.string())))
    return [
        Note(row["f"], row["time"], row["node"], row["key"], orjson.loads(row["value"]) if row["value"] else {})
        for row in table.filter(wanted).to_pylist()
    ]
