"""Sequence: order and times of events in files that give the order only by their lines.

Jepsen writes events in the order in which they happened, and its clocks may lag behind that order. The order of the file is
therefore authoritative, and times are moved forward by the minimum that makes them increase. Events without a process are
paired by `f` and value; every such operation gets a process of its own.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.gather import gather
from schemaquake.harness.history.lean_mops import widen
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, LEAN_MOPS

__all__ = ["sequenced"]

_PROCESSES_MOST: Final = (1 << 31) - 1
_COMPILED_FROM: Final = 1 << 17  # events


def sequenced(raw: pa.Table, name: str) -> pa.Table:
    """Build the history (`schemaquake.harness.model.records.HISTORY`) from a file's events (`schemaquake.results.formats.op_maps.RAW` or `LEAN_RAW`).

    Raises HistoryError, with the line, for an impossible sequence: a completion without an invocation, two invocations without
    a completion between them, an invocation after an info; and for a duplicate index.
    """
    raw, index = _by_index(raw, name)
    if raw["process"].null_count and raw["mops"].type == LEAN_MOPS:  # operations are told apart by what is in them
        raw = raw.set_column(raw.schema.get_field_index("mops"), "mops", widen(raw["mops"]))
    processes = _own_processes(raw, name) if raw["process"].null_count else raw["process"].to_numpy()
    _refuse_what_no_process_can_do(raw, processes, name)
    columns = {
        "index": _whole_numbers(index, pa.int64()),
        "time": _whole_numbers(_strictly_increasing(raw["time"]), pa.int64()),
        "process": _whole_numbers(processes.astype(np.int32), pa.int32()),
    }
    filled = [columns[field.name] if field.name in columns else raw[field.name] for field in HISTORY]
    schema = HISTORY.set(HISTORY.get_field_index("mops"), raw.schema.field("mops"))
    return pa.Table.from_arrays(filled, schema=schema.with_metadata(raw.schema.metadata))


def _whole_numbers(values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Make an Arrow array of the same memory. `pa.array` would import NumPy's masked arrays, a tenth of the work of a small check."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def _by_index(raw: pa.Table, name: str) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Sort the events by the file's indices. If an index is missing, keep the order of the file."""
    if raw["index"].null_count or not len(raw):
        return raw, np.arange(len(raw))
    index: npt.NDArray[np.int64] = raw["index"].to_numpy()
    if np.all(np.diff(index) > 0):
        return raw, index
    order = np.argsort(index, kind="stable")
    index = index[order]
    twice = np.flatnonzero(np.diff(index) == 0)
    if len(twice):
        at = int(order[twice[0] + 1])
        raise _refusal(raw, name, at, f"index {index[twice[0]]} occurs twice")
    return gather(raw, order), index


