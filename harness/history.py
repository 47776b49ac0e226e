"""History: from one row an event to one row an operation.

Source of the rules: a process is sequential; `invoke` is followed by at most one completion of the same process, and a
process whose operation ended in `info` never invokes again (its worker goes on under a new number).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import HistoryError
from harness.gather import gather_column
from harness.operations import NEMESIS
from harness.records import MOPS

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

_Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
_Positions: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_FROM_INVOCATION: Final[Mapping[str, str]] = {
    "index": "index",
    "process": "process",
    "f": "f",
    "node": "node",
    "key": "key",
    "invoked": "time",
    "argument": "value",
}
_FROM_COMPLETION: Final[Mapping[str, str]] = {
    "completion": "index",
    "type": "type",
    "completed": "time",
    "value": "value",
    "error": "error",
}


def pair(events: pa.Table) -> pa.Table:
    """One row an operation (`OPERATIONS`, ordered by `index`), from one row an event.

    `events` is sorted by `index`. An operation that never completed, or whose outcome is unknown, has type `info`;
    only the former has a null `completed` (an `info` that was recorded still says when its client gave up).
    Events of process −1 are not operations and are left out.
    Raises HistoryError if a process completes what it did not invoke, invokes twice without completing, or goes on
    after an `info`: names the process and the indices.
    """
    processes = events["process"].to_numpy()
    # Each process' events one after another, in their own order: an invocation stands right before its completion.
    place = np.flatnonzero(processes != NEMESIS)
    place = place[np.argsort(processes[place], kind="stable")]
    follows = np.diff(processes[place], prepend=NEMESIS) == 0
    invokes = _where(events["type"], "invoke")[place]
    _refuse_what_no_process_can_do(events, place, follows, invokes)

    # The first event of all follows none, so what `roll` brings round from the other end is always False.
    completed = np.roll(follows & ~invokes, -1)
    order = np.argsort(place[invokes])
    return _operations(
        events,
        invocation=place[invokes][order],
        completion=np.roll(place, -1)[invokes][order],
        absent=~completed[invokes][order],
    )


def _refuse_what_no_process_can_do(events: pa.Table, place: _Positions, follows: _Mask, invokes: _Mask) -> None:
    """Raise HistoryError for the first event, by index, that its process cannot have made.

    `follows` says which events have an earlier one of the same process, which then stands right before them.
    """
    after_invoke = follows & np.roll(invokes, 1)
    after_info = follows & np.roll(_where(events["type"], "info")[place], 1)
    names = _codes(events["f"])[place]
    wrong = np.where(invokes, after_invoke | after_info, ~after_invoke | (names != np.roll(names, 1)))
    suspects = np.flatnonzero(wrong)
    if not len(suspects):
        return
    at = int(suspects[np.argmin(place[suspects])])
    event = events.slice(int(place[at]), 1).to_pylist()[0]
    process, index = event["process"], event["index"]
    if not invokes[at] and not after_invoke[at]:
        raise HistoryError(f"process {process} completes at index {index} what it did not invoke")
    before = events.slice(int(place[at - 1]), 1).to_pylist()[0]
    if not invokes[at]:
        raise HistoryError(
            f"process {process} completes {event['f']!r} at index {index}, but invoked {before['f']!r} at index "
            f"{before['index']}"
        )
    if after_invoke[at]:
        raise HistoryError(
            f"process {process} invokes at index {index} while its operation of index {before['index']} is still open"
        )
    raise HistoryError(
        f"process {process} invokes at index {index} although its operation ended in info at index "
        f"{before['index']}: such a process is retired"
    )


def _operations(events: pa.Table, *, invocation: _Positions, completion: _Positions, absent: _Mask) -> pa.Table:
    """The columns of `OPERATIONS` from the positions of both events; where `absent`, there is no second."""
    first = pa.array(invocation)
    second = pa.array(completion, mask=absent)
    columns = {name: gather_column(events[source], first) for name, source in _FROM_INVOCATION.items()}
    columns |= {name: gather_column(events[source], second) for name, source in _FROM_COMPLETION.items()}
    columns["type"] = pc.fill_null(columns["type"].cast(pa.string()), "info")
    # A client that filled in its reads says so in the completion; otherwise the invocation's micro-operations stand.
    filled = pc.fill_null(gather_column(events["mops"].is_valid(), second), fill_value=False)
    mops_from = np.where(filled.to_numpy(zero_copy_only=False), completion, invocation)
    columns["mops"] = gather_column(events["mops"], pa.array(mops_from))
    return pa.Table.from_arrays([columns[field.name].cast(field.type) for field in OPERATIONS], schema=OPERATIONS)


def _where(column: pa.ChunkedArray, value: str) -> _Mask:
    mask: _Mask = pc.equal(column, value).to_numpy(zero_copy_only=False)
    return mask


def _codes(column: pa.ChunkedArray) -> _Positions:
    """A column of few distinct texts as numbers, equal where the texts are."""
    joined = column.combine_chunks()
    codes: _Positions = (
        joined if pa.types.is_dictionary(column.type) else joined.dictionary_encode()
    ).indices.to_numpy()
    return codes
