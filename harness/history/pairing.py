"""History: from one row an event to one row an operation.

Source of the rules: a process is sequential; `invoke` is followed by at most one completion of the same process, and a
process whose operation ended in `info` never invokes again (its worker goes on under a new number).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.gather import gather_column
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import MOPS

__all__ = ["OPERATIONS", "ends", "pair", "positions_among"]

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
_Codes: TypeAlias = np.ndarray[Any, np.dtype[np.int8]]
_Positions: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
_Rows: TypeAlias = np.ndarray[Any, np.dtype[np.int32]] | _Positions
"""Positions in as few bytes as possible: there may be ten million of them."""

_TYPES: Final = ("invoke", "ok", "fail", "info")
_INVOKE, _INFO = 0, 3

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


def pair(events: pa.Table, *, known_ends: tuple[_Positions, _Positions] | None = None) -> pa.Table:
    """Pair events to one row an operation (`OPERATIONS`, ordered by `index`).

    `events` is sorted by `index`. An operation that never completed, or whose outcome is unknown, has type `info`;
    only the former has a null `completed` (an `info` that was recorded still says when its client gave up).
    Events of process −1 are not operations and are left out. `known_ends` is what `ends` returns of them, if that is known.
    Raises HistoryError if a process completes what it did not invoke, invokes twice without completing, or goes on
    after an `info`: names the process and the indices.
    """
    if not len(events):
        return OPERATIONS.empty_table()
    invocation, completion = known_ends or ends(events)
    return _operations(events, invocation=invocation, completion=completion, absent=completion < 0)


def ends(events: pa.Table) -> tuple[_Positions, _Positions]:
    """Return the positions in `events` of each operation's invocation, increasing, and of its completion (−1: none).

    For checkers that need only a few columns of millions of the rows of `pair`. Raises HistoryError as `pair` does.
    """
    processes = events["process"].to_numpy()
    types = positions_among(events["type"], _TYPES)
    # Each process' events one after another, in their own order: an invocation stands right before its completion.
    place = _stable_order(processes)
    if (processes == NEMESIS).any():
        place = place[processes[place] != NEMESIS]
    sorted_processes = processes[place]
    follows = np.zeros(len(place), bool)
    follows[1:] = sorted_processes[1:] == sorted_processes[:-1]
    del sorted_processes
    _refuse_what_no_process_can_do(events, place, follows, types[place])

    invokes = types[place] == _INVOKE
    before = np.flatnonzero(invokes[:-1] & follows[1:] & ~invokes[1:])
    completion = np.full(len(events), -1, place.dtype)
    completion[place[before]] = place[before + 1]
    invocation = np.flatnonzero((types == _INVOKE) & (processes != NEMESIS))
    return invocation, completion[invocation].astype(np.int64)


def _refuse_what_no_process_can_do(events: pa.Table, place: _Rows, follows: _Mask, types: _Codes) -> None:
    """Raise HistoryError for the first event, by index, that its process cannot have made.

    `follows` says which events have an earlier one of the same process, which then stands right before them.
    """
    invokes = types == _INVOKE
    after_invoke = follows & np.roll(invokes, 1)
    names = _codes(events["f"])[place]
    renamed = np.zeros(len(place), bool)
    renamed[1:] = names[1:] != names[:-1]
    wrong = np.where(invokes, after_invoke | (follows & np.roll(types == _INFO, 1)), ~after_invoke | renamed)
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
    """Gather the columns of `OPERATIONS` from the positions of both events; where `absent`, there is no completion."""
    first = pa.array(invocation)
    second = pa.array(completion, mask=absent)
    columns = {name: gather_column(events[source], first) for name, source in _FROM_INVOCATION.items()}
    columns |= {name: gather_column(events[source], second) for name, source in _FROM_COMPLETION.items()}
    columns["type"] = pc.fill_null(columns["type"].cast(pa.string()), "info")
    # A client that filled in its reads says so in the completion; otherwise the invocation's micro-operations stand.
    filled = pc.fill_null(gather_column(events["mops"].is_valid(), second), fill_value=False)
    mops_from = np.where(filled.to_numpy(zero_copy_only=False), completion, invocation)
    columns["mops"] = gather_column(events["mops"], pa.array(mops_from))
    typed = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for field in OPERATIONS
        for column in (columns[field.name],)
    ]
    return pa.Table.from_arrays(typed, schema=OPERATIONS)


def _stable_order(numbers: _Positions) -> _Rows:
    """Return the order of a stable sort. Sixteen bits at a time are sorted by counting, ten times faster than by comparison."""
    if not len(numbers):
        return np.zeros(0, np.int32)
    least, most = int(numbers.min()), int(numbers.max())
    if most - least >= 1 << 32:
        return np.argsort(numbers, kind="stable")
    rows: Any = np.int32 if len(numbers) < 1 << 31 else np.int64
    from_least = (numbers - numbers.dtype.type(least)).astype(np.uint32)
    order: _Rows = np.argsort(from_least.astype(np.uint16), kind="stable").astype(rows)
    if most - least >= 1 << 16:
        order = order[np.argsort((from_least >> np.uint32(16)).astype(np.uint16)[order], kind="stable")]
    return order


def positions_among(column: pa.ChunkedArray, names: Sequence[str]) -> _Codes:
    """Return each text's position in `names`, −1 for any other text."""
    if not pa.types.is_dictionary(column.type):
        found: _Codes = pc.fill_null(pc.index_in(column, pa.array(names)), -1).to_numpy().astype(np.int8)
        return found
    parts = [np.zeros(0, np.int8)]
    for chunk in column.chunks:
        known = [names.index(name) if name in names else -1 for name in chunk.dictionary.to_pylist()]
        indices = pc.fill_null(chunk.indices, len(known)) if chunk.null_count else chunk.indices
        parts.append(np.array([*known, -1], np.int8)[indices.to_numpy()])
    return np.concatenate(parts)


def _codes(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Encode a column of few distinct texts as numbers, equal where the texts are."""
    joined = column.combine_chunks()
    encoded = joined if pa.types.is_dictionary(column.type) else joined.dictionary_encode()
    codes: np.ndarray[Any, Any] = encoded.indices.to_numpy()
    return codes.astype(np.uint8) if len(encoded.dictionary) < 1 << 8 else codes