def _strictly_increasing(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return times (ns) moved forward by the minimum that makes them strictly increasing; 0, 1, 2 and so on if there are none."""
    steps = np.arange(len(column), dtype=np.int64)
    if column.null_count == len(column):
        return steps
    if column.null_count:
        column = pc.fill_null(pc.fill_null_forward(column), int(pc.min(column).as_py()))
    times: npt.NDArray[np.int64] = np.maximum.accumulate(column.to_numpy() - steps) + steps
    return times


# ── what no process can have done ────────────────────────────────────────────────────────────────────────────────────


def _refuse_what_no_process_can_do(raw: pa.Table, processes: npt.NDArray[np.int64], name: str) -> None:
    if len(processes) >= _COMPILED_FROM:
        from schemaquake.results.formats.possible import is_possible  # noqa: PLC0415 - small files need no compiler

        names = _codes(raw["f"])
        if is_possible(processes, codes(raw["type"], ("invoke", "ok", "fail", "info")), names):
            return
    place = np.flatnonzero(processes != NEMESIS)
    place = place[stable_order(processes[place])]
    follows = np.diff(processes[place], prepend=NEMESIS) == 0
    kinds = codes(raw["type"], ("invoke", "ok", "fail", "info"))[place]
    functions = _codes(raw["f"])[place]
    invokes = kinds == 0
    # The first event has no predecessor, so the value that `roll` wraps around is never used.
    after_invoke = follows & np.roll(invokes, 1)
    after_info = follows & np.roll(kinds == 3, 1)
    other = np.roll(functions, 1) != functions
    wrong = np.where(invokes, after_invoke | after_info, ~after_invoke | other)
    suspects = np.flatnonzero(wrong)
    if not len(suspects):
        return
    at = int(suspects[np.argmin(place[suspects])])
    here, before = int(place[at]), int(place[at - 1])
    who = f"process {processes[here]}"
    what = raw["f"][here].as_py()
    if not invokes[at]:
        kind = raw["type"][here].as_py()
        if not after_invoke[at]:
            raise _refusal(raw, name, here, f"{kind} of {what} by {who}, which it did not invoke")
        asked = raw["f"][before].as_py()
        raise _refusal(raw, name, here, f"{kind} of {what} by {who}, which invoked {asked} (line {_line(raw, before)})")
    if after_invoke[at]:
        reason = f"{who} invokes {what} while its operation of line {_line(raw, before)} is still open"
    else:
        reason = f"{who} invokes {what} after its info of line {_line(raw, before)}, which may still be running"
    raise _refusal(raw, name, here, reason)


def _refusal(raw: pa.Table, name: str, at: int, reason: str) -> HistoryError:
    return HistoryError(f"{name}, line {_line(raw, at)}: {reason}.")


def _line(raw: pa.Table, at: int) -> int:
    return int(raw["line"][at].as_py())


def stable_order(numbers: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the order of a stable sort. Small numbers are sorted by counting, ten times faster."""
    if len(numbers) and numbers.min() >= 0 and numbers.max() < 1 << 16:
        numbers = numbers.astype(np.uint16)
    order: npt.NDArray[np.int64] = np.argsort(numbers, kind="stable")
    return order


def codes(column: pa.ChunkedArray, names: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Map each name to its position in `names`."""
    plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    found: npt.NDArray[np.int64] = pc.index_in(plain, pa.array(names)).to_numpy()
    return found


def _codes(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    unified = pa.chunked_array(column.unify_dictionaries().chunks, type=column.type)
    joined = unified.combine_chunks()
    found: npt.NDArray[np.int64] = joined.indices.to_numpy()
    return found


# ── events without a process ─────────────────────────────────────────────────────────────────────────────────────────


def _own_processes(raw: pa.Table, name: str) -> npt.NDArray[np.int64]:
    """Return processes, with a new one for each operation whose events name none.

    A completion belongs to the only open operation that matches its `f`, and if there are several, its invocation's value.
    Raises HistoryError if none or more than one matches.
    """
    given = raw["process"].to_pylist()
    following = max((process for process in given if process is not None), default=-1) + 1
    kinds, functions, values, mops = (raw[column].to_pylist() for column in ("type", "f", "value", "mops"))
    open_operations: dict[str, list[tuple[int, Any]]] = defaultdict(list)
    processes = np.zeros(len(raw), np.int64)
    for at, process in enumerate(given):
        if process is not None:
            processes[at] = process
            continue
        waiting = open_operations[functions[at]]
        asked = _invocation_value(values[at], mops[at])
        if kinds[at] == "invoke":
            processes[at] = following
            waiting.append((following, asked))
            following += 1
            continue
        fitting = waiting if len(waiting) == 1 else [entry for entry in waiting if entry[1] == asked]
        if len(fitting) != 1:
            which = f"any of {len(waiting)} operations" if waiting else "nothing that was invoked"
            raise _refusal(
                raw, name, at, f"{kinds[at]} of {functions[at]} without a process, which could complete {which}"
            )
        processes[at] = fitting[0][0]
        waiting.remove(fitting[0])
    if following > _PROCESSES_MOST:
        raise HistoryError(f"{name}: more operations without a process than can be numbered.")
    return processes


def _invocation_value(value: str | None, mops: list[dict[str, Any]] | None) -> Any:
    """Return the part of an event that is equal in an operation's invocation and completion: everything but the values read."""
    if mops is None:
        return value
    return [(mop["f"], mop["k"], None if mop["f"] == "r" else mop["v"]) for mop in mops]
