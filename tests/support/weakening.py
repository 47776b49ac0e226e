"""Runs some of whose answers never came."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from schemaquake.harness.model.records import HISTORY, Records


def weakened(records: Records, choices: st.DataObject) -> Records:
    """The same records, some answers of which never came."""
    rows = records.history.to_pylist()
    for row in rows:
        if row["type"] in {"ok", "fail"} and choices.draw(st.booleans()):
            row |= {"type": "info", "value": None, "error": "timed out"}
    return Records.of(pa.Table.from_pylist(rows, schema=HISTORY), records.observations)
