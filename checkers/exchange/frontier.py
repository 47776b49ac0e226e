"""Frontier: operations that begin in one range and end in another, put together by the process that starts the tasks.

A task pairs what begins and ends in its own range. What is left is a completion that is its process' first event there,
and an invocation that is its last: a few events a range and process. They are sent back, and paired once all are known.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.history.gather import gather_column, gather_in_order
from schemaquake.harness.history.pairing import ends
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY

__all__ = ["FRONTIER", "apart", "joined"]

_SAID: Final = frozenset({"value", "error", "mops"})
_Mask = npt.NDArray[np.bool_]

FRONTIER: Final = pa.schema(
    [*HISTORY, pa.field("row", pa.int64()), pa.field("range", pa.int32()), pa.field("open", pa.bool_())]
)
"""Events of a frontier: where they stand in the whole history, and whether their other half lies in another range.

The first event of a process in a range and its last two are there as well: who joins the ranges sees what follows what.
"""


def apart(events: pa.Table, rows: npt.NDArray[np.int64], number: int) -> tuple[_Mask, pa.Table]:
    """Separate the events of operations that begin and end in a range (or of the nemesis) from its `FRONTIER`."""
    process = events["process"].to_numpy()
    place = np.flatnonzero(process != NEMESIS)
    place = place[np.argsort(process[place], kind="stable")]
    of = process[place]
    first = np.diff(of, prepend=NEMESIS) != 0
    last = np.append(first[1:], True) if len(first) else first
    invokes = pc.equal(events["type"].cast(pa.string()), "invoke").to_numpy(zero_copy_only=False)[place]
    is_open = (first & ~invokes) | (last & invokes)
    before_last = np.append(last[1:], False) if len(last) else last
    before_last &= ~last
    whole = np.ones(len(events), np.bool_)
    whole[place[is_open]] = False
    kept = np.sort(place[first | last | before_last])
    # Of those that are only there to be followed it does not matter what they said, which may be much.
    open_ones = ~whole[kept]
    said = pa.array(np.cumsum(open_ones) - 1, mask=~open_ones)
    columns = [
        *(
            gather_column(gather_in_order(events[name], kept[open_ones]), said)
            if name in _SAID
            else gather_in_order(events[name], kept)
            for name in HISTORY.names
        ),
        pa.array(rows[kept]),
        pa.array(np.full(len(kept), number, np.int32)),
        pa.array(open_ones),
    ]
    return whole, pa.Table.from_arrays(columns, schema=FRONTIER)


def joined(frontiers: pa.Table) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Join the open events of all ranges, as `HISTORY`, and the row of each; operations can be paired among them.

    Raises HistoryError for a process that goes on in another range as no process can.
    """
    known = frontiers.sort_by("row")
    _refuse_what_cannot_follow(known)
    left = known.filter(known["open"])
    return left.select(HISTORY.names).cast(HISTORY), left["row"].to_numpy()


def _refuse_what_cannot_follow(known: pa.Table) -> None:
    """Refuse an invocation in a later range after one that is still open, or after an `info`; the rest is seen when pairing."""
    process, number = known["process"].to_numpy(), known["range"].to_numpy()
    order = np.lexsort((known["row"].to_numpy(), process))
    steps = np.flatnonzero((np.diff(process[order]) == 0) & (np.diff(number[order]) > 0))
    types = np.array(known["type"].cast(pa.string()).to_pylist(), object)[order]
    wrong = steps[np.isin(types[steps], ("invoke", "info")) & (types[steps + 1] == "invoke")]
    if len(wrong):
        at = min(wrong, key=lambda step: int(order[step + 1]))
        begins = at - 1 if types[at] == "info" else at
        ends(_events(known, order[begins : at + 2]))
        raise AssertionError("a process went on as none can, and pairing did not mind")


def _events(known: pa.Table, positions: Any) -> pa.Table:
    return known.take(pa.array(positions)).select(HISTORY.names).cast(HISTORY)
