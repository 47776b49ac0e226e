"""Example: a history of four transactions, to be judged while the history that matters is still being read.

Compiled code is loaded where it is first called, which takes most of a second; reading a long history takes another.
"""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa

from schemaquake.harness.model.records import HISTORY

__all__ = ["example_history"]


def example_history(write: Literal["append", "w"]) -> pa.Table:
    """Two writes of one key and two reads, by two processes: lists for `append`, registers for `w`. Strictly serializable."""
    rows: list[dict[str, Any]] = []
    for process, (f, value) in enumerate([(write, 1), ("r", 1), (write, 2), ("r", 2)]):
        reads = f == "r"
        seen = {"v": None if write == "append" else value, "vs": [*range(1, value + 1)] if write == "append" else None}
        asked = {"f": f, "k": 0, "v": None if reads else value, "vs": None}
        answer = asked | seen if reads else asked
        for kind, mop in (("invoke", asked), ("ok", answer)):
            index = len(rows)
            rows.append(
                {"index": index, "time": index, "process": process % 2, "type": kind, "f": "txn", "mops": [mop]}
            )
    return pa.Table.from_pylist(rows, schema=HISTORY)
