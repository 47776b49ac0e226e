"""History: from one row an event to one row an operation.

Source of the rules: a process is sequential; `invoke` is followed by at most one completion of the same process, and a
process whose operation ended in `info` never invokes again (its worker goes on under a new number).
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from harness.errors import HistoryError
from harness.operations import NEMESIS
from harness.records import MOPS, plain

__all__ = ["OPERATIONS", "pair"]

OPERATIONS: Final = pa.schema(
    [
        pa.field("index", pa.int64(), nullable=False),  # of the invocation
        pa.field("completion", pa.int64()),  # index of the completing event; null: it never completed
        pa.field("process", pa.int32(), nullable=False),
        pa.field("type", pa.string(), nullable=False),  # ok, fail, info
        pa.field("f", pa.string(), nullable=False),
        pa.field("node", pa.string()),
        pa.field("key", pa.string()),
        pa.field("invoked", pa.int64(), nullable=False),  # ns since the run started
        pa.field("completed", pa.int64()),  # null: it may take effect at any later time
        pa.field("argument", pa.string()),  # JSON, the value of the invocation
        pa.field("value", pa.string()),  # JSON, the value of the completion
        pa.field("error", pa.string()),
        pa.field("mops", MOPS),
    ]
)


def pair(events: pa.Table) -> pa.Table:
    """One row an operation (`OPERATIONS`, ordered by `index`), from one row an event.

    `events` is sorted by `index`. An operation that never completed, or whose outcome is unknown, has type `info`;
    only the former has a null `completed` (an `info` that was recorded still says when its client gave up).
    Events of process −1 are not operations and are left out.
    Raises HistoryError if a process completes what it did not invoke, invokes twice without completing, or goes on
    after an `info`: names the process and the indices.
    """
    rows = plain(events).to_pylist()
    open_operations: dict[int, dict[str, Any]] = {}
    retired: dict[int, int] = {}
    paired: list[dict[str, Any]] = []
    for event in rows:
        process = event["process"]
        if process == NEMESIS:
            continue
        if event["type"] == "invoke":
            if process in open_operations:
                raise HistoryError(
                    f"process {process} invokes at index {event['index']} while its operation of index "
                    f"{open_operations[process]['index']} is still open"
                )
            if process in retired:
                raise HistoryError(
                    f"process {process} invokes at index {event['index']} although its operation ended in info at "
                    f"index {retired[process]}: such a process is retired"
                )
            operation = {
                "index": event["index"],
                "completion": None,
                "process": process,
                "type": "info",
                "f": event["f"],
                "node": event["node"],
                "key": event["key"],
                "invoked": event["time"],
                "completed": None,
                "argument": event["value"],
                "value": None,
                "error": None,
                "mops": event["mops"],
            }
            open_operations[process] = operation
            paired.append(operation)
            continue
        invoked = open_operations.pop(process, None)
        if invoked is None:
            raise HistoryError(f"process {process} completes at index {event['index']} what it did not invoke")
        if invoked["f"] != event["f"]:
            raise HistoryError(
                f"process {process} completes {event['f']!r} at index {event['index']}, but invoked "
                f"{invoked['f']!r} at index {invoked['index']}"
            )
        if event["type"] == "info":
            retired[process] = event["index"]
        invoked |= {
            "completion": event["index"],
            "type": event["type"],
            "completed": event["time"],
            "value": event["value"],
            "error": event["error"],
            "mops": invoked["mops"] if event["mops"] is None else event["mops"],
        }
    return pa.Table.from_pylist(paired, schema=OPERATIONS)
