"""A little language for histories of data: one line an event, the n-th at n ms.

p0 invoke write 3        p0 ok               a completion repeats what was asked, unless it says something else
p1 invoke read k=x       p1 ok 3             of key x; the completion is of the same key
p2 invoke cas [3,4]      p2 info             values are JSON
@2 p0 ok                 at 2 ms; lines after it go on from there, and indices follow the lines
-- fault-begins {"id": 0, "nodes": ["n1"]}   a note
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from schemaquake.harness.model.records import HISTORY, Records

__all__ = ["data_records"]

_LINE = re.compile(
    r"(?:@(?P<at>[\d.]+) )?"
    r"(?:(?:p(?P<process>\d+) (?:(?P<node>n\d) )?(?P<invokes>invoke)|--) (?P<f>[a-z][a-z-]*)"
    r"|p(?P<answers>\d+) (?P<type>ok|fail|info))"
    r"(?: k=(?P<key>\S+))?(?: !(?P<error>\w+))?(?: (?P<value>.+))?"
)


def data_records(*lines: str) -> Records:
    """What a checker judges, from one line an event."""
    rows: list[dict[str, Any]] = []
    asked: dict[str, dict[str, Any]] = {}
    time_ms = 0.0
    for index, line in enumerate(lines):
        found = _LINE.fullmatch(line)
        assert found is not None, line
        time_ms = float(found["at"]) if found["at"] else time_ms + 1
        row = {
            "index": index,
            "time": int(time_ms * 1e6),
            "value": found["value"],
            "error": found["error"],
            "mops": None,
        }
        if found["answers"] is not None:
            before = asked[found["answers"]]
            value = found["value"] or before["value"]
            rows.append({**before, **row, "type": found["type"], "value": value})
        elif found["process"] is None:
            rows.append({**row, "process": -1, "type": "info", "f": found["f"]})
        else:
            who = {"process": int(found["process"]), "node": found["node"], "key": found["key"], "f": found["f"]}
            asked[found["process"]] = {**row, **who, "type": "invoke"}
            rows.append(asked[found["process"]])
    return Records.of(pa.Table.from_pylist(rows, schema=HISTORY))
