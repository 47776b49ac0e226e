"""Example: a history of four transactions, to be judged while the history that matters is still being read.

Compiled code is loaded where it is first called, which takes most of a second; reading a long history takes another.
"""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa

from schemaquake.harness.history.lean_mops import narrow
from schemaquake.harness.model.records import HISTORY

__all__ = ["example_history"]


def example_history(write: Literal["append", "w"], *last: int, lean: bool = False) -> pa.Table:
    """Make two writes of one key and two reads, by two processes: lists for `append`, registers for `w`. Strictly serializable.

    The reader then sees the values of `last`, which may be wrong: 1 has been overwritten, and 3 is never written. With `lean` the
    micro-operations are `LEAN_MOPS`.
    """
    rows: list[dict[str, Any]] = []
    reads_then = ((1, "r", value) for value in last)
    for process, f, value in ((0, write, 1), (1, "r", 1), (0, write, 2), (1, "r", 2), *reads_then):
        reads = f == "r"
        seen = {"v": None if write == "append" else value, "vs": [*range(1, value + 1)] if write == "append" else None}
        asked = {"f": f, "k": 0, "v": None if reads else value, "vs": None}
        answer = asked | seen if reads else asked
        for kind, mop in (("invoke", asked), ("ok", answer)):
            index = len(rows)
            event = {"index": index, "time": index, "process": process, "type": kind, "f": "txn", "mops": [mop]}
            rows.append(event)
    history = pa.Table.from_pylist(rows, schema=HISTORY)
    return history.set_column(HISTORY.get_field_index("mops"), "mops", narrow(history["mops"])) if lean else history
