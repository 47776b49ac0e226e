"""Example: calls on two registers, one for each way to judge them, as in `schemaquake.checkers.elle.example`."""

from __future__ import annotations

from typing import Final

import orjson
import pyarrow as pa

from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import HISTORY

__all__ = ["example_history"]

_CALLS: Final[tuple[tuple[str, str, JSON, JSON], ...]] = (
    ("ks.r/1", "write", 1, 1),
    ("ks.r/1", "read", None, 1),
    ("ks.r/2", "write", 1, 1),
    ("ks.r/2", "cas", [1, 2], [1, 2]),
    ("ks.r/2", "write", 1, 1),
    ("ks.r/2", "read", None, 1),
)
"""Key, function, what is asked, what is answered. Every value of the first register is written once."""


def example_history() -> pa.Table:
    """Make a history of calls one after another, by two processes. Linearizable."""
    rows: list[dict[str, JSON]] = []
    for number, (key, f, asked, answer) in enumerate(_CALLS):
        for kind, value in (("invoke", asked), ("ok", answer)):
            at = len(rows)
            event = {"index": at, "time": at, "process": number % 2, "type": kind, "f": f, "key": key}
            rows.append({**event, "value": orjson.dumps(value).decode()})
    return pa.Table.from_pylist(rows, schema=HISTORY)
